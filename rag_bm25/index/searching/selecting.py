"""Select hits: look for candidates until the selection is that from all hits."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from rag_bm25.documents.chunks import Hit
from rag_bm25.errors import FilterError
from rag_bm25.filters import Comparison, conjoin
from rag_bm25.hits.diversity import NearDuplicates, SparseCosines, cosine_similarity
from rag_bm25.hits.groups import group, key_of, value_of
from rag_bm25.hits.options import depth_of, num_candidates, reranks_all
from rag_bm25.hits.selection import (
    Ranking,
    Shortlist,
    at_least,
    by_final_score,
    choose,
    confident,
    flatten,
    form_units,
    lacking,
    must_refill_groups,
    num_units,
    rerank,
    shortlist,
)
from rag_bm25.index.searching.ranking import OVERFETCH, Candidates, warn_incomplete
from rag_bm25.index.searching.rows import read_newest
from rag_bm25.store.rows import MAX_K
from rag_bm25.vectors.sparse import EMPTY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rag_bm25.events import Events
    from rag_bm25.hits.groups import Grouping
    from rag_bm25.hits.options import SearchOptions
    from rag_bm25.index.searching.judging import Judges
    from rag_bm25.index.searching.searcher import Searcher
    from rag_bm25.index.searching.weigher import WeightedQuery
    from rag_bm25.store.protocol import Store
    from rag_bm25.store.rows import ChunkKey, ChunkRow, Scope
    from rag_bm25.vectors.sparse import SparseVector

H = TypeVar("H", bound=Hit)

MOST_AT_FIRST = 400  # rows, unless more are needed: reading them takes as long as ten searches for ten


@dataclass(frozen=True, eq=False)
class Selector(Generic[H]):
    """Select k hits, or groups of them, from the candidates of one query: the pipeline of all searches."""

    store: Store
    events: Events
    options: SearchOptions
    k: int
    dense: bool = False  # whether dense vectors tell how hits differ
    but: ChunkKey | None = None  # of a chunk that is left out
    known: dict[ChunkKey, SparseVector] = field(default_factory=dict)  # vectors that were read with the hits

    @property
    def depth(self) -> int:
        """The number of units up to the last one of the page."""
        return depth_of(self.options, self.k)

    def shortlist(self, candidates: Ranking[H]) -> Shortlist[H]:
        """Form the units of candidates: those that tell whether there are enough, and that are selected from."""
        return shortlist(self.options, candidates, self.depth, self.read_vectors)

    def has_units(self, hits: list[H]) -> bool:
        """Return whether there are as many units as a search needs to find, among candidates in any order.

        Below a candidate that has less than the minimum score there are no better ones worth a search.
        """
        options = self.options
        ranking = by_final_score(options, Ranking(hits))
        if options.get("rerank") is not None:
            return len(ranking.hits) >= num_candidates(options, self.depth)
        wanted = num_units(options, self.depth)
        is_below = options.get("min_score") is not None and len(ranking.hits) < len(hits)
        return is_below or len(form_units(options, ranking, wanted, self.read_vectors).units) >= wanted

    def select(self, query: str, formed: Shortlist[H]) -> list[list[H]]:
        """Select from candidates, which are enough unless there was no more room for them."""
        options, depth = self.options, self.depth
        if not formed.is_enough:
            self.warn()
            formed = self.shortlist(Ranking(formed.candidates.hits))
        units = formed.units
        if score := options.get("rerank"):
            reranked = Ranking(rerank(score, query, formed.ranking.hits[: num_candidates(options, depth)]))
            ranking = at_least(options.get("min_score"), reranked)
            units = form_units(options, ranking, num_units(options, depth), self.read_vectors).units
        return choose(options, units, depth, self.read_similarity)[depth - self.k :]

    def warn(self) -> None:
        """Report that the best 16,384 chunks do not decide."""
        warn_incomplete(self.events, self.depth)

    def read_vectors(self, hits: Sequence[Hit]) -> list[SparseVector]:
        """Read the stored vectors of hits, as far as they are not known."""
        unknown = [hit for hit in hits if hit.key not in self.known]
        for hit, row in zip(unknown, self._read_rows(unknown, dense=False) if unknown else [], strict=True):
            self.known[hit.key] = EMPTY if row is None else row.vector
        return [self.known[hit.key] for hit in hits]

    def read_similarity(self, hits: Sequence[Hit]) -> NDArray[np.float64] | SparseCosines:
        """Read how similar hits are to each other, in 0..1: the cosine of their vectors, of dense ones scaled."""
        if not self.dense:
            return SparseCosines(self.read_vectors(hits))
        rows = self._read_rows(hits, dense=True)
        known = [row.dense for row in rows if row is not None and row.dense is not None]
        nothing = np.zeros_like(known[0]) if known else np.zeros(1, np.float32)
        vectors = [nothing if row is None or row.dense is None else row.dense for row in rows]
        return np.asarray((1 + cosine_similarity(np.array(vectors))) / 2)

    def _read_rows(self, hits: Sequence[Hit], *, dense: bool) -> list[ChunkRow | None]:
        """Read the newest row of each hit; None if it was deleted meanwhile."""
        keys = [hit.key for hit in hits]
        newest = read_newest(self.store, keys, contents=False, vectors=not dense, dense=dense)
        return [newest.get(key) for key in keys]


@dataclass(frozen=True, eq=False)
class SparseSelector:
    """Select the hits of lexical searches."""

    searcher: Searcher
    selector: Selector[Hit]
    scope: Scope
    judges: Judges
    _formed: dict[Candidates, Shortlist[Hit]] = field(default_factory=dict, init=False)

    @property
    def options(self) -> SearchOptions:
        """The options of the search."""
        return self.selector.options

    def select(self, queries: list[WeightedQuery], texts: Sequence[str]) -> list[list[Hit]]:
        """Search for candidates of each query, and select its hits."""
        options, k = self.options, self.selector.depth
        limit = first_limit(options, k, is_one_left_out=self.selector.but is not None)
        limit = max(limit, self.judges.num_needed)
        vectors = options.get("diversity") is not None or self.judges.model is not None
        at_most = k if limit == k and not takes_more(options) else None
        found = self.searcher.candidates(
            queries, limit, self._is_enough, self.scope, options, vectors=vectors, at_most=at_most
        )
        return [
            self._select(query, text, candidates) for query, text, candidates in zip(queries, texts, found, strict=True)
        ]

    def _is_enough(self, query: WeightedQuery, candidates: Candidates) -> bool:
        if len(candidates.matches) < self.judges.num_needed:
            return False
        self._formed[candidates] = formed = self._shortlist(query, candidates)
        return formed.is_enough

    def _shortlist(self, query: WeightedQuery, candidates: Candidates) -> Shortlist[Hit]:
        return self.selector.shortlist(self._to_ranking(query, candidates))

    def _select(self, query: WeightedQuery, text: str, candidates: Candidates) -> list[Hit]:
        grouping = self.options.get("group")
        units = self.selector.select(text, self._formed.get(candidates) or self._shortlist(query, candidates))
        wanting = lacking(self.options, units)
        by_filter = grouping is not None and grouping.score == "max" and self.options.get("rerank") is None
        if by_filter and wanting and not candidates.is_all and not must_refill_groups(self.options):
            units = self._complete(query, units, wanting)
        return flatten(grouping, units)

    def _complete(self, query: WeightedQuery, units: list[list[Hit]], wanting: list[list[Hit]]) -> list[list[Hit]]:
        """Search for the other members of groups, by a filter: a few chunks may be far down in the ranking."""
        grouping = self.options.get("group")
        assert grouping is not None
        values = tuple(value for unit in wanting if (value := value_of(grouping, unit[0])) is not None)
        where = conjoin(self.scope.where, Comparison((grouping.key,), "in", values))

        def enough(_: WeightedQuery, candidates: Candidates) -> bool:
            members = self._members(grouping, query, candidates)
            return all(len(members.get(key_of(grouping, unit[0]), ())) >= grouping.size for unit in wanting)

        limit = min(2 * grouping.size * len(wanting), MAX_K)
        try:
            (found,) = self.searcher.candidates([query], limit, enough, replace(self.scope, where=where), self.options)
        except FilterError:  # the engine cannot compare with one of the values, or with so many
            (found,) = self.searcher.candidates([query], limit, enough, self.scope, self.options)
        if not found.is_all and not enough(query, found):
            self.selector.warn()
        members = self._members(grouping, query, found)
        return [members.get(key_of(grouping, unit[0]), unit) if unit in wanting else unit for unit in units]

    def _members(self, grouping: Grouping, query: WeightedQuery, candidates: Candidates) -> dict[object, list[Hit]]:
        """Group candidates: key -> the best hits of the group."""
        ranking = by_final_score(self.options, self._to_ranking(query, candidates))
        return {key_of(grouping, unit[0]): unit for unit in group(ranking.hits, grouping)}

    def _to_ranking(self, query: WeightedQuery, candidates: Candidates) -> Ranking[Hit]:
        if self.options.get("diversity") is not None:
            vectors = {match.row.key: match.row.vector for match in candidates.matches}
            self.selector.known.update(vectors)
        judge = self.judges.of(query, candidates.matches)
        left = [hit for hit in judge.to_hits(candidates.matches) if hit.key != self.selector.but]
        ranking = Ranking(left, candidates.below, candidates.is_all)
        return confident(self.options.get("min_confidence"), ranking)


def first_limit(options: SearchOptions, k: int, *, is_one_left_out: bool) -> int:
    """Return how many candidates to ask for at first."""
    grouping, boosts = options.get("group"), options.get("boosts")
    is_last_unsure = bool(boosts) or is_one_left_out  # a boosted hit must beat the best score of those beyond
    whole = (num_candidates(options, k) if reranks_all(options) else k) + is_last_unsure
    if options.get("rerank") is not None and not boosts:
        return whole
    members = 1 if grouping is None else grouping.size
    return max(whole, min(OVERFETCH * whole * members, MOST_AT_FIRST)) if takes_more(options) else whole


def takes_more(options: SearchOptions) -> bool:
    """Return whether k hits may take more than k candidates: some are left out, or are of one group."""
    is_distinct = isinstance(options.get("diversity"), NearDuplicates)
    return bool(options.get("boosts")) or is_distinct or options.get("group") is not None
