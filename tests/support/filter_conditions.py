"""Conditions, and metadata that they tell apart, for tests that compare engines."""

from __future__ import annotations

from typing import Any

from rag_bm25.filters import ID, Comparison, Filter
from support.rows import HOSTILE

DOCUMENTS: dict[str, dict[str, Any]] = {
    "three": {"a": 3},
    "three float": {"a": 3.0},
    "three and a half": {"a": 3.5},
    "string three": {"a": "3"},
    "true": {"a": True},
    "false": {"a": False},
    "null": {"a": None},
    "missing": {"b": 1},
    "none at all": {},
    "one": {"a": 1},
    "zero": {"a": 0},
    "minus three": {"a": -3},
    "big": {"a": 2**53 + 1},
    "largest": {"a": 2**63 - 1},
    "float large": {"a": 1e300},
    "list": {"a": [1, "x", 2.0, True]},
    "list of lists": {"a": [[1], ["x"]]},
    "empty list": {"a": []},
    "string that looks like a list": {"a": '["x", 1]'},
    "object": {"a": {"b": 1, "c": "y", "d": {"e": True}}},
    "empty object": {"a": {}},
    "abc": {"a": "abc"},
    "abcd": {"a": "abcd"},
    "ABC": {"a": "ABC"},
    "a.c": {"a": "a.c"},
    "regex": {"a": "a(b[c"},
    "chinese": {"a": "法律条文"},
    "emoji": {"a": "👩‍👧"},
    **{f"hostile {name}": {"a": text} for name, text in HOSTILE.items()},
    **{f"key {name}": {text: 1} for name, text in HOSTILE.items() if text},
    "dotted": {"a.b": 1},
    "slash": {"a/b": 1, "a~b": 2, "~1": 3, "a]b": 4},
    "digit": {"0": 1},
    "dollar id": {"$id": "abc"},
    **{text: {} for text in HOSTILE.values() if text},  # the names are the ids
}
VALUES: list[Any] = [3, 3.0, 3.5, -3, 2**53 + 1, 2**63 - 1, 1e300, "3", "", "abc", "法律条文", *HOSTILE.values()]
BOOLS: list[Any] = [True, False, 0, 1]
PATTERNS = [
    "abc",
    "a%",
    "%c",
    "%b%",
    "a%c",
    "%",
    "%%",
    "",
    "法%",
    "%条%",
    "a.c",
    "a(b[c%",
    "%👧",
    "%\n%",
    "it's%",
    '%"%',
    "%b%c%",
]
A = ("a",)
IDS = tuple(DOCUMENTS)
CONDITIONS: list[Filter] = [
    *(Comparison(A, op, value) for op in ("==", "!=") for value in VALUES),
    *(Comparison(A, op, value) for op in (">", ">=", "<", "<=") for value in VALUES),
    *(
        Comparison(A, op, tuple(some))
        for op in ("in", "not in")
        for some in ([], [3], [3.5, -3], ["3", 3, "abc"], VALUES)
    ),
    *(Comparison(A, "like", pattern) for pattern in PATTERNS),
    *(Comparison(A, "contains", value) for value in (2, 2.0, 3, "x", "y", "", *HOSTILE.values())),
    Comparison(A, "exists", True),
    Comparison(("a", "b"), "==", 1),
    Comparison(("a", "b"), "!=", 1),
    Comparison(("a", "c"), "like", "y%"),
    Comparison(("a.b",), "==", 1),
    Comparison(("0",), "==", 1),
    *(Comparison((key,), "==", value) for key, value in DOCUMENTS["slash"].items()),
    *(Comparison((text,), "==", 1) for text in HOSTILE.values() if text),
    Comparison(("$id",), "==", "abc"),
    *(Comparison(ID, op, text) for op in ("==", "!=", ">", ">=", "<", "<=") for text in ("abc", *HOSTILE.values())),
    *(Comparison(ID, op, ids) for op in ("in", "not in") for ids in ((), ("abc",), ("no such id", *IDS))),
    *(Comparison(ID, "like", pattern) for pattern in [*PATTERNS, "key %"]),
]
WITH_BOOLS: list[Filter] = [
    *(Comparison(A, op, value) for op in ("==", "!=") for value in BOOLS),
    *(Comparison(A, op, (value, "x")) for op in ("in", "not in") for value in BOOLS),
    Comparison(A, "<", 1),
    Comparison(A, ">=", 0),
    Comparison(("a", "d", "e"), "==", True),
    Comparison(A, "contains", 1),
    Comparison(A, "contains", True),
]
