"""Read rows, keep the newest row of each chunk, and turn rows into hits."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from rag_bm25.documents.chunks import Chunk, Hit, pk_digest
from rag_bm25.errors import ChunkNotFoundError, InputError
from rag_bm25.index.arguments import list_namespaces
from rag_bm25.store.rows import SLOTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from rag_bm25.statistics.view import StatisticsView
    from rag_bm25.store.protocol import Store
    from rag_bm25.store.rows import ChunkRow, Match


def to_chunk(row: ChunkRow) -> Chunk:
    """Return a row as users see it."""
    return Chunk(row.id, row.text, row.metadata, row.namespace, row.length)


def to_hit(match: Match, share: float | None = None, confidence: float | None = None) -> Hit:
    """Return a match as users see it."""
    row = match.row
    return Hit(row.id, match.score, row.text, row.metadata, row.namespace, score_share=share, confidence=confidence)


def read_newest(
    store: Store,
    chunks: Iterable[tuple[str, str]],
    *,
    contents: bool = True,
    vectors: bool = False,
    dense: bool = False,
) -> dict[tuple[str, str], ChunkRow]:
    """Read the newest row of each chunk, given by namespace and id; ids that are not stored are left out."""
    pks = [pk_digest(namespace, id_) + slot for namespace, id_ in chunks for slot in SLOTS]
    rows = store.get_chunks(pks, contents=contents, vectors=vectors, dense=dense)
    return {(row.namespace, row.id): row for row in sorted(rows, key=lambda row: row.batch)}


def read_chunks(
    store: Store, ids: Sequence[str], namespace: str, *, vectors: bool = False, dense: bool = False
) -> dict[str, ChunkRow]:
    """Read the newest row of each chunk of a namespace: id -> row, without the ids that are not stored."""
    rows = read_newest(store, [(namespace, id_) for id_ in ids], vectors=vectors, dense=dense)
    return {row.id: row for row in rows.values()}


def read_embeddings(store: Store, ids: Sequence[str], namespace: str) -> dict[str, NDArray[np.float32]]:
    """Read the dense vectors of the chunks of a namespace: id -> vector, without the ids that are not stored."""
    rows = read_chunks(store, ids, namespace, dense=True)
    return {id_: row.dense for id_, row in rows.items() if row.dense is not None}


def read_chunk_by_namespace(store: Store, id_: str, namespaces: Iterable[str]) -> dict[str, ChunkRow]:
    """Read the newest row, with its vector, of the chunk with one id in each namespace that has it."""
    rows = read_newest(store, [(namespace, id_) for namespace in dict.fromkeys(namespaces)], vectors=True)
    return {row.namespace: row for row in rows.values()}


def read_one(store: Store, view: StatisticsView, id_: str, names: tuple[str, ...] | None) -> ChunkRow:
    """Read the one chunk that has an id in some namespaces."""
    rows = read_chunk_by_namespace(store, id_, view.statistics.namespaces if names is None else names)
    if len(rows) == 1:
        return next(iter(rows.values()))
    if rows:
        places = list_namespaces(rows)
        raise InputError(f"{len(rows)} namespaces have a chunk {id_!r}, {places}: give chunk_namespace")
    searched = "any namespace" if names is None else list_namespaces(names)
    raise ChunkNotFoundError(f"no chunk {id_!r} in {searched} of {store.name}")


def latest_rows(
    matches: Sequence[Match], namespaces: Sequence[str] | None, others: Sequence[Match] = ()
) -> list[Match]:
    """Drop rows of other namespaces, and the older of two rows of one chunk, which exist while it is updated.

    `others` are matches of another search for the same query: one of them may be the newer row.
    """
    newest: dict[tuple[str, str], str] = {}
    for match in (*matches, *others):
        chunk = (match.row.namespace, match.row.id)
        newest[chunk] = max(newest.get(chunk, ""), match.row.batch)
    return [
        match
        for match in matches
        if newest[match.row.namespace, match.row.id] == match.row.batch
        and (namespaces is None or match.row.namespace in namespaces)
    ]


def drop_superseded(rows: Iterable[ChunkRow]) -> Iterator[ChunkRow]:
    """Drop the older of two rows of one chunk from a stream in the order of the keys."""
    for _, versions in groupby(rows, key=lambda row: (row.namespace, row.id)):
        yield max(versions, key=lambda row: row.batch)
