"""The gate before the index: its blocking calls in a bounded number of threads, with a queue and limits of time."""

from __future__ import annotations

import asyncio
import contextvars
import time
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from rag_bm25.budget import limited
from rag_bm25.serving.answers import RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rag_bm25.serving.settings import Limits

R = TypeVar("R")

MAX_WRITES_WAITING = 16


class Gate:
    """Threads for reads, and one for writes; a call that finds the queue full, or waits too long, is refused.

    A read ends at its next step once its budget is spent, or the server stops. A write is never cut short: one that
    exceeds its time goes on, unanswered, and counts until it ends.
    """

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = limits.seconds
        self._work = limits.work
        self._clock = clock
        self._reads = _Lane(limits.running, limits.waiting)
        self._writes = _Lane(1, MAX_WRITES_WAITING)
        self._closing = False

    @property
    def present(self) -> int:
        """Number of calls that run or wait."""
        return len(self._reads.calls) + len(self._writes.calls)

    async def read(self, call: Callable[[], R]) -> R:
        """Run a call that reads."""
        return await self._run(self._reads, partial(self._read, call), "ask for less at once", leaves=True)

    async def write(self, call: Callable[[], R]) -> R:
        """Run a call that writes; one at a time."""
        return await self._run(
            self._writes, call, "the write goes on; see later whether it is stored, or send it again"
        )

    def write_in_turn(self, call: Callable[[], R]) -> R:
        """Run a call that writes, however long it takes, and wait for it: for the server's own threads."""
        try:
            return self._writes.submit(call).result()
        except Exception:
            if self._closing:  # it was cancelled, or came too late
                raise _stopping() from None
            raise

    def _read(self, call: Callable[[], R]) -> R:
        end = self._clock() + self._work

        def check() -> None:
            if self._closing:
                raise _stopping()
            if self._clock() >= end:
                rule = f"the answer takes more than {self._work:g} seconds of work, which --budget of the server allows"
                raise RefusedError(503, "timeout", f"{rule}: lower k, or ask for less at once", retry_after=5)

        with limited(check):
            return call()

    async def _run(self, lane: _Lane, call: Callable[[], R], advice: str, *, leaves: bool = False) -> R:
        if self._closing:
            raise _stopping()
        if lane.is_full:
            raise RefusedError(429, "busy", "too many requests are waiting; ask again in a while", retry_after=1)
        future = lane.submit(call)
        answer = asyncio.wrap_future(future)
        answer.add_done_callback(_retrieve)
        try:
            return await asyncio.wait_for(asyncio.shield(answer), self._seconds)
        except asyncio.TimeoutError:
            if future.cancel():  # it has not begun
                raise RefusedError(503, "busy", "the request waited too long; ask again later", retry_after=2) from None
            message = f"no answer within {self._seconds:g} seconds: {advice}"
            raise RefusedError(503, "timeout", message, retry_after=5) from None
        except asyncio.CancelledError:
            if self._closing:
                raise _stopping() from None
            if leaves:  # the queue, if it is still there
                future.cancel()
            raise

    def stop(self) -> None:
        """Refuse what comes and what waits, and end the reads that run."""
        self._closing = True
        for lane in (self._reads, self._writes):
            lane.executor.shutdown(wait=False, cancel_futures=True)

    async def close(self) -> None:
        """Stop, and return when what runs has ended."""
        self.stop()
        for lane in (self._reads, self._writes):
            await asyncio.to_thread(lane.executor.shutdown)


class _Lane:
    """Threads with a bounded queue."""

    def __init__(self, threads: int, waiting: int) -> None:
        self.executor = ThreadPoolExecutor(threads, thread_name_prefix="rag-bm25-serve")
        self.calls: set[Future[Any]] = set()
        self._most = threads + waiting

    @property
    def is_full(self) -> bool:
        """Whether the queue has no place."""
        return len(self.calls) >= self._most

    def submit(self, call: Callable[[], R]) -> Future[R]:
        """Run a call in a thread, in the context of the caller."""
        future: Future[R] = self.executor.submit(contextvars.copy_context().run, call)
        self.calls.add(future)
        future.add_done_callback(self.calls.discard)
        return future


def _stopping() -> RefusedError:
    return RefusedError(503, "stopping", "the server is stopping; ask again later", retry_after=5)


def _retrieve(answer: asyncio.Future[Any]) -> None:
    """Take the error of a call that nobody waits for, which asyncio would log."""
    if not answer.cancelled():
        answer.exception()
