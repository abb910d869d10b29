"""Several writers, threads, and keys."""

from __future__ import annotations

import pytest
from support.memory_store import MemoryStore

from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.documents.chunks import pk_digest
from rag_bm25.index import live_statistics as module

# Several writers on a server


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that the index sees, to be set by the test."""
    now = [1000.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


def test_refresh_sees_others_at_once(config: IndexConfig, clock: list[float]) -> None:
    store = MemoryStore(exclusive=False)
    writer = BM25Index.from_store(store, config=config)
    with BM25Index.from_store(store.reopen(), config=config, refresh_interval=5) as reader:
        writer.add(["apple"])
        reader.refresh()
        assert len(reader.search("apple")) == 1


def test_writer_sees_its_own_writes_at_once(config: IndexConfig, clock: list[float]) -> None:
    with BM25Index.from_store(MemoryStore(exclusive=False), config=config, refresh_interval=1e9) as index:
        index.add(["apple"])
        assert len(index.search("apple")) == 1


def test_embedded_index_never_looks_for_others(filled: BM25Index, store: MemoryStore, clock: list[float]) -> None:
    clock[0] += 1e9
    filled.search("apple")
    assert store.calls == ["search"]


# Namespaces


def test_stats_name_the_namespaces_that_have_chunks(index: BM25Index) -> None:
    index.add(["apple"], namespace="one")
    index.add(["apple"], namespace="two")
    index.drop_namespace("one")
    assert index.stats().namespaces == ["two"]
    assert index.stats(namespace="one").num_chunks == 0


# Keys


def test_keys_are_digests_and_slots_and_never_the_ids(index: BM25Index, store: MemoryStore) -> None:
    odd = ["it's", 'a"b', "back\\slash", "line\nbreak", "中文"]
    index.add(["apple"] * len(odd), ids=odd, namespace="law")
    assert set(store.collections.chunks) == {pk_digest("law", id_) + "a" for id_ in odd}
    assert [chunk.id for chunk in index.get(odd, namespace="law")] == odd
