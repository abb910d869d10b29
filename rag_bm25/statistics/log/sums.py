"""The statistics that a log sums up to: the runs that its head names, and the deltas that are in none of them.

A writer that finds many deltas folds them into a run, and runs into larger ones: each count is written again a few
times, however long the history. What a head has made superfluous is deleted after the next one: readers find it.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rag_bm25.statistics.log.head import Head, HeadRow
from rag_bm25.statistics.log.keys import LogKey
from rag_bm25.statistics.log.runs import open_runs, write_run
from rag_bm25.statistics.log.stored_statistics import NamespaceChange, StoredStatistics
from rag_bm25.statistics.log.writes import DeltaRow

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from rag_bm25.statistics.log.batches import BatchClock
    from rag_bm25.statistics.log.runs import Part, Run, Sums
    from rag_bm25.statistics.log.table import Listing, LogTable
    from rag_bm25.statistics.log.writes import Delta
    from rag_bm25.store.rows import LogRow

FAN = 8
"""Number of runs of one level that make one of the next."""


def next_level(levels: Sequence[int]) -> int:
    """Return the level of the next run, given those of the others; it takes in all runs below."""
    level = 0
    while levels.count(level) >= FAN - 1:
        level += 1
    return level


class LogSums:
    """Statistics of each namespace, as sums of the deltas read or written so far; `statistics` is never changed."""

    def __init__(self, table: LogTable) -> None:
        self._table = table
        self._torn = False
        self._clear()

    def _clear(self) -> None:
        self.statistics = StoredStatistics()
        self.head = Head()  # whose runs are in the statistics
        self.num_terms = 0  # that the vocabulary has, at least
        self._runs: Sequence[Run] = ()
        self._counted: set[str] = set()  # deltas in the statistics whose rows may still be there
        self._unfolded: dict[str, NamespaceChange] = {}  # those that are in no run
        self._last_number = 0  # greatest number of a delta read since the head
        self._wanted: list[Part] = []  # parts that readers have asked for

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Note a change that is cut short, by Ctrl-C for instance: the next read then starts anew."""
        self._torn = True
        yield
        self._torn = False

    @property
    def num_unfolded(self) -> int:
        """Number of deltas that are in no run."""
        return len(self._unfolded)

    @property
    def num_deltas(self) -> int:
        """Number of deltas in the statistics, those in runs included."""
        return self.head.num_deltas + self.num_unfolded

    @property
    def num_missing(self) -> int:
        """Number of deltas that were there when others were written, and are gone."""
        return self.head.missing + max(0, self._last_number - self.num_deltas)

    @property
    def counted(self) -> set[str]:
        """Deltas in the statistics; those in runs may be forgotten."""
        return self._counted | set(self.head.covers)

    # Reading

    def read(self, listing: Listing) -> bool:
        """Read the newest head and the new deltas; return False if the whole log must be listed for that."""
        if self._torn:
            return self._begin_anew()
        num_missing = self.num_missing
        head = self._newest_head(listing)
        if not self._continues(head):
            return self._begin_anew()
        counted = self._counted_with(head)
        new = {name: keys for name, keys in listing.entries("delta").items() if name not in counted}
        known = {run.info: run for run in self._runs}
        unknown = [info for info in head.runs if info not in known]
        runs, rows = open_runs(self._table, unknown, [key for keys in new.values() for key in keys])
        if head is not self.head:
            known |= {run.info: run for run in runs}
            self._adopt(head, [known[info] for info in head.runs])
        self._add_rows(rows)
        if self.num_missing > num_missing:
            return False
        self.statistics.load(self._wanted)
        self._wanted = []
        return True

    def _begin_anew(self) -> bool:
        """Forget everything; what readers have asked for is read again before they see the result."""
        wanted = [*self._wanted, *self.statistics.loaded()]
        self._clear()
        self._torn, self._wanted = False, wanted
        return False

    def _newest_head(self, listing: Listing) -> Head:
        """Read the newest head, unless it is known."""
        heads = listing.entries("head")
        if (newest := max(heads, default="")) <= self.head.name:
            return self.head
        return self._table.decode(HeadRow.decode, self._table.read(heads[newest], packed=True))

    @property
    def _is_first(self) -> bool:
        """Whether nothing was read yet."""
        return self._table.lists_all and not (self.head.name or self._counted)

    def _continues(self, head: Head) -> bool:
        """Return whether a head continues what was read: all deltas that it covers were counted."""
        if head is self.head or self._is_first:
            return True
        return head.base == self.head.name and self.counted >= set(head.covers)

    def _counted_with(self, head: Head) -> set[str]:
        """Return the deltas that are in the statistics once a head is in force."""
        return set(head.covers) | (self._counted - set(self.head.covers)) if head is not self.head else self._counted

    def _adopt(self, head: Head, runs: Sequence[Run]) -> None:
        """Take the runs of a head for the deltas that it covers."""
        is_first, covers = self._is_first, set(head.covers)
        with self._changing():
            self._counted = self._counted_with(head)
            self._unfolded = {batch: change for batch, change in self._unfolded.items() if batch not in covers}
            changes = tuple(self._unfolded.values())
            self.statistics = StoredStatistics(runs) if is_first else self.statistics.moved(runs, changes)
            self._set_head(head, runs)

    def _set_head(self, head: Head, runs: Sequence[Run]) -> None:
        self.head, self._runs, self._last_number = head, runs, 0
        self.num_terms = max(self.num_terms, head.num_terms)

    def _add_rows(self, rows: Sequence[LogRow]) -> None:
        """Count the deltas of some rows."""
        by_name: dict[str, list[LogRow]] = defaultdict(list)
        for row in rows:
            by_name[LogKey.parse(row.key).name].append(row)
        self._add({name: self._table.decode(DeltaRow.decode, some) for name, some in by_name.items()})

    def add(self, batch: str, delta: Delta) -> None:
        """Count a delta that this process has stored."""
        self._add({batch: delta})

    def _add(self, deltas: Mapping[str, Delta]) -> None:
        """Count deltas in new statistics: readers keep what they have."""
        if not deltas:
            return
        changes = {batch: NamespaceChange(delta.namespace, delta.change) for batch, delta in deltas.items()}
        statistics = self.statistics.plus(tuple(changes.values()))
        with self._changing():
            self.statistics = statistics
            self._counted.update(changes)
            self._unfolded.update(changes)
            self._last_number = max(self._last_number, *(delta.number for delta in deltas.values()))
            self.num_terms = max(self.num_terms, *(delta.num_terms for delta in deltas.values()))

    # Folding

    def fold(self, clock: BatchClock, num_terms: int) -> None:
        """Fold deltas into a run, and runs of one level into one of the next; delete what was superfluous before."""
        level = next_level([run.level for run in self._runs])
        runs = [run for run in self._runs if run.level >= level]
        sources: list[Sums] = [self.statistics.held_changes(), *(run for run in self._runs if run not in runs)]
        name = clock.new_batch()
        runs.append(write_run(self._table, name, level, sources))
        head = Head(
            name=name,
            base=self.head.name,
            runs=tuple(run.info for run in runs),
            covers=tuple(sorted(self._counted)),
            num_deltas=self.num_deltas,
            missing=self.num_missing,
            nameless=self.head.nameless,
            num_terms=num_terms,
            epoch=self.head.epoch,
        )
        self._table.insert(HeadRow.encode(head))
        superfluous = set(self.head.covers)
        kept = {run.name for run in (*self.head.runs, *head.runs)}
        with self._changing():
            self._counted = set(head.covers)
            self._unfolded = {}
            self.statistics = self.statistics.moved(runs, ())
            self._set_head(head, runs)
        keys = map(LogKey.parse, self._table.list_all("delta", "head", "intent", "lease", "run").keys)
        self._table.delete([str(key) for key in keys if _is_superfluous(key, name, superfluous, kept)])
        self._counted -= superfluous  # only now: rows that could not be deleted may be listed again


def _is_superfluous(key: LogKey, head: str, covers: Collection[str], runs: Collection[str]) -> bool:
    """Return whether a head has made a row superfluous, given the deltas of the head before, and the runs of both."""
    if key.kind == "run":  # a later one is another writer's, which took this one for dead
        return key.name < head and key.name not in runs
    if key.kind == "head":
        return key.name < head
    return key.name in covers
