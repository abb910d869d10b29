from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_bm25 import ParameterError
from rag_bm25.weighting.calibration import HEALTHY_RATIOS, PROPOSED_RATIO, calibrate, drift_warning
from rag_bm25.weighting.document import DocumentWeighting


@given(
    st.floats(1, 1e5), st.floats(0.1, 10), st.floats(0, 5), st.floats(0, 1), st.integers(1, 50), st.integers(0, 10_000)
)
def test_a_proposal_is_bm25_with_the_parameters_that_it_says(
    mean: float, ratio: float, k1: float, b: float, tf: int, length: int
) -> None:
    found = calibrate(mean, 1_000, k1=k1, b=b, ratio=ratio)
    assert found.chunk_size == max(1, round(mean * ratio))
    assert found.ratio * mean == pytest.approx(found.chunk_size)
    proposed = DocumentWeighting(found.chunk_size, k1, b).weights(tf, length)
    exact = DocumentWeighting(mean, found.effective_k1, found.effective_b).weights(tf, length)
    assert proposed == pytest.approx(exact, rel=1e-9)


def test_a_ratio_of_one_is_exact_bm25() -> None:
    found = calibrate(400.0, 10, length_unit="terms", k1=0.9, b=0.4, ratio=1.0)
    assert (found.chunk_size, found.ratio, found.effective_k1, found.effective_b) == (400, 1.0, 0.9, 0.4)
    assert (found.chunks, found.mean_length, found.length_unit) == (10, 400.0, "terms")


@pytest.mark.parametrize("arguments", [{"mean_length": 0.0}, {"ratio": 0}, {"ratio": float("nan")}])
def test_nothing_is_proposed_from_nothing(arguments: dict[str, float]) -> None:
    [name] = arguments
    with pytest.raises(ParameterError, match=f"{name} must be > 0"):
        calibrate(**{"mean_length": 100.0, "chunks": 5, **arguments})  # type: ignore[arg-type]


def test_what_is_proposed_is_healthy_and_may_drift_both_ways() -> None:
    least, greatest = HEALTHY_RATIOS
    assert least * 1.5 < PROPOSED_RATIO < greatest / 1.5


@pytest.mark.parametrize(
    ("ratio", "message"),
    [
        (0.79, "the chunk size is 0.79 times the mean length: long chunks rank too low"),
        (0.8, None),
        (1.0, None),
        (4.0, None),
        (4.1, "the chunk size is 4.1 times the mean length: the length of chunks hardly counts"),
    ],
)
def test_drift_is_reported_beyond_the_healthy_ratios(ratio: float, message: str | None) -> None:
    assert drift_warning(ratio, 100, k1=1.5, b=0.75) == message


@pytest.mark.parametrize(("chunks", "k1", "b"), [(99, 1.5, 0.75), (100, 0, 0.75), (100, 1.5, 0)])
def test_few_chunks_and_lengths_that_do_not_count_are_no_drift(chunks: int, k1: float, b: float) -> None:
    assert drift_warning(0.1, chunks, k1, b) is None
