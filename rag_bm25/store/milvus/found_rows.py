"""The rows of hits that a search found by their keys, though writers update the chunks meanwhile."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from rag_bm25.store.milvus.collection import PAGE, pages
from rag_bm25.store.milvus.schema import SPARSE, chunk_row
from rag_bm25.store.rows import other_slot

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rag_bm25.store.milvus.collection import Collection
    from rag_bm25.vectors.sparse import SparseVector

Entity: TypeAlias = "Mapping[str, Any]"
Hits: TypeAlias = "list[tuple[float, Entity]]"  # score and entity of each hit of a query

VERSION = ("pk", "batch")  # keys alternate between two slots, so a key alone does not identify a version of a chunk
_version_of = itemgetter(*VERSION)


def read_found_rows(chunks: Collection, queries: Sequence[Any], found: list[Hits], request: Entity) -> list[Hits]:
    """Read the rows of versions, page by page.

    An update stores the new row of a chunk before it deletes the old one. Where that was found, and is gone, the new
    row takes its place if it fits the request, with its own score; a dense one keeps that of the old row.
    """
    versions = {_version_of(entity) for hits in found for _, entity in hits}
    read = chunks.get([pk for pk, _ in versions], request["output_fields"], PAGE)
    stored = {version: entity for entity in read if (version := _version_of(entity)) in versions}
    successors = _read_successors(chunks, [pk for pk, _ in versions - stored.keys()], request)
    is_lexical = request["anns_field"] == SPARSE
    return [
        _replace_lost(query if is_lexical else None, hits, stored, successors)
        for query, hits in zip(queries, found, strict=True)
    ]


def _replace_lost(
    query: SparseVector | None, hits: Hits, stored: Mapping[object, Entity], successors: Mapping[str, Entity]
) -> Hits:
    rows: dict[str, tuple[float, Entity]] = {}
    lost: Hits = []
    for score, found in hits:
        if (entity := stored.get(_version_of(found))) is not None:
            rows[entity["pk"]] = score, entity
        elif found["pk"] in successors:
            lost.append((score, successors[found["pk"]]))
    for old_score, entity in lost:
        score = old_score if query is None else _score(query, entity)
        if score > 0 or query is None:
            rows.setdefault(entity["pk"], (score, entity))
    return sorted(rows.values(), key=itemgetter(0), reverse=True) if lost else list(rows.values())


def _score(query: SparseVector, entity: Entity) -> float:
    return float(np.float32(query.dot(chunk_row(entity).vector)))


def _read_successors(chunks: Collection, lost: Iterable[str], request: Entity) -> dict[str, Entity]:
    """Map the key of each row that was lost to the newest row of its chunk that fits."""
    output = list(dict.fromkeys([*request["output_fields"], SPARSE]))
    newest: dict[str, Entity] = {}
    for page in pages(sorted(lost), PAGE // 2):  # both keys of a chunk in one call: one of them is there
        clause = chunks.engine.dialect.any_of("pk", [key for pk in page for key in (pk, other_slot(pk))])
        where = f"({request['filter']}) and ({clause})" if request["filter"] else clause
        for entity in sorted(chunks.query(where, output), key=itemgetter("batch")):
            newest |= dict.fromkeys({entity["pk"], other_slot(entity["pk"])}.intersection(page), entity)
    return newest
