"""The laws that Lucene holds its similarities to: whatever the parameters and statistics are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import document_weightings, idf_names, lengths, query_weightings, tfs, weightings

from rag_bm25.weighting.document import DocumentWeighting
from rag_bm25.weighting.formulas import WEIGHTING_NAMES, WEIGHTINGS, WeightingName
from rag_bm25.weighting.idf import IdfInputs, IdfName, average_idf, idf, robertson_idf
from rag_bm25.weighting.query import QueryWeighting

HUGE = 2**48
num_chunks = st.integers(1, 1000) | st.integers(1, HUGE)


# Of the document side. A law takes a weighting, two term frequencies and two lengths, the second ones not less.

Law = Callable[[DocumentWeighting, int, int, int, int], None]
ULPS = 1e-12  # what rounding may do


def is_positive_and_finite(weighting: DocumentWeighting, tf: int, _more: int, length: int, _longer: int) -> None:
    with np.errstate(all="ignore"):
        assert 0 < np.float32(weighting.weights(tf, length)) < np.inf


def is_within_its_bounds(weighting: DocumentWeighting, tf: int, _more: int, length: int, _longer: int) -> None:
    least, greatest = weighting.bounds
    assert least * (1 - ULPS) <= weighting.weights(tf, length) <= greatest * (1 + ULPS)


def never_falls_with_tf(weighting: DocumentWeighting, tf: int, more: int, length: int, _longer: int) -> None:
    assert weighting.weights(tf, length) <= weighting.weights(more, length) * (1 + ULPS)


def never_rises_with_length(weighting: DocumentWeighting, tf: int, _more: int, length: int, longer: int) -> None:
    assert weighting.weights(tf, length) * (1 + ULPS) >= weighting.weights(tf, longer)


def rises_with_tf(weighting: DocumentWeighting, *_numbers: int) -> None:
    assert (np.diff(weighting.weights(np.arange(1, 100), 500)) > 0).all()


def falls_with_length(weighting: DocumentWeighting, *_numbers: int) -> None:
    assert (np.diff(weighting.weights(1, np.arange(1, 100))) < 0).all()


LAWS: list[Law] = [is_positive_and_finite, is_within_its_bounds, never_falls_with_tf, never_rises_with_length]


@pytest.mark.parametrize("law", LAWS)
@given(document_weightings, tfs, tfs, lengths, lengths)
def test_law_of_chunk_weights_holds(
    law: Law, weighting: DocumentWeighting, tf: int, more: int, length: int, longer: int
) -> None:
    law(weighting, tf, tf + more, length, length + longer)


@pytest.mark.parametrize("form", WEIGHTING_NAMES)
def test_chunk_weight_rises_and_falls_strictly_where_it_can(form: WeightingName) -> None:
    weighting = DocumentWeighting(500, form=form)
    rises_with_tf(weighting)
    if WEIGHTINGS[form].b == 0:
        assert weighting.weights(1, 1) == weighting.weights(1, 10_000)
    else:
        falls_with_length(weighting)


@pytest.mark.parametrize("form", WEIGHTING_NAMES)
def test_bounds_are_not_wider_than_needed(form: WeightingName) -> None:
    """An endless chunk of one term comes near the upper bound, a term of an endless chunk near the lower one."""
    weighting = DocumentWeighting(500, form=form, k1=2.0)
    least, greatest = weighting.bounds
    most = float(weighting.weights(1e12, 500))
    assert most > 1e5 or most == pytest.approx(greatest) or form in {"log", "tfldp"}
    if WEIGHTINGS[form].b != 0:
        assert float(weighting.weights(1, 1e15)) == pytest.approx(least, abs=1e-6) or form == "bm25l"


BROKEN: list[tuple[Law, Callable[..., object]]] = [
    (is_positive_and_finite, lambda tf, norm, k1, delta: tf / (tf + k1 * norm) - 0.5),
    (is_positive_and_finite, lambda tf, norm, k1, delta: np.log(tf / norm)),
    (is_positive_and_finite, lambda tf, norm, k1, delta: tf / (tf - 1)),
    (is_within_its_bounds, lambda tf, norm, k1, delta: (k1 + 1) * tf / (tf + k1 * norm)),
    (is_within_its_bounds, lambda tf, norm, k1, delta: tf / (tf + k1) / norm),  # seed 000: why not divide by the norm
    (never_falls_with_tf, lambda tf, norm, k1, delta: norm / (tf + k1 * norm)),
    (rises_with_tf, lambda tf, norm, k1, delta: np.minimum(tf, 20) / (20 + k1 * norm)),
    (never_rises_with_length, lambda tf, norm, k1, delta: tf * norm / (tf + k1 * norm)),  # and why not in both
    (falls_with_length, lambda tf, norm, k1, delta: tf / (tf + k1 + 0 * norm)),
]


@pytest.mark.parametrize(("law", "formula"), BROKEN)
def test_law_fails_on_a_broken_formula(
    law: Law, formula: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    def check() -> None:
        for numbers in [(1, 3, 100, 900), (30, 90, 5, 5000), (1, 2, 5000, 9000), (2, 2, 0, 9)]:
            law(DocumentWeighting(500), *numbers)

    check()
    monkeypatch.setitem(WEIGHTINGS, "bm25", replace(WEIGHTINGS["bm25"], values=formula))
    with pytest.raises(AssertionError):
        check()


@given(weightings(max_fields=3), tfs, tfs, lengths, lengths)
def test_laws_hold_field_by_field(weighting: DocumentWeighting, tf: int, more: int, length: int, longer: int) -> None:
    least, greatest = weighting.bounds
    for name in weighting.fields:
        once = weighting.frequencies(1, 1)  # in the text; what the field adds to it:
        few, many, thin = (
            weighting.combined_weights(once + weighting.frequencies(*numbers, name))
            for numbers in [(tf, length), (tf + more, length), (tf, length + longer)]
        )
        assert 0 < np.float32(thin) < np.inf
        assert thin <= few * (1 + ULPS) <= many * (1 + ULPS) ** 2
        assert least * (1 - ULPS) <= thin
        assert many <= greatest * (1 + ULPS)


@given(weightings(("bm25", "bm25l", "bm25+", "tfldp", "tf", "log"), max_fields=1), tfs)
def test_heavier_field_never_weighs_less(weighting: DocumentWeighting, tf: int) -> None:
    for name, field in weighting.fields.items():
        heavier = replace(weighting, fields={name: replace(field, weight=min(1000.0, field.weight * 2))})
        light, heavy = (one.combined_weights(one.frequencies(tf, 10, name)) for one in (weighting, heavier))
        assert light <= heavy * (1 + ULPS)


averages = st.floats(-35, 0) | st.floats(1e-12, 35)  # what average_idf can give


@given(st.data(), num_chunks, idf_names, st.floats(1e-3, 10), averages)
def test_idf_is_finite_and_positive(data: st.DataObject, n: int, name: IdfName, epsilon: float, average: float) -> None:
    df = data.draw(st.integers(1, n))
    weight = np.float32(idf(name, df, IdfInputs(n, average), epsilon))
    assert 0 < weight < np.inf


@given(st.data(), num_chunks, st.sampled_from(["lucene", "plus"]))
def test_rarer_terms_weigh_no_less(data: st.DataObject, n: int, name: Literal["lucene", "plus"]) -> None:
    rarer, commoner = sorted((data.draw(st.integers(1, n)), data.draw(st.integers(1, n))))
    corpus = IdfInputs(n, 1.0)
    assert idf(name, rarer, corpus) >= idf(name, commoner, corpus)


@given(st.sampled_from(["lucene", "plus"]))
def test_rarer_terms_weigh_more(name: Literal["lucene", "plus"]) -> None:
    assert (np.diff(idf(name, np.arange(1, 1001), IdfInputs(1000, 1.0))) < 0).all()


@given(idf_names, st.integers(2, HUGE))
def test_idf_grows_with_the_corpus(name: IdfName, n: int) -> None:
    """A term of one chunk is worth more, the more chunks there are."""
    small, large = IdfInputs(n, 1.0), IdfInputs(2 * n + 8, 1.0)
    assert idf(name, 1, small) < idf(name, 1, large)


@given(st.data(), num_chunks)
def test_plain_idf_is_antisymmetric_about_the_half(data: st.DataObject, n: int) -> None:
    df = data.draw(st.integers(0, n))
    assert np.isclose(robertson_idf(df, n), -robertson_idf(n - df, n), rtol=1e-9, atol=1e-9)


@given(st.integers(1, HUGE), st.lists(st.tuples(st.integers(1, HUGE), st.integers(1, 2**32)), max_size=9))
def test_average_idf_lies_between_the_extremes(n: int, terms: list[tuple[int, int]]) -> None:
    histogram = {min(df, n): count for df, count in terms}
    average = average_idf(list(histogram), list(histogram.values()), n)
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
    score = query.weights(1, df, IdfInputs(100, 0.5)) * document.weights(tf, length)
    assert 0 < np.float32(score) < np.inf
