"""Filters of structured queries select what the filters of an index do."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.structured_query import Comparator, Comparison, Operation, Operator, StructuredQuery

from rag_bm25 import BM25Index, FilterError
from rag_bm25.langchain import MilvusBM25Translator, MilvusBM25VectorStore

METADATA = [
    {"page": 1, "tags": ["x"], "date": "2024-05-01", "author": {"name": "Li"}},
    {"page": 2, "tags": ["x", "y"], "date": "2025-05-01"},
    {"page": 3, "tags": [], "date": "2026-05-01"},
]


def compare(attribute: str, comparator: str, value: Any) -> Comparison:
    return Comparison(comparator=Comparator(comparator), attribute=attribute, value=value)


def join(operator: str, *arguments: Any) -> Operation:
    return Operation(operator=Operator(operator), arguments=list(arguments))


def search(index: BM25Index, filter: Any) -> set[str | None]:
    query, options = MilvusBM25Translator().visit_structured_query(StructuredQuery(query="fig", filter=filter))
    return {document.id for document in MilvusBM25VectorStore(index).similarity_search(query, **options)}


@pytest.fixture
def filled(index: BM25Index) -> BM25Index:
    index.add(["fig"] * 3, ids=["a", "b", "c"], metadatas=METADATA)
    return index


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        (None, "abc"),
        (compare("page", "eq", 2), "b"),
        (compare("page", "ne", 2), "ac"),
        (compare("page", "gt", 1), "bc"),
        (compare("page", "gte", 2), "bc"),
        (compare("page", "lt", 2), "a"),
        (compare("page", "lte", 2), "ab"),
        (compare("page", "in", [1, 3]), "ac"),
        (compare("page", "nin", [1, 3]), "b"),
        (compare("tags", "contain", "x"), "ab"),
        (compare("author.name", "eq", "Li"), "a"),
        (compare("date", "gte", {"date": "2025-01-01", "type": "date"}), "bc"),
        (join("and", compare("page", "gt", 1), compare("tags", "contain", "x")), "b"),
        (join("or", compare("page", "eq", 1), compare("page", "eq", 3)), "ac"),
        (join("not", compare("page", "eq", 1)), "bc"),
        (join("not", compare("page", "eq", 1), compare("tags", "contain", "y")), "abc"),
        (join("and", join("or", compare("page", "eq", 1), compare("page", "eq", 2)), compare("page", "ne", 1)), "b"),
    ],
)
def test_each_selects_what_it_says(filled: BM25Index, filter: Any, expected: str) -> None:
    assert search(filled, filter) == set(expected)


def test_what_there_is_not_is_refused(filled: BM25Index) -> None:
    with pytest.raises(ValueError, match="Received disallowed comparator"):
        search(filled, compare("page", "like", "x"))
    with pytest.raises(FilterError, match="needs a string, a finite number or a bool"):
        search(filled, compare("page", "eq", None))
