"""Judge the scores of a query: their share of the maximum score, and the confidence that the chunk answers."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from rag_bm25.index.searching.rows import to_hit
from rag_bm25.weighting.confidence import NUM_RANKED, Signals, specificity_of
from rag_bm25.weighting.idf import IdfInputs
from rag_bm25.weighting.query import DEFAULT_WEIGHTING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rag_bm25.documents.chunks import Hit
    from rag_bm25.events import Events
    from rag_bm25.index.searching.weigher import WeightedQuery
    from rag_bm25.query.terms import QueryTerms
    from rag_bm25.store.rows import Match
    from rag_bm25.vectors.sparse import SparseVector
    from rag_bm25.weighting.confidence import AnswerModel
    from rag_bm25.weighting.query import QueryWeighting

FEWEST_RECENT, MOST_RECENT = 100, 200  # questions that tell whether they are unlike those of the calibration
NO_CHUNKS = IdfInputs(num_chunks=0, average_idf=0.0)


@dataclass(frozen=True, eq=False)
class Judge:
    """Judge the matches of one query."""

    query: SparseVector
    max_score: float
    model: AnswerModel | None = None
    rivals: float = 0.0  # mean of the second to the tenth score
    specificity: float = 0.0
    unknown: float = 0.0  # weight of the words that no chunk has

    def to_hits(self, matches: Sequence[Match]) -> list[Hit]:
        """Return matches, best first, as users see them; with a model, they need their vectors."""
        is_bounded = self.max_score < np.inf
        shares = [min(1.0, match.score / self.max_score) if is_bounded else None for match in matches]
        return list(map(to_hit, matches, shares, self._confidences(matches)))

    def _confidences(self, matches: Sequence[Match]) -> Sequence[float | None]:
        """Return the confidence of each match by its own signals, but no more than that of the match before it."""
        if self.model is None or not matches:
            return [None] * len(matches)
        confidences = self.model.confidences([self.signals(match) for match in matches])
        return np.minimum.accumulate(confidences).tolist()  # type: ignore[no-any-return]

    def signals(self, match: Match) -> Signals:
        """Return the signals of a match."""
        held = np.isin(self.query.ids, match.row.vector.ids, assume_unique=True)
        asked = self.query.values.sum(dtype=float) + self.unknown
        coverage = float(self.query.values[held].sum(dtype=float) / asked)
        share, rivals = match.score / self.max_score, self.rivals / self.max_score
        return Signals.of(share, rivals, coverage, self.specificity)


class RecentQuestions:
    """The signals of the first hits of the last questions in this process that `min_confidence` decided on."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._numbers = count(1)
        self._signals: deque[Signals] = deque(maxlen=MOST_RECENT)

    def add(self, signals: Signals, model: AnswerModel) -> None:
        """Count a question; now and then, warn if they are unlike those of the calibration."""
        if self._events.is_muted:
            return
        self._signals.append(signals)
        if next(self._numbers) % FEWEST_RECENT == 0 and (doubt := self.doubt(model)):
            self._events.warn("unlike", doubt, questions=len(self._signals))

    def doubt(self, model: AnswerModel | None) -> str | None:
        """Return how the questions differ from those of the calibration, if there are enough, and if they do."""
        if model is None or model.usual is None or len(recent := list(self._signals)) < FEWEST_RECENT:
            return None
        shifts = [
            f"{name} is {abs(shift):.1f} standard deviations {'higher' if shift > 0 else 'lower'}"
            for name, shift in model.usual.shifts(recent).items()
        ]
        who = f"the last {len(recent)} questions are unlike those that the confidence was calibrated with"
        return f"{who}: {', '.join(shifts)}. Calibrate again with questions like these" if shifts else None


@dataclass(frozen=True, eq=False)
class Judges:
    """Make the judges of the queries of one search."""

    max_score: Callable[[WeightedQuery], float]
    weighting: QueryWeighting = DEFAULT_WEIGHTING  # by which the queries were weighed
    corpus: IdfInputs = NO_CHUNKS  # likewise
    model: AnswerModel | None = None
    recent: RecentQuestions | None = None  # to which the queries are added
    known: dict[WeightedQuery, Judge] = field(default_factory=dict)

    @property
    def num_needed(self) -> int:
        """Number of matches that a judgement depends on, if there are so many."""
        return 0 if self.model is None else NUM_RANKED

    def of(self, query: WeightedQuery, matches: Sequence[Match]) -> Judge:
        """Return the judge of a query: made of its best matches at the first call, and kept."""
        if query not in self.known:
            self.known[query] = self._first(query, matches)
        return self.known[query]

    def _first(self, query: WeightedQuery, matches: Sequence[Match]) -> Judge:
        if self.model is None or not matches:
            return Judge(query.vector, self.max_score(query))
        judge = self.by(query, matches)
        if self.recent is not None:
            self.recent.add(judge.signals(matches[0]), self.model)
        return judge

    def by(self, query: WeightedQuery, matches: Sequence[Match]) -> Judge:
        """Return the judge of a query by some matches."""
        terms, has_weight = query.terms, query.terms.weights > 0
        specificity = specificity_of(terms.weights[has_weight], terms.df[has_weight], self.corpus.num_chunks)
        rivals = sum(match.score for match in matches[1:NUM_RANKED]) / (NUM_RANKED - 1)
        return Judge(query.vector, self.max_score(query), self.model, rivals, specificity, self._unknown(terms))

    def _unknown(self, terms: QueryTerms) -> float:
        """Return the weight that the unknown words of a query would have if one chunk had them."""
        if not (unknown := terms.are_unknown()).any():
            return 0.0
        weights = self.weighting.weights(terms.qtf[unknown], np.ones(unknown.sum()), self.corpus)
        return float(terms.boost[unknown] @ weights)
