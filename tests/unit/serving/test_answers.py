"""Answers as JSON, up to a size."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_bm25.serving.answers import RefusedError, to_bytes

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(values)
def test_an_answer_is_the_json_of_the_whole(value: Any) -> None:
    expected = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    assert to_bytes(value, len(expected)) == expected
    with pytest.raises(RefusedError, match="lower k"):
        to_bytes(value, len(expected) - 1)


def test_a_lone_surrogate_is_spelt_as_json_does() -> None:
    value = {"a\ud800": "\udfff\u4e00", "b": [{"c": "\ud800"}]}
    assert json.loads(to_bytes(value, 100).decode()) == value


def test_no_more_of_a_large_answer_is_encoded_than_one_hit_beyond_the_bound() -> None:
    encoded = 0

    class Hits(list[str]):
        def __iter__(self) -> Iterator[str]:
            nonlocal encoded
            for _ in range(1000):
                encoded += 1
                yield "x" * 100

    with pytest.raises(RefusedError):
        to_bytes({"hits": Hits("x")}, 1000)
    assert encoded == 10
