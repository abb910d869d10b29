"""Coroutines do as their methods do, the loop goes on meanwhile, and a cancelled one leaves nothing half done."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import pytest
from support.clocks import PATIENCE
from support.memory_store import MemoryStore

from rag_bm25 import AsyncBM25Index, BM25Index, IndexConfig, IndexNotFoundError, InputError, StoreError
from rag_bm25.index.coroutines import PAGE, iterate_in_thread

FRUIT = ["apple pie", "apple tart", "banana split"]


class Gate:
    """Stops every call of a store's method until it is opened."""

    def __init__(self, method: str) -> None:
        self.method = method
        self.reached, self.opened = threading.Event(), threading.Event()
        self.threads: set[str] = set()

    def __call__(self, method: str) -> None:
        if method == self.method:
            self.threads.add(threading.current_thread().name)
            self.reached.set()
            assert self.opened.wait(PATIENCE)

    async def await_arrival(self) -> None:
        """Wait on the loop, which must turn for it."""
        for _ in range(int(PATIENCE / 0.01)):
            if self.reached.is_set():
                return
            await asyncio.sleep(0.01)
        raise AssertionError


@pytest.fixture
def filled(index: BM25Index, store: MemoryStore) -> BM25Index:
    index.add(FRUIT, ids=["a", "b", "c"], metadatas=[{"n": n} for n in range(3)])
    store.calls.clear()
    return index


@contextmanager
def stopping_at(store: MemoryStore, method: str) -> Iterator[Gate]:
    gate = Gate(method)
    store.on_call = gate
    try:
        yield gate
    finally:
        gate.opened.set()
        store.on_call = None


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(coroutine, PATIENCE))


class TestTheyAreTheirMethods:
    def public(self) -> list[str]:
        return [
            name
            for name, member in vars(BM25Index).items()
            if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, classmethod))
        ]

    def test_every_method_has_one(self) -> None:
        assert {name for name in vars(AsyncBM25Index) if not name.startswith("_")} == {*self.public()}

    def test_with_its_parameters_and_its_documentation(self) -> None:
        for name in self.public():
            method, coroutine = getattr(BM25Index, name), getattr(AsyncBM25Index, name)
            assert inspect.iscoroutinefunction(coroutine) or name == "chunks", name
            assert inspect.signature(coroutine) == inspect.signature(method)
            assert coroutine.__doc__ == method.__doc__
            assert (coroutine.__name__, coroutine.__qualname__) == (name, f"AsyncBM25Index.{name}")

    def test_with_its_results(self, filled: BM25Index) -> None:
        awaited = AsyncBM25Index(filled)

        async def ask() -> None:
            assert await awaited.search("apple", 1) == filled.search("apple", 1)
            assert await awaited.search_batch(["pie", "split"]) == filled.search_batch(["pie", "split"])
            assert await awaited.get(["b"]) == filled.get(["b"])
            assert [chunk.id async for chunk in awaited.chunks(filter={"n": {"$gt": 0}})] == ["b", "c"]
            assert await awaited.explain("apple", "a") == filled.explain("apple", "a")
            assert (await awaited.verify()).ok
            assert await awaited.add(["fig"], ids=["d"]) == ["d"]
            assert await awaited.delete(["a", "b"]) == 2
            assert {chunk.id for chunk in filled.chunks()} == {"c", "d"}

        run(ask())

    def test_with_its_errors(self, filled: BM25Index) -> None:
        for coroutine, error in (
            (AsyncBM25Index(filled).search(7), InputError),  # type: ignore[arg-type]
            (AsyncBM25Index(filled).add("apple"), InputError),
            (AsyncBM25Index.open(":memory:", "docs"), IndexNotFoundError),
        ):
            with pytest.raises(error):
                run(coroutine)

    def test_opened_and_closed(self, config: IndexConfig) -> None:
        async def use() -> AsyncBM25Index:
            async with await AsyncBM25Index.open(":memory:", "docs", config=config) as index:
                await index.add(["apple"])
                assert len(await index.search("apple")) == 1
            await index.close()
            return index

        index = run(use())
        for call in (lambda: index.search("apple"), lambda: index.add(["fig"])):
            with pytest.raises(StoreError, match="is closed"):
                run(call())

    def test_in_several_loops(self, filled: BM25Index) -> None:
        for number in range(3):
            run(AsyncBM25Index(filled).add([f"fig {number}"]))
        assert len(filled.search("fig")) == 3

    def test_in_the_context_of_the_caller(self, index: BM25Index) -> None:
        user = ContextVar("user", default="nobody")
        seen = []

        def embedder(texts: list[str]) -> Any:
            seen.append(user.get())
            raise StopIteration

        async def add(of: BM25Index) -> None:
            user.set("me")
            await AsyncBM25Index(of).add(["apple"], embeddings=embedder)

        dense = BM25Index.open(":memory:", "docs", config=IndexConfig(chunk_size=4, dense_dim=2))
        with pytest.raises(RuntimeError, match="raised StopIteration"):  # a future that had it would never be done
            run(add(dense))
        assert seen == ["me"]


