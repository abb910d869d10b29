"""Measure searches by another k1 and b, and by the true mean length: ``python scripts/reweighing.py FOLDER...``.

For each judged set in BEIR format, without fields and with the default ones: the rows that are read for ten hits, the
CPU time of this process as a multiple of that of a plain search, and nDCG@10.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from rag_bm25 import BM25Index, IndexConfig, QueryWeighting
from rag_bm25.evaluation import BeirDataset, load_beir, measure_queries
from rag_bm25.evaluation.running import add_corpus
from rag_bm25.store.milvus import MilvusStore
from rag_bm25.store.rows import Match, SearchArm

CHUNK_SIZE = 500  # the default of ingestion; with the mean in its place, the last weighting would change nothing
WEIGHTINGS = {
    "as stored": QueryWeighting(),
    "k1=.9, b=.4": QueryWeighting(k1=0.9, b=0.4),
    "b=0": QueryWeighting(b=0.0),
    "length=mean": QueryWeighting(length="mean"),
}
MOST = 100  # queries


class CountingStore(MilvusStore):
    """Note how many rows the last search has read."""

    rows_read = 0

    def search(self, queries: Any, arm: SearchArm) -> list[list[Match]]:
        found = super().search(queries, arm)
        self.rows_read += sum(map(len, found))
        return found


def measure(folder: Path) -> Iterator[str]:
    dataset = load_beir(folder)
    for fields in ({}, "default"):
        config = IndexConfig(CHUNK_SIZE, fields=fields)  # type: ignore[arg-type]
        with tempfile.TemporaryDirectory() as place:
            store = CountingStore(f"{place}/index.db", "measured")
            with BM25Index.from_store(store, config=config) as index:
                add_corpus(index, dataset.corpus, fields=dataset.fields(config.fields))
                for row in _measure(index, store, dataset):
                    yield f"{folder.resolve().name} | {'title' if fields else 'none'} | {row}"


def _measure(index: BM25Index, store: CountingStore, dataset: BeirDataset) -> Iterator[str]:
    """Search with each weighting in turn, query by query."""
    queries = dict(list(dataset.queries.items())[:MOST])
    seconds = dict.fromkeys(WEIGHTINGS, 0.0)
    rows: dict[str, list[int]] = {name: [] for name in WEIGHTINGS}
    runs: dict[str, dict[str, dict[str, float]]] = {name: {} for name in WEIGHTINGS}
    for id_, query in queries.items():
        for name, weighting in WEIGHTINGS.items():
            store.rows_read, start = 0, time.process_time()
            hits = index.search(query, 10, weighting=weighting)
            seconds[name] += time.process_time() - start
            rows[name].append(store.rows_read)
            runs[name][id_] = {hit.id: hit.score for hit in hits}
    qrels = {id_: dataset.qrels[id_] for id_ in queries}
    for name, run in runs.items():
        ndcg = measure_queries(qrels, run).values["ndcg@10"].mean()
        ratio = seconds[name] / seconds["as stored"]
        yield f"{name} | {median(rows[name]):.0f} | {max(rows[name]):,} | {ratio:.1f} | {ndcg:.4f}"


if __name__ == "__main__":
    print("set | fields | weighting | rows, median | maximum | CPU time, ratio | nDCG@10")
    for argument in sys.argv[1:]:
        for row in measure(Path(argument)):
            print(row, flush=True)
