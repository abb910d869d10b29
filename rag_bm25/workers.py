"""Counting the terms of the next batches while the last one is written: in a thread, or in processes."""

from __future__ import annotations

import pickle
import signal
from collections import deque
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

from rag_bm25.document_encoder import DocumentEncoder
from rag_bm25.errors import ParameterError, WorkerError
from rag_bm25.parameters import check_int

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Future
    from typing import TypeAlias

    from rag_bm25.chunks import NewChunk
    from rag_bm25.config import IndexConfig
    from rag_bm25.document_encoder import CountedChunks

    Count: TypeAlias = Callable[[Sequence[int]], CountedChunks]

__all__ = [
    "MAX_WORKERS",
    "CountingAhead",
    "CountingThread",
    "Pool",
    "WorkerPools",
    "Workers",
    "check_picklable",
    "check_workers",
    "deaths_told",
    "interrupts_blocked",
]

MAX_WORKERS = 61
"""How many processes a pool can have on Windows."""

_encoder: list[DocumentEncoder] = []  # of a worker process: one, made when it starts


class Pool(Protocol):
    """Who counts batches ahead."""

    number: int
    """How many batches are counted at the same time."""

    def count(self, chunks: list[NewChunk]) -> CountedChunks:
        """Count chunks and wait for it."""
        ...

    def submit(self, chunks: list[NewChunk]) -> Future[CountedChunks]:
        """Have chunks counted, after those that were submitted before."""
        ...


