"""Writes that failed, but that a server was still busy with: they take place later, and harm nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.clocks import Clocks
from support.late_store import LATE_SECONDS, LateStore

from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.errors import StoreError
from rag_bm25.index.writing.chunk_writer import LEASE_SECONDS


@pytest.fixture
def store(clocks: Clocks) -> LateStore:
    return LateStore()


@pytest.fixture
def index(store: LateStore, config: IndexConfig) -> BM25Index:
    index = opened(store, config)
    index.add(["apple", "fig"], ids=["a", "x"])
    return index


def opened(store: LateStore, config: IndexConfig) -> BM25Index:
    return BM25Index.from_store(store, config=config, refresh_interval=0)


@pytest.fixture(params=["the same writer", "another one"])
def next_one(request: pytest.FixtureRequest, index: BM25Index, config: IndexConfig) -> BM25Index:
    """The index that writes after a failure."""
    return index if request.param == "the same writer" else opened(index._store.reopen(), config)  # type: ignore[attr-defined]


def fail(index: BM25Index, method: str, write: Callable[[], object]) -> None:
    """Write, while one call of the store fails and takes place later."""
    index._store.failing = method  # type: ignore[attr-defined]
    with pytest.raises(StoreError, match="lost"):
        write()


def assert_sound(index: BM25Index, clocks: Clocks, expected: dict[str, str]) -> None:
    """Check the chunks when nothing is left that may be late."""
    clocks.wait(LATE_SECONDS)
    index.search("apple")
    assert {chunk.id: chunk.text for chunk in index.chunks()} == expected
    assert {hit.id: hit.text for hit in index.search("apple banana cherry fig pie")} == expected
    assert index.verify().differences == []


@pytest.mark.parametrize("id_", ["a", "new"])
def test_a_row_that_lands_late_shadows_no_newer_one(
    id_: str, index: BM25Index, next_one: BM25Index, clocks: Clocks
) -> None:
    fail(index, "insert_chunks", lambda: index.add(["banana"], ids=[id_]))
    assert next_one.search("banana") == []
    next_one.add(["cherry"], ids=[id_])
    assert_sound(next_one, clocks, {"a": "apple", "x": "fig"} | {id_: "cherry"})


@pytest.mark.parametrize("id_", ["a", "new"])
def test_a_chunk_that_was_deleted_does_not_come_back(
    id_: str, index: BM25Index, next_one: BM25Index, clocks: Clocks
) -> None:
    fail(index, "insert_chunks", lambda: index.add(["banana"], ids=[id_]))
    next_one.delete(["a", id_])
    assert_sound(next_one, clocks, {"x": "fig"})


def test_a_late_deletion_takes_no_newer_row_away(index: BM25Index, next_one: BM25Index, clocks: Clocks) -> None:
    fail(index, "delete_chunks", lambda: index.add(["banana"], ids=["a"]))
    next_one.add(["cherry"], ids=["a"])
    assert_sound(next_one, clocks, {"a": "cherry", "x": "fig"})


def test_nor_does_the_late_deletion_of_a_recovery(index: BM25Index, next_one: BM25Index, clocks: Clocks) -> None:
    fail(index, "delete_chunks", lambda: index.delete(["a"]))
    index._store.late.clear()  # type: ignore[attr-defined]
    fail(next_one, "delete_chunks", lambda: next_one.add(["banana"], ids=["a"]))
    next_one.add(["banana"], ids=["a"])
    assert_sound(next_one, clocks, {"a": "banana", "x": "fig"})


def test_any_number_of_failures_in_a_row_does_no_harm(index: BM25Index, store: LateStore, clocks: Clocks) -> None:
    texts = ["banana", "banana pie", "cherry", "cherry pie"]
    for text in texts:
        store.seconds = 1.0
        fail(index, "insert_chunks", lambda text=text: index.add([text], ids=["a"]))  # type: ignore[misc]
    index.add(["fig pie"], ids=["a"])
    assert_sound(index, clocks, {"a": "fig pie", "x": "fig"})


def test_a_late_deletion_is_waited_for_from_its_own_call(index: BM25Index, store: LateStore, clocks: Clocks) -> None:
    """The insertion before it took long."""
    store.on_call = lambda method: clocks.wait(50) if method == "insert_chunks" else None
    fail(index, "delete_chunks", lambda: index.add(["banana"], ids=["a"]))
    store.on_call = None
    index.add(["cherry"], ids=["a"])
    assert_sound(index, clocks, {"a": "cherry", "x": "fig"})


def test_a_write_waits_no_longer_than_it_must(index: BM25Index, store: LateStore, clocks: Clocks) -> None:
    store.delay = 70.0
    fail(index, "insert_chunks", lambda: index.add(["banana"], ids=["a"]))
    begun = clocks.monotonic
    assert index.add(["banana"], ids=["a"]) == ["a"]
    assert clocks.monotonic - begun == 10.0  # the batch was complete then
    store.late.clear()
    store.delay = 1.0
    fail(index, "delete_chunks", lambda: index.delete(["a"]))
    begun = clocks.monotonic
    assert index.delete(["a"]) == 0
    assert clocks.monotonic == begun
    fail(index, "insert_chunks", lambda: index.add(["cherry"], ids=["a"]))
    clocks.wait(LATE_SECONDS)
    begun = clocks.monotonic
    index.add(["apple"], ids=["b"])
    assert clocks.monotonic == begun


@pytest.mark.parametrize("method", ["insert_chunks", "delete_chunks"])
def test_a_write_that_was_refused_is_not_waited_for(
    method: str, index: BM25Index, store: LateStore, clocks: Clocks, caplog: pytest.LogCaptureFixture
) -> None:
    store.refusing = True
    fail(index, method, lambda: index.add(["banana"], ids=["a"]))
    begun = clocks.monotonic
    index.add(["cherry"], ids=["a"])
    assert clocks.monotonic == begun
    assert caplog.messages == []
    assert_sound(index, clocks, {"a": "cherry", "x": "fig"})


def test_nor_is_a_refused_deletion_of_a_recovery(index: BM25Index, store: LateStore, clocks: Clocks) -> None:
    fail(index, "delete_chunks", lambda: index.add(["banana"], ids=["a"]))
    store.refusing = True
    fail(index, "delete_chunks", lambda: index.add(["cherry"], ids=["a"]))
    begun = clocks.monotonic
    index.add(["cherry"], ids=["a"])
    assert clocks.monotonic == begun
    assert_sound(index, clocks, {"a": "cherry", "x": "fig"})


def test_a_write_that_was_interrupted_is_waited_for(index: BM25Index, store: LateStore, clocks: Clocks) -> None:
    """As by Ctrl-C, pressed twice."""

    def interrupt(method: str) -> None:
        if method == "insert_chunks":
            raise KeyboardInterrupt

    store.on_call = interrupt
    begun = clocks.monotonic
    with pytest.raises(KeyboardInterrupt):
        index.add(["banana"], ids=["a"])
    store.on_call = None
    index.add(["cherry"], ids=["a"])
    assert clocks.monotonic - begun == LATE_SECONDS


def test_other_writers_wait_for_their_own_chunks_alone(index: BM25Index, config: IndexConfig, clocks: Clocks) -> None:
    fail(index, "insert_chunks", lambda: index.add(["banana"], ids=["a"]))
    other = opened(index._store.reopen(), config)  # type: ignore[attr-defined]
    begun = clocks.monotonic
    other.add(["cherry"], ids=["x"])
    assert clocks.monotonic == begun
    clocks.wait(LEASE_SECONDS)
    other = opened(index._store.reopen(), config)  # type: ignore[attr-defined]
    assert clocks.monotonic == begun + LEASE_SECONDS
    assert_sound(other, clocks, {"a": "banana", "x": "cherry"})


def test_searches_do_not_wait_and_finish_the_batch_in_the_end(
    index: BM25Index, clocks: Clocks, caplog: pytest.LogCaptureFixture
) -> None:
    fail(index, "insert_chunks", lambda: index.add(["banana"], ids=["a"]))
    begun = clocks.monotonic
    assert [hit.text for hit in index.search("apple banana")] == ["apple"]
    assert clocks.monotonic == begun
    assert caplog.messages == []
    clocks.wait(LATE_SECONDS)
    assert [hit.text for hit in index.search("apple banana")] == ["banana"]
    assert not index._live.log.has_intents
    assert index.stats().num_chunks == 2


def test_a_writer_that_waits_says_so(index: BM25Index, caplog: pytest.LogCaptureFixture) -> None:
    fail(index, "insert_chunks", lambda: index.add(["banana"], ids=["a"]))
    index.add(["cherry"], ids=["a"])
    assert caplog.messages == ["memory may still be storing a batch that failed: waiting for up to 60 s"]
