"""Copies to and from every engine: the same rows, the same scores."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from support.memory_store import MemoryStore
from support.reference import split

from rag_bm25 import BM25Index, FormatError, IndexConfig, Progress, StoreError
from rag_bm25.index.maintenance.copying import copy_index, drop_index
from rag_bm25.store.protocol import Store

CONFIG = IndexConfig(chunk_size=4, length_unit="terms", analyzer=split, dense_dim=3)
METADATA = {"page": 3, "ratio": 0.1, "tags": ["a", None, True], "big": 2**62, "中文": {"quote": "'\"\\\n"}}


@pytest.fixture
def source() -> MemoryStore:
    """An index in memory with all kinds of rows."""
    source = MemoryStore()
    dense = np.arange(1, 16, dtype=np.float32).reshape(5, 3) / 7
    with BM25Index.from_store(source.reopen(), config=CONFIG) as index:
        index.add(["apple fig", "fig", ""], ids=["1", "2", "'\"\\"], metadatas=[METADATA, {}, {}], embeddings=dense[:3])
        index.add(["apple apple", "中文 词"], ids=["1", "2"], namespace="x", embeddings=dense[3:])
        index.add(["apple"], ids=["2"], embeddings=dense[:1])
    return source


def assert_equal(store: Store, source: MemoryStore) -> None:
    """Compare all rows, and what searches give."""
    pks = list(source.collections.chunks)
    found = {row.pk: row for row in store.get_chunks(pks, vectors=True, dense=True)}
    assert found == source.collections.chunks
    assert store.count_chunks() == len(pks)
    for pk, row in found.items():
        assert np.array_equal(row.dense, source.collections.chunks[pk].dense)
    index, other = BM25Index.from_store(store, config=CONFIG), BM25Index.from_store(source.reopen(), config=CONFIG)
    assert index.verify().differences == []
    for names in ("", "x", None):
        hits, expected = (
            index.search("apple fig 中文", namespace=names),
            other.search("apple fig 中文", namespace=names),
        )
        assert [hit.id for hit in hits] == [hit.id for hit in expected]
        assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in expected], rel=1e-6)
        assert hits != []


def test_copy_there_and_back(opened: Callable[..., Store], source: MemoryStore) -> None:
    there, back = opened(), MemoryStore()
    copy_index(source, there)
    copy_index(there, back)
    assert_equal(there, source)
    assert_equal(back, source)
    drop_index(there)
    assert not there.exists()


def test_copy_that_was_cut_short(opened: Callable[..., Store], source: MemoryStore) -> None:
    def stop(_: Progress) -> None:
        raise StoreError("stop")

    with pytest.raises(StoreError, match="stop"):
        copy_index(source, opened(), progress=stop)
    with pytest.raises(FormatError, match="unfinished copy"):
        BM25Index.from_store(opened(), config=CONFIG, repair=True)
    assert copy_index(source, opened()).copied == 0
    assert_equal(opened(), source)


def test_collections_of_others_are_not_dropped(opened: Callable[..., Store], engine: str) -> None:
    if engine == "memory":
        pytest.skip("the in-memory store has no other schemas")
    foreign = opened()
    client, name = foreign._open.client, foreign.name.split("'")[-2]
    client.create_collection(name, dimension=4)
    try:
        with pytest.raises(FormatError, match="is not one of an index of this version; its fields differ"):
            drop_index(foreign)
        assert client.has_collection(name)
    finally:
        client.drop_collection(name)
