"""Time to add a batch by size of the index, for our own code and for the engine.

Chunks are of 100 terms, so that analysis, which is the same at every size, hides nothing.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.corpus import term_texts
from bench.report import Row, ratio
from bench.timing import Spread
from bench.workbench import BATCH, NAME, Bench
from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.store.milvus import MilvusStore

TOPIC = "growth"
TERMS = 100
CONFIG = IndexConfig(chunk_size=TERMS, length_unit="terms", analyzer=str.split)
FLAT = 1.2  # times what it is at the first size


class TimedStore:
    """Proxy of a store that sums the wall time and our CPU time of its calls."""

    def __init__(self, store: MilvusStore) -> None:
        self._store = store
        self.seconds = self.cpu = 0.0

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._store, name)
        return functools.partial(self._timed, value) if callable(value) else value

    def _timed(self, method: Any, *args: Any, **kwargs: Any) -> Any:
        start, cpu = time.perf_counter(), time.process_time()
        try:
            return method(*args, **kwargs)
        finally:
            self.seconds += time.perf_counter() - start
            self.cpu += time.process_time() - cpu


def rows(bench: Bench) -> Iterator[Row]:
    store = TimedStore(MilvusStore(bench.folder / "growth.db", NAME))
    rng = np.random.default_rng(bench.seed)
    with BM25Index.from_store(store, config=CONFIG) as index:  # type: ignore[arg-type]
        smallest = min(*bench.sizes, bench.effort.smallest)
        first = _grown(bench, index, store, rng, smallest)
        for size in sorted(bench.sizes):
            measured = first if size == smallest else _grown(bench, index, store, rng, size)
            terms = index.stats().num_terms
            for who, value in measured.items():
                yield ratio(
                    TOPIC,
                    f"{who} in adding {bench.effort.added:,} chunks, {terms:,} terms known",
                    size,
                    value,
                    f"at {smallest:,} chunks",
                    first[who],
                    at_most=FLAT if who == OWN else None,
                )


OWN, ENGINE = "our own CPU time", "the engine's wall time"


def _grown(bench: Bench, index: BM25Index, store: TimedStore, rng: np.random.Generator, size: int) -> dict[str, Spread]:
    """Grow an index; return the seconds per batch of our code, and of the engine with its client."""
    for start in range(index.stats().num_chunks, size, BATCH):
        index.add(term_texts(rng, min(BATCH, size - start), TERMS), assume_new=True)
    own, engine = [], []
    for _ in range(bench.effort.adds):
        texts = term_texts(rng, bench.effort.added, TERMS)
        store.seconds = store.cpu = 0.0
        start = time.process_time()
        index.add(texts)
        own.append(time.process_time() - start - store.cpu)
        engine.append(store.seconds)
    return {OWN: Spread.of(own), ENGINE: Spread.of(engine)}
