"""Writes in progress, from their intents to their deltas."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rag_bm25.statistics.log.batches import writer_of
from rag_bm25.statistics.log.keys import range_of
from rag_bm25.statistics.log.writes import DeltaRow, Intent, LeaseRow

if TYPE_CHECKING:
    from collections.abc import Callable

    from rag_bm25.statistics.corpus import Contribution
    from rag_bm25.statistics.log.table import Listing, LogTable


class OpenBatches:
    """The batches that are unfinished: of each writer the last one, until its delta is stored."""

    # A writer finishes its batches in order, and nobody deletes an intent before a compaction: an older one without a
    # delta is not unfinished, its delta is lost.

    def __init__(self) -> None:
        self._begun: dict[str, str] = {}  # the last batch of each writer
        self._ended: dict[str, str] = {}

    @property
    def batches(self) -> list[str]:
        """Ids of the unfinished batches, oldest first."""
        return sorted(batch for writer, batch in self._begun.items() if batch > self._ended.get(writer, ""))

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self.batches)

    def __contains__(self, batch: object) -> bool:
        """Return whether a batch is one of them."""
        return batch in self.batches

    def clear(self) -> None:
        """Forget all batches, before everything is read anew."""
        self._begun, self._ended = {}, {}

    def read(self, listing: Listing) -> None:
        """Note the intents and deltas of a listing."""
        for batch in listing.entries("intent"):
            self.begin(batch)
        for batch in listing.entries("delta"):
            self.end(batch)

    def begin(self, batch: str) -> None:
        """Note an intent."""
        writer = writer_of(batch)
        self._begun[writer] = max(self._begun.get(writer, ""), batch)

    def end(self, batch: str) -> None:
        """Note a delta."""
        writer = writer_of(batch)
        self._ended[writer] = max(self._ended.get(writer, ""), batch)


class OpenWrite:
    """A write whose intent is stored: commit it, unless another writer has finished it already."""

    def __init__(
        self, intent: Intent, table: LogTable, open_batches: OpenBatches, end: Callable[[Intent, Contribution], None]
    ) -> None:
        self.intent = intent
        self._table = table
        self._open_batches = open_batches
        self._end = end  # given the change
        self._num_renewals = 0
        self._renewed = time.monotonic()

    @property
    def is_open(self) -> bool:
        """Whether its delta is not there yet, as of the last refresh."""
        return self.intent.batch in self._open_batches

    def stored_delta(self) -> Contribution | None:
        """Read its delta, None where that is not there, or in a run by now."""
        keys = self._table.list_all("delta").entries("delta").get(self.intent.batch, [])
        rows = self._table.store.get_log(keys) if keys else []
        if len(rows) < len(keys) or not rows:
            return None
        return self._table.decode(DeltaRow.decode, sorted(rows, key=lambda row: keys.index(row.key))).change

    def drop_remains(self) -> None:
        """Delete the rows of a delta that was not stored whole: it may get others under the same keys."""
        self._table.delete(self._table.store.log_keys([range_of("delta", self.intent.batch)]))

    def renew(self, *, after: float = 0.0) -> None:
        """Renew the lease if it is older than `after` seconds."""
        if time.monotonic() - self._renewed < after:
            return
        self._table.store.insert_log(LeaseRow(self.intent.batch, time.time()).encode(self._num_renewals))
        self._num_renewals += 1
        self._renewed = time.monotonic()

    def commit(self, after: Contribution) -> None:
        """Store the delta from the recorded to the present contribution, which ends the write."""
        self._end(self.intent, after - self.intent.before)
