"""Encode the texts of an index into another index with other parameters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from rag_bm25.documents.chunks import MAX_BATCH_CHUNKS
from rag_bm25.errors import ParameterError
from rag_bm25.events import report_progress
from rag_bm25.index.config import IndexConfig
from rag_bm25.index.maintenance.generations import make_next_generation
from rag_bm25.index.maintenance.learning import carry_k1
from rag_bm25.index.stored_config import differing
from rag_bm25.ingestion.source_roots import read_source_roots, set_source_roots
from rag_bm25.ingestion.splitting import default_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rag_bm25.documents.chunks import Chunk
    from rag_bm25.events import Progress
    from rag_bm25.index.generation import Generation
    from rag_bm25.index.index import BM25Index
    from rag_bm25.ingestion.source_roots import SourceRoot


@dataclass(frozen=True)
class ReindexReport:
    """Result of reindexing.

    Parameters
    ----------
    num_chunks, removed : int
        Chunks of the target, and chunks deleted from it, since the source does not have them.
    model_lost : bool
        Whether the source had a model of :meth:`rag_bm25.BM25Index.calibrate_answers`, and the target has none.
    """

    num_chunks: int
    removed: int
    model_lost: bool = False


def reindex(
    source: BM25Index,
    target: BM25Index | IndexConfig,
    *,
    progress: Callable[[Progress], None] | None = None,
) -> ReindexReport:
    """Encode the stored texts of an index with other parameters, in its place or into another index.

    Ids, metadata, namespaces and dense vectors are copied; texts are not split again, and folders keep the maximum
    length of their chunks. Chunks that the target already
    has cost no write: a call that was interrupted can be repeated. The model of
    :meth:`rag_bm25.BM25Index.calibrate_answers` is copied only if no parameter differs; the report tells if it is lost.
    The k1 of terms is carried over, for the weighting ``bm25``: learn it anew where words or lengths differ.

    With a config, the next generation of the index is made beside the present one, under the same name. Searches and
    writes go on; writers wait at the end, for as long as it takes to list all keys and carry over the last changes.
    Then all open indexes follow: those of this process at their next call, those of others on a server at their next
    refresh. The former generation keeps its chunks until
    :func:`rag_bm25.index.drop_former_generations`.

    With another index, readers switch by opening that one, and a second call after a long first one catches up with
    changes of the source in the meantime.

    Parameters
    ----------
    source : BM25Index
        Index with the texts; it is only read, unless `target` is a config.
    target : BM25Index or IndexConfig
        Index with the new parameters, new or filled by an earlier call, or the new parameters of the source itself.
        Chunks that the source lacks are deleted.
    progress : callable of Progress to None, optional
        Called periodically with ``"chunks encoded"``, those of the source.

    Returns
    -------
    ReindexReport
        Counts of the target.

    Raises
    ------
    ParameterError
        Source and target are the same index, or differ in dimension or metric of dense vectors. Nothing was written.
    StoreError
        One of the stores failed, or another process or thread reindexes the source. The same call again writes what is
        missing.
    """
    if isinstance(target, IndexConfig):
        return _reindex_in_place(source, target, progress)
    _require_compatible(source, target)
    figures, done = source.stats(), 0
    for batch in _batches(source):
        _copy_chunks(source, target, batch)
        done += len(batch)
        report_progress(progress, "chunks encoded", done, figures.num_chunks)
    for namespace in source.stats().namespaces:
        roots = read_source_roots(source, namespace=namespace)
        copy_roots(_with_sizes(roots, source.config, target.config), target, namespace)
    _copy_answers(source, target)
    _copy_k1(source, target)
    removed = sum(_remove_strays(source, target, batch) for batch in _batches(target))
    return _report(target, removed, had_model=_has_model(source))


def _reindex_in_place(
    source: BM25Index, config: IndexConfig, progress: Callable[[Progress], None] | None
) -> ReindexReport:
    """Replace an index by its next generation."""
    require_same_vectors(source.config, config)
    source.refresh()  # another process may have calibrated it
    had_model = _has_model(source)
    for namespace in source.stats().namespaces:
        copy_roots(
            _with_sizes(read_source_roots(source, namespace=namespace), source.config, config), source, namespace
        )
    removed = make_next_generation(source, config, progress)
    return _report(source, removed, had_model=had_model)


def _report(target: BM25Index, removed: int, *, had_model: bool) -> ReindexReport:
    return ReindexReport(target.stats().num_chunks, removed, had_model and not _has_model(target))


def _has_model(index: BM25Index) -> bool:
    """Return whether an index has a model of the confidence of hits."""
    return index._live.view.answers is not None  # noqa: SLF001


def _require_compatible(source: BM25Index, target: BM25Index) -> None:
    """Refuse an index as its own source, and different kinds of dense vectors."""
    if source.stats().name == target.stats().name:
        raise ParameterError(f"source and target must be different indexes, got {target.stats().name} for both")
    require_same_vectors(source.config, target.config)


def require_same_vectors(source: IndexConfig, config: IndexConfig) -> None:
    """Refuse another dimension or metric than that of the vectors that are copied."""
    if source.dense_field() != config.dense_field():
        raise ParameterError(
            "dense vectors are copied, so dense_dim and dense_metric of the target must be those of the source, "
            f"{source.dense_field()}, got {config.dense_field()}"
        )


def _with_sizes(roots: Iterable[SourceRoot], config: IndexConfig, new: IndexConfig) -> list[SourceRoot]:
    """Keep the maximum length of the chunks of each folder: another chunk size would have them all cut anew."""
    size = default_size(config)
    own = {} if size == default_size(new) else {"split_size": size}
    return [replace(root, options={**own, **root.options}) for root in roots]


def copy_roots(source_roots: Iterable[SourceRoot], target: BM25Index, namespace: str) -> None:
    """Copy source roots, so that the next ingestion names files as before."""
    known = {root.name: root for root in read_source_roots(target, namespace=namespace)}
    roots = [
        replace(root, version=known[root.name].version if root.name in known else "")
        for root in source_roots
        if root.name not in known or replace(known[root.name], version=root.version) != root
    ]
    if roots:
        set_source_roots(target, roots, namespace=namespace)


def _copy_answers(source: BM25Index, target: BM25Index) -> None:
    """Copy the model of the confidence of hits, unless a parameter differs: the signals may have another meaning."""
    model = source._live.view.answers  # noqa: SLF001

    def write(now: Generation) -> None:
        if model not in (None, now.live.view.answers) and not differing(source.config, now.config):
            now.live.write_answers(model)

    target._current().in_force(write)  # noqa: SLF001


def _copy_k1(source: BM25Index, target: BM25Index) -> None:
    """Copy the k1 of each term."""
    target._current().in_force(partial(carry_k1, source._current()))  # noqa: SLF001


def _batches(index: BM25Index) -> Iterator[list[Chunk]]:
    """Yield all chunks in batches, each of one namespace."""
    for namespace in index.stats().namespaces:
        chunks = index.chunks(namespace=namespace)
        while batch := list(islice(chunks, MAX_BATCH_CHUNKS)):
            yield batch


def _copy_chunks(source: BM25Index, target: BM25Index, batch: list[Chunk]) -> None:
    """Add chunks to the target, which skips unchanged ones."""
    distinct = list({chunk.id: chunk for chunk in batch}.values())
    vectors = None
    if source.config.dense_dim is not None:
        known = source.get_embeddings([chunk.id for chunk in distinct], namespace=batch[0].namespace)
        distinct = [chunk for chunk in distinct if chunk.id in known]  # the others were deleted meanwhile
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
