"""LangChain's ``index()`` and ``aindex()`` leave exact statistics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.indexing import InMemoryRecordManager, aindex
from langchain_core.indexing import index as index_documents
from support.langchain_models import DIM, Letters, vector_of

from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.langchain import MilvusBM25VectorStore
from rag_bm25.store.protocol import Store


def page(text: str, source: str) -> Document:
    return Document(text, metadata={"source": source})


FIRST = [page("apple banana", "x"), page("cherry", "x"), page("fig apple", "y"), page("fig apple", "y")]
CHANGED = [page("apple banana grape", "x"), page("fig apple", "y")]


# Every combination in memory; on an engine, where creating an index takes half a second, each way of each thing once.
EVERY_WAY = [
    *(pytest.param("memory", dim, way) for dim in (None, DIM) for way in ("index", "aindex")),
    pytest.param("embedded", None, "aindex"),
    pytest.param("embedded", DIM, "index"),
]
every_way = pytest.mark.parametrize(("new_store", "dim", "way"), EVERY_WAY, indirect=["new_store"])


@pytest.fixture
def an_index(dim: int | None, new_store: Callable[[], Store]) -> Iterator[BM25Index]:
    with BM25Index.from_store(new_store(), config=IndexConfig(chunk_size=20, dense_dim=dim)) as index:
        yield index


@pytest.fixture
def run(way: str, an_index: BM25Index) -> Callable[..., Any]:
    target = MilvusBM25VectorStore(an_index, embedding=Letters() if an_index.config.dense_dim else None)
    manager = InMemoryRecordManager("test")
    manager.create_schema()

    def run(documents: list[Document], **options: Any) -> Any:
        options = {"source_id_key": "source", "key_encoder": "blake2b", "batch_size": 2, **options}
        if way == "index":
            return index_documents(documents, manager, target, **options)
        return asyncio.run(aindex(documents, manager, target, **options))

    return run


def stored(index: BM25Index) -> list[str]:
    """Return the texts, after a look at the statistics and at the dense vectors."""
    assert index.verify().differences == []
    chunks = list(index.chunks())
    if index.config.dense_dim:
        vectors = index.get_embeddings([chunk.id for chunk in chunks])
        for chunk in chunks:
            assert vectors[chunk.id].tolist() == np.float32(vector_of(chunk.text)).tolist()
    return sorted(chunk.text for chunk in chunks)


@every_way
@pytest.mark.parametrize(
    ("cleanup", "left"),
    [
        ("incremental", ["apple banana grape", "fig apple"]),
        ("full", ["apple banana grape", "fig apple"]),
        ("scoped_full", ["apple banana grape", "fig apple"]),
        (None, ["apple banana", "apple banana grape", "cherry", "fig apple"]),
    ],
)
def test_every_clean_up_leaves_what_it_should(
    run: Callable[..., Any], an_index: BM25Index, cleanup: Any, left: list[str]
) -> None:
    assert run(FIRST, cleanup=cleanup)["num_added"] == 3
    assert stored(an_index) == ["apple banana", "cherry", "fig apple"]
    again = run(FIRST, cleanup=cleanup)
    assert (again["num_added"], again["num_deleted"]) == (0, 0)
    run(CHANGED, cleanup=cleanup)
    assert stored(an_index) == left


@every_way
def test_full_clean_up_of_nothing_deletes_everything(run: Callable[..., Any], an_index: BM25Index) -> None:
    run(FIRST, cleanup="full")
    assert run([], cleanup="full")["num_deleted"] == 3
    assert stored(an_index) == []
    assert an_index.stats().num_terms == 0


@every_way
def test_a_forced_update_counts_nothing_twice(run: Callable[..., Any], an_index: BM25Index) -> None:
    run(FIRST)
    before = an_index.stats()
    assert run(FIRST, force_update=True)["num_updated"] == 3
    assert an_index.stats() == before
    assert stored(an_index) == ["apple banana", "cherry", "fig apple"]


@pytest.mark.parametrize("reembed", [False, True])
def test_a_forced_update_replaces_vectors_where_that_is_asked_for(dense_engine_index: BM25Index, reembed: bool) -> None:
    class Another(Letters):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [[1.0] * DIM for _ in texts]

    manager = InMemoryRecordManager("test")
    manager.create_schema()
    options: dict[str, Any] = {"key_encoder": "blake2b", "force_update": True, "upsert_kwargs": {"reembed": reembed}}
    for model in (Letters(), Another()):
        index_documents(FIRST, manager, MilvusBM25VectorStore(dense_engine_index, embedding=model), **options)
    vectors = dense_engine_index.get_embeddings([chunk.id for chunk in dense_engine_index.chunks()])
    assert len(vectors) == 3
    assert all((vector == 1).all() == reembed for vector in vectors.values())
    assert dense_engine_index.verify().differences == []
