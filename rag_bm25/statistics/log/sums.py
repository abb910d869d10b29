"""The statistics that a log sums up to: its newest complete snapshot, and the deltas that it does not cover.

A writer that finds many deltas sums them up in a snapshot, and deletes them afterwards; so the sum is the same at every
moment. Of the deltas that are counted, the names are kept for as long as the log has their rows or their intents.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rag_bm25.statistics.corpus import NamespaceStatistics
from rag_bm25.statistics.log.keys import LogKey
from rag_bm25.statistics.log.snapshots import SnapshotHead, SnapshotRow, num_folded, snapshot_name
from rag_bm25.statistics.log.writes import DeltaRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rag_bm25.statistics.corpus import Contribution
    from rag_bm25.statistics.log.batches import BatchClock
    from rag_bm25.statistics.log.table import LogTable


class LogSums:
    """Statistics of each namespace, as sums of the deltas read or written so far; `statistics` is never changed."""

    def __init__(self, table: LogTable) -> None:
        self._table = table
        self._torn = False
        self._clear()

    def _clear(self) -> None:
        self.statistics = NamespaceStatistics()
        self.counted: set[str] = set()  # deltas in the statistics whose rows or intents may still be there
        self._base = ""  # the newest snapshot that is in the statistics
        self._in_base: set[str] = set()  # deltas that it names as covered
        self._head = SnapshotHead("", [])  # of the base
        self._last_number = 0  # greatest number of a delta read since the base

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Note a change that is cut short, by Ctrl-C for instance: the next read then starts anew."""
        self._torn = True
        yield
        self._torn = False

    @property
    def num_nameless(self) -> int:
        """Number of terms that no text explains, as the last repair found."""
        return self._head.nameless

    @property
    def num_unfolded(self) -> int:
        """Number of deltas that are in no snapshot."""
        return len(self.counted - self._in_base)

    @property
    def num_deltas(self) -> int:
        """Number of deltas in the statistics, those in snapshots included."""
        return num_folded(self._base) + self.num_unfolded

    @property
    def num_missing(self) -> int:
        """Number of deltas that were there when others were written, and are gone."""
        return self._head.missing + max(0, self._last_number - self.num_deltas)

    def read(self) -> None:
        """Read the deltas that are new, and the newest snapshot unless all that it covers is counted."""
        if self._torn:
            self._clear()
            self._torn = False
        self._read_snapshot()
        self._read_deltas()

    def _read_snapshot(self) -> None:
        snapshots = self._table.entries("snapshot")
        newest = max(snapshots, default="")
        if newest <= self._base:
            return
        head = self._table.decode(SnapshotRow.decode_head, self._table.read(snapshots[newest][:1])[0])
        statistics, counted = self.statistics, self.counted
        if head.base != self._base or not counted.issuperset(head.covers):
            statistics, counted = NamespaceStatistics(), set(head.covers)
            rows = self._table.read(snapshots[newest], packed=True)
            for namespace, total in self._table.decode(SnapshotRow.decode, rows).items():
                statistics.add(namespace, total)
        with self._changing():
            self.statistics, self.counted = statistics, counted
            self._set_base(newest, head)

    def _read_deltas(self) -> None:
        new = {name: keys for name, keys in self._table.entries("delta").items() if name not in self.counted}
        rows = self._table.read([key for keys in new.values() for key in keys])
        deltas = [self._table.decode(DeltaRow.decode, row) for row in rows]
        with self._changing():
            if deltas:  # else the statistics stay the same, with all that is kept for them
                self._add((delta.namespace, delta.change) for delta in deltas)
            self.counted.update(new)
            self._last_number = max([self._last_number, *(delta.number for delta in deltas)])

    def add(self, batch: str, namespace: str, change: Contribution, number: int) -> None:
        """Count a delta that this process has stored."""
        with self._changing():
            self._add([(namespace, change)])
            self.counted.add(batch)
            self._last_number = max(self._last_number, number)

    def _add(self, changes: Iterable[tuple[str, Contribution]]) -> None:
        """Add changes to a copy of the statistics: readers keep what they have."""
        statistics = self.statistics.copy()
        for namespace, change in changes:
            statistics.add(namespace, change)
        self.statistics = statistics

    def write_snapshot(self, clock: BatchClock) -> None:
        """Write a snapshot; delete the rows that it covers only after it is stored completely."""
        totals = self.statistics.contributions()
        name = snapshot_name(self.num_deltas, clock.new_batch())
        head = SnapshotHead(self._base, sorted(self.counted), self.num_missing, self._head.nameless)
        self._table.insert(SnapshotRow.encode(name, head, totals))
        self._set_base(name, head)
        self._table.store.delete_log([key for key in self._table.keys if self._is_covered(LogKey.parse(key))])

    def _set_base(self, name: str, head: SnapshotHead) -> None:
        self._base, self._in_base, self._head, self._last_number = name, set(head.covers), head, 0

    def _is_covered(self, key: LogKey) -> bool:
        """Return whether the snapshot just written makes a row superfluous."""
        if key.kind == "snapshot":
            return key.name < self._base
        return key.kind == "delta" and key.name in self.counted
