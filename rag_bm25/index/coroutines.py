"""Run blocking calls in threads, so that the event loop goes on meanwhile."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from rag_bm25.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

PAGE = 1000  # items that an iterator gives before the event loop goes on


class WriteThread:
    """The thread in which the coroutines of one index write: in others they would wait, and leave none for searches."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._pid = os.getpid()
        self._executor = ThreadPoolExecutor(1, "rag_bm25-write")

    def submit(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[R]:
        """Call a function in its turn. A future that is cancelled before it has begun never calls it; later, it ends.

        A forked child does not have the thread; the store refuses its calls in any other.
        """
        executor = self._executor if os.getpid() == self._pid else None
        try:
            return asyncio.get_running_loop().run_in_executor(executor, _bind(function, *args, **kwargs))
        except RuntimeError:  # of an executor that is shut down
            raise StoreError(f"{self._name} is closed") from None

    def close(self) -> None:
        """Wait for the functions that were submitted, and refuse others."""
        self._executor.shutdown()


def run_in_thread(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[R]:
    """Call a function in a thread of the event loop."""
    return asyncio.get_running_loop().run_in_executor(None, _bind(function, *args, **kwargs))


async def iterate_in_thread(make: Callable[[], Iterator[T]]) -> AsyncIterator[T]:
    """Yield the items of an iterator that reads pages from a store; it is made and advanced in threads."""
    items = await asyncio.to_thread(make)
    while page := await asyncio.to_thread(lambda: list(islice(items, PAGE))):
        for item in page:
            yield item


def _bind(method: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Callable[[], R]:
    """Bind a call to its arguments and the caller's context."""

    def call() -> R:
        try:
            return method(*args, **kwargs)
        except StopIteration as error:  # of a callable of the user's; no future takes it, and its awaiter would hang
            raise RuntimeError("a callable raised StopIteration") from error

    return partial(copy_context().run, call)
