"""Measure searches by another k1 and b, and by the true mean length: ``python scripts/reweighing.py FOLDER...``.

For each judged set in BEIR format, without and with titles as fields: the rows that are read for ten hits, the CPU time
beside that of a plain search, and nDCG@10.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from rag_bm25 import BM25Index, IndexConfig, QueryWeighting
from rag_bm25.evaluation import load_beir, measure_queries
from rag_bm25.evaluation.running import add_corpus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rag_bm25.evaluation import BeirDataset

CHUNK_SIZE = 500
WEIGHTINGS = {
    "as stored": QueryWeighting(),
    "k1=.9 b=.4": QueryWeighting(k1=0.9, b=0.4),
    "b=0": QueryWeighting(b=0.0),
    "length=mean": QueryWeighting(length="mean"),
}
MOST = 300  # queries


class RowCounter:
    """Count the rows that searches ask a store for."""

    def __init__(self, index: BM25Index) -> None:
        self.asked = 0
        self._search, index._store.search = index._store.search, self.search  # type: ignore[method-assign]

    def search(self, queries, arm):  # type: ignore[no-untyped-def]
        found = self._search(queries, arm)
        self.asked = max(self.asked, sum(map(len, found)))
        return found


def rows(folder: Path) -> Iterator[str]:
    dataset = load_beir(folder)
    for fields in ("none", "default"):
        config = IndexConfig(CHUNK_SIZE, fields="default" if fields == "default" else {})
        with (
            tempfile.TemporaryDirectory() as place,
            BM25Index.open(f"{place}/index.db", "reweighing", config=config) as index,
        ):
            add_corpus(index, dataset.corpus, fields=dataset.fields({"title": None} if config.fields else {}))
            yield from (f"{folder.name} | {fields} | {row}" for row in measured(index, dataset))


def measured(index: BM25Index, dataset: BeirDataset) -> Iterator[str]:
    """Search with each weighting in turn, query by query."""
    queries = dict(list(dataset.queries.items())[:MOST])
    seconds = dict.fromkeys(WEIGHTINGS, 0.0)
    asked: dict[str, list[int]] = {name: [] for name in WEIGHTINGS}
    runs: dict[str, dict[str, dict[str, float]]] = {name: {} for name in WEIGHTINGS}
    counter = RowCounter(index)
    for id_, query in queries.items():
        for name, weighting in WEIGHTINGS.items():
            counter.asked, start = 0, time.process_time()
            hits = index.search(query, 10, weighting=weighting)
            seconds[name] += time.process_time() - start
            asked[name].append(counter.asked)
            runs[name][id_] = {hit.id: hit.score for hit in hits}
    qrels = {id_: dataset.qrels[id_] for id_ in queries}
    for name, run in runs.items():
        ndcg = measure_queries(qrels, run).values["ndcg@10"].mean()
        ratio = seconds[name] / seconds["as stored"]
        yield f"{name} | {median(asked[name]):.0f} | {max(asked[name]):,} | {ratio:.1f} | {ndcg:.4f}"


if __name__ == "__main__":
    print("set | fields | weighting | rows, median | most | CPU time, ratio | nDCG@10")
    for argument in sys.argv[1:]:
        for row in rows(Path(argument)):
            print(row, flush=True)