class CountingAhead:
    """Batches in order, each with what counts its terms, and counts those of the next ones ahead.

    Nothing is counted before it is asked for: a batch that is stored already needs no analysis. As soon as a batch
    turns out to be new as a whole, the next ones are taken to be so as well. They are read by iterating, never by
    counting: whoever counts holds the lock of the index, which their source may be waiting for in another thread. What
    their source raises comes when it is their turn: all batches before are handed out first.

    Parameters
    ----------
    batches : iterable of list of NewChunk
        Taken one by one; at most one more is held than the pool counts at the same time.
    pool : Pool
        Who counts.
    """

    def __init__(self, batches: Iterable[list[NewChunk]], pool: Pool) -> None:
        self._batches = iter(batches)
        self._pool = pool
        self._waiting: deque[tuple[list[NewChunk], Future[CountedChunks] | None]] = deque()
        self._failure: Exception | None = None

    def __iter__(self) -> Iterator[tuple[list[NewChunk], Count]]:
        """Yield each batch with what counts the chunks at some of its places; to be called at most once."""
        while self._read(1 + self._pool.number):
            batch, future = self._waiting.popleft()
            yield batch, partial(self._count, batch, future)
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Drop what was counted ahead."""
        for _, future in self._waiting:
            if future is not None:
                future.cancel()

    def _read(self, wanted: int) -> bool:
        """Hold as many batches, if there are so many; tell whether there is one at all."""
        while len(self._waiting) < wanted and self._failure is None:
            try:
                batch = next(self._batches, None)
            except Exception as error:  # noqa: BLE001  # raised again when what came before is written
                self._failure = error
                break
            if batch is None:
                break
            self._waiting.append((batch, None))
        return bool(self._waiting)

    def _count(
        self, batch: list[NewChunk], future: Future[CountedChunks] | None, places: Sequence[int]
    ) -> CountedChunks:
        """Count chunks of a batch that was handed out; those of the next ones meanwhile, where all of it is needed."""
        with deaths_told("its chunks were analysed; what was written before stays"):
            if len(places) < len(batch):
                return self._pool.count([batch[place] for place in places])
            if future is None and not self._waiting:
                return self._pool.count(batch)
            future = future or self._pool.submit(batch)
            self._waiting = deque((later, ahead or self._pool.submit(later)) for later, ahead in self._waiting)
            return future.result()


class CountingThread:
    """A thread that counts, for as long as one call takes; it is started by the second batch.

    Parameters
    ----------
    encoder : DocumentEncoder
        What counts.
    """

    number = 1

    def __init__(self, encoder: DocumentEncoder) -> None:
        self._encoder = encoder
        self._pool = ThreadPoolExecutor(1, "rag_bm25")

    def count(self, chunks: list[NewChunk]) -> CountedChunks:
        """Count chunks in the caller's thread.

        Parameters
        ----------
        chunks : list of NewChunk
            Which.

        Returns
        -------
        CountedChunks
            Their terms.
        """
        return self._encoder.count([chunk.text for chunk in chunks], [chunk.metadata for chunk in chunks])

    def submit(self, chunks: list[NewChunk]) -> Future[CountedChunks]:
        """Have chunks counted, after those that were submitted before.

        Parameters
        ----------
        chunks : list of NewChunk
            Which.

        Returns
        -------
        Future of CountedChunks
            Their terms.
        """
        return self._pool.submit(self.count, chunks)

    def close(self) -> None:
        """End the thread, after the batch that it is at."""
        self._pool.shutdown(cancel_futures=True)


class Workers:
    """A pool of processes that count the terms of chunks.

    They are spawned, not forked: a forked process would inherit the connection to Milvus, which does not survive it.

    Parameters
    ----------
    config : IndexConfig
        What chunks are analysed by.
    number : int
        How many processes, in 1..61.

    Raises
    ------
    ParameterError
        The number is out of its range, or the analyzer cannot be sent to another process.
    """

    def __init__(self, config: IndexConfig, number: int) -> None:
        self.number = check_workers(number)
        check_picklable(config)
        self._with_fields = bool(config.document_weighting().fields)
        self._pool = ProcessPoolExecutor(number, get_context("spawn"), _start, (config,))

    def count(self, chunks: list[NewChunk]) -> CountedChunks:
        """Have chunks counted, and wait for it.

        Parameters
        ----------
        chunks : list of NewChunk
            Which.

        Returns
        -------
        CountedChunks
            Their terms.
        """
        return self.submit(chunks).result()

    def submit(self, chunks: list[NewChunk]) -> Future[CountedChunks]:
        """Have chunks counted.

        Parameters
        ----------
        chunks : list of NewChunk
            Which.

        Returns
        -------
        Future of CountedChunks
            Their terms.
        """
        with interrupts_blocked():  # a process may be started now
            metadatas = [chunk.metadata for chunk in chunks] if self._with_fields else None
            return self._pool.submit(_count, [chunk.text for chunk in chunks], metadatas)

    def close(self) -> None:
        """End the processes."""
        self._pool.shutdown(cancel_futures=True)


class WorkerPools:
    """The pools of processes of one index: kept from call to call, one of each size that is in use.

    A call that asks for another number of processes ends those that no call uses.

    Parameters
    ----------
    config : IndexConfig
        What chunks are analysed by.
    """

    def __init__(self, config: IndexConfig) -> None:
        self._config = config
        self._lock = Lock()
        self._pools: dict[int, _SharedPool] = {}  # by how many

    @contextmanager
    def lend(self, number: int) -> Iterator[Workers]:
        """Lend a pool for one call; one of which a process dies is not lent again.

        Parameters
        ----------
        number : int
            How many processes, in 1..61.

        Yields
        ------
        Workers
            To be left open.
        """
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
    """A pool, and how many calls use it."""

    workers: Workers
    calls: int = 0


@contextmanager
def deaths_told(what: str) -> Iterator[None]:
    """Say what to do when a worker process has died.

    Parameters
    ----------
    what : str
        What it was to do, and what stays of what was done before; the middle of a sentence.

    Raises
    ------
    WorkerError
        In the place of what the pool raises.
    """
    try:
        yield
    except BrokenProcessPool as error:
        msg = (
            f"a worker process died before {what}. A script that uses workers must do so below "
            '`if __name__ == "__main__":`'
        )
        raise WorkerError(msg) from error


def check_workers(number: int) -> int:
    """Check a number of workers.

    Parameters
    ----------
    number : int
        What was given.

    Returns
    -------
    int
        The same.

    Raises
    ------
    ParameterError
        It is not an int in 0..61.
    """
    return check_int("workers", number, 0, MAX_WORKERS)


def check_picklable(config: IndexConfig) -> None:
    """Refuse a config that cannot be sent to another process.

    Parameters
    ----------
    config : IndexConfig
        What chunks are analysed by.

    Raises
    ------
    ParameterError
        Its analyzer cannot be pickled.
    """
    try:
        pickle.dumps(config)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        msg = f"workers need an analyzer that can be pickled, such as a function of a module, got {config.analyzer!r}"
        raise ParameterError(msg) from error


@contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Start processes with SIGINT blocked, which they inherit: until they are ready to ignore it, it would end them."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _start(config: IndexConfig) -> None:
    """Make a worker ready; Ctrl-C is for the process that it works for."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _encoder.append(DocumentEncoder(config.build_analyzer(), config.document_weighting(), config.length_unit))


def _count(texts: list[str], metadatas: list[dict[str, Any]] | None) -> CountedChunks:
    return _encoder[0].count(texts, metadatas)
