"""The rows of the statistics log: how counts, terms and intents are written down and read back.

=========  ====================================  =============================================================
kind       key                                   holds
=========  ====================================  =============================================================
config     ``config:index:<part>:<parts>``       format version, parameters and analyzer contract
terms      ``terms:<batch>:<part>:<parts>``      terms first seen by a batch, and the displaced ones' ids
intent     ``intent:<batch>:0:1``                a write under way: what it inserts and deletes, and what its
                                                 chunks contributed before
lease      ``lease:<batch>:<part>:<parts>``      that the writer of an intent is still alive
delta      ``delta:<batch>:<part>:<parts>``      what a batch changed: df added and removed, and totals
snapshot   ``snapshot:<name>:<part>:<parts>``    the sum of the deltas that it covers
copy       ``copy:index:0:1``                    that a copy of an index is not finished, and of which
k1         ``k1:<batch>:<part>:<parts>``         the k1 of each term, for weightings that have one for each
=========  ====================================  =============================================================

A key tells whether all parts of its entry are there, so that half-written entries can be passed over.
"""

from __future__ import annotations

import base64
import json
import math
import re
import zlib
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rag_bm25.errors import FormatError, ParameterError
from rag_bm25.sparse import SparseVector
from rag_bm25.statistics import MAX_COUNT, Contribution
from rag_bm25.store import LogRow
from rag_bm25.terms import MAX_ID, term_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

__all__ = [
    "FORMAT",
    "Change",
    "Intent",
    "LogKey",
    "SnapshotHead",
    "complete_entries",
    "config_of",
    "config_rows",
    "copy_of",
    "copy_row",
    "delta_of",
    "delta_rows",
    "displaced_of",
    "format_of",
    "intent_of",
    "intent_row",
    "lease_of",
    "lease_row",
    "num_terms_of",
    "number_of",
    "snapshot_head_of",
    "snapshot_of",
    "snapshot_rows",
    "term_k1_of",
    "term_k1_rows",
    "terms_of",
    "terms_rows",
]

FORMAT = 1
MAX_PACKED = 65_535
MAX_ENTRIES = 100_000
COUNTS_PER_ROW = 4_000  # 12 bytes each: fits even where nothing can be compressed
TERMS_PER_ROW = 16_384
MAX_PLAIN = 16 << 20  # bytes that a row may unpack to
MAX_CONFIG = 64 << 20  # and the parameters of an index, some 1,000,000 user words
MAX_FLOAT_COUNT = 2**24  # up to here float32 has all integers
K1_UNIT = 1e-4
COMPRESSION = 3  # of zlib: two thirds of the way to the smallest size, at a third of the time


_BATCH = r"[0-9a-f]{1,40}"
_NAMES = {"config": "index", "copy": "index", "snapshot": rf"[0-9]{{1,18}}\.{_BATCH}"}
_KEY = re.compile(r"([a-z0-9]+):([0-9a-z.]+):(0|[1-9][0-9]{0,8}):([1-9][0-9]{0,8})")
_CHANGE = re.compile(r"([0-9a-f]*):([a-z]?):([a-z]*)")


class LogKey(NamedTuple):
    """Key of a log row.

    Parameters
    ----------
    kind : str
        What the row is.
    name : str
        The batch; ``index`` for config and copy; for a snapshot how many deltas it sums up, a dot, and a batch id.
    part : int
        Which row of the entry, from 0.
    parts : int
        How many rows the entry has.
    """

    kind: str
    name: str
    part: int = 0
    parts: int = 1

    @classmethod
    def parse(cls, text: str) -> LogKey:
        """Read a key back.

        Parameters
        ----------
        text : str
            As made by ``str()``.

        Returns
        -------
        LogKey
            Equal to the one that was written.

        Raises
        ------
        FormatError
            It is none of ours.

        Examples
        --------
        >>> LogKey.parse("delta:0123:0:2")
        LogKey(kind='delta', name='0123', part=0, parts=2)
        """
        found = _KEY.fullmatch(text)
        if found is None or not re.fullmatch(_NAMES.get(found[1], _BATCH), found[2]):
            msg = f"the log is damaged: no row of it can have the key {text!r}; run repair"
            raise FormatError(msg)
        return cls(found[1], found[2], int(found[3]), int(found[4]))

    def __str__(self) -> str:
        """Return the key as it is stored."""
        return ":".join(map(str, self))


