"""The terms that an index knows, for writers: eight bytes each instead of strings."""

from __future__ import annotations

from itertools import compress
from typing import TYPE_CHECKING

import numpy as np

from rag_bm25.vectors.terms import BIGRAMS, CHANNEL_BITS, CHARACTERS, StagedTerms, channels_of, displaced_terms

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

_ID_BITS = np.uint64(32)  # an id is above these, then the channel, then the hash
_HASH_BITS = _ID_BITS - np.uint64(CHANNEL_BITS)


class KnownTerms:
    """Fingerprints of terms: the id of each, its channel, and 30 more bits of its hash."""

    # Python's hash of a string differs from process to process, and is kept by none. Levels as those of `CountTable`:
    # each fingerprint is copied a logarithmic number of times.

    FACTOR = 8  # by which each level is larger than the next, at least

    def __init__(self) -> None:
        self._levels: tuple[NDArray[np.uint64], ...] = ()
        self._num_doubles = 0
        self.displaced: dict[str, int] = {}  # terms whose hash was taken

    def __len__(self) -> int:
        """Return the number of terms."""
        return sum(map(len, self._levels)) - self._num_doubles

    @property
    def ids(self) -> NDArray[np.uint32]:
        """Ids of the terms, in no particular order."""
        prints = np.concatenate([np.empty(0, np.uint64), *self._levels])
        ids: NDArray[np.uint32] = (prints >> _ID_BITS).astype(np.uint32)
        return ids

    def stage(self) -> StagedTerms:
        """Return a memo for one batch, which does not change these terms."""
        return StagedTerms(self)

    def add(self, terms: Mapping[str, int]) -> None:
        """Add terms with their assigned ids; known terms are ignored."""
        prints = np.sort(_fingerprints(terms, terms.values()))
        last = prints[~self._has(prints)]
        if not len(last):
            return
        displaced = displaced_terms(terms)
        # Two writers may have given a term two ids at once: both are taken, and it is one term.
        self._num_doubles += sum(self.displaced.get(term, id_) != id_ for term, id_ in displaced.items())
        self.displaced.update(displaced)
        levels = list(self._levels)
        while levels and len(levels[-1]) < self.FACTOR * len(last):
            last = np.sort(np.concatenate((levels.pop(), last)), kind="stable")
        self._levels = (*levels, last)

    def lookup(self, terms: Sequence[str], hashed: Sequence[int]) -> dict[str, int]:
        """Return the ids of those terms that are known, given the hash of each."""
        ids, displaced = hashed, self.displaced
        if displaced:
            ids = [displaced.get(term, id_) for term, id_ in zip(terms, hashed, strict=True)]
        known = self._has(_fingerprints(terms, ids)).tolist()
        return dict(compress(zip(terms, ids, strict=True), known))

    def taken(self, ids: Sequence[int]) -> list[bool]:
        """Return whether a term has each of these ids."""
        taken: list[bool] = self._has_like(np.array(ids, np.uint64) << _ID_BITS, _ID_BITS).tolist()
        return taken

    def channels(self, ids: NDArray[np.uint32]) -> NDArray[np.uint8]:
        """Return the channel of each id; that of an unknown one is the words'."""
        found, first = np.zeros(len(ids), np.uint8), ids.astype(np.uint64) << _ID_BITS
        for channel in (BIGRAMS, CHARACTERS):
            found[self._has_like(first | np.uint64(channel) << _HASH_BITS, _HASH_BITS)] = channel
        return found

    def _has_like(self, first: NDArray[np.uint64], ignored: np.uint64) -> NDArray[np.bool_]:
        """Return whether there is a fingerprint like each of some, apart from their last bits, which are 0."""
        found = np.zeros(len(first), bool)
        for level in self._levels:
            at = np.minimum(np.searchsorted(level, first), len(level) - 1)
            found |= level[at] >> ignored == first >> ignored
        return found

    def _has(self, prints: NDArray[np.uint64]) -> NDArray[np.bool_]:
        found = np.zeros(len(prints), bool)
        for level in self._levels:
            found |= level[np.minimum(np.searchsorted(level, prints), len(level) - 1)] == prints
        return found


def _fingerprints(terms: Collection[str], ids: Iterable[int]) -> NDArray[np.uint64]:
    number = len(terms)
    hashes = np.fromiter(map(hash, terms), np.int64, number).view(np.uint64)
    channels = channels_of(terms).astype(np.uint64)
    prints: NDArray[np.uint64] = np.fromiter(ids, np.uint64, number) << _ID_BITS | channels << _HASH_BITS
    prints |= hashes & ((np.uint64(1) << _HASH_BITS) - np.uint64(1))
    return prints
