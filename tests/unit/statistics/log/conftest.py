from __future__ import annotations

import pytest
from support.clocks import Clocks
from support.memory_store import MemoryStore

from rag_bm25.statistics.log.log import StatisticsLog


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    return Clocks(monkeypatch)


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    store.create()
    return store


@pytest.fixture
def log(store: MemoryStore) -> StatisticsLog:
    return StatisticsLog(store)


@pytest.fixture
def small_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut every kind of entry after a few items, so that all of them have several rows."""
    monkeypatch.setattr("rag_bm25.statistics.log.terms.TERMS_PER_ROW", 2)
    monkeypatch.setattr("rag_bm25.statistics.log.packing.COUNTS_PER_ROW", 2)
    monkeypatch.setattr("rag_bm25.statistics.log.terms.FEW_TERMS", 4)
    monkeypatch.setattr("rag_bm25.statistics.log.table.ROWS_PER_INSERT", 1)