def complete_entries(keys: Iterable[str], kind: str) -> dict[str, list[str]]:
    """Group keys by the entry that they are parts of.

    Parameters
    ----------
    keys : iterable of str
        Any keys of the log.
    kind : str
        Which to keep.

    Returns
    -------
    dict of str to list of str
        Name -> keys of all parts, in order, oldest name first; entries of which a part is missing are left out.
    """
    entries: dict[str, list[LogKey]] = defaultdict(list)
    for text in keys:
        if text.startswith(f"{kind}:"):
            key = LogKey.parse(text)
            entries[key.name].append(key)
    return {
        name: [str(part) for part in sorted(parts)]
        for name, parts in sorted(entries.items())
        if len(parts) == parts[0].parts
    }


# Config


def config_rows(config: dict[str, Any]) -> list[LogRow]:
    """Write the parameters of an index down.

    Parameters
    ----------
    config : dict
        JSON values only; at most 64 MiB, since it holds the user's dictionary.

    Returns
    -------
    list of LogRow
        One or more.

    Raises
    ------
    ParameterError
        They are larger than any reader takes.
    """
    plain = _json(config)
    if len(plain) > MAX_CONFIG:
        msg = f"the parameters of an index must have at most {MAX_CONFIG:,} bytes of JSON, got {len(plain):,}"
        raise ParameterError(msg)
    packed = _encode(plain)
    pieces = [packed[at : at + MAX_PACKED] for at in range(0, len(packed), MAX_PACKED)]
    return [
        LogRow(str(LogKey("config", "index", part, len(pieces))), "config", {"format": FORMAT}, piece)
        for part, piece in enumerate(pieces)
    ]


def format_of(row: LogRow) -> int:
    """Read with which version of the format an index was written.

    Parameters
    ----------
    row : LogRow
        Any part of the config.

    Returns
    -------
    int
        At most :data:`FORMAT` where this version can read it.
    """
    return _count(row.meta, "format")


def config_of(rows: Iterable[LogRow]) -> dict[str, Any]:
    """Read the parameters of an index back.

    Parameters
    ----------
    rows : iterable of LogRow
        All parts.

    Returns
    -------
    dict
        As given to :func:`config_rows`.
    """
    ordered = sorted(rows, key=lambda row: LogKey.parse(row.key).part)
    return _dict(json.loads(_decode("".join(row.packed for row in ordered), MAX_CONFIG)), "config")


def copy_row(source: str, fingerprint: str) -> LogRow:
    """Write down that the rows here are a copy that is not finished.

    Parameters
    ----------
    source : str
        Name of the store that is copied.
    fingerprint : str
        What tells its parameters from others.

    Returns
    -------
    LogRow
        Its row; there is at most one.
    """
    return LogRow(str(LogKey("copy", "index")), "copy", {"source": source, "fingerprint": fingerprint})


def copy_of(row: LogRow) -> tuple[str, str]:
    """Read the mark of a copy back.

    Parameters
    ----------
    row : LogRow
        As made by :func:`copy_row`.

    Returns
    -------
    tuple of str and str
        As given to :func:`copy_row`.
    """
    return _text(row.meta, "source"), _text(row.meta, "fingerprint")


# Terms


def terms_rows(batch: str, terms: Mapping[str, int]) -> list[LogRow]:
    """Write new terms down; an id is told only where it is not the hash.

    Parameters
    ----------
    batch : str
        The batch that saw them first.
    terms : mapping of str to int
        Terms with their ids.

    Returns
    -------
    list of LogRow
        As many as are needed, none for no terms.
    """
    displaced = {term: id_ for term, id_ in terms.items() if id_ != term_id(term)}
    every = list(terms)
    cut = [every[at : at + TERMS_PER_ROW] for at in range(0, len(every), TERMS_PER_ROW)]
    pieces = [piece for some in cut for piece in _packed_pieces(some)]
    return [
        LogRow(
            str(LogKey("terms", batch, part, len(pieces))),
            "terms",
            {"count": len(piece), "displaced": {term: displaced[term] for term in piece if term in displaced}},
            packed,
        )
        for part, (piece, packed) in enumerate(pieces)
    ]


