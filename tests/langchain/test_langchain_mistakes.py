"""What LangChain's users do by mistake, and what they are told."""

from __future__ import annotations

import asyncio
import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableLambda
from support import engines
from support.langchain_models import Letters
from support.memory_store import MemoryStore
from support.reference import split

from rag_bm25 import BM25Index, IndexConfig, IndexNotFoundError, InputError, StoreError
from rag_bm25.langchain import (
    MilvusBM25Retriever,
    MilvusBM25VectorStore,
    MilvusHybridRetriever,
)

QUESTION: Any = {"question": "fade", "history": []}


@pytest.fixture
def model() -> Letters:
    return Letters()


@pytest.fixture
def retriever(index: BM25Index) -> MilvusBM25Retriever:
    return MilvusBM25Retriever.from_texts(["apple", "fig"], ids=["a", "f"], index=index)


@pytest.fixture
def hybrid(dense_index: BM25Index, model: Letters) -> MilvusHybridRetriever:
    made = MilvusHybridRetriever.from_texts(["fade", "bead"], index=dense_index, embedding=model)
    model.asked.clear()
    return made


class TestTheInputOfAChain:
    MESSAGE = (
        r"got a mapping with 'question': if this is the input of a chain, .* itemgetter\('question'\) \| retriever"
    )

    def test_is_no_query(self, retriever: MilvusBM25Retriever) -> None:
        for ask in (
            lambda: retriever.invoke(QUESTION),
            lambda: asyncio.run(retriever.ainvoke(QUESTION)),
            lambda: retriever.batch(["apple", QUESTION]),
            lambda: asyncio.run(retriever.abatch(["apple", QUESTION])),
            lambda: (RunnableLambda(lambda given: given) | retriever).invoke(QUESTION),
            lambda: MilvusBM25VectorStore(retriever.index).similarity_search(QUESTION),
        ):
            with pytest.raises(InputError, match=self.MESSAGE):
                ask()

    @pytest.mark.parametrize("mode", ["sparse", "dense", "hybrid"])
    def test_is_not_embedded(self, hybrid: MilvusHybridRetriever, model: Letters, mode: str) -> None:
        store = MilvusBM25VectorStore(hybrid.index, embedding=model)
        for ask in (
            lambda: hybrid.invoke(QUESTION, mode=mode),
            lambda: asyncio.run(hybrid.ainvoke(QUESTION, mode=mode)),
            lambda: store.similarity_search(QUESTION, mode=mode),
            lambda: asyncio.run(store.asimilarity_search(QUESTION, mode=mode)),
        ):
            with pytest.raises(InputError, match=self.MESSAGE):
                ask()
        assert model.asked == []

    def test_nor_is_anything_else_that_is_no_text(self, hybrid: MilvusHybridRetriever, model: Letters) -> None:
        query: Any
        for query in (7, None, ["fade"]):
            with pytest.raises(InputError, match="a query must be a str, a mapping of str to float or a Query, got"):
                hybrid.invoke(query)
        assert model.asked == []

    def test_boosts_are_a_query(
        self, retriever: MilvusBM25Retriever, hybrid: MilvusHybridRetriever, model: Letters
    ) -> None:
        query: Any = {"fig": 2.0, "apple": 1}
        assert [document.id for document in retriever.invoke(query)] == ["f", "a"]
        hybrid.invoke(query)
        assert model.asked == [("query", "fig apple")]


class TestUnknownOptions:
    KNOWN = r"the options are .*\bfilter\b.*\bnamespace\b.*\bsearch_params\b"

    @pytest.mark.parametrize("name", ["top_k", "answer", "expr"])
    def test_are_named_with_those_that_there_are(self, retriever: MilvusBM25Retriever, name: str) -> None:
        wrong: dict[str, Any] = {name: [7]}
        for ask in (
            lambda: retriever.invoke("apple", **wrong),
            lambda: asyncio.run(retriever.ainvoke("apple", **wrong)),
            lambda: retriever.batch(["apple"], **wrong),
            lambda: MilvusBM25Retriever(index=retriever.index, **wrong),
        ):
            with pytest.raises(TypeError, match=f"^unexpected keyword argument '{name}'.*; {self.KNOWN}"):
                ask()

    @pytest.mark.parametrize("mode", ["sparse", "dense", "hybrid"])
    def test_of_a_vector_store_likewise(self, hybrid: MilvusHybridRetriever, model: Letters, mode: str) -> None:
        store: Any = MilvusBM25VectorStore(hybrid.index, embedding=model, mode=mode)
        message = f"^unexpected keyword argument 'expr'; {self.KNOWN}"
        with pytest.raises(TypeError, match=message):
            store.similarity_search("fade", expr="page == 1")
        with pytest.raises(TypeError, match=message):
            store.similarity_search_by_vector([1.0] * 8, expr="page == 1")


