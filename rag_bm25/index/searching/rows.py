"""Read rows, keep the newest row of each chunk, and turn rows into hits."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from rag_bm25.documents.chunks import Chunk, Hit, pk_digest
from rag_bm25.errors import ChunkNotFoundError, InputError
from rag_bm25.index.arguments import list_namespaces
from rag_bm25.store.rows import SLOTS, pk_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from rag_bm25.statistics.view import StatisticsView
    from rag_bm25.store.protocol import Store
    from rag_bm25.store.rows import ChunkKey, ChunkRow, Match


def to_chunk(row: ChunkRow) -> Chunk:
    """Return a row as users see it."""
    return Chunk(row.id, row.text, row.metadata, row.namespace, row.length, part=row.part)


def to_hit(match: Match, share: float | None = None, confidence: float | None = None) -> Hit:
    """Return a match as users see it."""
    row = match.row
    return Hit(
        row.id,
        match.score,
        row.text,
        row.metadata,
        row.namespace,
        score_share=share,
        confidence=confidence,
        part=row.part,
    )


def read_newest(
    store: Store,
    chunks: Iterable[ChunkKey],
    *,
    contents: bool = True,
    vectors: bool = False,
    dense: bool = False,
) -> dict[ChunkKey, ChunkRow]:
    """Read the newest row of each chunk; those that are not stored are left out."""
    pks = [pk_in(part, pk_digest(namespace, id_) + slot) for namespace, id_, part in chunks for slot in SLOTS]
    rows = store.get_chunks(pks, contents=contents, vectors=vectors, dense=dense)
    return {row.key: row for row in sorted(rows, key=lambda row: row.batch)}


def read_chunks(store: Store, ids: Sequence[str], namespace: str, *, dense: bool = False) -> dict[str, ChunkRow]:
    """Read the newest row of each chunk of a namespace: id -> row, without the ids that are not stored."""
    rows = read_newest(store, [(namespace, id_, None) for id_ in ids], dense=dense)
    return {row.id: row for row in rows.values()}


def read_embeddings(store: Store, ids: Sequence[str], namespace: str) -> dict[str, NDArray[np.float32]]:
    """Read the dense vectors of the chunks of a namespace: id -> vector, without the ids that are not stored."""
    rows = read_chunks(store, ids, namespace, dense=True)
    return {id_: row.dense for id_, row in rows.items() if row.dense is not None}


def read_one(
    store: Store,
    view: StatisticsView,
    id_: str,
    names: tuple[str, ...] | None,
    part: int | None = None,
    *,
    takes_place: bool = True,
) -> ChunkRow:
    """Read the one chunk that has an id in some namespaces, with its vector; not every method takes its place."""
    searched_in = dict.fromkeys(view.statistics.namespaces if names is None else names)
    rows = read_newest(store, [(namespace, id_, part) for namespace in searched_in], vectors=True).values()
    if len(rows) == 1:
        return next(iter(rows))
    if len(places := {row.namespace for row in rows}) > 1:
        named, advice = list_namespaces(places), "give chunk_namespace" if takes_place else "search one of them"
        raise InputError(f"{len(places)} namespaces have a chunk {id_!r}, {named}: {advice}")
    if rows:
        parts = ", ".join(str(row.part) for row in rows)
        advice = f"{'give part, or ' if takes_place else ''}ask one of its parts"
        raise InputError(f"{len(rows)} indexes of the group have a chunk {id_!r}, {parts}: {advice}")
    searched = "any namespace" if names is None else list_namespaces(names)
    raise ChunkNotFoundError(f"no chunk {id_!r} in {searched} of {store.name}")


def latest_rows(
    matches: Sequence[Match], namespaces: Sequence[str] | None, others: Sequence[Match] = ()
) -> list[Match]:
    """Drop rows of other namespaces, and the older of two rows of one chunk, which exist while it is updated.

    `others` are matches of another search for the same query: one of them may be the newer row.
    """
    newest: dict[ChunkKey, str] = {}
    for match in (*matches, *others):
        chunk = match.row.key
        newest[chunk] = max(newest.get(chunk, ""), match.row.batch)
    return [
        match
        for match in matches
        if newest[match.row.key] == match.row.batch and (namespaces is None or match.row.namespace in namespaces)
    ]


def drop_superseded(rows: Iterable[ChunkRow]) -> Iterator[ChunkRow]:
    """Drop the older of two rows of one chunk from a stream in the order of the keys."""
    for _, versions in groupby(rows, key=lambda row: row.key):
        yield max(versions, key=lambda row: row.batch)
