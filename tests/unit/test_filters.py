from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_bm25.errors import FilterError
from rag_bm25.filters import ID, And, Comparison, Not, Or, conjoin, parse_filter
from rag_bm25.store.memory import matches

HERE = Comparison(("a",), "==", 1)
NESTED: Any = HERE
for _ in range(70):
    NESTED = Not(NESTED)


class Name(str, Enum):
    A = "a.b"
    IN = "$in"
    ID = "$id"


@pytest.mark.parametrize("nothing", [None, {}])
def test_no_filter_is_none(nothing: Any) -> None:
    assert parse_filter(nothing) is None


@pytest.mark.parametrize(
    ("filter", "tree"),
    [
        ({"a": 1}, Comparison(("a",), "==", 1)),
        ({"a": {"$eq": "x"}}, Comparison(("a",), "==", "x")),
        ({"a": {"$ne": True}}, Comparison(("a",), "!=", True)),
        ({"a": {"$lt": 1.5}}, Comparison(("a",), "<", 1.5)),
        ({"a": {"$in": [1, "x"]}}, Comparison(("a",), "in", (1, "x"))),
        ({"a": {"$nin": []}}, Comparison(("a",), "not in", ())),
        ({"a": {"$exists": True}}, Comparison(("a",), "exists", True)),
        ({"a": {"$exists": False}}, Not(Comparison(("a",), "exists", True))),
        ({"a": {"$like": "x%"}}, Comparison(("a",), "like", "x%")),
        ({"a": {"$contains": "x"}}, Comparison(("a",), "contains", "x")),
        ({"a.b": 1}, Comparison(("a", "b"), "==", 1)),
        ({("a.b",): 1}, Comparison(("a.b",), "==", 1)),
        ({("$a", "b"): 1}, Comparison(("$a", "b"), "==", 1)),
        ({"a": 1, "b": 2}, And((Comparison(("a",), "==", 1), Comparison(("b",), "==", 2)))),
        ({"a": {"$gte": 1, "$lt": 2}}, And((Comparison(("a",), ">=", 1), Comparison(("a",), "<", 2)))),
        ({"$and": [{"a": 1}]}, And((Comparison(("a",), "==", 1),))),
        ({"$or": [{"a": 1}, {"b": 2}]}, Or((Comparison(("a",), "==", 1), Comparison(("b",), "==", 2)))),
        ({"$not": {"a": 1}}, Not(Comparison(("a",), "==", 1))),
        ({"$id": "a"}, Comparison(ID, "==", "a")),
        ({"$id": {"$in": ["a", "b.c"]}}, Comparison(ID, "in", ("a", "b.c"))),
        ({"$id": {"$like": "a%"}, "a": 1}, And((Comparison(ID, "like", "a%"), Comparison(("a",), "==", 1)))),
        ({("$id",): 1}, Comparison(("$id",), "==", 1)),
    ],
)
def test_every_form_is_read(filter: Any, tree: Any) -> None:
    assert parse_filter(filter) == tree
    assert parse_filter(tree) == tree


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (Comparison(("a",), "==", object()), "== at 'a' needs a string, a finite number or a bool, got <object"),
        (Comparison((1,), "==", 1), r"a filter key must be a string.* got \(1,\)"),
        (Comparison(("a",), "above", 1), r"the operator at 'a' must be one of ==, !=, >.*, got 'above'"),
        (Comparison(("a",), "in", "abc"), "in at 'a' needs a list of values, got 'abc'"),
        (Comparison(ID, "==", 1), "== at '\\$id' needs the ids as strings, such as .1., got 1"),
        (Comparison(ID, "exists", True), "exists at '\\$id' tells no ids apart"),
        (Not(None), "a part of a filter must be a Comparison, .*, got None"),
        (And(()), r"a part of a filter must be a Comparison, .*, got And\(parts=\(\)\)"),
        (Or((HERE, "b")), "a part of a filter must be a Comparison, .*, got 'b'"),
        (NESTED, "a filter must not be nested more than 32 levels deep"),
    ],
)
def test_trees_made_by_hand_are_checked(tree: Any, message: str) -> None:
    with pytest.raises(FilterError, match=message):
        parse_filter(tree)


@pytest.mark.parametrize("text", [str, np.str_, Name])
def test_subclasses_of_str_are_taken_as_text(text: Any) -> None:
    key, operator, id_ = (text(member.value) for member in Name)
    given = parse_filter({key: {operator: [key, np.float64(1.5), True]}})
    assert given == Comparison(("a", "b"), "in", ("a.b", 1.5, True))
    assert repr(given) == "Comparison(path=('a', 'b'), op='in', value=('a.b', 1.5, True))"
    assert parse_filter({id_: key}) == Comparison(ID, "==", "a.b")


def test_a_join_of_two_of_the_deepest_filters_is_read_again() -> None:
    deepest: Any = {"a": 1}
    for _ in range(31):
        deepest = {"$not": deepest}
    joined = conjoin(parse_filter(deepest), parse_filter(deepest))
    assert parse_filter(joined) == joined


def test_two_filters_are_joined_and_one_stays_as_it_is() -> None:
    one, other = Comparison(("a",), "==", 1), Comparison(ID, ">", "b")
    assert conjoin(one, other) == And((one, other))
    assert conjoin(one, None) is conjoin(None, one) is one
    assert conjoin(None, None) is None


