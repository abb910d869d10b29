"""The corpus's side: N and df, which are sums over chunks, and what is derived from them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from rag_bm25.similarity import CorpusFigures, average_idf
from rag_bm25.terms import NO_TERMS_ID

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from rag_bm25.sparse import SparseVector

__all__ = ["MAX_COUNT", "Contribution", "CorpusStatistics", "NamespaceStatistics"]

MAX_COUNT = 2**53
"""No count is beyond it, on either side of 0: JSON and float64 are exact up to here."""

KEPT_SUMS = 4  # of some namespaces; each takes as much memory as the statistics of these

_NO_IDS = np.empty(0, np.uint32)
_NO_COUNTS = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class Contribution:
    """What some chunks add to the statistics; with negative numbers, a change of them.

    Parameters
    ----------
    num_chunks : int
        Chunks.
    total_length : int
        Sum of their lengths, in the index's unit.
    ids : ndarray of uint32, shape (n_terms,)
        Terms, strictly rising; never the reserved id.
    df : ndarray of int64, shape (n_terms,)
        For each term, how many of the chunks have it.

    Examples
    --------
    >>> from rag_bm25.sparse import SparseVector
    >>> one = Contribution.of([SparseVector.from_dict({7: 0.4})], [12])
    >>> (one - one).num_chunks
    0
    """

    num_chunks: int = 0
    total_length: int = 0
    ids: NDArray[np.uint32] = field(default_factory=lambda: _NO_IDS)
    df: NDArray[np.int64] = field(default_factory=lambda: _NO_COUNTS)

    @classmethod
    def of(cls, vectors: Iterable[SparseVector], lengths: Iterable[int]) -> Contribution:
        """Count chunks by their stored vectors.

        Parameters
        ----------
        vectors : iterable of SparseVector
            Document vectors: their ids are the distinct terms of the chunks.
        lengths : iterable of int
            Lengths of the same chunks.

        Returns
        -------
        Contribution
            Their sum.
        """
        all_ids = [vector.ids for vector in vectors]
        ids, df = np.unique(np.concatenate(all_ids or [_NO_IDS]), return_counts=True)
        first = int(len(ids) > 0 and ids[0] == NO_TERMS_ID)
        return cls(len(all_ids), int(sum(lengths)), ids[first:], df[first:].astype(np.int64))

    def __add__(self, other: Contribution) -> Contribution:
        """Return the sum; terms whose df come out as 0 are left out."""
        ids, inverse = np.unique(np.concatenate((self.ids, other.ids)), return_inverse=True)
        df = np.zeros(len(ids), np.int64)
        np.add.at(df, inverse, np.concatenate((self.df, other.df)))
        kept = df != 0
        return Contribution(
            self.num_chunks + other.num_chunks,
            self.total_length + other.total_length,
            ids[kept],
            df[kept],
        )

    def __neg__(self) -> Contribution:
        """Return the contribution that undoes this one."""
        return Contribution(-self.num_chunks, -self.total_length, self.ids, -self.df)

    def __sub__(self, other: Contribution) -> Contribution:
        """Return the difference; terms whose df come out as 0 are left out."""
        return self + -other


class _CountTable:
    """Counts by id, at 12 bytes an id: sorted arrays, and a small dict for ids that came since the last merge.

    A change costs the batch and not the table: known ids are changed in place, and the arrays are merged anew only
    when the dict has grown to a sixteenth of them.
    """

    MIN_MERGE = 4096

    def __init__(self) -> None:
        self._ids = _NO_IDS
        self._counts = _NO_COUNTS
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
        recent = np.fromiter(self._recent.keys(), np.uint32, len(self._recent))
        counts = np.fromiter(self._recent.values(), np.int64, len(self._recent))
        order = np.argsort(recent)
        self._recent = {}
        self._insert(recent[order], counts[order])

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


class CorpusStatistics:
    """N, df and lengths of a corpus, changed by contributions, at a cost that does not grow with the corpus.

    Examples
    --------
    >>> from rag_bm25.sparse import SparseVector
    >>> statistics = CorpusStatistics()
    >>> statistics.add(Contribution.of([SparseVector.from_dict({7: 0.4, 9: 0.2})], [12]))
    >>> statistics.num_chunks, statistics.num_terms, statistics.df(np.array([7, 8], np.uint32)).tolist()
    (1, 2, [1, 0])
    """

    def __init__(self) -> None:
        self.num_chunks = 0
        self.total_length = 0
        self._df = _CountTable()
        self._histogram: Counter[int] = Counter()
        self._num_negative = 0  # terms with df < 0
        self._figures: CorpusFigures | None = None

    @property
    def is_negative(self) -> bool:
        """Whether a count is below zero, which no set of chunks can have."""
        return self._num_negative > 0 or self.num_chunks < 0 or self.total_length < 0

    @property
    def num_terms(self) -> int:
        """Number of terms with df > 0."""
        return self._histogram.total()

    @property
    def mean_length(self) -> float:
        """Mean chunk length, 0.0 where there are no chunks."""
        return self.total_length / self.num_chunks if self.num_chunks else 0.0

    @property
    def histogram(self) -> dict[int, int]:
        """How many terms there are of each df > 0."""
        return dict(self._histogram)

    @property
    def figures(self) -> CorpusFigures:
        """N and the mean IDF, computed once after a change."""
        if self._figures is None:
            num_chunks = max(self.num_chunks, 0)  # below 0 only where the log was damaged
            self._figures = CorpusFigures(num_chunks, average_idf(self._histogram, num_chunks))
        return self._figures

    def df(self, ids: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Return how many chunks have each term.

        Parameters
        ----------
        ids : ndarray of uint32, shape (n_terms,)
            Term ids.

        Returns
        -------
        ndarray of int64, shape (n_terms,)
            df, in [0, N]; 0 for unknown terms.
        """
        # A damaged log must not turn a search into an error of the engine: verify() is what reports it.
        return np.minimum(np.maximum(self._df.get(ids), 0), max(self.num_chunks, 0))  # np.clip takes four times as long

    def add(self, change: Contribution) -> None:
        """Add a contribution, or take one away by its negative.

        Parameters
        ----------
        change : Contribution
            What changed.
        """
        before = self._df.get(change.ids)
        self._df.add(change.ids, change.df)
        after = before + change.df
        self._move_in_histogram(before, after)
        self._num_negative += int(np.count_nonzero(after < 0)) - int(np.count_nonzero(before < 0))
        self.num_chunks += change.num_chunks
        self.total_length += change.total_length
        self._figures = None

    def contribution(self) -> Contribution:
        """Return everything as one contribution.

        Returns
        -------
        Contribution
            A copy; its size is that of the vocabulary.
        """
        return Contribution(self.num_chunks, self.total_length, *self._df.nonzero())

    def _move_in_histogram(self, before: NDArray[np.int64], after: NDArray[np.int64]) -> None:
        """Count the terms under their new df instead of their old one."""
        for dfs, sign in ((before, -1), (after, 1)):
            for df, terms in zip(*(a.tolist() for a in np.unique(dfs, return_counts=True)), strict=True):
                if df <= 0:
                    continue
                self._histogram[df] += sign * terms
                if not self._histogram[df]:
                    del self._histogram[df]