def terms_of(row: LogRow) -> dict[str, int]:
    """Read the terms of one row back.

    Parameters
    ----------
    row : LogRow
        With its packed field.

    Returns
    -------
    dict of str to int
        Terms with their ids.
    """
    displaced = displaced_of(row)
    terms = {term: displaced.get(term) or term_id(term) for term in _texts(_unpack(row.packed), "terms")}
    _check_ids(terms)
    return terms


def displaced_of(row: LogRow) -> dict[str, int]:
    """Read only the displaced terms of one row, which does not need its packed field.

    Parameters
    ----------
    row : LogRow
        One of those made by :func:`terms_rows`.

    Returns
    -------
    dict of str to int
        Terms whose id is not their hash.
    """
    displaced = _dict(row.meta["displaced"], "displaced")
    ids = {term: _count(displaced, term) for term in displaced}
    _check_ids(ids)
    return ids


def _check_ids(terms: Mapping[str, int]) -> None:
    """Refuse what is no term, or has no id that a term may have."""
    "".join(terms).encode()
    if not all(0 < id_ <= MAX_ID for id_ in terms.values()):
        msg = f"the id of a term must be in 1..{MAX_ID}"
        raise ValueError(msg)


def _packed_pieces(terms: list[str]) -> list[tuple[list[str], str]]:
    """Halve a list of terms until each piece fits into a row, packed and unpacked."""
    plain = _json(terms)
    packed = _encode(plain)
    if len(packed) <= MAX_PACKED and len(plain) <= MAX_PLAIN:
        return [(terms, packed)]
    half = len(terms) // 2
    return _packed_pieces(terms[:half]) + _packed_pieces(terms[half:])


def num_terms_of(row: LogRow) -> int:
    """Read how many terms are in one row, which does not need its packed field.

    Parameters
    ----------
    row : LogRow
        One of those made by :func:`terms_rows`.

    Returns
    -------
    int
        At most :data:`TERMS_PER_ROW`.
    """
    return _count(row.meta, "count")


# Intents


@dataclass(frozen=True)
class Change:
    """What a batch does to one chunk.

    Parameters
    ----------
    digest : str
        The chunk's primary key without the slot.
    insert : str
        Slot of the new row, "" where the chunk is deleted.
    delete : str
        Slots whose rows are superseded or deleted.
    """

    digest: str
    insert: str
    delete: str

    @property
    def inserted_pk(self) -> str:
        """Primary key of the new row."""
        return self.digest + self.insert

    @property
    def deleted_pks(self) -> list[str]:
        """Primary keys of the rows to delete."""
        return [self.digest + slot for slot in self.delete]


@dataclass(frozen=True)
class Intent:
    """A write under way, as told before it begins, so that anybody can finish it.

    Parameters
    ----------
    batch : str
        The batch's id; later batches have greater ids.
    writer : str
        Who writes.
    time : float
        When, in seconds since 1970 on the writer's clock.
    namespace : str
        Whose chunks.
    changes : list of Change
        One per chunk.
    before : Contribution
        What the chunks contributed before.
    """

    batch: str
    writer: str
    time: float
    namespace: str
    changes: list[Change]
    before: Contribution

    @property
    def key(self) -> str:
        """Key of its row."""
        return str(LogKey("intent", self.batch))


def intent_row(intent: Intent) -> LogRow:
    """Write an intent down.

    Parameters
    ----------
    intent : Intent
        Of at most some 1,000 changes.

    Returns
    -------
    LogRow
        Its row.
    """
    meta = {
        "writer": intent.writer,
        "time": intent.time,
        "namespace": intent.namespace,
        "chunks": intent.before.num_chunks,
        "length": intent.before.total_length,
    }
    changes = [f"{change.digest}:{change.insert}:{change.delete}" for change in intent.changes]
    before = _counts(intent.before.ids, intent.before.df)
    return LogRow(intent.key, "intent", meta, _encode(_json(changes)), added=before)


