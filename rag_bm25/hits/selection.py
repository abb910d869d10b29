"""Select hits from ranked candidates: boosts, near duplicates, groups, a choice that differs.

Everything here is a function of the candidates. :mod:`rag_bm25.index.searching.selecting` finds more of them until the
selection is that from all hits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from rag_bm25.documents.chunks import Hit
from rag_bm25.hits.boosts import factor_of, largest_factor
from rag_bm25.hits.diversity import MMR, NearDuplicates, diversify, scale_to_relevance, without_near_duplicates
from rag_bm25.hits.groups import cut, group, value_of
from rag_bm25.hits.options import num_candidates
from rag_bm25.hits.reranking import check_scores
from rag_bm25.query.explanation import boosted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from rag_bm25.hits.boosts import Boost
    from rag_bm25.hits.diversity import SparseCosines
    from rag_bm25.hits.groups import Grouping
    from rag_bm25.hits.options import Rerank, SearchOptions
    from rag_bm25.vectors.sparse import SparseVector

H = TypeVar("H", bound=Hit)

ReadVectors: TypeAlias = Callable[[Sequence[Hit]], "list[SparseVector]"]
"""Function that reads the stored vectors of hits; a chunk that was deleted meanwhile has an empty one."""
ReadSimilarity: TypeAlias = Callable[[Sequence[Hit]], "NDArray[np.float64] | SparseCosines"]
"""Function that returns the similarity of each of some hits with each other, in 0..1."""


@dataclass(frozen=True)
class Ranking(Generic[H]):
    """The beginning of a ranking."""

    hits: list[H]  # by falling score, then by id
    below: float = 0.0  # no other hit has a higher score
    is_all: bool = True  # whether there are no others


def by_final_score(options: SearchOptions, ranking: Ranking[H]) -> Ranking[H]:
    """Boost the scores, and leave out those below the minimum, unless a reranker is to give others."""
    ranking = boost(options.get("boosts") or (), ranking)
    return ranking if options.get("rerank") is not None else at_least(options.get("min_score"), ranking)


def boost(boosts: Sequence[Boost], ranking: Ranking[H]) -> Ranking[H]:
    """Boost the scores, and keep the hits that no other one can come before: the beginning of the boosted ranking.

    A factor of 0 leaves a hit out. A score of 0 does not: min-max gives it to the last hit of a hybrid search.
    """
    if not boosts:
        return ranking
    below = 0.0 if ranking.is_all else ranking.below * largest_factor(boosts)
    scored = [(hit, factor_of(boosts, hit.metadata)) for hit in ranking.hits]
    kept = [replace(hit, score=boosted(hit.score, factor)) for hit, factor in scored if factor > 0]
    if not ranking.is_all:
        kept = [hit for hit in kept if hit.score > below]
    return Ranking(sorted(kept, key=rank_of), below, ranking.is_all)


def at_least(min_score: float | None, ranking: Ranking[H]) -> Ranking[H]:
    """Leave out the hits below a minimum score; those that have it are all if no other hit can."""
    if min_score is None:
        return ranking
    kept = [hit for hit in ranking.hits if hit.score >= min_score]
    return Ranking(kept, ranking.below, ranking.is_all or ranking.below < min_score)


def confident(least: float | None, ranking: Ranking[H]) -> Ranking[H]:
    """Leave out the hits with less confidence, which never rises from one hit to the next: those kept are all then."""
    if least is None:
        return ranking
    kept = [hit for hit in ranking.hits if (hit.confidence or 0.0) >= least]
    return Ranking(kept, ranking.below, ranking.is_all or len(kept) < len(ranking.hits))


def rank_of(hit: Hit) -> tuple[float, str, str]:
    """Return the sort key of a hit."""
    return (-hit.score, hit.id, hit.namespace)


def rerank(score: Rerank, query: str, hits: Sequence[H]) -> list[H]:
    """Sort hits by the scores of a reranker; of equal ones in their order."""
    scores = check_scores(score(query, list(hits)), len(hits)) if hits else []
    scored = [replace(hit, score=value) for hit, value in zip(hits, scores, strict=True)]
    return sorted(scored, key=lambda hit: -hit.score)


@dataclass(frozen=True)
class Units(Generic[H]):
    """What k counts: hits without near duplicates, or groups of them, best first."""

    units: list[list[H]]
    is_settled: bool  # whether more candidates would only add units after them


def form_units(options: SearchOptions, ranking: Ranking[H], k: int, read_vectors: ReadVectors) -> Units[H]:
    """Leave out near duplicates, and group the others; without groups, the first k.

    Sums are over the best candidates, twice as many while they have fewer than k groups.
    """
    grouping = options.get("group")
    if grouping is None:
        return Units([[hit] for hit in islice(_distinct(options, ranking.hits, read_vectors), k)], is_settled=True)
    if grouping.score == "max":
        return Units(group(_distinct(options, ranking.hits, read_vectors), grouping), is_settled=True)
    depth = num_candidates(options, k)
    while True:
        groups = group(_distinct(options, ranking.hits[:depth], read_vectors), grouping)
        if len(groups) >= k or depth >= len(ranking.hits):
            return Units(groups, is_settled=ranking.is_all or depth <= len(ranking.hits))
        depth *= 2


def _distinct(options: SearchOptions, hits: Sequence[H], read_vectors: ReadVectors) -> Iterable[H]:
    """Leave out near duplicates, if the options ask for that."""
    diversity = options.get("diversity")
    if not isinstance(diversity, NearDuplicates) or not hits:
        return hits
    return without_near_duplicates(list(zip(hits, read_vectors(hits), strict=True)), diversity.cosine)


@dataclass(frozen=True)
class Shortlist(Generic[H]):
    """Candidates with the units that they form."""

    candidates: Ranking[H]
    ranking: Ranking[H]  # of them by their final scores
    units: list[list[H]]  # none where a reranker is to give other scores
    is_enough: bool  # whether more candidates would not change what is selected, but for the members of groups


def shortlist(options: SearchOptions, candidates: Ranking[H], k: int, read_vectors: ReadVectors) -> Shortlist[H]:
    """Form the units of candidates, and decide whether these are enough."""
    ranking = by_final_score(options, candidates)
    if options.get("rerank") is not None:
        return Shortlist(candidates, ranking, [], ranking.is_all or len(ranking.hits) >= num_candidates(options, k))
    wanted = num_units(options, k)
    found = form_units(options, ranking, wanted, read_vectors)
    has_enough = found.is_settled and len(found.units) >= wanted
    is_whole = not must_refill_groups(options) or not lacking(options, found.units[:wanted])
    return Shortlist(candidates, ranking, found.units, ranking.is_all or (has_enough and is_whole))


def must_refill_groups(options: SearchOptions) -> bool:
    """Return whether the members of groups depend on all hits before them, so that no filter finds them."""
    grouping = options.get("group")
    drops = isinstance(options.get("diversity"), NearDuplicates) or options.get("min_confidence") is not None
    return grouping is not None and grouping.score == "max" and drops


def lacking(options: SearchOptions, units: Sequence[list[H]]) -> list[list[H]]:
    """Return the groups that may have more members than were found."""
    grouping = options.get("group")
    if grouping is None or grouping.size == 1:
        return []
    return [unit for unit in units if len(unit) < grouping.size and value_of(grouping, unit[0]) is not None]


def num_units(options: SearchOptions, k: int) -> int:
    """Return how many units a search needs to find."""
    return num_candidates(options, k) if isinstance(options.get("diversity"), MMR) else k


def choose(options: SearchOptions, units: Sequence[list[H]], k: int, read_similarity: ReadSimilarity) -> list[list[H]]:
    """Choose k units: the first ones, or those that differ from each other."""
    diversity = options.get("diversity")
    if not isinstance(diversity, MMR):
        return list(units[:k])
    units = units[: num_candidates(options, k)]
    best = [unit[0] for unit in units]
    if not best:
        return []
    relevance = scale_to_relevance([hit.score for hit in best])
    return [units[at] for at in diversify(relevance, read_similarity(best), diversity.trade_off, k)]


def flatten(grouping: Grouping | None, units: Sequence[list[H]]) -> list[H]:
    """Return the hits of units, one after the other."""
    return [hit for unit in units for hit in (unit if grouping is None else cut(unit, grouping))]
