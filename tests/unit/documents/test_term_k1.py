from __future__ import annotations

import math
from typing import get_args

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rag_bm25.documents.term_k1 import GRID, InformationGain, LogLogistic, TermK1Estimator, term_k1_estimator
from rag_bm25.weighting.document import DocumentWeighting
from rag_bm25.weighting.formulas import MAX_TERM_K1, WEIGHTINGS, WeightingName

frequencies = st.lists(st.floats(0.05, 9), min_size=1, max_size=40)


def estimated(estimator: TermK1Estimator, c: list[float], num_chunks: int = 100) -> float | None:
    estimator.add(np.full(len(c), 7, np.uint32), np.array(c))
    return estimator.table(num_chunks).to_dict().get(7)


def estimator_of(
    name: WeightingName, chunk_size: float = 100, mean_length: float = 100, b: float = 0.75
) -> TermK1Estimator | None:
    return term_k1_estimator(DocumentWeighting(chunk_size, b=b, form=name), mean_length)


# BM25-adpt, in loops


def gains(c: list[float], n: int) -> list[float]:
    """G_0, G_1, ... as long as they do not fall; the papers count c as r where it is at least r - 0.5."""
    df = [n, len(c)]
    while df[-1] and len(df) <= 32:
        df.append(sum(one >= len(df) - 0.5 for one in c))
    base = math.log2((df[1] + 0.5) / (n + 1))
    found = [0.0]
    for r in range(1, len(df) - 1):
        gain = math.log2((df[r + 1] + 0.5) / (df[r] + 1)) - base
        if r > 1 and gain < found[-1]:
            break
        found.append(gain)
    return found


def squared_error(k1: float, found: list[float]) -> float:
    return sum((found[r] / found[1] - (k1 + 1) * r / (k1 + r)) ** 2 for r in range(1, len(found)))


@example([1.0] * 22 + [2.0] * 7 + [3.0], 1000)  # whose gains would rise further where no chunk is left
@given(frequencies, st.integers(0, 1000))
def test_k1_of_adpt_is_the_nearest_of_all(c: list[float], more: int) -> None:
    n = len(c) + more
    found = gains(c, n)
    k1 = estimated(InformationGain(), c, n)
    if len(found) < 3 or found[1] <= 0:
        assert k1 is None
    else:
        assert k1 is not None
        best = min(squared_error(float(one), found) for one in GRID)
        assert squared_error(k1, found) == pytest.approx(best, rel=1e-3, abs=1e-6)


def test_gain_by_hand() -> None:
    # N 1000, df 100, of which 40 have it twice, 25 three times and 20 four times:
    # G_1 = log2(40.5 / 101) - log2(100.5 / 1001) = 1.998, G_2 = log2(25.5 / 41) + 3.316 = 2.631,
    # G_3 = log2(20.5 / 26) + 3.316 = 2.973, G_4 = log2(0.5 / 21) + 3.316 < G_3
    c = [1.0] * 60 + [2.0] * 15 + [3.0] * 5 + [4.0] * 20
    assert gains(c, 1000)[1:] == pytest.approx([1.9982, 2.6313, 2.9733], abs=1e-3)
    # shares of G_1: 1, 1.317, 1.488; (k1 + 1) r / (k1 + r) is 1.304 and 1.454 at k1 0.875, 1.317 and 1.479 at 0.93
    assert estimated(InformationGain(), c, 1000) == pytest.approx(0.94, abs=0.03)


def test_terms_that_repeat_more_informatively_saturate_later() -> None:
    bursty = [1.0] * 60 + [2.0] * 2 + [3.0] * 2 + [8.0] * 36
    even = [1.0] * 60 + [2.0] * 20 + [3.0] * 10 + [4.0] * 10
    low, high = (estimated(InformationGain(), c, 1000) for c in (even, bursty))
    assert low is not None
    assert high is not None
    assert low < high


