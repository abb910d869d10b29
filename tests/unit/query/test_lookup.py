from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_bm25 import MissingExtraError
from rag_bm25.errors import install_extra
from rag_bm25.query.lookup import TermLookup


def lookup(*terms: str) -> TermLookup:
    return TermLookup().plus(terms)


def osa(one: str, other: str) -> int:
    """Optimal string alignment as printed: edits and swaps of neighbours, no part edited twice."""
    d = {(i, 0): i for i in range(len(one) + 1)} | {(0, j): j for j in range(len(other) + 1)}
    for i in range(1, len(one) + 1):
        for j in range(1, len(other) + 1):
            d[i, j] = min(d[i - 1, j] + 1, d[i, j - 1] + 1, d[i - 1, j - 1] + (one[i - 1] != other[j - 1]))
            if i > 1 and j > 1 and one[i - 1] == other[j - 2] and one[i - 2] == other[j - 1]:
                d[i, j] = min(d[i, j], d[i - 2, j - 2] + 1)
    return d[len(one), len(other)]


spellings = st.text("abc", min_size=1, max_size=6)
vocabularies = st.lists(spellings, unique=True, max_size=15)


@given(vocabularies, st.text("abc", max_size=3))
def test_prefixes_are_those_of_a_loop(terms: list[str], prefix: str) -> None:
    assert sorted(lookup(*terms).beginning_with(prefix)) == sorted(t for t in terms if t.startswith(prefix))


@given(vocabularies, spellings, st.integers(1, 2), st.integers(0, 3))
def test_near_terms_are_those_of_a_loop(terms: list[str], word: str, edits: int, prefix: int) -> None:
    pytest.importorskip("rapidfuzz")
    expected = {t: osa(word, t) for t in terms if t.startswith(word[:prefix]) and 0 < osa(word, t) <= edits}
    assert lookup(*terms).within(word, edits, prefix) == expected


@given(vocabularies, spellings)
def test_terms_one_character_off_are_those_of_a_loop(terms: list[str], word: str) -> None:
    off = lambda t: len(t) == len(word) and sum(a != b for a, b in zip(t, word, strict=True)) == 1  # noqa: E731
    assert sorted(lookup(*terms).one_off(word)) == sorted(filter(off, terms))


@given(vocabularies, st.integers(0, 15), st.integers(0, 3))
def test_growing_gives_what_building_at_once_gives(terms: list[str], first: int, merge: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rag_bm25.query.lookup.MIN_MERGE", merge)
        grown = TermLookup()
        for end in (first, first, first + 1, len(terms)):
            grown = grown.plus(terms[grown.seen : end])
            grown.one_off("ab")
    for prefix in ("", "a", "b"):
        assert sorted(grown.beginning_with(prefix)) == sorted(lookup(*terms).beginning_with(prefix))
    assert sorted(grown.one_off("ab")) == sorted(lookup(*terms).one_off("ab"))


def test_bigrams_are_no_words() -> None:
    assert lookup("合同", "\0合同", "合同法").beginning_with("") == ["合同", "合同法"]


def test_characters_beyond_the_basic_plane_are_single_ones() -> None:
    assert lookup("𠮷野家", "吉野家", "𠮷野").one_off("𠮷野加") == ["𠮷野家"]


def test_missing_rapidfuzz_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rapidfuzz.distance", None)
    with pytest.raises(MissingExtraError) as caught:
        lookup("apple").within("aple", 1, 1)
    assert str(caught.value) == f"fuzzy matching needs rapidfuzz: {install_extra('fuzzy')}"
