"""Look terms of the vocabulary up by their beginning, and by near spellings."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

import numpy as np

from rag_bm25.errors import MissingExtraError, install_extra
from rag_bm25.vectors.terms import is_pair, is_word

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

MIN_MERGE = 4096
LAST = "\U0010ffff"  # no character sorts after it


class _SortedTerms:
    """Sorted terms; those of one length become a matrix of characters when they are first needed."""

    def __init__(self, terms: Iterable[str]) -> None:
        self.terms = sorted(terms)
        self._matrices: dict[int, tuple[list[str], NDArray[np.uint32]]] = {}

    def beginning_with(self, prefix: str) -> list[str]:
        return self.terms[bisect_left(self.terms, prefix) : bisect_left(self.terms, prefix + LAST)]

    def one_off(self, word: str) -> Iterator[str]:
        if len(word) not in self._matrices:
            terms = [term for term in self.terms if len(term) == len(word)]
            self._matrices[len(word)] = (terms, _characters(terms, len(word)))
        terms, characters = self._matrices[len(word)]
        different = np.zeros(len(terms), np.uint8)
        for column, char in zip(characters, _characters([word], len(word)), strict=True):
            different += column != char
        yield from (terms[at] for at in np.flatnonzero(different == 1).tolist())


NO_TERMS = _SortedTerms(())


class TermLookup:
    """The words of a vocabulary in two sorted lists: the bulk, and those that are new since the last merge."""

    # Of a million terms, those with the same first letter are compared with a word in 15 ms on one core; sorting them
    # all takes a second or two, once.

    def __init__(
        self,
        most: _SortedTerms = NO_TERMS,
        recent: _SortedTerms = NO_TERMS,
        seen: int = 0,
        pairs: Sequence[str] = (),
    ) -> None:
        self._most = most
        self._recent = recent
        self._pairs = pairs  # of characters
        self.seen = seen  # number of terms of all channels

    def plus(self, new: Sequence[str]) -> TermLookup:
        """Return a lookup with other terms, too; this one stays as it is, for the threads that look terms up in it."""
        if not new:
            return self
        seen, pairs = self.seen + len(new), [*self._pairs, *filter(is_pair, new)]
        recent = [*self._recent.terms, *(term for term in new if is_word(term))]
        if len(recent) > max(MIN_MERGE, len(self._most.terms) // 16):
            return TermLookup(_SortedTerms([*self._most.terms, *recent]), NO_TERMS, seen, pairs)
        return TermLookup(self._most, _SortedTerms(recent), seen, pairs)

    def beginning_with(self, prefix: str) -> list[str]:
        """Return the words that begin with a prefix, in no particular order."""
        return [*self._most.beginning_with(prefix), *self._recent.beginning_with(prefix)]

    def pairs_with(self, character: str) -> list[str]:
        """Return the pairs of characters that hold one, in no particular order."""
        return [pair for pair in self._pairs if character in pair]

    def within(self, word: str, max_edits: int, prefix_length: int) -> dict[str, int]:
        """Return the other words within `max_edits` of a word and with the same beginning, with their edits.

        An edit inserts, deletes or replaces a letter, or swaps two neighbours; no part is edited twice (optimal string
        alignment, as Lucene's automata).
        """
        try:
            from rapidfuzz.distance import OSA
            from rapidfuzz.process import cdist
        except ImportError as error:
            raise MissingExtraError(f"fuzzy matching needs rapidfuzz: {install_extra('fuzzy')}") from error
        terms = self.beginning_with(word[:prefix_length])
        if not terms:
            return {}
        edits = cdist([word], terms, scorer=OSA.distance, score_cutoff=max_edits, dtype=np.uint8)[0]
        return {terms[at]: int(edits[at]) for at in np.flatnonzero((edits <= max_edits) & (edits > 0)).tolist()}

    def one_off(self, word: str) -> list[str]:
        """Return the words of the same length that differ in one character, in no particular order."""
        return [*self._most.one_off(word), *self._recent.one_off(word)]


def _characters(words: list[str], length: int) -> NDArray[np.uint32]:
    """Return words of one length as a matrix with a row for each place, in which they are compared fast."""
    by_word: NDArray[np.uint32] = np.array(words, dtype=f"<U{length}").view(np.uint32).reshape(len(words), length)
    return np.ascontiguousarray(by_word.T)
