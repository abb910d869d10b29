"""LangChain's ``index()`` and ``aindex()`` leave exact statistics."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.documents import Document
from langchain_core.indexing import InMemoryRecordManager, aindex
from langchain_core.indexing import index as index_documents

from rag_bm25.langchain import MilvusBM25DocumentIndex, MilvusBM25VectorStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from rag_bm25 import BM25Index


def page(text: str, source: str) -> Document:
    return Document(text, metadata={"source": source})


FIRST = [page("apple banana", "x"), page("cherry", "x"), page("fig apple", "y"), page("fig apple", "y")]
CHANGED = [page("apple banana grape", "x"), page("fig apple", "y")]


@pytest.fixture(params=["vector store", "document index"])
def target(request: pytest.FixtureRequest, engine_index: BM25Index) -> Any:
    if request.param == "vector store":
        return MilvusBM25VectorStore(engine_index)
    return MilvusBM25DocumentIndex(index=engine_index)


@pytest.fixture(params=["index", "aindex"])
def run(request: pytest.FixtureRequest, target: Any) -> Callable[..., Any]:
    manager = InMemoryRecordManager("test")
    manager.create_schema()

    def run(documents: list[Document], **options: Any) -> Any:
        options = {"source_id_key": "source", "key_encoder": "blake2b", "batch_size": 2, **options}
        if request.param == "index":
            return index_documents(documents, manager, target, **options)
        return asyncio.run(aindex(documents, manager, target, **options))

    return run


def stored(index: BM25Index) -> list[str]:
    assert index.verify().differences == []
    return sorted(chunk.text for chunk in index.chunks())


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
    run: Callable[..., Any], engine_index: BM25Index, cleanup: Any, left: list[str]
) -> None:
    assert run(FIRST, cleanup=cleanup)["num_added"] == 3
    assert stored(engine_index) == ["apple banana", "cherry", "fig apple"]
    again = run(FIRST, cleanup=cleanup)
    assert (again["num_added"], again["num_deleted"]) == (0, 0)
    run(CHANGED, cleanup=cleanup)
    assert stored(engine_index) == left


def test_full_clean_up_of_nothing_deletes_everything(run: Callable[..., Any], engine_index: BM25Index) -> None:
    run(FIRST, cleanup="full")
    assert run([], cleanup="full")["num_deleted"] == 3
    assert stored(engine_index) == []
    assert engine_index.stats().num_terms == 0


def test_a_forced_update_counts_nothing_twice(run: Callable[..., Any], engine_index: BM25Index) -> None:
    run(FIRST)
    before = engine_index.stats()
    assert run(FIRST, force_update=True)["num_updated"] == 3
    assert engine_index.stats() == before
    assert stored(engine_index) == ["apple banana", "cherry", "fig apple"]
