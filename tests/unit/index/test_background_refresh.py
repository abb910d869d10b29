"""On a server the log is read in the background: a search uses the newest statistics there are, and waits for none."""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections.abc import Callable

import pytest
from support.clocks import PATIENCE
from support.memory_store import MemoryStore

from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.errors import StoreError
from rag_bm25.index import background_refresh

INTERVAL = 0.01


@pytest.fixture
def server() -> MemoryStore:
    return MemoryStore(exclusive=False)


@pytest.fixture
def writer(server: MemoryStore, config: IndexConfig) -> BM25Index:
    return BM25Index.from_store(server, config=config, refresh_interval=0)


def eventually(is_so: Callable[[], object]) -> bool:
    """Wait for something that another thread does."""
    end = time.monotonic() + PATIENCE
    while not (found := is_so()) and time.monotonic() < end:
        time.sleep(INTERVAL)
    return bool(found)


def refreshing() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "rag_bm25-refresh"]


@pytest.fixture(autouse=True)
def _no_thread_of_another_test() -> None:
    gc.collect()  # what holds an index that a test did not close
    assert eventually(lambda: not refreshing())


def opened(server: MemoryStore, config: IndexConfig, interval: float = INTERVAL) -> BM25Index:
    return BM25Index.from_store(server.reopen(), config=config, refresh_interval=interval)


def test_searches_see_the_writes_of_others_and_list_no_keys(
    writer: BM25Index, server: MemoryStore, config: IndexConfig
) -> None:
    callers: set[int] = set()
    store = server.reopen()
    with BM25Index.from_store(store, config=config, refresh_interval=INTERVAL) as reader:
        reader.search("apple")  # starts the thread
        store.on_call = lambda method: callers.add(threading.get_ident()) if method == "log_keys" else None
        writer.add(["apple"])
        assert eventually(lambda: reader.search("apple"))
    assert len(callers) == 1
    assert threading.get_ident() not in callers


def test_thread_begins_with_the_first_search_and_ends_with_the_index(server: MemoryStore, config: IndexConfig) -> None:
    with opened(server, config) as index:
        index.add(["apple"])
        assert refreshing() == []
        index.search("apple")
        [thread] = refreshing()
    thread.join(PATIENCE)
    assert not thread.is_alive()


@pytest.mark.parametrize("interval", [INTERVAL, 1e9])
def test_index_that_nobody_holds_is_collected(server: MemoryStore, config: IndexConfig, interval: float) -> None:
    index = opened(server, config, interval)
    index.search("apple")
    [thread] = refreshing()
    del index
    gc.collect()
    thread.join(PATIENCE)
    assert not thread.is_alive()


def test_thread_ends_where_nobody_searches_and_the_next_search_refreshes_first(
    writer: BM25Index, server: MemoryStore, config: IndexConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_refresh, "IDLE_INTERVALS", 2)
    with opened(server, config) as reader:
        reader.search("apple")
        [thread] = refreshing()
        thread.join(PATIENCE)
        assert not thread.is_alive()
        writer.add(["apple"])
        assert eventually(lambda: reader._live._is_due())
        monkeypatch.undo()  # the next thread must still be there
        assert len(reader.search("apple")) == 1
        assert len(refreshing()) == 1


def test_failing_refresh_is_told_once_and_stops_no_search(
    writer: BM25Index, server: MemoryStore, config: IndexConfig, caplog: pytest.LogCaptureFixture
) -> None:
    writer.add(["apple"])
    store = server.reopen()
    failures = 0

    def fail(method: str) -> None:
        nonlocal failures
        if method == "log_keys":
            failures += 1
            raise StoreError("no answer")

    with BM25Index.from_store(store, config=config, refresh_interval=INTERVAL) as reader:
        reader.search("apple")
        store.on_call = fail
        assert eventually(lambda: failures > 3)
        assert len(reader.search("apple")) == 1
        store.on_call = None
        writer.add(["apple pie"])
        assert eventually(lambda: len(reader.search("apple")) == 2)
    told = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(told) == 1
    assert "searches use older statistics: no answer" in told[0]


@pytest.mark.parametrize(("exclusive", "interval"), [(True, 1.0), (False, 0)])
def test_no_thread_where_a_search_refreshes_by_itself(config: IndexConfig, exclusive: bool, interval: float) -> None:
    with opened(MemoryStore(exclusive=exclusive), config, interval) as index:
        index.search("apple")
        assert refreshing() == []


def test_longest_interval_is_waited_for(server: MemoryStore, config: IndexConfig) -> None:
    with opened(server, config, 1e300) as index:
        index.search("apple")
        [thread] = refreshing()
        assert thread.is_alive()
    thread.join(PATIENCE)
    assert not thread.is_alive()


def test_search_refreshes_where_the_rows_of_its_statistics_are_gone(
    writer: BM25Index, server: MemoryStore, config: IndexConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A view that is two compactions old, and is asked for a namespace for the first time."""
    monkeypatch.setattr("rag_bm25.statistics.log.sums.FAN", 2)
    for number in range(4):
        writer.add([f"apple {number}"], ids=[str(number)], namespace="x")
        writer._live.log.compact(above=0)
        if not number:
            reader = opened(server, config, 3600)
    with reader:
        assert len(reader.search("apple", namespace="x")) == 4
        assert reader.stats(namespace="x").num_chunks == 4
