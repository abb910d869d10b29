"""The fingerprints that a writer keeps tell what the vocabulary would tell."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from random import Random

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.strategies import any_terms

from rag_bm25.errors import InputError
from rag_bm25.vectors import terms
from rag_bm25.vectors.known_terms import KnownTerms
from rag_bm25.vectors.terms import MAX_ID, Vocabulary, term_id

words = st.sampled_from([*"abcdefghij", "\0ab", "中", "x" * 100, "x" * 101, ""]) | any_terms
histories = st.lists(st.lists(words, max_size=12), max_size=12)


def both() -> tuple[Vocabulary, KnownTerms]:
    return Vocabulary(), KnownTerms()


def lookup(known: Vocabulary | KnownTerms, some: Sequence[str]) -> dict[str, int]:
    return known.lookup(some, list(map(term_id, some)))


def stage(known: Vocabulary | KnownTerms, batch: Sequence[str]) -> tuple[dict[str, int], dict[str, int]]:
    """Return the id of each term of a batch, and the new ones."""
    staged = known.stage()
    staged.look_up(batch)
    return dict(staged), staged.new


def assert_same(vocabulary: Vocabulary, known: KnownTerms, batch: Sequence[str]) -> dict[str, int]:
    """Compare what both tell of a batch; return its new terms."""
    assert lookup(known, batch) == lookup(vocabulary, batch)
    ids = [1, 2, 3, MAX_ID, *map(term_id, batch)]
    assert known.taken(ids) == vocabulary.taken(ids)
    asked = np.array(ids, np.uint32)
    assert known.channels(asked).tolist() == vocabulary.channels(asked).tolist()
    assert stage(known, batch) == stage(vocabulary, batch)
    assert known.displaced == vocabulary.displaced
    assert len(known) == len(vocabulary)
    assert sorted(known.ids.tolist()) == sorted(vocabulary.ids)
    return stage(known, batch)[1]


@given(histories)
def test_ids_are_those_that_a_vocabulary_gives(history: list[list[str]]) -> None:
    vocabulary, known = both()
    for batch in history:
        new = assert_same(vocabulary, known, batch)
        vocabulary.add(new)
        known.add(new)
    assert_same(vocabulary, known, [term for batch in history for term in batch])


@given(histories)
@example([list("abcdefghij"), list("klmnopqrstuvwxyz"), list("abcxyz")])
def test_ids_are_the_same_where_hashes_collide(history: list[list[str]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(terms, "ID_SPACE", 1009)
        vocabulary, known = both()
        for batch in history:
            new = assert_same(vocabulary, known, batch)
            vocabulary.add(new)
            known.add(new)


@given(histories, st.randoms())
def test_batches_may_be_read_in_any_order_and_again(history: list[list[str]], random: Random) -> None:
    """Entries of terms are read as they are listed, and merged ones repeat others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(terms, "ID_SPACE", 1009)
        vocabulary = Vocabulary()
        entries = []
        for batch in history:
            entries.append(stage(vocabulary, batch)[1])
            vocabulary.add(entries[-1])
        known = KnownTerms()
        shuffled = [*entries, *entries[: len(entries) // 2]]
        random.shuffle(shuffled)
        for entry in shuffled:
            known.add(entry)
        assert_same(vocabulary, known, [term for batch in history for term in batch])


@pytest.mark.parametrize("id_", [1, 2**31, MAX_ID])
def test_ids_of_both_ends_are_known(id_: int) -> None:
    known = KnownTerms()
    known.add({"term": id_})
    for others in range(3):
        known.add({f"other {others}": 1000 + others})
        assert known.taken([id_ - 1, id_, id_ + 1]) == [False, True, False]
        assert lookup(known, ["term"]) == {"term": id_}


def test_nothing_is_known_at_first() -> None:
    known = KnownTerms()
    known.add({})
    assert (lookup(known, ["a"]), known.taken([1]), len(known), known.ids.tolist()) == ({}, [False], 0, [])
    assert (lookup(known, []), known.taken([])) == ({}, [])


def test_a_stage_refuses_what_cannot_be_stored() -> None:
    with pytest.raises(InputError, match="lone surrogate"):
        KnownTerms().stage().look_up(["a", "\ud800"])


def test_terms_take_a_few_bytes_each() -> None:
    known = KnownTerms()
    names = (f"word number {number}" for number in range(200_000))
    while batch := list(islice(names, 1_000)):
        known.add({term: term_id(term) for term in batch})
    assert len(known) == 200_000
    assert sum(level.nbytes for level in known._levels) <= 24 * 200_000
    assert not known.displaced
    assert len(known._levels) < 8


def test_a_term_is_copied_a_few_times_while_the_others_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each lookup goes through all levels, each merge copies some: both stay few."""
    copied = 0
    sort = np.sort

    def counting(prints: np.ndarray, **options: str) -> np.ndarray:  # type: ignore[type-arg]
        nonlocal copied
        copied += len(prints)
        return sort(prints, **options)  # type: ignore[call-overload,no-any-return]

    monkeypatch.setattr("rag_bm25.vectors.known_terms.np.sort", counting)
    known = KnownTerms()
    for number in range(4_000):
        known.add({f"word {number}": number + 1})
    assert len(known._levels) <= 6
    assert copied <= 4_000 * 8 * 5


def test_term_that_two_writers_gave_two_ids_is_one_term() -> None:
    known = KnownTerms()
    known.add({"a": 7})
    known.add({"a": 9, "b": term_id("b")})
    assert len(known) == 2
    assert known.taken([7, 9]) == [True, True]


def test_id_of_a_word_and_a_bigram_is_a_bigrams() -> None:
    """Two writers may have given it to both; so every mark that is stored afterwards agrees."""
    known = KnownTerms()
    known.add({"word": 5})
    assert known.channels(np.array([5, 6], np.uint32)).tolist() == [0, 0]
    known.add({"\0ab": 5, "other": 4, "\0a": 6})
    assert known.channels(np.array([3, 4, 5, 6, MAX_ID], np.uint32)).tolist() == [0, 0, 1, 2, 0]


def test_a_term_keeps_the_id_that_it_was_given_in_the_same_batch() -> None:
    staged = KnownTerms().stage()
    staged.look_up(["a", "b"])
    given = dict(staged)
    staged.look_up(["b", "c", "a"])
    assert dict(staged) == staged.new == {**given, "c": term_id("c")}
