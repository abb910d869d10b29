"""Choose the weights of hybrid search by judged questions."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from rag_bm25.checks import check_switch, parameter_error
from rag_bm25.evaluation.datasets import BeirDataset
from rag_bm25.evaluation.running import evaluate
from rag_bm25.events import report_progress
from rag_bm25.hits.fusion import DEFAULT_FUSION, Weighted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from rag_bm25.documents.chunks import HybridHit
    from rag_bm25.events import Progress
    from rag_bm25.hits.fusion import Fusion
    from rag_bm25.index.arguments import Namespaces
    from rag_bm25.index.index import BM25Index

MEASURE = "ndcg@10"
TRIED: tuple[Fusion, ...] = tuple(Weighted(weight, round(1 - weight, 1)) for weight in (1, 0, 0.1, 0.3, 0.5, 0.7, 0.9))
"""The lexical arm alone, the dense one alone, and weights between."""
MIN_QUESTIONS = 60
MIN_T = 1.5
Z_95 = 1.96


@dataclass(frozen=True)
class FusionCalibration:
    """Fusions that were tried on judged questions, and the one that was chosen.

    Parameters
    ----------
    fusion : Weighted or RRF
        The one that was chosen; with fewer than 60 questions, the one that the index has.
    queries : int
        Number of questions with a relevant document.
    measured : dict of Weighted or RRF to float
        Mean nDCG@10 of each fusion that was tried, the default first.
    difference, low, high : float
        Mean nDCG@10 of `fusion` minus that of the default, with its 95 % interval. It is a little too high, since the
        same questions chose. All are 0 with fewer than 60 questions.
    """

    fusion: Fusion
    queries: int
    measured: dict[Fusion, float]
    difference: float
    low: float
    high: float

    @property
    def is_enough(self) -> bool:
        """Whether there are 60 questions, so that something was chosen."""
        return self.queries >= MIN_QUESTIONS

    def to_dict(self) -> dict[str, Any]:
        """Return the values as JSON has them.

        Returns
        -------
        dict
            The fields by their names; `measured` is a list, since JSON has no fusions as keys.
        """
        measured = [{"fusion": asdict(fusion), "ndcg@10": value} for fusion, value in self.measured.items()]
        return {**asdict(replace(self, measured={})), "measured": measured}


def calibrate_fusion(
    index: BM25Index,
    dataset: BeirDataset,
    embed_query: Callable[[str], Sequence[float]],
    progress: Callable[[Progress], None] | None = None,
    *,
    dry_run: bool = False,
    namespace: Namespaces = "",
) -> FusionCalibration:
    """Choose how hybrid searches of an index weigh words and embeddings, and keep it with the index.

    The default stays unless another of the fusions that are tried is better on the questions, by more than 1.5 standard
    errors. With fewer than 60 questions nothing is changed.

    Parameters
    ----------
    index : BM25Index
        An index that has the corpus, with dense vectors.
    dataset : BeirDataset
        As for :func:`evaluate`; the documents are not needed.
    embed_query : callable of str to sequence of float
        The model of the dense vectors, as LangChain's ``embed_query``. It is called once for each question.
    progress : callable of Progress to None, optional
        Called with ``"fusions"``.
    dry_run : bool
        Measure, and store nothing.
    namespace
        As for :meth:`BM25Index.search`.

    Returns
    -------
    FusionCalibration
        What was measured and chosen.

    Raises
    ------
    InputError
        No question has a relevant document, or the index has no dense vectors.
    ReadOnlyError
        The index is open for reading, and this is no dry run.

    Examples
    --------
    ::

        found = calibrate_fusion(index, load_beir(Path("questions"), corpus=False), model.embed_query)
        print(found.fusion, found.difference, (found.low, found.high))
    """
    check_switch("dry_run", dry_run)
    if not callable(embed_query):
        raise parameter_error("embed_query", "a callable of a text to its embedding", embed_query)
    qrels = {query: grades for query, grades in dataset.qrels.items() if max(grades.values(), default=0) > 0}
    judged = BeirDataset({}, {query: dataset.queries[query] for query in qrels}, qrels)
    vectors = {text: embed_query(text) for text in {*judged.queries.values()}}
    values: dict[Fusion, NDArray[np.float64]] = {}
    for fusion in (DEFAULT_FUSION, *TRIED):
        search = partial(_search, vectors, fusion=fusion, namespace=namespace)
        values[fusion] = evaluate(index, judged, search=search).per_query.values[MEASURE]
        report_progress(progress, "fusions", len(values), 1 + len(TRIED))
    measured = {fusion: float(some.mean()) for fusion, some in values.items()}
    if len(qrels) < MIN_QUESTIONS:
        return FusionCalibration(index.config.fusion, len(qrels), measured, 0.0, 0.0, 0.0)
    chosen = best_fusion(values)
    if not dry_run:
        index.set_query_defaults(fusion=chosen)
    gain = values[chosen] - values[DEFAULT_FUSION]
    mean, margin = float(gain.mean()), Z_95 * standard_error(gain)
    return FusionCalibration(chosen, len(qrels), measured, mean, mean - margin, mean + margin)


def best_fusion(values: Mapping[Fusion, NDArray[np.float64]]) -> Fusion:
    """Return the fusion with the greatest mean of those that are better than the first one, or that one."""
    (default, usual), *others = values.items()
    better = {fusion: some.mean() for fusion, some in others if is_better(some - usual)}
    return max(better, key=lambda fusion: better[fusion], default=default)


def is_better(gain: NDArray[np.float64]) -> bool:
    """Return whether a mean gain is more than 1.5 standard errors."""
    return bool(gain.mean() > MIN_T * standard_error(gain))


def standard_error(gain: NDArray[np.float64]) -> float:
    """Return the standard error of the mean gain over questions."""
    return float(gain.std(ddof=1)) / math.sqrt(len(gain))


def _search(
    vectors: Mapping[str, Sequence[float]], index: BM25Index, texts: Sequence[str], k: int, **options: Any
) -> list[list[HybridHit]]:
    return [index.search_hybrid(text, vectors[text], k, **options) for text in texts]
