"""The k1 of each term, from sums that do not depend on the order of the chunks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.reference_k1 import adpt, bm25t, error, g, gains

from rag_bm25.statistics import k1_counts
from rag_bm25.statistics.k1_counts import K1Counts
from rag_bm25.weighting.term_k1 import COLUMNS, TermK1, log_logistic_k1

frequencies = st.lists(st.floats(0.05, 40), min_size=2, max_size=40)
entries = st.lists(st.tuples(st.integers(1, 5), st.floats(0.05, 40)), max_size=60)


def learned(c: dict[int, list[float]], num_chunks: int = 100) -> TermK1:
    counts = K1Counts()
    for id_, some in c.items():
        counts.add(np.full(len(some), id_, np.uint32), np.array(some))
    return counts.learn(num_chunks, 0.0)


def of_one(c: list[float], num_chunks: int) -> list[float]:
    table = learned({7: c}, num_chunks)
    return [float(table.get(column, np.array([7], np.uint32))[0]) for column in COLUMNS]


@example([1.0] * 22 + [2.0] * 7 + [3.0], 1000)  # whose gains would rise further where no chunk is left
@given(frequencies, st.integers(0, 1000))
def test_values_are_those_of_the_papers(c: list[float], more: int) -> None:
    found = gains(c, len(c) + more)
    of_bm25t, of_adpt, gain = of_one(c, len(c) + more)
    assert g(of_bm25t) == pytest.approx(g(bm25t(c)), rel=1e-6)
    assert gain == pytest.approx(found[0], rel=1e-6, abs=1e-6)
    best = adpt(found)
    assert np.isnan(of_adpt) == (best is None)
    if best is not None:
        assert error(of_adpt, found) == pytest.approx(error(best, found), rel=1e-5, abs=1e-9)


def test_gain_by_hand() -> None:
    # N 1000, df 100, of which 40 have it twice, 25 three times and 20 four times:
    # G(1) = log2(40.5 / 101) - log2(100.5 / 1001) = 1.998, G(2) = log2(25.5 / 41) + 3.316 = 2.631,
    # G(3) = log2(20.5 / 26) + 3.316 = 2.973, G(4) = log2(0.5 / 21) + 3.316 < G(3)
    _, k1, gain = of_one([1.0] * 60 + [2.0] * 15 + [3.0] * 5 + [4.0] * 20, 1000)
    assert gain == pytest.approx(1.9982, abs=1e-3)
    # shares of G(1): 1, 1.317, 1.488; (k1 + 1) r / (k1 + r) is 1.304 and 1.454 at k1 0.875, 1.317 and 1.479 at 0.93
    assert k1 == pytest.approx(0.94, abs=0.03)


def test_log_logistic_expectation_is_an_integral() -> None:
    # E ln(1 + X) of the distribution x / (x + k1) is the integral of k1 / (x + k1) / (1 + x), here by trapezoids
    x = np.geomspace(1e-9, 1e9, 200_000)
    for k1 in (0.3, 1.0, 2.5):
        y = k1 / (x + k1) / (1 + x)
        mean = float(((y[1:] + y[:-1]) / 2 * np.diff(x)).sum())
        assert float(log_logistic_k1(mean)) == pytest.approx(k1, rel=5e-3)


@given(entries, st.randoms(use_true_random=False), st.sampled_from([1, 2_000_000]))
def test_nothing_depends_on_order_and_batches(found: list[tuple[int, float]], random: object, merge_above: int) -> None:
    one, other = K1Counts(), K1Counts()
    one.add(np.array([id_ for id_, _ in found], np.uint32), np.array([c for _, c in found]))
    random.shuffle(found)  # type: ignore[attr-defined]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(k1_counts, "MERGE_ABOVE", merge_above)
        for id_, c in found:
            other.add(np.array([id_], np.uint32), np.array([c]))
    tables = [counts.learn(100, 0.0) for counts in (one, other)]
    assert tables[0].ids.tolist() == tables[1].ids.tolist()
    assert np.array_equal(tables[0].values, tables[1].values, equal_nan=True)


def test_terms_of_one_chunk_are_left_out() -> None:
    assert learned({1: [2.0], 2: [1.0, 1.0], 3: [5.0]}).ids.tolist() == [2]
    assert len(learned({}).ids) == 0


def test_more_terms_than_are_worked_on_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    terms = {id_: [1.0] * 20 + [2.0] * id_ + [3.0] * (id_ // 2 + 1) for id_ in range(5, 15)}
    together = learned(terms, 500)
    monkeypatch.setattr(k1_counts, "TERMS_AT_ONCE", 3)
    assert learned(terms, 500).values == pytest.approx(together.values, rel=1e-6, nan_ok=True)
