"""Highlights of a text: which sentences, and which places in them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rag_bm25 import BM25Index, Fragment, Highlighting, Hit, IndexConfig, ParameterError
from rag_bm25.analysis import Analyzer, TextAnalyzer
from rag_bm25.hits.highlights import Highlighter
from rag_bm25.hits.options import check_options

ANALYZER = Analyzer()


def highlight(weights: Mapping[str, float], text: str, max_fragments: int = 9, size: int = 200) -> list[Fragment]:
    return list(Highlighter(ANALYZER, weights, Highlighting(max_fragments, size)).highlight(text))


def show(fragment: Fragment) -> str:
    """Return a fragment with brackets around its marks."""
    text = fragment.text
    for start, end in reversed(fragment.marks):
        start, end = start - fragment.start, end - fragment.start
        text = f"{text[:start]}[{text[start:end]}]{text[end:]}"
    return text


def shown(text: str, *terms: str, size: int = 200) -> list[str]:
    """Return the fragments with terms that weigh the same, in text order."""
    found = highlight(dict.fromkeys(terms, 1.0), text, size=size)
    return [show(fragment) for fragment in sorted(found, key=lambda fragment: fragment.start)]


@pytest.mark.parametrize(
    ("text", "term", "marked"),
    [
        ("नदी किनारे हिन्दी में", "हिन्दी", "नदी किनारे [हिन्दी] में"),
        ("لغة العَرَبِيَّةُ هنا", "العربية", "لغة [العَرَبِيَّةُ] هنا"),
        ("ฉันชอบภาษามาก", "ษา", "ฉันชอบภา[ษา]มาก"),
        ("ให้น้ำที่นี่", "น้ํา", "ให้[น้ำ]ที่นี่"),
        ("un cafe\u0301 noir", "cafe", "un [cafe\u0301] noir"),
        ("解除劳动合\n同的", "劳动合同", "解除[劳动合\n同]的"),
        ("人⻛险", "风险", "人[⻛险]"),
    ],
)
def test_a_mark_covers_all_that_belongs_to_a_word(text: str, term: str, marked: str) -> None:
    assert shown(text, term) == [marked]


@pytest.mark.parametrize(
    ("text", "term"), [(f"{'किन्तु' * 9} हिन्दी {'किन्तु' * 9}", "हिन्दी"), (f"{'นี่' * 20}ที่{'นี่' * 20}", "ที่นี่")]
)
def test_no_fragment_is_cut_before_the_marks_of_a_letter(text: str, term: str) -> None:
    for size in range(20, 50):
        (fragment,) = highlight({term: 1.0}, text, size=size)
        borders = text[fragment.start] + text[fragment.end]
        assert not [char for char in borders if unicodedata.category(char).startswith("M")]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One fig. Two! Yes. Fig three?", ["One [fig].", "[Fig] three?"]),
        ("第一条 合同成立。第二条“合同解除。”第三条", ["第一条 [合同]成立。", "第二条“[合同]解除。”"]),
        ("合同成立；合同解除！合同", ["[合同]成立；", "[合同]解除！", "[合同]"]),
        ("A fig, e.g. one. Mr. Fig has 3.5 figs. Fig", ["A [fig], e.g. one.", "Mr. [Fig] has 3.5 [figs].", "[Fig]"]),
        ("The fig in the\nmiddle of a line\n\nfig\nFig", ["The [fig] in the\nmiddle of a line", "[fig]", "[Fig]"]),
        ("# Figs\n\n1. Fig one\n2. Fig two", ["# [Figs]", "1. [Fig] one", "2. [Fig] two"]),
        ("  fig  ", ["[fig]"]),
        ("J. R. Fig wrote it. It", ["J. R. [Fig] wrote it."]),
        ("nothing here", []),
        ("", []),
    ],
)  # fmt: skip
def test_a_text_is_cut_at_sentences(text: str, sentences: list[str]) -> None:
    assert shown(text, "fig", "合同") == sentences


def test_no_sentence_ends_within_a_bigram_of_words() -> None:
    text = "Of information\nRetrieval and\nOther things"
    assert shown(text, "\0inform retriev") == ["Of [information\nRetrieval] and"]


def test_overlapping_places_are_one_mark_and_neighbours_are_two() -> None:
    assert shown("解除劳动合同的", "劳动", "合同", "\0劳动", "\0动合", "\0合同") == ["解除[劳动合同]的"]
    assert shown("解除劳动合同的", "劳动", "合同") == ["解除[劳动][合同]的"]
    assert shown("in iPhone15 Pro", "iphone15", "iphon", "15") == ["in [iPhone15] Pro"]


def test_a_part_of_a_word_is_marked_though_a_character_of_it_is_a_stop_word_of_queries() -> None:
    with BM25Index.open(":memory:", "docs", config=IndexConfig(chunk_size=9)) as index:
        index.add(["社会发展", "他的合同"])
        (of_word,) = index.search("我的社会保险", highlight=True)[:1]
        assert [show(fragment) for fragment in of_word.highlights or ()] == ["[社会]发展"]
        (across,) = index.highlight("我的合同", "的合 的合同")
        assert show(across) == "的合 的[合同]"


def test_the_best_fragments_have_the_highest_weights_of_distinct_terms() -> None:
    text = "Plum plum plum. Fig and plum. Pear pear. Plum again."
    weights = {"plum": 1.0, "fig": 2.0, "pear": 1.5}
    found = highlight(weights, text)
    assert [(show(one), one.score) for one in found] == [
        ("[Fig] and [plum].", 3.0),
        ("[Pear] [pear].", 1.5),
        ("[Plum] [plum] [plum].", 1.0),
        ("[Plum] again.", 1.0),
    ]
    assert highlight(weights, text, max_fragments=2) == found[:2]


def test_a_long_sentence_is_cut_around_the_terms_that_weigh_most() -> None:
    text = "fig " + "stem " * 30 + "pear plum " + "stem " * 30 + "fig pear"
    found = highlight({"fig": 1.0, "pear": 2.0, "plum": 4.0}, text, max_fragments=2, size=40)
    assert [one.score for one in found] == [6.0, 3.0]
    assert [show(one) for one in found] == [
        "stem stem stem [pear] [plum] stem stem stem",
        "stem stem stem stem stem stem [fig] [pear]",
    ]
    every = highlight({"fig": 1.0, "pear": 2.0, "plum": 4.0}, text, max_fragments=9, size=40)
    assert [one.start for one in every[:2]] == [one.start for one in found]
    assert every[2].text == "fig stem stem stem stem stem stem stem"


def test_a_window_begins_and_ends_with_a_clause_where_it_can() -> None:
    text = "甲" * 60 + "，乙方应当解除合同，" + "丙" * 60
    (found,) = highlight({"合同": 1.0}, text, size=40)
    assert show(found) == "乙方应当解除[合同]，"


def test_blanks_around_a_sentence_do_not_make_it_a_long_one() -> None:
    assert shown(" " * 30 + "one, fig", "fig", size=20) == ["one, [fig]"]


def test_a_mark_is_never_cut() -> None:
    word = "a" * 60
    (found,) = highlight({word: 1.0}, f"{'stem ' * 10}{word} {'stem ' * 10}", size=20)
    assert found.text == word


def test_the_option_is_a_switch_or_a_highlighting() -> None:
    assert check_options({"highlight": Highlighting(size=99)}) == {"highlight": Highlighting(size=99)}
    assert check_options({"highlight": True}) == {"highlight": Highlighting()}
    assert not any(check_options({"highlight": given}).get("highlight") for given in (False, None))
    with pytest.raises(ParameterError, match="highlight must be True or False or a Highlighting, got 'yes'"):
        check_options({"highlight": "yes"})


def test_notebooks_show_marks_and_no_markup_of_the_text() -> None:
    (found,) = highlight({"fig": 1.0}, "One. A <b>fig</b> & figs")
    assert found._repr_html_() == "A &lt;b&gt;<mark>fig</mark>&lt;/b&gt; &amp; <mark>figs</mark>"
    hit = Hit("<id>", 1.5, "One. A fig", highlights=(found,))
    assert hit._repr_html_() == f"<div><b>&lt;id&gt;</b> 1.5000<p>{found._repr_html_()}</p></div>"
    assert "<p>One. A fig</p>" in Hit("id", 1.5, "One. A fig", highlights=())._repr_html_()


def test_the_tokens_of_any_analyzer_are_found() -> None:
    def stemmed(text: str) -> list[str]:
        return [word[:4].lower() for word in re.findall(r"\w+", text)]

    (found,) = Highlighter(stemmed, {"cont": 1.0}, Highlighting()).highlight("All contracts. No Contract, contra.")[:1]
    assert show(found) == "All [contracts]."
    (found,) = Highlighter(str.split, {"a-b,": 1.0, "never": 1.0}, Highlighting()).highlight("x a-b, c")
    assert show(found) == "x [a-b,] c"
    (found,) = Highlighter(list, {"合": 1.0}, Highlighting()).highlight("劳动合同")
    assert show(found) == "劳动[合]同"


def test_two_terms_at_one_place_are_one_mark() -> None:
    (found,) = highlight({"劳动": 1.0, "\0合同": 2.0, "检索": 4.0, "合同": 8.0}, "勞\u200b動合同檢")
    assert (found.marks, found.score) == (((0, 3), (3, 5)), 11.0)


@pytest.mark.parametrize("analyzer", [ANALYZER, str.split])
def test_of_any_number_of_terms_each_is_marked(analyzer: TextAnalyzer) -> None:
    terms = [f"w{at}" for at in range(200)]
    (found,) = Highlighter(analyzer, dict.fromkeys(terms, 1.0), Highlighting()).highlight(f"㎏ {terms[-1]} w0")
    assert (show(found), found.score) == ("㎏ [w199] [w0]", 2.0)


def test_of_windows_that_weigh_the_same_the_first_is_the_best() -> None:
    weights = {"fig": 0.1, "pear": 0.2, "plum": 0.3}
    text = "fig pear plum stem stem stem plum fig pear stem stem stem pear plum fig"
    found = highlight(weights, text, max_fragments=3, size=20)
    assert [one.marks[0][0] for one in found] == [0, text.index("plum fig"), text.rindex("pear")]


pieces = st.sampled_from(
    [*"合同劳动解除的。，；. \n!?", "fig", "Fig.", "information retrieval", " ", "ＢＭ２５", "e\u0301", "檢索"]
)
TERMS = ["fig", "合同", "劳动", "\0动合", "\0合同", "inform", "\0inform retriev", "bm25", "检索"]


@given(st.lists(pieces, max_size=60).map("".join), st.sets(st.sampled_from(TERMS)), st.integers(20, 60))
@example("fig" + " x" * 40 + " Fig", {"fig"}, 20)
@example("Fig.information retrieval", {"fig", "\0inform retriev"}, 20)
def test_fragments_are_disjoint_parts_that_cover_every_located_term(text: str, terms: set[str], size: int) -> None:
    weights = {term: 1.0 + at for at, term in enumerate(sorted(terms))}
    found = highlight(weights, text, max_fragments=1000, size=size)
    assert [(-one.score, one.start) for one in found] == sorted((-one.score, one.start) for one in found)
    located = [token for token in ANALYZER.locate(text) if token.text in terms]
    by_place = sorted(found, key=lambda one: one.start)
    for one, other in pairwise(by_place):
        assert one.end <= other.start
    for one in found:
        assert one.text == text[one.start : one.end] == one.text.strip()
        longest = max(end - start for start, end in one.marks)
        assert len(one.text) <= max(size, longest)
        inside = [token for token in located if one.start <= token.start and token.end <= one.end]
        assert one.score == pytest.approx(sum(weights[term] for term in {token.text for token in inside}))
        covered = {at for start, end in one.marks for at in range(start, end)}
        assert covered == {at for token in inside for at in range(token.start, token.end)}
        assert all(end <= start for (_, end), (start, _) in pairwise(one.marks))
    marked = {at for one in found for start, end in one.marks for at in range(start, end)}
    assert marked == {at for token in located for at in range(token.start, token.end)}
