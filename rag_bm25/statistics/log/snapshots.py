"""Snapshots: the sums of many deltas."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rag_bm25.statistics.corpus import Contribution
from rag_bm25.statistics.log.keys import make_rows
from rag_bm25.statistics.log.packing import check_texts, get_count, get_text, pack_counts, unpack_counts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rag_bm25.store.rows import LogRow


def snapshot_name(num_deltas: int, batch: str) -> str:
    """Name a snapshot: of two, the greater name must cover more, so it begins with the number of deltas in it."""
    return f"{num_deltas:012d}.{batch}"


def num_folded(name: str) -> int:
    """Return how many deltas a snapshot sums up, by its name; 0 for ""."""
    return int(name.split(".", maxsplit=1)[0] or "0")


@dataclass(frozen=True)
class SnapshotHead:
    """Coverage of a snapshot."""

    base: str  # name of the snapshot that it was built on, "" where there was none
    # Deltas in it whose rows, or intents, were there when it was written. Those that an earlier snapshot covered and
    # that are gone need not be named: they cannot come back.
    covers: list[str]
    missing: int = 0  # deltas that were found to be missing when it was written
    nameless: int = 0  # terms in it that no text explains, as a repair found


class SnapshotRow:
    """Codec of statistics: the sums of each namespace in one row and its df in others; the first row has the head."""

    @staticmethod
    def encode(name: str, head: SnapshotHead, totals: Mapping[str, Contribution]) -> list[LogRow]:
        """Encode the statistics of each namespace as rows, all of which a reader needs."""
        pieces: list[tuple[dict[str, Any], str]] = []
        for namespace, total in (totals or {"": Contribution()}).items():
            sums = {"namespace": namespace, "chunks": total.num_chunks, "length": total.total_length}
            pieces.append((sums, ""))
            pieces += [({"namespace": namespace}, packed) for packed in pack_counts(total.ids, total.df)]
        pieces[0][0].update(asdict(head))
        return make_rows("snapshot", name, pieces)

    @staticmethod
    def decode_head(row: LogRow) -> SnapshotHead:
        """Decode the head from the first row."""
        meta = {"missing": 0, "nameless": 0, **row.meta}  # an earlier version of the package does not write them
        covers = check_texts(meta["covers"], "covers")
        return SnapshotHead(get_text(meta, "base"), covers, get_count(meta, "missing"), get_count(meta, "nameless"))

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
