"""Stores on every engine that can be had here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import engines

from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.store.milvus import MilvusStore
from rag_bm25.store.protocol import Store


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--lite3-python", default="", help="a Python that has milvus-lite 3, to test servers with")


@pytest.fixture(scope="session", autouse=True)
def _lite3_python(pytestconfig: pytest.Config) -> None:
    engines.lite3_python = pytestconfig.getoption("--lite3-python", "") or engines.lite3_python


@pytest.fixture(params=engines.ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """The engine's name."""
    if request.param == "embedded" and not engines.lite_version():
        pytest.skip("milvus-lite is not installed")
    return str(request.param)


@pytest.fixture
def opened(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[..., Store]]:
    """Opens stores, and closes them after the test."""
    stores: list[Store] = []
    if engine == "embedded" and not request.node.get_closest_marker("own_engine"):
        engine = "shared"

    def open_(name: str = "docs", **options: bool) -> Store:
        stores.append(engines.open_store(engine, tmp_path, name, **options))
        return stores[-1]

    yield open_
    for store in stores:
        store.close()


@pytest.fixture
def store(opened: Callable[..., Store]) -> Iterator[Store]:
    """A store with both collections, empty."""
    made = opened()
    made.create()
    yield made
    opened().drop()


@pytest.fixture
def new_index(opened: Callable[..., Store]) -> Iterator[Callable[[IndexConfig], BM25Index]]:
    """Makes the index of the test, which is closed and dropped after it."""
    from rag_bm25 import BM25Index

    made: list[BM25Index] = []

    def make(config: IndexConfig) -> BM25Index:
        opened().drop()
        made.append(BM25Index.from_store(opened(), config=config))
        return made[-1]

    yield make
    for index in made:
        index.close()
        opened().drop()


@pytest.fixture
def milvus(engine: str, opened: Callable[..., Store]) -> Callable[..., MilvusStore]:
    """Opens stores that are not in memory."""
    if engine == "memory":
        pytest.skip("a matter of Milvus")
    return opened  # type: ignore[return-value]
