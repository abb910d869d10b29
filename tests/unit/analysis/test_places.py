"""Where tokens stand in the text that they come from."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rag_bm25.analysis import Analyzer, AnalyzerConfig, normalization
from rag_bm25.analysis.normalization import Origins, normalize
from rag_bm25.analysis.runs import points_in
from rag_bm25.analysis.segmentation import place_words
from rag_bm25.vectors.terms import BIGRAM_MARK, is_bigram
from tests.unit.analysis.test_properties import texts as texts_of_pieces

ANALYZERS = {
    "default": Analyzer(),
    "exact": Analyzer(AnalyzerConfig(segmentation="exact", simplify=False, stem=False)),
    "compounds": Analyzer(AnalyzerConfig(compounds="all", split_camel_case=True, stop_words=("的", "全文", "will"))),
    "user words": Analyzer(AnalyzerConfig(user_words=["5G网络", "c++11", "node.js", "检索中", "½㎏"])),
}
WORDS = [
    *["on-line", "U.S.", "u.s", "user's", "don't", "v2.5.1", "1,234.5", "getUserName", "user_id", "GPT4o", "iPhone15"],
    *["iPhone15Pro", "12V5A", "1，234.5", "8月15，130人"],
    *[
        "全文檢索",
        "中华人民共和国",
        "信息检索系统",
        "5Ｇ網絡",
        "C++11",
        "Node.js",
        "檢索中",
        "ＢＭ２５",
        "straße's",
        "co\u00adop",
    ],
    *[
        "information",
        "retrieval systems",
        "Running tests",
        "the",
        "e\u0301",
        "½㎏",
        "ﬁle-\u200bname",
        "학습 한국어",
        "カタカナ",
    ],
]
texts = st.one_of(
    texts_of_pieces, st.lists(st.sampled_from([*WORDS, " ", " ", "-", ", ", "。", "\u200b"]), max_size=10).map("".join)
)


@given(texts)
@example("全文检索全文检索, 中华人民共和国人民")
@example("STRASSE's straße's-x Straße's")
@pytest.mark.parametrize("name", ANALYZERS)
def test_places_are_those_of_all_tokens_and_no_others(name: str, text: str) -> None:
    analyzer = ANALYZERS[name]
    found = analyzer.locate(text)
    assert [token.text for token in found] == Analyzer(replace(analyzer.config, distinct_bigrams=False))(text)
    assert {token.text for token in found} == set(analyzer(text))
    assert all(0 <= token.start < token.end <= len(text) for token in found)


def places_of(token: str, text: str) -> list[tuple[int, int]]:
    return sorted((found.start, found.end) for found in ANALYZERS["default"].locate(text) if found.text == token)


def test_a_word_that_repeats_its_characters_is_not_located_across_words() -> None:
    assert places_of("往往", "往往往") == [(0, 2)]
    assert places_of("往", "往往往") == [(2, 3)]


def test_a_bigram_of_words_is_located_once() -> None:
    for text, start in (("information retrieval-systems", 0), ("of information\nretrieval-systems", 3)):
        assert places_of("\0inform retriev", text) == [(start, start + 21)]
        assert places_of("\0retriev system", text) == [(start + 12, start + 29)]


@given(texts)
@example("getUserName user_id on-line U.S.A. v2.5.1, iPhone15 don't user's 1,234.5")
@example("全文檢索系統的信息檢索 ½ ㎏ ＢＭ２５")
@example("A'S0")
@pytest.mark.parametrize("name", ["default", "exact", "compounds"])
def test_a_place_holds_text_that_has_the_token(name: str, text: str) -> None:
    analyzer = ANALYZERS[name]
    for token in analyzer.locate(text):
        if " " in token.text:
            continue  # a bigram of words, see below
        part = text[token.start : token.end]
        assert token.text in {*analyzer(part), *cut_as_within_a_text(analyzer, part, token.text)}, (token, part)


def cut_as_within_a_text(analyzer: Analyzer, part: str, token: str) -> set[str]:
    """Return what a part may have been within a longer text: a word in another word, which is cut as a whole."""
    form = normalize(part, simplify=analyzer.config.simplify).casefold()
    return {token} if not is_bigram(token) and any(token in one for one in (form, form.replace("'", ""))) else set()


@given(texts)
def test_a_bigram_covers_two_neighbouring_words(text: str) -> None:
    analyzer = ANALYZERS["default"]
    for token in analyzer.locate(text):
        if is_bigram(token.text) and " " in token.text:
            first, second = token.text.removeprefix(BIGRAM_MARK).split(" ")
            words = {word.text: word for word in analyzer.locate(text[token.start : token.end])}
            assert {first, second} <= words.keys()


@given(texts)
@pytest.mark.parametrize("simplify", [True, False])
def test_each_cluster_is_normalised_by_itself(simplify: bool, text: str) -> None:
    clusters = [match[0] for match in normalization._CLUSTERS.finditer(text)]
    assert "".join(clusters) == text
    assert "".join(normalize(cluster, simplify=simplify) for cluster in clusters) == normalize(text, simplify=simplify)


@cache
def joining() -> set[str]:
    """Return the characters that may join the one before them, by Unicode's own tables."""
    everything = [chr(point) for point in range(0x110000) if not 0xD800 <= point < 0xE000]
    pairs = (unicodedata.decomposition(char).split() for char in everything)
    seconds = {chr(int(pair[1], 16)) for pair in pairs if len(pair) == 2 and pair[0][0] != "<"}
    seconds |= {chr(point) for point in (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))}
    first = {char: unicodedata.normalize("NFKD", char)[:1] for char in everything}
    return {char for char, base in first.items() if unicodedata.combining(base) or base in seconds}


