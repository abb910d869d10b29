"""Count terms in worker processes."""

from __future__ import annotations

import pickle
import signal
import sys
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context, util
from threading import Lock
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from rag_bm25.checks import check_int
from rag_bm25.errors import ParameterError, WorkerError
from rag_bm25.safe_path import SAFE_PATH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

    from rag_bm25.documents.chunks import NewChunk
    from rag_bm25.documents.encoder import CountedChunks, DocumentEncoder
    from rag_bm25.index.config import IndexConfig

MAX_WORKERS = 61
"""Maximum number of processes of a pool on Windows."""

_encoder: list[DocumentEncoder] = []  # of a worker process: one, made when it starts
_OPTIONS = "_args_from_interpreter_flags"  # of multiprocessing.util: the options of each Python that it starts
_starting_lock = Lock()
_P = ParamSpec("_P")
_T = TypeVar("_T")


class ProcessPool(ProcessPoolExecutor):
    """A pool of processes that start with SIGINT blocked, and look for no module in the current folder.

    Once started, they have the path of this process. They are spawned, not forked: a forked process would inherit the
    connection to Milvus, which does not survive it.
    """

    def __init__(self, number: int, start: Callable[..., object], *arguments: object) -> None:
        with _starting():  # the process that tracks what the others share
            super().__init__(number, get_context("spawn"), start, arguments)

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        with _starting():  # perhaps a process
            return super().submit(fn, *args, **kwargs)


class Workers:
    """A pool of processes that count the terms of chunks."""

    def __init__(self, config: IndexConfig, number: int) -> None:
        self.number = check_workers(number)
        check_picklable(config)
        self._with_fields = bool(config.document_weighting().fields)
        self._pool = ProcessPool(number, _start, config)

    def count(self, chunks: list[NewChunk]) -> CountedChunks:
        return self.submit(chunks).result()

    def submit(self, chunks: list[NewChunk]) -> Future[CountedChunks]:
        metadatas = [chunk.metadata for chunk in chunks] if self._with_fields else None
        return self._pool.submit(_count, [chunk.text for chunk in chunks], metadatas)

    def close(self) -> None:
        """End the processes."""
        self._pool.shutdown(cancel_futures=True)


class WorkerPools:
    """The worker processes of one index, kept from call to call, and shared by calls at the same time."""

    def __init__(self, config: IndexConfig) -> None:
        self._config = config
        self._lock = Lock()
        self._pools: dict[int, _SharedPool] = {}  # by number of processes; more than one only while calls overlap

    @contextmanager
    def lend(self, number: int) -> Iterator[Workers]:
        """Lend a pool for one call, which leaves it open; a pool with a dead process is not lent again."""
        with self._lock:
            if number not in self._pools:
                self._pools[number] = _SharedPool(Workers(self._config, number))
            shared = self._pools[number]
            shared.calls += 1
            idle = [self._pools.pop(size).workers for size in list(self._pools) if not self._pools[size].calls]
        for workers in idle:
            workers.close()
        try:
            yield shared.workers
        except WorkerError:
            self._drop(shared)
            raise
        finally:
            with self._lock:
                shared.calls -= 1

    def close(self) -> None:
        """End all processes."""
        with self._lock:
            pools, self._pools = list(self._pools.values()), {}
        for shared in pools:
            shared.workers.close()

    def _drop(self, shared: _SharedPool) -> None:
        """End a pool, unless another call that failed with it has done so: a third may have begun another."""
        with self._lock:
            self._pools = {size: pool for size, pool in self._pools.items() if pool is not shared}
        shared.workers.close()


@dataclass
class _SharedPool:
    """A pool and the number of calls that use it."""

    workers: Workers
    calls: int = 0


@contextmanager
def worker_errors(what: str) -> Iterator[None]:
    """Raise WorkerError if a worker process has died; `what` completes the message."""
    try:
        yield
    except BrokenProcessPool as error:
        raise WorkerError(
            f"a worker process died before {what}. A script that uses workers must do so below "
            '`if __name__ == "__main__":`'
        ) from error


def check_workers(number: int) -> int:
    """Check a number of worker processes; 0 for a thread."""
    return check_int("workers", number, 0, MAX_WORKERS)


def check_picklable(config: IndexConfig) -> None:
    """Refuse a config that cannot be sent to another process."""
    try:
        pickle.dumps(config)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        msg = f"workers need an analyzer that can be pickled, such as a function of a module, got {config.analyzer!r}"
        raise ParameterError(msg) from error


@contextmanager
def _starting() -> Iterator[None]:
    """Start processes without the current folder on their path, and with SIGINT blocked."""
    with _starting_lock, _sigint_blocked():
        options = vars(util)[_OPTIONS]
        setattr(util, _OPTIONS, lambda: [*options(), SAFE_PATH])
        try:
            yield
        finally:
            setattr(util, _OPTIONS, options)


@contextmanager
def _sigint_blocked() -> Iterator[None]:
    """Block SIGINT while processes start, which inherit that: until they ignore it themselves, it would end them."""
    if sys.platform == "win32":
        yield
        return
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _start(config: IndexConfig) -> None:
    """Prepare a worker process; Ctrl-C is for the process that it works for."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _encoder.append(config.document_encoder())


def _count(texts: list[str], metadatas: list[dict[str, Any]] | None) -> CountedChunks:
    return _encoder[0].count(texts, metadatas)
