"""Chunks with vectors that their texts do not give are written again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.faulty_store import FaultyStore, Moment
from support.memory_store import MemoryStore
from support.reference import split

from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.documents.chunks import pk_digest
from rag_bm25.errors import StoreError
from rag_bm25.index.maintenance.rewriting import RewriteBatches
from rag_bm25.store.rows import ChunkRow
from rag_bm25.vectors.sparse import SparseVector

CONFIG = IndexConfig(8, length_unit="terms", analyzer=split)


def vectors(store: MemoryStore) -> dict[str, dict[int, float]]:
    return {row.id: row.vector.to_dict() for row in store.collections.chunks.values()}


def spoiled(store: MemoryStore, config: IndexConfig = CONFIG, size: int = 8) -> BM25Index:
    """Fill an index, and change all of its vectors, as another config gives them."""
    index = BM25Index.from_store(store, config=config)
    dense = [[1.0, number] for number in range(size)] if config.dense_dim else None
    ids = list(map(str, range(size)))
    index.add([f"a b{number} a" for number in range(size)], ids=ids, metadatas=[{"n": 1}] * size, embeddings=dense)
    for pk, row in store.collections.chunks.items():
        store.collections.chunks[pk] = replace(row, vector=SparseVector(row.vector.ids, row.vector.values * 2))
    return index


def test_texts_metadata_and_dense_vectors_stay_as_they_are() -> None:
    index = spoiled(MemoryStore(), replace(CONFIG, dense_dim=2))
    before, dense = index.get(list("01234567")), index.search_dense([1.0, 3.0])
    assert index.repair().rewritten == 8
    assert index.get(list("01234567")) == before
    assert index.search_dense([1.0, 3.0]) == dense


@pytest.mark.parametrize("moment", ["before", "halfway", "after"])
def test_cut_short_at_every_step_it_can_be_done_again(moment: Moment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_bm25.index.maintenance.rewriting.MAX_BATCH_CHUNKS", 3)
    whole = MemoryStore()
    assert spoiled(whole).repair().rewritten == 8
    for calls in range(200):
        store = FaultyStore()
        index = spoiled(store)
        store.fail_at(calls, moment)
        try:
            index.repair()
        except StoreError:
            store.fail_at(None)
        else:
            break
        again = BM25Index.from_store(store.reopen(), config=CONFIG)
        again.repair()
        assert again.verify().ok
        assert vectors(store) == vectors(whole)
    assert 30 < calls < 199


def test_batches_are_small_enough_for_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_bm25.index.maintenance.rewriting.MAX_BATCH_BYTES", 10)
    monkeypatch.setattr("rag_bm25.index.maintenance.rewriting.MAX_BATCH_CHUNKS", 3)
    chunks = RewriteBatches()
    sizes = {"a": 4, "b": 6, "c": 1, "d": 20, "e": 1, "f": 1, "g": 1, "h": 1}
    digests = {pk_digest("", id_): id_ for id_ in sizes}
    chunks.note([ChunkRow(f"{pk_digest('', id_)}a", id_, "", 1, "", "x" * size) for id_, size in sizes.items()])
    chunks.note([ChunkRow(f"{pk_digest('', 'a')}b", "a", "", 1, "", "xxxx")])  # both slots of one chunk
    chunks.note([ChunkRow(f"{pk_digest('n', 'a')}a", "a", "n", 1, "", "x")])
    found = [
        (namespace, "".join(digests.get(digest, "?") for digest in batch)) for namespace, batch in chunks.batches()
    ]
    assert found == [("", "ab"), ("", "c"), ("", "d"), ("", "efg"), ("", "h"), ("n", "?")]
