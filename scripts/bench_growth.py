"""Measure whether adding a batch costs more when the index is larger, and what opening a large vocabulary costs.

    python scripts/bench_growth.py --sizes 10000 300000

Text is generated: Zipfian terms over a vocabulary that grows with the text. At each size some batches of 1,000 chunks
are added and the median is taken: the wall time of the calls of the engine, its client included, and the CPU time of
everything else, which is ours.
Then an index of a million terms is opened.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np

from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.milvus_store import MilvusStore
from rag_bm25.statistics import Contribution
from rag_bm25.statistics_log import StatisticsLog
from rag_bm25.terms import Vocabulary

BATCH = 1_000
TERMS_PER_CHUNK = 100
MILLION = 1_000_000


class TimedStore:
    """Hands every call on to a store, and adds up the time that they take, and what of it is CPU time of ours."""

    def __init__(self, store: MilvusStore) -> None:
        self._store = store
        self.seconds = self.cpu = 0.0

    def __getattr__(self, name: str) -> Any:
        """Return a method that is timed, or a plain attribute."""
        value = getattr(self._store, name)
        return functools.partial(self._timed, value) if callable(value) else value

    def _timed(self, method: Any, *args: Any, **kwargs: Any) -> Any:
        start, cpu = time.perf_counter(), time.process_time()
        try:
            return method(*args, **kwargs)
        finally:
            self.seconds += time.perf_counter() - start
            self.cpu += time.process_time() - cpu


def chunks(rng: np.random.Generator, count: int) -> list[str]:
    """Generate texts whose vocabulary goes on growing, as that of real ones does."""
    ranks = rng.zipf(1.3, (count, TERMS_PER_CHUNK)) % 10_000_000
    return [" ".join(f"t{rank}" for rank in row) for row in ranks]


def timed_adds(index: BM25Index, store: TimedStore, rng: np.random.Generator, repeats: int) -> tuple[float, float]:
    """Return the median seconds per batch that are ours, and those of the engine."""
    ours, engines = [], []
    for _ in range(repeats):
        texts = chunks(rng, BATCH)
        store.seconds = store.cpu = 0.0
        start = time.process_time()
        index.add(texts)
        ours.append(time.process_time() - start - store.cpu)
        engines.append(store.seconds)
    return statistics.median(ours), statistics.median(engines)


def measure_growth(folder: Path, sizes: list[int], repeats: int) -> None:
    rng = np.random.default_rng(1)
    store = TimedStore(MilvusStore(folder / "growth.db", "growth"))
    config = IndexConfig(chunk_size=TERMS_PER_CHUNK, length_unit="terms", analyzer=str.split)
    first = None
    print(f"{'chunks':>10}  {'terms':>10}  {'ours s/batch':>12}  {'engine s/batch':>14}  {'ours, ratio':>11}")
    with BM25Index.from_store(store, config=config) as index:  # type: ignore[arg-type]
        for size in sizes:
            while index.stats().num_chunks < size:
                index.add(chunks(rng, BATCH))
            ours, engine = timed_adds(index, store, rng, repeats)
            first = first or ours
            figures = index.stats()
            print(
                f"{figures.num_chunks:>10,}  {figures.num_terms:>10,}  {ours:>12.3f}  {engine:>14.3f}  "
                f"{ours / first:>11.2f}",
                flush=True,
            )


def measure_opening(folder: Path) -> None:
    store = MilvusStore(folder / "open.db", "open")
    with BM25Index.from_store(store, config=IndexConfig(chunk_size=100, analyzer=str.split)):
        vocabulary = Vocabulary()
        staged = vocabulary.stage()
        for number in range(MILLION):
            staged[f"term{number}"]
        vocabulary.add(staged.new)
        ids = np.sort(np.fromiter(staged.new.values(), np.uint32))
        df = np.random.default_rng(0).zipf(1.4, len(ids)).clip(1, MILLION).astype(np.int64)
        StatisticsLog(store).replace({"": Contribution(2 * MILLION, 10**9, ids, df)}, vocabulary)
        seconds = []
        for _ in range(5):
            log = StatisticsLog(store)
            start = time.perf_counter()
            log.refresh()
            seconds.append(time.perf_counter() - start)
        tracemalloc.start()
        log = StatisticsLog(store)
        log.refresh()
        bytes_a_term = tracemalloc.get_traced_memory()[0] / MILLION
        tracemalloc.stop()
    print(f"opening {MILLION:,} terms: {statistics.median(seconds):.2f} s, {bytes_a_term:.1f} bytes a term")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--repeats", type=int, default=9)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure_growth(Path(folder), arguments.sizes, arguments.repeats)
        measure_opening(Path(folder))


if __name__ == "__main__":
    main()
