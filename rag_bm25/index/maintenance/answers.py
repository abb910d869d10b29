"""Fit the confidence that a hit answers to judged queries."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from rag_bm25.errors import InputError
from rag_bm25.events import report_progress
from rag_bm25.index.searching.judging import Judge
from rag_bm25.index.searching.rows import to_hit
from rag_bm25.weighting.confidence import (
    NUM_RANKED,
    AnswerModel,
    FirstHits,
    Signals,
    calibration_error,
    cross_fit,
    error_interval,
    perfect_error,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rag_bm25.documents.chunks import Hit
    from rag_bm25.events import Progress
    from rag_bm25.hits.options import SearchOptions
    from rag_bm25.index.searching.ranking import Candidates
    from rag_bm25.index.searching.searcher import Searcher
    from rag_bm25.index.searching.weigher import WeightedQuery
    from rag_bm25.query.query import QueryLike
    from rag_bm25.store.rows import Match, Scope
    from rag_bm25.weighting.query import QueryWeighting

IsAnswer: TypeAlias = "Callable[[QueryLike, Hit], bool]"
"""A function of a query and a hit that returns whether the hit answers."""

BATCH = 50  # queries
FEWEST = 5  # queries whose first hit answers, or does not


@dataclass(frozen=True)
class AnswerCalibration:
    """How well the confidence tells answers, by models that have not seen the query.

    Each query counts twice: as it is, and with its answers taken out.

    Parameters
    ----------
    queries : int
        Number of queries with a hit.
    answered : float
        Share of them whose first hit answers.
    auc, score_auc, share_auc : float
        Probability that a first hit that answers has a higher confidence than a first hit with the answers taken out;
        and the same for `score` and `score_share`.
    error : float
        Expected calibration error: the mean distance between the confidence and the share that answers.
    error_interval : tuple of (float, float)
        Its 95 % interval.
    perfect_error : float
        The error that a perfect model would have on so many queries.
    model : AnswerModel
        The model, fitted to all queries.
    first_hits : FirstHits
        What it was fitted to.
    """

    queries: int
    answered: float
    auc: float
    score_auc: float
    share_auc: float
    error: float
    error_interval: tuple[float, float]
    perfect_error: float
    model: AnswerModel = field(repr=False)
    first_hits: FirstHits = field(repr=False)

    @classmethod
    def of(cls, first: FirstHits, weighting: QueryWeighting, seen: FirstHits | None = None) -> AnswerCalibration:
        """Fit a model to first hits, and measure it on them; `seen` are those to fit it to, if they are others."""
        seen = first if seen is None else seen
        confidences = cross_fit(seen, first, weighting)
        return cls(
            len(np.unique(first.queries)),
            float(first.answers[~first.without].mean()),
            first.area_under_curve(confidences),
            first.area_under_curve(first.scores),
            first.area_under_curve(first.signals[:, 0]),
            calibration_error(confidences, first.answers),
            error_interval(confidences, first),
            perfect_error(confidences),
            seen.fit(weighting),
            first,
        )


@dataclass(frozen=True, eq=False)
class AnswerFinder:
    """Find the first hits of judged queries."""

    searcher: Searcher
    is_answer: IsAnswer
    scope: Scope
    options: SearchOptions

    def calibrate(self, queries: Sequence[QueryLike], progress: Callable[[Progress], None] | None) -> AnswerCalibration:
        """Fit a model, and measure it."""
        self.searcher.require_bound()
        rows: list[tuple[int, Signals, float, bool, bool]] = []
        for start in range(0, len(queries), BATCH):
            batch = queries[start : start + BATCH]
            rows += self._first_hits(batch, start)
            report_progress(progress, "queries", start + len(batch), len(queries))
        if not all(sum(answers is kind for *_, answers, _ in rows) >= FEWEST for kind in (True, False)):
            raise InputError(
                f"the first hit must answer at least {FEWEST} queries, and not answer as many with their answers taken "
                "out: hits must have the ids of the judgements"
            )
        first = FirstHits(*map(np.array, zip(*rows, strict=True)))
        return AnswerCalibration.of(first, self.searcher.prepare([], self.scope, self.options).weighting)

    def _first_hits(self, batch: Sequence[QueryLike], start: int) -> Iterator[tuple[int, Signals, float, bool, bool]]:
        """Yield number, signals and score of the first hit of each query, and whether it answers; then without those.

        A search that filters the answers out has the other hits in their order: N and df are those of the index.
        """
        prepared = self.searcher.prepare(batch, self.scope, self.options)
        texts = dict(zip(prepared.queries, batch, strict=True))

        def others(query: WeightedQuery, candidates: Candidates) -> list[Match]:
            return [match for match in candidates.matches if not self.is_answer(texts[query], to_hit(match))]

        def are_enough(query: WeightedQuery, candidates: Candidates) -> bool:
            return len(others(query, candidates)) >= NUM_RANKED

        limit, judges = 2 * NUM_RANKED, self.searcher.judges(prepared, {})
        found = self.searcher.candidates(prepared.queries, limit, are_enough, self.scope, self.options, vectors=True)
        for number, (query, candidates) in enumerate(zip(prepared.queries, found, strict=True), start):
            left = others(query, candidates)
            for matches, is_without in ((candidates.matches, False), (left, True)):
                for first in matches[:1]:
                    judge = Judge(query.vector, judges.rank(query, matches), None)
                    answers = all(first is not other for other in left[:1])
                    yield number, judge.signals(first), first.score, answers, is_without
