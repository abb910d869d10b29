"""What hypothesis draws as input from outside: texts of meaningful pieces, JSON, and damage to either."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

SPECIAL = [0, -1, 1.5, -0.0, 1e308, 5e-324, float("nan"), float("inf"), 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 10**400]


def mostly(usual: st.SearchStrategy, other: st.SearchStrategy, of: int = 8) -> st.SearchStrategy:
    """Draw from `other` once in `of` times."""
    return st.integers(1, of).flatmap(lambda number: other if number == of else usual)


def texts(pieces: Sequence[str], most: int = 8) -> st.SearchStrategy:
    """Draw texts of pieces, with any character now and then, lone surrogates included."""
    characters = st.sampled_from([0x110000, 0x10000, 0x3000]).flatmap(lambda end: st.integers(0, end - 1)).map(chr)
    return st.lists(mostly(st.sampled_from(pieces), characters), max_size=most).map("".join)


def scalars(words: Sequence[str]) -> st.SearchStrategy:
    """Draw values of JSON, or of a program, without members."""
    words_and_numbers = st.sampled_from([None, True, False, *SPECIAL, *words])
    return texts(words, 3) | st.integers(0, 4) | words_and_numbers | st.floats(0, 2**30)


def json_values(words: Sequence[str]) -> st.SearchStrategy:
    return st.recursive(
        scalars(words),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(words), inner, max_size=3),
        max_leaves=8,
    )


@st.composite
def mutated(draw: Callable[[Any], Any], value: Any, words: Sequence[str]) -> Any:
    """Draw copies of a JSON value in which members are changed, missing, added or repeated."""
    fate = draw(st.integers(1, 24))
    if fate == 24:
        return draw(json_values(words))
    if isinstance(value, dict):
        kept = {key: draw(mutated(member, words)) for key, member in value.items() if draw(st.integers(1, 24)) < 24}
        return {**kept, draw(st.sampled_from(words)): draw(json_values(words))} if fate > 21 else kept
    if isinstance(value, list):
        kept = [draw(mutated(member, words)) for member in value if draw(st.integers(1, 24)) < 24]
        return kept * 2 if fate == 23 else kept
    return value


@st.composite
def damaged(draw: Callable[[Any], Any], data: bytes) -> bytes:
    """Draw bytes with a few of them changed, left out or inserted, some of them cut off."""
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(data)))
        data = data[:at] + draw(st.binary(max_size=3)) + data[at + draw(st.integers(0, 3)) :]
    return data[: draw(st.integers(0, len(data)))] if draw(st.integers(1, 6)) == 6 else data
