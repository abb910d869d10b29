from __future__ import annotations

import math

import numpy as np
import pytest
from support.memory_store import MemoryStore
from support.reference import split

from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.errors import ParameterError
from rag_bm25.weighting.formulas import WEIGHTING_NAMES, WEIGHTINGS, WeightingName, tf_function


def test_every_name_has_its_form() -> None:
    assert tuple(WEIGHTINGS) == WEIGHTING_NAMES


def test_form_and_its_delta() -> None:
    assert tf_function("bm25l", 1.5, None) == (WEIGHTINGS["bm25l"], 0.5)
    assert tf_function("bm25l", 1.5, 0.2) == (WEIGHTINGS["bm25l"], 0.2)
    assert tf_function("bm25", 1.5, None) == (WEIGHTINGS["bm25"], None)


def test_log_below_a_frequency_of_1_is_its_tangent() -> None:
    tf = np.array([0.05, 0.5, 1.0, math.e, 20.0])
    values = WEIGHTINGS["log"].values(tf, 1.0, 1.5, 0.0)
    assert values.tolist() == pytest.approx([0.05, 0.5, 1.0, 2.0, 1 + math.log(20)])


def test_k1_that_no_form_takes_is_refused() -> None:
    with pytest.raises(ParameterError) as caught:
        tf_function("bm25l", -1, None)
    assert str(caught.value) == "k1 must be a finite number >= 0 for 'bm25l', got -1"


K1 = "1.5 = k1, saturation"
B = "0.75 = b, share of the length"
LENGTHS = ["2 = length of the chunk in terms", "4 = chunk_size in terms, in place of the mean length"]


@pytest.mark.parametrize(
    ("form", "formula", "parameters"),
    [
        (
            "bm25+",
            "(k1 + 1) * tf / (tf + k1 * (1 - b + b * length / chunk_size)) + delta",
            [K1, B, *LENGTHS, "1 = delta"],
        ),
        ("sqrt", "sqrt(tf)", []),
        ("tf-normalised", "tf / (length / chunk_size)", LENGTHS),
        ("saturation", "k1 * tf / (tf + k1)", [K1]),
    ],
)
def test_explanation_shows_the_parameters_that_the_form_has(
    form: WeightingName, formula: str, parameters: list[str]
) -> None:
    config = IndexConfig(4, length_unit="terms", analyzer=split, weighting=form)
    index = BM25Index.from_store(MemoryStore(), config=config)
    index.add(["apple fig"], ids=["1"])
    weight = index.explain("apple", "1").details[0].details[1]
    assert weight.description == f"stored weight, {formula} from:"
    assert [str(detail) for detail in weight.details] == ["1 = tf, occurrences in the chunk", *parameters]


# The upper bound of a query's scores


def index_of(form: WeightingName) -> BM25Index:
    config = IndexConfig(4, length_unit="terms", analyzer=split, weighting=form)
    index = BM25Index.from_store(MemoryStore(), config=config)
    index.add(["fig " * 500, "plum"], ids=["1", "2"])
    return index


@pytest.mark.parametrize("form", [name for name in WEIGHTING_NAMES if WEIGHTINGS[name].bounds(1.5, 1.0)[1] < 99])
def test_no_score_is_above_the_greatest_possible_one(form: WeightingName) -> None:
    index = index_of(form)
    greatest, of_nothing = index.max_scores(["fig", "nothing"])
    assert 0.7 < index.search("fig")[0].score / greatest <= 1
    assert of_nothing == 0
    assert index.max_scores([{"fig": 2.0}], min_should_match=1) == pytest.approx([2 * greatest])


def test_weighting_without_an_upper_bound_has_no_greatest_scores() -> None:
    with pytest.raises(ParameterError, match=r"maximum scores, .* need a weighting with an upper bound, got 'tf'$"):
        index_of("tf").max_scores(["fig"])
