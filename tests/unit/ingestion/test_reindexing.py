"""An index made again with other parameters is what ingesting the same chunks anew gives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.answers import give_model
from support.faulty_store import FaultyStore
from support.memory_store import MemoryStore

from rag_bm25 import BM25Index, IndexConfig, ParameterError, Progress, StoreError
from rag_bm25.ingestion.reindexing import ReindexReport, reindex
from rag_bm25.store.protocol import Store

CHUNKS: dict[str, list[str]] = {"": ["apple fig", "fig", "apple apple grape"], "x": ["apple", ""]}


class Named(MemoryStore):
    """Another place than the source."""

    name = "another"  # type: ignore[assignment]


class NamedFaulty(FaultyStore):
    name = "another"  # type: ignore[assignment]


@pytest.fixture
def other(config: IndexConfig) -> IndexConfig:
    return replace(config, chunk_size=9, k1=0.9, analyzer=lambda text: text[::-1].split())


def fill(store: Store, config: IndexConfig, **options: Any) -> BM25Index:
    index = BM25Index.from_store(store, config=config)
    for namespace, texts in CHUNKS.items():
        ids, metadatas = [f"{at}" for at in range(len(texts))], [{"at": at} for at in range(len(texts))]
        index.add(texts, ids=ids, metadatas=metadatas, namespace=namespace, **options)
    return index


def contents(index: BM25Index) -> Any:
    """All rows but for what names the write."""
    rows = index._store.get_chunks(list(index._store.collections.chunks), vectors=True, dense=True)  # type: ignore[attr-defined]
    return sorted(
        (row.namespace, row.id, row.text, str(row.metadata), row.length, row.vector.to_dict(), _listed(row.dense))
        for row in rows
    )


def _listed(dense: Any) -> Any:
    return None if dense is None else dense.tolist()


def test_target_is_what_ingesting_anew_gives(config: IndexConfig, other: IndexConfig) -> None:
    source, target = fill(MemoryStore(), config), BM25Index.from_store(Named(), config=other)
    told: list[Progress] = []
    assert reindex(source, target, progress=told.append) == ReindexReport(5, 0)
    anew = fill(MemoryStore(), other)
    assert contents(target) == contents(anew) != contents(source)
    assert target.verify().ok
    assert [hit.score for hit in target.search("fig")] == [hit.score for hit in anew.search("fig")] != []
    assert told == [Progress("chunks encoded", done, 5) for done in (3, 5)]


def test_dense_vectors_are_carried_over(config: IndexConfig) -> None:
    config = replace(config, dense_dim=2)
    source = BM25Index.from_store(MemoryStore(), config=config)
    dense = np.array([[1, 2], [3, 4]], np.float32)
    source.add(["apple", "fig"], ids=["1", "2"], embeddings=dense)
    target = BM25Index.from_store(Named(), config=replace(config, k1=3.0))
    reindex(source, target)
    found = target.get_embeddings(["1", "2"])
    assert np.array_equal(np.stack([found["1"], found["2"]]), dense)


def test_fault_at_any_call_and_then_again(config: IndexConfig, other: IndexConfig) -> None:
    source, expected = fill(MemoryStore(), config), contents(fill(MemoryStore(), other))
    failures = 0
    for calls in range(100):
        store = NamedFaulty()
        target = BM25Index.from_store(store, config=other)
        store.fail_at(calls, "after")
        try:
            reindex(source, target)
        except StoreError:
            failures += 1
            reindex(source, target)
        else:
            break
        assert contents(target) == expected
        assert target.verify().ok
    assert 5 < failures < 99


def test_running_again_catches_up_and_writes_nothing_else(config: IndexConfig, other: IndexConfig) -> None:
    source, store = fill(MemoryStore(), config), Named()
    target = BM25Index.from_store(store, config=other)
    reindex(source, target)
    source.add(["cherry"], ids=["0"])
    source.delete(["1"])
    source.drop_namespace("x")
    store.calls.clear()
    assert reindex(source, target) == ReindexReport(2, 3)
    assert store.calls.count("insert_chunks") == 1
    assert {chunk.id: chunk.text for chunk in target.chunks(namespace=None)} == {
        "0": "cherry",
        "2": "apple apple grape",
    }
    assert target.verify().ok


def test_the_model_of_answers_goes_along_where_no_parameter_differs(config: IndexConfig, other: IndexConfig) -> None:
    source = fill(MemoryStore(), config)
    model = give_model(source)
    same, changed = BM25Index.from_store(Named(), config=config), BM25Index.from_store(Named(), config=other)
    lucene = BM25Index.from_store(Named(), config=replace(config, idf="lucene"))
    lost = [reindex(source, target).model_lost for target in (same, changed, lucene)]
    assert lost == [False, True, True]
    assert [index._live.view.answers for index in (same, changed, lucene)] == [model, None, None]


def test_a_reindex_in_place_tells_that_it_has_lost_the_model(config: IndexConfig, other: IndexConfig) -> None:
    store = MemoryStore()
    index = fill(store, config)
    give_model(BM25Index.from_store(store.reopen(), config=config))  # another process
    assert [reindex(index, asked).model_lost for asked in (config, other, config)] == [False, True, False]


def test_index_is_not_its_own_source(config: IndexConfig) -> None:
    source = fill(MemoryStore(), config)
    with pytest.raises(ParameterError, match="source and target must be different indexes, got memory for both"):
        reindex(source, source)


def test_dense_vectors_must_fit(config: IndexConfig) -> None:
    source, target = fill(MemoryStore(), config), BM25Index.from_store(Named(), config=replace(config, dense_dim=2))
    with pytest.raises(ParameterError, match=r"must be those of the source, None, got DenseField\(dim=2"):
        reindex(source, target)
