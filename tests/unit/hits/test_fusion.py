"""Scores in standard deviations: they rank as z-scores do, and none is above its bound."""

from __future__ import annotations

import math
from statistics import mean, pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_bm25 import RRF, Weighted
from rag_bm25.hits.fusion import DEFAULT_FUSION, Fusion

scores = st.lists(st.integers(-1000, 1000), min_size=2, max_size=30, unique=True)
weights = st.floats(0.01, 10)
FUSIONS = [RRF(), Weighted(), Weighted(0.3, 2, "min-max")]


def z_scores(values: list[int]) -> list[float]:
    return [(value - mean(values)) / pstdev(values) for value in values]


def arm(values: list[int]) -> dict[str, float]:
    return {str(place): float(value) for place, value in enumerate(values)}


@given(st.data(), scores, weights, weights)
def test_differences_are_those_of_z_scores(data: st.DataObject, sparse: list[int], one: float, other: float) -> None:
    dense = data.draw(st.permutations(sparse))
    fused = Weighted(one, other).fuse(arm(sparse), arm(dense))
    expected = [one * a + other * b for a, b in zip(z_scores(sparse), z_scores(dense), strict=True)]
    differences = [fused[str(place)] - fused["0"] for place in range(len(sparse))]
    assert differences == pytest.approx([value - expected[0] for value in expected], abs=1e-9)


@pytest.mark.parametrize("fusion", FUSIONS, ids=str)
@given(st.data())
def test_no_fused_score_is_below_0_or_above_the_bound(fusion: Fusion, data: st.DataObject) -> None:
    sparse = sorted(data.draw(st.lists(st.integers(0, 100), min_size=1, max_size=30)), reverse=True)
    dense = data.draw(st.lists(st.floats(0, 1), min_size=1, max_size=30))
    first = {str(place): float(value) for place, value in enumerate(sparse)}
    second = {str(place): value for place, value in enumerate(sorted(dense, reverse=True), 10)}
    fused = fusion.fuse(first, second)
    assert min(fused.values()) >= 0
    assert max(fused.values()) <= fusion.upper_bound(len(fused)) * (1 + 1e-9)


def test_the_bound_is_reached_by_two_extremes_among_equals() -> None:
    values = {"best": 1.0, "worst": 0.0, **{str(n): 0.5 for n in range(98)}}
    assert Weighted(0.4, 0.6).fuse(values, values)["best"] == pytest.approx(Weighted(0.4, 0.6).upper_bound(100))


def test_equal_scores_are_one_constant_whatever_they_are() -> None:
    for value in (0.0, 0.3, -7.0, 1e-12):
        equal = dict.fromkeys("abc", value)
        assert Weighted(1, 0).fuse(equal, {}) == dict.fromkeys("abc", 1.0)


def test_the_lowest_of_an_arm_is_as_one_that_the_arm_does_not_have() -> None:
    fused = Weighted().fuse({"a": 2.0, "b": 1.0}, {})
    assert (fused["b"], math.isclose(fused["a"], 2 * DEFAULT_FUSION.sparse)) == (0.0, True)  # type: ignore[union-attr]
