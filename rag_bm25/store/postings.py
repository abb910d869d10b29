"""Postings of rows in memory: a search reads those of its own dimensions instead of every vector.

Rows are indexed when a search first needs them, so that a write costs no more than to note them. As in
:class:`~rag_bm25.vectors.known_terms.KnownTerms`, each level is larger than the next by a factor: a row is indexed a
logarithmic number of times. What a search has in hand never changes, so that others may write meanwhile.
"""

from __future__ import annotations

from itertools import chain
from threading import RLock
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rag_bm25.vectors.sparse import SparseBatch, group_starts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from rag_bm25.store.rows import ChunkRow
    from rag_bm25.vectors.sparse import SparseVector

FACTOR = 8  # by which each level is larger than the next, at least
MAX_DELETED = 0.25  # share of the rows, above which all others are indexed again

_POSITION_BITS = np.uint64(32)


class _Level(NamedTuple):
    """The postings of some rows, which are identified by number."""

    rows: NDArray[np.int32]  # that are indexed, increasing
    ids: NDArray[np.uint32]  # dimensions, strictly increasing
    starts: NDArray[np.intp]  # of the postings of each dimension, and the end of the last
    posted: NDArray[np.int32]  # the row of each posting, by dimension
    values: NDArray[np.float32]  # and its weight

    @classmethod
    def of(cls, numbers: Sequence[int], vectors: Sequence[SparseVector]) -> _Level:
        rows, batch = np.array(numbers, np.int32), SparseBatch.of(vectors)
        # A dimension and a position in one integer: sorting these takes a fourth of the time of `argsort`.
        keys = batch.ids.astype(np.uint64) << _POSITION_BITS | np.arange(len(batch.ids), dtype=np.uint64)
        keys.sort()
        ids, at = (keys >> _POSITION_BITS).astype(np.uint32), keys.astype(np.uint32)
        starts = group_starts(ids)
        return cls(rows, ids[starts], np.append(starts, len(ids)), batch.per_entry(rows)[at], batch.values[at])

    def products(self, query: SparseVector) -> list[tuple[NDArray[np.int32], NDArray[np.float64]]]:
        """Return for each dimension of a query the rows that have it, and the products of both weights."""
        at = np.searchsorted(self.ids, query.ids)
        at[at == len(self.ids)] = 0
        shared = np.flatnonzero(self.ids[at] == query.ids) if len(self.ids) else at[:0]
        spans = map(slice, self.starts[at[shared]].tolist(), self.starts[at[shared] + 1].tolist())
        weights = query.values[shared].astype(np.float64)
        return [(self.posted[span], self.values[span] * weight) for span, weight in zip(spans, weights, strict=True)]


class View(NamedTuple):
    """The rows of one moment."""

    rows: list[ChunkRow]
    levels: tuple[_Level, ...]
    are_kept: NDArray[np.bool_]  # of the rows that are indexed, those that are not deleted

    def scores(self, query: SparseVector) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Return the numbers of the rows that share a dimension with a query, and their inner products."""
        products = [pair for level in self.levels for pair in level.products(query)]
        if not products:
            return np.empty(0, np.intp), np.empty(0)
        posted = np.concatenate([rows for rows, _ in products])
        values = np.concatenate([values for _, values in products])
        sums = np.bincount(posted, values, len(self.are_kept)).astype(np.float64, copy=False)
        share = np.zeros(len(self.are_kept), bool)
        share[posted] = True
        found = np.flatnonzero(share & self.are_kept)
        return found, sums[found]


class Postings:
    """Rows that come and go, and where each of their dimensions occurs. Threads may share it."""

    def __init__(self, rows: Iterable[ChunkRow] = ()) -> None:
        self._lock = RLock()  # a signal handler may search, too
        self._view = View([], (), np.empty(0, bool))
        self._numbers: dict[str, int] = {}  # by primary key, of the rows that are not deleted
        self.add(rows)

    def add(self, rows: Iterable[ChunkRow]) -> None:
        """Note new rows."""
        with self._lock:
            for row in rows:
                self._view.rows.append(row)
                self._numbers[row.pk] = len(self._view.rows) - 1

    def remove(self, pks: Iterable[str]) -> None:
        """Forget rows; those that are unknown are ignored."""
        with self._lock:
            numbers = [self._numbers.pop(pk) for pk in pks if pk in self._numbers]
            are_kept = self._view.are_kept.copy()
            are_kept[[number for number in numbers if number < len(are_kept)]] = False
            self._view = self._view._replace(are_kept=are_kept)
            rows = self._view.rows
            if len(rows) - len(self._numbers) > MAX_DELETED * len(rows):
                anew = Postings(map(rows.__getitem__, self._numbers.values()))
                self._view, self._numbers = anew._view, anew._numbers

    def view(self) -> View:
        """Return the present rows, all of which are indexed."""
        with self._lock:
            if len(self._view.rows) > len(self._view.are_kept):
                self._view = self._indexed()
            return self._view

    def _indexed(self) -> View:
        """Index the rows that are new, together with the smaller levels."""
        rows, levels, are_kept = self._view
        new = range(len(are_kept), len(rows))
        are_kept = np.append(are_kept, [self._numbers.get(rows[number].pk) == number for number in new])
        first, left = len(levels), len(new)
        while first and len(levels[first - 1].rows) < FACTOR * left:
            first -= 1
            left += len(levels[first].rows)
        numbers = list(chain(*(level.rows.tolist() for level in levels[first:]), new))
        numbers = [number for number in numbers if are_kept[number]]
        level = _Level.of(numbers, [rows[number].vector for number in numbers])
        return View(rows, (*levels[:first], level), are_kept)
