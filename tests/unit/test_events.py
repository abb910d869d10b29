"""What an index tells: the right counts, to the logger and to the hook, and nothing of what is stored."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest
from support.clocks import PATIENCE
from support.faulty_store import FaultyStore
from support.memory_store import MemoryStore

from rag_bm25 import BM25Index, Event, IndexConfig, StoreError
from rag_bm25.store.milvus import server
from rag_bm25.store.milvus.connection import Connection

SECRETS = ("apple", "fig", "kim", "tenant-7", "page", "sesame")


class Told(list[Event]):
    """Events in order."""

    def of(self, name: str) -> list[dict[str, int]]:
        return [dict(event.counts) for event in self if event.name == name]


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def opened(config: IndexConfig, told: Told) -> Callable[..., BM25Index]:
    return lambda store, **options: BM25Index.from_store(store, config=config, on_event=told.append, **options)


def everything(index: BM25Index) -> None:
    """Do all that is told of."""
    index.add(["apple fig", "fig"], ids=["kim", "2"], metadatas=[{"page": 3}, None], namespace="tenant-7")
    index.add(["apple"], ids=["2"], namespace="tenant-7")
    index.add(["apple"], ids=["2"], namespace="tenant-7")
    index.search("apple", namespace="tenant-7")
    index.delete(["kim"], namespace="tenant-7")
    index.verify()
    index.repair()


def test_counts(opened: Callable[..., BM25Index], told: Told, store: MemoryStore) -> None:
    everything(opened(store))
    assert told.of("batch") == [
        {"inserted": 2, "deleted": 0, "terms": 2},
        {"inserted": 1, "deleted": 1, "terms": 0},
        {"inserted": 0, "deleted": 1, "terms": 0},
    ]
    assert told.of("search") == [{"queries": 1, "hits": 2}]
    assert told.of("verify") == [{"chunks": 1, "terms": 1, "differences": 0}]
    (repair,) = told.of("repair")
    assert (repair["num_chunks"], repair["unfinished"]) == (1, 0)
    assert {"log_rows": 9, "deltas": 3} in told.of("refresh")
    assert {event.index for event in told} == {"memory"}
    assert all(event.seconds >= 0 for event in told)


def test_drift_is_counted(opened: Callable[..., BM25Index], told: Told, store: MemoryStore) -> None:
    index = opened(store)
    index.add(["apple"])
    store.collections.chunks.clear()
    index.verify()
    assert told.of("verify")[0]["differences"] == 3


def test_recovery_and_compaction(opened: Callable[..., BM25Index], told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_bm25.statistics.log.log.max_waiting", lambda _: 2)
    store = FaultyStore()
    index = opened(store)
    for number in range(4):
        index.add([f"apple {number}"])
    assert told.of("compaction") == [{"deltas": 3}]
    store.on_call = lambda method: stop() if method == "insert_chunks" else None
    with pytest.raises(StoreError):
        index.add(["fig", "grape"])
    assert told.of("recovery") == []
    opened(store.reopen()).close()
    assert told.of("recovery") == [{"chunks": 2}]
    assert len(told.of("batch")) == 4


def stop() -> None:
    raise StoreError("stop")


def test_log_records_have_the_fields_and_nothing_that_is_stored(
    opened: Callable[..., BM25Index], told: Told, store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "rag_bm25"):
        everything(opened(store))
    assert [vars(record)["event"] for record in caplog.records] == [event.name for event in told]
    for record, event in zip(caplog.records, told, strict=True):
        fields = vars(record)
        assert record.name == "rag_bm25"
        assert record.levelno == (logging.DEBUG if event.name in ("refresh", "search") else logging.INFO)
        assert (fields["index"], fields["seconds"]) == (event.index, event.seconds)
        assert {name: fields[name] for name in event.counts} == dict(event.counts)
        assert not [word for word in SECRETS if word in f"{record.getMessage()}{asdict(event)}"]
    batch = next(record for record in caplog.records if vars(record)["event"] == "batch")
    assert batch.getMessage().startswith("batch: inserted 2, deleted 0, terms 2 in ")


def test_no_log_record_and_no_repr_has_a_token(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Client:
        def __getattr__(self, name: str) -> Any:
            return self

        def __call__(self, *_: object, **__: object) -> str:
            return "2.6"

    monkeypatch.setattr(server, "connect_client", lambda *_, **__: Client())
    with caplog.at_level(logging.DEBUG):
        one = server.connect(Connection("http://kim:sesame@host", "kim:sesame"))
    assert "sesame" not in f"{one!r}{one.name}{caplog.text}"


def test_hook_that_fails_stops_nothing(
    config: IndexConfig, store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: Event) -> None:
        raise ZeroDivisionError

    index = BM25Index.from_store(store, config=config, on_event=fail)
    index.add(["apple"])
    assert index.verify().ok
    assert "on_event failed at batch" in caplog.text


def test_nothing_is_printed_and_no_handler_installed_by_default() -> None:
    script = """
import logging
from support.memory_store import MemoryStore
from rag_bm25 import BM25Index, IndexConfig
with BM25Index.from_store(MemoryStore(), config=IndexConfig(chunk_size=9)) as index:
    index.add(["apple"])
    index.repair()
logger = logging.getLogger("rag_bm25")
print(logger.handlers, logger.level, logging.getLogger().handlers)
"""
    run = subprocess.run([sys.executable, "-c", script], env={"PYTHONPATH": ":".join(sys.path)}, capture_output=True)
    assert (run.stdout, run.stderr) == (b"[] 0 []\n", b"")


@pytest.mark.parametrize("read", ["search", "refresh", "stats"])
def test_hook_may_write_while_another_thread_does(read: str, config: IndexConfig) -> None:
    """It is called when the lock of the statistics is free: a writer takes that second."""
    store = MemoryStore(exclusive=False)
    reading, hooked = threading.Event(), threading.Event()

    def write_too(_: Event) -> None:
        if threading.current_thread() is reader and not hooked.is_set():
            hooked.set()
            writer.start()
            reading.wait(0.2)  # the writer has its first lock by now, and waits for the second, or has written
            index.add(["fig"], ids=["hook"])

    index = BM25Index.from_store(store, config=config, on_event=write_too, refresh_interval=0)
    index.add(["apple"])
    reads: dict[str, Callable[[], object]] = {
        "search": lambda: index.search("apple"),
        "refresh": index.refresh,
        "stats": index.stats,
    }
    reader = threading.Thread(target=reads[read], daemon=True)
    writer = threading.Thread(target=lambda: index.add(["fig"], ids=["thread"]), daemon=True)
    reader.start()
    reader.join(PATIENCE)
    assert hooked.is_set()
    assert not reader.is_alive()
    writer.join(PATIENCE)
    assert {chunk.id for chunk in index.get(["hook", "thread"])} == {"hook", "thread"}
    assert index.verify().ok
