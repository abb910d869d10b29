"""The confidence that a hit answers its query: a logistic regression on signals that have no scale.

A score depends on the words of the query and on the corpus, so that no threshold fits two queries. The signals compare
it with the highest that the query could give, and with those of its other hits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rag_bm25.definitions import given_fields

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from rag_bm25.weighting.query import QueryWeighting

NUM_RANKED = 10  # best hits that the signals depend on
SMALLEST_MARGIN = 0.02  # smaller ones are about equal
RIDGE = 1.0  # on standardised signals
MAX_STEPS = 100  # of Newton's method; about eight are needed
FOLDS = 5
BINS = 10
UNLIKE = 0.5  # standard deviations between the means of a signal: half as many are chance, other sets have more
LEAST_DEVIATION = 0.05  # of a signal that hardly differs between questions


class Signals(NamedTuple):
    """The signals of a hit."""

    share: float  # of the maximum score
    margin: float  # ln of the distance from the mean of the second to the tenth score, as a share of the maximum
    coverage: float  # share of the query's weight that is of terms that the chunk has
    specificity: float  # see `specificity_of`

    @classmethod
    def of(cls, share: float, rivals: float, coverage: float, specificity: float) -> Signals:
        """Return the signals, given the score and the mean of its rivals as shares of the maximum score."""
        return cls(share, math.log(max(0.0, share - rivals) + SMALLEST_MARGIN), coverage, specificity)


class Usual(NamedTuple):
    """Means and standard deviations of the signals of first hits, to recognise other kinds of questions by."""

    mean: Signals
    deviation: Signals

    @classmethod
    def of(cls, signals: ArrayLike) -> Usual:
        """Return those of some signals, a row each."""
        x = np.asarray(signals, np.float64)
        return cls(Signals(*x.mean(axis=0).tolist()), Signals(*x.std(axis=0).tolist()))

    def shifts(self, signals: ArrayLike) -> dict[str, float]:
        """Return by how many standard deviations the means of others are higher, where that is much."""
        deviation = np.maximum(self.deviation, LEAST_DEVIATION)
        shifts = Signals(*((np.asarray(signals, np.float64).mean(axis=0) - self.mean) / deviation).tolist())
        return {name: shift for name, shift in shifts._asdict().items() if abs(shift) > UNLIKE}


RISING = np.array([True, True, True, False])
"""The signals with which the confidence never falls, whatever it is fitted to."""


def specificity_of(weights: NDArray[np.float64], df: NDArray[np.int64], num_chunks: int) -> float:
    r"""Return how much a query says, :math:`\ln(\sum p_t \ln\frac{N + 1}{df_t} / \sum p_t^2)`.

    The p are the shares of its terms in its weight: the mean rarity of a term, times the effective number of terms.
    """
    shares = weights / weights.sum()
    rarity = np.log((num_chunks + 1) / np.clip(df, 1, num_chunks))
    return float(np.log(shares @ rarity / (shares @ shares)))


@dataclass(frozen=True)
class AnswerModel:
    """The probability that the first hit answers, by its signals, for queries that are weighed in one way."""

    intercept: float
    slopes: Signals
    weighting: QueryWeighting
    usual: Usual | None = None  # of the questions that it was fitted to

    def confidences(self, signals: ArrayLike) -> NDArray[np.float64]:
        """Return the confidence, in 0..1, of each row of signals."""
        return _logistic(self.intercept + np.asarray(signals, np.float64) @ np.array(self.slopes))

    def to_dict(self) -> dict[str, Any]:
        """Return the model as plain JSON values."""
        usual = None if self.usual is None else {name: one._asdict() for name, one in self.usual._asdict().items()}
        weighting = given_fields(self.weighting)
        return {"intercept": self.intercept, **self.slopes._asdict(), "weighting": weighting, "usual": usual}


def fit_answers(signals: ArrayLike, answers: ArrayLike, weighting: QueryWeighting) -> AnswerModel:
    """Fit a model to the signals of first hits, a row each, and to whether these answer.

    A signal that would lower the confidence where it must not is left out.
    """
    x, y = np.asarray(signals, np.float64), np.asarray(answers, np.float64)
    used = np.ones(x.shape[1], bool)
    while True:
        intercept, slopes = _fit_logistic(x * used, y)
        if not (falling := RISING & (slopes < 0)).any():
            return AnswerModel(intercept, Signals(*slopes.tolist()), weighting)
        used &= ~falling


def _fit_logistic(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
    """Fit a logistic regression by Newton's method, with a ridge on the standardised columns."""
    mean, deviation = x.mean(axis=0), x.std(axis=0)
    deviation[deviation < 1e-12] = 1.0
    columns = np.column_stack([np.ones(len(x)), (x - mean) / deviation])
    ridge = np.diag([1e-6, *[RIDGE] * x.shape[1]])
    weights = np.zeros(columns.shape[1])
    for _ in range(MAX_STEPS):
        p = _logistic(columns @ weights)
        curvature = columns.T @ (columns * (p * (1 - p))[:, np.newaxis]) + ridge
        step = np.linalg.solve(curvature, columns.T @ (y - p) - ridge @ weights)
        weights += step
        if np.abs(step).max() < 1e-9:
            break
    slopes = weights[1:] / deviation
    return float(weights[0] - mean @ slopes), slopes


def _logistic(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return 1 / (1 + np.exp(-np.clip(values, -500, 500)))


# How good a model is on queries that it has not seen


@dataclass(frozen=True, eq=False)
class FirstHits:
    """The first hits of judged queries, and those with the answers taken out; arrays have a row for each."""

    queries: NDArray[np.int64]  # numbers of the queries
    signals: NDArray[np.float64]  # of shape (n, 4)
    scores: NDArray[np.float64]
    answers: NDArray[np.bool_]  # whether the hit answers
    without: NDArray[np.bool_]  # whether the answers were taken out

    def area_under_curve(self, values: NDArray[np.float64]) -> float:
        """Return the probability that a hit that answers has a higher value than one with the answers taken out."""
        lower, higher = np.sort(values[self.without]), values[self.answers]
        places = np.searchsorted(lower, higher, "left") + np.searchsorted(lower, higher, "right")
        return float(places.mean() / 2 / len(lower))


def cross_fit(seen: FirstHits, judged: FirstHits, weighting: QueryWeighting) -> NDArray[np.float64]:
    """Return the confidence of each judged row by a model that has not seen its query."""
    order = np.random.default_rng(0).permutation(1 + max(seen.queries.max(), judged.queries.max()))
    confidences = np.zeros(len(judged.queries))
    for fold in range(FOLDS):
        rows, others = order[judged.queries] % FOLDS == fold, order[seen.queries] % FOLDS != fold
        model = fit_answers(seen.signals[others], seen.answers[others], weighting)
        confidences[rows] = model.confidences(judged.signals[rows])
    return confidences


def calibration_error(confidences: NDArray[np.float64], answers: NDArray[np.bool_]) -> float:
    """Return the mean distance between the confidence and the share that answers, in ten bins of one size."""
    bins = np.array_split(np.argsort(confidences, kind="stable"), BINS)
    return float(sum(abs(confidences[some].sum() - answers[some].sum()) for some in bins) / len(confidences))
