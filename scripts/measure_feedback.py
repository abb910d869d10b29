"""Measure pseudo-feedback on judged sets: recall and early precision, query by query, and write the tables of a page.

::

    python scripts/measure_feedback.py lisa cacm npl scifact cosqa-dev stard-law qbqtc --kept feedback

Scores are those of an index in memory with the default configuration. Of more than 300 queries, 300 are
drawn. ``--kept`` keeps what was measured in a folder, query by query.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from quality.command import update_page
from quality.ours import sized
from quality.report import mean_of_sets, pooled_p, short
from quality.sets import load

from rag_bm25 import BIM, BM25PRF, RM3, Axiomatic, IndexConfig, Rocchio
from rag_bm25.evaluation import add_corpus, in_memory, measure_queries, paired_test

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from quality.report import Values

    from rag_bm25.query.feedback import Feedback

QUERIES = 300
DEPTH = 1_000
NONE = "none"
METHODS: dict[str, Feedback | None] = {
    NONE: None,
    **{
        f"`{shown}`": method
        for shown, method in (
            ("RM3()", RM3()),
            ("RM3(original_query_weight=0.5)", RM3(original_query_weight=0.5)),
            ("Rocchio()", Rocchio()),
            ("Rocchio(beta=0.25)", Rocchio(beta=0.25)),
            ("BIM()", BIM()),
            ("BM25PRF()", BM25PRF()),
            ("Axiomatic(beta=0.4)", Axiomatic(beta=0.4)),
            ("Axiomatic()", Axiomatic()),
            ("Axiomatic(beta=0.1)", Axiomatic(beta=0.1)),
        )
    },
}
MEASURES = {"ndcg@10": "nDCG@10", "mrr@10": "MRR@10", "recall@100": "Recall@100", "recall@1000": "Recall@1000"}


class MeasuredSet:
    """What was measured on a set: method -> measure -> value of each query."""

    def __init__(self, name: str, values: dict[str, dict[str, list[float]]]) -> None:
        self.name, self._values = name, values

    def of(self, method: str, measure: str) -> Values:
        return np.array(self._values[method][measure])

    def difference(self, method: str, measure: str) -> Values:
        return self.of(method, measure) - self.of(NONE, measure)


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure pseudo-feedback on judged sets.")
    parser.add_argument("sets", nargs="+", type=Path, metavar="FOLDER", help="judged sets")
    parser.add_argument("--kept", type=Path, metavar="FOLDER", help="keep there what was measured")
    parser.add_argument("--page", type=Path, metavar="FILE", help="put the tables into this page")
    given = parser.parse_args()
    measured = [measure_set(folder, given.kept) for folder in given.sets]
    text = f"`python scripts/measure_feedback.py {' '.join(folder.name for folder in given.sets)}`. {report(measured)}"
    print(text)
    if given.page:
        update_page(given.page, text, "scripts/measure_feedback.py")
    return 0


def measure_set(folder: Path, kept: Path | None) -> MeasuredSet:
    """Measure every method that is not kept."""
    file = kept / f"{folder.name}.json" if kept else None
    values: dict[str, dict[str, list[float]]] = json.loads(file.read_text()) if file and file.exists() else {}
    missing = [method for method in METHODS if method not in values]
    if missing:
        dataset = load(folder)
        names = sorted(dataset.queries)
        names = sorted(random.Random(0).sample(names, QUERIES)) if len(names) > QUERIES else names
        index = in_memory(sized(IndexConfig(1), dataset))
        add_corpus(index, dataset.corpus)
        qrels = {name: dataset.qrels[name] for name in names}
        for method in missing:
            answers = index.search_batch([dataset.queries[name] for name in names], DEPTH, feedback=METHODS[method])
            run = {name: {hit.id: hit.score for hit in hits} for name, hits in zip(names, answers, strict=True)}
            values[method] = {
                **{name: of.tolist() for name, of in measure_queries(qrels, run).values.items() if name in MEASURES},
                "recall@1000": [_recall(qrels[name], run[name]) for name in names],
            }
            print(f"{folder.name}: {method}", file=sys.stderr, flush=True)
            if file:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(json.dumps(values))
    return MeasuredSet(folder.name, values)


def _recall(judged: dict[str, int], found: dict[str, float]) -> float:
    relevant = {document for document, grade in judged.items() if grade > 0}
    return len(relevant & set(found)) / len(relevant) if relevant else 0.0


def report(measured: Sequence[MeasuredSet]) -> str:
    """Return a table for each measure."""
    stars = "A star: p < .05 against no feedback, by a paired randomisation test over the queries."
    last = "The last columns have the mean difference of the sets, its 95 % interval by the bootstrap, and p."
    tables = ("\n\n".join((shown, "\n".join(table(measured, name)))) for name, shown in MEASURES.items())
    return f"{stars} {last}\n\n" + "\n\n".join(tables)


def table(measured: Sequence[MeasuredSet], measure: str) -> Iterator[str]:
    """Yield a row for each method."""
    yield f"| | {' | '.join(one.name for one in measured)} | mean | difference | p |"
    yield "|---" * (4 + len(measured)) + "|"
    for method in METHODS:
        cells = [_cell(one, method, measure) for one in measured]
        mean = short(float(np.mean([one.of(method, measure).mean() for one in measured])))
        differences = [one.difference(method, measure) for one in measured]
        compared = "|  |  |" if method == NONE else f"| {mean_of_sets(differences)} | {pooled_p(differences)} |"
        yield f"| {method} | {' | '.join(cells)} | {mean} {compared}"


def _cell(one: MeasuredSet, method: str, measure: str) -> str:
    values = one.of(method, measure)
    differs = method != NONE and paired_test(one.of(NONE, measure), values).p_value < 0.05
    return short(values.mean()) + "*" * differs


if __name__ == "__main__":
    sys.exit(main())
