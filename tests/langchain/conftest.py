"""Indexes on every engine that can be had in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from importlib.util import find_spec
from itertools import count

import pytest
from support import engines
from support.langchain_models import DIM
from support.memory_store import MemoryStore
from support.reference import split

from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.store.protocol import Store

# LangChain's own suites bring pytest plugins along, and have an environment of their own: `make test-langchain`.
collect_ignore = [] if find_spec("langchain_tests") else ["test_langchain_suites.py"]


@pytest.fixture(scope="session", params=["memory", "embedded"])
def new_store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[], Store]]:
    """Opens stores with nothing in them; an embedded engine is started once for all of them."""
    if request.param == "embedded" and not engines.lite_version():
        pytest.skip("milvus-lite is not installed")
    folder = tmp_path_factory.mktemp("langchain")
    numbers = count()
    with closing(engines.open_store(request.param, folder)):
        yield lambda: engines.open_store(request.param, folder, f"docs_{next(numbers)}")


@pytest.fixture
def engine_index(new_store: Callable[[], Store]) -> Iterator[BM25Index]:
    """An empty index on each engine."""
    with BM25Index.from_store(new_store(), config=IndexConfig(chunk_size=20)) as index:
        yield index


@pytest.fixture
def dense_engine_index(new_store: Callable[[], Store]) -> Iterator[BM25Index]:
    """An empty index with dense vectors, on each engine."""
    with BM25Index.from_store(new_store(), config=IndexConfig(chunk_size=20, dense_dim=DIM)) as index:
        yield index


@pytest.fixture
def dense_store() -> MemoryStore:
    """What holds the rows of `dense_index`."""
    return MemoryStore()


@pytest.fixture
def dense_index(dense_store: MemoryStore) -> BM25Index:
    """An empty index with dense vectors, in memory."""
    config = IndexConfig(chunk_size=4, length_unit="terms", analyzer=split, dense_dim=DIM)
    return BM25Index.from_store(dense_store, config=config)