@pytest.mark.parametrize(
    ("filter", "message"),
    [
        ({"a": {"$above": 1}}, r"unknown operator '\$above' at 'a', known are \$eq, "),
        ({"$nor": [{"a": 1}]}, r"unknown operator '\$nor', known here are \$and, \$or, \$not, \$id"),
        ({"$id.a": 1}, r"unknown operator '\$id\.a', known here are"),
        ({"$id": {"$in": ["a", 3]}}, r"\$in at '\$id' needs the ids as strings, such as .3., got 3"),
        (
            {"$id": {"$exists": True}},
            r"\$exists at '\$id' tells no ids apart, each is a string; known here are \$eq, .*like$",
        ),
        ({"$id": {"$contains": "a"}}, r"\$contains at '\$id' tells no ids apart"),
        ({"$id": {"$exists": False}}, r"\$exists at '\$id' tells no ids apart"),
        ({"$id": ["a"]}, r"\$eq at '\$id' needs a string, .*; for one of several values use \$in"),
        ({"a": {"gte": 1}}, r"the operator at 'a' is written '\$gte' \(for a nested value, write 'a\.gte'\)"),
        ({"a": {"b": 1}}, r"a nested value is reached by a dotted key: write 'a\.b'"),
        ({"a": {}}, r"the filter at 'a' must name an operator or a value, got \{\}"),
        (
            {"a": None},
            r"\$eq at 'a' needs a string, a finite number or a bool, got None; for a missing value use \$exi",
        ),
        ({"a": [1]}, r"\$eq at 'a' needs a string, .* or a bool, got \[1\]; for one of several values use \$in"),
        ({"a": float("nan")}, r"finite number or a bool, got nan"),
        ({"a": {"$gt": float("inf")}}, r"\$gt at 'a' needs .* got inf"),
        ({"a": {"$gt": True}}, r"\$gt at 'a' needs a string or a finite number, got True"),
        ({"a": 2**63}, r"\$eq at 'a' needs an integer between -2\*\*63 and 2\*\*63, got 9223372036854775808"),
        ({"a": {"$in": "xyz"}}, r"\$in at 'a' needs a list of values, got 'xyz'"),
        ({"a": {"$nin": [None]}}, r"\$nin at 'a' needs a string, .* got None"),
        ({"a": {"$exists": 1}}, r"\$exists at 'a' needs True or False, got 1"),
        ({"a": {"$like": 1}}, r"\$like at 'a' needs a string with % as its only wildcard"),
        ({"a": {"$like": "a_b"}}, r"without _ and backslash, got 'a_b'"),
        ({"a": {"$like": "a\\%"}}, r"without _ and backslash"),
        ({"a": "x\ud800y"}, r"\$eq at 'a' has a lone surrogate at character 1"),
        ({"a": "x\0"}, r"\$eq at 'a' has a NUL at character 1"),
        ({"k\0": 1}, r"the filter key .* has a NUL at character 1"),
        ({"": 1}, r"a filter key must be a string, .* got ''"),
        ({"a..b": 1}, r"a filter key must be"),
        ({1: 1}, r"a filter key must be .* got 1"),
        ({(): 1}, r"a filter key must be"),
        ({"$and": []}, r"\$and needs a non-empty list of filters, got \[\]"),
        ({"$or": {"a": 1}}, r"\$or needs a non-empty list of filters"),
        ({"$or": [{}]}, r"a filter inside \$and, \$or and \$not must be a non-empty mapping, got \{\}"),
        ({"$not": 'metadata["a"] == 1'}, r"a filter inside \$and, \$or and \$not must be a non-empty mapping"),
        (
            "page >= 2",
            r'a filter must be a mapping, such as \{"page": \{"\$gte": 3\}\}, .* key=value, too; got \'page >= 2\'',
        ),
        ("", r"a filter must be a mapping, .* got ''"),
        (3, r"a filter must be a mapping, .* got 3"),
        ([{"a": 1}], r"a filter must be a mapping, .* got \[\{'a': 1\}\]"),
    ],
)
def test_bad_input_names_the_rule(filter: Any, message: str) -> None:
    with pytest.raises(FilterError, match=message):
        parse_filter(filter)


def test_nesting_is_limited() -> None:
    nested: dict[str, Any] = {"a": 1}
    for _ in range(40):
        nested = {"$not": nested}
    with pytest.raises(FilterError, match="more than 32 levels deep"):
        parse_filter(nested)


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63) + 1, 1.7976931348623157e308, "", "法律", False])
def test_values_at_the_edges_are_taken(value: Any) -> None:
    assert parse_filter({"a": value}) == Comparison(("a",), "==", value)


scalars = st.booleans() | st.integers(-5, 5) | st.sampled_from([0.5, 1.0, "", "a", "ab", "b"])
metadata = st.dictionaries(st.sampled_from("ab"), st.none() | scalars | st.lists(scalars, max_size=2), max_size=2)


@given(metadata, scalars)
def test_ne_and_nin_are_the_opposites_of_eq_and_in(data: dict[str, Any], value: Any) -> None:
    for one, other in (({"$eq": value}, {"$ne": value}), ({"$in": [value, "b"]}, {"$nin": [value, "b"]})):
        assert matches(parse_filter({"a": one}), "", data) != matches(parse_filter({"a": other}), "", data)


@given(metadata, st.floats(-5, 5))
def test_a_missing_or_other_value_is_in_no_order(data: dict[str, Any], bound: float) -> None:
    value = data.get("a")
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    below_or_above = [matches(parse_filter({"a": {op: bound}}), "", data) for op in ("$lt", "$gte")]
    assert sum(below_or_above) == is_number
