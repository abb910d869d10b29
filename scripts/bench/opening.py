"""A large vocabulary: time until the first answer, and memory of readers and writers for each term."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bench.report import Row
from bench.searching import raw_search
from bench.timing import Clock, Spread, in_turns, timed
from bench.workbench import NAME, Bench
from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.statistics.corpus import Contribution
from rag_bm25.statistics.log.log import StatisticsLog
from rag_bm25.statistics.log.repair import overwrite
from rag_bm25.store.milvus import MilvusStore
from rag_bm25.store.milvus.connection import Connection
from rag_bm25.store.milvus.opening import open_engine, release_engine
from rag_bm25.vectors.terms import Vocabulary

TOPIC = "opening"
CONFIG = IndexConfig(chunk_size=100, analyzer=str.split)
QUERY = "term1 term2"
LATER = 1.0  # seconds after the raw engine
BYTES = {"reader": 40, "writer": 200}


def rows(bench: Bench) -> Iterator[Row]:
    path = _with_terms(bench.folder / "terms.db", bench.effort.terms, bench.seed)
    yield _opening(bench, path)
    yield from _memory(path, bench.effort.terms)


def _with_terms(path: Path, terms: int, seed: int) -> Path:
    """Create an index of one chunk with the statistics of a large one."""
    with BM25Index.open(path, NAME, config=CONFIG) as index:
        index.add([QUERY])
    vocabulary = Vocabulary()
    staged = vocabulary.stage()
    ids = np.sort(np.array([staged[f"term{number}"] for number in range(terms)], np.uint32))
    vocabulary.add(staged.new)
    df = np.random.default_rng(seed).zipf(1.4, terms).clip(1, terms).astype(np.int64)
    store = MilvusStore(path, NAME)
    overwrite(store, {"": Contribution(2 * terms, 200 * terms, ids, df)}, vocabulary)
    store.close()
    return path


def _opening(bench: Bench, path: Path) -> Row:
    with BM25Index.open(path, NAME, config=CONFIG, read_only=True) as index:
        vector = index.encode_queries([QUERY])[0].to_dict()

    def ours() -> Clock:
        with timed() as clock:
            index = BM25Index.open(path, NAME, config=CONFIG, read_only=True)
            index.search(QUERY)
        index.close()
        return clock

    def raw() -> Clock:
        with timed() as clock:
            engine = open_engine(Connection(path), read_only=True)
            raw_search(engine.client, [vector])
        release_engine(engine)
        return clock

    taken = in_turns({"ours": ours, "raw": raw}, bench.effort.openings)
    return Row(
        TOPIC,
        f"opening and the first answer, {bench.effort.terms:,} terms",
        value=taken["ours"],
        against="the engine alone",
        reference=taken["raw"],
        comparison="difference",
        at_most=LATER,
    )


def _memory(path: Path, terms: int) -> Iterator[Row]:
    store = MilvusStore(path, NAME)
    for who, at_most in BYTES.items():
        tracemalloc.start()
        log = StatisticsLog(store)
        log.refresh()
        if who == "writer":
            log.vocabulary()
        size = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        value = Spread.of([size / terms], "bytes a term")
        measure = f"memory of a {who} of {terms:,} terms, {size / 2**20:,.0f} MiB"
        yield Row(TOPIC, measure, value=value, comparison="value", at_most=at_most)
    store.close()
