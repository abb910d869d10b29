"""Writes: intents, the leases of their writers, and the deltas that they end with."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from rag_bm25.statistics.corpus import Contribution
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
        return Intent(
            batch=LogKey.parse(first.key).name,
            writer=get_text(meta, "writer"),
            time=get_time(meta),
            namespace=get_text(meta, "namespace"),
            changes=[_decode_change(text) for text in check_texts(unpack_json(first.packed), "changes")],
            before=_contribution(meta, pages),
        )


def _decode_change(text: str) -> Change:
    match = _CHANGE.fullmatch(text)
    if match is None:
        raise ValueError(f"a change must be a digest and two lists of slots, got {text[:60]!r}")
    return Change(*match.groups())


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
    """The change of counts made by one batch."""

    namespace: str
    change: Contribution
    number: int = 0  # of deltas that its writer knew, this one included: readers must find as many
    num_terms: int = 0  # of terms that its writer knew: the vocabulary must have as many


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
        meta = rows[0].meta
        change = _contribution(meta, [row for row in rows if row.packed])
        return Delta(get_text(meta, "namespace"), change, get_count(meta, "number"), get_count(meta, "terms"))


def _contribution(meta: Mapping[str, Any], pages: Sequence[LogRow]) -> Contribution:
    counts = unpack_pages(row.packed for row in pages)
    return Contribution.of_counts(get_count(meta, "chunks"), get_count(meta, "length"), counts)
