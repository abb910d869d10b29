"""The log of an index as version 0.1 of the package wrote it."""

from __future__ import annotations

import base64
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from rag_bm25.statistics.corpus import NamespaceStatistics
from rag_bm25.statistics.log.keys import LogKey, complete_entries, keys_of
from rag_bm25.statistics.log.writes import DeltaRow
from rag_bm25.store.rows import LogRow
from rag_bm25.vectors.sparse import EMPTY, SparseVector

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from rag_bm25.statistics.corpus import Contribution
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


def take_back_to_format_1(store: MemoryStore, *, folded: int = 0) -> None:
    """Rewrite a log without heads as format 1 has it, with its first deltas in a snapshot; intents are dropped."""
    rows = store.collections.log
    deltas = {
        batch: DeltaRow.decode([rows[key] for key in keys]) for batch, keys in complete_entries(rows, "delta").items()
    }
    for key in keys_of(rows, "delta", "intent", "lease"):
        del rows[key]
    unfolded = list(enumerate(deltas.items(), 1))[folded:]
    written = [delta_row(batch, delta.namespace, delta.change, number) for number, (batch, delta) in unfolded]
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
