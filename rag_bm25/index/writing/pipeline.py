"""Check, embed and count chunks, and write them batch by batch."""

from __future__ import annotations

from collections import deque
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from rag_bm25.analysis.contract import require_analyzer
from rag_bm25.checks import check_callable, check_switch, is_iterable
from rag_bm25.documents.checks import check_chunks, check_distinct, check_given_chunk, check_ids, check_namespace
from rag_bm25.documents.chunks import AddReport, NewChunk, batches
from rag_bm25.documents.contexts import embedded_text
from rag_bm25.errors import InputError
from rag_bm25.events import report_progress
from rag_bm25.filters import parse_filter
from rag_bm25.index.config import require_dense_field
from rag_bm25.index.searching.rows import read_chunks
from rag_bm25.index.writing.counting_ahead import CountingAhead, CountingThread
from rag_bm25.index.writing.workers import WorkerPools, check_workers
from rag_bm25.statistics.log.keys import SOURCE
from rag_bm25.statistics.log.source_roots import forget_roots
from rag_bm25.statistics.log.table import LogTable
from rag_bm25.store.embeddings import as_matrix, check_repeated, wrap_embedder
from rag_bm25.store.rows import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import TypeAlias

    import numpy as np
    from numpy.typing import NDArray

    from rag_bm25.documents.chunks import GivenChunk, GivenDocument
    from rag_bm25.documents.encoder import CountedChunks, DocumentEncoder
    from rag_bm25.events import Progress
    from rag_bm25.index.arguments import FilterLike
    from rag_bm25.index.config import IndexConfig
    from rag_bm25.index.live_statistics import LiveStatistics
    from rag_bm25.index.writing.chunk_writer import NoteBatches
    from rag_bm25.index.writing.counting_ahead import Pool
    from rag_bm25.store.embeddings import Embed, Embeddings
    from rag_bm25.store.protocol import Store
    from rag_bm25.store.rows import ChunkRow

    CheckedEmbed: TypeAlias = Callable[[list[str]], NDArray[np.float32]]

T = TypeVar("T")


@dataclass(frozen=True)
class WriteOptions:
    """Options of a call that adds chunks, checked."""

    namespace: str
    assume_new: bool
    workers: int  # processes; 0 for a thread

    def __post_init__(self) -> None:
        check_workers(self.workers)
        check_switch("assume_new", self.assume_new)
        object.__setattr__(self, "namespace", check_namespace(self.namespace))


class Target(Protocol):
    """A generation of an index, as far as writing needs it."""

    store: Store
    encoder: DocumentEncoder
    live: LiveStatistics

    @property
    def config(self) -> IndexConfig:
        """The parameters in use."""
        ...

    def in_force(self, call: Callable[[Target], T]) -> T:
        """Call with this generation, and again with the next one if that comes into force meanwhile."""
        ...


