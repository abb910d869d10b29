"""What the tests with processes, threads and faults share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import engines
from support.reference import split

from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.store.protocol import Store

sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts"))

CONFIG = IndexConfig(chunk_size=4, length_unit="terms", analyzer=split)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Let ``-k server`` choose every test that needs one, whatever its name."""
    if "server_uri" in getattr(item, "fixturenames", ()):
        item.extra_keyword_matches.add("server")


@pytest.fixture(scope="session")
def server_uri(pytestconfig: pytest.Config) -> str:
    """A server of milvus-lite 3."""
    engines.lite3_python = pytestconfig.getoption("--lite3-python", "") or engines.lite3_python
    return engines.server_uri()


@pytest.fixture
def embedded() -> str:
    """Version of the embedded engine, where there is one."""
    if not engines.lite_version():
        pytest.skip("milvus-lite is not installed")
    return engines.lite_version()


@pytest.fixture
def lite2(embedded: str) -> None:
    """Only with milvus-lite 2.5."""
    if not embedded.startswith("2."):
        pytest.skip(f"a matter of milvus-lite 2.5; {embedded} is installed")


@pytest.fixture
def opened() -> Iterator[Callable[..., BM25Index]]:
    """Opens indexes in stores, and closes them after the test."""
    indexes: list[BM25Index] = []

    def open_(store: Store, **options: bool) -> BM25Index:
        indexes.append(BM25Index.from_store(store, config=CONFIG, **options))
        return indexes[-1]

    yield open_
    for index in indexes:
        index.close()


@pytest.fixture
def compact_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let writers sum up the log after a few deltas."""
    monkeypatch.setattr("rag_bm25.statistics.log.log.max_waiting", lambda _: 3)
