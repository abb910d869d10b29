"""Fit the confidence that a hit answers to judged queries."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rag_bm25.errors import InputError
from rag_bm25.events import report_progress
from rag_bm25.index.searching.rows import to_hit
from rag_bm25.weighting.confidence import (
    NUM_RANKED,
    AnswerModel,
    FirstHits,
    Signals,
    Usual,
    calibration_error,
    cross_fit,
    fit_answers,
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

BATCH = 50  # queries
FEWEST = 5  # first hits that answer, and that do not
ENOUGH = 30  # queries, below which a model is doubtful


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
    auc, score_auc : float
        Probability that a first hit that answers has a higher confidence than one with the answers taken out; the same
        of the score.
    error : float
        Calibration error: the mean distance between the confidence and the share that answers.
    model : AnswerModel
        The model, fitted to all queries.
    first_hits : FirstHits
        What it was fitted to.
    """

    queries: int
    answered: float
    auc: float
    score_auc: float
    error: float
    model: AnswerModel
    first_hits: FirstHits = field(repr=False)

    @property
    def doubts(self) -> list[str]:
        """Why the model is of little use; empty if there is no sign of that."""
        few = f"{self.queries:,} queries are too few for a model: give at least {ENOUGH}, better 250"
        both = f"AUC {self.auc:.3f}, and {self.score_auc:.3f} of the score"
        worse = f"the confidence tells answers no better than the score alone: {both}"
        return [few] * (self.queries < ENOUGH) + [worse] * (self.auc <= self.score_auc)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures and the model as plain JSON values.

        Returns
        -------
        dict
            All fields but the first hits.
        """
        figures = {name: value for name, value in vars(self).items() if name != "first_hits"}
        return {**figures, "model": self.model.to_dict()}


@dataclass(frozen=True, eq=False)
class AnswerFitter:
    """Fit a model to the first hits of judged queries."""

    searcher: Searcher
    is_answer: Callable[[QueryLike, Hit], bool]
    scope: Scope
    options: SearchOptions

    def fit(self, queries: Sequence[QueryLike], progress: Callable[[Progress], None] | None) -> AnswerCalibration:
        """Fit a model, and measure it by cross-fitting."""
        self.searcher.require_bound()
        rows: list[tuple[int, Signals, float, bool, bool]] = []
        for start in range(0, len(queries), BATCH):
            batch = queries[start : start + BATCH]
            rows += self._first_hits(batch, start)
            report_progress(progress, "queries", start + len(batch), len(queries))
        num_answers = sum(answers for *_, answers, _ in rows)
        if not FEWEST <= num_answers <= len(rows) - FEWEST:
            found = f"{num_answers:,} of {len(rows):,} first hits answer: at least {FEWEST} must, and {FEWEST} must not"
            raise InputError(f"{found}. Do hits have the ids of the judgements?")
        first = FirstHits(*map(np.array, zip(*rows, strict=True)))
        weighting = self.searcher.prepare([], self.scope, self.options).weighting
        confidences, usual = cross_fit(first, first, weighting), Usual.of(first.signals[~first.without])
        return AnswerCalibration(
            len(np.unique(first.queries)),
            float(first.answers[~first.without].mean()),
            first.area_under_curve(confidences),
            first.area_under_curve(first.scores),
            calibration_error(confidences, first.answers),
            replace(fit_answers(first.signals, first.answers, weighting), usual=usual),
            first,
        )

    def _first_hits(self, batch: Sequence[QueryLike], start: int) -> Iterator[tuple[int, Signals, float, bool, bool]]:
        """Yield number, signals and score of the first hit of each query, and whether it answers; then without answers.

        A search that filters the answers out has the other hits in their order: N and df are those of the index.
        """
        prepared = self.searcher.prepare(batch, self.scope, self.options)
        texts, judges = dict(zip(prepared.queries, batch, strict=True)), self.searcher.judges(prepared, {})

        known: dict[tuple[WeightedQuery, str], bool] = {}  # candidates are looked at again, and a judge may be slow

        def answers_it(query: WeightedQuery, match: Match) -> bool:
            if (key := (query, match.row.pk)) not in known:
                known[key] = self.is_answer(texts[query], to_hit(match))
            return known[key]

        def others(query: WeightedQuery, candidates: Candidates) -> list[Match]:
            return [match for match in candidates.matches if not answers_it(query, match)]

        def are_enough(query: WeightedQuery, candidates: Candidates) -> bool:
            return len(others(query, candidates)) >= NUM_RANKED

        limit = 2 * NUM_RANKED
        found = self.searcher.candidates(prepared.queries, limit, are_enough, self.scope, self.options, vectors=True)
        for number, (query, candidates) in enumerate(zip(prepared.queries, found, strict=True), start):
            left = others(query, candidates)
            for matches in filter(None, (candidates.matches, left)):
                first, is_without = matches[0], matches is left
                answers = not left or first is not left[0]
                yield number, judges.by(query, matches).signals(first), first.score, answers, is_without
