"""Writes: intents, the leases of their writers, and the deltas that they end with."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rag_bm25.statistics.corpus import Contribution, add_up
from rag_bm25.statistics.count_table import Counts
from rag_bm25.statistics.log.keys import LogKey, make_rows
from rag_bm25.statistics.log.packing import (
    check_texts,
    get_count,
    get_text,
    get_time,
    json_bytes,
    pack,
    pack_pages,
    unpack_json,
    unpack_pages,
)
from rag_bm25.store.rows import LogRow

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from rag_bm25.vectors.sparse import SparseVector

MAX_FLOAT_COUNT = 2**24  # float32 has all integers up to here

_CHANGE = re.compile(r"([0-9a-f]*):([a-z]?):([a-z]*)")


@dataclass(frozen=True)
class Change:
    """Change of one chunk by a batch."""

    digest: str  # the chunk's primary key without the slot
    insert: str  # slot of the new row, "" where the chunk is deleted
    delete: str  # slots whose rows are superseded or deleted

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
    """A write in progress, stored before it begins so that any other writer can finish it."""

    batch: str
    writer: str
    time: float  # seconds since 1970 on the writer's clock
    namespace: str
    changes: list[Change]
    before: Contribution  # of the changed chunks, before the write
    silence: float = 0.0  # seconds since its writer's last sign of life; not stored


class IntentRow:
    """Codec of intents, of at most some 1,000 changes each: the changes in one row, what they replace in others."""

    @staticmethod
    def encode(intent: Intent) -> list[LogRow]:
        """Encode an intent as rows, all of which a reader needs."""
        meta = {
            "writer": intent.writer,
            "time": intent.time,
            "namespace": intent.namespace,
            "chunks": intent.before.num_chunks,
            "length": intent.before.total_length,
        }
        changes = [f"{change.digest}:{change.insert}:{change.delete}" for change in intent.changes]
        pages = pack_pages(intent.before.counts)
        pieces = [(meta, pack(json_bytes(changes))), *(({}, page) for page in pages)]
        return make_rows("intent", intent.batch, pieces)

    @staticmethod
    def decode(rows: Sequence[LogRow]) -> Intent:
        """Decode all rows, in order."""
        first, *pages = rows
        meta = first.meta
        counts = unpack_pages(row.packed for row in pages) if pages else Counts(*_decode_df(first.added))  # of format 1
        return Intent(
            batch=LogKey.parse(first.key).name,
            writer=get_text(meta, "writer"),
            time=get_time(meta),
            namespace=get_text(meta, "namespace"),
            changes=[_decode_change(text) for text in check_texts(unpack_json(first.packed), "changes")],
            before=_contribution(meta, counts),
        )


def _decode_change(text: str) -> Change:
    found = _CHANGE.fullmatch(text)
    if found is None:
        raise ValueError(f"a change must be a digest and two lists of slots, got {text[:60]!r}")
    return Change(*found.groups())


class LeaseRow(NamedTuple):
    """Sign that the writer of an intent is alive, and its codec."""

    batch: str  # of the intent
    time: float  # seconds since 1970, on the clock of its writer, or of another one that has noted it

    def encode(self, renewal: int) -> list[LogRow]:
        """Encode the sign as its only row; `renewal` counts those before it."""
        return [LogRow(str(LogKey("lease", self.batch, renewal, renewal + 1)), "lease", {"time": self.time})]

    @classmethod
    def decode(cls, row: LogRow) -> LeaseRow:
        return cls(LogKey.parse(row.key).name, get_time(row.meta))


@dataclass(frozen=True)
class Delta:
    """What a batch has changed."""

    namespace: str
    change: Contribution
    number: int = 0  # of deltas that its writer knew, this one included: readers must find as many; 0 in old indexes
    num_terms: int = 0  # of terms that its writer knew: the vocabulary must have as many; 0 in old indexes


class DeltaRow:
    """Codec of deltas: the totals in the first row, and the counts in as many as they need."""

    @staticmethod
    def encode(batch: str, delta: Delta) -> list[LogRow]:
        """Encode a delta as rows, all of which a reader needs."""
        change = delta.change
        meta = {
            "namespace": delta.namespace,
            "number": delta.number,
            "terms": delta.num_terms,
            "chunks": change.num_chunks,
            "length": change.total_length,
        }
        first, *others = [*pack_pages(change.counts)] or [""]
        return make_rows("delta", batch, [(meta, first), *(({}, page) for page in others)])

    @staticmethod
    def decode(rows: Sequence[LogRow]) -> Delta:
        """Decode all rows, in order."""
        meta = {"number": 0, "terms": 0, **rows[0].meta}
        if "chunks_added" in meta:
            change = add_up(map(_decode_change_of_format_1, rows))
        else:
            counts = unpack_pages(row.packed for row in rows if row.packed)
            change = _contribution(meta, counts)
        return Delta(get_text(meta, "namespace"), change, get_count(meta, "number"), get_count(meta, "terms"))


def _contribution(meta: Mapping[str, Any], counts: Counts) -> Contribution:
    return Contribution.of_counts(get_count(meta, "chunks"), get_count(meta, "length"), counts)


def _decode_change_of_format_1(row: LogRow) -> Contribution:
    """Decode a part of a delta of the first format, which has its counts as vectors."""
    meta = row.meta
    added = Contribution(get_count(meta, "chunks_added"), get_count(meta, "length_added"), *_decode_df(row.added))
    removed = Contribution(
        get_count(meta, "chunks_removed"), get_count(meta, "length_removed"), *_decode_df(row.removed)
    )
    return added - removed


def _decode_df(counts: SparseVector) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    if not (np.abs(counts.values) <= MAX_FLOAT_COUNT).all():  # NaN is not
        raise ValueError("its counts are not finite, or too large")
    return counts.ids, counts.values.astype(np.int64)
