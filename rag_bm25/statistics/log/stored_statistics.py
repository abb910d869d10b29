"""The statistics of one moment of a log, of which the counts are read when they are first asked for."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

from rag_bm25.statistics.corpus import Contribution, CorpusCounts, SumCache, add_up
from rag_bm25.statistics.count_table import Counts
from rag_bm25.statistics.log.runs import HeldSums, merge, read_part
from rag_bm25.statistics.log.table import RowsMovedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rag_bm25.statistics.log.runs import Part, Sums


class NamespaceChange(NamedTuple):
    """Change of a namespace by a batch."""

    namespace: str
    change: Contribution


class _Total(NamedTuple):
    """N and length of a namespace."""

    num_chunks: int = 0
    total_length: int = 0


class StoredStatistics:
    """Statistics of each namespace, and of the whole, at one moment: some sums in the log, and the changes since.

    Several threads may ask for counts at once. A moment knows the next one, and hands on what it has read.
    """

    def __init__(self, sums: Sequence[Sums] = ()) -> None:
        self._sums = tuple(sums)  # in the log
        self._changes: tuple[NamespaceChange, ...] = ()
        self._totals: dict[str, _Total] = {}
        self._loaded: dict[Part, CorpusCounts] = {}
        self._loading: dict[Part, threading.RLock] = {}
        self._negative: set[str] = set()  # as far as the counts were read
        self._selections = SumCache()
        self._next: tuple[tuple[NamespaceChange, ...], StoredStatistics] | None = None
        for some in sums:
            for part, total in some.totals.items():
                if part is not None:
                    self._count(part, total.num_chunks, total.total_length)

    def _count(self, namespace: str, num_chunks: int, length: int) -> None:
        known = self._totals.get(namespace, _Total())
        self._totals[namespace] = total = _Total(known.num_chunks + num_chunks, known.total_length + length)
        if min(total) < 0:
            self._negative.add(namespace)

    # The next moment

    def plus(self, changes: Sequence[NamespaceChange]) -> StoredStatistics:
        """Return the statistics after some changes."""
        following = StoredStatistics()
        following._sums, following._changes = self._sums, (*self._changes, *changes)
        following._totals = self._totals.copy()
        following._negative = self._negative - {namespace for namespace, _ in changes}
        for namespace, change in changes:
            following._count(namespace, change.num_chunks, change.total_length)
        self._hand_on(tuple(changes), following)
        return following

    def moved(self, sums: Sequence[Sums], changes: Sequence[NamespaceChange]) -> StoredStatistics:
        """Return the same statistics, with more of the changes in the sums."""
        following = StoredStatistics()
        following._sums, following._changes, following._totals = tuple(sums), tuple(changes), self._totals
        following._negative = self._negative.copy()
        self._hand_on((), following)
        return following

    def _hand_on(self, changes: tuple[NamespaceChange, ...], following: StoredStatistics) -> None:
        if self._whole_part != following._whole_part and (whole := self._loaded.get(self._whole_part)) is not None:
            following.put(None, self._changed(None, whole, changes))
        for part, counts in self._loaded.copy().items():
            following.put(part, self._changed(part, counts, changes))
        self._next = changes, following
        for part in self._loaded.keys() - following._loaded.keys():  # read meanwhile
            following._keep(part, self._changed(part, self._loaded[part], changes))

    def _changed(self, part: Part, counts: CorpusCounts, changes: Iterable[NamespaceChange]) -> CorpusCounts:
        for namespace, change in changes:
            if part is None or part == namespace:
                counts = counts.plus(change)
        return counts

    def _keep(self, part: Part, counts: CorpusCounts) -> None:
        """Keep what was read, here and in the moments after this one."""
        self.put(part, counts)
        moment: StoredStatistics = self
        while moment._next is not None:  # after keeping it: either `_hand_on` sees it, or the next moment is seen here
            changes, moment = moment._next
            counts = self._changed(part, counts, changes)
            moment.put(part, counts)

    def put(self, part: Part, counts: CorpusCounts) -> None:
        """Take the statistics of a part, unless they are there."""
        self._loaded.setdefault(part, counts)
        if part is not None and counts.is_negative:
            self._negative.add(part)

    # Reading

    @property
    def namespaces(self) -> list[str]:
        """Names of the namespaces that have, or had, chunks; sorted."""
        return sorted(self._totals)

    @property
    def filled(self) -> list[str]:
        """Names of the namespaces that have chunks; sorted."""
        return sorted(name for name, total in self._totals.items() if total.num_chunks > 0)

    @property
    def negative(self) -> list[str]:
        """Names of the namespaces with a count below zero, as far as their counts were read; sorted."""
        return sorted(self._negative.copy())

    @property
    def num_chunks(self) -> int:
        """N of all namespaces together."""
        return sum(total.num_chunks for total in self._totals.values())

    @property
    def num_terms_read(self) -> int:
        """Number of terms with df > 0 of the whole, 0 as long as nobody has asked for them."""
        counts = self._loaded.get(self._whole_part)
        return 0 if counts is None else counts.num_terms

    @property
    def whole(self) -> CorpusCounts:
        """Statistics of all namespaces together."""
        return self._part(self._whole_part) if self._totals else CorpusCounts()

    @property
    def _whole_part(self) -> Part:
        """The part that has all counts: a single namespace is the whole, and is read once."""
        return None if len(self._totals) != 1 else next(iter(self._totals))

    def of(self, namespaces: Sequence[str] | None = None) -> CorpusCounts:
        """Return the statistics of some namespaces, by default all, as a read-only object."""
        if namespaces is None or self.are_all(namespaces):
            return self.whole
        return self._selections.sum(frozenset(namespaces).intersection(self._totals), self._part)

    def are_all(self, namespaces: Sequence[str]) -> bool:
        """Return whether no other namespace has, or had, chunks."""
        return len(namespaces) >= len(self._totals) and self._totals.keys() <= set(namespaces)

    def of_one(self, namespace: str) -> CorpusCounts:
        """Return the statistics of one namespace as a read-only object, empty where it never had chunks."""
        return self._part(namespace) if namespace in self._totals else CorpusCounts()

    def contributions(self) -> dict[str, Contribution]:
        """Return a copy of the statistics of each namespace, sorted by name, in one pass over the log."""
        totals = {
            part: Contribution.of_counts(num_chunks, length, Counts.joined(pieces))
            for part, num_chunks, length, pieces in merge([*self._sums, self.held_changes()])
            if part is not None
        }
        return {name: totals.get(name, Contribution()) for name in self.namespaces}

    def held_changes(self) -> HeldSums:
        """Return the sums of the changes that are in no sums of the log."""
        by_namespace: dict[str, list[Contribution]] = {}
        for namespace, change in self._changes:
            by_namespace.setdefault(namespace, []).append(change)
        return HeldSums.of({name: add_up(changes) for name, changes in by_namespace.items()})

    def loaded(self) -> list[Part]:
        """Return the parts of which the counts were read."""
        return list(self._loaded.copy())

    def load(self, parts: Iterable[Part]) -> None:
        """Read the counts of parts before anyone asks for them."""
        for part in parts:
            self.of(None if part is None else [part])

    def _part(self, part: Part) -> CorpusCounts:
        if (counts := self._loaded.get(part)) is not None:
            return counts
        with self._loading.setdefault(part, threading.RLock()):  # one thread reads, for all
            if part not in self._loaded:
                self._keep(part, self._read(part))
        return self._loaded[part]

    def _read(self, part: Part) -> CorpusCounts:
        try:
            contributions = read_part(self._sums, part)
        except RowsMovedError:
            return self._read_later(part)
        contributions += [change for namespace, change in self._changes if part is None or part == namespace]
        return CorpusCounts().plus(add_up(contributions))

    def _read_later(self, part: Part) -> CorpusCounts:
        """Reconstruct the counts of a part from the next moment, minus the changes after this one."""
        if self._next is None:
            raise RowsMovedError("the statistics were compacted while they were read: try again")
        changes, following = self._next
        undone = [NamespaceChange(namespace, -change) for namespace, change in changes]
        return self._changed(part, following.of(None if part is None else [part]), undone)
