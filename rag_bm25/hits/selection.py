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
from rag_bm25.hits.diversity import diversify, scale_to_relevance, without_near_duplicates
from rag_bm25.hits.groups import cut, group
from rag_bm25.hits.reranking import check_scores
from rag_bm25.query.explanation import boosted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from rag_bm25.hits.diversity import SparseCosines
    from rag_bm25.hits.options import HitPlan, Rerank
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


def boost(plan: HitPlan, ranking: Ranking[H]) -> Ranking[H]:
    """Boost the scores, and keep the hits that no other one can come before: the beginning of the boosted ranking.

    A factor of 0 leaves a hit out. A score of 0 does not: min-max gives it to the last hit of a hybrid search.
    """
    if not plan.boosts:
        return ranking
    below = 0.0 if ranking.is_all else ranking.below * largest_factor(plan.boosts)
    scored = [(hit, factor_of(plan.boosts, hit.metadata)) for hit in ranking.hits]
    kept = [replace(hit, score=boosted(hit.score, factor)) for hit, factor in scored if factor > 0]
    if not ranking.is_all:
        kept = [hit for hit in kept if hit.score > below]
    return Ranking(sorted(kept, key=rank_of), below, ranking.is_all)


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


def form_units(plan: HitPlan, ranking: Ranking[H], k: int, read_vectors: ReadVectors) -> Units[H]:
    """Leave out near duplicates, and group the others; without groups, the first k.

    Sums are over the best candidates, twice as many while they have fewer than k groups.
    """
    grouping = plan.grouping
    if grouping is None:
        return Units([[hit] for hit in islice(_distinct(plan, ranking.hits, read_vectors), k)], is_settled=True)
    if grouping.score == "max":
        return Units(group(_distinct(plan, ranking.hits, read_vectors), grouping), is_settled=True)
    depth = plan.num_candidates(k)
    while True:
        groups = group(_distinct(plan, ranking.hits[:depth], read_vectors), grouping)
        if len(groups) >= k or depth >= len(ranking.hits):
            return Units(groups, is_settled=ranking.is_all or depth <= len(ranking.hits))
        depth *= 2


def _distinct(plan: HitPlan, hits: Sequence[H], read_vectors: ReadVectors) -> Iterable[H]:
    """Leave out near duplicates, if the plan asks for that."""
    if plan.near_duplicates is None or not hits:
        return hits
    return without_near_duplicates(list(zip(hits, read_vectors(hits), strict=True)), plan.near_duplicates)


def is_enough(plan: HitPlan, ranking: Ranking[H], k: int, read_vectors: ReadVectors) -> bool:
    """Return whether more candidates would not change what is selected, but for the members of groups."""
    if ranking.is_all:
        return True
    ranking = boost(plan, ranking)
    if plan.rerank is not None:
        return len(ranking.hits) >= plan.num_candidates(k)
    wanted = num_units(plan, k)
    found = form_units(plan, ranking, wanted, read_vectors)
    if not found.is_settled or len(found.units) < wanted:
        return False
    return not must_refill_groups(plan) or not lacking(plan, found.units[:wanted])


def must_refill_groups(plan: HitPlan) -> bool:
    """Return whether the members of groups depend on all hits before them, so that no filter finds them."""
    grouping = plan.grouping
    return grouping is not None and grouping.score == "max" and plan.near_duplicates is not None


def lacking(plan: HitPlan, units: Sequence[list[H]]) -> list[list[H]]:
    """Return the groups that may have more members than were found."""
    grouping = plan.grouping
    if grouping is None or grouping.size == 1:
        return []
    return [unit for unit in units if len(unit) < grouping.size and grouping.value_of(unit[0]) is not None]


def num_units(plan: HitPlan, k: int) -> int:
    """Return how many units a search needs to find."""
    return k if plan.mmr is None else plan.num_candidates(k)


def choose(plan: HitPlan, units: Sequence[list[H]], k: int, read_similarity: ReadSimilarity) -> list[list[H]]:
    """Choose k units: the first ones, or those that differ from each other."""
    if plan.mmr is None:
        return list(units[:k])
    units = units[: plan.num_candidates(k)]
    best = [unit[0] for unit in units]
    if not best:
        return []
    relevance = scale_to_relevance([hit.score for hit in best])
    return [units[at] for at in diversify(relevance, read_similarity(best), plan.mmr, k)]


def flatten(plan: HitPlan, units: Sequence[list[H]]) -> list[H]:
    """Return the hits of units, one after the other."""
    grouping = plan.grouping
    return [hit for unit in units for hit in (unit if grouping is None else cut(unit, grouping))]
