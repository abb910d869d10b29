"""LlamaIndex's metadata filters as those of an index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rag_bm25.checks import require_extra
from rag_bm25.errors import FilterError, install_extra
from rag_bm25.filters import And, Not, Or, parse_filter

with require_extra(f"this needs llama-index-core: {install_extra('llama-index')}"):
    from llama_index.core.vector_stores.types import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters

if TYPE_CHECKING:
    from rag_bm25.filters import Filter
    from rag_bm25.index.arguments import FilterLike

COMPARISONS = {
    FilterOperator.EQ: "$eq",
    FilterOperator.NE: "$ne",
    FilterOperator.GT: "$gt",
    FilterOperator.GTE: "$gte",
    FilterOperator.LT: "$lt",
    FilterOperator.LTE: "$lte",
    FilterOperator.IN: "$in",
    FilterOperator.NIN: "$nin",
    FilterOperator.CONTAINS: "$contains",
}


def to_filter(filters: MetadataFilters | FilterLike | Filter) -> Filter | None:
    """Translate LlamaIndex's filters; those of an index are taken as they are.

    Parameters
    ----------
    filters : MetadataFilters, mapping, Filter or None
        A `key` is literal, also with a dot in it. ``any`` and ``all`` ask for elements of arrays, ``text_match`` for a
        part of a string.

    Returns
    -------
    Filter or None
        For every method of an index; None if every chunk passes.

    Raises
    ------
    FilterError
        For ``is_empty`` and ``text_match_insensitive``, which Milvus cannot evaluate, and for operands that are not
        valid.

    Examples
    --------
    ::

        page = MetadataFilter(key="page", value=3, operator=FilterOperator.GTE)
        index.search("sparse vectors", filter=to_filter(MetadataFilters(filters=[page])))
    """
    return _join(filters) if isinstance(filters, MetadataFilters) else parse_filter(filters)


def _join(filters: MetadataFilters) -> Filter | None:
    parts = [part for each in filters.filters if (part := _translate(each)) is not None]
    if not parts:
        return None
    if filters.condition == FilterCondition.NOT:
        if len(parts) > 1:
            raise FilterError(f"the condition 'not' needs one filter, got {len(parts)}: join them with 'and' or 'or'")
        return Not(parts[0])
    if len(parts) == 1:
        return parts[0]
    return (Or if filters.condition == FilterCondition.OR else And)(tuple(parts))


def _translate(one: MetadataFilter | MetadataFilters) -> Filter | None:
    if isinstance(one, MetadataFilters):
        return _join(one)
    operator, value = one.operator, one.value
    key = (one.key,)  # a tuple is a literal path
    if operator in COMPARISONS:
        return parse_filter({key: {COMPARISONS[operator]: value}})
    if operator in (FilterOperator.ANY, FilterOperator.ALL):
        if not isinstance(value, list) or not value:
            raise FilterError(f"{operator.value!r} at {one.key!r} needs a non-empty list of values, got {value!r}")
        logical = "$or" if operator == FilterOperator.ANY else "$and"
        return parse_filter({logical: [{key: {"$contains": each}} for each in value]})
    if operator == FilterOperator.TEXT_MATCH and isinstance(value, str) and "%" not in value:
        return parse_filter({key: {"$like": f"%{value}%"}})
    raise FilterError(_refusal(one))


def _refusal(one: Any) -> str:
    if one.operator == FilterOperator.IS_EMPTY:
        return f"'is_empty' is not supported: for a missing value, use the filter {{{one.key!r}: {{'$exists': False}}}}"
    if one.operator == FilterOperator.TEXT_MATCH:
        return f"'text_match' at {one.key!r} needs a string without %, got {one.value!r}"
    return f"{one.operator.value!r} is not supported: Milvus compares strings with their case"
