"""A collection that others fill, as an adoption sees it; the engines are in the contract tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rag_bm25.errors import IndexNotFoundError, ParameterError
from rag_bm25.store.milvus.connection import Connection
from rag_bm25.vectors.sparse import SparseVector
from support.memory_store import Collections, MemoryStore

FIELDS = [("text", "VARCHAR"), ("body", "VARCHAR"), ("sparse", "SPARSE_FLOAT_VECTOR")]


class Foreign:
    """Its rows, the log beside it, and what was asked of them."""

    def __init__(self, texts: list[str], patch: pytest.MonkeyPatch) -> None:
        self.texts = list(texts)
        self.vectors: list[tuple[str, SparseVector]] = []
        self.beside = Collections()
        self.calls: list[str] = []
        self.opened: list[tuple[Any, ...]] = []
        self.asked: list[tuple[str, str]] = []
        self.page = 3
        self.closed = 0
        patch.setattr("rag_bm25.adapters.adoption.ExternalCollection", self.open_rows)
        patch.setattr("rag_bm25.adapters.adoption.MilvusLogStore", self.open_beside)

    def open_rows(self, connection: Connection, collection: str) -> Source:
        self.opened.append((str(connection.uri), collection, connection.token))
        if collection == "absent":
            raise IndexNotFoundError(f"collection {collection!r} not found at {connection.place}")
        return Source(self)

    def open_beside(self, *_: object, **__: object) -> MemoryStore:
        store = MemoryStore(collections=self.beside)
        store.calls = self.calls
        return store

    def selected(self, filter: str) -> list[str]:
        """Return the texts that a filter selects: those with its word, or all of them where it is a comparison."""
        return [text for text in self.texts if filter in text or ">" in filter]


class Source:
    """What stands in for an ExternalCollection."""

    def __init__(self, collection: Foreign) -> None:
        self.rows = collection

    def close(self) -> None:
        self.rows.closed += 1

    def check_field(self, parameter: str, field: str, datatype: str) -> None:
        if (field, datatype) not in FIELDS:
            raise ParameterError(f"{parameter} must be a {datatype} field, got {field!r}")

    def require_sparse_field(self) -> None:
        """The real one does."""

    def count(self, filter: str = "") -> int:
        return len(self.rows.selected(filter))

    def texts(self, text_field: str, filter: str = "") -> Iterator[list[str]]:
        self.rows.asked.append((text_field, filter))
        chosen = self.rows.selected(filter)
        return (chosen[start : start + self.rows.page] for start in range(0, len(chosen), self.rows.page))

    def sample(self, text_field: str, vector_field: str, limit: int) -> list[tuple[int, str, SparseVector]]:
        return [(key, *row) for key, row in enumerate(self.rows.vectors[:limit])]