def intent_of(row: LogRow) -> Intent:
    """Read an intent back.

    Parameters
    ----------
    row : LogRow
        As made by :func:`intent_row`.

    Returns
    -------
    Intent
        Equal to the one that was written.
    """
    meta = row.meta
    return Intent(
        batch=LogKey.parse(row.key).name,
        writer=_text(meta, "writer"),
        time=_time(meta),
        namespace=_text(meta, "namespace"),
        changes=[_change(text) for text in _texts(_unpack(row.packed), "changes")],
        before=Contribution(_count(meta, "chunks"), _count(meta, "length"), *_df(row.added)),
    )


def _change(text: str) -> Change:
    found = _CHANGE.fullmatch(text)
    if found is None:
        msg = f"a change must be a digest and two lists of slots, got {text[:60]!r}"
        raise ValueError(msg)
    return Change(*found.groups())


def lease_row(batch: str, renewal: int, now: float) -> LogRow:
    """Write down that the writer of an intent is still alive.

    Parameters
    ----------
    batch : str
        The intent's batch.
    renewal : int
        How often it was written before.
    now : float
        Seconds since 1970 on the writer's clock.

    Returns
    -------
    LogRow
        Its row.
    """
    return LogRow(str(LogKey("lease", batch, renewal, renewal + 1)), "lease", {"time": now})


def lease_of(row: LogRow) -> tuple[str, float]:
    """Read a sign of life back.

    Parameters
    ----------
    row : LogRow
        As made by :func:`lease_row`.

    Returns
    -------
    batch : str
        The intent's batch.
    time : float
        Seconds since 1970 on the writer's clock.
    """
    return LogKey.parse(row.key).name, _time(row.meta)


# Deltas


def delta_rows(batch: str, namespace: str, before: Contribution, after: Contribution, number: int = 0) -> list[LogRow]:
    """Write down what a batch changed, as rows of at most 100,000 terms; the first one carries the totals.

    Parameters
    ----------
    batch, namespace : str
        Which batch, and whose chunks.
    before, after : Contribution
        What the batch's chunks contributed before it, and contribute now.
    number : int
        How many deltas the writer knows of, this one included: whoever reads it must find as many.

    Returns
    -------
    list of LogRow
        One or more.
    """
    change = after - before
    starts = range(0, max(len(change.ids), 1), MAX_ENTRIES)
    totals = {
        "chunks_added": after.num_chunks,
        "chunks_removed": before.num_chunks,
        "length_added": after.total_length,
        "length_removed": before.total_length,
    }
    rows = []
    for part, start in enumerate(starts):
        span = slice(start, start + MAX_ENTRIES)
        key = LogKey("delta", batch, part, len(starts))
        meta = {"namespace": namespace, "number": number, **(dict.fromkeys(totals, 0) if part else totals)}
        rows.append(LogRow(str(key), "delta", meta, "", *_split_by_sign(change.ids[span], change.df[span])))
    return rows


def delta_of(row: LogRow) -> tuple[str, Contribution]:
    """Read one row of a delta back.

    Parameters
    ----------
    row : LogRow
        One of those made by :func:`delta_rows`.

    Returns
    -------
    namespace : str
        Whose chunks changed.
    change : Contribution
        This row's part of the change.
    """
    meta = row.meta
    added = Contribution(_count(meta, "chunks_added"), _count(meta, "length_added"), *_df(row.added))
    removed = Contribution(_count(meta, "chunks_removed"), _count(meta, "length_removed"), *_df(row.removed))
    return _text(meta, "namespace"), added - removed


def number_of(row: LogRow) -> int:
    """Read how many deltas there were when one was written, itself included.

    Parameters
    ----------
    row : LogRow
        One of those made by :func:`delta_rows`.

    Returns
    -------
    int
        0 where an earlier version of the package wrote it.
    """
    return _count({"number": 0, **row.meta}, "number")


def _split_by_sign(ids: NDArray[np.uint32], df: NDArray[np.int64]) -> tuple[SparseVector, SparseVector]:
    """Return the df that were added, and those that were removed."""
    return _counts(ids[df > 0], df[df > 0]), _counts(ids[df < 0], -df[df < 0])


