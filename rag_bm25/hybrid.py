"""Lexical and dense search of the same chunks, as one ranking."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from rag_bm25.chunks import HybridHit
from rag_bm25.ranking import MAX_K, shown
from rag_bm25.sparse import SparseVector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rag_bm25.filters import Filter
    from rag_bm25.fusion import Fusion
    from rag_bm25.search_params import SearchParams
    from rag_bm25.store import ChunkRow, DenseMetric, Match, Store

__all__ = ["Arms", "SearchArm", "search_arm", "search_hybrid"]


@dataclass(frozen=True, eq=False)
class SearchArm:
    """One of the searches that a hybrid search fuses.

    Parameters
    ----------
    query : SparseVector or ndarray of float32, shape (dim,)
        What is searched for: a sparse vector among the sparse ones, an array among the dense ones. An empty vector
        finds nothing, without a call.
    metric : {"COSINE", "IP"}
        How a row is scored: ``IP`` for a sparse query, the metric of the index for a dense one.
    limit : int
        How many of the best chunks take part in the fusion, in 1..16384.
    where : Filter, optional
        Condition on the metadata.
    namespaces : sequence of str, optional
        Only these namespaces.
    params : mapping of str to str, bool, int or float, optional
        What else the engine is told.
    """

    query: SparseVector | NDArray[np.float32]
    metric: DenseMetric
    limit: int
    where: Filter | None = None
    namespaces: Sequence[str] | None = None
    params: SearchParams | None = None


@dataclass(frozen=True)
class Arms:
    """Both arms of a hybrid search.

    Parameters
    ----------
    sparse, dense : SearchArm
        The query's terms, and its dense vector.
    namespaces : sequence of str or None
        Whose chunks are shown; None for all.
    bound : float
        The greatest BM25 score that the query can have.
    """

    sparse: SearchArm
    dense: SearchArm
    namespaces: Sequence[str] | None
    bound: float


def search_arm(store: Store, arm: SearchArm, namespaces: Sequence[str] | None) -> list[Match]:
    """Search one arm alone.

    Parameters
    ----------
    store : Store
        Where.
    arm : SearchArm
        What for.
    namespaces : sequence of str or None
        Whose chunks are shown; None for all.

    Returns
    -------
    list of Match
        At most `arm.limit`, by falling score.
    """
    return _candidates(store, [arm], namespaces)[0]


def search_hybrid(store: Store, arms: Arms, fusion: Fusion, k: int, *, arm_scores: bool) -> list[HybridHit]:
    """Search both arms and fuse them here.

    Milvus's own rankers are not used. They rank rows of equal score in whatever order the engine has them, and rank the
    old and the new row of a chunk that is being updated as two. The weighted one sends BM25 scores through an
    arctangent, which makes nearly all of them nearly 1. Two calls take as long as one that fuses.

    Parameters
    ----------
    store : Store
        Where.
    arms : Arms
        What for.
    fusion : RRF or Weighted
        How two scores become one.
    k : int
        How many hits at most.
    arm_scores : bool
        Whether the hits are to have the score of each arm.

    Returns
    -------
    list of HybridHit
        By falling fused score, then by id.
    """
    sparse, dense = _candidates(store, [arms.sparse, arms.dense], arms.namespaces)
    rows = {match.row.pk: match.row for match in (*sparse, *dense)}
    scores = [{match.row.pk: match.score for match in arm} for arm in (sparse, dense)]
    fused = fusion.fuse(scores[0], scores[1], arms.bound)
    hits = [_hit(rows[pk], score, [arm.get(pk) for arm in scores] if arm_scores else []) for pk, score in fused.items()]
    return sorted(hits, key=lambda hit: (-hit.score, hit.id, hit.namespace))[:k]


def _candidates(store: Store, arms: Sequence[SearchArm], namespaces: Sequence[str] | None) -> list[list[Match]]:
    """Search for the best chunks of each arm; a newer row that one arm finds hides the older one in all of them."""
    limits = [arm.limit for arm in arms]
    found = [_rows(store, arm, arm.limit) for arm in arms]
    while True:
        everything = list(chain(*found))
        best = [shown(rows, namespaces, everything)[: arm.limit] for rows, arm in zip(found, arms, strict=True)]
        lacking = [
            at for at, arm in enumerate(arms) if len(best[at]) < arm.limit and len(found[at]) == limits[at] < MAX_K
        ]
        if not lacking:
            return best
        for at in lacking:
            limits[at] = min(2 * limits[at], MAX_K)
            found[at] = _rows(store, arms[at], limits[at])


def _rows(store: Store, arm: SearchArm, limit: int) -> list[Match]:
    """Search for the best rows of one arm, by (-score, id, pk)."""
    considered: Any = {"where": arm.where, "namespaces": arm.namespaces, "params": arm.params}
    if isinstance(arm.query, SparseVector):
        return store.search([arm.query], limit=limit, **considered)[0] if len(arm.query) else []
    return store.search_dense(arm.query[np.newaxis], metric=arm.metric, limit=limit, **considered)[0]


def _hit(row: ChunkRow, score: float, arm_scores: Sequence[float | None]) -> HybridHit:
    return HybridHit(row.id, score, row.text, row.metadata, row.namespace, *arm_scores)
