"""An index for files."""

from __future__ import annotations

import pytest
from support.files import CONFIG
from support.memory_store import MemoryStore

from rag_bm25 import BM25Index


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def index(store: MemoryStore) -> BM25Index:
    return BM25Index.from_store(store, config=CONFIG)
