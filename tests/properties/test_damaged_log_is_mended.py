"""Property: damaged and foreign rows of the log give an error of ours or a sound answer, and a repair mends all."""

from __future__ import annotations

import base64
import functools
import json
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.hostile import damaged, json_values, mostly, mutated
from support.memory_store import Collections, MemoryStore
from support.reference import split

from rag_bm25 import BM25Index, IndexConfig, QueryWeighting
from rag_bm25.errors import ConfigMismatchError, FormatError, RagBM25Error
from rag_bm25.statistics.corpus import Contribution
from rag_bm25.statistics.log.log import StatisticsLog
from rag_bm25.statistics.log.settings import unfinished_copy
from rag_bm25.statistics.log.writes import Change, Intent, LeaseRow
from rag_bm25.store.rows import LogRow
from rag_bm25.weighting.confidence import AnswerModel, Signals

KINDS = ["config", "terms", "intent", "lease", "delta", "head", "run", "copy", "answers", "foreign", ""]
WORDS = [
    *("namespace", "chunks", "length", "time", "writer", "base", "covers", "displaced", "count", "format", "source"),
    *(
        "fingerprint",
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
KEY_PARTS = ["", "0", "1", "-1", "00", "9" * 30, "x", " 1", "１", *KINDS, *WORDS]


def _pack(plain: bytes) -> str:
    return base64.b64encode(zlib.compress(plain)).decode()


CONFIG = IndexConfig(chunk_size=4, length_unit="terms", analyzer=split)
BUILT_IN = IndexConfig(chunk_size=4)
BOMB = _pack(bytes(48 << 20))


@functools.cache
def _sound_rows(config: IndexConfig) -> tuple[Collections, tuple[LogRow, ...]]:
    """Return a small index with rows of every kind, and the rows of its log."""
    store = MemoryStore()
    with BM25Index.from_store(store, config=config) as index:
        for number in range(6):
            index.add([f"apple banana {number}", "cherry apple"], ids=[f"{number}", "c"], namespace="n" * (number % 2))
    store = store.reopen()
    log = StatisticsLog(store)
    log.refresh()
    log.compact(above=2)
    log.write_answers(AnswerModel(-1.5, Signals(1.0, 2.0, 3.0, 0.1), QueryWeighting()))
    changes = [Change("0" * 32, "a", ""), Change("1" * 32, "b", "a")]
    added = Contribution(1, 2, np.array([3, 5], np.uint32), np.ones(2, np.int64))
    intent = Intent(log.new_batch(), "somebody", 1.0, "n", changes, added)
    log.open_write(intent, {"fig": 12345})
    store.insert_log(LeaseRow(intent.batch, 2.0).encode(0))
    with BM25Index.from_store(store.reopen(), config=config) as index:
        index.add(["grape apple"], ids=["g"])
    return store.collections, tuple(store.collections.log.values())


@given(mostly(st.just(CONFIG), st.just(BUILT_IN), 16), st.booleans(), st.data())
def test_a_damaged_log_is_read_or_refused_and_mended(config: IndexConfig, is_given: bool, data: st.DataObject) -> None:
    sound, rows = _sound_rows(config)
    log = data.draw(_damaged_rows(rows))
    _use(MemoryStore(collections=_copy(sound, log)), config if is_given or config is CONFIG else None)
    store = MemoryStore(collections=_copy(sound, log))
    if any(key.startswith("copy:") for key in log) or not _fits(store.reopen(), config):
        return
    with BM25Index.from_store(store, config=config, repair=True) as index:
        assert index.verify().ok, "the statistics are wrong after a repair"
        kept = {row.id for row in sound.chunks.values() if row.namespace == ""}
        assert {chunk.id for chunk in index.chunks()} >= kept


@st.composite
def _damaged_rows(draw: Callable[[Any], Any], rows: tuple[LogRow, ...]) -> dict[str, LogRow]:
    """Draw the rows of a log by their keys, one to three of them missing, damaged or there twice."""
    log = {row.key: row for row in rows}
    for row in draw(st.lists(st.sampled_from(rows), min_size=1, max_size=3)):
        if draw(st.integers(1, 6)) < 6:
            log.pop(row.key, None)
        if draw(st.integers(1, 6)) < 6:
            other = draw(_damaged_row(row))
            log[other.key] = other
    return log


def _damaged_row(row: LogRow) -> st.SearchStrategy:
    return st.one_of(
        _keys(row.key).map(lambda key: replace(row, key=key)),
        st.sampled_from(KINDS).map(lambda kind: replace(row, kind=kind)),
        mutated(row.meta, WORDS).map(lambda meta: replace(row, meta=_as_json(meta))),
        _packed(row.packed).map(lambda packed: replace(row, packed=packed)),
    )


def _as_json(meta: Any) -> dict[str, Any]:
    return json.loads(json.dumps(meta, default=str)) if isinstance(meta, dict) else {"": 0}


def _keys(key: str) -> st.SearchStrategy:
    parts = key.split(":")
    other_part = st.tuples(st.integers(0, len(parts) - 1), st.sampled_from(KEY_PARTS)).map(
        lambda drawn: ":".join([*parts[: drawn[0]], drawn[1], *parts[drawn[0] + 1 :]])
    )
    return mostly(other_part, damaged(key.encode()).map(lambda data: data.decode(errors="replace")), 4)


def _packed(packed: str) -> st.SearchStrategy:
    """Draw what stands in place of packed data."""
    other = json_values(WORDS).map(lambda value: _pack(json.dumps(value, default=str).encode()))
    if not packed:
        return other
    plain = zlib.decompress(base64.b64decode(packed))
    changed = damaged(plain).map(_pack)
    with suppress(ValueError):
        changed = mutated(json.loads(plain), WORDS).map(lambda value: _pack(json.dumps(value, default=str).encode()))
    text = damaged(packed.encode()).map(lambda data: data.decode(errors="replace"))
    return st.one_of(text, st.sampled_from([BOMB, _pack(b"[" * 100_000)]), other, changed)


def _fits(store: MemoryStore, config: IndexConfig) -> bool:
    """Tell whether the stored config is unreadable or equal, and not of another format."""
    try:
        BM25Index.from_store(store, config=config, repair=True).close()
    except ConfigMismatchError:
        return False
    except FormatError as error:
        return "this version of rag_bm25 reads format" not in str(error)
    return True


def _copy(sound: Collections, rows: dict[str, LogRow]) -> Collections:
    return Collections(dict(sound.chunks), dict(rows), exist=True)


def _use(store: MemoryStore, config: IndexConfig | None) -> None:
    """Use an index as programs do; each call may raise an error of ours."""
    with suppress(RagBM25Error):
        unfinished_copy(store)
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
