r"""Formulas of document weights: the weight of a term in a chunk, by its term frequency.

Each form is a function of `tf` and of the length norm ``1 - b + b * length / chunk_size``. With fields (BM25F), `tf` is
the sum of the weighted and already normalised frequencies, and the norm is 1. All inputs depend on the chunk alone.

References
----------
.. [1] S. E. Robertson, S. Walker, S. Jones, M. M. Hancock-Beaulieu, M. Gatford, "Okapi at TREC-3", TREC 1994.
.. [2] Y. Lv, C. Zhai, "When Documents Are Very Long, BM25 Fails!", SIGIR 2011.
.. [3] Y. Lv, C. Zhai, "Lower-Bounding Term Frequency Normalization", CIKM 2011.
.. [4] F. Rousseau, M. Vazirgiannis, "Composition of TF Normalizations: New Insights on Scoring Functions for Ad Hoc
   IR", SIGIR 2013.
.. [5] G. Salton, C. Buckley, "Term-Weighting Approaches in Automatic Text Retrieval", IPM 24 (5), 1988.
.. [6] "Okapi BM25", 2022: from TF-IDF to BM25 through other saturations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from rag_bm25.checks import check_choice, parameter_error
from rag_bm25.definitions import FINITE, Between, Number

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["WEIGHTING_NAMES"]

WeightingName = Literal[
    "bm25",
    "elasticsearch",
    "bm25l",
    "bm25+",
    "tfldp",
    "tf",
    "sqrt",
    "log",
    "tf-normalised",
    "sqrt-normalised",
    "saturation",
    "saturation-smoothed",
]
"""Name of a document weighting."""
WEIGHTING_NAMES: tuple[str, ...] = get_args(WeightingName)
"""Names of all document weightings."""

Numbers: TypeAlias = NDArray[np.float64]

SMALLEST_NORM = 1e-9
"""Minimum divisor: with b = 1 the norm of a chunk of length 0 is 0, and an analyzer may find terms even in that."""


@dataclass(frozen=True)
class TfFunction:
    """A document weighting as a function of the term frequency."""

    formula: str  # as ``explain`` shows it; it names exactly the parameters that it uses
    values: Callable[[Numbers, Numbers | float, Numbers | float, float], Numbers]  # all > 0 and finite, rising in tf
    bounds: Callable[[float, float], tuple[float, float]]  # (k1, delta) -> lower and upper bound of the weights
    delta: float | None = None  # default; None if the formula has none
    least_delta: float = 0.0
    least_k1: float = 0.0
    b: float | None = None  # fixed length normalisation; None if it is a parameter
    combines_fields: bool = True  # whether it depends only on tf / norm: fields are summed before saturation

    @property
    def parameters(self) -> frozenset[str]:
        """Which of k1, b and the length of a chunk the formula has."""
        of_norm = {"length"} if self.b is not None else {"length", "b"}
        return frozenset({"k1"} if "k1" in self.formula else ()) | (of_norm if "norm" in self.formula else frozenset())


def tf_function(name: str, k1: float, delta: float | None) -> tuple[TfFunction, float | None]:
    """Look up a form by its name, check its k1 and delta, and return it with the delta, its own if None is given."""
    form = WEIGHTINGS[check_choice("weighting", name, WEIGHTING_NAMES)]
    _check_least("k1", k1, form.least_k1, name)
    if delta is None:
        return form, form.delta
    if form.delta is None:
        raise parameter_error("delta", f"None for {name!r}, which has none", delta)
    _check_least("delta", delta, form.least_delta, name)
    return form, delta


def _check_least(name: str, value: float, least: float, form: str) -> None:
    number = Number(Between(least, FINITE.high), whole=False)
    if not number.holds(value):
        raise parameter_error(name, f"{number.rule} for {form!r}", value)


def _ratio(tf: Numbers, norm: Numbers | float) -> Numbers:
    """Return the normalised frequency, tf / norm."""
    return tf / np.maximum(norm, SMALLEST_NORM)


def _bm25(tf: Numbers, norm: Numbers | float, k1: Numbers | float, _delta: float) -> Numbers:
    return tf / (tf + k1 * norm)


def _elasticsearch(tf: Numbers, norm: Numbers | float, k1: Numbers | float, _delta: float) -> Numbers:
    return (k1 + 1) * tf / (tf + k1 * norm)


def _bm25l(tf: Numbers, norm: Numbers | float, k1: Numbers | float, delta: float) -> Numbers:
    shifted = _ratio(tf, norm) + delta
    return (k1 + 1) * shifted / (k1 + shifted)


def _bm25_plus(tf: Numbers, norm: Numbers | float, k1: Numbers | float, delta: float) -> Numbers:
    return _elasticsearch(tf, norm, k1, delta) + delta


def _tfldp(tf: Numbers, norm: Numbers | float, _k1: Numbers | float, delta: float) -> Numbers:
    return 1 + np.log1p(np.log(_ratio(tf, norm) + delta))


def _tf(tf: Numbers, norm: Numbers | float, _k1: Numbers | float, _delta: float) -> Numbers:
    return _ratio(tf, norm)


def _sqrt(tf: Numbers, norm: Numbers | float, _k1: Numbers | float, _delta: float) -> Numbers:
    return _ratio(np.sqrt(tf), norm)


def _log(tf: Numbers, _norm: Numbers | float, _k1: Numbers | float, _delta: float) -> Numbers:
    """1 + ln(tf); below tf = 1, which takes fields with weights below 1, its tangent tf, which stays positive."""
    return np.minimum(tf, 1) + np.log(np.maximum(tf, 1))


def _saturation(tf: Numbers, norm: Numbers | float, k1: Numbers | float, delta: float) -> Numbers:
    return k1 * _bm25(tf, norm, k1, delta)


def _smoothed(tf: Numbers, _norm: Numbers | float, k1: Numbers | float, _delta: float) -> Numbers:
    return (tf * k1 + 1) / (tf + k1)


def _up_to(limit: Callable[[float], float]) -> Callable[[float, float], tuple[float, float]]:
    """Return the bounds (0, limit), given the limit by k1."""
    return lambda k1, _delta: (0.0, limit(k1))


_UNBOUNDED = _up_to(lambda _k1: math.inf)
_UP_TO_K1_PLUS_1 = _up_to(lambda k1: k1 + 1)
_FULL = "(k1 + 1) * tf / (tf + k1 * norm)"

WEIGHTINGS: dict[str, TfFunction] = {
    # [1] without the factor (k1 + 1), as in Lucene 8: it does not change a ranking.
    "bm25": TfFunction("tf / (tf + k1 * norm)", _bm25, _up_to(lambda _k1: 1.0)),
    # [1] as printed, as in ATIRE and Elasticsearch, which kept the factor when Lucene 8 left it out.
    "elasticsearch": TfFunction(_FULL, _elasticsearch, _UP_TO_K1_PLUS_1),
    # [2] equation 4; absent terms get nothing.
    "bm25l": TfFunction(
        "(k1 + 1) * (tf / norm + delta) / (k1 + tf / norm + delta)", _bm25l, _UP_TO_K1_PLUS_1, delta=0.5
    ),
    # [3] equation 15; absent terms get nothing.
    "bm25+": TfFunction(
        f"{_FULL} + delta",
        _bm25_plus,
        lambda k1, delta: (delta, k1 + 1 + delta),
        delta=1.0,
    ),
    # [4]; a delta below 1 would make the inner logarithm negative, and the weight with it.
    "tfldp": TfFunction(
        "1 + ln(1 + ln(tf / norm + delta))", _tfldp, lambda _k1, _delta: (1.0, math.inf), delta=1.0, least_delta=1.0
    ),
    # [5] "n", and its square root and logarithm ("l").
    "tf": TfFunction("tf", _tf, _UNBOUNDED, b=0.0),
    "sqrt": TfFunction("sqrt(tf)", _sqrt, _UNBOUNDED, b=0.0),
    "log": TfFunction("min(tf, 1) + ln(max(tf, 1))", _log, _UNBOUNDED, b=0.0),
    # [6], TF-IDF: divided by the length, here by length / chunk_size, which ranks the same.
    "tf-normalised": TfFunction("tf / norm", _tf, _UNBOUNDED, b=1.0),
    "sqrt-normalised": TfFunction("sqrt(tf) / norm", _sqrt, _UNBOUNDED, b=1.0, combines_fields=False),
    # [6], steps from TF-IDF to BM25. The third saturation of [6], (k1 + 1) * tf / (tf + k1), is "elasticsearch" with
    # b = 0. The second one decreases in tf if k1 is below 1.
    "saturation": TfFunction("k1 * tf / (tf + k1)", _saturation, _up_to(lambda k1: k1), b=0.0, least_k1=0.001),
    "saturation-smoothed": TfFunction(
        "(k1 * tf + 1) / (tf + k1)", _smoothed, lambda k1, _delta: (1 / k1, k1), b=0.0, least_k1=1.0
    ),
}
"""The forms by name."""
