"""Make an index with other parameters from the texts of one that is there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from rag_bm25.chunks import MAX_BATCH_CHUNKS
from rag_bm25.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rag_bm25.chunks import Chunk
    from rag_bm25.index import BM25Index

__all__ = ["ReindexReport", "reindex"]


@dataclass(frozen=True)
class ReindexReport:
    """What making an index again did.

    Parameters
    ----------
    num_chunks : int
        Chunks that the target has now.
    removed : int
        Chunks of the target that the source does not have.
    """

    num_chunks: int
    removed: int


def reindex(
    source: BM25Index, target: BM25Index, *, progress: Callable[[int, int], None] | None = None
) -> ReindexReport:
    """Encode the stored texts of an index with the parameters and the analyzer of another, which holds the same then.

    Ids, metadata, namespaces and dense vectors are carried over. Chunks that the target has already cost no write, so
    a call that was cut short can be made again, and one that follows a long first one catches up with what was written
    to the source in the meantime. The source answers searches all the while; readers change over by opening the target.
    Texts are not split anew. Weightings with a k1 for each term need :meth:`rag_bm25.BM25Index.reencode` afterwards.

    Parameters
    ----------
    source : BM25Index
        Only read.
    target : BM25Index
        With the new parameters; a new one, or one that an earlier call has filled: chunks that the source does not
        have are deleted from it.
    progress : callable of (int, int) to None, optional
        Told how many chunks of the source were read, and how many there are.

    Returns
    -------
    ReindexReport
        What was done.

    Raises
    ------
    ParameterError
        Both are the same index, or their dense vectors are of different kinds; nothing was written.
    StoreError
        One of them failed; the same call again writes what is missing.

    Examples
    --------
    ::

        with BM25Index.open(uri, "docs") as source, BM25Index.open(uri, "docs_2", config=config) as target:
            reindex(source, target)
    """
    _require_fitting(source, target)
    figures, done = source.stats(), 0
    for batch in _batches(source):
        _add(source, target, batch)
        done += len(batch)
        if progress is not None:
            progress(done, max(figures.num_chunks, done))
    for namespace in source.stats().namespaces:
        _copy_roots(source, target, namespace)
    removed = sum(_remove_strays(source, target, batch) for batch in _batches(target))
    return ReindexReport(target.stats().num_chunks, removed)


def _require_fitting(source: BM25Index, target: BM25Index) -> None:
    """Refuse an index that would be its own source, and dense vectors that do not fit."""
    if source.stats().name == target.stats().name:
        msg = f"source and target must be different indexes, got {target.stats().name} for both"
        raise ParameterError(msg)
    if source.config.dense_field() != target.config.dense_field():
        msg = (
            "dense vectors are carried over, so dense_dim and dense_metric of the target must be those of the source, "
            f"{source.config.dense_field()}, got {target.config.dense_field()}"
        )
        raise ParameterError(msg)


def _copy_roots(source: BM25Index, target: BM25Index, namespace: str) -> None:
    """Let the next ingestion name files as they are named in the source."""
    known = {root.name: root for root in target.source_roots(namespace=namespace)}
    roots = [
        replace(root, version=known[root.name].version if root.name in known else "")
        for root in source.source_roots(namespace=namespace)
        if root.name not in known or known[root.name].path != root.path
    ]
    if roots:
        target.remember_source_roots(roots, namespace=namespace)


def _batches(index: BM25Index) -> Iterator[list[Chunk]]:
    """Stream all chunks, in batches of one namespace each."""
    for namespace in index.stats().namespaces:
        chunks = index.chunks(namespace=namespace)
        while batch := list(islice(chunks, MAX_BATCH_CHUNKS)):
            yield batch


def _add(source: BM25Index, target: BM25Index, batch: list[Chunk]) -> None:
    """Write the chunks that the target does not have as they are."""
    distinct = list({chunk.id: chunk for chunk in batch}.values())
    vectors = None
    if source.config.dense_dim is not None:
        known = source.get_embeddings([chunk.id for chunk in distinct], namespace=batch[0].namespace)
        distinct = [chunk for chunk in distinct if chunk.id in known]  # others were deleted since
        vectors = np.stack([known[chunk.id] for chunk in distinct]) if distinct else None
    if distinct:
        target.add(
            [chunk.text for chunk in distinct],
            ids=[chunk.id for chunk in distinct],
            metadatas=[chunk.metadata for chunk in distinct],
            embeddings=vectors,
            namespace=batch[0].namespace,
        )


def _remove_strays(source: BM25Index, target: BM25Index, batch: list[Chunk]) -> int:
    """Delete the chunks that the source does not have."""
    namespace, ids = batch[0].namespace, [chunk.id for chunk in batch]
    there = {chunk.id for chunk in source.get(ids, namespace=namespace)}
    strays = [id_ for id_ in ids if id_ not in there]
    return target.delete(strays, namespace=namespace) if strays else 0
