"""Texts for bulk loading, and what was made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rag_bm25 import (
    BM25Index,
    IndexConfig,
)
from rag_bm25.bulk.merging import read_manifest
from rag_bm25.bulk.rows import read_groups, rows_of

if TYPE_CHECKING:
    from pathlib import Path

    from rag_bm25.store.rows import ChunkRow
    from support.memory_store import MemoryStore


ROWS = [
    {"text": "apple pie", "id": "1", "metadata": {"p": 1}},
    {"text": "banana split apple", "id": "2"},
    {"text": "", "id": "3"},
    {"text": "grape"},
    {"text": "fig fig", "id": "'\"\\"},
]
QUERIES = ["apple fig", "banana", "grape", "pie split"]


def letters(text: str) -> list[str]:
    return list(text)


def stored_rows(folder: Path) -> list[ChunkRow]:
    parts = read_manifest(folder).parts
    return [row for part in parts for table in read_groups(folder / part.data.name) for row in rows_of(table)]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def answers(store: MemoryStore, config: IndexConfig) -> Any:
    """Everything that can be seen of an index."""
    with BM25Index.from_store(store.reopen(), config=config) as index:
        assert index.verify().differences == []
        return [index.search(query) for query in QUERIES], index.stats(), sorted(c.id for c in index.chunks())
