"""What hypothesis draws as filters of users, and the metadata and ids that they are asked of."""

from __future__ import annotations

from hypothesis import strategies as st

from rag_bm25.checks import find_bad_character
from support.hostile import json_values, mostly, scalars, texts

KEYS = ["a", "b", "a.b", "source", "x", "ab", "法律", "𠮷", "𠮷野", "%", '"']
WORDS = [
    *(*KEYS, "a%", "%b%", "_", "", " ", "1", "true", "null", "namespace", "\n", "\r", "\r\n", "\t", "\0", "\x1f"),
    *('"', "'", "\\", "\\\\", '\\"', *"][)({},", "\u2028", "\ud800", "\\n", "\\u0041", "//", "/*", "#", ";"),
    *('") or (pk != "', "' or '1'=='1", '"] or true or metadata["'),
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
IDS = st.sampled_from([word for word in WORDS if word and find_bad_character(word) is None])
OF_IDS = st.fixed_dictionaries({"$id": IDS | SCALARS | CONDITION | st.fixed_dictionaries({"$in": st.lists(IDS)})})
LEAVES = OF_IDS | st.dictionaries(
    mostly(NAMES, st.tuples(NAMES, NAMES), 5), SCALARS | CONDITION, min_size=1, max_size=2
)
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
