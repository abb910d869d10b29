"""A growing table of term ids and their counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rag_bm25.vectors.sparse import sorted_items

if TYPE_CHECKING:
    from numpy.typing import NDArray


NO_IDS = np.empty(0, np.uint32)
NO_COUNTS = np.empty(0, np.int64)


class CountTable:
    """Counts by id, at 12 bytes an id: sorted arrays, and a small dict for ids added since the last merge."""

    # A change costs the batch and not the table: known ids are changed in place, and the arrays are merged anew only
    # when the dict has grown to a sixteenth of them.

    MIN_MERGE = 4096

    def __init__(self) -> None:
        self._ids = NO_IDS
        self._counts = NO_COUNTS
        self._recent: dict[int, int] = {}

    def get(self, ids: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Return the counts of `ids`, 0 where an id is unknown."""
        at, known = self._find(ids)
        if known.all():
            return self._counts[at]
        counts = np.zeros(len(ids), np.int64)
        counts[known] = self._counts[at[known]]
        unknown = np.flatnonzero(~known)
        if self._recent and len(unknown):
            counts[unknown] = [self._recent.get(id_, 0) for id_ in ids[unknown].tolist()]
        return counts

    def add(self, ids: NDArray[np.uint32], changes: NDArray[np.int64]) -> None:
        """Add `changes` to the counts of the distinct `ids`."""
        at, known = self._find(ids)
        self._counts[at[known]] += changes[known]
        unknown = ~known
        if np.count_nonzero(unknown) > self._most_recent():
            self._merge()
            self._insert(ids[unknown], changes[unknown])
            return
        for id_, change in zip(ids[unknown].tolist(), changes[unknown].tolist(), strict=True):
            self._recent[id_] = self._recent.get(id_, 0) + change
        if len(self._recent) > self._most_recent():
            self._merge()

    def nonzero(self) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Return all ids, rising, whose count is not 0, and the counts."""
        self._merge()
        kept = self._counts != 0
        return self._ids[kept], self._counts[kept]

    def _find(self, ids: NDArray[np.uint32]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Return the place of each id in the arrays, and whether it is there."""
        at = np.searchsorted(self._ids, ids)
        if not len(self._ids):
            return at, np.zeros(len(ids), np.bool_)
        return at, self._ids[np.minimum(at, len(self._ids) - 1)] == ids

    def _merge(self) -> None:
        """Move the recent ids into the sorted arrays."""
        recent = sorted_items(self._recent, np.int64)
        self._recent = {}
        self._insert(*recent)

    def _insert(self, ids: NDArray[np.uint32], counts: NDArray[np.int64]) -> None:
        """Put sorted ids into the sorted arrays, and add up the counts of those that are there."""
        at, known = self._find(ids)
        self._counts[at[known]] += counts[known]
        new = ~known
        self._ids = np.insert(self._ids, at[new], ids[new])
        self._counts = np.insert(self._counts, at[new], counts[new])

    def _most_recent(self) -> int:
        """Return how many ids the dict may hold."""
        return max(self.MIN_MERGE, len(self._ids) // 16)
