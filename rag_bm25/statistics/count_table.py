"""A growing table of term ids and their counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from rag_bm25.vectors.sparse import group_starts

if TYPE_CHECKING:
    from numpy.typing import NDArray

_Id = TypeVar("_Id", np.uint32, np.int64)

NO_IDS = np.empty(0, np.uint32)
NO_COUNTS = np.empty(0, np.int64)
END = np.uint32(0xFFFFFFFF)  # above every id, so that a search in a level always ends at a place that it has


def sum_counts(ids: NDArray[_Id], counts: NDArray[np.int64]) -> tuple[NDArray[_Id], NDArray[np.int64]]:
    """Sum the counts of equal ids, in any order; return the ids that have some, rising, and their counts."""
    order = np.argsort(ids, kind="stable")  # merges sorted runs, instead of sorting
    ids = ids[order]
    starts = group_starts(ids)
    sums = np.add.reduceat(counts[order], starts) if len(starts) else NO_COUNTS
    kept = sums != 0
    return ids[starts][kept], sums[kept]


class _Level(NamedTuple):
    """Counts by rising id, and one of 0 at the end."""

    ids: NDArray[np.uint32]
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, ids: NDArray[np.uint32], counts: NDArray[np.int64]) -> _Level:
        kept = counts != 0
        return cls(np.append(ids[kept], END), np.append(counts[kept], np.int64(0)))

    def get(self, ids: NDArray[np.uint32]) -> NDArray[np.int64]:
        at = np.searchsorted(self.ids, ids)
        counts: NDArray[np.int64] = self.counts[at] * (self.ids[at] == ids)
        return counts

    def merged_with(self, smaller: _Level) -> _Level:
        """Return the sum of two levels; sorting both together would take three times the memory."""
        added, changes = smaller.ids[:-1], smaller.counts[:-1]
        at = np.searchsorted(self.ids, added)
        known = self.ids[at] == added
        counts = self.counts.copy()
        counts[at[known]] += changes[known]
        ids = np.insert(self.ids, at[~known], added[~known])
        counts = np.insert(counts, at[~known], changes[~known])
        if counts[:-1].all():
            return _Level(ids, counts)
        return _Level.of(ids[:-1], counts[:-1])


class CountTable:
    """Counts by id, at 12 bytes an id: levels of sorted arrays, whose sum counts."""

    # A change becomes a small level of its own, and is merged into the one below as it grows: each count is copied a
    # logarithmic number of times, whatever the size of the table. No level is ever changed, so that copies share them.

    FACTOR = 8  # by which each level is larger than the next, at least

    def __init__(self) -> None:
        self._levels: tuple[_Level, ...] = ()

    def copy(self) -> CountTable:
        """Return a table with the same counts, which changes of this one do not reach."""
        table = CountTable()
        table._levels = self._levels
        return table

    def get(self, ids: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Return the counts of `ids`, 0 where an id is unknown."""
        levels = self._levels
        if not levels:
            return np.zeros(len(ids), np.int64)
        counts = levels[0].get(ids)
        for level in levels[1:]:
            counts += level.get(ids)
        return counts

    def add(self, ids: NDArray[np.uint32], changes: NDArray[np.int64]) -> None:
        """Add `changes` to the counts of `ids`, which rise strictly."""
        *levels, last = *self._levels, _Level.of(ids, changes)
        while levels and len(levels[-1].ids) < self.FACTOR * len(last.ids):
            last = levels.pop().merged_with(last)
        self._levels = (*levels, last)

    def nonzero(self) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Return all ids, rising, whose count is not 0, and the counts."""
        if not self._levels:
            return NO_IDS, NO_COUNTS
        first, *others = self._levels
        for level in others:
            first = first.merged_with(level)
        self._levels = (first,)
        return first.ids[:-1], first.counts[:-1]
