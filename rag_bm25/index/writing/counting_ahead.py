"""Count the terms of the next batch while the current one is written."""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Protocol

from typing_extensions import override

from rag_bm25.index.writing.workers import worker_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Future
    from typing import TypeAlias

    from rag_bm25.documents.chunks import NewChunk
    from rag_bm25.documents.encoder import CountedChunks, DocumentEncoder

    Count: TypeAlias = Callable[[Sequence[int]], CountedChunks]


class Pool(Protocol):
    """A thread or processes that count the terms of chunks."""

    number: int  # of batches that are counted at the same time

    def count(self, chunks: list[NewChunk]) -> CountedChunks:
        """Count the terms of chunks now."""
        ...

    def submit(self, chunks: list[NewChunk]) -> Future[CountedChunks]:
        """Count the terms of chunks after those that were submitted before."""
        ...


class CountingAhead:
    """Hand out batches in order, each with a function that counts its terms, and count the next ones meanwhile.

    Nothing is counted before it is asked for: a batch that is stored already needs no analysis. As soon as a batch
    turns out to be new as a whole, the next ones are taken to be so as well. They are read by iterating, never by
    counting: the counting thread holds the lock of the index, which their source may be waiting for in another thread.
    An error of their source is raised when it is its turn: all batches before are handed out first.
    """

    def __init__(self, batches: Iterable[list[NewChunk]], pool: Pool) -> None:
        self._batches = iter(batches)  # taken one by one; at most one more is held than the pool counts
        self._pool = pool
        self._waiting: deque[tuple[list[NewChunk], Future[CountedChunks] | None]] = deque()
        self._failure: Exception | None = None

    def __iter__(self) -> Iterator[tuple[list[NewChunk], Count]]:
        """Yield each batch and a function that counts the chunks at some of its places; works once."""
        while self._read(1 + self._pool.number):
            batch, future = self._waiting.popleft()
            yield batch, partial(self._count, batch, future)
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Drop the batches that were counted ahead."""
        for _, future in self._waiting:
            if future is not None:
                future.cancel()

    def _read(self, wanted: int) -> bool:
        """Hold as many batches, if the source has them; return whether there is one at all."""
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
        """Count chunks of a batch that was handed out; if all of it is needed, the next ones, too, meanwhile."""
        with worker_errors("its chunks were analysed; what was written before stays"):
            if len(places) < len(batch):
                return self._pool.count([batch[place] for place in places])
            if future is None and not self._waiting:
                return self._pool.count(batch)
            future = future or self._pool.submit(batch)
            self._waiting = deque((later, ahead or self._pool.submit(later)) for later, ahead in self._waiting)
            return future.result()


class CountingThread(Pool):
    """A thread that counts for as long as one call takes; it is started by the second batch."""

    number = 1

    def __init__(self, encoder: DocumentEncoder) -> None:
        self._encoder = encoder
        self._pool = ThreadPoolExecutor(1, "rag_bm25")

    @override
    def count(self, chunks: list[NewChunk]) -> CountedChunks:
        return self._encoder.count([chunk.text for chunk in chunks], [chunk.metadata for chunk in chunks])

    @override
    def submit(self, chunks: list[NewChunk]) -> Future[CountedChunks]:
        return self._pool.submit(self.count, chunks)

    def close(self) -> None:
        """End the thread, after the batch that it is at."""
        self._pool.shutdown(cancel_futures=True)
