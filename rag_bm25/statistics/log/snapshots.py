"""Snapshots: the sums of many deltas, as the first format of the log has them; a compaction replaces them by runs."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from rag_bm25.statistics.corpus import Contribution
from rag_bm25.statistics.log.head import Head
from rag_bm25.statistics.log.keys import LogKey
from rag_bm25.statistics.log.packing import check_texts, get_count, get_text, unpack_counts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rag_bm25.store.rows import LogRow


class SnapshotRow:
    """Decoder of statistics: the sums of each namespace in one row and its df in others; the first row has the head."""

    @staticmethod
    def decode_head(row: LogRow) -> Head:
        """Decode from the first row what later formats have in a row of its own."""
        meta = {"missing": 0, "nameless": 0, **row.meta}  # the first version of the package does not write them
        return Head(
            base=get_text(meta, "base"),
            covers=tuple(check_texts(meta["covers"], "covers")),
            num_deltas=int(LogKey.parse(row.key).name.split(".")[0]),
            missing=get_count(meta, "missing"),
            nameless=get_count(meta, "nameless"),
        )

    @staticmethod
    def decode(rows: Iterable[LogRow]) -> dict[str, Contribution]:
        """Decode the statistics of each namespace from all rows, in order."""
        by_namespace: dict[str, list[LogRow]] = defaultdict(list)
        for row in rows:
            by_namespace[get_text(row.meta, "namespace")].append(row)
        return {namespace: _decode_namespace(some) for namespace, some in by_namespace.items()}


def _decode_namespace(rows: list[LogRow]) -> Contribution:
    sums = rows[0].meta
    chunks, length = get_count(sums, "chunks"), get_count(sums, "length")
    return Contribution(chunks, length, *unpack_counts(row.packed for row in rows[1:]))
