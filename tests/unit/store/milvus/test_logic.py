"""Filters mean the same on every version of a Milvus server, as far as its sources tell."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.filter_conditions import CONDITIONS, DOCUMENTS, WITH_BOOLS
from support.milvus_logic import SERVERS, Logic, can_tell, wrong_rows

from rag_bm25.filters import And, Filter, Not, Or

EVERY = [*CONDITIONS, *WITH_BOOLS]
EMPTY = Counter({"empty object": 2, "empty list": 2})  # may not exist
OBJECTS = Counter({"object": 194})  # nothing is true for objects and not for all that exists
WRONG = {  # conditions, and their rows
    "2.5": (0, Counter[str]()),
    "2.6.2 to 2.6.18": (2, EMPTY),
    "2.6.20 and later": (196, OBJECTS + EMPTY),
    "3.0": (196, OBJECTS + EMPTY),
}
TREES = st.recursive(
    st.sampled_from(EVERY),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=4).map(tuple).map(And)
        | st.lists(inner, min_size=1, max_size=4).map(tuple).map(Or)
        | inner.map(Not)
    ),
    max_leaves=8,
)


def of(logic: Logic) -> str:
    return logic.name


@pytest.mark.parametrize("logic", SERVERS, ids=of)
def test_a_condition_is_wrong_only_where_no_expression_is_right(logic: Logic) -> None:
    conditions = [*EVERY, *map(Not, EVERY)]
    wrong = [rows for where in conditions if (rows := wrong_rows(logic, where, DOCUMENTS))]
    assert (len(wrong), Counter(name for rows in wrong for name in rows)) == WRONG[logic.name]


@pytest.mark.parametrize("logic", SERVERS, ids=of)
@given(where=TREES)
def test_trees_mean_the_same_on_every_version(logic: Logic, where: Filter) -> None:
    documents = {name: data for name, data in DOCUMENTS.items() if can_tell(logic, where, data)}
    assert wrong_rows(logic, where, documents) == set()