def _counts(ids: NDArray[np.uint32], df: NDArray[np.int64]) -> SparseVector:
    """Return counts as Milvus carries them: exact, since a batch is far below 2**24 chunks."""
    return SparseVector(ids, df.astype(np.float32))


def _df(counts: SparseVector) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    if not (np.abs(counts.values) <= MAX_FLOAT_COUNT).all():  # NaN is not
        msg = "its counts are no counts"
        raise ValueError(msg)
    return counts.ids, counts.values.astype(np.int64)


# Snapshots


@dataclass(frozen=True)
class SnapshotHead:
    """What a snapshot stands for.

    Parameters
    ----------
    base : str
        Name of the snapshot that it was built on, "" where there was none.
    covers : list of str
        Names of the deltas in it whose rows, or intents, were there when it was written. Those that an earlier
        snapshot covered and that are gone need not be named: they cannot come back.
    missing : int
        Deltas that were found to be missing when it was written.
    nameless : int
        Terms in it that no text explains, as a repair found.
    """

    base: str
    covers: list[str]
    missing: int = 0
    nameless: int = 0


def snapshot_rows(name: str, head: SnapshotHead, totals: Mapping[str, Contribution]) -> list[LogRow]:
    """Write statistics down, the sums of each namespace in one row and its df in others.

    Parameters
    ----------
    name : str
        Name of the snapshot; later ones have greater names.
    head : SnapshotHead
        What it stands for; carried by the first row.
    totals : mapping of str to Contribution
        Namespace -> its statistics.

    Returns
    -------
    list of LogRow
        One or more; a reader needs all of them.
    """
    pieces: list[tuple[dict[str, Any], str]] = []
    for namespace, total in (totals or {"": Contribution()}).items():
        sums = {"namespace": namespace, "chunks": total.num_chunks, "length": total.total_length}
        pieces.append((sums, ""))
        pieces += [({"namespace": namespace}, packed) for packed in _packed_counts(total.ids, total.df)]
    pieces[0][0].update(base=head.base, covers=head.covers, missing=head.missing, nameless=head.nameless)
    return [
        LogRow(str(LogKey("snapshot", name, part, len(pieces))), "snapshot", meta, packed)
        for part, (meta, packed) in enumerate(pieces)
    ]


def snapshot_head_of(row: LogRow) -> SnapshotHead:
    """Read what a snapshot stands for.

    Parameters
    ----------
    row : LogRow
        Its first row.

    Returns
    -------
    SnapshotHead
        As given to :func:`snapshot_rows`.
    """
    meta = {"missing": 0, "nameless": 0, **row.meta}  # an earlier version of the package does not write them
    return SnapshotHead(
        _text(meta, "base"), _texts(meta["covers"], "covers"), _count(meta, "missing"), _count(meta, "nameless")
    )


def snapshot_of(rows: Iterable[LogRow]) -> dict[str, Contribution]:
    """Read a snapshot back.

    Parameters
    ----------
    rows : iterable of LogRow
        All rows made by :func:`snapshot_rows`, in order.

    Returns
    -------
    dict of str to Contribution
        Namespace -> its statistics.
    """
    by_namespace: dict[str, list[LogRow]] = defaultdict(list)
    for row in rows:
        by_namespace[_text(row.meta, "namespace")].append(row)
    return {namespace: _contribution_of(some) for namespace, some in by_namespace.items()}


def _contribution_of(rows: list[LogRow]) -> Contribution:
    """Put the rows of one namespace together: sums first, then counts in order of the ids."""
    sums = rows[0].meta
    chunks, length = _count(sums, "chunks"), _count(sums, "length")
    return Contribution(chunks, length, *_joined_counts(row.packed for row in rows[1:]))


def _packed_counts(ids: NDArray[np.uint32], df: NDArray[np.int64]) -> Iterator[str]:
    """Cut counts into pieces that each fit into a row.

    They do not travel as sparse vectors: clients decode those entry by entry, which for a million terms takes three
    times as long as everything else together.
    """
    for start in range(0, len(ids), COUNTS_PER_ROW):
        span = slice(start, start + COUNTS_PER_ROW)
        gaps = np.diff(ids[span], prepend=np.uint32(0))
        yield _encode(gaps.astype("<u4").tobytes() + df[span].astype("<i8").tobytes())


