"""Factors of metadata: dates, numbers, values, and what is refused."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import date, datetime, timedelta, timezone
from functools import partial
from typing import Any

import pytest

from rag_bm25 import Decay, FunctionBoost, InputError, ValueBoost
from rag_bm25.hits.boosts import at_this_moment, factor_of, largest_factor
from rag_bm25.query.explanation import Explanation
from rag_bm25.query.scores import ScoreExplanation, with_factors


@pytest.mark.parametrize(
    "origin",
    ["2026-01-31", date(2026, 1, 31), datetime(2026, 1, 31, tzinfo=timezone.utc), "2026-01-31T08:00:00+08:00"],
)
@pytest.mark.parametrize("value", ["2026-01-01", "2026-01-01T00:00:00Z", " 2025-12-31T16:00:00-08:00", "2026-03-02"])
def test_dates_in_any_form_are_equally_far(origin: Any, value: str) -> None:
    assert Decay("date", 30, origin).factor({"date": value}) == pytest.approx(0.5)


def test_the_origin_is_now_by_default_and_the_same_for_a_whole_search() -> None:
    yesterday = (datetime.now(timezone.utc) - timedelta(days=1)).isoformat()
    assert Decay("date", 1).factor({"date": yesterday}) == pytest.approx(0.5, rel=1e-3)
    (resolved,) = at_this_moment([Decay("date", 1)])
    assert isinstance(resolved, Decay)
    assert resolved.origin is not None
    assert resolved.factor({"date": yesterday}) == resolved.factor({"date": yesterday})


def test_values_of_the_other_kind_are_missing() -> None:
    by_date, by_number = Decay("at", 30, "2026-01-31", missing=0.7), Decay("at", 30, 100, missing=0.7)
    for value in (None, 5, True, "soon", [1], 1e308 * 10):
        assert by_date.factor({"at": value}) == 0.7
    for value in (None, "2026-01-31", True, "5", 10**400):
        assert by_number.factor({"at": value}) == 0.7
    assert by_number.factor({"at": 130}) == by_number.factor({"at": 70.0}) == pytest.approx(0.5)
    assert by_number.factor({}) == 0.7


def test_offset_and_floor() -> None:
    decay = Decay("n", 10, 0, "linear", offset=5, decay=0.5, floor=0.2)
    assert [decay.factor({"n": n}) for n in (0, 5, 15, 25, 1000)] == pytest.approx([1, 1, 0.6, 0.2, 0.2])


def test_values() -> None:
    boost = ValueBoost("kind", {"law": 2.0, 1: 4.0}, default=0.5)
    given = ["law", 1, True, 1.0, "other", None, ["memo", "law"], []]
    assert [boost.factor({"kind": value}) for value in given] == [2.0, 4.0, 0.5, 4.0, 0.5, 0.5, 2.0, 0.5]
    assert [ValueBoost("kind", {True: 3.0}).factor({"kind": value}) for value in (True, 1)] == [3.0, 1.0]
    assert boost.upper_bound == 4.0


def test_the_factor_of_a_value_is_looked_up_however_many_there_are() -> None:
    compared = 0

    class Counted(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

    boost = ValueBoost("kind", {Counted(number): 2.0 for number in range(1000)})
    assert [boost.factor({"kind": value}) for value in ("999", "1000", ["a", {"b": 1}, ["7"], "7"])] == [2.0, 1.0, 2.0]
    assert compared < 10


def stars(metadata: Mapping[str, Any]) -> Any:
    return metadata.get("stars")


def test_the_result_of_a_function_is_the_factor_up_to_its_maximum() -> None:
    boost = FunctionBoost(stars, maximum=3)
    assert [boost.factor({"stars": n}) for n in (2, 0, 1000, math.inf, 10**400)] == [2.0, 0.0, 3.0, 3.0, 3.0]
    assert boost.explain({"stars": 2}) == Explanation(2.0, "factor by stars, at most 3")
    assert FunctionBoost(partial(stars), 3).explain({"stars": 2}).description == "factor by partial, at most 3"


@pytest.mark.parametrize("result", [-1, math.nan, True, None, "2"])
def test_what_is_no_factor_is_refused(result: object) -> None:
    with pytest.raises(
        InputError, match=re.escape(f"stars of FunctionBoost must return a number >= 0, got {result!r}")
    ):
        FunctionBoost(stars, maximum=3).factor({"stars": result})


def test_the_explanation_of_a_decay_has_what_is_not_the_default() -> None:
    explained = Decay("date", 30, "2026-01-31", offset=7, floor=0.25).explain({"date": "2026-01-01"})
    assert explained.description == (
        "factor of 'date' = '2026-01-01': exp decay, 30 days from the origin, 0.5 at 30 days beyond the first 7 days, "
        "floor 0.25"
    )


def test_the_explanation_of_a_decay_says_that_a_value_is_of_another_kind() -> None:
    assert Decay("chunk", 5).explain({"chunk": 12}).description == (
        "factor of 'chunk' = 12: that is no date, as the origin is"
    )
    assert Decay("chunk", 5, origin=0).explain({"chunk": "12"}).description == (
        "factor of 'chunk' = '12': that is no number, as the origin is"
    )
    assert Decay("chunk", 5).explain({"chunk": None}).description == "factor of 'chunk': the chunk has no such value"


def test_factors_multiply_and_are_explained_one_by_one() -> None:
    boosts = [Decay("n", 10, 0), ValueBoost("kind", {"law": 3.0}), FunctionBoost(stars, 2.0)]
    metadata = {"n": 20, "kind": "law", "stars": 1.5}
    assert factor_of(boosts, metadata) == pytest.approx(0.25 * 3 * 1.5)
    assert largest_factor(boosts) == 6.0
    tree = with_factors(ScoreExplanation(2.0, "score"), [boost.explain(metadata) for boost in boosts])
    assert tree.value == pytest.approx(2 * 0.25 * 3 * 1.5)
    assert [line.value for line in tree.details] == pytest.approx([2, 0.25, 3, 1.5])
    assert tree.tree.splitlines()[2] == "  0.25 = factor of 'n' = 20: exp decay, 20 from the origin, 0.5 at 10"
    missing = with_factors(ScoreExplanation(2.0, "score"), [boost.explain({"stars": 1}) for boost in boosts])
    assert [line.value for line in missing.details] == [2, 1, 1, 1]
    assert with_factors(ScoreExplanation(2.0, "score"), []) == ScoreExplanation(2.0, "score")
