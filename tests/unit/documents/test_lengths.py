from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rag_bm25 import IndexConfig
from rag_bm25.documents.encoder import DocumentEncoder
from rag_bm25.documents.lengths import SHORT_LENGTH, WORD_LENGTH, LengthUnit, chunk_length
from rag_bm25.vectors.terms import BIGRAM_MARK, is_cjk


@pytest.mark.parametrize(
    ("tokens", "words", "others"),
    [
        (["inform", "retriev", "\0inform retriev"], 2, 0),
        (["劳动", "合同", "劳动合同", "\0劳动"], 0, 3),
        (["café", "поиск", "x2"], 3, 0),
        (["2024", "3.5", "10gb"], 0, 3),
        (["カタ", "タカ", "한국", "㐂", "𠮷", "〇", "ไท", "မြန်"], 0, 8),
        (["हिन्दी"], 1, 0),
        (["", "\0", "a"], 2, 0),
        ([], 0, 0),
    ],
)
def test_estimated_characters_are_those_of_words_on_average(tokens: list[str], words: int, others: int) -> None:
    expected = words * WORD_LENGTH + others * SHORT_LENGTH
    assert chunk_length("any text", tokens, "estimated_characters") == int(expected + 0.5)


def test_other_units_count_all_characters_or_terms() -> None:
    tokens = ["法院", "court", "\0法院"]
    assert chunk_length("法院  court ", tokens, "characters") == 10
    assert chunk_length("法院  court ", tokens, "terms") == 2


@given(st.characters(exclude_characters=BIGRAM_MARK, exclude_categories=["Cs"]))
@example("\U00020000")
@example("\U0003ffff")
@example("\U00040000")
@example("\U0010ffff")
def test_the_first_character_tells_a_short_term(character: str) -> None:
    is_short = is_cjk(character) or character.isdecimal()
    assert chunk_length("", [character], "estimated_characters") == int(
        (SHORT_LENGTH if is_short else WORD_LENGTH) + 0.5
    )
    assert chunk_length("", [f"{character}x", f"{BIGRAM_MARK}{character}x"], "terms") == 1


@given(st.lists(st.lists(st.sampled_from(["word", "2024", "劳动", "\0劳动", "\0two words"]), max_size=40), max_size=4))
@pytest.mark.parametrize("unit", ["estimated_characters", "terms"])
def test_the_lengths_of_a_batch_are_those_of_its_chunks(unit: LengthUnit, batch: list[list[str]]) -> None:
    def split(text: str) -> list[str]:
        return [token for token in text.split("\1") if token]

    encoder = DocumentEncoder(split, IndexConfig(9).document_weighting(), unit)
    texts = ["\1".join(tokens) for tokens in batch]
    assert encoder.encode(texts).lengths.tolist() == [chunk_length("", tokens, unit) for tokens in batch]
