from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rag_bm25.analysis import Analyzer, AnalyzerConfig
from rag_bm25.analysis.channels import COMMON, characters_of
from rag_bm25.analysis.stop_words import CHINESE_QUESTION_WORDS
from rag_bm25.vectors.terms import is_character

WITHOUT = Analyzer(AnalyzerConfig(characters=False))

texts = st.text(
    st.sampled_from([*"增值税法人的怎么㐂𠮷〇豈カ한ab1,。 \n", "\ufa0e", "\U0003ffff", "\U00040000"]), max_size=20
)


def characters(tokens: list[str]) -> list[str]:
    return [token[1:] for token in tokens if is_character(token)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("纳税人应当缴纳增值税。", "纳税缴纳增值税"),
        ("稅怎麼交", "税交"),  # simplified
        ("《民法典》条款", "典条款"),
        ("𠮷野家 㐂", "𠮷野㐂"),
        ("⼈⼯智能（康熙部首）", "智康熙首"),
        ("ラーメンを食べる 한국어 BM25", "食"),
        ("full-text search", ""),
    ],
)
def test_each_ideograph_that_is_not_common_is_a_term(text: str, found: str) -> None:
    assert characters(Analyzer()(text)) == characters(Analyzer().query(text)) == list(found)


def test_the_list_of_common_characters_is_fixed() -> None:
    """Stored vectors depend on it, so that no new release may have another one."""
    assert len(COMMON) == len(set(COMMON)) == 234
    assert set("".join(CHINESE_QUESTION_WORDS)) <= set(COMMON)


@given(texts)
@example("税" * 101)
def test_the_other_channels_are_what_they_are_without_it(text: str) -> None:
    tokens = Analyzer()(text)
    assert [token for token in tokens if not is_character(token)] == WITHOUT(text)
    assert characters(tokens) == [token.text[1:] for token in Analyzer().locate(text) if is_character(token.text)]


@given(texts)
def test_a_character_counts_as_often_as_it_occurs(text: str) -> None:
    assert [character[1:] for character in characters_of(text)] == [
        character
        for character in text
        if character not in COMMON and (character in "㐂𠮷〇豈\ufa0e\U0003ffff" or "\u4e00" <= character <= "\u9fff")
    ]


def test_a_stop_word_of_one_character_is_no_term() -> None:
    assert characters(Analyzer(AnalyzerConfig(stop_words=["税"]))("增值税")) == ["增", "值"]
