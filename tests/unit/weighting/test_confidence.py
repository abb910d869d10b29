"""The confidence that a hit answers: signals, fit, and how well it is measured."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_bm25 import QueryWeighting
from rag_bm25.weighting import confidence
from rag_bm25.weighting.confidence import (
    RISING,
    AnswerModel,
    FirstHits,
    Signals,
    Usual,
    calibration_error,
    cross_fit,
    fit_answers,
    specificity_of,
)

WEIGHTING = QueryWeighting(idf="lucene")


def draw(model: AnswerModel, size: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return signals, and answers that have the probabilities of the model."""
    rng = np.random.default_rng(seed)
    signals = rng.random((size, 4)) * [1, 4, 1, 5] - [0, 4, 0, 0]
    return signals, rng.random(size) < model.confidences(signals)


def test_fit_finds_the_model_that_the_answers_were_drawn_from() -> None:
    model = AnswerModel(-2.0, Signals(4.0, 1.5, 3.0, -0.5), WEIGHTING)
    found = fit_answers(*draw(model, 40_000), WEIGHTING)
    assert (found.intercept, *found.slopes) == pytest.approx((model.intercept, *model.slopes), abs=0.3)
    assert found.weighting == WEIGHTING


def test_fit_is_the_minimum_of_the_loss_with_its_ridge() -> None:
    signals, answers = draw(AnswerModel(-1.0, Signals(3.0, 1.0, 2.0, 1.0), WEIGHTING), 200)
    found = fit_answers(signals, answers, WEIGHTING)

    def loss(weights: np.ndarray) -> float:
        z = weights[0] + signals @ weights[1:]
        return float(np.sum(np.log1p(np.exp(z)) - answers * z) + 0.5 * np.sum((weights[1:] * signals.std(axis=0)) ** 2))

    best = np.array([found.intercept, *found.slopes])
    for step in (*np.eye(5) * 0.01, *np.eye(5) * -0.01):
        assert loss(best + step) > loss(best)


@settings(deadline=None)
@given(seed=st.integers(0, 2**32 - 1), at=st.integers(0, 2), more=st.floats(0, 5), size=st.integers(2, 40))
def test_confidence_is_a_probability_that_never_falls_with_its_rising_signals(
    seed: int, at: int, more: float, size: int
) -> None:
    rng = np.random.default_rng(seed)
    signals, answers = rng.normal(size=(size, 4)), rng.random(size) < 0.5
    model = fit_answers(signals, answers, WEIGHTING)
    better = signals + np.eye(4)[at] * more
    assert ((model.confidences(signals) >= 0) & (model.confidences(signals) <= 1)).all()
    assert (model.confidences(better) >= model.confidences(signals)).all()
    assert RISING.tolist() == [True, True, True, False]


def test_fit_of_answers_that_the_signals_decide_ends() -> None:
    signals = np.repeat([[0.0, 0, 0, 0], [1.0, 1, 1, 1]], 50, axis=0)
    low, high = fit_answers(signals, np.repeat([False, True], 50), WEIGHTING).confidences(signals[[0, -1]])
    assert 0 < low < 0.2
    assert 0.8 < high < 1


def test_signals_that_differ_by_half_a_standard_deviation_are_unlike() -> None:
    signals = np.array([[0.2, -1.0, 1.0, 3.0], [0.6, -3.0, 1.0, 1.0]])  # deviations 0.2, 1, 0 and 1
    usual = Usual.of(signals)
    assert usual.mean == pytest.approx((0.4, -2.0, 1.0, 2.0))
    assert usual.shifts(signals) == {}
    assert usual.shifts(signals + np.array([0.09, 0.49, 0.02, -0.49])) == {}
    shifted = usual.shifts(signals + np.array([0.11, 0.4, -0.03, -0.6]))
    assert shifted == pytest.approx({"share": 0.55, "coverage": -0.6, "specificity": -0.6})  # 0.05 is the least


def test_signals() -> None:
    signals = Signals.of(share=0.6, rivals=0.25, coverage=0.7, specificity=1.5)
    assert signals == pytest.approx((0.6, math.log(0.35 + 0.02), 0.7, 1.5))
    assert Signals.of(0.2, 0.3, 0.7, 1.5).margin == pytest.approx(math.log(0.02))  # behind its rivals


def test_specificity_is_the_mean_rarity_times_the_effective_number_of_terms() -> None:
    weights, df = np.array([3.0, 1.0]), np.array([2, 50])
    rarity = 0.75 * math.log(101 / 2) + 0.25 * math.log(101 / 50)
    assert specificity_of(weights, df, 100) == pytest.approx(math.log(rarity / (0.75**2 + 0.25**2)))
    assert specificity_of(7 * weights, df, 100) == pytest.approx(specificity_of(weights, df, 100))
    assert math.isfinite(specificity_of(weights, np.array([200, 0]), 100))  # damaged statistics


def first_hits(queries: list[int], answers: list[bool], without: list[bool]) -> FirstHits:
    size = len(queries)
    signals = np.random.default_rng(1).random((size, 4))
    return FirstHits(np.array(queries), signals, np.arange(size) * 1.0, np.array(answers), np.array(without))


def test_area_under_the_curve_counts_ties_half() -> None:
    hits = first_hits([0, 0, 1, 1], [True, False, False, False], [False, True, False, True])
    assert hits.area_under_curve(np.array([3.0, 1.0, 0.0, 3.0])) == 0.75  # above 1, level with 3


def test_calibration_error_is_the_mean_distance_over_bins() -> None:
    confidences = np.repeat([0.2, 0.8], 50)
    answers = np.tile([True, False, False, False, False], 20)
    assert calibration_error(confidences, answers) == pytest.approx(0.3)
    assert calibration_error(np.full(100, 0.2), answers) == pytest.approx(0)


def test_no_row_is_judged_by_a_model_that_has_seen_its_query(monkeypatch: pytest.MonkeyPatch) -> None:
    queries = [number for number in range(20) for _ in range(2)]
    hits = first_hits(queries, [True, False] * 20, [False, True] * 20)
    fitted: list[set[int]] = []
    judged: list[set[int]] = []

    class Spy:
        def confidences(self, signals: np.ndarray) -> np.ndarray:
            judged.append({queries[int(np.flatnonzero((hits.signals == row).all(axis=1))[0])] for row in signals})
            return np.zeros(len(signals))

    def fit(signals: np.ndarray, answers: np.ndarray, weighting: object) -> Spy:
        rows = [int(np.flatnonzero((hits.signals == row).all(axis=1))[0]) for row in signals]
        fitted.append({queries[row] for row in rows})
        assert answers.tolist() == hits.answers[rows].tolist()
        assert weighting is WEIGHTING
        return Spy()

    monkeypatch.setattr(confidence, "fit_answers", fit)
    cross_fit(hits, hits, WEIGHTING)
    assert [seen & unseen for seen, unseen in zip(fitted, judged, strict=True)] == [set()] * 5
    assert set().union(*judged) == set(range(20))
