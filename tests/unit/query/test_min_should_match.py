from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_bm25 import ParameterError
from rag_bm25.query.min_should_match import check_min_should_match, required_words


@pytest.mark.parametrize(
    ("value", "num_words", "expected"),
    [
        (3, 5, 3),
        ("3", 5, 3),
        (-2, 5, 3),
        ("75%", 4, 3),
        ("75%", 5, 3),  # 3.75, rounded down
        ("-25%", 5, 4),  # a quarter, 1.25, rounded down, may be missing
        ("100%", 5, 5),
        ("3<90%", 3, 3),
        ("3<90%", 10, 9),
        ("2<-25% 9<-3", 2, 2),
        ("2<-25% 9<-3", 8, 6),
        ("9<-3 2<-25%", 12, 9),
        (0, 5, 1),
        (99, 5, 5),
        (-99, 5, 1),
        ("1%", 5, 1),
        ("75%", 0, 0),
    ],
)
def test_values_of_the_reference(value: int | str, num_words: int, expected: int) -> None:
    check_min_should_match("min_should_match", value)
    assert required_words(value, num_words) == expected


@pytest.mark.parametrize(
    "value",
    ["", " ", "most", "75 %", "3<", "<3", "3<90%,", "1.5", 0.75, True, None, "--1", "2<a 3<4", 10**9, "1000000000%"],
)
def test_other_values_are_refused(value: Any) -> None:
    with pytest.raises(ParameterError) as caught:
        check_min_should_match("min_should_match", value)
    assert str(caught.value) == (
        "min_should_match must be an int or a str such as '75%', '-1' or '3<90%', of at most nine digits a number, "
        f"got {value!r}"
    )


@pytest.mark.parametrize("value", ["101%", "-200%", "3<150%"])
def test_a_share_of_more_than_all_is_refused(value: str) -> None:
    with pytest.raises(ParameterError, match=f"min_should_match must have no share above 100%, got '{value}'"):
        check_min_should_match("min_should_match", value)


@given(st.integers(0, 100), st.integers(1, 50))
def test_shares_are_rounded_as_elasticsearch_rounds(percent: int, num_words: int) -> None:
    share = percent * num_words / 100
    bounded = lambda wanted: min(max(wanted, 1), num_words)  # noqa: E731
    assert required_words(f"{percent}%", num_words) == bounded(math.floor(share + 1e-9))
    assert required_words(f"-{percent}%", num_words) == bounded(num_words - math.floor(share + 1e-9))


@given(st.text(max_size=12) | st.text("0123456789<%- ", max_size=12), st.integers(0, 9))
def test_whatever_is_let_through_can_be_counted(value: str, num_words: int) -> None:
    try:
        check_min_should_match("min_should_match", value)
    except ParameterError:
        return
    assert min(num_words, 1) <= required_words(value, num_words) <= num_words
