"""Sparse vectors as two parallel arrays, and batches of them in CSR form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rag_bm25.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

__all__ = ["EMPTY", "SparseBatch", "SparseVector"]


@dataclass(frozen=True, eq=False)
class SparseVector:
    """Ids in strictly rising order, each with one weight.

    Parameters
    ----------
    ids : ndarray of uint32, shape (nnz,)
        Dimensions, strictly rising.
    values : ndarray of float32, shape (nnz,)
        Weights; finite.

    Examples
    --------
    >>> query = SparseVector.from_dict({7: 0.5, 3: 2.0})
    >>> query.to_dict()
    {3: 2.0, 7: 0.5}
    >>> query.dot(SparseVector.from_dict({7: 4.0}))
    2.0
    """

    ids: NDArray[np.uint32]
    values: NDArray[np.float32]

    @classmethod
    def from_dict(cls, weights: Mapping[int, float]) -> SparseVector:
        """Build a vector from ``{id: weight}``, in any order.

        Parameters
        ----------
        weights : mapping of int to float
            Weight of each dimension.

        Returns
        -------
        SparseVector
            The same weights, sorted by id.
        """
        ids = np.fromiter(weights.keys(), np.uint32, len(weights))
        values = np.fromiter(weights.values(), np.float32, len(weights))
        order = np.argsort(ids)
        return cls(ids[order], values[order])

    def to_dict(self) -> dict[int, float]:
        """Return the weights as ``{id: weight}``, in order of the ids.

        Returns
        -------
        dict of int to float
            Plain Python numbers, as Milvus clients expect them.
        """
        return dict(zip(self.ids.tolist(), self.values.tolist(), strict=True))

    def dot(self, other: SparseVector) -> float:
        """Inner product, summed in float64.

        Parameters
        ----------
        other : SparseVector
            The other factor.

        Returns
        -------
        float
            Sum over the shared dimensions.
        """
        _, mine, theirs = np.intersect1d(self.ids, other.ids, assume_unique=True, return_indices=True)
        return float(np.dot(self.values[mine].astype(np.float64), other.values[theirs]))

    def get(self, id_: int) -> float:
        """Return the weight of one dimension, 0.0 where there is none.

        Parameters
        ----------
        id_ : int
            The dimension.

        Returns
        -------
        float
            Its weight.
        """
        at = int(np.searchsorted(self.ids, id_))
        found = at < len(self.ids) and int(self.ids[at]) == id_
        return float(self.values[at]) if found else 0.0

    def get_many(self, ids: NDArray[np.uint32], missing: float) -> NDArray[np.float64]:
        """Return the weights of many dimensions.

        Parameters
        ----------
        ids : ndarray of uint32
            The dimensions, in any order.
        missing : float
            What those have that are not stored.

        Returns
        -------
        ndarray of float64
            Same shape as `ids`.
        """
        at = np.searchsorted(self.ids, ids)
        found = at < len(self.ids)
        found[found] = self.ids[at[found]] == ids[found]
        values = np.full(ids.shape, missing, np.float64)
        values[found] = self.values[at[found]]
        return values

    def __len__(self) -> int:
        """Return the number of stored dimensions."""
        return len(self.ids)

    def __eq__(self, other: object) -> bool:
        """Compare ids and weights, bit for bit."""
        if not isinstance(other, SparseVector):
            return NotImplemented
        return np.array_equal(self.ids, other.ids) and np.array_equal(self.values, other.values)

    __hash__ = None  # type: ignore[assignment]  # holds mutable arrays


EMPTY = SparseVector(np.empty(0, np.uint32), np.empty(0, np.float32))


@dataclass(frozen=True, eq=False)
class SparseBatch:
    """Rows of sparse vectors, laid end to end (CSR).

    Parameters
    ----------
    indptr : ndarray of int64, shape (n_rows + 1,)
        Row ``i`` is the slice ``indptr[i]:indptr[i + 1]`` of the other two.
    ids : ndarray of uint32, shape (nnz,)
        Dimensions, strictly rising within a row.
    values : ndarray of float32, shape (nnz,)
        Weights.
    """

    indptr: NDArray[np.int64]
    ids: NDArray[np.uint32]
    values: NDArray[np.float32]

    def __post_init__(self) -> None:
        """Check that the three arrays belong together."""
        if len(self.ids) != len(self.values) or self.indptr[-1] != len(self.ids):
            msg = (
                f"indptr must end at the number of entries, got {int(self.indptr[-1])} "
                f"for {len(self.ids)} ids and {len(self.values)} values"
            )
            raise InputError(msg)

    @classmethod
    def from_keys(cls, keys: NDArray[np.uint64], values: NDArray[np.float32], num_rows: int) -> SparseBatch:
        """Build a batch from rows and ids in one integer each.

        Parameters
        ----------
        keys : ndarray of uint64, shape (nnz,)
            As :attr:`keys` returns them, strictly rising.
        values : ndarray of float32, shape (nnz,)
            Weights.
        num_rows : int
            How many rows, the empty ones at the end included.

        Returns
        -------
        SparseBatch
            With an entry for each key.

        Examples
        --------
        >>> batch = SparseBatch.from_keys(np.array([7, 1 << 32 | 3], np.uint64), np.ones(2, np.float32), 2)
        >>> [row.to_dict() for row in batch]
        [{7: 1.0}, {3: 1.0}]
        """
        rows = (keys >> np.uint64(32)).astype(np.int64)
        indptr = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=num_rows))))
        return cls(indptr, keys.astype(np.uint32), values)

    @property
    def keys(self) -> NDArray[np.uint64]:
        """Row and id of each entry in one integer, the row in its upper half; strictly rising, shape (nnz,)."""
        rows = np.repeat(np.arange(len(self), dtype=np.uint64), np.diff(self.indptr))
        keys: NDArray[np.uint64] = self.ids | (rows << np.uint64(32))
        return keys

    def rows(self, span: slice) -> SparseBatch:
        """Return neighbouring rows, without copying their entries.

        Parameters
        ----------
        span : slice
            Which, without a step.

        Returns
        -------
        SparseBatch
            These rows.
        """
        first, last, _ = span.indices(len(self))
        indptr = self.indptr[first : last + 1]
        entries = slice(indptr[0], indptr[-1])
        return SparseBatch(indptr - indptr[0], self.ids[entries], self.values[entries])

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.indptr) - 1

    def __getitem__(self, row: int) -> SparseVector:
        """Return one row, without copying."""
        span = slice(self.indptr[row], self.indptr[row + 1])
        return SparseVector(self.ids[span], self.values[span])

    def __iter__(self) -> Iterator[SparseVector]:
        """Iterate over the rows."""
        return (self[row] for row in range(len(self)))
