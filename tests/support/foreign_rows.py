"""A collection that others fill, as an ingestion sees it; the engines are in the contract tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from rag_bm25.errors import IndexNotFoundError, ParameterError
from rag_bm25.ingestion import CollectionRows
from rag_bm25.store.milvus.connection import Connection

FIELDS = {"pk": "INT64", "body": "VARCHAR", "emb": "FLOAT_VECTOR", "other": "FLOAT_VECTOR"}


class ForeignRows:
    """What stands in for an ExternalCollection: its rows, which tests change, and how it was opened."""

    key = "pk"

    def __init__(self, patch: pytest.MonkeyPatch | None = None) -> None:
        self.stored: list[dict[str, Any]] = []
        self.dim, self.metric = 2, "COSINE"
        self.page = 3
        self.opened: list[tuple[str, str, str | None]] = []
        self.closed = 0
        self.on_page: Callable[[int], None] = lambda _: None
        if patch is not None:
            patch.setattr("rag_bm25.ingestion.collection_rows.ExternalCollection", self.open)

    def open(self, connection: Connection, collection: str) -> ForeignRows:
        self.opened.append((str(connection.uri), collection, connection.token))
        if collection == "absent":
            raise IndexNotFoundError(f"collection {collection!r} not found at {connection.place}")
        return self

    def close(self) -> None:
        self.closed += 1

    @property
    def values(self) -> list[str]:
        return [name for name, kind in FIELDS.items() if not kind.endswith("VECTOR")] + ["$meta"]

    def check_field(self, parameter: str, field: str, datatype: str, *, dynamic: bool = False) -> None:
        if FIELDS.get(field, datatype if dynamic else "") != datatype:
            raise ParameterError(f"{parameter} must be a {datatype} field, got {field!r}")

    def describe_vectors(self, field: str) -> tuple[int, str]:
        assert field in FIELDS
        return self.dim, self.metric

    def count(self) -> int:
        return len(self.stored)

    def rows(self, output: Sequence[str]) -> Iterator[list[dict[str, Any]]]:
        """Give what is asked for, page by page, as an engine does."""
        for start in range(0, len(self.stored), self.page):
            self.on_page(start)
            yield [
                {name: value for name, value in row.items() if name in output or name not in FIELDS}
                for row in self.stored[start : start + self.page]
            ]


def collection_rows(**options: Any) -> CollectionRows:
    """Open the collection ``mine``."""
    return CollectionRows("any.db", "mine", **{"text_field": "body", **options})
