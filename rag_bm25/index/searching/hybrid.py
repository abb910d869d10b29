"""Search dense vectors, alone or fused with a lexical search.

The first hundred candidates of each arm are fused first, by the scores that both arms give to all of them. Deeper ones
follow below, so that the first hits do not depend on k.

Milvus's own rankers are not used. They rank rows of equal score in whatever order the engine has them, and rank the
old and the new row of a chunk that is being updated as two. The weighted one sends BM25 scores through an arctangent,
which makes nearly all of them nearly 1. Two calls take as long as one that fuses.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, TypeVar

import numpy as np

from rag_bm25.definitions import Between, check_given
from rag_bm25.documents.chunks import Hit, HybridHit
from rag_bm25.filters import FilterMapping
from rag_bm25.hits.boosts import explain_boosts
from rag_bm25.hits.fusion import RRF, Weighted
from rag_bm25.hits.options import (
    NEEDS_LEXICAL_SCORE,
    ONLY_LEXICAL,
    SearchOptions,
    check_options,
    depth_of,
    is_by_score,
    refuse,
)
from rag_bm25.hits.selection import Ranking, boost, flatten
from rag_bm25.index.arguments import check_k, narrow
from rag_bm25.index.config import require_dense_field
from rag_bm25.index.searching.fusion_explanation import explain_fusion
from rag_bm25.index.searching.layers import FusedCandidates
from rag_bm25.index.searching.placing import RerankRecorder, place_hit
from rag_bm25.index.searching.ranking import warn_incomplete, widen_until
from rag_bm25.index.searching.rows import latest_rows, read_one, to_hit
from rag_bm25.index.searching.searcher import drops_hits, engine_params
from rag_bm25.index.searching.selecting import Selector
from rag_bm25.query.query import Query
from rag_bm25.query.scores import explain_placement
from rag_bm25.store.embeddings import as_vector
from rag_bm25.store.rows import MAX_K, SearchArm
from rag_bm25.store.search_params import check_search_params
from rag_bm25.vectors.sparse import EMPTY, SparseVector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from numpy.typing import NDArray

    from rag_bm25.hits.fusion import Fusion
    from rag_bm25.index.config import IndexConfig
    from rag_bm25.index.live_statistics import LiveStatistics
    from rag_bm25.index.searching.layers import ScoredArms
    from rag_bm25.index.searching.searcher import Searcher
    from rag_bm25.index.searching.weigher import WeightedQuery
    from rag_bm25.query.explanation import Explanation
    from rag_bm25.query.query import QueryLike
    from rag_bm25.store.protocol import Store
    from rag_bm25.store.rows import Match, Scope

H = TypeVar("H", bound=Hit)

CANDIDATES = 100


@dataclass(frozen=True, eq=False)
class ArmQuery:
    """A query vector, and how to search for it."""

    vector: SparseVector | NDArray[np.float32]  # an array of shape (dim,); an empty sparse vector finds nothing
    arm: SearchArm
    search: Callable[[Any, SearchArm], list[list[Match]]]


class FusionOptions(TypedDict, total=False):
    """Options of a hybrid search alone.

    Attributes
    ----------
    fusion : Weighted or RRF
        How two scores become one, see :class:`~rag_bm25.Weighted` and :class:`~rag_bm25.RRF`; by
        default as the index was set, or ``Weighted()``.
    sparse_k : int
        Number of candidates of the lexical search, in 1..16384; by default 100, and with a larger k others below them.
    dense_k : int
        Number of candidates of the dense search, in 1..16384; by default as of the lexical search.
    sparse_filter : mapping
        Further conditions on the candidates of the lexical search.
    dense_filter : mapping
        Further conditions on the candidates of the dense search.
    dense_search_params : mapping of str to str, bool, int or float
        Parameters of Milvus for the dense search, such as ``{"ef": 200}``; the engine decides which exist.
    """

    fusion: Weighted | RRF | None
    sparse_k: Annotated[int, Between(1, MAX_K)] | None
    dense_k: Annotated[int, Between(1, MAX_K)] | None
    sparse_filter: FilterMapping | None
    dense_filter: FilterMapping | None
    dense_search_params: Mapping[str, str | bool | int | float] | None


class HybridOptions(SearchOptions, FusionOptions, total=False):
    """All options of a hybrid search."""


@dataclass(frozen=True)
class HybridRequest:
    """Checked options of a hybrid search."""

    arms: tuple[SearchArm, SearchArm]  # lexical and dense; namespaces are the same
    fusion: Fusion
    k: int
    heads: tuple[int, int]  # candidates of each arm that are fused first
    options: SearchOptions

    @classmethod
    def of(cls, k: int, scope: Scope, given: Mapping[str, Any], fusion: Fusion) -> HybridRequest:
        """Check options; `fusion` is for a search that gives none."""
        check_k(k)
        own_names = FusionOptions.__annotations__.keys()
        own = check_given(FusionOptions, {name: value for name, value in given.items() if name in own_names})
        options = check_options({name: value for name, value in given.items() if name not in own_names})
        refuse(options, NEEDS_LEXICAL_SCORE, ONLY_LEXICAL)
        params = check_search_params(own.get("dense_search_params"), "dense_search_params")
        depth = _depth_for(depth_of(options, k))
        sparse = SearchArm(own.get("sparse_k", depth), narrow(scope, own.get("sparse_filter")), engine_params(options))
        dense = SearchArm(own.get("dense_k", depth), narrow(scope, own.get("dense_filter")), params)
        heads = own.get("sparse_k", CANDIDATES), own.get("dense_k", CANDIDATES)
        return cls((sparse, dense), own.get("fusion", fusion), k, heads, options)


class HybridSearcher:
    """Search the dense vectors of an index, alone or fused with the lexical search."""

    def __init__(self, store: Store, config: IndexConfig, live: LiveStatistics, searcher: Searcher) -> None:
        self._store = store
        self._config = config
        self._live = live
        self._searcher = searcher

    def search_dense(self, embedding: Sequence[float], k: int, scope: Scope, options: SearchOptions) -> list[Hit]:
        """Return the chunks with the most similar dense vectors."""
        arm = SearchArm(min(depth_of(options, k), MAX_K), scope, options.get("search_params"))
        query = self._dense_query(embedding, arm)
        self._live.finish_failed_batch()

        def find(factor: int) -> tuple[list[Hit], bool]:
            wider = _widen(query, factor)
            (matches,) = self._candidates([wider], arm.scope.namespaces)
            return list(map(to_hit, matches)), len(matches) < wider.arm.limit

        return self._select(find, "", k, options)

    def search(self, query: QueryLike, embedding: Sequence[float] | None, request: HybridRequest) -> list[HybridHit]:
        """Search both arms and fuse them."""
        weighted, hits, _ = self._search(query, embedding, request)
        return self._searcher.highlight(weighted, hits, request.options)

    def explain(
        self,
        query: QueryLike,
        embedding: Sequence[float] | None,
        id_: str,
        namespace: str | None,
        request: HybridRequest,
        part: int | None = None,
    ) -> Explanation:
        """Explain the fused score of a chunk by the candidates of both arms that a search fuses."""
        options, k = request.options, min(depth_of(request.options, request.k), MAX_K)
        recorder = RerankRecorder(options.get("rerank"))
        rerank = options.get("rerank") and recorder
        recorded: SearchOptions = {**options, "rerank": rerank, "highlight": None, "offset": None}
        weighted, hits, fused = self._search(query, embedding, replace(request, k=k, options=recorded))
        names = request.arms[0].scope.namespaces
        row = read_one(self._store, self._live.view, id_, names if namespace is None else (namespace,), part)
        plain: SearchOptions = {**options, "boosts": None}
        lexical = self._searcher.explain(query, id_, request.arms[0].scope, row.namespace, plain, row.part)
        explained, shift = fused.explained(row, lexical, request.fusion)
        unmet = self._searcher.unmet(weighted.conditions, row)
        tree = explain_fusion(request.fusion, id_, explained, shift, unmet)
        tree = explain_boosts(tree, options.get("boosts") or (), row.metadata)
        if is_by_score(options):
            return tree
        return explain_placement(tree, place_hit(row.key, hits, k, options, recorder))

    def _search(
        self, query: QueryLike, embedding: Sequence[float] | None, request: HybridRequest
    ) -> tuple[WeightedQuery, list[HybridHit], FusedCandidates]:
        """Search both arms; return the weighted query, the hits, and the candidates that they were chosen from."""
        options, arms = request.options, request.arms
        if embedding is None:
            self._live.events.warn("no_vector", "a hybrid search had no embedding: its words alone decide", queries=1)
        (weighted,) = self._searcher.prepare([query], arms[0].scope, options).queries
        sparse_query = ArmQuery(weighted.vector, self._stored(arms[0]), self._searcher.sparse_search(weighted, options))
        nothing = ArmQuery(EMPTY, arms[1], self._store.search)
        queries = [sparse_query, nothing if embedding is None else self._dense_query(embedding, arms[1])]
        keep = None
        if drops_hits([weighted], options):
            keep = partial(self._searcher.keep, options.get("min_should_match"), None, weighted)
            queries = [replace(query, arm=replace(query.arm, vectors=True)) for query in queries]
        last = FusedCandidates({}, [])
        known: ScoredArms = {}, {}

        def find(factor: int) -> tuple[list[HybridHit], bool]:
            nonlocal last
            wider = [_widen(query, factor) for query in queries]
            found = self._candidates(wider, arms[0].scope.namespaces, keep)
            missed = self._score_missed(wider, found, request, known)
            last = FusedCandidates.of(found, missed, request.heads, request.fusion)
            is_all = all(len(rows) < query.arm.limit for rows, query in zip(found, wider, strict=True))
            return last.hits(), is_all

        return weighted, self._select(find, str(Query.of(query)), request.k, options), last

    def _select(
        self, find: Callable[[int], tuple[list[H], bool]], query: str, k: int, options: SearchOptions
    ) -> list[H]:
        """Select hits from the candidates of the arms; `find` searches for a multiple of these."""
        selector: Selector[H] = Selector(self._store, self._live.events, options, k, dense=True)
        hits: list[H] = []
        is_enough = False

        def look(asked: dict[int, int]) -> None:
            nonlocal hits, is_enough
            hits, is_all = find(asked[0])
            is_enough = is_all or _are_hits(options, hits) or selector.has_units(hits)

        widen_until(look, lambda _: is_enough, [1])
        if not is_enough:
            selector.warn()
        return flatten(options.get("group"), selector.select(query, selector.shortlist(Ranking(hits))))

    def _score_missed(
        self, queries: Sequence[ArmQuery], found: Sequence[list[Match]], request: HybridRequest, known: ScoredArms
    ) -> ScoredArms:
        """Score the head of each arm by the other arm; `known` has the scores of earlier rounds, and gets new ones."""
        if isinstance(request.fusion, RRF):  # a rank beyond the candidates is not known
            return {}, {}
        for scores, matches in zip(known, found, strict=True):
            scores.update({match.row.pk: match.score for match in matches})
        heads = [{match.row.pk for match in rows[:head]} for rows, head in zip(found, request.heads, strict=True)]
        if len(found[0]) < queries[0].arm.limit:
            known[0].update(dict.fromkeys(heads[1] - known[0].keys(), 0.0))  # no other chunk has a word of the query
        sparse, dense = (
            _score_others(query, others - own, scores) if own else {}  # an arm without candidates has no scale
            for query, own, others, scores in zip(queries, heads, reversed(heads), known, strict=True)
        )
        return sparse, dense

    def _dense_query(self, embedding: Sequence[float], arm: SearchArm) -> ArmQuery:
        dense = require_dense_field(self._config, "embedding given", self._store.name)
        vector = as_vector("embedding", embedding, dense)
        return ArmQuery(vector, replace(self._stored(arm), metric=dense.metric), self._store.search)

    def _stored(self, arm: SearchArm) -> SearchArm:
        return replace(arm, scope=self._searcher.stored_scope(arm.scope))

    def _candidates(
        self,
        queries: Sequence[ArmQuery],
        namespaces: Sequence[str] | None,
        keep: Callable[[list[Match]], list[Match]] | None = None,  # drops matches, in their order
    ) -> list[list[Match]]:
        """Search for the best chunks of each arm; a newer row that one arm finds hides the older one in all of them."""
        limits = [query.arm.limit for query in queries]
        found: dict[int, list[Match]] = {}
        most: dict[int, int] = {}  # rows that each arm was asked for last
        best: list[list[Match]] = []

        def look(asked: dict[int, int]) -> None:
            nonlocal best
            most.update(asked)
            found.update({at: _search(queries[at], limit) for at, limit in asked.items()})
            every = list(chain.from_iterable(found.values()))
            best = [latest_rows(found[at], namespaces, every) for at in range(len(queries))]
            best = [rows[:limit] for rows, limit in zip(map(keep, best) if keep else best, limits, strict=True)]

        def is_enough(at: int) -> bool:
            return len(best[at]) == limits[at] or len(found[at]) < most[at]

        widen_until(look, is_enough, limits)
        if keep is not None and not all(map(is_enough, range(len(queries)))):
            warn_incomplete(self._live.events, max(limits))
        return best


@contextmanager
def words_alone_on_failure() -> Iterator[None]:
    """Let a search go on without an embedding where its model fails; a warning has no message of it, but its error."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - a model may raise anything, with a key in the text
        msg = f"the embedding model has failed with {type(error).__name__}: the hits are those of the words alone"
        warnings.warn(msg, stacklevel=3)


