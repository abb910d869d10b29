"""The ids of the terms of one index as those of another, where they differ."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from rag_bm25.vectors.sparse import SparseVector, sorted_items

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


@dataclass(frozen=True)
class Renumbering:
    """Ids that a term has here, and there; all others are the same. Few terms have another id than their hash."""

    moved: Mapping[int, int] = field(default_factory=dict)

    def ids(self, ids: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Return the ids of the same terms there, in the same order."""
        return _replace(ids, *self._forth) if self.moved else ids

    def vector(self, vector: SparseVector) -> SparseVector:
        """Return a vector with the ids of there."""
        return _sorted(self.ids(vector.ids), vector.values) if self.moved else vector

    def undo(self, vector: SparseVector) -> SparseVector:
        """Return a vector of there with the ids of here, without the terms whose id another term has here."""
        if not self.moved:
            return vector
        here, there = self._forth
        kept = ~np.isin(vector.ids, here) | np.isin(vector.ids, there)
        return _sorted(_replace(vector.ids[kept], *self._back), vector.values[kept])

    @cached_property
    def _forth(self) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        return sorted_items(self.moved, np.uint32)

    @cached_property
    def _back(self) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        return sorted_items({there: here for here, there in self.moved.items()}, np.uint32)


def _replace(ids: NDArray[np.uint32], before: NDArray[np.uint32], after: NDArray[np.uint32]) -> NDArray[np.uint32]:
    at = np.minimum(np.searchsorted(before, ids), len(before) - 1)
    return np.where(before[at] == ids, after[at], ids)


def _sorted(ids: NDArray[np.uint32], values: NDArray[np.float32]) -> SparseVector:
    order = np.argsort(ids)
    return SparseVector(ids[order], values[order])