class WritePipeline:
    """Write any number of chunks in batches, and delete chunks."""

    def __init__(self, generation: Target) -> None:
        self._generation = generation
        self._store = generation.store
        self._config = generation.config
        self._encoder = generation.encoder
        self._pools = WorkerPools(generation.config)

    def close(self) -> None:
        """End all worker processes."""
        self._pools.close()

    def add(
        self,
        texts: Iterable[str | GivenChunk | GivenDocument],
        ids: Iterable[str | None] | None,
        metadatas: Iterable[Mapping[str, Any] | None] | None,
        embeddings: Embeddings | None,
        options: WriteOptions,
    ) -> list[str]:
        """Check all chunks, write them, and return their ids."""
        chunks = check_chunks(texts, ids, metadatas, self._config.fields)
        check_distinct(chunks)
        chunks, embed = self._with_embeddings(chunks, embeddings)
        distinct = list({chunk.id: chunk for chunk in chunks}.values())
        with closing(self._write(distinct, embed, options)) as reports:
            deque(reports, maxlen=0)
        return [chunk.id for chunk in chunks]

    def add_stream(
        self,
        chunks: Iterable[GivenChunk | GivenDocument],
        embeddings: Embed | None,
        options: WriteOptions,
        progress: Callable[[Progress], None] | None,
        note: NoteBatches | None = None,
    ) -> AddReport:
        """Check and write chunks as they are taken from a stream; `note` is told their batches."""
        check_callable("progress", progress)
        if not is_iterable(chunks):
            raise InputError(f"chunks must be an iterable of chunks, got {type(chunks).__name__}")
        if not (embeddings is None or callable(embeddings)):
            raise InputError(f"embeddings of a stream must be a callable, got {type(embeddings).__name__}")
        _, embed = self._with_embeddings([], embeddings)
        return self.write_stream(self._check_stream(chunks), embed, options, progress, note)

    def write_stream(
        self,
        chunks: Iterable[NewChunk],
        embed: CheckedEmbed | None,
        options: WriteOptions,
        progress: Callable[[Progress], None] | None,
        note: NoteBatches | None = None,
    ) -> AddReport:
        """Write checked chunks; if nothing embeds those of an index with dense vectors, they have theirs."""
        report = AddReport()
        with closing(self._write(chunks, embed, options, note)) as reports:
            for batch in reports:
                report += batch
                report_progress(progress, "chunks", report.total)
        return report

    def delete(self, ids: Sequence[str] | None, filter: FilterLike, namespace: str) -> int:
        """Delete chunks by their ids or by a filter, and return how many existed."""
        if (ids is None) == (filter is None):
            raise InputError("delete needs ids or a filter, and not both; drop_namespace deletes a whole namespace")
        where = parse_filter(filter)
        if ids is None and where is None:
            raise InputError("delete needs a filter that is not empty; to delete a whole namespace, use drop_namespace")
        found = _scan_ids(self._store, Scope(where, (namespace,))) if ids is None else check_ids(ids)
        return self._generation.in_force(partial(_delete, namespace, found))

    def drop_namespace(self, namespace: str) -> int:
        """Delete all chunks of a namespace and its source roots, and return how many chunks existed."""
        return self._generation.in_force(partial(_drop_namespace, namespace))

    def _check_stream(self, chunks: Iterable[GivenChunk | GivenDocument]) -> Iterator[NewChunk]:
        """Check the chunks of a stream one by one; those that were checked before are taken as they are."""
        for number, chunk in enumerate(chunks):
            if isinstance(chunk, NewChunk):
                yield chunk
            else:
                yield check_given_chunk(chunk, self._config.fields, f"chunk {number} of the stream: ")

    def _write(
        self,
        chunks: Iterable[NewChunk],
        embed: CheckedEmbed | None,
        options: WriteOptions,
        note: NoteBatches | None = None,
    ) -> Generator[AddReport, None, None]:
        """Write chunks batch by batch; the next ones are counted meanwhile."""
        require_analyzer(self._encoder.analyzer)
        pending = batches(chunks, 4 * (self._config.dense_dim or 0))
        with self._lend_pool(options.workers) as pool, closing(CountingAhead(pending, pool)) as counting:
            for batch, count in counting:
                complete = batch if embed is None else self._embed(batch, embed, options)
                yield self.add_batch(complete, options, note, count)

    def add_batch(
        self,
        batch: list[NewChunk],
        options: WriteOptions,
        note: NoteBatches | None,
        count: Callable[[Sequence[int]], CountedChunks] | None = None,
    ) -> AddReport:
        """Write one batch; in a next generation, which may have it, its terms are counted again."""

        def add(now: Target) -> AddReport:
            is_own = now is self._generation
            counted, assume_new = count if is_own else None, options.assume_new and is_own
            with now.live.writing() as writer:
                return writer.add(options.namespace, batch, count=counted, note=note, assume_new=assume_new)

        return self._generation.in_force(add)

    def _lend_pool(self, workers: int) -> AbstractContextManager[Pool]:
        return self._pools.lend(workers) if workers else closing(CountingThread(self._encoder))

    def _with_embeddings(
        self, chunks: list[NewChunk], embeddings: Embeddings | None
    ) -> tuple[list[NewChunk], CheckedEmbed | None]:
        """Give the chunks their dense vectors, or return the function that makes them."""
        if embeddings is None:
            if self._config.dense_dim is not None:
                raise InputError(f"embeddings must be given: {self._store.name} has dense_dim={self._config.dense_dim}")
            return chunks, None
        dense = require_dense_field(self._config, "embeddings given", self._store.name)
        if callable(embeddings):
            return chunks, wrap_embedder(embeddings, dense)
        matrix = as_matrix("embeddings", embeddings, len(chunks), dense)
        check_repeated([chunk.id for chunk in chunks], matrix)
        return [replace(chunk, dense=row) for chunk, row in zip(chunks, matrix, strict=True)], None

    def _embed(self, chunks: list[NewChunk], embed: CheckedEmbed, options: WriteOptions) -> list[NewChunk]:
        """Embed the texts that are not stored, under whatever id of the batch: chunks move within their document."""
        ids = [chunk.id for chunk in chunks]
        stored = {} if options.assume_new else read_chunks(self._store, ids, options.namespace, dense=True)
        own = {(id_, self._embedded_text(row)): row.dense for id_, row in stored.items()}
        known = {text: vector for (_, text), vector in own.items()}
        texts = [self._embedded_text(chunk) for chunk in chunks]
        if new := [text for text in dict.fromkeys(texts) if text not in known]:
            known.update(zip(new, embed(new), strict=True))
        pairs = zip(chunks, texts, strict=True)
        return [replace(chunk, dense=own.get((chunk.id, text), known[text])) for chunk, text in pairs]

    def _embedded_text(self, chunk: NewChunk | ChunkRow) -> str:
        return embedded_text(chunk.text, chunk.metadata, self._config.fields)


def _delete(namespace: str, ids: Sequence[str], now: Target) -> int:
    with now.live.writing() as writer:
        return writer.delete(namespace, ids)


def _drop_namespace(namespace: str, now: Target) -> int:
    found = _scan_ids(now.store, Scope(namespaces=(namespace,)))
    with now.live.writing() as writer:
        deleted = writer.delete(namespace, found)
        forget_roots(now.store, namespace, now.live.log.new_batch)
        table = LogTable(now.store)
        table.delete(table.list_of(SOURCE, namespace))
        writer.confirm()
    return deleted


def _scan_ids(store: Store, scope: Scope) -> list[str]:
    return [row.id for rows in store.scan_chunks(scope) for row in rows]
