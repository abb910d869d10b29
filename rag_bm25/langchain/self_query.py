"""Filters that a model writes, for LangChain's ``SelfQueryRetriever``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from langchain_core.structured_query import Comparator, Operator, Visitor

from rag_bm25.filters import parse_filter

if TYPE_CHECKING:
    from langchain_core.structured_query import Comparison, Operation, StructuredQuery

COMPARISONS = {
    Comparator.EQ: "$eq",
    Comparator.NE: "$ne",
    Comparator.GT: "$gt",
    Comparator.GTE: "$gte",
    Comparator.LT: "$lt",
    Comparator.LTE: "$lte",
    Comparator.IN: "$in",
    Comparator.NIN: "$nin",
    Comparator.CONTAIN: "$contains",
}


class MilvusBM25Translator(Visitor):
    """Translate structured queries into the filters of :mod:`rag_bm25.filters`.

    ``SelfQueryRetriever`` asks a model for a query and a filter, and this class for the keywords of the search. A dot
    in an attribute steps into a nested object. Dates are compared as text, so the metadata must have them in the form
    ``2026-01-31``.

    Examples
    --------
    ::

        store = MilvusBM25VectorStore(index)
        translator = MilvusBM25Translator()
        SelfQueryRetriever.from_llm(llm, store, contents, attributes, structured_query_translator=translator)
    """

    allowed_comparators = tuple(COMPARISONS)
    allowed_operators = (Operator.AND, Operator.OR, Operator.NOT)

    def visit_operation(self, operation: Operation) -> dict[str, Any]:
        self._validate_func(operation.operator)
        parts = [part.accept(self) for part in operation.arguments]
        if operation.operator == Operator.NOT:
            return {"$not": parts[0] if len(parts) == 1 else {"$and": parts}}
        return {f"${operation.operator.value}": parts}

    def visit_comparison(self, comparison: Comparison) -> dict[str, Any]:
        self._validate_func(comparison.comparator)
        value = comparison.value
        if isinstance(value, Mapping) and "date" in value:  # how LangChain's parser reads a date
            value = value["date"]
        return {comparison.attribute: {COMPARISONS[comparison.comparator]: value}}

    def visit_structured_query(self, structured_query: StructuredQuery) -> tuple[str, dict[str, Any]]:
        found: dict[str, Any] = {}
        if structured_query.filter is not None:
            found["filter"] = structured_query.filter.accept(self)
            parse_filter(found["filter"])
        return structured_query.query, found
