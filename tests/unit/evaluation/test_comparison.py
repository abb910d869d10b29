from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_bm25 import InputError
from rag_bm25.evaluation import holm, paired_test
from rag_bm25.evaluation.comparison import PairedTest, randomisation_p_value

values = st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.9, 1.0])
differences = st.lists(st.sampled_from([-0.9, -0.5, -0.1, 0.0, 0.1, 0.2, 0.5]), max_size=10)
p_values = st.lists(st.floats(0, 1), max_size=8)


def enumerated(found: list[float]) -> float:
    """The test as Fisher describes it: every combination of signs."""
    observed = abs(sum(found))
    sums = [abs(sum(sign * one for sign, one in zip(signs, found, strict=True))) for signs in all_signs(len(found))]
    return sum(one >= observed - 1e-9 for one in sums) / len(sums)


def all_signs(length: int) -> list[tuple[int, ...]]:
    return list(product((-1, 1), repeat=length))


@given(differences)
def test_few_differences_are_tested_exactly(found: list[float]) -> None:
    assert randomisation_p_value(found) == pytest.approx(enumerated(found))


@given(differences.filter(any))
def test_random_signs_come_close_to_all_of_them(found: list[float]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rag_bm25.evaluation.comparison.EXACT_PAIRS", 0)
        random = randomisation_p_value(found, permutations=4_000)
    assert random == pytest.approx(enumerated(found), abs=0.05)  # six standard errors


def test_a_constant_gain_on_many_queries_has_the_least_p_value() -> None:
    assert randomisation_p_value([0.1] * 200, permutations=999) == 1 / 1000


def test_gains_that_balance_are_nothing() -> None:
    assert randomisation_p_value([0.2, -0.2] * 40) == 1.0


def test_the_seed_decides_the_signs() -> None:
    found = np.random.default_rng(3).normal(0.03, 0.2, 100)
    assert randomisation_p_value(found, seed=1) == randomisation_p_value(found, seed=1)
    assert randomisation_p_value(found, seed=1) != randomisation_p_value(found, seed=2)


def test_under_the_null_hypothesis_p_values_are_uniform() -> None:
    rng = np.random.default_rng(0)
    found = [randomisation_p_value(rng.normal(0, 1, 30), permutations=400, seed=one) for one in range(300)]
    assert np.mean(np.array(found) < 0.05) == pytest.approx(0.05, abs=0.04)
    assert np.mean(found) == pytest.approx(0.5, abs=0.06)


@given(st.lists(st.tuples(values, values), min_size=1, max_size=12))
def test_a_paired_test_counts_and_averages(pairs: list[tuple[float, float]]) -> None:
    first, second = zip(*pairs, strict=True)
    found = paired_test(first, second)
    assert found.difference == pytest.approx(np.mean(second) - np.mean(first), abs=1e-9)
    assert (found.better, found.worse) == (sum(a < b for a, b in pairs), sum(a > b for a, b in pairs))
    assert found.better + found.worse + found.equal == len(pairs)
    swapped = paired_test(second, first)
    assert (swapped.difference, swapped.p_value) == (-found.difference, found.p_value)


def test_equal_configurations_do_not_differ() -> None:
    assert paired_test([0.5, 1.0], [0.5, 1.0]) == PairedTest(0.0, 1.0, 0, 0, 2)


@pytest.mark.parametrize(("first", "second"), [([0.1], [0.1, 0.2]), ([], [])])
def test_values_must_be_paired(first: list[float], second: list[float]) -> None:
    with pytest.raises(InputError, match="two values for each query, got shapes"):
        paired_test(first, second)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_values_must_be_finite(value: float) -> None:
    with pytest.raises(InputError, match="finite"):
        paired_test([0.1, value], [0.1, value])


def test_holm_on_a_worked_example() -> None:
    # Holm 1979: the least of m p-values counts m times, the next one m - 1 times, and so on, never falling.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


@given(p_values)
def test_holm_is_between_no_adjustment_and_bonferroni(found: list[float]) -> None:
    adjusted = holm(found)
    for before, after in zip(found, adjusted, strict=True):
        assert before <= after <= min(1.0, before * len(found)) + 1e-12 or after == max(
            adjusted[other] for other in range(len(found)) if found[other] <= before
        )
    order = sorted(range(len(found)), key=found.__getitem__)
    assert [adjusted[place] for place in order] == sorted(adjusted)
