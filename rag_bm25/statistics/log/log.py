"""The statistics of an index as rows that are only ever inserted, and read back as sums."""

from __future__ import annotations

import time
from collections import defaultdict
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rag_bm25.errors import FormatError, StoreError
from rag_bm25.events import Events
from rag_bm25.statistics.damage import damage_message
from rag_bm25.statistics.log.batches import BatchClock, time_of
from rag_bm25.statistics.log.generation import KINDS, SUPERSEDED_KEY
from rag_bm25.statistics.log.keys import LogKey, keys_of, parse_sound_keys, range_of
from rag_bm25.statistics.log.life_signs import LifeSigns, is_of_the_future, last_time
from rag_bm25.statistics.log.meanwhile import Moment
from rag_bm25.statistics.log.models import MODELS
from rag_bm25.statistics.log.open_write import OpenBatches, OpenWrite
from rag_bm25.statistics.log.sums import LogSums
from rag_bm25.statistics.log.table import READ_ATTEMPTS, Listing, LogTable, RowsMovedError
from rag_bm25.statistics.log.terms import REMAINDER_SECONDS, LogTerms, TermsRow
from rag_bm25.statistics.log.writes import Delta, DeltaRow, IntentRow, LeaseRow
from rag_bm25.statistics.view import StatisticsView
from rag_bm25.store.rows import LogRow

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rag_bm25.statistics.corpus import Contribution
    from rag_bm25.statistics.log.stored_statistics import StoredStatistics
    from rag_bm25.statistics.log.writes import Intent
    from rag_bm25.store.protocol import LogStore
    from rag_bm25.vectors.known_terms import KnownTerms
    from rag_bm25.vectors.terms import Vocabulary
    from rag_bm25.weighting.confidence import AnswerModel
    from rag_bm25.weighting.term_k1 import TermK1

COMPACT_ABOVE = 64
"""Number of deltas, or of entries of few terms, above which a writer compacts a short log."""

DELTAS_PER_FOLD = 64  # in runs, for each that waits in a long log
MAX_WAITING = 4  # times `COMPACT_ABOVE`

CLAIM_SECONDS = 600.0
"""Age at which another process's claim, such as that of a compaction, is taken for dead."""


