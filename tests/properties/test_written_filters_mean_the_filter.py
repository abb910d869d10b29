"""Property: the expression that an engine gets means the same as the filter, and nothing else.

Each expression that is written is evaluated as each engine does, and each version of Milvus; the result must be that of
the filter itself, within the namespaces that were asked for.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.filter_inputs import EXPRESSIONS, MAPPINGS, METADATA
from support.milvus_logic import LOGICS, Logic, can_tell, parse

from rag_bm25.errors import FilterError
from rag_bm25.filters import Expression, Not, parse_filter
from rag_bm25.store.memory import matches
from rag_bm25.store.milvus.expressions import Dialect, where_clause
from rag_bm25.store.rows import Scope

NAMESPACES = ["mine", 'q"uo\\te', "新"]


@given(
    EXPRESSIONS | MAPPINGS | MAPPINGS,
    st.lists(METADATA, max_size=3),
    st.sampled_from([None, ("mine",), tuple(NAMESPACES)]),
)
def test_a_written_filter_means_the_filter(
    given_filter: Any, rows: list[dict[str, Any]], namespaces: tuple[str, ...] | None
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
        if isinstance(where, Expression):
            _check_expression(logic.dialect, where.text, namespaces, written)
        else:
            _check_mapping(logic, where, rows, namespaces, written)


def _check_mapping(logic: Logic, where: Any, rows: list[Any], namespaces: tuple[str, ...] | None, written: str) -> None:
    tree = parse(written, logic.dialect)
    for metadata in rows:
        if where is not None and not can_tell(logic, where, metadata):
            continue
        for namespace in [*NAMESPACES, "other"]:
            expected = (where is None or matches(where, metadata)) and (namespaces is None or namespace in namespaces)
            assert logic.finds(tree, metadata, namespace) == expected, f"{logic.name}: {written}"


def _check_expression(dialect: Dialect, text: str, namespaces: tuple[str, ...] | None, written: str) -> None:
    """Check that an expression cannot escape from its parentheses."""
    if namespaces is None:
        assert written == text
        return
    assert written == f"({text}) and ({where_clause(dialect, Scope(None, namespaces))})"
    assert _depths(text) == (0, 0), f"{dialect.engine}: {written}"
    try:
        negated = where_clause(dialect, Scope(Not(Expression(text))))
    except FilterError:
        return
    assert negated == f"not ({text})"


def _depths(text: str) -> tuple[int, int]:
    """Return the minimum and the last depth of brackets; -1 for an unterminated string."""
    depth = least = 0
    quote = ""
    characters = iter(text)
    for character in characters:
        if quote:
            if character == "\\":
                next(characters, None)
            elif character == quote:
                quote = ""
        elif character in "\"'":
            quote = character
        else:
            depth += (character in "([{") - (character in ")]}")
            least = min(least, depth)
    return least, -1 if quote else depth
