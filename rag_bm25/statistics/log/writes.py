"""Writes: intents, the leases of their writers, and the deltas that they end with."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rag_bm25.statistics.corpus import Contribution
from rag_bm25.statistics.log.keys import LogKey
from rag_bm25.statistics.log.packing import check_texts, get_count, get_text, get_time, json_bytes, pack, unpack_json
from rag_bm25.store.rows import LogRow
from rag_bm25.vectors.sparse import SparseVector

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_ENTRIES = 100_000  # terms in one row of a delta
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

    @property
    def key(self) -> str:
        """Key of its row."""
        return str(LogKey("intent", self.batch))


class IntentRow:
    """Codec of intents, of at most some 1,000 changes each."""

    @staticmethod
    def encode(intent: Intent) -> list[LogRow]:
        """Encode an intent as its only row."""
        meta = {
            "writer": intent.writer,
            "time": intent.time,
            "namespace": intent.namespace,
            "chunks": intent.before.num_chunks,
            "length": intent.before.total_length,
        }
        changes = [f"{change.digest}:{change.insert}:{change.delete}" for change in intent.changes]
        before = _encode_df(intent.before.ids, intent.before.df)
        return [LogRow(intent.key, "intent", meta, pack(json_bytes(changes)), added=before)]

    @staticmethod
    def decode(row: LogRow) -> Intent:
        meta = row.meta
        return Intent(
            batch=LogKey.parse(row.key).name,
            writer=get_text(meta, "writer"),
            time=get_time(meta),
            namespace=get_text(meta, "namespace"),
            changes=[_decode_change(text) for text in check_texts(unpack_json(row.packed), "changes")],
            before=Contribution(get_count(meta, "chunks"), get_count(meta, "length"), *_decode_df(row.added)),
        )


def _decode_change(text: str) -> Change:
    found = _CHANGE.fullmatch(text)
    if found is None:
        raise ValueError(f"a change must be a digest and two lists of slots, got {text[:60]!r}")
    return Change(*found.groups())


class LeaseRow(NamedTuple):
    """Sign that the writer of an intent is alive, and its codec."""

    batch: str  # of the intent
    time: float  # seconds since 1970 on the writer's clock

    def encode(self, renewal: int) -> list[LogRow]:
        """Encode the sign as its only row; `renewal` counts those before it."""
        return [LogRow(str(LogKey("lease", self.batch, renewal, renewal + 1)), "lease", {"time": self.time})]

    @classmethod
    def decode(cls, row: LogRow) -> LeaseRow:
        return cls(LogKey.parse(row.key).name, get_time(row.meta))


class DeltaRow(NamedTuple):
    """One row of a delta, which holds a part of its terms, and its codec."""

    namespace: str
    change: Contribution
    number: int  # of deltas that its writer knew, this one included: readers must find as many; 0 in old indexes

    @staticmethod
    def encode(batch: str, namespace: str, before: Contribution, after: Contribution, number: int = 0) -> list[LogRow]:
        """Encode the change of a batch as rows of at most `MAX_ENTRIES` terms; the first one has the totals."""
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

    @classmethod
    def decode(cls, row: LogRow) -> DeltaRow:
        meta = {"number": 0, **row.meta}
        added = Contribution(get_count(meta, "chunks_added"), get_count(meta, "length_added"), *_decode_df(row.added))
        removed = Contribution(
            get_count(meta, "chunks_removed"), get_count(meta, "length_removed"), *_decode_df(row.removed)
        )
        return cls(get_text(meta, "namespace"), added - removed, get_count(meta, "number"))


def _split_by_sign(ids: NDArray[np.uint32], df: NDArray[np.int64]) -> tuple[SparseVector, SparseVector]:
    """Return the df that were added, and those that were removed."""
    return _encode_df(ids[df > 0], df[df > 0]), _encode_df(ids[df < 0], -df[df < 0])


def _encode_df(ids: NDArray[np.uint32], df: NDArray[np.int64]) -> SparseVector:
    return SparseVector(ids, df.astype(np.float32))  # exact: a batch is far below 2**24 chunks


def _decode_df(counts: SparseVector) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    if not (np.abs(counts.values) <= MAX_FLOAT_COUNT).all():  # NaN is not
        raise ValueError("its counts are not finite, or too large")
    return counts.ids, counts.values.astype(np.int64)
