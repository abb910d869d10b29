"""Sparse vectors as two parallel arrays, and batches of them as CSR matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from rag_bm25.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

_Number = TypeVar("_Number", bound=np.number)


@dataclass(frozen=True, eq=False)
class SparseVector:
    """A sparse vector: ids with their weights."""

    ids: NDArray[np.uint32]  # dimensions, strictly increasing
    values: NDArray[np.float32]  # weights; finite

    @classmethod
    def from_dict(cls, weights: Mapping[int, float]) -> SparseVector:
        """Build a vector from weights by id, in any order."""
        return cls(*sorted_items(weights, np.float32))

    def to_dict(self) -> dict[int, float]:
        """Return the weights by id, in order of the ids."""
        return dict(zip(self.ids.tolist(), self.values.tolist(), strict=True))

    def dot(self, other: SparseVector) -> float:
        """Compute the inner product in float64."""
        _, mine, theirs = np.intersect1d(self.ids, other.ids, assume_unique=True, return_indices=True)
        return float(np.dot(self.values[mine].astype(np.float64), other.values[theirs]))

    def get(self, id_: int) -> float:
        """Return the weight of a dimension, 0.0 by default."""
        at = int(np.searchsorted(self.ids, id_))
        found = at < len(self.ids) and int(self.ids[at]) == id_
        return float(self.values[at]) if found else 0.0

    def get_many(self, ids: NDArray[np.uint32]) -> NDArray[np.float64]:
        """Return the weights of several dimensions, 0.0 by default."""
        at = np.searchsorted(self.ids, ids)
        found = at < len(self.ids)
        found[found] = self.ids[at[found]] == ids[found]
        values = np.zeros(ids.shape)
        values[found] = self.values[at[found]]
        return values

    def __len__(self) -> int:
        """Return the number of stored dimensions."""
        return len(self.ids)

    def __eq__(self, other: object) -> bool:
        """Compare ids and weights exactly."""
        if not isinstance(other, SparseVector):
            return NotImplemented
        return np.array_equal(self.ids, other.ids) and np.array_equal(self.values, other.values)

    __hash__ = None  # type: ignore[assignment]  # holds mutable arrays


EMPTY = SparseVector(np.empty(0, np.uint32), np.empty(0, np.float32))


@dataclass(frozen=True, eq=False)
class SparseBatch:
    """A batch of sparse vectors as a CSR matrix."""

    indptr: NDArray[np.int64]  # row i is the slice indptr[i]:indptr[i + 1] of the other two
    ids: NDArray[np.uint32]  # dimensions, strictly increasing within a row
    values: NDArray[np.float32]  # weights

    def __post_init__(self) -> None:
        """Check that the lengths of the arrays agree."""
        if len(self.ids) != len(self.values) or self.indptr[-1] != len(self.ids):
            raise InputError(
                f"indptr must end at the number of entries, got {int(self.indptr[-1])} "
                f"for {len(self.ids)} ids and {len(self.values)} values"
            )

    @classmethod
    def from_keys(cls, keys: NDArray[np.uint64], values: NDArray[np.float32], num_rows: int) -> SparseBatch:
        """Build a batch from `keys`."""
        rows = (keys >> np.uint64(32)).astype(np.int64)
        indptr = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=num_rows))))
        return cls(indptr, keys.astype(np.uint32), values)

    @classmethod
    def of(cls, vectors: Sequence[SparseVector]) -> SparseBatch:
        """Build a batch from its rows."""
        indptr = np.cumsum([0, *map(len, vectors)])
        ids, values = [vector.ids for vector in vectors], [vector.values for vector in vectors]
        return cls(indptr, np.concatenate([EMPTY.ids, *ids]), np.concatenate([EMPTY.values, *values]))

    @property
    def keys(self) -> NDArray[np.uint64]:
        """Row << 32 | id of each entry; strictly increasing, shape (nnz,)."""
        rows = self.per_entry(np.arange(len(self), dtype=np.uint64))
        keys: NDArray[np.uint64] = self.ids | (rows << np.uint64(32))
        return keys

    def per_entry(self, of_rows: NDArray[_Number]) -> NDArray[_Number]:
        """Repeat a value of each row for each of its entries."""
        return np.repeat(of_rows, np.diff(self.indptr))

    def dot(self, vector: SparseVector) -> NDArray[np.float64]:
        """Compute the inner product of each row in float64."""
        rows, products = self.per_entry(np.arange(len(self))), vector.get_many(self.ids) * self.values
        return np.bincount(rows, products, len(self)).astype(np.float64)

    def only(self, ids: NDArray[np.uint32]) -> SparseBatch:
        """Leave out all other dimensions."""
        kept = np.isin(self.ids, ids)
        return SparseBatch.from_keys(self.keys[kept], self.values[kept], len(self))

    def rows(self, span: slice) -> SparseBatch:
        """Return consecutive rows as a view."""
        first, last, _ = span.indices(len(self))
        indptr = self.indptr[first : last + 1]
        entries = slice(indptr[0], indptr[-1])
        return SparseBatch(indptr - indptr[0], self.ids[entries], self.values[entries])

    def __eq__(self, other: object) -> bool:
        """Compare rows, ids and weights exactly."""
        if not isinstance(other, SparseBatch):
            return NotImplemented
        arrays = (self.indptr, other.indptr), (self.ids, other.ids), (self.values, other.values)
        return all(np.array_equal(mine, theirs) for mine, theirs in arrays)

    __hash__ = None  # type: ignore[assignment]  # holds mutable arrays

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.indptr) - 1

    def __getitem__(self, row: int) -> SparseVector:
        """Return a row as a view."""
        span = slice(self.indptr[row], self.indptr[row + 1])
        return SparseVector(self.ids[span], self.values[span])

    def __iter__(self) -> Iterator[SparseVector]:
        """Iterate over the rows."""
        return (self[row] for row in range(len(self)))


def sorted_items(values: Mapping[int, float], dtype: type[_Number]) -> tuple[NDArray[np.uint32], NDArray[_Number]]:
    """Return the ids of a mapping, increasing, and their values."""
    ids = np.fromiter(values.keys(), np.uint32, len(values))
    numbers = np.fromiter(values.values(), dtype, len(values))
    order = np.argsort(ids)
    return ids[order], numbers[order]


def sort_spans(values: NDArray[_Number], sizes: NDArray[np.int64]) -> None:
    """Sort spans that follow each other, each by itself: they fit into the processor's cache."""
    start = 0
    for end in np.cumsum(sizes).tolist():
        values[start:end].sort()
        start = end


def group_starts(keys: NDArray[np.uint32 | np.uint64 | np.int64]) -> NDArray[np.intp]:
    """Return the position of the first of each group of equal keys, given sorted ones."""
    return np.flatnonzero(np.diff(keys, prepend=~keys[:1]))


def sum_in_rows(ids: NDArray[np.uint32], counts: NDArray[np.float32], indptr: NDArray[np.int64]) -> SparseBatch:
    """Build a batch of rows whose ids are in any order, and sum the counts, whole numbers, that a row has of one id."""
    # An id and its count in one integer: counts follow their ids, and need no order of these.
    entries = ids.astype(np.uint64) << np.uint64(32) | counts.view(np.uint32)
    sort_spans(entries, np.diff(indptr))
    ids, counts = (entries >> np.uint64(32)).astype(np.uint32), entries.astype(np.uint32).view(np.float32)
    batch = SparseBatch(indptr, ids, counts)
    starts = group_starts(keys := batch.keys)
    if len(starts) == len(keys):
        return batch
    return SparseBatch.from_keys(keys[starts], np.add.reduceat(counts, starts), len(batch))