def _search(query: ArmQuery, limit: int) -> list[Match]:
    """Search for the best rows of one arm, by (-score, id, pk)."""
    arm, vector = replace(query.arm, limit=limit), query.vector
    if isinstance(vector, SparseVector):
        return query.search([vector], arm)[0] if len(vector) else []
    return query.search(vector[np.newaxis], arm)[0]


def _are_hits(options: SearchOptions, candidates: Sequence[HybridHit] | Sequence[Hit]) -> bool:
    """Return whether all candidates are hits, but for those with too low a score: no boost leaves one out."""
    kept = boost(options.get("boosts") or (), Ranking(list(candidates))).hits
    return is_by_score(options) and len(kept) == len(candidates)


def _depth_for(k: int) -> int:
    """Return how many candidates of an arm are enough for k hits: 100, 200, 400, ..."""
    return min(CANDIDATES << (math.ceil(k / CANDIDATES) - 1).bit_length(), MAX_K)


def _score_others(query: ArmQuery, pks: AbstractSet[str], known: dict[str, float]) -> dict[str, float]:
    """Return an arm's exact scores of some rows; one that was deleted meanwhile has no similarity."""
    unknown = tuple(sorted(pks - known.keys()))
    if unknown:
        arm = replace(query.arm, params=None, vectors=False, pks=unknown)
        if isinstance(query.vector, SparseVector):
            known.update(dict.fromkeys(unknown, 0.0))
        known.update({match.row.pk: match.score for match in _search(replace(query, arm=arm), len(unknown))})
    return {pk: known[pk] for pk in pks if pk in known}


def _widen(query: ArmQuery, factor: int) -> ArmQuery:
    """Ask an arm for a multiple of its candidates."""
    return replace(query, arm=replace(query.arm, limit=min(query.arm.limit * factor, MAX_K)))
