from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support import reference
from support.strategies import document_weightings, idf_names, lengths, query_weightings, tfs, weightings

from rag_bm25.errors import ParameterError
from rag_bm25.weighting.calibration import effective_parameters
from rag_bm25.weighting.document import DocumentWeighting
from rag_bm25.weighting.fields import FieldWeight
from rag_bm25.weighting.formulas import WEIGHTING_NAMES
from rag_bm25.weighting.idf import (
    POSITIVE_FLOOR,
    IdfInputs,
    IdfName,
    average_idf,
    equivalent_df,
    idf,
    idf_branches,
    relevance_weight,
)
from rag_bm25.weighting.query import QueryWeighting

TITLE = FieldWeight(chunk_size=30, weight=2.0)


@given(document_weightings, tfs, lengths)
@example(DocumentWeighting(1.0, k1=1.5, b=1, form="bm25+", delta=1.0), 1, 0)
def test_chunk_weight_is_the_printed_formula(weighting: DocumentWeighting, tf: int, length: int) -> None:
    norm = reference.length_norm(length, weighting.chunk_size, reference.share(weighting.form, weighting.b))
    expected = reference.chunk_weight(weighting.form, tf, norm, weighting.k1, weighting.delta)
    assert float(weighting.weights(tf, length)) == pytest.approx(expected, rel=1e-9)


@given(weightings(("bm25",)), tfs, lengths)
def test_default_weights_have_not_changed_by_a_bit(weighting: DocumentWeighting, tf: int, length: int) -> None:
    k1, b, relative = weighting.k1, weighting.b, np.float64(length) / weighting.chunk_size
    assert float(weighting.weights(tf, length)) == tf / (tf + k1 * (1 - b + b * relative))


@given(weightings(("bm25", "bm25l", "bm25+", "tfldp", "tf-normalised")), tfs, st.integers(1, 10_000))
def test_text_alone_is_one_field(weighting: DocumentWeighting, tf: int, length: int) -> None:
    combined = weighting.combined_weights(weighting.frequencies(tf, length))
    assert float(combined) == pytest.approx(float(weighting.weights(tf, length)), rel=1e-9)


def test_chunk_weights_are_broadcast() -> None:
    weights = DocumentWeighting(2, k1=1, b=1).weights([1, 1], [2, 4])
    assert weights.tolist() == pytest.approx([1 / 2, 1 / 3])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"form": "okapi"}, f"form must be one of {', '.join(WEIGHTING_NAMES)}, got 'okapi'"),
        ({"form": None}, f"form must be one of {', '.join(WEIGHTING_NAMES)}, got None"),
        ({"delta": 0.5}, "delta must be None for 'bm25', which has none, got 0.5"),
        ({"form": "bm25l", "delta": -0.1}, "delta must be a finite number >= 0 or None, got -0.1"),
        ({"form": "bm25+", "delta": math.inf}, "delta must be a finite number >= 0 or None, got inf"),
        ({"form": "bm25+", "delta": "1"}, "delta must be a finite number >= 0 or None, got '1'"),
        ({"form": "tfldp", "delta": 0.9}, "delta must be a finite number >= 1 for 'tfldp', got 0.9"),
        ({"form": "saturation", "k1": 0}, "k1 must be a finite number >= 0.001 for 'saturation', got 0"),
        (
            {"form": "saturation-smoothed", "k1": 0.5},
            "k1 must be a finite number >= 1 for 'saturation-smoothed', got 0.5",
        ),
        ({"fields": ["title"]}, "fields must be a mapping of names to FieldWeight, got ['title']"),
        ({"fields": {"title": 2}}, "fields must be a mapping of names to FieldWeight, got {'title': 2}"),
        (
            {"fields": {"": TITLE}},
            f"fields must be a mapping of names to FieldWeight, got {{'': {TITLE!r}}}",
        ),
        (
            {"form": "sqrt-normalised", "fields": {"title": TITLE}},
            "fields must be empty for 'sqrt-normalised', whose length norm cannot be applied field by field",
        ),
    ],
)
def test_parameter_that_does_not_suit_the_form_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError) as caught:
        DocumentWeighting(500, **options)
    assert str(caught.value) == message


@pytest.mark.parametrize("limits", [{"k1": 0}, {"b": 0}, {"b": 1}, {"chunk_size": 1e-3}])
def test_document_parameters_at_their_limits_are_taken(limits: dict[str, float]) -> None:
    assert DocumentWeighting(**{"chunk_size": 500, **limits}).weights(1, 500) > 0


