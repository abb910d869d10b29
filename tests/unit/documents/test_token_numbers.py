"""Numbers of tokens, against a dictionary."""

from __future__ import annotations

import os
from collections import Counter
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_bm25 import InputError
from rag_bm25.documents.token_numbers import number_tokens

# Few characters, so that tokens are equal, begin alike and differ in one place; among them those that are special here.
CHARACTERS = "\0\x01ab中文\ud7ff\uffff\U0001f600\U0010ffff"
TOKENS = st.text(CHARACTERS, max_size=5) | st.text(max_size=8)
CHUNKS = st.lists(st.lists(TOKENS, max_size=12), max_size=8)


def numbered(chunks: list[list[str]]) -> dict[str, int]:
    """Term -> number, in the order in which they are first seen."""
    numbers: dict[str, int] = {}
    for token in (token for chunk in chunks for token in chunk):
        numbers.setdefault(token, len(numbers))
    return numbers


@given(CHUNKS)
def test_tokens_get_the_numbers_of_a_dictionary(chunks: list[list[str]]) -> None:
    found, expected = number_tokens(chunks), numbered(chunks)
    assert found.terms == list(expected)
    assert found.numbers.tolist() == [expected[token] for chunk in chunks for token in chunk]
    assert found.per_chunk.tolist() == list(map(len, chunks))
    assert (found.numbers.dtype, found.per_chunk.dtype) == (np.uint32, np.int64)


@given(CHUNKS, st.integers(1, 5))
def test_pieces_of_what_is_too_long_for_numpy_make_no_difference(chunks: list[list[str]], piece: int) -> None:
    whole = number_tokens(chunks)
    with patch("rag_bm25.documents.token_numbers.PIECE", piece):
        found = number_tokens(chunks)
    assert (found.terms, found.numbers.tolist()) == (whole.terms, whole.numbers.tolist())


@pytest.mark.skipif(not os.environ.get("RAG_BM25_SLOW"), reason="takes 5 GB of memory: RAG_BM25_SLOW=1")
def test_a_corpus_may_have_more_characters_than_a_string_of_numpy() -> None:
    found = number_tokens([["a" * 2**26]] * 8)
    assert (len(found.terms), found.numbers.tolist()) == (1, [0] * 8)


@given(CHUNKS)
def test_frequencies_are_counts(chunks: list[list[str]]) -> None:
    found = number_tokens(chunks)
    rows = [{found.terms[number]: tf for number, tf in row.to_dict().items()} for row in found.frequencies()]
    assert rows == [Counter(chunk) for chunk in chunks]


@given(
    st.permutations(["", "a", "aa", "aaa", "aaaa", "aaaaa", "a\0", "a\0\0", "a\0\0\0", "\0", "\0\0", "\0\0\0", "\0a"])
)
def test_tokens_that_pad_or_begin_each_other_differ(tokens: list[str]) -> None:
    assert number_tokens([tokens, tokens[::-1]]).numbers.tolist() == [*range(len(tokens)), *range(len(tokens))[::-1]]


@pytest.mark.parametrize("factor", [1, 3, 2**63 + 1])
def test_codes_that_meet_in_the_table_are_told_apart(factor: int) -> None:
    """A bad factor sends most codes to few places: the rounds still end, with other factors."""
    tokens = [chr(ord("一") + at // 40) + chr(ord("一") + at % 40) for at in range(1_600)]
    factors = iter([factor, factor])
    other = np.random.default_rng(1)
    with patch("random.getrandbits", lambda _: next(factors, 0) or int(other.integers(2**62))):
        found = number_tokens([tokens, tokens])
    assert found.numbers.tolist() == [*range(1_600), *range(1_600)]


def test_chunks_are_taken_one_by_one() -> None:
    """So that the tokens of a chunk are gone when the next one is analysed."""
    taken: list[int] = []

    def chunks() -> object:
        for at in range(3):
            taken.append(at)
            yield [f"t{at}"]

    assert number_tokens(chunks()).terms == ["t0", "t1", "t2"]  # type: ignore[arg-type]
    assert taken == [0, 1, 2]


@pytest.mark.parametrize("tokens", [["\ud800"], ["a", "b\ud800c"]])
def test_lone_surrogates_are_refused(tokens: list[str]) -> None:
    with pytest.raises(InputError, match="must not return tokens with lone surrogates"):
        number_tokens([["a"], tokens])
