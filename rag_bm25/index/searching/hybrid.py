"""Search dense vectors, alone or fused with a lexical search.

Milvus's own rankers are not used. They rank rows of equal score in whatever order the engine has them, and rank the
old and the new row of a chunk that is being updated as two. The weighted one sends BM25 scores through an arctangent,
which makes nearly all of them nearly 1. Two calls take as long as one that fuses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from rag_bm25.documents.chunks import Hit, HybridHit
from rag_bm25.errors import ParameterError, short_repr
from rag_bm25.hits.selection import Ranking, flatten, rank_of
from rag_bm25.index.arguments import check_k
from rag_bm25.index.config import require_dense_field
from rag_bm25.index.searching.fusion import RRF, Weighted
from rag_bm25.index.searching.ranking import MAX_K, warn_incomplete
from rag_bm25.index.searching.rows import latest_rows, to_hit
from rag_bm25.index.searching.searcher import refuse_min_should_match
from rag_bm25.index.searching.selecting import Selector
from rag_bm25.query.query import Query
from rag_bm25.store.embeddings import as_vector
from rag_bm25.vectors.sparse import SparseVector

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from rag_bm25.hits.options import HitPlan
    from rag_bm25.index.config import IndexConfig
    from rag_bm25.index.live_statistics import LiveStatistics
    from rag_bm25.index.searching.fusion import Fusion
    from rag_bm25.index.searching.searcher import Searcher
    from rag_bm25.query.options import QueryOptions
    from rag_bm25.query.query import QueryLike
    from rag_bm25.store.protocol import Store
    from rag_bm25.store.rows import ChunkRow, Match, SearchArm

H = TypeVar("H", bound=Hit)

CANDIDATES = 100


@dataclass(frozen=True, eq=False)
class ArmQuery:
    """A query vector, and how to search for it."""

    vector: SparseVector | NDArray[np.float32]  # an array of shape (dim,); an empty sparse vector finds nothing
    arm: SearchArm
    search: Callable[[Any, SearchArm], list[list[Match]]]


@dataclass(frozen=True)
class FusionOptions:
    """Options for fusing two arms into hits."""

    fusion: Fusion
    k: int
    arm_scores: bool  # whether hits have the scores of both arms


class HybridSearcher:
    """Search the dense vectors of an index, alone or fused with the lexical search."""

    def __init__(self, store: Store, config: IndexConfig, live: LiveStatistics, searcher: Searcher) -> None:
        self._store = store
        self._config = config
        self._live = live
        self._searcher = searcher

    def search_dense(self, embedding: Sequence[float], arm: SearchArm, plan: HitPlan) -> list[Hit]:
        """Return the chunks with the most similar dense vectors."""
        query = self._dense_query(embedding, arm)
        self._live.finish_failed_batch()

        def find(factor: int) -> tuple[list[Hit], bool]:
            wider = _widen(query, factor)
            (matches,) = self._candidates([wider], arm.scope.namespaces)
            return list(map(to_hit, matches)), len(matches) < wider.arm.limit

        return self._select(find, "", arm.limit, plan)

    def search(
        self,
        query: QueryLike,
        embedding: Sequence[float],
        arms: tuple[SearchArm, SearchArm],  # lexical and dense; namespaces are the same
        how: FusionOptions,
        options: QueryOptions,
        plan: HitPlan,
    ) -> list[HybridHit]:
        """Search both arms and fuse them."""
        refuse_min_should_match(options)
        (weighted,) = self._searcher.weigh([query], arms[0].scope, options).queries
        vector = weighted.vector
        sparse_query = ArmQuery(vector, self._stored(arms[0]), self._searcher.sparse_search(options))
        queries = [sparse_query, self._dense_query(embedding, arms[1])]
        keep = None
        if weighted.conditions is not None:
            keep = partial(self._searcher.keep_met, weighted.conditions, None)
            queries = [replace(query, arm=replace(query.arm, vectors=True)) for query in queries]
        self._check_bound(how.fusion)

        def find(factor: int) -> tuple[list[HybridHit], bool]:
            wider = [_widen(query, factor) for query in queries]
            found = self._candidates(wider, arms[0].scope.namespaces, keep)
            is_all = all(len(rows) < arm.arm.limit for rows, arm in zip(found, wider, strict=True))
            return self._fuse(found, vector, how), is_all

        return self._searcher.highlight(weighted, self._select(find, str(Query.of(query)), how.k, plan), plan)

    def _fuse(self, found: list[list[Match]], vector: SparseVector, how: FusionOptions) -> list[HybridHit]:
        """Fuse the candidates of both arms."""
        rows = {match.row.pk: match.row for match in chain(*found)}
        sparse, dense = ({match.row.pk: match.score for match in matches} for matches in found)
        fused = how.fusion.fuse(sparse, dense, self._searcher.max_score(vector))
        hits = [
            _to_hit(rows[pk], score, [sparse.get(pk), dense.get(pk)] if how.arm_scores else [])
            for pk, score in fused.items()
        ]
        return sorted(hits, key=rank_of)

    def _select(self, find: Callable[[int], tuple[list[H], bool]], query: str, k: int, plan: HitPlan) -> list[H]:
        """Select hits from the candidates of the arms; `find` searches for a multiple of these."""
        hits, is_all = find(1)
        if plan.is_plain:
            return hits[:k]
        selector: Selector[H] = Selector(self._store, self._live.events, plan, k, dense=True)
        factor = 1
        while not is_all and not selector.has_units(hits):
            if factor >= MAX_K:
                selector.warn()
                break
            factor *= 2
            hits, is_all = find(factor)
        return flatten(plan, selector.select(query, Ranking(hits)))

    def _dense_query(self, embedding: Sequence[float], arm: SearchArm) -> ArmQuery:
        dense = require_dense_field(self._config, "embedding given", self._store.name)
        vector = as_vector("embedding", embedding, dense)
        return ArmQuery(vector, replace(self._stored(arm), metric=dense.metric), self._store.search)

    def _stored(self, arm: SearchArm) -> SearchArm:
        return replace(arm, scope=self._searcher.stored_scope(arm.scope))

    def _check_bound(self, fusion: Fusion) -> None:
        """Refuse a fusion that divides by an upper bound if the weighting has none."""
        needs_bound = isinstance(fusion, Weighted) and fusion.normalization == "bound"
        if needs_bound and math.isinf(self._searcher.upper_bound):
            name = self._config.weighting
            msg = f"normalization must be 'min-max' with the weighting {name!r}, which has no upper bound"
            raise ParameterError(msg)

    def _candidates(
        self,
        queries: Sequence[ArmQuery],
        namespaces: Sequence[str] | None,
        keep: Callable[[list[Match]], list[Match]] | None = None,  # drops matches, in their order
    ) -> list[list[Match]]:
        """Search for the best chunks of each arm; a newer row that one arm finds hides the older one in all of them."""
        limits = [query.arm.limit for query in queries]
        asked = list(limits)
        found = [_search(query, limit) for query, limit in zip(queries, limits, strict=True)]
        while True:
            every = list(chain(*found))
            best = [latest_rows(rows, namespaces, every) for rows in found]
            if keep is not None:
                best = list(map(keep, best))
            best = [rows[:limit] for rows, limit in zip(best, limits, strict=True)]
            lacking = [
                at for at, limit in enumerate(limits) if len(best[at]) < limit and len(found[at]) == asked[at] < MAX_K
            ]
            if not lacking:
                if keep is not None and any(
                    len(best[at]) < limit and len(found[at]) == MAX_K for at, limit in enumerate(limits)
                ):
                    warn_incomplete(self._live.events, max(limits))
                return best
            for at in lacking:
                asked[at] = min(2 * asked[at], MAX_K)
                found[at] = _search(queries[at], asked[at])


def _search(query: ArmQuery, limit: int) -> list[Match]:
    """Search for the best rows of one arm, by (-score, id, pk)."""
    arm, vector = replace(query.arm, limit=limit), query.vector
    if isinstance(vector, SparseVector):
        return query.search([vector], arm)[0] if len(vector) else []
    return query.search(vector[np.newaxis], arm)[0]


def _widen(query: ArmQuery, factor: int) -> ArmQuery:
    """Ask an arm for a multiple of its candidates."""
    return replace(query, arm=replace(query.arm, limit=min(query.arm.limit * factor, MAX_K)))


def _to_hit(row: ChunkRow, score: float, arm_scores: Sequence[float | None]) -> HybridHit:
    return HybridHit(row.id, score, row.text, row.metadata, row.namespace, *arm_scores)


def check_fusion(fusion: object) -> Fusion:
    """Check a fusion; RRF by default."""
    if not isinstance(fusion, RRF | Weighted | None):
        raise ParameterError(f"fusion must be RRF(...), Weighted(...) or None, got {short_repr(fusion)}")
    return fusion or RRF()


def candidate_limit(name: str, limit: int | None, k: int) -> int:
    """Check how many candidates an arm retrieves; by default 100, or k if that is more."""
    return max(k, CANDIDATES) if limit is None else check_k(limit, name)
