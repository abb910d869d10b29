"""A write in progress: from its intent to its delta."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rag_bm25.statistics.log.keys import LogKey, complete_entries
from rag_bm25.statistics.log.writes import DeltaRow, Intent, LeaseRow

if TYPE_CHECKING:
    from collections.abc import Callable

    from rag_bm25.statistics.corpus import Contribution
    from rag_bm25.statistics.log.sums import LogSums
    from rag_bm25.statistics.log.table import LogTable


class OpenWrite:
    """A write whose intent is stored: commit it, unless another writer has finished it already."""

    def __init__(self, table: LogTable, sums: LogSums, intent: Intent, publish: Callable[[], None]) -> None:
        self.intent = intent
        self._table = table
        self._sums = sums
        self._publish = publish  # shows readers what was counted
        self._num_renewals = 0
        self._renewed = time.monotonic()

    @property
    def is_open(self) -> bool:
        """Whether the intent is still there, as of the last refresh."""
        return self.intent.key in self._table.keys

    @property
    def is_counted(self) -> bool:
        """Whether its delta is in the statistics, as of the last refresh; may be forgotten once it is not open."""
        return self.intent.batch in self._sums.counted

    def stored_delta(self) -> Contribution | None:
        """Read its delta, None where that is not there, or in a snapshot by now."""
        keys = complete_entries(self._table.store.log_keys(), "delta").get(self.intent.batch, [])
        rows = self._table.store.get_log(keys, packed=False) if keys else []
        if len(rows) < len(keys) or not rows:
            return None
        parts = [self._table.decode(DeltaRow.decode, row).change for row in rows]
        return sum(parts[1:], parts[0])

    def renew(self, *, after: float = 0.0) -> None:
        """Renew the lease if it is older than `after` seconds."""
        if time.monotonic() - self._renewed < after:
            return
        [row] = LeaseRow(self.intent.batch, time.time()).encode(self._num_renewals)
        self._table.store.insert_log([row])
        self._table.keys.add(row.key)
        self._num_renewals += 1
        self._renewed = time.monotonic()

    def commit(self, after: Contribution) -> None:
        """Store the delta from the recorded to the present contribution, count it, and drop the intent."""
        intent, number = self.intent, self._sums.num_deltas + 1
        self._table.store.insert_log(DeltaRow.encode(intent.batch, intent.namespace, intent.before, after, number))
        self._sums.add(intent.batch, intent.namespace, after - intent.before, number)
        self._publish()
        self.drop()

    def drop(self) -> None:
        """Delete the intent, whose delta must be stored, and its leases."""
        leases = [key for key in self._table.keys if LogKey.parse(key)[:2] == ("lease", self.intent.batch)]
        self._table.store.delete_log([self.intent.key, *leases])
