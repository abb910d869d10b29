from __future__ import annotations

import unicodedata
from collections import Counter

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from rag_bm25.analysis import Analyzer, AnalyzerConfig
from rag_bm25.analysis.channels import SHORT
from rag_bm25.analysis.normalization import join_lines, normalize
from rag_bm25.analysis.text import AnalysedText
from rag_bm25.errors import ParameterError
from rag_bm25.vectors.terms import BIGRAM_MARK, is_bigram, is_word

BOTH = Analyzer(AnalyzerConfig(word_bigrams=False))
EACH = Analyzer(AnalyzerConfig(word_bigrams=False, distinct_bigrams=False))
WORDS = Analyzer(AnalyzerConfig(bigrams=False, characters=False, word_bigrams=False))

PIECES = [*"中文檢索的乾薴々〇㐂𠮷鿿豈⼈，１ー \n\u200b。？；", "劳动合同", "カｶ", "한국", "a", "BM25", "the"]
texts = st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=12).map("".join))


def bigrams(text: str, analyzer: Analyzer = BOTH) -> list[str]:
    return [token.removeprefix(BIGRAM_MARK) for token in analyzer(text) if is_bigram(token)]


def is_ideograph(char: str) -> bool:
    name = unicodedata.name(char, "")
    return name.startswith(("CJK UNIFIED", "CJK COMPATIBILITY IDEOGRAPH", "HANGZHOU")) or char in "々〆〇"


@given(texts, st.sampled_from(["", "。" * SHORT]))
@example("劳动合同法，二〇二四年", "")
@example("0A 0A", "")
@example("劳动合同法，二〇二四年", "。" * SHORT)
@example("合同合同。合同，合同\n𠮷𠮷𠮷🙂🙂", "。" * SHORT)
def test_bigrams_are_the_pairs_of_neighbouring_ideographs(text: str, rest: str) -> None:
    text += rest  # a long text is cut in another way
    assume("Cn" not in map(unicodedata.category, text))  # ideographs of the future have no names yet
    chars = join_lines(normalize(text))
    found, once = [], []
    of_sentence: set[str] = set()
    for at in range(len(chars) - 1):
        pair = chars[at : at + 2]
        if chars[at] in "。！？；!?;\n":
            of_sentence.clear()
        elif all(map(is_ideograph, pair)):
            found.append(pair)
            if pair not in of_sentence:
                once.append(pair)
                of_sentence.add(pair)
    assert bigrams(text) == once
    assert bigrams(text, EACH) == found


def test_a_sentence_has_a_bigram_once_and_a_word_each_time() -> None:
    text = "合同法，合同！合同\n（合同；合同。"
    assert bigrams(text) == ["合同", "同法", *["合同"] * 3]
    assert bigrams(text, EACH) == ["合同", "同法", *["合同"] * 4]
    assert [token for token in BOTH(text) if token == "合同"] == [token for token in EACH(text) if token == "合同"]
    assert [token for token in BOTH.query(text) if is_bigram(token)] == [BIGRAM_MARK + pair for pair in bigrams(text)]


@given(texts)
def test_words_are_what_they_are_without_bigrams(text: str) -> None:
    tokens = BOTH(text)
    assert [token for token in tokens if is_word(token)] == WORDS(text)
    assert tokens[: len(WORDS(text))] == WORDS(text)


@given(texts)
def test_queries_have_the_bigrams_of_chunks(text: str) -> None:
    exact = Analyzer(AnalyzerConfig(query_segmentation="exact", word_bigrams=False))
    query = AnalysedText.of_query(exact, text)
    bigrams = [*query.bigrams, *filter(is_bigram, query.question_terms)]
    assert Counter(bigrams) == Counter(filter(is_bigram, BOTH(text)))


@given(texts | st.lists(st.sampled_from([BIGRAM_MARK, *PIECES]), max_size=12).map("".join))
@example(f"{BIGRAM_MARK}合同 {BIGRAM_MARK}a")
def test_a_text_cannot_forge_the_mark(text: str) -> None:
    assert not any(map(is_bigram, WORDS(text)))
    for token in filter(is_bigram, BOTH(text)):
        assert (len(token), BIGRAM_MARK in token[1:]) == (3, False)


def test_a_user_word_cannot_forge_the_mark() -> None:
    with pytest.raises(ParameterError, match="user_words must be words of 1 to 64 visible characters"):
        AnalyzerConfig(user_words=[f"{BIGRAM_MARK}合同"])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("合同", ["合同"]),
        ("法 律", []),
        ("法", []),
        ("合，同法", ["同法"]),
        ("用Milvus检索", ["检索"]),
        ("𠮷野家", ["𠮷野", "野家"]),
        ("𠮷𠮷", ["𠮷𠮷"]),
        ("人々", ["人々"]),
        ("食べる寿司", ["寿司"]),
        ("カタカナ漢字한국어", ["汉字"]),
        ("检\u200b索", ["检索"]),
    ],
)
def test_bigrams_stay_within_a_run_of_ideographs(text: str, expected: list[str]) -> None:
    assert bigrams(text) == expected


def test_traditional_text_has_the_bigrams_of_simplified_text() -> None:
    assert bigrams("勞動合同") == bigrams("劳动合同") == ["劳动", "动合", "合同"]
    kept = Analyzer(AnalyzerConfig(simplify=False))
    assert bigrams("勞動合同", kept) == ["勞動", "動合", "合同"]


def test_bigrams_do_not_depend_on_the_dictionary() -> None:
    own = Analyzer(AnalyzerConfig(user_words=["5G网络", "动合"]))  # type: ignore[arg-type]
    text = "劳动合同和5G网络覆盖"
    assert own(text) != BOTH(text)
    assert bigrams(text, own) == bigrams(text)


def test_of_bigrams_only_stop_words_themselves_are_dropped() -> None:
    analyzer = Analyzer(AnalyzerConfig(stop_words=["我們", "的"]))  # type: ignore[arg-type]
    assert bigrams("我们的合同", analyzer) == ["们的", "的合", "合同"]
