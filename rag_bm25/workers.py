"""Processes that analyse the next chunks while the last ones are written."""

from __future__ import annotations

import pickle
import signal
from collections import deque
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

from rag_bm25.document_encoder import DocumentEncoder
from rag_bm25.errors import ParameterError, WorkerError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from concurrent.futures import Future

    from rag_bm25.chunks import NewChunk
    from rag_bm25.config import IndexConfig
    from rag_bm25.document_encoder import CountedChunks

__all__ = ["MAX_WORKERS", "Workers", "check_picklable", "check_workers", "interrupts_blocked"]

MAX_WORKERS = 61
"""How many processes a pool can have on Windows."""

_encoder: list[DocumentEncoder] = []  # of a worker process: one, made when it starts


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

    def count(self, batches: Iterable[list[NewChunk]]) -> Iterator[tuple[list[NewChunk], CountedChunks]]:
        """Count batches, ahead of who takes them by as many as there are workers.

        Parameters
        ----------
        batches : iterable of list of NewChunk
            Taken one by one; at most one more than there are workers is held.

        Yields
        ------
        tuple of (list of NewChunk, CountedChunks)
            Each batch with its terms, in order.

        Raises
        ------
        WorkerError
            A process has died.
        """
        waiting: deque[tuple[list[NewChunk], Future[CountedChunks]]] = deque()
        try:
            for batch in batches:
                waiting.append((batch, self._submit(batch)))
                if len(waiting) > self.number:
                    first, counted = waiting.popleft()
                    yield first, counted.result()
            while waiting:
                first, counted = waiting.popleft()
                yield first, counted.result()
        except BrokenProcessPool as error:
            msg = (
                "a worker process died before its chunks were analysed; what was written before stays. A script that "
                'uses workers must do so below `if __name__ == "__main__":`'
            )
            raise WorkerError(msg) from error
        finally:
            for _, counted in waiting:
                counted.cancel()

    def _submit(self, batch: list[NewChunk]) -> Future[CountedChunks]:
        with interrupts_blocked():  # a process may be started now
            metadatas = [chunk.metadata for chunk in batch] if self._with_fields else None
            return self._pool.submit(_count, [chunk.text for chunk in batch], metadatas)

    def close(self) -> None:
        """End the processes."""
        self._pool.shutdown(cancel_futures=True)


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
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= MAX_WORKERS:
        msg = f"workers must be an int in 0..{MAX_WORKERS}, got {number!r}"
        raise ParameterError(msg)
    return number


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
