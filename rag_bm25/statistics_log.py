"""The statistics as rows that are only ever inserted, and read back as sums.

A batch appends a delta. When there are many, a writer sums them up in a snapshot and then deletes them; a reader takes
the newest complete snapshot and the deltas that it does not cover, so that at every moment the sum is the same.
"""

from __future__ import annotations

import secrets
import time
import zlib
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from rag_bm25.damage import damage_message, num_unnamed
from rag_bm25.errors import FormatError, StoreError
from rag_bm25.events import Events
from rag_bm25.log_rows import (
    FORMAT,
    Intent,
    LogKey,
    SnapshotHead,
    complete_entries,
    config_of,
    config_rows,
    copy_of,
    copy_row,
    delta_of,
    delta_rows,
    displaced_of,
    format_of,
    intent_of,
    intent_row,
    lease_of,
    lease_row,
    num_terms_of,
    number_of,
    snapshot_head_of,
    snapshot_of,
    snapshot_rows,
    term_k1_of,
    term_k1_rows,
    terms_of,
    terms_rows,
)
from rag_bm25.sparse import EMPTY
from rag_bm25.statistics import NamespaceStatistics
from rag_bm25.store import LogRow
from rag_bm25.terms import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rag_bm25.sparse import SparseVector
    from rag_bm25.statistics import Contribution
    from rag_bm25.store import LogStore

__all__ = ["StatisticsLog"]

COMPACT_ABOVE = 64
"""How many deltas, or rows of few terms, a log may have before a writer sums them up."""

FEW_TERMS = 5_000
ROWS_PER_INSERT = 200  # of at most 64 KB
READ_ATTEMPTS = 10
REMAINDER_SECONDS = 3600.0
"""Age at which the part of an entry that is not whole is nobody's any more: writing one takes seconds."""


_KEPT = frozenset({"config", "copy", "root"})  # no part of the statistics, and named after no batch of chunks
_NEVER_A_BASE = "-"  # base of a snapshot that does not add up with anything before it

_T = TypeVar("_T")


class _RowsMovedError(Exception):
    """A row that was listed is gone: somebody compacted the log in between."""


class _NewerFormatError(FormatError):
    """What a newer version wrote, which is not damaged."""


