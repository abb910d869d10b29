"""Indexes that the tests of this folder share."""

from __future__ import annotations

import pytest
from support.clocks import Clocks
from support.memory_store import MemoryStore

from rag_bm25 import BM25Index


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    return Clocks(monkeypatch)


@pytest.fixture
def filled(index: BM25Index, store: MemoryStore) -> BM25Index:
    index.add(
        ["apple banana", "apple cherry", "fig"],
        ids=["1", "2", "3"],
        metadatas=[{"page": 1}, {"page": 2}, None],
    )
    store.calls.clear()
    return index
