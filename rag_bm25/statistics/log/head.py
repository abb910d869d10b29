"""The head of a log: the runs in force, and the deltas that are in them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, NamedTuple

from rag_bm25.statistics.log.keys import LogKey, make_rows
from rag_bm25.statistics.log.packing import (
    MAX_PACKED,
    MAX_PLAIN,
    check_counts,
    check_dict,
    check_texts,
    get_count,
    get_text,
    json_bytes,
    pack,
    unpack,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rag_bm25.statistics.log.table import LogTable
    from rag_bm25.store.rows import LogRow

NEVER_A_BASE = "-"  # base of a head that does not add up with anything before it


MAX_ROWS = 100_000_000  # of a run, and counts of a page


class RunInfo(NamedTuple):
    """A run, as the head names it."""

    name: str
    level: int
    pages: int
    page_size: int  # counts
    rows: int  # pages included


@dataclass(frozen=True)
class Head:
    """The state of a log after a compaction; of two heads, the one with the greater name is in force."""

    name: str = ""  # a batch id; "" before the first compaction
    base: str = ""  # name of the head that it was built on
    runs: tuple[RunInfo, ...] = ()
    # Deltas in the runs whose rows were there when the head was written. Those that are gone cannot come back.
    covers: tuple[str, ...] = ()
    num_deltas: int = 0  # in the runs
    missing: int = 0  # deltas that were found to be missing when it was written
    nameless: int = 0  # terms in the runs that no text explains, as a repair found
    num_terms: int = 0  # terms that the vocabulary had, at least
    epoch: str = ""  # name of the last head that replaced the vocabulary: terms that were read before it are stale


class HeadRow:
    """Codec of heads."""

    @staticmethod
    def encode(head: Head) -> list[LogRow]:
        """Encode a head as rows, all of which a reader needs."""
        values = asdict(head)
        del values["name"]
        packed = pack(json_bytes(values))
        starts = range(0, len(packed), MAX_PACKED)
        return make_rows("head", head.name, [({}, packed[at : at + MAX_PACKED]) for at in starts])

    @staticmethod
    def decode(rows: Iterable[LogRow]) -> Head:
        """Decode all rows, in order."""
        rows = list(rows)
        values = check_dict(json.loads(unpack("".join(row.packed for row in rows), MAX_PLAIN)), "head")
        numbers = {name: get_count(values, name) for name in ("num_deltas", "missing", "nameless", "num_terms")}
        return Head(
            LogKey.parse(rows[0].key).name,
            get_text(values, "base"),
            tuple(map(_decode_run, values["runs"])),
            tuple(check_texts(values["covers"], "covers")),
            epoch=get_text(values, "epoch"),
            **numbers,
        )


def _decode_run(values: list[object]) -> RunInfo:
    [name], numbers = check_texts(values[:1], "run"), check_counts(values[1:], "run")
    level, pages, page_size, rows = numbers
    if not (0 <= pages <= rows <= MAX_ROWS and 0 < page_size <= MAX_ROWS):
        raise ValueError(f"a run has up to {MAX_ROWS:,} rows, and pages of at least one count")
    return RunInfo(name, level, pages, page_size, rows)


def read_head(table: LogTable) -> Head:
    """Read the head in force, an empty one before the first compaction."""
    heads = table.list_all("head").entries("head")
    return table.decode(HeadRow.decode, table.read(heads[max(heads)], packed=True)) if heads else Head()