class StatisticsLog:
    """The log of one index, and the statistics that it sums up to.

    Parameters
    ----------
    store : LogStore
        Where the rows are.

    events : Events, optional
        Who is told of its work.

    Attributes
    ----------
    events : Events
        The given one, or one that tells the logger alone.
    statistics : NamespaceStatistics
        The sum of all deltas read or written so far.
    displaced : dict of str to int
        Terms whose id is not their hash.
    term_k1 : SparseVector
        Term id -> k1, where a pass over all chunks has worked that out; else empty.
    has_intents : bool
        Whether writes were under way as of the last :meth:`refresh`.
    """

    def __init__(self, store: LogStore, events: Events | None = None) -> None:
        self._store = store
        self.events = events or Events(store.name)
        self._keys: set[str] = set()  # as listed last
        self.has_intents = False
        self._base = ""  # the newest snapshot that is in the statistics
        self._in_base: set[str] = set()  # deltas that it names as covered
        self._counted: set[str] = set()  # deltas in the statistics whose rows or intents may still be there
        self._known_terms: dict[str, int] = {}  # terms entries that were read, and how many terms each has
        self._vocabulary: Vocabulary | None = None
        self._head = SnapshotHead("", [])  # of the base
        self._last_number = 0  # greatest number of a delta read since the base
        self._unnamed = 0  # terms with df > 0 that the vocabulary lacks, as of its loading
        self._last_batch = ""
        self._torn = False  # whether counting was cut short, by Ctrl-C for instance
        self.statistics = NamespaceStatistics()
        self.displaced: dict[str, int] = {}
        self._k1_table = ""  # the newest one that was read
        self.term_k1: SparseVector = EMPTY

    # Config

    def write_config(self, config: dict[str, Any]) -> None:
        """Store the parameters of a new index, or of one that has lost them.

        Parameters
        ----------
        config : dict
            JSON values only.
        """
        damaged = [key for key in self._store.log_keys() if _kind(key) == "config"]
        if damaged:
            self._store.delete_log(damaged)
        self._store.insert_log(config_rows(config))

    def read_config(self, *, salvage: bool = False) -> dict[str, Any] | None:
        """Return the stored parameters, None where there are none yet.

        Parameters
        ----------
        salvage : bool
            Whether parameters that cannot be read count as none, instead of being an error.

        Returns
        -------
        dict or None
            As given to :meth:`write_config`.

        Raises
        ------
        FormatError
            The index was written by a newer version, or is a copy that is not finished.
        """
        keys = self._store.log_keys()
        if any(_kind(key) == "copy" for key in keys):
            begun = self.unfinished_copy()
            source = begun[0] if begun else "an index"  # it may have been finished meanwhile
            msg = f"{self._store.name} is an unfinished copy of {source}: run the same copy or load again, or drop it"
            raise FormatError(msg)
        try:
            return self._read_config(keys)
        except FormatError as error:
            if salvage and not isinstance(error, _NewerFormatError):
                return None
            raise

    def _read_config(self, keys: Sequence[str]) -> dict[str, Any] | None:
        entries = complete_entries(keys, "config")
        rows = self._store.get_log(entries["index"]) if entries else []
        if not rows:
            return None
        version = self._decoded(format_of, rows[0])
        if version > FORMAT:
            msg = (
                f"{self._store.name} has format {version}, this version of rag_bm25 reads up to {FORMAT}: "
                "upgrade rag_bm25"
            )
            raise _NewerFormatError(msg)
        return self._decoded(config_of, rows)

    # Copies

    def begin_copy(self, source: str, fingerprint: str) -> None:
        """Mark an empty store as a copy that is not finished, which nobody can open.

        Parameters
        ----------
        source : str
            Name of the store that is copied.
        fingerprint : str
            What tells its parameters from others.
        """
        self._store.insert_log([copy_row(source, fingerprint)])

    def unfinished_copy(self) -> tuple[str, str] | None:
        """Tell whether this is a copy that is not finished.

        Returns
        -------
        tuple of str and str, or None
            What was given to :meth:`begin_copy`.
        """
        rows = self._store.get_log([key for key in self._store.log_keys() if _kind(key) == "copy"], packed=False)
        return self._decoded(copy_of, rows[0]) if rows else None

    def end_copy(self) -> None:
        """Let the copy be opened."""
        self._store.delete_log([key for key in self._store.log_keys() if _kind(key) == "copy"])

    # Reading

    def refresh(self) -> None:
        """Read what was appended since the last call, by whomever, and nothing else.

        Only where a change of the statistics was cut short, everything is read anew.
        """
        if self._torn:
            self._base, self._in_base, self._counted = "", set(), set()
            self._head, self._last_number = SnapshotHead("", []), 0
            self.statistics = NamespaceStatistics()
            self._torn = False
        with self.events.timed("refresh") as counts:
            self._read()
            counts.update(log_rows=len(self._keys), deltas=len(self._counted - self._in_base))
        if self._unnamed:  # somebody may have repaired it
            self._count_unnamed()

    def _read(self) -> None:
        """List the rows, and read those that are new."""
        for _ in range(READ_ATTEMPTS):
            self._keys = set(self._store.log_keys())
            self.has_intents = any(_kind(key) == "intent" for key in self._keys)  # once: every search asks for it
            try:
                self._read_snapshot()
                self._read_deltas()
                self._read_terms()
                self._read_term_k1()
            except _RowsMovedError:
                continue
            self._forget_what_is_gone()
            return
        msg = f"the statistics of {self._store.name} changed {READ_ATTEMPTS} times while they were read: try again"
        raise StoreError(msg)

    def vocabulary(self) -> Vocabulary:
        """Return every term ever seen; the first call reads them all.

        Returns
        -------
        Vocabulary
            Kept up to date from then on. Not to be changed.
        """
        if self._vocabulary is None:
            self._vocabulary, known = Vocabulary(), self._known_terms
            self._known_terms = {}
            try:
                self.refresh()
            except BaseException:
                self._vocabulary = None  # half of the terms would be taken for all: new ones would get their ids
                self._known_terms = known
                raise
            self._count_unnamed()
        return self._vocabulary

    # Damage

    @property
    def damage(self) -> list[str]:
        """What is wrong with the statistics, as far as reading them shows; one clause each, empty where all is well."""
        # Of a chunk that one writer deletes while another inserts it, the deletion may be counted first.
        num_negative = 0 if self.has_intents else len(self.statistics.negative)
        found = {
            "terms missing from the vocabulary": self._num_lost_terms,
            "changes missing from the statistics": self._num_missing_deltas,
            "namespaces with counts below zero": num_negative,
        }
        return [f"{what}: {number:,}" for what, number in found.items() if number]

    def check_terms(self) -> None:
        """Look for terms that the vocabulary has lost; loads it only where a part of an entry is missing."""
        if self._parts_of_terms():
            self.vocabulary()

    def require_terms(self) -> None:
        """Refuse to give out ids of terms where the vocabulary has lost some.

        Raises
        ------
        FormatError
            A new term could get the id of a lost one.
        """
        self.vocabulary()
        if self._num_lost_terms:
            raise FormatError(damage_message(self._store.name, self.damage))

    @property
    def num_nameless(self) -> int:
        """How many terms no text explains, as the last repair found."""
        return self._head.nameless

    @property
    def position(self) -> frozenset[str]:
        """Keys of the rows that the sums depend on: equal positions mean that nothing was written in between."""
        return frozenset(key for key in self._keys if _kind(key) in {"delta", "intent", "snapshot"})

    @property
    def _num_lost_terms(self) -> int:
        """Terms with df > 0 that nobody can name, except for those that a repair could not name either."""
        at_least = self.statistics.whole.num_terms - sum(self._known_terms.values())
        return max(0, max(at_least, self._unnamed) - self._head.nameless)

    def _count_unnamed(self) -> None:
        """Count the terms in use that the vocabulary, where it is loaded, cannot name."""
        if self._vocabulary is not None:
            self._unnamed = num_unnamed([self.statistics.whole.contribution()], self._vocabulary)

    @property
    def _num_deltas(self) -> int:
        """How many deltas are in the statistics, those in snapshots included."""
        return _folded(self._base) + len(self._counted - self._in_base)

    @property
    def _num_missing_deltas(self) -> int:
        """How many deltas were there when others were written, and are gone."""
        return self._head.missing + max(0, self._last_number - self._num_deltas)

    def intents(self) -> list[Intent]:
        """Return the writes that have begun and not ended, each with the time of its last renewal.

        Returns
        -------
        list of Intent
            Oldest first.
        """
        keys = self._store.log_keys()
        wanted = [key for parts in complete_entries(keys, "intent").values() for key in parts]
        leases = [key for key in keys if LogKey.parse(key).kind == "lease"]
        renewed: dict[str, float] = {}
        for row in self._store.get_log(leases):
            batch, time_of_lease = self._decoded(lease_of, row)
            renewed[batch] = max(renewed.get(batch, 0.0), time_of_lease)
        found = [self._decoded(intent_of, row) for row in self._store.get_log(wanted)]
        heard_of = [replace(i, time=max(i.time, renewed.get(i.batch, 0.0))) for i in found]
        return sorted(heard_of, key=lambda intent: intent.batch)

    def is_open(self, intent: Intent) -> bool:
        """Tell whether an intent is still there, as of the last :meth:`refresh`.

        Parameters
        ----------
        intent : Intent
            As read by :meth:`intents`.

        Returns
        -------
        bool
            False where it was dropped meanwhile.
        """
        return intent.key in self._keys

    def has_delta(self, batch: str) -> bool:
        """Tell whether the delta of a batch is in the statistics, as of the last :meth:`refresh`.

        Parameters
        ----------
        batch : str
            The id of a batch whose intent is still there: of others, it may be forgotten.

        Returns
        -------
        bool
            True where it is stored, as a row or in a snapshot.
        """
        return batch in self._counted

    def delta(self, batch: str) -> Contribution | None:
        """Read the delta of a batch.

        Parameters
        ----------
        batch : str
            The batch's id.

        Returns
        -------
        Contribution or None
            What it changed; None where its rows are gone.
        """
        keys = complete_entries(self._store.log_keys(), "delta").get(batch, [])
        rows = self._store.get_log(keys, packed=False) if keys else []
        if len(rows) < len(keys) or not rows:
            return None
        parts = [self._decoded(delta_of, row)[1] for row in rows]
        return sum(parts[1:], parts[0])

    # Writing

    def new_batch(self) -> str:
        """Return an id for a batch, greater than those of all batches known so far.

        Returns
        -------
        str
            24 hex digits: a clock in microseconds that never steps back, then random ones.
        """
        clock = max(time.time_ns() // 1_000, int(self._last_batch[:16] or "0", 16) + 1)
        self._last_batch = f"{clock:016x}{secrets.token_hex(4)}"
        return self._last_batch

    def begin(self, intent: Intent, new_terms: Mapping[str, int]) -> None:
        """Store the intent of a batch, and the terms that it is the first to use.

        Parameters
        ----------
        intent : Intent
            What is about to happen.
        new_terms : mapping of str to int
            Terms that the vocabulary does not have, with their ids.
        """
        self._store.insert_log([*terms_rows(intent.batch, new_terms), intent_row(intent)])
        self.vocabulary().add(new_terms)
        self.displaced.update(self.vocabulary().displaced)
        self._known_terms[intent.batch] = len(new_terms)

    def renew(self, intent: Intent, renewal: int) -> None:
        """Tell the others that the writer of an intent is still alive.

        Parameters
        ----------
        intent : Intent
            As given to :meth:`begin`.
        renewal : int
            How often this was called before.
        """
        row = lease_row(intent.batch, renewal, time.time())
        self._store.insert_log([row])
        self._keys.add(row.key)

    def end(self, intent: Intent, after: Contribution) -> None:
        """Store the delta of a batch, count it, and drop its intent.

        Parameters
        ----------
        intent : Intent
            As given to :meth:`begin`.
        after : Contribution
            What the batch's chunks contribute now.
        """
        number = self._num_deltas + 1
        self._store.insert_log(delta_rows(intent.batch, intent.namespace, intent.before, after, number))
        self._torn = True
        self.statistics.add(intent.namespace, after - intent.before)
        self._counted.add(intent.batch)
        self._last_number = max(self._last_number, number)
        self._torn = False
        self.drop(intent)

    def drop(self, intent: Intent) -> None:
        """Delete an intent whose delta is stored.

        Parameters
        ----------
        intent : Intent
            The one to drop.
        """
        leases = [key for key in self._keys if LogKey.parse(key)[:2] == ("lease", intent.batch)]
        self._store.delete_log([intent.key, *leases])

    def write_term_k1(self, term_k1: SparseVector) -> None:
        """Store another table of the k1 of each term in the place of the last one.

        Parameters
        ----------
        term_k1 : SparseVector
            Term id -> k1.
        """
        old = [key for key in self._store.log_keys() if _kind(key) == "k1"]
        rows = term_k1_rows(self.new_batch(), term_k1)
        self._insert_in_pieces(rows)
        self._store.delete_log(old)
        self._k1_table, self.term_k1 = LogKey.parse(rows[0].key).name, term_k1_of(rows)

    # Compaction

    def compact(self, *, above: int | None = None) -> None:
        """Sum up the deltas in a snapshot, and small rows of terms in larger ones, where there are many.

        Parameters
        ----------
        above : int, optional
            How many of each may stay; by default 64.
        """
        above = COMPACT_ABOVE if above is None else above
        if len(self._counted) <= above:
            return
        self.refresh()
        with self.events.timed("compaction") as counts:
            if len(self._counted) > above:
                counts["deltas"] = len(self._counted)
                self._write_snapshot()
                with suppress(_RowsMovedError):  # another writer is doing the same
                    self._merge_terms(above)
                self._drop_known_remainders()

    def _write_snapshot(self) -> None:
        """Write a snapshot of everything; delete what it covers only when all of it is stored."""
        totals = self.statistics.contributions()
        # Of two snapshots, the greater name must cover more, so it begins with how many deltas there are in it.
        name = f"{self._num_deltas:012d}.{self.new_batch()}"
        head = SnapshotHead(self._base, sorted(self._counted), self._num_missing_deltas, self._head.nameless)
        self._insert_in_pieces(snapshot_rows(name, head, totals))
        self._base, self._in_base, self._head, self._last_number = name, set(self._counted), head, 0
        self._store.delete_log([key for key in self._keys if self._is_covered(LogKey.parse(key))])

    def _is_covered(self, key: LogKey) -> bool:
        """Tell whether the snapshot just written makes a row superfluous."""
        if key.kind == "snapshot":
            return key.name < self._base
        return key.kind == "delta" and key.name in self._counted

    def _merge_terms(self, above: int) -> None:
        """Write the terms of many small entries as one; only whole entries are replaced, and deleting comes last."""
        entries = complete_entries(self._keys, "terms")
        small = [keys for name, keys in entries.items() if self._known_terms[name] < FEW_TERMS]
        if len(small) <= above:
            return
        few = [key for keys in small for key in keys]
        terms = {
            term: id_ for row in self._rows(few, packed=True) for term, id_ in self._decoded(terms_of, row).items()
        }
        name = self.new_batch()
        self._insert_in_pieces(terms_rows(name, terms))
        self._known_terms[name] = len(terms)
        self._store.delete_log(few)

    def _drop_known_remainders(self) -> None:
        """Delete old parts of entries that are not whole, where whole entries have all terms of them."""
        vocabulary, remainders = self.vocabulary(), self._parts_of_terms()
        dead = [key for key in remainders if self._age(LogKey.parse(key).name) > REMAINDER_SECONDS]
        known = [
            row.key
            for row in (self._store.get_log(dead) if dead else [])
            if all(vocabulary.id(term) == id_ for term, id_ in self._decoded(terms_of, row).items())
        ]
        if known:
            self._store.delete_log(known)

    def _parts_of_terms(self) -> list[str]:
        """Return the keys of entries of terms that are not whole."""
        whole = {key for keys in complete_entries(self._keys, "terms").values() for key in keys}
        return [key for key in self._keys if _kind(key) == "terms" and key not in whole]

    def _age(self, batch: str) -> float:
        """Return how many seconds ago a batch began, on the clock that all writers share."""
        return (int(self.new_batch()[:16], 16) - int(batch[:16], 16)) / 1e6

    def _insert_in_pieces(self, rows: Sequence[LogRow]) -> None:
        for start in range(0, len(rows), ROWS_PER_INSERT):
            self._store.insert_log(rows[start : start + ROWS_PER_INSERT])

    # Repair

    def salvage(self) -> tuple[list[Intent], Vocabulary, int]:
        """Read what can still be read of a log that may be damaged in any way.

        Returns
        -------
        intents : list of Intent
            Writes that have begun and not ended.
        vocabulary : Vocabulary
            All terms of the rows that are sound.
        known : int
            How many of them are in entries that are whole, and so had not been lost.
        """
        vocabulary, known = Vocabulary(), Vocabulary()
        intents = []
        keys = self._store.log_keys()
        sound = [key for key in keys if _parsed(key) is not None]
        whole = {key for parts in complete_entries(sound, "terms").values() for key in parts}
        for row in sorted(self._store.get_log(keys), key=lambda row: row.key):
            with suppress(FormatError):
                if row.kind == "terms":
                    terms = self._decoded(terms_of, row)
                    vocabulary.add(terms)
                    known.add(terms if row.key in whole else {})
                elif row.kind == "intent":
                    intents.append(self._decoded(intent_of, row))
        return intents, vocabulary, len(known)

    def replace(
        self,
        totals: Mapping[str, Contribution],
        vocabulary: Vocabulary,
        *,
        later_than: str = "",
        nameless: int = 0,
    ) -> None:
        """Put other statistics in the place of everything in the log.

        The config stays, and a sound table of k1, and the mark of a copy.

        Until the new snapshot is stored whole, the old rows count, and afterwards it alone does: a crash in between
        loses nothing, and another call does the rest.

        Parameters
        ----------
        totals : mapping of str to Contribution
            Namespace -> its statistics.
        vocabulary : Vocabulary
            All terms.
        later_than : str
            A batch id than which all later ones are to be greater, for rows that came from elsewhere.
        nameless : int
            How many terms are known to be missing from the vocabulary, because no text explains them.
        """
        kept = _KEPT | {"k1"} if self._has_sound_term_k1() else _KEPT
        old = [key for key in self._store.log_keys() if _kind(key) not in kept]
        sound = [key for key in map(_parsed, old) if key is not None]
        counted = sorted({key.name for key in sound if key.kind in {"delta", "intent"}})
        folded = max((_folded(key.name) for key in sound if key.kind == "snapshot"), default=0) + len(counted) + 1
        self._last_batch = max((later_than, *(_batch(key) for key in sound)))
        batch = self.new_batch()
        terms = dict(zip(vocabulary, vocabulary.ids, strict=True))
        self._insert_in_pieces(terms_rows(batch, terms))
        head = SnapshotHead(_NEVER_A_BASE, counted, nameless=nameless)
        self._insert_in_pieces(snapshot_rows(f"{folded:012d}.{batch}", head, totals))
        self._store.delete_log(old)

    def _has_sound_term_k1(self) -> bool:
        """Tell whether the table of the k1 of each term can be read; without one, every term has the config's."""
        keys = [key for key in self._store.log_keys() if _kind(key) == "k1"]
        try:
            for rows in complete_entries(keys, "k1").values():
                self._decoded(term_k1_of, self._rows(rows, packed=True))
        except (FormatError, ValueError):
            return False
        return True

    # Rows -> statistics

    def _decoded(self, decode: Callable[[Any], _T], rows: Any) -> _T:
        """Read a row, or say that it is damaged."""
        try:
            return decode(rows)
        except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError, zlib.error) as error:
            first = rows if isinstance(rows, LogRow) else rows[0]
            msg = f"{self._store.name} is damaged: its log row {first.key!r} cannot be read ({error!r}); run repair"
            raise FormatError(msg) from error

    def _rows(self, keys: Sequence[str], *, packed: bool = False) -> list[LogRow]:
        """Read rows that were listed, all of them."""
        rows = self._store.get_log(keys, packed=packed) if keys else []
        if len(rows) < len(keys):
            raise _RowsMovedError
        return sorted(rows, key=lambda row: LogKey.parse(row.key))

    def _read_snapshot(self) -> None:
        """Start from the newest snapshot, unless the statistics have all that is in it."""
        snapshots = complete_entries(self._keys, "snapshot")
        newest = max(snapshots, default="")
        if newest <= self._base:
            return
        head = self._decoded(snapshot_head_of, self._rows(snapshots[newest][:1])[0])
        if head.base != self._base or not self._counted.issuperset(head.covers):
            statistics = NamespaceStatistics()
            for namespace, total in self._decoded(snapshot_of, self._rows(snapshots[newest], packed=True)).items():
                statistics.add(namespace, total)
            self._torn = True
            self.statistics, self._counted = statistics, set(head.covers)
        self._base, self._in_base, self._head, self._last_number = newest, set(head.covers), head, 0
        self._torn = False

    def _read_deltas(self) -> None:
        """Count the complete deltas that are not in the statistics yet."""
        new = {name: keys for name, keys in complete_entries(self._keys, "delta").items() if name not in self._counted}
        rows = self._rows([key for keys in new.values() for key in keys])
        changes = [self._decoded(delta_of, row) for row in rows]
        numbers = [self._decoded(number_of, row) for row in rows]
        self._torn = True
        for namespace, change in changes:
            self.statistics.add(namespace, change)
        self._counted.update(new)
        self._last_number = max([self._last_number, *numbers])
        self._torn = False

    def _read_terms(self) -> None:
        """Learn the displaced terms, and all terms where the vocabulary is in use."""
        new = {
            name: keys for name, keys in complete_entries(self._keys, "terms").items() if name not in self._known_terms
        }
        sizes = Counter(dict.fromkeys(new, 0))
        wanted = [key for keys in new.values() for key in keys]
        for row in self._rows(wanted, packed=self._vocabulary is not None):
            sizes[LogKey.parse(row.key).name] += self._decoded(num_terms_of, row)
            self.displaced.update(self._decoded(displaced_of, row))
            if self._vocabulary is not None:
                self._vocabulary.add(self._decoded(terms_of, row))
        self._known_terms.update(sizes)

    def _read_term_k1(self) -> None:
        """Read the newest table of the k1 of each term."""
        tables = complete_entries(self._keys, "k1")
        newest = max(tables, default="")
        if newest > self._k1_table:
            self.term_k1 = self._decoded(term_k1_of, self._rows(tables[newest], packed=True))
            self._k1_table = newest

    def _forget_what_is_gone(self) -> None:
        """Keep only names that the log still has: the others cannot come back."""
        names: dict[str, set[str]] = {"delta": set(), "intent": set(), "terms": set()}
        for key in map(LogKey.parse, self._keys):
            names.get(key.kind, set()).add(key.name)
            self._last_batch = max(self._last_batch, _batch(key))
        self._counted &= names["delta"] | names["intent"]
        self._known_terms = {name: size for name, size in self._known_terms.items() if name in names["terms"]}


def _folded(snapshot: str) -> int:
    """Return how many deltas a snapshot sums up, from its name."""
    return int(snapshot.split(".", maxsplit=1)[0] or "0")


def _parsed(key: str) -> LogKey | None:
    """Read a key, None where it is not one of ours."""
    try:
        return LogKey.parse(key)
    except ValueError:
        return None


def _kind(key: str) -> str:
    return key.split(":", maxsplit=1)[0]


def _batch(key: LogKey) -> str:
    """Return the batch id in a key, "" where there is none."""
    return "" if key.kind in _KEPT else key.name.split(".")[-1]