def max_waiting(num_folded: int) -> int:
    """Return how many deltas may wait beside those in runs: the more these are, the more it costs to fold some."""
    return min(max(COMPACT_ABOVE, num_folded // DELTAS_PER_FOLD), MAX_WAITING * COMPACT_ABOVE)


class StatisticsLog:
    """The log of one index, and the statistics that it sums up to."""

    def __init__(self, store: LogStore, events: Events | None = None, birth: str = "") -> None:
        self._store = store
        self._table = LogTable(store, birth)
        self._sums = LogSums(self._table)
        self._terms = LogTerms(self._table)
        self._clock = BatchClock(birth)
        self._incomplete: set[tuple[str, str]] = set()  # entries of which a row was missing, by kind and name
        self._models: dict[str, Any] = {}  # by kind, of which only the newest entry counts
        self._newest = dict.fromkeys(MODELS, "")  # its name
        self.open_batches = OpenBatches()  # as of the last refresh
        self.is_closing = self.is_superseded = False  # as of the last refresh: see `generation`
        self._writers = LifeSigns()
        self._claims = LifeSigns()
        self.events = events or Events(store.name)
        self.view = StatisticsView()  # what was read or written last, as a whole

    @property
    def statistics(self) -> StoredStatistics:
        """The sum of all deltas read or written so far."""
        return self._sums.statistics

    @property
    def birth(self) -> str:
        """Birth id of the index, "" until it is known."""
        return self._table.birth

    @birth.setter
    def birth(self, birth: str) -> None:
        self._table.birth = self._clock.birth = birth

    @property
    def has_intents(self) -> bool:
        """Whether writes were in progress at the last refresh."""
        return bool(self.open_batches)

    # Reading

    def refresh(self) -> None:
        """Read the rows that any writer has appended since the last call."""
        with self.events.measure("refresh") as counts:
            counts.update(log_rows=self._read(), deltas=self._sums.num_unfolded)
        if self._terms.num_unnamed:  # another process may have repaired it
            self._terms.count_unnamed(self.statistics.whole)
        self._publish()

    def _publish(self) -> None:
        """Show readers what was read or written, all at once."""
        terms = self._terms
        problems = tuple(self.problems)
        answers, query_defaults, term_k1 = map(self._models.get, MODELS)
        view = StatisticsView(
            self.statistics, terms.displaced, answers, query_defaults, term_k1, problems, terms.vocabulary
        )
        if not view.is_same(self.view):
            self.view = view

    def _read(self) -> int:
        """Read what is new; return the number of rows that were listed."""
        for _ in range(READ_ATTEMPTS):
            num_lost = self._num_lost_terms
            listing = self._note_generation(self._table.list_new(self._watched()))
            self._clock.birth = self.birth
            if self.is_superseded:
                return len(listing.keys)  # the last view stays: the rows may be dropped
            try:
                is_read = self._sums.read(listing)
                if is_read:
                    self._terms.begin_epoch(self._sums.head.epoch)
                    self._terms.read(listing)
                    self._read_models(listing)
            except RowsMovedError:
                continue
            if is_read and self._num_lost_terms <= num_lost:
                self._note(listing)
                self._table.advance(listing)
                return len(listing.keys)
            self._table.begin_anew()  # something is missing, which may only have come late
        msg = f"the statistics of {self._store.name} changed {READ_ATTEMPTS} times while they were read: try again"
        raise RowsMovedError(msg)

    def _note_generation(self, listing: Listing) -> Listing:
        """Note whether this generation ends; return the other rows."""
        ends = keys_of(listing.keys, *KINDS)
        self.is_superseded = self.is_superseded or SUPERSEDED_KEY in ends
        self.is_closing = bool(ends) and not self.is_superseded
        return Listing([key for key in listing.keys if key not in ends]) if ends else listing

    def look_for_successor(self) -> None:
        """Note whether the next generation is in force; raise where the index was dropped, or made again."""
        self._note_generation(self._table.list_all(*KINDS))

    def _watched(self) -> set[tuple[str, str]]:
        """Return the entries that may still come, though later ones were read: by kind and name."""
        coming = {entry for entry in self._incomplete if self._clock.age(LogKey(*entry).batch) < REMAINDER_SECONDS}
        return coming | {("delta", batch) for batch in self.open_batches.batches}

    def _note(self, listing: Listing) -> None:
        """Note which batches are unfinished, which entries incomplete, and the highest batch."""
        if self._table.lists_all:  # the ends of batches that are not in it were deleted with their intents
            self.open_batches.clear()
        self.open_batches.read(listing)
        for batch in self._sums.counted:  # the rows of some may be deleted, or lost
            self.open_batches.end(batch)
        self._writers.look(self.open_batches.batches)
        self._incomplete = (self._incomplete - listing.names()) | listing.incomplete()
        self._clock.observe(max((LogKey.parse(key).batch for key in listing.keys), default=""))

    def _read_models(self, listing: Listing) -> None:
        """Read the newest model of each kind, unless it is known."""
        for kind, codec in MODELS.items():
            entries = listing.entries(kind)
            newest = max(entries, default="")
            if newest > self._newest[kind]:
                self._models[kind] = self._table.decode(codec.decode, self._table.read(entries[newest], packed=True))
                self._newest[kind] = newest

    def vocabulary(self) -> Vocabulary:
        """Return every term ever seen; the first call reads them all, and later refreshes keep it up to date."""
        if self._terms.vocabulary is None:
            self.refresh()
            self._terms.load_vocabulary()
            self._terms.count_unnamed(self.statistics.whole)
            self._publish()
        return self._terms.vocabulary  # type: ignore[return-value]

    def known_terms(self) -> KnownTerms:
        """Return the fingerprint of every term ever seen, as a writer needs it; the first call reads them all."""
        if self._terms.known is None:
            self.refresh()
            self._terms.load_known()
        return self._terms.known  # type: ignore[return-value]

    @property
    def position(self) -> tuple[object, ...]:
        """Position in the log. Equal positions: no write between them."""
        return self._sums.head.name, self._sums.num_deltas, *self.open_batches.batches

    @property
    def moment(self) -> Moment:
        """Position in the log, of which :meth:`batches_since` can be asked."""
        return Moment(self._sums.head.epoch, self._sums.num_deltas, frozenset(self._sums.counted))

    def batches_since(self, moment: Moment) -> set[str] | None:
        """Return the batches that were not counted then, unfinished ones included; None where not all are known."""
        ended = self._sums.counted - moment.counted
        is_known = self._sums.head.epoch == moment.epoch and len(ended) == self.num_writes - moment.num_deltas
        return ended | set(self.open_batches.batches) if is_known else None

    @property
    def num_writes(self) -> int:
        """Number of batches that were ever written, up to those that were read last."""
        return self._sums.num_deltas

    def intents(self) -> list[Intent]:
        """Read the intents that were unfinished at the last refresh, oldest first, with their writers' last signs."""
        if not self.open_batches:
            return []
        listing = self._table.list_all("intent", "lease")
        found = []
        for batch, keys in listing.entries("intent").items():
            if batch in self.open_batches:
                with suppress(RowsMovedError):
                    found.append(self._table.decode(IntentRow.decode, self._table.read(keys, packed=True)))
        leases = keys_of(listing.keys, "lease")
        renewed: defaultdict[str, list[float]] = defaultdict(list)
        for row in self._store.get_log(leases) if leases else []:
            lease = self._table.decode(LeaseRow.decode, row)
            renewed[lease.batch].append(lease.time)
        return [self._with_last_sign(intent, renewed[intent.batch]) for intent in found]

    def _with_last_sign(self, intent: Intent, renewed: Sequence[float]) -> Intent:
        """Return an intent with the time of its writer's last sign."""
        times = [intent.time, *renewed]
        return replace(intent, time=last_time(times), silence=self._writers.silence(intent.batch, times))

    def may_have_dead_writers(self, seconds: float) -> bool:
        """Return whether a write is in progress that this process has seen for so long, without a newer sign."""
        return self._writers.any_silent_for(seconds)

    def note_sign(self, intent: Intent) -> None:
        """Note that an intent with a time of the future is there: others age it from now on."""
        now = time.time()
        self._store.insert_log(LeaseRow(intent.batch, now).encode(int(now) // 10))

    # Damage

    @property
    def problems(self) -> list[str]:
        """Problems that reading the log has shown, one clause each."""
        # Of a chunk that one writer deletes while another inserts it, the deletion may be counted first.
        num_negative = 0 if self.has_intents else len(self.statistics.negative)
        numbers = {
            "terms missing from the vocabulary": self._num_lost_terms,
            "changes missing from the statistics": self.num_missing,
            "namespaces with counts below zero": num_negative,
        }
        return [f"{problem}: {number:,}" for problem, number in numbers.items() if number]

    @property
    def num_nameless(self) -> int:
        """Number of terms that no text explains, as the last repair found."""
        return self._sums.head.nameless

    @property
    def num_missing(self) -> int:
        """Number of batches whose changes are lost, so that N may be wrong."""
        return self._sums.num_missing

    @property
    def _num_lost_terms(self) -> int:
        """Number of terms that the vocabulary lacks, as far as that is known."""
        in_use = self.statistics.num_terms_read - self.num_nameless
        unnamed = self._terms.num_unnamed - self.num_nameless
        return max(0, max(self._sums.num_terms, in_use) - self._terms.size, unnamed)

    def check_terms(self) -> None:
        """Look for terms that the vocabulary has lost; loads it only where a part of an entry is missing."""
        if any(kind == "terms" for kind, _ in self._incomplete):
            self.vocabulary()
        self._publish()

    def require_terms(self) -> None:
        """Refuse to assign ids to terms where the vocabulary has lost some, whose ids new ones could get."""
        self.known_terms()
        if self._num_lost_terms:
            raise FormatError(damage_message(self._store.name, self.problems))

    # Writing

    def new_batch(self) -> str:
        """Return an id for a batch, greater than those of all batches known so far."""
        return self._clock.new_batch()

    def open_write(self, intent: Intent, new_terms: Mapping[str, int]) -> OpenWrite:
        """Store the intent of a batch, and the terms that it is the first to use."""
        self._store.insert_log([*TermsRow.encode(intent.batch, new_terms), *IntentRow.encode(intent)])
        self.open_batches.begin(intent.batch)
        self._writers.look(self.open_batches.batches)
        self._terms.add(intent.batch, new_terms)
        return self.resume_write(intent)

    def resume_write(self, intent: Intent) -> OpenWrite:
        """Return the write of a stored intent."""
        return OpenWrite(intent, self._table, self.open_batches, self._end_write)

    def _end_write(self, intent: Intent, change: Contribution) -> None:
        """Store the delta of a batch, and count it."""
        known = self.known_terms()
        num_terms = max(self._sums.num_terms, len(known))
        delta = Delta(intent.namespace, change.marked(known), self._sums.num_deltas + 1, num_terms)
        # Until it is stored, the batch is unfinished: after a crash its rows are counted again.
        self._store.insert_log(DeltaRow.encode(intent.batch, delta), defer=True)
        self._count(intent, delta)

    def count_unfinished(self, intent: Intent, after: Contribution) -> None:
        """Count the batch of a dead writer for the time being: the one who finishes it may find something else."""
        change = (after - intent.before).marked(self.known_terms())
        self._count(intent, Delta(intent.namespace, change, self._sums.num_deltas + 1))

    def _count(self, intent: Intent, delta: Delta) -> None:
        self._sums.add(intent.batch, delta)
        self.open_batches.end(intent.batch)
        self._publish()

    def write_answers(self, model: AnswerModel) -> None:
        """Replace the stored model of the confidence of hits."""
        self._write_model("answers", model)

    def write_query_defaults(self, values: Mapping[str, Any]) -> None:
        """Replace the stored parameters of queries."""
        self._write_model("defaults", values)

    def write_k1(self, table: TermK1) -> None:
        """Replace the stored k1 of each term."""
        self._write_model("k1", table)

    def write_models(self, view: StatisticsView) -> None:
        """Store what another log has of each kind."""
        for kind, model in zip(MODELS, (view.answers, view.query_defaults, view.term_k1), strict=True):
            if model is not None:
                self._write_model(kind, model)

    def _write_model(self, kind: str, model: Any) -> None:
        """Store an entry whose name is greater than those of its kind, and delete these."""
        old = list(self._table.list_all(kind).keys)
        self._clock.birth = self.birth
        self._clock.observe(max((key.batch for key in parse_sound_keys(old)), default=""))
        name = self.new_batch()
        self._table.insert(MODELS[kind].encode(name, model))
        self._table.delete(old)
        self._models[kind], self._newest[kind] = model, name
        self._publish()

    # Compacting

    def compact(self, *, above: int | None = None) -> None:
        """Fold deltas into runs, and merge entries of few terms, where there are more than `above`."""
        above = max_waiting(self._sums.head.num_deltas) if above is None else above
        if self._sums.num_unfolded <= above:
            return
        with self.claim("compaction") as own:
            self.refresh()
            if not own or self._sums.num_unfolded <= above:
                return
            with self.events.measure("compaction") as counts:
                counts["deltas"] = self._sums.num_unfolded
                known = self.known_terms()
                self._sums.fold(self._clock, max(self._sums.num_terms, len(known)))
                self._publish()
                self._terms.merge_few(above, self._clock)
                self._terms.drop_known_remainders(self._remainders(), self._clock)

    def _remainders(self) -> list[str]:
        """Return the keys of incomplete entries of terms."""
        listing = self._table.list_all("terms")
        whole = {key for keys in listing.entries("terms").values() for key in keys}
        return [key for key in listing.keys if key not in whole]

    # Claims

    @contextmanager
    def claim(self, kind: str) -> Iterator[str]:
        """Keep other processes from the same work; yield the name of the claim, "" where one of them has it."""
        name = self._clock.present()
        if self._store.exclusive:
            yield name
            return
        self._table.insert([LogRow(str(LogKey(kind, name)), kind)])
        try:
            others = [key for key in map(LogKey.parse, self._table.list_all(kind).keys) if key.name != name]
            yield name if self._end_dead(others) else ""
        finally:
            self._table.delete(self._store.log_keys([range_of(kind, name)]))

    def keep_claim(self, kind: str, name: str) -> None:
        """Show that its holder is alive; raise where others have taken it for dead."""
        if self._store.exclusive:
            return
        keys = self._store.log_keys([range_of(kind, name)])
        if str(LogKey(kind, name)) not in keys:
            raise StoreError(f"another process has taken over the {kind} of {self._store.name}")
        note = LogKey.row(kind, name, int(time.time()) // 60)
        if str(note) not in keys:
            self._table.insert([LogRow(str(note), kind)])

    def _end_dead(self, keys: Sequence[LogKey]) -> bool:
        """Delete the claims of dead processes; return whether all were."""
        marks = defaultdict(list)
        for key in keys:
            marks[key.name].append(key)
        self._claims.look(marks)
        dead = [key for some in marks.values() if self._is_dead(some) for key in some]
        self._table.delete(list(map(str, dead)))
        return len(dead) == len(keys)

    def _is_dead(self, marks: Sequence[LogKey]) -> bool:
        """Return whether the holder of a claim is dead; `marks` are its own one, and when it or others noted it."""
        name = marks[0].name
        times = [time_of(name), *(mark.part * 60.0 for mark in marks if mark.part)]
        if is_of_the_future(last_time(times)):
            note = LogKey.row(marks[0].kind, name, int(time.time()) // 60)
            self._table.insert([LogRow(str(note), note.kind)])
        return self._claims.silence(name, times) > CLAIM_SECONDS
