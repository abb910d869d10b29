"""Small writes, against the engine's own insertion of one row, and what a refresh reads after many of them."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pymilvus

from bench.ingestion import encoded_rows
from bench.report import Row
from bench.timing import Spread, seconds_of
from bench.workbench import NAME, Opened
from rag_bm25.statistics.log.log import StatisticsLog
from rag_bm25.store.milvus import MilvusStore
from rag_bm25.store.milvus.schema import SPARSE, chunk_entity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bench.workbench import Bench
    from rag_bm25.store.rows import KeyRange

TOPIC = "small"
ADD_AT_MOST = 4.0
KEYS_AT_MOST = 10


def rows(bench: Bench) -> Iterator[Row]:
    for size in bench.sizes:
        path = bench.index(size)
        with Opened(path) as opened:
            yield from _writes(bench, size, opened)
        yield _refresh(path, size)


def _writes(bench: Bench, size: int, opened: Opened) -> Iterator[Row]:
    """Add, update and delete one chunk at a time, in turns with a raw insertion of one row."""
    index, number = opened.index, bench.effort.small_writes
    texts = bench.more_texts(3 * number, part=9)
    raw = [{**chunk_entity(row), SPARSE: row.vector.to_dict()} for row in encoded_rows(texts[:number])]
    for at, entity in enumerate(raw):
        entity.update(pk=f"{at:064d}", batch="raw")

    def insert(at: int) -> None:
        pymilvus.MilvusClient.insert(opened.client, NAME, [raw[at]])

    ours: dict[str, Callable[[int], object]] = {
        "add": lambda at: index.add([texts[number + at]], ids=[f"small-{at}"]),
        "update": lambda at: index.add([texts[2 * number + at]], ids=[f"small-{at}"]),
        "delete": lambda at: index.delete([f"small-{at}"]),
    }
    taken: dict[str, list[float]] = {}
    inserted = []
    for name, write in ours.items():
        for at in range(number):
            taken.setdefault(name, []).append(seconds_of(lambda at=at, write=write: write(at)).wall)
            if name == "add":
                inserted.append(seconds_of(lambda at=at: insert(at)).wall)
    opened.client.delete(NAME, ids=[entity["pk"] for entity in raw])
    for name, seconds in taken.items():
        yield Row(
            TOPIC,
            f"{name} of one chunk",
            size,
            value=Spread.of(seconds),
            against="one raw insertion",
            reference=Spread.of(inserted),
            comparison="ratio",
            at_most=ADD_AT_MOST if name == "add" else None,
        )


class _CountingStore(MilvusStore):
    """A store that counts the keys that it lists."""

    keys = 0

    def log_keys(self, ranges: Sequence[KeyRange] | None = None) -> list[str]:
        found = super().log_keys(ranges)
        self.keys += len(found)
        return found


def _refresh(path: object, size: int) -> Row:
    """Count the keys that a refresh lists where nothing is new."""
    store = _CountingStore(path, NAME)  # type: ignore[arg-type]
    log = StatisticsLog(store)
    log.refresh()
    counts = []
    for _ in itertools.repeat(None, 3):
        store.keys = 0
        log.refresh()
        counts.append(float(store.keys))
    store.close()
    value = Spread.of(counts, "keys")
    return Row(
        TOPIC,
        "keys that a refresh reads, where nothing is new",
        size,
        value=value,
        comparison="value",
        at_most=KEYS_AT_MOST,
    )
