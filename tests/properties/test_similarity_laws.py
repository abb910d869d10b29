"""The laws that Lucene holds its similarities to: whatever the parameters and statistics are."""

from __future__ import annotations

from typing import Literal

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from strategies import document_weightings, idf_names, lengths, query_weightings, tfs

from rag_bm25.similarity import (
    CorpusFigures,
    DocumentWeighting,
    IdfName,
    QueryWeighting,
    average_idf,
    idf,
    robertson_idf,
)

HUGE = 2**48
num_chunks = st.integers(1, 1000) | st.integers(1, HUGE)


@given(document_weightings, tfs, lengths)
def test_chunk_weight_is_above_0_and_at_most_1(weighting: DocumentWeighting, tf: int, length: int) -> None:
    weight = np.float32(weighting.weights(tf, length))
    assert 0 < weight <= 1


@given(document_weightings, tfs, tfs, lengths)
def test_chunk_weight_never_falls_with_tf(weighting: DocumentWeighting, tf: int, more: int, length: int) -> None:
    assert weighting.weights(tf, length) <= weighting.weights(tf + more, length)


@given(document_weightings, tfs, lengths, lengths)
def test_chunk_weight_never_rises_with_length(weighting: DocumentWeighting, tf: int, length: int, more: int) -> None:
    assert weighting.weights(tf, length) >= weighting.weights(tf, length + more)


def test_chunk_weight_rises_and_falls_strictly_where_it_can() -> None:
    weighting = DocumentWeighting(500)
    assert (np.diff(weighting.weights(np.arange(1, 100), 500)) > 0).all()
    assert (np.diff(weighting.weights(1, np.arange(100))) < 0).all()


averages = st.floats(-35, 0) | st.floats(1e-12, 35)  # what average_idf can give


@given(st.data(), num_chunks, idf_names, st.floats(1e-3, 10), averages)
def test_idf_is_finite_and_positive(data: st.DataObject, n: int, name: IdfName, epsilon: float, average: float) -> None:
    df = data.draw(st.integers(1, n))
    weight = np.float32(idf(name, df, CorpusFigures(n, average), epsilon))
    assert 0 < weight < np.inf


@given(st.data(), num_chunks, st.sampled_from(["lucene", "plus"]))
def test_rarer_terms_weigh_no_less(data: st.DataObject, n: int, name: Literal["lucene", "plus"]) -> None:
    rarer, commoner = sorted((data.draw(st.integers(1, n)), data.draw(st.integers(1, n))))
    corpus = CorpusFigures(n, 1.0)
    assert idf(name, rarer, corpus) >= idf(name, commoner, corpus)


@given(st.sampled_from(["lucene", "plus"]))
def test_rarer_terms_weigh_more(name: Literal["lucene", "plus"]) -> None:
    assert (np.diff(idf(name, np.arange(1, 1001), CorpusFigures(1000, 1.0))) < 0).all()


@given(idf_names, st.integers(2, HUGE))
def test_idf_grows_with_the_corpus(name: IdfName, n: int) -> None:
    """A term of one chunk is worth more, the more chunks there are."""
    small, large = CorpusFigures(n, 1.0), CorpusFigures(2 * n + 8, 1.0)
    assert idf(name, 1, small) < idf(name, 1, large)


@given(st.data(), num_chunks)
def test_plain_idf_is_antisymmetric_about_the_half(data: st.DataObject, n: int) -> None:
    df = data.draw(st.integers(0, n))
    assert np.isclose(robertson_idf(df, n), -robertson_idf(n - df, n), rtol=1e-9, atol=1e-9)


@given(st.integers(1, HUGE), st.lists(st.tuples(st.integers(1, HUGE), st.integers(1, 2**32)), max_size=9))
def test_average_idf_lies_between_the_extremes(n: int, terms: list[tuple[int, int]]) -> None:
    histogram = {min(df, n): count for df, count in terms}
    average = average_idf(histogram, n)
    each = robertson_idf(list(histogram), n) if histogram else np.zeros(1)
    assert each.min() - 1e-9 <= average <= each.max() + 1e-9


@given(query_weightings, st.integers(1, 10**6), st.integers(1, 10**6))
def test_repetition_never_lowers_a_query_weight(weighting: QueryWeighting, qtf: int, more: int) -> None:
    once, often, oftener = weighting.term_weights([1, qtf, qtf + more]).tolist()
    assert abs(once - 1) < 1e-12
    assert often <= oftener * (1 + 1e-12)
    assert weighting.k3 is None or oftener <= weighting.k3 + 1 + 1e-9


@given(document_weightings, query_weightings, tfs, lengths, st.integers(1, 100))
def test_score_of_a_term_is_finite_and_positive(
    document: DocumentWeighting, query: QueryWeighting, tf: int, length: int, df: int
) -> None:
    score = query.weights(1, df, CorpusFigures(100, 0.5)) * document.weights(tf, length)
    assert 0 < np.float32(score) < np.inf