def _joined_counts(pieces: Iterable[str]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Put the pieces of :func:`_packed_counts` together, and see that they follow each other."""
    unpacked = [_unpacked_counts(piece) for piece in pieces]
    ids = np.concatenate([np.empty(0, np.int64), *(ids for ids, _ in unpacked)])
    df = np.concatenate([np.empty(0, np.int64), *(df for _, df in unpacked)])
    if (np.diff(ids, prepend=0) <= 0).any() or (len(ids) and ids[-1] > MAX_ID) or (np.abs(df) > MAX_COUNT).any():
        msg = "its counts are no counts of terms"
        raise ValueError(msg)
    return ids.astype(np.uint32), df


def _unpacked_counts(packed: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    plain = _decode(packed)
    entries, rest = divmod(len(plain), 12)
    if rest:
        msg = f"its counts have {len(plain)} bytes, which is no multiple of 12"
        raise ValueError(msg)
    gaps = np.frombuffer(plain, "<u4", entries)
    df = np.frombuffer(plain, "<i8", entries, offset=4 * entries)
    return np.cumsum(gaps, dtype=np.int64), df.astype(np.int64)


# k1


def term_k1_rows(name: str, term_k1: SparseVector) -> list[LogRow]:
    """Write the k1 of each term down, to four decimals.

    Parameters
    ----------
    name : str
        Name of the table; later ones have greater names.
    term_k1 : SparseVector
        Term id -> k1, >= 0.

    Returns
    -------
    list of LogRow
        One or more; a reader needs all of them.
    """
    units = (term_k1.values.astype(np.float64) / K1_UNIT).round().astype(np.int64)
    pieces = list(_packed_counts(term_k1.ids, units)) or [""]
    return [LogRow(str(LogKey("k1", name, part, len(pieces))), "k1", {}, piece) for part, piece in enumerate(pieces)]


def term_k1_of(rows: Iterable[LogRow]) -> SparseVector:
    """Read the k1 of each term back.

    Parameters
    ----------
    rows : iterable of LogRow
        All rows made by :func:`term_k1_rows`, in order.

    Returns
    -------
    SparseVector
        Term id -> k1.
    """
    ids, units = _joined_counts(row.packed for row in rows if row.packed)
    if (units < 0).any():
        msg = "a k1 is below 0"
        raise ValueError(msg)
    return SparseVector(ids, (units * K1_UNIT).astype(np.float32))


# Packing


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _unpack(packed: str) -> Any:
    return json.loads(_decode(packed))


def _encode(plain: bytes) -> str:
    """Return bytes, compressed, as ASCII."""
    return base64.b64encode(zlib.compress(plain, COMPRESSION)).decode()


def _decode(packed: str, limit: int = MAX_PLAIN) -> bytes:
    """Undo :func:`_encode`; a few bytes may have been made to fill the memory."""
    unpacker = zlib.decompressobj()
    plain = unpacker.decompress(base64.b64decode(packed, validate=True), limit + 1)
    if len(plain) > limit or not unpacker.eof or unpacker.unused_data:
        msg = f"its packed data is cut, has more after it, or unpacks to more than {limit:,} bytes"
        raise ValueError(msg)
    return plain


# Types of what was read: a row may be damaged, or another program's.


def _count(values: Mapping[str, Any], name: str) -> int:
    value = values[name]
    if type(value) is not int or abs(value) > MAX_COUNT:
        msg = f"{name!r} must be a whole number below 2**53"
        raise ValueError(msg)
    return value


def _time(values: Mapping[str, Any]) -> float:
    value = values["time"]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        msg = "'time' must be a finite number"
        raise ValueError(msg)
    return value


def _text(values: Mapping[str, Any], name: str) -> str:
    return _texts([values[name]], name)[0]


def _texts(values: object, name: str) -> list[str]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        msg = f"{name!r} must hold strings only"
        raise ValueError(msg)
    return values


def _dict(value: object, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        msg = f"{name!r} must be a JSON object"
        raise ValueError(msg)
    return value
