"""The gate: bounds of threads, queue and time, and how it closes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from support.clocks import PATIENCE

from rag_bm25.budget import check_budget
from rag_bm25.serving.answers import RefusedError
from rag_bm25.serving.gate import MAX_WRITES_WAITING, Gate
from rag_bm25.serving.settings import Limits


class Blocked:
    """A call that goes on until it is let go."""

    def __init__(self) -> None:
        self.started = threading.Semaphore(0)
        self.go = threading.Event()
        self.ended = 0

    def __call__(self) -> str:
        self.started.release()
        assert self.go.wait(PATIENCE)
        self.ended += 1
        return "done"

    async def wait_for(self, count: int) -> None:
        for _ in range(count):
            await asyncio.to_thread(self.started.acquire)


def run(test: Callable[[Gate, Blocked], Coroutine[Any, Any, None]], **limits: Any) -> None:
    async def main() -> None:
        gate, call = Gate(Limits(**limits)), Blocked()
        try:
            await test(gate, call)
        finally:
            call.go.set()
            await gate.close()

    asyncio.run(main())


def refusal(error: Any) -> tuple[int, str]:
    assert error.value.retry_after
    return error.value.status, error.value.code


def test_a_full_queue_refuses_at_once() -> None:
    async def test(gate: Gate, call: Blocked) -> None:
        calls = [asyncio.create_task(gate.read(call)) for _ in range(3)]
        await call.wait_for(2)
        assert gate.present == 3
        with pytest.raises(RefusedError) as error:
            await gate.read(call)
        assert refusal(error) == (429, "busy")
        assert not call.started.acquire(blocking=False)  # no third thread
        call.go.set()
        assert await asyncio.gather(*calls) == ["done"] * 3
        assert gate.present == 0
        assert await gate.read(lambda: 7) == 7

    run(test, running=2, waiting=1)


def test_writes_have_a_thread_of_their_own() -> None:
    async def test(gate: Gate, call: Blocked) -> None:
        writes = [asyncio.create_task(gate.write(call)) for _ in range(1 + MAX_WRITES_WAITING)]
        await call.wait_for(1)
        assert await gate.read(lambda: 7) == 7  # a search waits for no write
        assert not call.started.acquire(blocking=False)
        with pytest.raises(RefusedError) as error:
            await gate.write(call)
        assert refusal(error) == (429, "busy")
        call.go.set()
        await asyncio.gather(*writes)

    run(test, running=1, waiting=0)


def test_a_call_that_takes_too_long_is_not_waited_for_but_counts() -> None:
    async def test(gate: Gate, call: Blocked) -> None:
        with pytest.raises(RefusedError, match="no answer within") as error:
            await gate.read(call)
        assert refusal(error) == (503, "timeout")
        assert gate.present == 1
        with pytest.raises(RefusedError, match="waited too long") as error:
            await gate.read(lambda: 7)
        assert refusal(error) == (503, "busy")
        assert gate.present == 1  # the one that waited is gone

    run(test, running=1, waiting=5, seconds=0.05)


def test_a_read_ends_at_the_step_at_which_its_budget_is_spent() -> None:
    now = 0.0

    def work() -> None:
        nonlocal now
        for _ in range(100):
            check_budget()
            now += 1.0

    async def main() -> None:
        gate = Gate(Limits(work=7.0), clock=lambda: now)
        with pytest.raises(RefusedError, match="more than 7 seconds of work, which --budget of the server") as error:
            await gate.read(work)
        assert refusal(error) == (503, "timeout")
        assert now == 7.0
        await gate.write(work)  # which nothing cuts short
        assert now == 107.0
        await gate.close()

    asyncio.run(main())


def test_a_stop_ends_the_reads_that_run() -> None:
    async def test(gate: Gate, call: Blocked) -> None:
        def work() -> None:
            call()
            check_budget()

        running = asyncio.create_task(gate.read(work))
        await call.wait_for(1)
        gate.stop()
        call.go.set()
        with pytest.raises(RefusedError) as error:
            await running
        assert refusal(error) == (503, "stopping")

    run(test, work=3600.0)


def test_a_write_that_is_given_up_at_a_stop_is_refused() -> None:
    async def test(gate: Gate, call: Blocked) -> None:
        running = asyncio.create_task(gate.write(call))
        await call.wait_for(1)
        gate.stop()
        running.cancel()
        with pytest.raises(RefusedError) as error:
            await running
        assert refusal(error) == (503, "stopping")

    run(test)


def test_errors_of_calls_reach_the_caller() -> None:
    async def test(gate: Gate, _: Blocked) -> None:
        with pytest.raises(ZeroDivisionError):
            await gate.read(lambda: 1 / 0)

    run(test)


def test_closing_finishes_what_runs_and_refuses_what_waits() -> None:
    async def test(gate: Gate, call: Blocked) -> None:
        running = asyncio.create_task(gate.write(call))
        await call.wait_for(1)
        waiting = asyncio.create_task(gate.write(call))
        await asyncio.sleep(0)
        closing = asyncio.create_task(gate.close())
        with pytest.raises(RefusedError) as error:
            await waiting
        assert refusal(error) == (503, "stopping")
        assert not closing.done()
        call.go.set()
        await closing
        assert call.ended == 1
        assert await running == "done"
        with pytest.raises(RefusedError) as error:
            await gate.read(lambda: 7)
        assert refusal(error) == (503, "stopping")

    run(test)


def test_a_caller_that_goes_away_is_no_stop() -> None:
    async def test(gate: Gate, call: Blocked) -> None:
        task = asyncio.create_task(gate.read(call))
        await call.wait_for(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(test)
