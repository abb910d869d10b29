from __future__ import annotations

import re
import unicodedata
from collections import Counter
from importlib.resources import files

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from rag_bm25.analysis import Analyzer, AnalyzerConfig
from rag_bm25.analysis.acronyms import name_in_capitals
from rag_bm25.analysis.camel_case import has_humps
from rag_bm25.analysis.normalization import _APART, _BORDERS, is_plain, normalize, settle_capitals
from rag_bm25.analysis.runs import find_ideographs, find_runs
from rag_bm25.analysis.text import AnalysedText
from rag_bm25.vectors.terms import BIGRAM_MARK, CHANNELS, channel_of, is_bigram, is_word_bigram

ANALYZER = Analyzer()
# Bigrams of words know stop words of their own.
WITHOUT_STOP_WORDS = Analyzer(AnalyzerConfig(stop_words=(), word_bigrams=False))
WITHOUT_HUMPS = Analyzer(AnalyzerConfig(stop_words=(), word_bigrams=False, split_camel_case=False))
TRADITIONAL, SIMPLIFIED = (
    files("rag_bm25.analysis").joinpath("data").joinpath("t2s.txt").read_text(encoding="utf-8").splitlines()
)
TO_SIMPLIFIED = str.maketrans(TRADITIONAL, SIMPLIFIED)

# Pieces that mean something to one of the rules, so that texts of them meet the borders between the rules.
SIGNS = [*".,，-'’_+#/ \n", "__", "++", "'s", "\u3000", "\u2028", "\x85", "\0", "\ud800", "👍"]
INVISIBLE = ["\u200b", "\u00ad", "\ufe0f", "\ufeff", "\u0301", "\u0308", "\u064e", "\u0640"]
DIGITS = ["1", "12", "123", "000", "3.5", "²", "½", "１", "١", "९", "v1", "Ⅷ"]
LATIN = ["a", "A", "I", "May", "will", "C", "v", "s", "IT", "the", "is", "gpt", "café", *"ßﬁﬃſİıΣςǅŉΐＡ㎏ﷺøй"]
CHINESE = [*"中文檢索乾隆薴〇㐂𠮷鿿豈⼈⻛"]
SYLLABIC = [*"カｶﾞ゙ーｰ한한ㄱกำ่ប្"]
INDIC = [*"हिन्மி"]


def kind(token: str) -> int:
    """Number the kinds of tokens in the order in which an analyzer returns them."""
    return channel_of(token) if not is_word_bigram(token) else len(CHANNELS)


pieces = st.sampled_from(SIGNS + INVISIBLE + DIGITS + LATIN + CHINESE + SYLLABIC + INDIC)
texts = st.one_of(st.text(), st.lists(pieces, max_size=12).map("".join))


@given(texts)
@example("a" * 65 + "-b" + "ß" * 40)
@example("\u200b")
def test_tokens_are_short_visible_and_never_empty(text: str) -> None:
    for token in ANALYZER(text):
        parts = token.removeprefix(BIGRAM_MARK).split(" ")
        assert all(1 <= len(part) <= 64 for part in parts)
        assert len(parts) <= 1 + is_bigram(token)
        assert " ".join(token.split()) == token


@given(texts)
@example("e\u00ad\u0301")
@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
def test_equivalent_spellings_have_equal_tokens(form: str, text: str) -> None:
    assume(not _APART.search(text) and not _BORDERS.search(text))  # 10² is not 102, and ℡5 not TEL5
    assume(not re.search("[™℠🅪🅫🅬]", text))  # are no letters
    assume(not re.search(r"\d，\d", normalize(text)))  # may be between clauses
    assert ANALYZER(unicodedata.normalize(form, text)) == ANALYZER(text)


@given(texts)
def test_normalising_twice_is_normalising_once(text: str) -> None:
    assert normalize(normalize(text)) == normalize(text)


@given(texts)
@pytest.mark.parametrize("simplify", [True, False])
def test_a_plain_text_is_cut_as_its_normal_form(simplify: bool, text: str) -> None:
    if is_plain(text, simplify=simplify):
        normal = normalize(text, simplify=simplify)
        assert find_runs(text) == find_runs(normal)
        assert find_ideographs(text) == find_ideographs(normal)


@given(texts, texts)
@example("two words", "0A.\u0130")  # two characters in lower case, and so a word that bigrams have
def test_tokens_of_two_sentences_are_the_tokens_of_each(first: str, second: str) -> None:
    tokens = [*ANALYZER(first), *ANALYZER(second)]
    assert ANALYZER(f"{first} ;\n{second}") == sorted(tokens, key=kind)


@given(texts)
@example("0Aİ")
@example("10ß")
@example("IS.㎍")
@example("ÆD")  # AED, which is stemmed in small letters alone
@example("A'ß")  # A'SS, of which A' is cut off
@example("AA:A'ᾳ")
@example("AȺsก")
@example("A.Aa")  # a name as Ph.D. is, which a.aa is not
def test_letter_case_makes_no_difference_but_to_stop_words_and_names_in_capitals(text: str) -> None:
    assume("\u0345" not in text)  # an accent whose capital is a letter
    assume(normalize(text.casefold()) == normalize(text).casefold())
    small, as_given = WITHOUT_HUMPS(text.casefold()), WITHOUT_HUMPS(text)
    form = normalize(text)
    runs = find_runs(form)  # of one script each
    assume(not any("-" in run and has_humps(run) for run in runs))  # a name as non-JavaScript is
    words = re.findall(r"[^\W\d_]+", " ".join([*runs, *(re.sub("[-']", "", run) for run in runs)]))
    if any(map(name_in_capitals, words)) or re.search(r"[A-Z]\w*\.[A-Z]", form):
        assert {word for word in small if word.isalpha()} <= set(as_given)
    else:
        assert small == as_given


@given(st.text(st.sampled_from(TRADITIONAL + "的一，a1")))
def test_traditional_and_simplified_text_have_equal_tokens(text: str) -> None:
    simplified = text.translate(TO_SIMPLIFIED)
    assert ANALYZER(simplified) == ANALYZER(text)


@given(texts)
def test_the_tokens_of_a_query_are_among_those_of_a_chunk_with_search_segmentation(text: str) -> None:
    assume(settle_capitals(text) == text)  # stop words of a query in capitals are no names
    plain = AnalyzerConfig(query_segmentation="search", question_words=(), query_stop_structures=False)
    as_chunks = Analyzer(plain)
    assert as_chunks.query(text) == ANALYZER(text)
    query = AnalysedText.of_query(ANALYZER, text)
    assert not Counter(query.terms + query.question_terms) - Counter(ANALYZER(text))


@given(texts)
@example("\u3099 a b")  # a sign of kana that is no letter
@example("\u9ffd a b")
def test_a_channel_is_the_same_with_and_without_the_other(text: str) -> None:
    """Texts without Chinese are searched once for both channels, unless there are user words."""
    words = [token for token in ANALYZER(text) if not is_word_bigram(token)]
    assert Analyzer(AnalyzerConfig(word_bigrams=False))(text) == words
    assert Analyzer(AnalyzerConfig(user_words=("not量there",)))(text) == ANALYZER(text)


@given(texts)
def test_tokens_do_not_depend_on_what_was_analyzed_before(text: str) -> None:
    assert Analyzer()(text) == ANALYZER(text)