def test_more_terms_than_are_worked_on_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_bm25.documents.term_k1.TERMS_AT_A_TIME", 3)
    together = InformationGain()
    terms = {id_: [1.0] * 20 + [2.0] * id_ + [3.0] * (id_ // 2 + 1) for id_ in range(5, 15)}
    for id_, c in terms.items():
        together.add(np.full(len(c), id_, np.uint32), np.array(c))
    alone = {id_: estimated(InformationGain(), c, 500) for id_, c in terms.items()}
    assert together.table(500).to_dict() == {id_: k1 for id_, k1 in alone.items() if k1 is not None}


# BM25T


def mean_log(k1: float) -> float:
    return 1.0 if k1 == 1 else k1 / (k1 - 1) * math.log(k1) if k1 else 0.0


@given(frequencies)
def test_k1_of_bm25t_has_the_mean_of_the_logarithms(c: list[float]) -> None:
    k1 = estimated(LogLogistic(), c)
    mean = sum(math.log(1 + one) for one in c) / len(c)
    assert k1 is not None
    assert mean_log(k1) == pytest.approx(min(mean, mean_log(MAX_TERM_K1)), abs=2e-4)


def test_log_logistic_expectation_is_an_integral() -> None:
    # E ln(1 + X) of the distribution x / (x + k1) is the integral of k1 / (x + k1) / (1 + x), here by trapezoids
    x = np.geomspace(1e-9, 1e9, 200_000)
    for k1 in (0.3, 1.0, 2.5):
        y = k1 / (x + k1) / (1 + x)
        assert mean_log(k1) == pytest.approx(float(((y[1:] + y[:-1]) / 2 * np.diff(x)).sum()), rel=1e-3)


# Both


@pytest.mark.parametrize("name", ["bm25-adpt", "bm25t"])
@pytest.mark.parametrize("chunk_size", [40.0, 140.0, 400.0])
@given(st.lists(st.tuples(st.integers(1, 9), st.integers(20, 300)), min_size=2, max_size=40))
def test_saturation_of_a_term_does_not_depend_on_the_chunk_size(
    name: WeightingName, chunk_size: float, found: list[tuple[int, int]]
) -> None:
    # With b = 1 the norms are in proportion to 1 / chunk_size, and so is the k1 that gives the same c / (c + k1).
    k1 = []
    for size in (chunk_size, 100.0):
        estimator = estimator_of(name, size, 100.0, b=1.0)
        assert estimator is not None
        c = [tf * size / length for tf, length in found]
        estimator.add(np.full(len(c), 7, np.uint32), np.array(c))
        k1.append(estimator.table(1_000).to_dict().get(7))
    scaled, plain = k1
    assert (scaled is None) == (plain is None)
    if scaled is not None and plain is not None:
        assert scaled == pytest.approx(min(plain * chunk_size / 100, MAX_TERM_K1), abs=3e-4)


def test_k1_at_a_chunk_size_above_the_mean_by_hand() -> None:
    # norm of the mean length: 1 - 0.75 + 0.75 * 100 / 200 = 0.625, by which the c of `test_gain_by_hand` are divided
    c = [1.0] * 60 + [2.0] * 15 + [3.0] * 5 + [4.0] * 20
    estimator = estimator_of("bm25-adpt", chunk_size=200, mean_length=100)
    assert estimator is not None
    assert estimated(estimator, [one / 0.625 for one in c], 1000) == pytest.approx(0.94 / 0.625, abs=0.05)


@pytest.mark.parametrize("name", ["bm25-adpt", "bm25t"])
@given(st.lists(st.tuples(st.integers(1, 5), st.floats(0.05, 40)), max_size=60), st.randoms(use_true_random=False))
def test_table_does_not_depend_on_the_order_or_the_batches(
    name: WeightingName, entries: list[tuple[int, float]], random: object
) -> None:
    one, other = estimator_of(name), estimator_of(name)
    assert one is not None
    assert other is not None
    one.add(np.array([id_ for id_, _ in entries], np.uint32), np.array([c for _, c in entries]))
    random.shuffle(entries)  # type: ignore[attr-defined]
    for id_, c in entries:
        other.add(np.array([id_], np.uint32), np.array([c]))
    table = one.table(100)
    assert table == other.table(100)
    assert all(0 <= k1 <= MAX_TERM_K1 for k1 in table.values.tolist())
    assert (np.diff(table.ids.astype(np.int64)) > 0).all()


@pytest.mark.parametrize("name", ["bm25-adpt", "bm25t"])
def test_merging_now_and_then_changes_nothing(name: WeightingName, monkeypatch: pytest.MonkeyPatch) -> None:
    def table() -> dict[int, float]:
        estimator = estimator_of(name)
        assert estimator is not None
        for c in (1.0, 2.0, 3.0, 1.0, 1.5, 2.5):
            estimator.add(np.array([3, 9], np.uint32), np.array([c, 2 * c]))
        return estimator.table(50).to_dict()

    expected = table()
    monkeypatch.setattr("rag_bm25.documents.term_k1.MERGE_ABOVE", 1)
    assert table() == expected


@pytest.mark.parametrize("name", ["bm25-adpt", "bm25t"])
def test_no_chunks_give_an_empty_table(name: WeightingName) -> None:
    estimator = estimator_of(name)
    assert estimator is not None
    assert len(estimator.table(0)) == 0


def test_weightings_with_a_k1_for_each_term_have_an_estimator() -> None:
    for name in get_args(WeightingName):
        assert (estimator_of(name) is not None) == WEIGHTINGS[name].k1_per_term
