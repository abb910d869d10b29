"""Damaged and foreign rows of the statistics log: an error of ours or a sound answer, and a repair that mends all."""

from __future__ import annotations

import base64
import functools
import json
import zlib
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from memory_store import Collections, MemoryStore

from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.errors import ConfigMismatchError, FormatError, RagBM25Error
from rag_bm25.log_rows import Change, Intent, lease_row
from rag_bm25.sparse import EMPTY, SparseVector
from rag_bm25.statistics import Contribution
from rag_bm25.statistics_log import StatisticsLog

if TYPE_CHECKING:
    from fuzz.drawing import Draw
    from rag_bm25.store import LogRow

__all__ = ["check", "damaged_rows", "sound_rows"]

KINDS = ["config", "terms", "intent", "lease", "delta", "snapshot", "copy", "k1", "foreign", ""]
WORDS = [
    *("namespace", "chunks", "length", "time", "writer", "base", "covers", "displaced", "count", "format", "source"),
    *(
        "fingerprint",
        "chunks_added",
        "length_removed",
        "document",
        "query",
        "analyzer",
        "settings",
        "probes",
        "k1",
        "b",
    ),
    *("fields", "dense_dim", "dense_metric", "weighting", "delta", "idf", "epsilon", "", "apple", "0" * 24, "a:b:c"),
    *(
        "length_unit",
        "chunk_size",
        "callable",
        "rag_bm25",
        "name",
        "user_words",
        "stop_words",
        "segmentation",
        "-",
        "\0",
    ),
]
BOMB = base64.b64encode(zlib.compress(bytes(48 << 20), 9)).decode()  # 65,000 characters, 48 MB


def split(text: str) -> list[str]:
    """Cut at white space: an analyzer that costs nothing."""
    return text.split()


CONFIG = IndexConfig(chunk_size=4, length_unit="terms", analyzer=split)
BUILT_IN = IndexConfig(chunk_size=4)


@functools.cache
def sound_rows(config: IndexConfig = CONFIG) -> tuple[Collections, tuple[LogRow, ...]]:
    """Return a small index with rows of every kind, and the rows of its log."""
    store = MemoryStore()
    with BM25Index.from_store(store, config=config) as index:
        for number in range(6):
            index.add([f"apple banana {number}", "cherry apple"], ids=[f"{number}", "c"], namespace="n" * (number % 2))
    store = store.reopen()
    log = StatisticsLog(store)
    log.refresh()
    log.compact(above=2)
    log.write_term_k1(SparseVector.from_dict({7: 1.2, 9: 1.5}))
    changes = [Change("0" * 32, "a", ""), Change("1" * 32, "b", "a")]
    intent = Intent(
        log.new_batch(), "somebody", 1.0, "n", changes, Contribution(1, 2, _ids(3, 5), np.ones(2, np.int64))
    )
    log.begin(intent, {"fig": 12345})
    store.insert_log([lease_row(intent.batch, 0, 2.0)])
    with BM25Index.from_store(store.reopen(), config=config) as index:
        index.add(["grape apple"], ids=["g"])
    return store.collections, tuple(store.collections.log.values())


def check(draw: Draw) -> None:
    """Damage some rows; read, search, write and repair what is there."""
    config = draw.choice([*[CONFIG] * 15, BUILT_IN])
    sound, rows = sound_rows(config)
    damaged = damaged_rows(draw, rows)
    given = config if draw.chance(2) or config is CONFIG else None
    _use(_copy(sound, damaged), given)
    store = MemoryStore(collections=_copy(sound, damaged))
    if any(key.startswith("copy:") for key in damaged) or not _fits(store.reopen(), config):
        return
    with BM25Index.from_store(store, config=config, repair=True) as index:
        assert index.verify().ok, "the statistics are wrong after a repair"
        assert {chunk.id for chunk in index.chunks()} >= {
            row.id for row in sound.chunks.values() if row.namespace == ""
        }


