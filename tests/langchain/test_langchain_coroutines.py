"""LangChain's coroutines run in the threads that those of an index run in."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.documents import Document
from support.langchain_models import Letters
from support.memory_store import MemoryStore

from rag_bm25 import BM25Index
from rag_bm25.langchain import MilvusBM25Retriever, MilvusBM25VectorStore

DOCUMENT = Document(id="a", page_content="fade")


@pytest.fixture
def threads(dense_store: MemoryStore) -> set[str]:
    """The threads that called the store."""
    seen: set[str] = set()
    dense_store.on_call = lambda _: seen.add(threading.current_thread().name)
    return seen


@pytest.mark.parametrize(
    "write",
    [
        lambda index: MilvusBM25VectorStore(index, embedding=Letters()).aadd_documents([DOCUMENT]),
        lambda index: MilvusBM25VectorStore(index, embedding=Letters()).aadd_texts(["fade"], reembed=True),
        lambda index: MilvusBM25VectorStore(index).adelete(["a"]),
    ],
)
def test_writes_wait_in_the_thread_of_the_index(
    dense_index: BM25Index, threads: set[str], write: Callable[[BM25Index], Any]
) -> None:
    asyncio.run(write(dense_index))
    assert {name.partition("_0")[0] for name in threads} == {"rag_bm25-write"}


@pytest.mark.parametrize("way", ["ainvoke", "abatch"])
def test_searches_run_in_those_of_the_loop(index: BM25Index, store: MemoryStore, way: str) -> None:
    index.add(["fade"])
    seen: list[str] = []
    store.on_call = lambda _: seen.append(threading.current_thread().name)
    asyncio.run(getattr(MilvusBM25Retriever(index=index), way)("fade" if way == "ainvoke" else ["fade"]))
    assert all(name.startswith("asyncio") for name in seen)
    assert seen
