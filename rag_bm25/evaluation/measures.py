"""Measures of rankings, query by query, computed by ir-measures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from rag_bm25.checks import require_extra

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

MeasureName: TypeAlias = Literal["ndcg@10", "recall@100", "mrr@10"]
"""Name of a measure."""
MEASURES: tuple[MeasureName, ...] = get_args(MeasureName)
"""All names."""


@dataclass(frozen=True)
class Measures:
    """Means over the judged queries, of which one without hits counts 0.

    Parameters
    ----------
    ndcg_10, recall_100 : float
        nDCG@10 with linear gain, and the share of the relevant documents among the first 100.
    mrr_10 : float
        Mean of 1 / rank of the first relevant document, 0 where it is not among the first 10.
    """

    ndcg_10: float
    recall_100: float
    mrr_10: float

    def to_dict(self) -> dict[str, float]:
        """Return the measures by their usual names.

        Returns
        -------
        dict
            With the keys ``ndcg@10``, ``recall@100`` and ``mrr@10``.
        """
        return {"ndcg@10": self.ndcg_10, "recall@100": self.recall_100, "mrr@10": self.mrr_10}


@dataclass(frozen=True, eq=False)
class QueryMeasures:
    """Values of each query, for tests of significance.

    Parameters
    ----------
    queries : list of str
        Ids of the judged queries, in the order of the judgements.
    values : dict of str to ndarray of float64, shape (n_queries,)
        For each measure of :data:`MEASURES`, a value in [0, 1] for each query.
    """

    queries: list[str]
    values: dict[MeasureName, NDArray[np.float64]]

    def mean(self) -> Measures:
        """Return the means over the queries.

        Returns
        -------
        Measures
            Every query has the same weight.
        """
        return Measures(*(float(self.values[name].mean()) for name in MEASURES))


def measure(qrels: Mapping[str, Mapping[str, int]], run: Mapping[str, Iterable[str]]) -> Measures:
    """Measure rankings against judgements.

    Parameters
    ----------
    qrels, run
        As for :func:`measure_queries`.

    Returns
    -------
    Measures
        Means over the queries of `qrels`.
    """
    return measure_queries(qrels, run).mean()


def measure_queries(qrels: Mapping[str, Mapping[str, int]], run: Mapping[str, Iterable[str]]) -> QueryMeasures:
    """Measure rankings against judgements, query by query.

    Parameters
    ----------
    qrels : mapping of str to mapping of str to int
        Query id -> document id -> grade, for the queries that count.
    run : mapping of str to iterable of str
        Query id -> document ids, best first; a mapping of document id to score will do.

    Returns
    -------
    QueryMeasures
        A query without a ranking has 0 everywhere.

    Examples
    --------
    >>> measure_queries({"q1": {"d1": 1}, "q2": {"d2": 1}}, {"q1": ["d3", "d1"]}).values["mrr@10"]
    array([0.5, 0. ])
    """
    library = require_ir_measures()
    names: dict[Any, MeasureName] = {
        library.nDCG @ 10: "ndcg@10",
        library.R @ 100: "recall@100",
        library.RR @ 10: "mrr@10",
    }
    # The rank stands for the score: the evaluator orders equal scores in a way of its own.
    scored = {query: {document: float(-place) for place, document in enumerate(run.get(query, ()))} for query in qrels}
    places = {query: place for place, query in enumerate(qrels)}
    values = {name: np.zeros(len(places)) for name in MEASURES}
    for one in library.iter_calc(list(names), {query: dict(grades) for query, grades in qrels.items()}, scored):
        values[names[one.measure]][places[one.query_id]] = one.value
    return QueryMeasures(list(qrels), values)


def require_ir_measures() -> Any:
    """Import ir-measures, or name the extra that installs it."""
    with require_extra('measuring needs ir-measures: pip install "rag-bm25[eval]"'):
        import ir_measures
    return ir_measures
