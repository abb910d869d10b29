"""The place of a chunk among hits that are reranked, grouped or chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rag_bm25.hits.groups import value_of
from rag_bm25.hits.reranking import check_scores
from rag_bm25.query.scores import Placement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rag_bm25.documents.chunks import Hit
    from rag_bm25.hits.options import Rerank, SearchOptions
    from rag_bm25.store.rows import ChunkKey


class RerankRecorder:
    """A reranker that remembers the scores that it gave."""

    def __init__(self, rerank: Rerank | None) -> None:
        self._rerank = rerank
        self.scores: dict[ChunkKey, float] = {}

    @property
    def name(self) -> str:
        """Name of the function, or of its class; empty without one."""
        return "" if self._rerank is None else getattr(self._rerank, "__name__", type(self._rerank).__name__)

    def __call__(self, query: str, hits: Sequence[Hit]) -> Sequence[float]:
        """Score hits as the reranker does."""
        assert self._rerank is not None
        scores = check_scores(self._rerank(query, hits), len(hits))
        self.scores.update({hit.key: score for hit, score in zip(hits, scores, strict=True)})
        return scores


def place_hit(
    chunk: ChunkKey, hits: Sequence[Hit], k: int, options: SearchOptions, recorder: RerankRecorder
) -> Placement:
    """Find a chunk among the hits of its search."""
    rank = next((rank for rank, hit in enumerate(hits, 1) if _is(hit.key, chunk)), None)
    hit = None if rank is None else hits[rank - 1]
    grouping = options.get("group")
    return Placement(
        k,
        rank,
        recorder.name,
        len(recorder.scores),
        next((score for key, score in recorder.scores.items() if _is(key, chunk)), None),
        "" if grouping is None else grouping.key,
        None if grouping is None or hit is None else value_of(grouping, hit),
        None if hit is None else hit.group_score,
    )


def _is(key: ChunkKey, asked: ChunkKey) -> bool:
    return key[:2] == asked[:2] and asked[2] in (None, key[2])
