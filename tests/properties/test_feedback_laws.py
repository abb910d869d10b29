"""What relevance feedback may do to weights, whatever the counts are."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from support.indexes import CONFIG, filled
from support.strategies import corpora, idf_names, texts

from rag_bm25 import RSJ, BM25Index
from rag_bm25.weighting.idf import (
    POSITIVE_FLOOR,
    ROUNDING,
    IdfInputs,
    IdfName,
    equivalent_df,
    idf,
    relevance_weight,
    robertson_idf,
)

HUGE = 2**48
MEASURABLE = 20.0  # weights whose differences float64 keeps as a df; those of a billion chunks are below
num_chunks = st.integers(1, 1000) | st.integers(1, HUGE)
selections = st.fixed_dictionaries(
    {"fb_terms": st.integers(0, 9), "min_df": st.integers(1, 2), "max_df": st.sampled_from([0.3, 1.0])}
)
methods = st.builds(lambda s: RSJ([], **s), selections)


@st.composite
def counts(draw: st.DrawFn, more: int = 0) -> tuple[int, int, int, int]:
    """Draw N, df, R and r that may be, with room for r to grow by `more`."""
    n = draw(num_chunks) + 2 * more
    num_relevant = draw(st.integers(more, min(n - more, 10_000)))
    r = draw(st.integers(max(0, 1 - (n - num_relevant)), num_relevant - more))
    df = draw(st.integers(max(1, r + more), n - num_relevant + r))
    return n, df, num_relevant, r


@given(counts())
def test_relevance_weight_is_finite(drawn: tuple[int, int, int, int]) -> None:
    n, df, num_relevant, r = drawn
    assert np.isfinite(relevance_weight(df, n, r, num_relevant))


@given(counts(more=1))
def test_relevance_weight_rises_with_r(drawn: tuple[int, int, int, int]) -> None:
    n, df, num_relevant, r = drawn
    assert relevance_weight(df, n, r, num_relevant) < relevance_weight(df, n, r + 1, num_relevant)


@given(st.data(), num_chunks)
def test_without_relevant_chunks_it_is_the_plain_idf_bit_for_bit(data: st.DataObject, n: int) -> None:
    df = data.draw(st.integers(0, n))
    assert relevance_weight(df, n, r=0, num_relevant=0) == robertson_idf(df, n)


@given(counts(), idf_names, st.floats(-35, 35).filter(lambda mean: mean == 0 or abs(mean) > ROUNDING))
def test_every_idf_takes_relevance_information_and_stays_positive(
    drawn: tuple[int, int, int, int], name: IdfName, average: float
) -> None:
    n, df, num_relevant, r = drawn
    informed = equivalent_df(relevance_weight(df, n, r, num_relevant), n)
    assert -0.5 <= informed <= n + 0.5
    assert 0 < np.float32(idf(name, informed, IdfInputs(n, average))) < np.inf


@given(counts(more=1), st.sampled_from(["lucene", "zero", "plus", "tfidf", "plain"]))
@example(
    (38_585_955, 38_585_157, 1060, 263), "tfidf"
)  # below the floor: more than a million chunks, a term in nearly all
def test_every_idf_rises_where_more_relevant_chunks_have_the_term(
    drawn: tuple[int, int, int, int], name: IdfName
) -> None:
    n, df, num_relevant, r = drawn
    weights = [float(relevance_weight(df, n, count, num_relevant)) for count in (r, r + 1)]
    assume(max(map(abs, weights)) < MEASURABLE)
    fewer, more = (float(idf(name, equivalent_df(weight, n), IdfInputs(n, 1.0))) for weight in weights)
    is_below_the_floor = more < POSITIVE_FLOOR == fewer  # what is above zero is the formula, however little
    assert fewer < more or more == POSITIVE_FLOOR or is_below_the_floor


@given(counts(), st.sampled_from(["plus", "tfidf", "plain"]))
def test_beyond_the_weight_of_df_1_an_idf_has_what_the_weight_has(
    drawn: tuple[int, int, int, int], name: IdfName
) -> None:
    n, df, num_relevant, r = drawn
    weight, rarest = (float(relevance_weight(*each)) for each in ((df, n, r, num_relevant), (1, n, 0, 0)))
    if rarest < weight < MEASURABLE:
        informed = float(idf(name, equivalent_df(weight, n), IdfInputs(n, 1.0)))
        alone = {"plus": math.log(n + 1), "tfidf": math.log((n + 1) / 2), "plain": math.log(n)}[name]
        assert informed == pytest.approx(alone + weight - rarest, rel=1e-6, abs=1e-6)


@given(st.integers(1, 10**6), st.floats(-20, 20))
def test_equivalent_df_is_the_inverse_of_the_plain_idf(n: int, weight: float) -> None:
    assert robertson_idf(equivalent_df(weight, n), n) == pytest.approx(weight, abs=1e-6)


def with_idf(chunks: dict[str, str], name: IdfName) -> BM25Index:
    return filled(chunks, replace(CONFIG, idf=name))


@given(corpora(min_size=1), texts(), idf_names, methods, st.data())
def test_weights_are_finite_and_positive(
    chunks: dict[str, str], query: str, name: IdfName, method: Any, data: st.DataObject
) -> None:
    relevant = data.draw(st.lists(st.sampled_from(sorted(chunks)), unique=True))
    learning = replace(method, relevant=relevant)
    (vector,) = with_idf(chunks, name).encode_queries([query], feedback=learning)
    assert (vector.values > 0).all()
    assert np.isfinite(vector.values).all()