class NamespaceStatistics:
    """Statistics of each namespace, and of the whole.

    While there is a single namespace, the whole is that one, and is kept once.
    """

    def __init__(self) -> None:
        self._by_namespace: dict[str, CorpusStatistics] = {}
        self._whole: CorpusStatistics | None = None
        self._sums: dict[frozenset[str], CorpusStatistics] = {}
        self._negative: set[str] = set()

    @property
    def namespaces(self) -> list[str]:
        """Names of the namespaces that have, or had, chunks; sorted."""
        return sorted(self._by_namespace)

    @property
    def negative(self) -> list[str]:
        """Names of the namespaces with a count below zero; sorted."""
        return sorted(self._negative)

    @property
    def whole(self) -> CorpusStatistics:
        """Statistics of all namespaces together."""
        if self._whole is not None:
            return self._whole
        return next(iter(self._by_namespace.values()), CorpusStatistics())

    def of(self, namespaces: Sequence[str] | None = None) -> CorpusStatistics:
        """Return the statistics of some namespaces.

        Parameters
        ----------
        namespaces : sequence of str, optional
            Which; all by default.

        Returns
        -------
        CorpusStatistics
            Not to be changed. Several, but not all, namespaces are summed once after a change.
        """
        if namespaces is None or set(namespaces) >= self._by_namespace.keys():
            return self.whole
        names = frozenset(namespaces).intersection(self._by_namespace)
        if names not in self._sums:
            if len(self._sums) == KEPT_SUMS:
                del self._sums[next(iter(self._sums))]
            self._sums[names] = _sum(self._by_namespace[name] for name in names)
        return self._sums[names]

    def of_one(self, namespace: str) -> CorpusStatistics:
        """Return the statistics of one namespace, empty where it never had chunks.

        Parameters
        ----------
        namespace : str
            Which.

        Returns
        -------
        CorpusStatistics
            Not to be changed.
        """
        return self._by_namespace.get(namespace) or CorpusStatistics()

    def contributions(self) -> dict[str, Contribution]:
        """Return everything, as one contribution for each namespace.

        Returns
        -------
        dict of str to Contribution
            Namespace -> a copy of its statistics; sorted.
        """
        return {name: self._by_namespace[name].contribution() for name in self.namespaces}

    def add(self, namespace: str, change: Contribution) -> None:
        """Add a contribution to a namespace and to the whole.

        Parameters
        ----------
        namespace : str
            Whose chunks changed.
        change : Contribution
            What changed.
        """
        self._sums.clear()
        if namespace not in self._by_namespace:
            if len(self._by_namespace) == 1:
                self._whole = _sum([self.whole, CorpusStatistics()])
            self._by_namespace[namespace] = CorpusStatistics()
        self._by_namespace[namespace].add(change)
        if self._by_namespace[namespace].is_negative:
            self._negative.add(namespace)
        else:
            self._negative.discard(namespace)
        if self._whole is not None:
            self._whole.add(change)


def _sum(parts: Iterable[CorpusStatistics]) -> CorpusStatistics:
    """Return the one part as it is, or a new sum of several."""
    parts = list(parts)
    if len(parts) == 1:
        return parts[0]
    total = CorpusStatistics()
    for part in parts:
        total.add(part.contribution())
    return total