class TestTheLoopGoesOn:
    @pytest.mark.parametrize(
        ("method", "ask"),
        [
            ("search", lambda index: index.search("apple")),
            ("search", lambda index: index.search_batch(["apple", "pie"])),
            ("get_chunks", lambda index: index.get(["a"])),
            ("scan_chunks", lambda index: anext(index.chunks())),
            ("insert_chunks", lambda index: index.add(["fig"])),
            ("delete_chunks", lambda index: index.delete(["a"])),
            ("scan_chunks", lambda index: index.verify()),
        ],
    )
    def test_while_the_store_blocks(
        self, filled: BM25Index, store: MemoryStore, method: str, ask: Callable[[AsyncBM25Index], Awaitable[object]]
    ) -> None:
        async def wait(gate: Gate) -> None:
            task = asyncio.ensure_future(ask(AsyncBM25Index(filled)))
            await gate.await_arrival()
            assert not task.done()
            gate.opened.set()
            await task

        with stopping_at(store, method) as gate:
            run(wait(gate))
        assert "MainThread" not in gate.threads

    def test_while_more_writers_wait_than_the_loop_has_threads(self, filled: BM25Index, store: MemoryStore) -> None:
        async def wait(gate: Gate) -> int:
            writes = [asyncio.ensure_future(AsyncBM25Index(filled).add([f"fig {n}"])) for n in range(100)]
            await gate.await_arrival()
            found = await AsyncBM25Index(filled).search("apple")  # in a thread that no writer has
            assert not any(write.done() for write in writes)
            gate.opened.set()
            await asyncio.gather(*writes)
            return len(found)

        with stopping_at(store, "insert_chunks") as gate:
            assert run(wait(gate)) == 2
        assert len(filled.search("fig", 200)) == 100
        assert len(gate.threads) == 1


def test_an_iterator_is_advanced_by_pages_in_threads() -> None:
    threads: set[str] = set()

    def numbers() -> Iterator[int]:
        for number in range(2 * PAGE + 1):
            threads.add(threading.current_thread().name)
            yield number

    async def collect() -> list[int]:
        return [number async for number in iterate_in_thread(numbers)]

    assert run(collect()) == list(range(2 * PAGE + 1))
    assert "MainThread" not in threads


class TestCancelled:
    def test_a_write_that_has_begun_ends(
        self, filled: BM25Index, store: MemoryStore, reopened: Callable[..., BM25Index]
    ) -> None:
        """And closing waits for it, also where nobody else does."""

        async def cancel(gate: Gate) -> None:
            async with AsyncBM25Index(filled) as awaited:
                task = asyncio.ensure_future(awaited.add(["fig", "grape"]))
                await gate.await_arrival()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                asyncio.get_running_loop().call_later(0.05, gate.opened.set)

        with stopping_at(store, "insert_chunks") as gate:
            run(cancel(gate))
        assert store.closed
        again = reopened(read_only=True)
        assert again.stats().num_chunks == 5
        assert again.verify().ok

    def test_a_write_that_waits_is_dropped(self, filled: BM25Index, store: MemoryStore) -> None:
        async def cancel(gate: Gate) -> None:
            first = asyncio.ensure_future(AsyncBM25Index(filled).add(["fig"]))
            await gate.await_arrival()
            second = asyncio.ensure_future(AsyncBM25Index(filled).add(["grape"]))
            await asyncio.sleep(0)
            second.cancel()
            with pytest.raises(asyncio.CancelledError):
                await second
            gate.opened.set()  # not before: the executor learns of the cancellation in a later turn of the loop
            await first

        with stopping_at(store, "insert_chunks") as gate:
            run(cancel(gate))
        assert (len(filled.search("fig")), filled.search("grape")) == (1, [])

    def test_a_search_leaves_the_index_usable(self, filled: BM25Index, store: MemoryStore) -> None:
        async def cancel(gate: Gate) -> None:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(AsyncBM25Index(filled).search("apple"), 0.01)
            gate.opened.set()
            assert len(await AsyncBM25Index(filled).search("apple")) == 2

        with stopping_at(store, "search") as gate:
            run(cancel(gate))


def test_an_index_that_nobody_holds_is_collected(config: IndexConfig) -> None:
    """Its thread does not keep it, and ends."""
    index = BM25Index.open(":memory:", "docs", config=config)
    run(AsyncBM25Index(index).add(["apple"]))
    (thread,) = index._write_thread._executor._threads
    gone = weakref.ref(index)
    del index
    gc.collect()
    assert gone() is None
    thread.join(PATIENCE)
    assert not thread.is_alive()


def test_a_forked_child_has_no_such_thread(filled: BM25Index, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it submitted there would wait for ever; stores refuse what it asks."""
    run(AsyncBM25Index(filled).add(["fig"]))
    threads: list[str] = []
    real = os.getpid()
    monkeypatch.setattr("os.getpid", lambda: real + 1)

    async def submit() -> None:
        await filled._write_thread.submit(lambda: threads.append(threading.current_thread().name))

    run(submit())
    assert not threads[0].startswith("rag_bm25-write")
