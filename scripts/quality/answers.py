"""How well the confidence of hits tells answers, on judged sets: table rows in Markdown.

    python scripts/quality/answers.py SET...

Each set is a folder as for `python scripts/quality`. Every query is judged by a model that has not seen it, as it is
and with its answers taken out, on the whole corpus; the model is fitted on the whole corpus, and then on a random half
of it, before the corpus doubles.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from numpy.typing import NDArray

from quality.ours import CHOICES, DEFAULT, sized
from quality.sets import load
from rag_bm25 import BM25Index
from rag_bm25.evaluation import BeirDataset, calibrate_answers
from rag_bm25.evaluation.running import add_corpus, in_memory
from rag_bm25.weighting.confidence import FirstHits, calibration_error, cross_fit

DRAWS = 1_000
COLUMNS = (
    *("set", "queries", "answered", "AUC of the score", "of the confidence", "error", "interval", "perfect"),
    *("doubled: AUC", "error", "interval", "perfect"),
)


def main() -> None:
    print("|", " | ".join(COLUMNS), "|")
    print("|---" * len(COLUMNS), "|", sep="")
    for folder in map(Path, sys.argv[1:]):
        print("|", " | ".join([folder.resolve().name, *measure(load(folder))]), "|", flush=True)


def measure(dataset: BeirDataset) -> list[str]:
    """Measure a set, before and after its corpus has doubled."""
    config = sized(CHOICES[DEFAULT], dataset)
    ids = list(dataset.corpus)
    Random(0).shuffle(ids)
    with in_memory(config) as index:
        add(index, dataset, ids[: len(ids) // 2])
        answerable = with_answers_in(dataset, set(ids[: len(ids) // 2]))
        half = calibrate_answers(index, answerable).first_hits
        add(index, dataset, ids[len(ids) // 2 :])
        whole = calibrate_answers(index, dataset)
    first, weighting = whole.first_hits, whole.model.weighting
    numbers = {text: number for number, text in enumerate(dict.fromkeys(dataset.queries.values()))}
    named = np.array([numbers[text] for text in dict.fromkeys(answerable.queries.values())])
    confidences = cross_fit(first, first, weighting)
    before = cross_fit(replace(half, queries=named[half.queries]), first, weighting)
    return [
        f"{whole.queries:,}",
        f"{whole.answered:.2f}",
        *(f"{first.area_under_curve(values):.3f}" for values in (first.scores, confidences)),
        *errors(first, confidences),
        f"{first.area_under_curve(before):.3f}",
        *errors(first, before),
    ]


def with_answers_in(dataset: BeirDataset, ids: set[str]) -> BeirDataset:
    """Return the queries that some of the documents answer, with these judgements."""
    grades = {query: {id_: grade for id_, grade in some.items() if id_ in ids} for query, some in dataset.qrels.items()}
    qrels = {query: some for query, some in grades.items() if any(grade > 0 for grade in some.values())}
    return BeirDataset({}, {query: dataset.queries[query] for query in qrels}, qrels)


def add(index: BM25Index, dataset: BeirDataset, ids: list[str]) -> None:
    add_corpus(index, {id_: dataset.corpus[id_] for id_ in ids}, fields=dataset.fields(index.config.fields))


def errors(first: FirstHits, confidences: NDArray[np.float64]) -> list[str]:
    """Return the calibration error, its 95 % interval by a bootstrap over queries, and the mean of a perfect model."""
    rng = np.random.default_rng(0)
    _, numbers = np.unique(first.queries, return_inverse=True)
    rows_of = np.split(np.argsort(numbers, kind="stable"), np.cumsum(np.bincount(numbers))[:-1])
    resampled, perfect = [], []
    for _ in range(DRAWS):
        rows = np.concatenate([rows_of[at] for at in rng.integers(len(rows_of), size=len(rows_of))])
        resampled.append(calibration_error(confidences[rows], first.answers[rows]))
        perfect.append(calibration_error(confidences, rng.random(len(confidences)) < confidences))
    low, high = np.quantile(resampled, [0.025, 0.975])
    found = calibration_error(confidences, first.answers)
    return [f"{found:.3f}", f"{low:.3f} to {high:.3f}", f"{np.mean(perfect):.3f}"]


if __name__ == "__main__":
    main()
