"""Search the chunks: in calls that engines take, with ties in one order."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from rag_bm25.store.milvus.collection import SPARSE_METRIC, in_halves, pages
from rag_bm25.store.milvus.expressions import where_clause
from rag_bm25.store.milvus.found_rows import VERSION, read_found_rows
from rag_bm25.store.milvus.limits import MAX_ROWS, ReplyTooLargeError
from rag_bm25.store.milvus.schema import DENSE, SPARSE, chunk_output, chunk_row
from rag_bm25.store.rows import Match, rank_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from rag_bm25.store.milvus.collection import Collection
    from rag_bm25.store.milvus.found_rows import Hits
    from rag_bm25.store.rows import ConsistencyLevel, SearchArm
    from rag_bm25.vectors.sparse import SparseVector

QUERIES_PER_CALL = 100
KEYS_OF_A_SEARCH = 1000
ATTEMPTS = 3  # to read what was found, while chunks are deleted
SPARE = 2  # of 100 searches for ten chunks, 5 to 8 share the last score with one more row, and one with two
VECTORS_OF_A_SEARCH = 150  # rows; milvus-lite 2.5 takes .1 s for 600 vectors in an answer and 85 s for 10,000


class ChunkSearch:
    """Searches of one collection of chunks."""

    def __init__(self, chunks: Collection, consistency: ConsistencyLevel) -> None:
        self._chunks = chunks
        self._consistency = consistency

    def search(self, queries: Sequence[SparseVector] | NDArray[np.float32], arm: SearchArm) -> list[list[Match]]:
        if arm.pks is not None and len(arm.pks) > KEYS_OF_A_SEARCH:
            parts = [self.search(queries, replace(arm, pks=tuple(page))) for page in pages(arm.pks, KEYS_OF_A_SEARCH)]
            return [sorted(chain.from_iterable(found), key=rank_of)[: arm.limit] for found in zip(*parts, strict=True)]
        field, metric = (DENSE, arm.metric) if isinstance(queries, np.ndarray) else (SPARSE, SPARSE_METRIC)
        request = {
            "anns_field": field,
            "search_params": {"metric_type": metric, **(arm.params or {})},
            "filter": self._clause(arm),
            "output_fields": chunk_output(contents=arm.pks is None, vectors=arm.vectors),
        }
        self._chunks.prepare().before_search(self._chunks.name)
        return [
            matches
            for page in pages(list(queries), QUERIES_PER_CALL)
            for matches in self._search_page(page, arm.limit, request)
        ]

    def _clause(self, arm: SearchArm) -> str:
        dialect = self._chunks.engine.dialect
        clause = where_clause(dialect, arm.scope)
        if arm.pks is None:
            return clause
        keys = dialect.any_of("pk", arm.pks)
        return f"({clause}) and {keys}" if clause else keys

    def _search_page(self, queries: Sequence[Any], limit: int, request: Mapping[str, Any]) -> list[list[Match]]:
        """Search one call's worth of queries; engines cut rows of equal score off in any order."""
        wanted = limit + max(SPARE, limit // 10)  # those below show whether the last score is shared
        found = self._nearest(queries, min(wanted, MAX_ROWS), request)
        while wanted < MAX_ROWS:
            cut = [at for at, matches in enumerate(found) if _is_cut(matches, limit, wanted)]
            if not cut:
                break
            wanted = min(4 * wanted, MAX_ROWS)
            for at, matches in zip(cut, self._nearest([queries[at] for at in cut], wanted, request), strict=True):
                found[at] = matches
        return [sorted(matches, key=rank_of)[:limit] for matches in found]

    def _nearest(self, queries: Sequence[Any], limit: int, request: Mapping[str, Any]) -> list[list[Match]]:
        """Search the engine for the rows with the highest scores."""
        request = {**request, "limit": limit}
        if SPARSE in request["output_fields"] and len(queries) * limit > VECTORS_OF_A_SEARCH:
            hits = self._hits_by_key(queries, request)
        else:
            try:
                hits = self._hits(queries, request)
            except ReplyTooLargeError:
                hits = self._hits_by_key(queries, request)
        return [[Match(chunk_row(entity), score) for score, entity in found] for found in hits]

    def _hits_by_key(self, queries: Sequence[Any], request: Mapping[str, Any]) -> list[Hits]:
        """Search for keys, and read their rows page by page; again if chunks were deleted meanwhile."""
        for _ in range(ATTEMPTS):
            keys = in_halves(lambda some: self._hits(some, {**request, "output_fields": [*VERSION]}), queries)
            hits = read_found_rows(self._chunks, queries, keys, request)
            answers = zip(keys, hits, strict=True)
            if all(len(found) < request["limit"] or len(rows) == len(found) for found, rows in answers):
                break  # else fewer than the limit would look like all there are
        return hits

    def _hits(self, queries: Sequence[Any], request: Mapping[str, Any]) -> list[Hits]:
        """Call the engine."""
        options = {"data": queries, "consistency_level": self._consistency, **request}
        found = self._chunks.read("search", **options)
        return [[(float(hit["distance"]), hit["entity"]) for hit in hits] for hits in found]


def _is_cut(matches: Sequence[Match], limit: int, wanted: int) -> bool:
    """Return whether rows with the last score that counts may have been left out."""
    return len(matches) == wanted and matches[limit - 1].score == matches[-1].score
