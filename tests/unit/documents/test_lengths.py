from __future__ import annotations

import pytest

from rag_bm25.documents import lengths
from rag_bm25.documents.lengths import SHORT_LENGTH, WORD_LENGTH, chunk_length


@pytest.mark.parametrize(
    ("tokens", "words", "others"),
    [
        (["inform", "retriev", "\0inform retriev"], 2, 0),
        (["劳动", "合同", "劳动合同", "\0劳动"], 0, 3),
        (["café", "поиск", "x2"], 3, 0),
        (["2024", "3.5", "10gb"], 0, 3),
        (["カタ", "タカ", "한국", "㐂", "𠮷", "〇"], 0, 6),
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


def test_the_memo_of_lengths_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lengths, "MAX_KEPT", 3)
    assert chunk_length("", [f"word{number}" for number in range(10)], "estimated_characters") == 80
    assert len(lengths._estimated) <= 3
