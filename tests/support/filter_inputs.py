"""What hypothesis draws as filters of users, mappings and expressions, and the metadata that they are asked of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from support.hostile import json_values, mostly, scalars, texts

KEYS = ["a", "b", "a.b", "source", "x", "ab", "法律", "𠮷", "𠮷野", "%", '"']
WORDS = [
    *(*KEYS, "a%", "%b%", "_", "", " ", "1", "true", "null", "namespace", "\n", "\r", "\r\n", "\t", "\0", "\x1f"),
    *('"', "'", "\\", "\\\\", '\\"', *"][)({},", "\u2028", "\ud800", "\\n", "\\u0041", "//", "/*", "#", ";"),
    *('") or (pk != "', "' or '1'=='1", '"] or true or metadata["'),
]
PIECES = [
    *('metadata["a"]', "metadata['b']", "namespace", "pk", "id", "length", "metadata", '["a"]', "[0]", "exists "),
    *("like ", " in ", " not in ", " and ", " or ", " not ", "&&", "||", "==", "!=", ">=", "<=", "**", *"><!+-*/%"),
    *("1", "0", "2.5", "9" * 5000, "9" * 19, "1e3", "0x1", "true", "'x'", '"x"', "[1]", "法", *"'\"\\()[]{}, \n#;\0"),
    *("json_contains(", "array_length(", "json_contains_any(", "text_match(", 'metadata["a"], ', "is null"),
    *('(metadata["a"] == 1)', ' or pk != ""', ") or (", '"other"', "1 < ", " < 3"),
]
CONDITIONS = [
    *('metadata["a"] == 1', "metadata['b'] != 'x'", 'metadata["a"] in [1, 2.5]', 'metadata["b"] not in ["x", "ab"]'),
    *('metadata["b"] like "a%"', 'json_contains(metadata["b"], 1)', 'array_length(metadata["b"]) > 1', "pk != ''"),
    *('0 <= metadata["a"] < 2', 'metadata["a"] % 2 == 1', 'metadata["a"] + 1 >= 2', "namespace == 'other'", "1 == 1"),
    *('metadata["b"]["a"] == 1', 'metadata["b"][0] == 1', 'namespace in ["other"]', "id like '%'", "-1 < length <= 1"),
    *('metadata["source"] == "\\") or (pk != \\""', "true == true", "namespace like '%'", 'pk > "0"', 'text == "text"'),
    *(
        'json_contains_any(metadata["b"], [1, "x"])',
        "metadata['a'] * 2 == 2",
        "metadata['a'] / 2 == 0.5",
        "length == 1",
    ),
]
HUGE = 10**5000  # which Python does not write in decimals
NUMBERS = [0, 1, 2, -1, 0.5, 1.0, -0.0, 1e300, 5e-324, 2**53 + 1, 2**63 - 1, -(2**63) + 1, True, False]

NAMES = st.sampled_from(WORDS)
SCALARS = texts(WORDS, 3) | texts(WORDS, 3) | st.sampled_from(NUMBERS) | mostly(scalars(WORDS), st.just(HUGE))
BESIDE_SETS = st.sampled_from(["$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$like", "$contains", "$above", "a"])
CONDITION = mostly(
    st.dictionaries(BESIDE_SETS, SCALARS, min_size=1, max_size=2)
    | st.dictionaries(st.sampled_from(["$in", "$nin"]), st.lists(SCALARS, max_size=3), min_size=1)
    | st.dictionaries(st.just("$exists"), st.booleans(), min_size=1),
    st.dictionaries(BESIDE_SETS, json_values(WORDS), max_size=2),
    16,
)
LEAVES = st.dictionaries(mostly(NAMES, st.tuples(NAMES, NAMES), 5), SCALARS | CONDITION, min_size=1, max_size=2)
MAPPINGS = mostly(
    st.recursive(
        LEAVES,
        lambda inner: (
            st.dictionaries(st.just("$not"), inner, min_size=1)
            | st.dictionaries(st.sampled_from(["$and", "$or"]), st.lists(inner, max_size=3), min_size=1)
        ),
        max_leaves=6,
    ),
    json_values(WORDS),
    40,
)
METADATA = st.dictionaries(
    st.sampled_from(KEYS),
    st.recursive(
        st.none() | st.sampled_from([0, 1, 2, -1, 0.5, 1e300, True, False]) | texts(WORDS, 3),
        lambda inner: (
            st.dictionaries(st.sampled_from(KEYS), inner, max_size=2)
            | st.lists(st.sampled_from([1, 1.0, "a", "x", True, 0.5]), max_size=2)
        ),
        max_leaves=3,
    ),
    max_size=3,
)


@st.composite
def _conditions(draw: Callable[[Any], Any]) -> str:
    """Draw conditions, joined, with something put in or taken out."""
    text, *others = draw(st.lists(st.sampled_from(CONDITIONS), min_size=1, max_size=4))
    for other in others:
        joined = f"{text}{draw(st.sampled_from([' and ', ' or ', '&&', ' || ']))}{other}"
        text = draw(st.sampled_from([joined, f"({joined})"]))
    at = draw(st.integers(0, len(text)))
    return draw(st.just(text) | texts(PIECES, 2).map(lambda put: text[:at] + put + text[at + len(put) % 4 :]))


EXPRESSIONS = mostly(_conditions(), texts(PIECES, 16), 4)