def damaged_rows(draw: Draw, rows: tuple[LogRow, ...]) -> dict[str, LogRow]:
    """Return the rows of a log, one to three of them damaged, by their keys."""
    kept = {row.key: row for row in rows}
    for _ in range(1 + draw.number(3)):
        row = draw.choice(rows)
        if not draw.chance(6):
            kept.pop(row.key, None)
        if not draw.chance(6):
            row = _damaged(draw, row)
            kept[row.key] = row
    return kept


def _damaged(draw: Draw, row: LogRow) -> LogRow:
    what = draw.number(6)
    if what == 0:
        return replace(row, key=_key(draw, row.key))
    if what == 1:
        return replace(row, kind=draw.choice(KINDS))
    if what == 2:
        meta = draw.mutated(row.meta, WORDS)
        return replace(row, meta=json.loads(json.dumps(meta, default=str)) if isinstance(meta, dict) else {"": 0})
    if what == 3:
        return replace(row, added=_vector(draw), removed=_vector(draw))
    return replace(row, packed=_packed(draw, row.packed))


def _key(draw: Draw, key: str) -> str:
    if draw.chance(4):
        return draw.damaged(key.encode()).decode(errors="replace")
    parts = key.split(":")
    parts[draw.number(len(parts))] = draw.choice(["", "0", "1", "-1", "00", "9" * 30, "x", " 1", "１", *KINDS, *WORDS])
    return ":".join(parts)


def _packed(draw: Draw, packed: str) -> str:
    how = draw.number(8)
    if how == 0:
        return draw.damaged(packed.encode()).decode(errors="replace")
    if how == 1:
        return BOMB
    if how == 2 or not packed:
        return _pack(json.dumps(draw.json(WORDS), default=str).encode())
    plain = zlib.decompress(base64.b64decode(packed))
    if how == 3:
        return _pack(b"[" * 100_000)
    with suppress(ValueError):
        return _pack(json.dumps(draw.mutated(json.loads(plain), WORDS), default=str).encode())
    return _pack(draw.damaged(plain))


def _pack(plain: bytes) -> str:
    return base64.b64encode(zlib.compress(plain)).decode()


def _vector(draw: Draw) -> SparseVector:
    ids = sorted({draw.number(2**32) % draw.choice([3, 2**32 - 1]) for _ in range(draw.number(4))})
    values = [draw.choice([1.0, 2.0, 0.5, -1.0, 1e30, float("nan"), float("inf"), 2.0**24]) for _ in ids]
    return SparseVector(_ids(*ids), np.array(values, np.float32)) if ids else EMPTY


def _ids(*ids: int) -> Any:
    return np.array(ids, np.uint32)


def _fits(store: MemoryStore, config: IndexConfig) -> bool:
    """Tell whether what is stored, if it can be read, is the config, and not one of a newer version."""
    try:
        BM25Index.from_store(store, config=config, repair=True).close()
    except ConfigMismatchError:
        return False
    except FormatError as error:
        return "upgrade rag_bm25" not in str(error)
    return True


def _copy(sound: Collections, rows: dict[str, LogRow]) -> Collections:
    return Collections(dict(sound.chunks), dict(rows), exist=True)


def _use(collections: Collections, config: IndexConfig | None) -> None:
    """Do with an index what programs do; an error of ours may stop any of it."""
    store = MemoryStore(collections=collections)
    with suppress(RagBM25Error):
        StatisticsLog(store).unfinished_copy()
    with suppress(RagBM25Error), BM25Index.from_store(store, config=config) as index:
        for call in (
            lambda: [index.explain("apple", hit.id) for hit in index.search("apple banana fig", 5)],
            index.stats,
            lambda: index.suggest("aple"),
            lambda: index.add(["apple melon"], ids=["m"]),
            lambda: index.delete(["c"], namespace="n"),
            index.verify,
        ):
            with suppress(RagBM25Error):
                call()
