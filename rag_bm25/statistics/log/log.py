"""The statistics of an index as rows that are only ever inserted, and read back as sums."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from rag_bm25.errors import FormatError, StoreError
from rag_bm25.events import Events
from rag_bm25.statistics.damage import damage_message
from rag_bm25.statistics.log.batches import BatchClock
from rag_bm25.statistics.log.keys import LogKey, complete_entries, keys_of, parse_sound_keys
from rag_bm25.statistics.log.open_write import OpenWrite
from rag_bm25.statistics.log.sums import LogSums
from rag_bm25.statistics.log.table import LogTable, RowsMovedError
from rag_bm25.statistics.log.term_k1 import TermK1Row
from rag_bm25.statistics.log.terms import LogTerms, TermsRow
from rag_bm25.statistics.log.writes import IntentRow, LeaseRow
from rag_bm25.vectors.sparse import EMPTY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rag_bm25.statistics.corpus import NamespaceStatistics
    from rag_bm25.statistics.log.writes import Intent
    from rag_bm25.store.protocol import LogStore
    from rag_bm25.vectors.sparse import SparseVector
    from rag_bm25.vectors.terms import Vocabulary

COMPACT_ABOVE = 64
"""Maximum number of deltas, or of entries of few terms, before a writer compacts the log."""

READ_ATTEMPTS = 10


class StatisticsLog:
    """The log of one index, and the statistics that it sums up to."""

    def __init__(self, store: LogStore, events: Events | None = None) -> None:
        self._store = store
        self._table = LogTable(store)
        self._sums = LogSums(self._table)
        self._terms = LogTerms(self._table)
        self._clock = BatchClock()
        self._k1_table = ""  # name of the newest one that was read
        self.events = events or Events(store.name)
        self.has_intents = False  # whether writes were in progress at the last refresh
        self.term_k1: SparseVector = EMPTY  # term id -> k1, where a pass over all chunks has worked that out

    @property
    def statistics(self) -> NamespaceStatistics:
        """The sum of all deltas read or written so far."""
        return self._sums.statistics

    @property
    def displaced(self) -> dict[str, int]:
        """Terms whose id is not their hash, and their ids."""
        return self._terms.displaced

    # Reading

    def refresh(self) -> None:
        """Read the rows that any writer has appended since the last call."""
        with self.events.measure("refresh") as counts:
            self._read()
            counts.update(log_rows=len(self._table.keys), deltas=self._sums.num_unfolded)
        if self._terms.num_unnamed:  # another process may have repaired it
            self._terms.count_unnamed(self.statistics.whole)

    def _read(self) -> None:
        for _ in range(READ_ATTEMPTS):
            self._table.refresh()
            self.has_intents = bool(self._table.keys_of("intent"))  # once: every search asks for it
            try:
                self._sums.read()
                self._terms.read()
                self._read_term_k1()
            except RowsMovedError:
                continue
            self._forget_gone()
            return
        msg = f"the statistics of {self._store.name} changed {READ_ATTEMPTS} times while they were read: try again"
        raise StoreError(msg)

    def _forget_gone(self) -> None:
        """Forget deleted entries, whose names cannot come back; note the highest batch."""
        keys = [LogKey.parse(key) for key in self._table.keys]
        self._sums.counted &= {key.name for key in keys if key.kind in {"delta", "intent"}}
        self._terms.forget_all_but({key.name for key in keys if key.kind == "terms"})
        self._clock.observe(max((key.batch for key in keys), default=""))

    def _read_term_k1(self) -> None:
        tables = self._table.entries("k1")
        newest = max(tables, default="")
        if newest > self._k1_table:
            self.term_k1 = self._table.decode(TermK1Row.decode, self._table.read(tables[newest], packed=True))
            self._k1_table = newest

    def vocabulary(self) -> Vocabulary:
        """Return every term ever seen; the first call reads them all, and later refreshes keep it up to date."""
        if self._terms.vocabulary is not None:
            return self._terms.vocabulary
        vocabulary = self._terms.load(self.refresh)
        self._terms.count_unnamed(self.statistics.whole)
        return vocabulary

    @property
    def position(self) -> frozenset[str]:
        """Keys of the rows that the sums depend on: equal positions mean that nothing was written in between."""
        return frozenset(self._table.keys_of("delta", "intent", "snapshot"))

    def intents(self) -> list[Intent]:
        """Read the intents of unfinished writes, oldest first, each with the time of its last renewal."""
        keys = self._store.log_keys()
        renewed: dict[str, float] = {}
        for row in self._store.get_log(keys_of(keys, "lease")):
            lease = self._table.decode(LeaseRow.decode, row)
            renewed[lease.batch] = max(renewed.get(lease.batch, 0.0), lease.time)
        wanted = [key for parts in complete_entries(keys, "intent").values() for key in parts]
        found = [self._table.decode(IntentRow.decode, row) for row in self._store.get_log(wanted)]
        heard_of = [replace(i, time=max(i.time, renewed.get(i.batch, 0.0))) for i in found]
        return sorted(heard_of, key=lambda intent: intent.batch)

    # Damage

    @property
    def damage(self) -> list[str]:
        """Damage of the statistics, as far as reading them shows it: one clause each."""
        # Of a chunk that one writer deletes while another inserts it, the deletion may be counted first.
        num_negative = 0 if self.has_intents else len(self.statistics.negative)
        found = {
            "terms missing from the vocabulary": self._num_lost_terms,
            "changes missing from the statistics": self._sums.num_missing,
            "namespaces with counts below zero": num_negative,
        }
        return [f"{finding}: {number:,}" for finding, number in found.items() if number]

    @property
    def num_nameless(self) -> int:
        """Number of terms that no text explains, as the last repair found."""
        return self._sums.num_nameless

    @property
    def _num_lost_terms(self) -> int:
        """Number of terms in use without a name, except for those that a repair could not name either."""
        return max(0, self._terms.num_lost(self.statistics.whole.num_terms) - self._sums.num_nameless)

    def check_terms(self) -> None:
        """Look for terms that the vocabulary has lost; loads it only where a part of an entry is missing."""
        if self._terms.remainders():
            self.vocabulary()

    def require_terms(self) -> None:
        """Refuse to assign ids to terms where the vocabulary has lost some, whose ids new ones could get."""
        self.vocabulary()
        if self._num_lost_terms:
            raise FormatError(damage_message(self._store.name, self.damage))

    # Writing

    def new_batch(self) -> str:
        """Return an id for a batch, greater than those of all batches known so far."""
        return self._clock.new_batch()

    def open_write(self, intent: Intent, new_terms: Mapping[str, int]) -> OpenWrite:
        """Store the intent of a batch, and the terms that it is the first to use."""
        self._store.insert_log([*TermsRow.encode(intent.batch, new_terms), *IntentRow.encode(intent)])
        self._terms.add(intent.batch, new_terms, self.vocabulary())
        return self.resume_write(intent)

    def resume_write(self, intent: Intent) -> OpenWrite:
        """Return the write of a stored intent."""
        return OpenWrite(self._table, self._sums, intent)

    def write_term_k1(self, term_k1: SparseVector) -> None:
        """Replace the stored table of the k1 of each term."""
        old = keys_of(self._store.log_keys(), "k1")
        self._clock.observe(max((key.batch for key in parse_sound_keys(old)), default=""))
        rows = TermK1Row.encode(self.new_batch(), term_k1)
        self._table.insert(rows)
        self._store.delete_log(old)
        self._k1_table, self.term_k1 = LogKey.parse(rows[0].key).name, TermK1Row.decode(rows)

    def compact(self, *, above: int | None = None) -> None:
        """Sum up the deltas in a snapshot, and merge entries of few terms, where there are more than `above`."""
        above = COMPACT_ABOVE if above is None else above
        if len(self._sums.counted) <= above:
            return
        self.refresh()
        with self.events.measure("compaction") as counts:
            if len(self._sums.counted) > above:
                counts["deltas"] = len(self._sums.counted)
                self._sums.write_snapshot(self._clock)
                with suppress(RowsMovedError):  # another writer is doing the same
                    self._terms.merge_few(above, self._clock)
                self._terms.drop_known_remainders(self.vocabulary(), self._clock)