def test_every_character_that_joins_the_one_before_is_known() -> None:
    known = re.compile(f"[{normalization._JOINING}]")
    invisible = {chr(point) for point in points_in(normalization._IGNORED + normalization._POINTS)}
    assert all(map(known.match, joining() | invisible))


def test_characters_that_keep_the_length_become_one_character() -> None:
    points = map(chr, range(0x110000))
    kept = [char for char in points if re.match(f"[{normalization._OF_LENGTH_1}]", char)]
    assert not any(re.match(f"[{normalization._JOINING}]", char) for char in kept)
    assert all(len(normalize(char, simplify=simplify)) == 1 for char in kept for simplify in (True, False))


@pytest.mark.parametrize(
    ("text", "token", "part"),
    [
        ("ﬁle ½ 全文檢索", "检索", "檢索"),
        ("全文檢索 10² km", "2", "0²"),
        ("全文檢索 1998①起2024年", "2024", "2024"),
        ("全文檢索 1998①起", "1998", "1998"),
        ("全文檢索 2019¹ km", "km", "km"),
        ("電話101,102,103", "102", "102"),
        ("the e\u0301tat of", "etat", "e\u0301tat"),
        ("… ＢＭ２５", "bm25", "ＢＭ２５"),
        ("working on-line", "onlin", "on-line"),
        ("the user's words", "user", "user"),
        ("in the U.S. of", "us", "U.S"),
        ("about 1,234.5 m", "1234.5", "1,234.5"),
        ("release v2.5.1", "2.5", "2.5"),
        ("state-of-the-art", "art", "art"),
        ("iPhone15 Pro", "15", "15"),
        ("in die Straße's", "strass", "Straße"),
        ("information-retrieval systems", "\0retriev system", "retrieval systems"),
        ("全文檢索", "\0文检", "文檢"),
        ("学\u200b习", "学习", "学\u200b习"),
        ("中华人民共和国", "共和", "共和"),
        ("information form", "form", "form"),
        ("新人 人", "人", "人"),
        ("a.b+c a", "c", "c"),
        ("解除劳动合 \r\n 同的", "劳动合同", "劳动合 \r\n 同"),
        ("勞動合\n同，檢", "\0合同", "合\n同"),
        ("檢索。\n合同", "合同", "合同"),
        ("人⻛险", "风险", "⻛险"),
        ("में हिन्दी है", "हिन्दी", "हिन्दी"),
        ("لغة العَرَبـــيَّة", "العربية", "العَرَبـــيَّة"),
        ("ใส่น้ำที่", "ส่น้ํ", "ส่น้ำ"),
        ("in İzmir’de", "izmird", "İzmir’de"),
    ],
)
def test_a_token_is_found_in_the_text_as_it_was_written(text: str, token: str, part: str) -> None:
    ((start, end),) = places_of(token, text)
    assert text[start:end] == part


def test_origins_of_what_becomes_longer_or_shorter() -> None:
    origins = Origins("½ a\u200b\u0301 ㎏")
    assert normalize("½ a\u200b\u0301 ㎏") == "1⁄2 á kg"
    assert [origins.of(at, at + 1) for at in range(8)] == [(0, 1)] * 3 + [(1, 2), (2, 5), (5, 6), (6, 7), (6, 7)]


def test_words_of_both_segmentations_are_placed() -> None:
    words = ["全文", "检索", "全文检索", "检索", "检索"]
    places = [(start, end) for _, start, end in place_words(words, ["全文检索", "检索", "检索"])]
    assert places == [(0, 2), (2, 4), (0, 4), (4, 6), (6, 8)]
    assert [word[1:] for word in place_words(["哈哈", "哈哈", "哈哈哈"], ["哈哈哈"])] == [(0, 2), (1, 3), (0, 3)]