@given(st.integers(1, 10**6), st.data(), idf_names, st.floats(0.001, 10), st.floats(-5, 5))
def test_idf_is_the_printed_formula(n: int, data: st.DataObject, name: IdfName, epsilon: float, average: float) -> None:
    df = data.draw(st.integers(1, n))
    expected = reference.idf(name, df, n, epsilon, average)
    got = float(idf(name, df, IdfInputs(n, average), epsilon))
    # The loops take 1 + x and lose digits where x is small; log1p does not.
    assert got == pytest.approx(expected, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize(("name", "df"), [("zero", 2), ("zero", 4), ("tfidf", 4), ("plain", 4)])
def test_other_idfs_have_a_tiny_floor(name: IdfName, df: int) -> None:
    assert idf(name, [df], IdfInputs(4, 1.0)).tolist() == [POSITIVE_FLOOR]


def test_idf_of_several_terms_takes_each_its_own_branch() -> None:
    weights = idf("epsilon", [1, 3], IdfInputs(4, 0.8))
    assert weights.tolist() == pytest.approx([math.log(3.5 / 1.5), 0.2])


def test_branches_name_their_formulas() -> None:
    formulas = [branch.formula for branch in idf_branches("epsilon", [1], IdfInputs(4, 1.0))]
    raw = "ln((N - df + 0.5) / (df + 0.5))"
    assert formulas == [
        raw,
        f"epsilon * avgIDF, since {raw} <= 0",
        f"epsilon * ln(1 + (N - df + 0.5) / (df + 0.5)), since {raw} <= 0 and avgIDF <= 0",
    ]


@given(st.lists(st.integers(1, 50), min_size=1, max_size=20))
def test_average_idf_is_the_mean_over_terms(dfs: list[int]) -> None:
    different = sorted(set(dfs))
    average = average_idf(different, [dfs.count(df) for df in different], 50)
    assert average == pytest.approx(reference.average_idf(dfs, 50), abs=1e-12)


@pytest.mark.parametrize("n", [4, 10, 1000, 123_456])
def test_average_idf_of_terms_that_cancel_is_exactly_zero(n: int) -> None:
    assert average_idf([1, 2, n - 2, n - 1], [3, 1, 1, 3], n) == 0.0


def test_average_idf_of_no_terms_is_zero() -> None:
    assert average_idf([], [], 0) == 0.0


def test_average_idf_survives_a_df_above_n() -> None:
    assert math.isfinite(average_idf([9], [1], 4))


def test_average_idf_survives_terms_without_chunks() -> None:
    assert average_idf([1], [1], 0) == 0.0


@given(st.floats(0.05, 20), st.floats(0, 10), st.floats(0, 1), tfs, st.floats(0.5, 1e4))
def test_wrong_chunk_size_is_exact_bm25_with_other_parameters(
    ratio: float, k1: float, b: float, tf: int, length: float
) -> None:
    average = 100.0
    effective = effective_parameters(k1, b, ratio)
    exact = DocumentWeighting(average, *effective).weights(tf, length)
    assert DocumentWeighting(ratio * average, k1, b).weights(tf, length) == pytest.approx(exact)


def test_effective_b_of_no_length_share_is_zero() -> None:
    assert effective_parameters(1.5, 0, 3) == (1.5, 0)


@given(query_weightings, st.integers(1, 9), st.integers(1, 50), st.floats(-5, 5))
def test_query_weight_is_repetition_times_idf(weighting: QueryWeighting, qtf: int, df: int, average: float) -> None:
    expected = reference.saturated(qtf, weighting.k3)
    expected *= reference.idf(weighting.idf, df, 50, weighting.epsilon, average)
    assert float(weighting.weights(qtf, df, IdfInputs(50, average))) == pytest.approx(expected)


# Relevance information


@pytest.mark.parametrize(("df", "weight"), [(40_000, 2.44), (300, 7.42)])
def test_relevance_weights_printed_in_search_engines_by_croft_metzler_and_strohman(df: int, weight: float) -> None:
    """Section 7.2.2: "president lincoln" in 500,000 documents, without relevance information."""
    assert float(relevance_weight(df, 500_000, r=0, num_relevant=0)) == pytest.approx(weight, abs=0.005)


def test_sum_of_relevance_weights_ranks_as_the_probabilities_of_the_model_do() -> None:
    """The derivation in the second seed: P(D|R) / P(D|NR) of five terms, up to a factor that no document changes."""
    n, num_relevant = 20, 4
    counts = [(6, 3), (9, 2), (3, 3), (12, 1), (5, 0)]  # df and r of each term
    p = [(r + 0.5) / (num_relevant + 1) for _, r in counts]
    s = [(df - r + 0.5) / (n - num_relevant + 1) for df, r in counts]
    weights = [float(relevance_weight(df, n, r, num_relevant)) for df, r in counts]
    constant = math.prod((1 - pi) / (1 - si) for pi, si in zip(p, s, strict=True))
    for document in ([1, 0, 1, 0, 1], [1, 1, 0, 0, 0], [0, 0, 0, 1, 1], [0] * 5):
        ratio = math.prod(
            pi / si if present else (1 - pi) / (1 - si) for present, pi, si in zip(document, p, s, strict=True)
        )
        score = sum(weight for weight, present in zip(weights, document, strict=True) if present)
        assert math.exp(score) * constant == pytest.approx(ratio, rel=1e-12)


def test_weights_of_adpt_are_the_gains_that_were_learned_or_their_estimate() -> None:
    weights = QueryWeighting(idf="adpt", k3=None).weights([1, 1], [3, 3], IdfInputs(100, 1.0), gain=[0.7, math.nan])
    assert weights == pytest.approx([0.7, math.log2(101 / (4 * 3.5))])


def test_equivalent_df_is_where_the_plain_idf_is_the_relevance_weight() -> None:
    weight = relevance_weight(4, 10, r=2, num_relevant=3)
    assert float(equivalent_df(weight, 10)) == pytest.approx(11 / (1 + 11 / 3) - 0.5)
    assert float(idf("zero", equivalent_df(weight, 10), IdfInputs(10, 1.0))) == pytest.approx(float(weight))
    assert float(idf("lucene", equivalent_df(weight, 10), IdfInputs(10, 1.0))) == pytest.approx(math.log(1 + 11 / 3))
