"""Lexical and dense search of the same chunks, as one ranking."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rag_bm25.chunks import HybridHit
from rag_bm25.fusion import RRF
from rag_bm25.ranking import best, shown
from rag_bm25.sparse import SparseVector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rag_bm25.fusion import Fusion
    from rag_bm25.store import Match, SearchArm, Store

__all__ = ["Arms", "search_arm", "search_hybrid"]


@dataclass(frozen=True)
class Arms:
    """Both arms of a hybrid search.

    Parameters
    ----------
    sparse : SearchArm or None
        None where no term of the query is known.
    dense : SearchArm
        The dense vector's arm.
    namespaces : sequence of str or None
        Whose chunks are shown; None for all.
    bound : float
        The greatest BM25 score that the query can have.
    """

    sparse: SearchArm | None
    dense: SearchArm
    namespaces: Sequence[str] | None
    bound: float


def search_arm(store: Store, arm: SearchArm | None, namespaces: Sequence[str] | None) -> list[Match]:
    """Search one arm alone.

    Parameters
    ----------
    store : Store
        Where.
    arm : SearchArm or None
        What for; None finds nothing.
    namespaces : sequence of str or None
        Whose chunks are shown; None for all.

    Returns
    -------
    list of Match
        At most `arm.limit`, by falling score.
    """
    if arm is None:
        return []
    query = arm.query
    considered: Any = {"where": arm.where, "namespaces": arm.namespaces, "params": arm.params}

    def ask(_: list[object], limit: int) -> list[list[Match]]:
        if isinstance(query, SparseVector):
            return store.search([query], limit=limit, **considered)
        return store.search_dense(query[np.newaxis], metric=arm.metric, limit=limit, **considered)

    return best(ask, [None], arm.limit, namespaces)[0]


def search_hybrid(store: Store, arms: Arms, fusion: Fusion, k: int, *, arm_scores: bool) -> list[HybridHit]:
    """Search both arms and fuse them: ranks within Milvus in one call, scores here after one call for each arm.

    Milvus's own weighted ranker is not used. It sends BM25 scores through an arctangent, which makes nearly all of them
    nearly 1, on some engines always and on others at choice; and it does not tell the scores of the arms.

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
    if isinstance(fusion, RRF) and not arm_scores:
        both = [arm for arm in (arms.sparse, arms.dense) if arm is not None]
        found = store.search_hybrid(both, limit=sum(arm.limit for arm in both), rrf_k=fusion.k)
        return [_hit(match, match.score) for match in shown(found, arms.namespaces)[:k]]
    sparse = {match.row.pk: match for match in search_arm(store, arms.sparse, arms.namespaces)}
    dense = {match.row.pk: match for match in search_arm(store, arms.dense, arms.namespaces)}
    fused = fusion.fuse(_scores(sparse), _scores(dense), arms.bound)
    hits = [
        _hit(sparse.get(pk) or dense[pk], score, sparse.get(pk), dense.get(pk))
        if arm_scores
        else _hit(sparse.get(pk) or dense[pk], score)
        for pk, score in fused.items()
    ]
    return sorted(hits, key=lambda hit: (-hit.score, hit.id, hit.namespace))[:k]


def _scores(found: dict[str, Match]) -> dict[str, float]:
    return {pk: match.score for pk, match in found.items()}


def _hit(match: Match, score: float, sparse: Match | None = None, dense: Match | None = None) -> HybridHit:
    row = match.row
    scores = [None if arm is None else arm.score for arm in (sparse, dense)]
    return HybridHit(row.id, score, row.text, row.metadata, row.namespace, *scores)
