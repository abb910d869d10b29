"""Measures of rankings, query by query, computed by ir-measures."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from rag_bm25.checks import is_iterable, parameter_error, require_extra
from rag_bm25.errors import InputError, ParameterError, install_extra, short_repr
from rag_bm25.index.arguments import check_k

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from numpy.typing import NDArray

MeasureName: TypeAlias = Literal["ndcg@10", "recall@100", "mrr@10"]
"""Name of a measure."""
MEASURES: tuple[MeasureName, ...] = get_args(MeasureName)
"""All names."""
DEPTH = 100  # hits of each query that they need
TREC_DEPTH = 1_000
MAX_GRADE = 1_000
"""The evaluator has a counter for each grade, in memory that it does not check."""
OF_LIBRARY = {"ndcg": "nDCG", "recall": "R", "mrr": "RR"}  # their names in ir-measures, at any depth
SHARES = {*OF_LIBRARY, *map(str.lower, OF_LIBRARY.values()), "ap", "map", "p", "precision", "success"}


@dataclass(frozen=True)
class Measures:
    """Means over the judged queries, of which one without hits counts 0."""

    ndcg_10: float  # with linear gain
    recall_100: float  # share of the relevant documents among the first 100
    mrr_10: float  # mean of 1 / rank of the first relevant document, 0 where it is not among the first 10
    others: dict[str, float] = field(default_factory=dict)  # further measures, by their names in ir-measures

    def to_dict(self) -> dict[str, float]:
        """Return the measures by their usual names."""
        return {"ndcg@10": self.ndcg_10, "recall@100": self.recall_100, "mrr@10": self.mrr_10, **self.others}


@dataclass(frozen=True, eq=False)
class QueryMeasures:
    """Values of each query, for tests of significance."""

    queries: list[str]  # ids of the judged ones, in the order of the judgements
    values: dict[str, NDArray[np.float64]]  # of each measure, one for each query

    def mean(self) -> Measures:
        """Return the means over the queries."""
        means = {name: float(values.mean()) for name, values in self.values.items()}
        ndcg_10, recall_100, mrr_10 = map(means.pop, MEASURES)
        return Measures(ndcg_10, recall_100, mrr_10, means)


def measure(
    qrels: Mapping[str, Mapping[str, int]], run: Mapping[str, Iterable[str]], measures: Collection[str] = ()
) -> Measures:
    """Measure rankings against judgements.

    Parameters
    ----------
    qrels, run, measures
        As for :func:`measure_queries`.

    Returns
    -------
    Measures
        Means over the queries of `qrels`.
    """
    return measure_queries(qrels, run, measures).mean()


def measure_queries(
    qrels: Mapping[str, Mapping[str, int]], run: Mapping[str, Iterable[str]], measures: Collection[str] = ()
) -> QueryMeasures:
    """Measure rankings against judgements, query by query.

    Parameters
    ----------
    qrels : mapping of str to mapping of str to int
        Query id -> document id -> grade, for the queries that count. A grade below 0, as TREC gives to spam, is 0; the
        highest is 1,000.
    run : mapping of str to iterable of str
        Query id -> document ids, best first; a mapping of document id to score will do. A repeated one, such as the
        document of several chunks, counts once, in its first place.
    measures : collection of str
        Further measures, by their names in ir-measures, such as ``"AP@100"``.

    Returns
    -------
    QueryMeasures
        A query without a ranking has 0 everywhere.

    Raises
    ------
    ParameterError
        A measure is not known, or cannot be computed here, or not of these grades.
    InputError
        A grade is not a whole number up to 1,000, or no query is judged.

    Examples
    --------
    >>> measure_queries({"q1": {"d1": 1}, "q2": {"d2": 1}}, {"q1": ["d3", "d1"]}).values["mrr@10"]
    array([0.5, 0. ])
    """
    names = dict(zip((*MEASURES, *measures), _parse_measures(measures), strict=True))
    # The rank stands for the score: the evaluator orders equal scores in a way of its own. The place stands for the id
    # of a query: a program that computes some measures reads only numbers.
    judged = {str(place): grades for place, grades in enumerate(checked_grades(qrels))}
    ranked = {str(place): run.get(query, ()) for place, query in enumerate(qrels)}
    unique = {query: dict.fromkeys(hits) for query, hits in ranked.items()}
    scored = {query: {document: float(-rank) for rank, document in enumerate(hits)} for query, hits in unique.items()}
    values = {one: np.zeros(len(judged)) for one in names.values()}
    for one in _calculate(list(values), judged, scored):
        values[one.measure][int(one.query_id)] = one.value
    return QueryMeasures(list(qrels), {name: values[one] for name, one in names.items()})


def depth_of(measures: Collection[str]) -> int:
    """Return the number of hits that these measures and the usual ones need: 1,000, as in TREC, without a cutoff."""
    return max(int(one.params.get("cutoff", TREC_DEPTH)) for one in _parse_measures(measures))


def checked_grades(qrels: Mapping[str, Mapping[str, int]]) -> list[dict[str, int]]:
    """Return the grades of each query as the evaluator can count them."""
    if not qrels:
        raise InputError("no query is judged: nothing to measure")
    return [{document: _check_grade(grade) for document, grade in grades.items()} for grades in qrels.values()]


def _check_grade(grade: object) -> int:
    """Return a grade, or 0 for a negative one, as TREC has it of spam."""
    if not isinstance(grade, int) or grade > MAX_GRADE:
        raise InputError(f"a grade must be a whole number up to {MAX_GRADE:,}, got {short_repr(grade)}")
    return max(int(grade), 0)


def _calculate(
    measures: list[Any], judged: dict[str, dict[str, int]], scored: dict[str, dict[str, float]]
) -> list[Any]:
    """Return the values of measures; some know few grades: ERR up to 4."""
    try:
        return list(require_ir_measures().iter_calc(measures, judged, scored))
    except Exception as error:  # noqa: BLE001  # whatever their providers raise
        names = ", ".join(map(str, measures))
        raise ParameterError(f"one of {names} cannot be computed of these grades: {error}") from None


def _parse_measures(names: Collection[str]) -> list[Any]:
    """Return the usual measures, and further ones."""
    if isinstance(names, str) or not is_iterable(names):
        raise parameter_error("measures", "a list of names of ir-measures", names)
    return list(map(_parse_measure, (*MEASURES, *names)))


def _parse_measure(name: str) -> Any:
    """Return a measure of ir-measures; refuse one that cannot be computed."""
    library = require_ir_measures()
    try:
        parsed = _read_measure(library, _name_in_library(name))
        _require_parameters(parsed, name)
        check_k(parsed.params.get("cutoff", DEPTH), "its cutoff")  # one of 0 ends the process
        list(library.iter_calc([parsed], {"1": {"d": 1}}, {"1": {"d": 1.0}}))  # some need packages of their own
    except Exception as error:  # noqa: BLE001  # whatever their providers raise
        reason = " ".join(str(error).split())
        msg = f"a measure must be a name of ir-measures, such as nDCG@20, AP@100 or R@1000, got {name!r}: {reason}"
        raise ParameterError(msg) from None
    return parsed


def _read_measure(library: Any, name: str) -> Any:
    """Return a measure such as ``P(rel=2)@5``. Values are read here: the library does it by what Python 3.14 lacks."""
    node = ast.parse(name, mode="eval").body
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return _read_measure(library, ast.unparse(node.left)) @ ast.literal_eval(node.right)
    if isinstance(node, ast.Call) and not node.args:
        given: dict[Any, Any] = {one.arg: ast.literal_eval(one.value) for one in node.keywords}
        return library.parse_measure(ast.unparse(node.func))(**given)
    return library.parse_measure(name)


def _require_parameters(parsed: Any, name: str) -> None:
    """Refuse a measure without a parameter that it needs: the library shows an object of its own in its place."""
    supported, at = parsed.SUPPORTED_PARAMS, parsed.AT_PARAM
    missing = [needed for needed, one in supported.items() if one.required and needed not in parsed.params]
    if missing:
        example = f", as in {name}@{DEPTH if supported[at].dtype is int else 0.1}" if missing == [at] else ""
        raise ValueError(f"it needs the parameter {' and '.join(missing)}{example}")


def _name_in_library(name: str) -> str:
    """Return the name of a measure in ir-measures, also of a usual one at another depth, such as ``ndcg@5``."""
    kind, *depth = name.split("@")
    return "@".join((OF_LIBRARY.get(kind, kind), *depth))


def highest(name: str) -> float:
    """Return the highest value that a measure can have, as far as that is known."""
    return 1.0 if re.split("[@(]", name.lower())[0] in SHARES else inf


def require_ir_measures() -> Any:
    """Import ir-measures, or name the extra that installs it."""
    with require_extra(f"measuring needs ir-measures: {install_extra('eval')}"):
        import ir_measures
    return ir_measures
