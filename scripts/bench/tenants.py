"""Many namespaces in one index: adding to a new one, and opening the index, against the engine alone."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from bench.corpus import term_texts
from bench.report import Row
from bench.timing import Spread, seconds_of
from bench.workbench import NAME
from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.store.milvus import MilvusStore
from rag_bm25.store.milvus.connection import Connection
from rag_bm25.store.milvus.opening import open_engine, release_engine

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bench.workbench import Bench

TOPIC = "tenants"
CHUNKS, TERMS = 4, 50  # of a namespace, and of a chunk
CONFIG = IndexConfig(chunk_size=TERMS, length_unit="terms", analyzer=str.split)
RATE_AT_LEAST = 0.8
SECONDS_AT_MOST = 1.0


def rows(bench: Bench) -> Iterator[Row]:
    path = bench.folder / "tenants.db"
    rng = np.random.default_rng(bench.seed)
    few, many = bench.effort.namespaces
    number = itertools.count()
    with BM25Index.open(path, NAME, config=CONFIG) as index:

        def add(namespaces: int) -> list[float]:
            """Add to new namespaces; return how many each second, over the last ones."""
            taken = []
            for _ in range(namespaces):
                texts = term_texts(rng, CHUNKS, TERMS)
                name = f"tenant-{next(number)}"
                taken.append(seconds_of(lambda name=name, texts=texts: index.add(texts, namespace=name)).wall)
            return [1 / seconds for seconds in taken[-few:]]

        at_few = Spread.of(add(few), "namespaces a second")
        at_many = Spread.of(add(many - few), "namespaces a second")
        yield Row(
            TOPIC,
            f"adding {CHUNKS} chunks to a new namespace, {many:,} there",
            many * CHUNKS,
            value=at_many,
            against=f"with {few:,} namespaces",
            reference=at_few,
            comparison="ratio",
            at_least=RATE_AT_LEAST,
        )
    yield _opening(bench, path, many)
    with BM25Index.open(path, NAME, config=CONFIG) as index:
        first = [_search(index, f"tenant-{at}") for at in range(0, many, max(1, many // 50))]
        again = [_search(index, f"tenant-{at}") for at in range(0, many, max(1, many // 50))]
    yield Row(
        TOPIC,
        f"first search of a namespace, {many:,} there",
        many * CHUNKS,
        value=Spread.of(first[1:]),
        against="the second search",
        reference=Spread.of(again[1:]),
        comparison="ratio",
    )


def _search(index: BM25Index, namespace: str) -> float:
    return seconds_of(lambda: index.search("t1 t2 t3", namespace=namespace)).wall


def _opening(bench: Bench, path: Path, many: int) -> Row:
    """Open the index on an engine that runs already, against the same call on its store alone."""
    engine = open_engine(Connection(path), read_only=False)  # keeps it running
    ours, stores = [], []
    for _ in range(bench.effort.openings):
        stores.append(seconds_of(lambda: MilvusStore(path, NAME).close()).wall)
        ours.append(seconds_of(lambda: BM25Index.open(path, NAME, config=CONFIG).close()).wall)
    release_engine(engine)
    return Row(
        TOPIC,
        f"opening an index of {many:,} namespaces, above the engine",
        many * CHUNKS,
        value=Spread.of(ours),
        against="opening the store",
        reference=Spread.of(stores),
        comparison="difference",
        at_most=SECONDS_AT_MOST,
    )
