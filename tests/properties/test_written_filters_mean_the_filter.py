"""Property: the expression that an engine gets means the same as the filter, and nothing else.

Each expression that is written is evaluated as each engine does, and each version of Milvus; the result must be that of
the filter itself, within the namespaces that were asked for.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.filter_inputs import IDS, MAPPINGS, METADATA
from support.milvus_logic import LOGICS, Logic, can_tell, parse

from rag_bm25.errors import FilterError
from rag_bm25.filters import parse_filter
from rag_bm25.store.memory import matches
from rag_bm25.store.milvus.expressions import where_clause
from rag_bm25.store.rows import Scope

NAMESPACES = ["mine", 'q"uo\\te', "新"]


@given(
    MAPPINGS,
    st.lists(st.tuples(IDS, METADATA), max_size=3),
    st.sampled_from([None, ("mine",), tuple(NAMESPACES)]),
)
def test_a_written_filter_means_the_filter(
    given_filter: Any, rows: list[tuple[str, dict[str, Any]]], namespaces: tuple[str, ...] | None
) -> None:
    try:
        where = parse_filter(given_filter)
    except FilterError:
        return
    for logic in LOGICS:
        try:
            written = where_clause(logic.dialect, Scope(where, namespaces))
        except FilterError:
            continue
        _check(logic, where, rows, namespaces, written)


def _check(logic: Logic, where: Any, rows: list[Any], namespaces: tuple[str, ...] | None, written: str) -> None:
    tree = parse(written, logic.dialect)
    for id_, metadata in rows:
        if where is not None and not can_tell(logic, where, metadata):
            continue
        for namespace in [*NAMESPACES, "other"]:
            expected = (where is None or matches(where, id_, metadata)) and namespace in (namespaces or [namespace])
            assert logic.finds(tree, id_, metadata, namespace) == expected, f"{logic.name}: {written}"
