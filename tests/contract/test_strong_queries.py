"""How many strongly consistent queries a call makes: on a server, each waits for the next tick of 0.2 s."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import engines
from support.reference import split

from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.store.milvus.engine import EmbeddedEngine, Engine
from rag_bm25.store.milvus.server import Server

CONFIG = IndexConfig(chunk_size=4, length_unit="terms", analyzer=split)


@pytest.fixture
def queries(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The filter of each strongly consistent query."""
    made: list[str] = []
    call = Engine._call

    def noting(engine: Engine, method: str, *args: Any, **options: Any) -> Any:
        if method == "query" and options.get("consistency_level") == "Strong":
            made.append(options["filter"])
        return call(engine, method, *args, **options)

    monkeypatch.setattr(Engine, "_call", noting)
    return made


@pytest.fixture(params=["embedded", *engines.SERVERS])
def opened(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., BM25Index]]:
    """Opens an index as on a server, also where an embedded engine holds it."""
    if request.param == "embedded":
        if not engines.lite_version():
            pytest.skip("milvus-lite is not installed")
        monkeypatch.setattr(EmbeddedEngine, "exclusive", False)
        monkeypatch.setattr(EmbeddedEngine, "defers", False)
        monkeypatch.setattr(EmbeddedEngine, "keys_per_query", Server.keys_per_query)
    indexes: list[BM25Index] = []

    def open_(**options: Any) -> BM25Index:
        store = engines.open_store(request.param, tmp_path, read_only=options.get("read_only", False))
        indexes.append(BM25Index.from_store(store, config=CONFIG, refresh_interval=0, **options))
        return indexes[-1]

    yield open_
    for index in indexes[:1]:  # none where the test was skipped
        index._store.drop()
    for index in indexes:
        index.close()


def test_no_call_makes_more_queries_than_it_must(opened: Callable[..., BM25Index], queries: list[str]) -> None:
    index = opened()
    index.add(["apple pie"], ids=["a"])

    def count(call: Callable[[], object]) -> int:
        queries.clear()
        call()
        return len(queries)

    new, texts = [f"x{number}" for number in range(3_000)], ["fig tree"] * 3_000
    assert {
        "add": count(lambda: index.add(["banana split"], ids=["b"])),
        "update": count(lambda: index.add(["banana bread"], ids=["b"])),
        "delete": count(lambda: index.delete(["b"])),
        "refresh": count(index.refresh),
        "add of three batches": count(lambda: index.add(texts, ids=new)),
        "opening": count(lambda: opened(read_only=True)),
    } == {
        "add": 3,
        "update": 4,
        "delete": 4,
        "refresh": 1,
        "add of three batches": 9,
        "opening": 4 if index._store.storage_info().engine == "milvus-lite 2.5" else 5,  # it knows its number of rows
    }


def test_an_old_log_costs_one_query_more(
    opened: Callable[..., BM25Index], queries: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its head is read before the ends of the runs, however many these are; a first search reads their pages."""
    monkeypatch.setattr("rag_bm25.statistics.log.log.COMPACT_ABOVE", 2)
    index = opened()
    index.add(["apple pie"], ids=["a"])
    numbers = []
    for size in (0, 12, 24):
        for number in range(size):
            index.add([f"fig {size} {number}"], ids=[f"x{number}"])
        queries.clear()
        reader = opened(read_only=True)
        opening = len(queries)
        assert reader.search("apple")
        numbers.append((opening, len(queries) - opening))
    assert len(index._live.log._sums.head.runs) > 3
    (opening, first), *old = numbers  # each search asks what is new
    assert old == [(opening + 1, first + 1)] * 2
