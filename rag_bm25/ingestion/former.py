"""Make a new index of one of an earlier format, of which the chunks, the roots and the known parameters are read.

Writes that were cut short are not finished: of each chunk, the newest row counts.
"""

from __future__ import annotations

from contextlib import contextmanager
from itertools import chain, groupby, islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rag_bm25.documents.chunks import MAX_BATCH_CHUNKS
from rag_bm25.errors import FormatError
from rag_bm25.events import report_progress
from rag_bm25.index.searching.rows import drop_superseded
from rag_bm25.index.stored_config import config_of_former
from rag_bm25.ingestion.reindexing import ReindexReport, copy_roots, require_same_vectors
from rag_bm25.ingestion.source_roots import read_stored_roots
from rag_bm25.statistics.log.generation import generation_in_force
from rag_bm25.statistics.log.settings import FORMAT, read_former

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from rag_bm25.events import Progress
    from rag_bm25.index.config import IndexConfig
    from rag_bm25.index.index import BM25Index
    from rag_bm25.store.protocol import Store


class FormerChunk(NamedTuple):
    """A chunk as every format has it."""

    id: str
    namespace: str
    text: str
    metadata: dict[str, Any]
    dense: NDArray[np.float32] | None


@contextmanager
def open_former(store: Store) -> Iterator[Store | None]:
    """Yield the generation in force of an index of an earlier format; None for any other index."""
    with generation_in_force(store) as newest:
        version, _ = read_former(newest)
        yield newest if 0 < version < FORMAT else None


def read_former_config(store: Store) -> tuple[IndexConfig, list[str]]:
    """Return the parameters that this version has, and the names of those that it does not have or refuses."""
    known = config_of_former(read_former(store)[1])
    if known is None:
        raise FormatError(f"the parameters of {store.name} cannot be read")
    return known


def scan_former(store: Store) -> Iterator[FormerChunk]:
    """Yield all chunks by the columns that every format has."""
    rows = drop_superseded(chain.from_iterable(store.scan_chunks(contents=True)))
    has_vectors = store.dense_dim() is not None
    while page := list(islice(rows, MAX_BATCH_CHUNKS)):
        pks = [row.pk for row in page] if has_vectors else []
        vectors = {row.pk: row.dense for row in store.get_chunks(pks, contents=False, dense=True)}
        for row in page:
            yield FormerChunk(row.id, row.namespace, row.text, row.metadata, vectors.get(row.pk))


def reindex_former(
    source: Store, config: IndexConfig, target: BM25Index, *, progress: Callable[[Progress], None] | None = None
) -> ReindexReport:
    """Encode the chunks of an index of an earlier format, given its config, into another, which has no others then."""
    require_same_vectors(config, target.config)
    chunks, total, ids = scan_former(source), source.count_unloaded(), dict[str, set[str]]()
    while batch := list(islice(chunks, MAX_BATCH_CHUNKS)):
        for namespace, some in groupby(sorted(batch, key=_namespace_of), key=_namespace_of):
            ids.setdefault(namespace, set()).update(_add(target, namespace, list(some)))
        report_progress(progress, "chunks encoded", sum(map(len, ids.values())), total)
    for namespace in ids:
        copy_roots(read_stored_roots(source, namespace), target, namespace)
    removed = sum(
        _remove_others(target, namespace, ids.get(namespace, set())) for namespace in target.stats().namespaces
    )
    return ReindexReport(target.stats().num_chunks, removed)


def _namespace_of(chunk: FormerChunk) -> str:
    return chunk.namespace


def _add(target: BM25Index, namespace: str, chunks: Sequence[FormerChunk]) -> list[str]:
    """Add chunks, of which those that are there cost no write; return their ids."""
    vectors = [chunk.dense for chunk in chunks if chunk.dense is not None]
    return target.add(
        [chunk.text for chunk in chunks],
        ids=[chunk.id for chunk in chunks],
        metadatas=[chunk.metadata for chunk in chunks],
        embeddings=np.stack(vectors) if vectors else None,
        namespace=namespace,
    )


def _remove_others(target: BM25Index, namespace: str, ids: set[str]) -> int:
    others = [chunk.id for chunk in target.chunks(namespace=namespace) if chunk.id not in ids]
    return target.delete(others, namespace=namespace) if others else 0
