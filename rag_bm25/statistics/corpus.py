"""The statistics of a corpus: N, df and lengths as sums over chunks, and the figures derived from them.

A copy costs no more than a few lists of what it has: what stays the same is shared. Searches read a copy that no write
changes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from rag_bm25.statistics.count_table import NO_COUNTS, NO_IDS, Counts, CountTable, sum_counts
from rag_bm25.vectors.terms import CHANNELS, NO_TERMS_ID
from rag_bm25.weighting.idf import IdfInputs, average_idf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from rag_bm25.statistics.count_table import Channels
    from rag_bm25.store.rows import ChunkRow
    from rag_bm25.vectors.sparse import SparseVector

MAX_COUNT = 2**53  # of any count, on either side of 0: JSON and float64 are exact up to here
MAX_CACHED_SUMS = 4  # of some namespaces; each takes as much memory as the statistics of these


@dataclass(frozen=True, eq=False)
class Contribution:
    """Share of some chunks in the statistics; with negative numbers, a change of them."""

    num_chunks: int = 0
    total_length: int = 0  # in the index's unit
    ids: NDArray[np.uint32] = field(default_factory=lambda: NO_IDS)  # strictly rising; never the reserved id
    df: NDArray[np.int64] = field(default_factory=lambda: NO_COUNTS)  # of each id, how many of the chunks have it
    channels: NDArray[np.uint8] | None = None  # of each id; None where they are not known

    @classmethod
    def of(cls, vectors: Iterable[SparseVector], lengths: Iterable[int]) -> Contribution:
        """Count chunks, given their stored vectors and their lengths."""
        all_ids = [vector.ids for vector in vectors]
        ids, df = np.unique(np.concatenate(all_ids or [NO_IDS]), return_counts=True)
        first = int(len(ids) > 0 and ids[0] == NO_TERMS_ID)
        return cls(len(all_ids), int(sum(lengths)), ids[first:], df[first:].astype(np.int64))

    @classmethod
    def of_rows(cls, rows: Sequence[ChunkRow]) -> Contribution:
        """Count chunks, given their rows with the vectors."""
        return cls.of((row.vector for row in rows), (row.length for row in rows))

    @property
    def counts(self) -> Counts:
        """The counts by id."""
        return Counts(self.ids, self.df, self.channels)

    def marked(self, channels: Channels) -> Contribution:
        """Return the same with the channel of each id, which stored vectors alone do not tell."""
        return replace(self, channels=channels.channels(self.ids))

    @classmethod
    def of_counts(cls, num_chunks: int, total_length: int, counts: Counts) -> Contribution:
        """Return a contribution of counts, which rise by id."""
        return cls(num_chunks, total_length, counts.ids, counts.df, counts.channels)

    def __add__(self, other: Contribution) -> Contribution:
        """Return the sum, without terms whose df is 0."""
        return add_up((self, other))

    def __neg__(self) -> Contribution:
        return Contribution(-self.num_chunks, -self.total_length, self.ids, -self.df, self.channels)

    def __sub__(self, other: Contribution) -> Contribution:
        return self + -other


def add_up(parts: Iterable[Contribution]) -> Contribution:
    """Return the sum of contributions, without terms whose df is 0, with channels where all parts have them."""
    parts = list(parts)
    counts = Counts.joined(part.counts for part in parts).summed()
    num_chunks, length = sum(part.num_chunks for part in parts), sum(part.total_length for part in parts)
    return Contribution.of_counts(num_chunks, length, counts)


class Histogram(NamedTuple):
    """Number of terms by df; never changed."""

    dfs: NDArray[np.int64] = NO_COUNTS  # > 0, rising
    terms: NDArray[np.int64] = NO_COUNTS

    def moved(self, old: NDArray[np.int64], new: NDArray[np.int64]) -> Histogram:
        """Count some terms under their new df instead of their old one; a df of 0 or less is none."""
        # Each df and its sign as one number: numbers alone are sorted several times as fast as an order of them.
        changes = np.concatenate((old[old > 0] << 1, new[new > 0] << 1 | 1))
        changes.sort()
        dfs, signs = changes >> 1, (changes & 1) * 2 - 1
        return Histogram(*sum_counts(np.concatenate((self.dfs, dfs)), np.concatenate((self.terms, signs))))


class CorpusCounts:
    """N, df and lengths of a corpus, changed by contributions at a cost that does not grow with the corpus."""

    def __init__(self) -> None:
        self.num_chunks = 0
        self.total_length = 0
        self._df = CountTable()
        self._histograms = (Histogram(),) * len(CHANNELS)
        self._num_negative = 0  # terms with df < 0
        self._idf_inputs: IdfInputs | None = None

    def plus(self, change: Contribution) -> CorpusCounts:
        """Return the sum of these statistics, which stay as they are, and a contribution."""
        total = CorpusCounts()
        total.num_chunks, total.total_length = self.num_chunks, self.total_length
        total._df, total._num_negative = self._df.copy(), self._num_negative
        total._histograms = self._histograms
        total.add(change)
        return total

    @property
    def is_negative(self) -> bool:
        """Whether a count is below zero, which no set of chunks can have."""
        return self._num_negative > 0 or self.num_chunks < 0 or self.total_length < 0

    @property
    def num_terms(self) -> int:
        """Number of terms with df > 0, of all channels."""
        return sum(int(histogram.terms.sum()) for histogram in self._histograms)

    @property
    def mean_length(self) -> float:
        """Mean chunk length, 0.0 where there are no chunks."""
        return self.total_length / self.num_chunks if self.num_chunks else 0.0

    @property
    def histograms(self) -> tuple[Histogram, ...]:
        """Number of terms of each channel with each df > 0."""
        return self._histograms

    @property
    def idf_inputs(self) -> IdfInputs:
        """N and the mean IDF of each channel, computed once after a change."""
        if self._idf_inputs is None:
            num_chunks = max(self.num_chunks, 0)  # below 0 only where the log was damaged
            means = (average_idf(dfs, terms, num_chunks) for dfs, terms in self.histograms)
            self._idf_inputs = IdfInputs(num_chunks, *means)
        return self._idf_inputs

    def df(self, ids: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Return the df of each term, in [0, N]; 0 for unknown terms."""
        # A damaged log must not turn a search into an error of the engine: verify() is what reports it.
        return np.minimum(np.maximum(self._df.get(ids), 0), max(self.num_chunks, 0))  # np.clip takes four times as long

    def channels(self, ids: NDArray[np.uint32]) -> NDArray[np.uint8]:
        """Return the channel of each id; that of an unknown one is the words'."""
        return self._df.get_marked(ids)[1]

    def more_frequent_than(self, df: float) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Return the terms with a larger df, if there are any: their ids and their df."""
        if not any((histogram.dfs > df).any() for histogram in self.histograms):
            return NO_IDS, NO_COUNTS
        counts = self._df.nonzero()
        return counts.ids[counts.df > df], counts.df[counts.df > df]

    def add(self, change: Contribution) -> None:
        """Add a contribution; its negative removes it."""
        before, old = self._df.get_marked(change.ids)
        self._df.add(change.counts)
        after = before + change.df
        new = old if change.channels is None else old | change.channels
        moved = zip(self._histograms, CHANNELS, strict=True)
        self._histograms = tuple(one.moved(before[old == channel], after[new == channel]) for one, channel in moved)
        self._num_negative += int(np.count_nonzero(after < 0)) - int(np.count_nonzero(before < 0))
        self.num_chunks += change.num_chunks
        self.total_length += change.total_length
        self._idf_inputs = None

    def since(self, former: CorpusCounts) -> Contribution:
        """Return the change since other statistics, at the cost of what has changed if these come from the others."""
        num_chunks, length = self.num_chunks - former.num_chunks, self.total_length - former.total_length
        return Contribution.of_counts(num_chunks, length, self._df.since(former._df))

    def contribution(self) -> Contribution:
        """Return everything as one contribution: a copy, of the size of the vocabulary."""
        return Contribution.of_counts(self.num_chunks, self.total_length, self._df.nonzero())


class CountsReader(Protocol):
    """Read N, df and lengths of each namespace, and of the whole."""

    @property
    def namespaces(self) -> list[str]:
        """Names of the namespaces that have, or had, chunks; sorted."""
        ...

    @property
    def filled(self) -> list[str]:
        """Names of the namespaces that have chunks; sorted."""
        ...

    @property
    def num_chunks(self) -> int:
        """N of all namespaces together."""
        ...

    @property
    def whole(self) -> CorpusCounts:
        """Statistics of all namespaces together."""
        ...

    def of(self, namespaces: Sequence[str] | None = None) -> CorpusCounts:
        """Return the statistics of some namespaces, by default all, as a read-only object."""
        ...

    def of_one(self, namespace: str) -> CorpusCounts:
        """Return the statistics of one namespace as a read-only object, empty where it never had chunks."""
        ...

    def are_all(self, namespaces: Sequence[str]) -> bool:
        """Return whether no other namespace has, or had, chunks; searches ask, at a cost that does not grow."""
        ...

    def contributions(self) -> dict[str, Contribution]:
        """Return a copy of the statistics of each namespace, sorted by name."""
        ...


class CountsByNamespace:
    """Statistics that are counted in memory; a single namespace is the whole, and is kept once."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, CorpusCounts] = {}
        self._whole: CorpusCounts | None = None
        self._selections = SumCache()

    @property
    def namespaces(self) -> list[str]:
        return sorted(self._by_namespace)

    @property
    def filled(self) -> list[str]:
        return sorted(name for name, statistics in self._by_namespace.items() if statistics.num_chunks > 0)

    @property
    def num_chunks(self) -> int:
        return self.whole.num_chunks

    @property
    def whole(self) -> CorpusCounts:
        if self._whole is not None:
            return self._whole
        return next(iter(self._by_namespace.values()), CorpusCounts())

    def of(self, namespaces: Sequence[str] | None = None) -> CorpusCounts:
        if namespaces is None or self.are_all(namespaces):
            return self.whole
        names = frozenset(namespaces).intersection(self._by_namespace)
        return self._selections.sum(names, self._by_namespace.__getitem__)

    def of_one(self, namespace: str) -> CorpusCounts:
        return self._by_namespace.get(namespace) or CorpusCounts()

    def are_all(self, namespaces: Sequence[str]) -> bool:
        return set(namespaces) >= self._by_namespace.keys()

    def contributions(self) -> dict[str, Contribution]:
        return {name: self._by_namespace[name].contribution() for name in self.namespaces}

    def add(self, namespace: str, change: Contribution) -> None:
        """Add a contribution to a namespace and to the whole."""
        self._selections = SumCache()
        if self._whole is None and self._by_namespace.keys() - {namespace}:
            self._whole = self.whole
        self._by_namespace[namespace] = self.of_one(namespace).plus(change)
        if self._whole is not None:
            self._whole = self._whole.plus(change)


class SumCache:
    """The sums of the selections of namespaces that were asked for last; several threads may ask."""

    def __init__(self) -> None:
        self._sums: dict[frozenset[str], CorpusCounts] = {}

    def sum(self, names: frozenset[str], of_one: Callable[[str], CorpusCounts]) -> CorpusCounts:
        """Return the sum of some namespaces, given the statistics of each."""
        total = self._sums.get(names)
        if total is None:
            total = _sum(map(of_one, names))
            kept = list(self._sums.items())[1 - MAX_CACHED_SUMS :]
            self._sums = dict([*kept, (names, total)])  # another thread may be reading the last one
        return total


def _sum(parts: Iterable[CorpusCounts]) -> CorpusCounts:
    """Return the sum of several parts; a single one is returned itself."""
    parts = list(parts)
    if len(parts) == 1:
        return parts[0]
    total = CorpusCounts()
    for part in parts:
        total.add(part.contribution())
    return total