@pytest.mark.parametrize("way", ["batch", "abatch"])
def test_a_store_that_fails_is_asked_once_for_a_batch(
    retriever: MilvusBM25Retriever, store: MemoryStore, way: str
) -> None:
    def fail(method: str) -> None:
        raise StoreError("cannot reach Milvus")

    def ask(**options: Any) -> Any:
        answer = getattr(retriever, way)(["apple", "fig", "apple fig"], **options)
        return asyncio.run(answer) if way == "abatch" else answer

    store.on_call = fail
    with pytest.raises(StoreError, match="cannot reach Milvus"):
        ask()
    assert store.calls.count("search") == 1
    assert [type(error) for error in ask(return_exceptions=True)] == [StoreError] * 3
    assert store.calls.count("search") == 2


@pytest.mark.parametrize("copied", [pickle.dumps, copy.deepcopy])
def test_an_index_is_not_taken_along(
    retriever: MilvusBM25Retriever, hybrid: MilvusHybridRetriever, copied: Callable[[object], object]
) -> None:
    for holder in (retriever.index, retriever, hybrid, MilvusBM25VectorStore(retriever.index)):
        with pytest.raises(TypeError, match=r"an index cannot be pickled or copied, .*: open it in each process"):
            copied(holder)


class TestFromUri:
    @pytest.fixture(autouse=True)
    def _installed(self) -> None:
        if not engines.lite_version():
            pytest.skip("milvus-lite is not installed")

    @pytest.mark.parametrize("kind", [MilvusBM25Retriever, MilvusHybridRetriever])
    def test_the_index_is_opened_and_closed(self, tmp_path: Path, kind: Any) -> None:
        uri, config = tmp_path / "rag.db", IndexConfig(chunk_size=4, analyzer=split)
        mode = {"mode": "sparse"} if kind is MilvusHybridRetriever else {}
        with kind.from_uri(uri, "docs", config=config, k=1, score_key="score", **mode) as retriever:
            retriever.index.add(["apple", "apple fig"], ids=["a", "b"])
            (found,) = retriever.invoke("fig")
            assert (found.id, retriever.k, retriever.index.config) == ("b", 1, config)
            assert retriever.invoke("fig", k=2)  # by a copy with other options, which does not close it
            assert retriever.batch(["fig"]) == [[found]]
        with pytest.raises(StoreError, match="is closed"):
            retriever.invoke("fig")
        retriever.close()
        with pytest.raises(TypeError, match="unexpected keyword argument 'top_k'"):  # and nothing is left open
            kind.from_uri(uri, "docs", config=config, top_k=1)
        with pytest.raises(IndexNotFoundError, match=r"^index not found"):
            kind.from_uri(uri, "other")

    def test_that_of_a_vector_store_likewise(self, tmp_path: Path) -> None:
        uri, config = tmp_path / "rag.db", IndexConfig(chunk_size=4, analyzer=split)

        async def use() -> MilvusBM25VectorStore:
            async with MilvusBM25VectorStore.from_uri(uri, "docs", config=config, namespace="ns") as store:
                await store.aadd_texts(["apple", "apple fig"], ids=["a", "b"])
                assert [document.id for document in await store.asimilarity_search("fig")] == ["b"]
                assert store.index.stats().namespaces == ["ns"]
            return store

        with pytest.raises(StoreError, match="is closed"):
            asyncio.run(use()).similarity_search("fig")
        with pytest.raises(TypeError, match="unexpected keyword argument 'k'"):
            MilvusBM25VectorStore.from_uri(uri, "docs", config=config, k=1)
        with MilvusBM25VectorStore.from_uri(uri, "docs", config=config) as store, store:
            pass

    def test_an_index_of_the_caller_s_stays_open(self, retriever: MilvusBM25Retriever) -> None:
        with retriever, MilvusBM25VectorStore(retriever.index):
            pass
        retriever.close()
        assert [document.id for document in retriever.invoke("fig")] == ["f"]


def test_what_is_no_document_is_named(index: BM25Index) -> None:
    with pytest.raises(InputError, match=r"^documents\[0\] must be a Document, got str$"):
        MilvusBM25Retriever.from_documents(["apple"], index=index)  # type: ignore[list-item]
