"""Judge the scores of a query: their share of the maximum score, and the confidence that the chunk answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from rag_bm25.index.searching.rows import to_hit
from rag_bm25.weighting.confidence import NUM_RANKED, RankedQuery, mean_of_rivals, specificity

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rag_bm25.documents.chunks import Hit
    from rag_bm25.index.searching.weigher import WeightedQuery
    from rag_bm25.store.rows import Match
    from rag_bm25.vectors.sparse import SparseVector
    from rag_bm25.weighting.confidence import AnswerModel, Signals


@dataclass(frozen=True, eq=False)
class Judge:
    """Judge the chunks that match one query, given the best ones in their order."""

    query: SparseVector
    ranked: RankedQuery
    model: AnswerModel | None

    def to_hits(self, matches: Sequence[Match]) -> list[Hit]:
        """Return matches as users see them; with a model, they must have their vectors."""
        most = self.ranked.max_score
        shares = [min(1.0, match.score / most) if most < np.inf else None for match in matches]
        return list(map(to_hit, matches, shares, self._confidences(matches)))

    def _confidences(self, matches: Sequence[Match]) -> Sequence[float | None]:
        """Return the confidence of each match by its own signals, but no more than that of the match before it."""
        if self.model is None or not matches:
            return [None] * len(matches)
        own = self.model.confidences([self.signals(match) for match in matches])
        confidences: list[float] = np.minimum.accumulate(own).tolist()
        return confidences

    def signals(self, match: Match) -> Signals:
        """Return the signals of a match."""
        held = np.isin(self.query.ids, match.row.vector.ids, assume_unique=True)
        coverage = self.query.values[held].sum(dtype=float) / self.query.values.sum(dtype=float)
        return self.ranked.signals(match.score, float(coverage))


@dataclass(frozen=True, eq=False)
class Judges:
    """Make the judges of the queries of one search."""

    max_score: Callable[[SparseVector], float]
    num_chunks: int = 0  # that the queries were weighed with
    model: AnswerModel | None = None
    known: dict[WeightedQuery, Judge] = field(default_factory=dict)

    @property
    def num_needed(self) -> int:
        """Number of matches that a judgement depends on, if there are so many."""
        return 0 if self.model is None else NUM_RANKED

    def of(self, query: WeightedQuery, matches: Sequence[Match]) -> Judge:
        """Return the judge of a query, by its best matches at the first call."""
        if query not in self.known:
            plain = RankedQuery(self.max_score(query.vector), 0.0, 0.0)
            is_judged = self.model is not None and matches
            ranked = self.rank(query, matches) if is_judged else plain
            self.known[query] = Judge(query.vector, ranked, self.model)
        return self.known[query]

    def rank(self, query: WeightedQuery, matches: Sequence[Match]) -> RankedQuery:
        """Return what the signals of some matches have in common."""
        has_weight = query.terms.weights > 0
        about = specificity(query.terms.weights[has_weight], query.terms.df[has_weight], self.num_chunks)
        rivals = mean_of_rivals([match.score for match in matches[:NUM_RANKED]])
        return RankedQuery(self.max_score(query.vector), rivals, about)
