"""The log of an index as version 0.1 of the package wrote it."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from rag_bm25.statistics.corpus import NamespaceStatistics
from rag_bm25.statistics.log.keys import LogKey, complete_entries, keys_of
from rag_bm25.statistics.log.writes import DeltaRow, IntentRow
from rag_bm25.store.rows import LogRow
from rag_bm25.vectors.sparse import EMPTY, SparseVector

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from rag_bm25.statistics.corpus import Contribution
    from rag_bm25.statistics.log.writes import Intent
    from support.memory_store import MemoryStore


def pack_counts(total: Contribution) -> str:
    """Gaps between ids, then df."""
    gaps = np.diff(total.ids, prepend=np.uint32(0)).astype("<u4")
    return base64.b64encode(zlib.compress(gaps.tobytes() + total.df.astype("<i8").tobytes(), 3)).decode()


def snapshot_rows(
    num_deltas: int, batch: str, totals: Mapping[str, Contribution], *, base: str = "", covers: Collection[str] = ()
) -> list[LogRow]:
    """A snapshot: for each namespace its sums, then its counts; the first row has the head."""
    pieces: list[tuple[dict[str, object], str]] = []
    for namespace, total in totals.items():
        pieces.append(({"namespace": namespace, "chunks": total.num_chunks, "length": total.total_length}, ""))
        pieces.append(({"namespace": namespace}, pack_counts(total)))
    pieces[0][0].update(base=base, covers=sorted(covers), missing=0, nameless=0)
    name = f"{num_deltas:012d}.{batch}"
    return [
        LogRow(str(LogKey("snapshot", name, part, len(pieces))), "snapshot", meta, packed)
        for part, (meta, packed) in enumerate(pieces)
    ]


def delta_row(batch: str, namespace: str, change: Contribution, number: int) -> LogRow:
    """A delta: what was added and what was removed, as vectors."""
    added, removed = change.df > 0, change.df < 0
    meta = {
        "namespace": namespace,
        "number": number,
        "chunks_added": max(change.num_chunks, 0),
        "chunks_removed": max(-change.num_chunks, 0),
        "length_added": max(change.total_length, 0),
        "length_removed": max(-change.total_length, 0),
    }
    vectors = (
        SparseVector(change.ids[some], np.abs(change.df[some]).astype(np.float32)) if some.any() else EMPTY
        for some in (added, removed)
    )
    return LogRow(str(LogKey("delta", batch)), "delta", meta, "", *vectors)


def intent_row(intent: Intent) -> LogRow:
    """An intent: what the chunks contributed before is a vector."""
    meta = {
        "writer": intent.writer,
        "time": intent.time,
        "namespace": intent.namespace,
        "chunks": intent.before.num_chunks,
        "length": intent.before.total_length,
    }
    changes = json.dumps([f"{change.digest}:{change.insert}:{change.delete}" for change in intent.changes]).encode()
    packed = base64.b64encode(zlib.compress(changes)).decode()
    before = SparseVector(intent.before.ids, intent.before.df.astype(np.float32))
    return LogRow(str(LogKey("intent", intent.batch)), "intent", meta, packed, before)


def take_back_to_format_1(store: MemoryStore, *, folded: int = 0, keep_ended: bool = False) -> None:
    """Rewrite a log without heads as format 1 has it, with its first deltas in a snapshot.

    Intents are dropped with their deltas, as format 1 does it; `keep_ended` leaves that of the last one, whose writer
    died in between.
    """
    rows = store.collections.log
    deltas = {
        batch: DeltaRow.decode([rows[key] for key in keys]) for batch, keys in complete_entries(rows, "delta").items()
    }
    intents = [IntentRow.decode([rows[key] for key in keys]) for keys in complete_entries(rows, "intent").values()]
    ended = {*deltas} - ({max(deltas)} if keep_ended else set())
    for key in keys_of(rows, "delta", "intent", "lease"):
        del rows[key]
    unfolded = list(enumerate(deltas.items(), 1))[folded:]
    written = [delta_row(batch, delta.namespace, delta.change, number) for number, (batch, delta) in unfolded]
    written += [intent_row(intent) for intent in intents if intent.batch not in ended]
    if folded:
        sums = NamespaceStatistics()
        for delta in list(deltas.values())[:folded]:
            sums.add(delta.namespace, delta.change)
        batches = list(deltas)[:folded]
        written += snapshot_rows(folded, batches[-1], sums.contributions(), covers=batches)
    rows.update((row.key, row) for row in written)
    for key in keys_of(rows, "config"):
        rows[key] = replace(rows[key], meta={"format": 1})
    for key in keys_of(rows, "terms"):
        rows[key] = replace(rows[key], meta={name: rows[key].meta[name] for name in ("count", "displaced")})
    _rename_batches(store)


def _rename_batches(store: MemoryStore) -> None:
    """Give each batch a name of its own after the clock, as format 1 does, instead of its writer's."""
    log, chunks = store.collections.log, store.collections.chunks
    for key, row in list(log.items()):
        parsed = LogKey.parse(key)
        if not parsed.batch:
            continue
        name = parsed.name.removesuffix(parsed.batch) + _renamed(parsed.batch)
        meta = row.meta
        if "covers" in meta:
            meta = {**meta, "covers": list(map(_renamed, meta["covers"]))}
        del log[key]
        log[str(parsed._replace(name=name))] = replace(row, key=str(parsed._replace(name=name)), meta=meta)
    for pk, chunk in chunks.items():
        chunks[pk] = replace(chunk, batch=_renamed(chunk.batch))


def _renamed(batch: str) -> str:
    return f"{batch[:16]}{zlib.crc32(batch.encode()):08x}"


def format_that_version_1_reads(store: MemoryStore) -> int | None:
    """Return the format of the config as version 0.1 of the package finds it, None where it finds none."""
    parts = [key.split(":") for key in keys_of(store.collections.log, "config")]
    numbers = sorted((int(part), int(number)) for _, _, part, number in parts)
    if not numbers or len(numbers) != numbers[0][1]:  # it knows of one entry alone
        return None
    meta = store.collections.log["config:index:{}:{}".format(*numbers[0])].meta
    return int(meta["format"])


def rows_of_format_2(store: MemoryStore) -> list[str]:
    """Return the keys of the rows that version 0.1 does not know, or would read wrongly."""
    return [key for key, row in store.collections.log.items() if _is_of_format_2(row)]


def _is_of_format_2(row: LogRow) -> bool:
    if row.kind in ("delta", "terms"):
        return "chunks_added" not in row.meta if row.kind == "delta" else "replaced" in row.meta
    return row.kind in ("head", "run", "compaction") or (row.kind == "intent" and not row.key.endswith(":0:1"))
