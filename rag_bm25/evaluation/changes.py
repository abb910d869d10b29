"""Compare two runs query by query, and find the reasons why a relevant document has a worse place."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from rag_bm25.evaluation.baseline import FIRST_HITS
from rag_bm25.evaluation.comparison import PairedTest, paired_test

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rag_bm25.evaluation.baseline import Baseline, RecordedHit, RecordedQuery, Weights

ALPHA = 0.05  # level of significance
MAX_REASONS = 3
LEAST_SHARE = 0.01  # of a score: less is no reason


@dataclass(frozen=True)
class MeasureChange:
    """A measure, before and after."""

    before: float
    after: float
    test: PairedTest

    @property
    def is_worse(self) -> bool:
        """Whether it has fallen significantly."""
        return self.test.difference < 0 and self.test.p_value < ALPHA


@dataclass(frozen=True)
class Fall:
    """A relevant document that has a worse place."""

    id: str
    before: int
    after: int | None  # None if it is not among the hits
    displaced_by: str  # the first document that is above it and was not; "" if that is not known
    reasons: list[str]


@dataclass(frozen=True)
class QueryChange:
    """A query with another measure."""

    id: str
    text: str
    before: dict[str, float]
    after: dict[str, float]
    falls: list[Fall]

    @property
    def lowest(self) -> float:
        """The greatest fall of a measure, or the smallest rise."""
        return min(self.after[name] - self.before[name] for name in self.after)


@dataclass(frozen=True)
class Changes:
    """What is different between two runs."""

    measures: dict[str, MeasureChange]
    worse: list[QueryChange]  # in one measure at least, the greatest fall first
    better: list[QueryChange]
    reordered: list[str]  # queries with the same measures and other first hits
    num_queries: int


def compare(before: Baseline, after: Baseline) -> Changes:
    """Compare two runs on the same queries by the measures of the earlier one, which the later one has as well."""
    measures = {}
    for name in before.measures:
        first, second = ([run.queries[id_].measures[name] for id_ in after.queries] for run in (before, after))
        measures[name] = MeasureChange(fmean(first), fmean(second), paired_test(first, second))
    changes = [_change(id_, before.queries[id_], query) for id_, query in after.queries.items()]
    worse = sorted((one for one in changes if one.lowest < 0), key=lambda one: one.lowest)
    better = [one for one in changes if one.lowest >= 0 and one.before != one.after]
    same = [one.id for one in changes if one.before == one.after]
    reordered = [id_ for id_ in same if before.queries[id_].first_hits != after.queries[id_].first_hits]
    return Changes(measures, worse, better, reordered, len(changes))


def _change(id_: str, before: RecordedQuery, after: RecordedQuery) -> QueryChange:
    measures = {name: after.measures[name] for name in before.measures}
    return QueryChange(id_, after.text, before.measures, measures, list(_falls(before, after)))


def _falls(before: RecordedQuery, after: RecordedQuery) -> Iterator[Fall]:
    for id_, hit in before.hits.items():
        now = after.hits.get(id_)
        place = None if now is None else now.rank
        if hit.grade > 0 and hit.rank and (place is None or place > hit.rank):
            above = _displacing(id_, before, after)
            yield Fall(id_, hit.rank, place, above, list(_reasons(hit, now, above, before, after)))


def _displacing(id_: str, before: RecordedQuery, after: RecordedQuery) -> str:
    """Return the first document that is above one and was not; only of the first hits that is known."""
    rank = before.hits[id_].rank or 0
    if rank > FIRST_HITS:
        return ""
    known = {*before.first_hits[:rank]}
    now = after.first_hits
    return next((other for other in now[: now.index(id_) if id_ in now else None] if other not in known), "")


def _reasons(
    was: RecordedHit, now: RecordedHit | None, above: str, before: RecordedQuery, after: RecordedQuery
) -> Iterator[str]:
    """Yield the terms by which a document has lost most, by itself or against the one that is above it now."""
    if now is None or now.weights is None or was.weights is None:
        yield f"the chunk {was.chunk!r} is not in the index any more"
        return
    above_was, above_now = (run.hits[above].weights if above in run.hits else None for run in (before, after))
    effects = sorted(_effects(was.weights, now.weights, above, above_was, above_now, before, after))
    least = LEAST_SHARE * sum(before.weights.get(term, 0.0) * weight for term, weight in was.weights.items())
    yield from [reason for effect, reason in effects if effect < -least][:MAX_REASONS]


def _effects(
    was: Weights,
    now: Weights,
    above: str,
    above_was: Weights | None,  # None if it was not among the hits that are known
    above_now: Weights | None,
    before: RecordedQuery,
    after: RecordedQuery,
) -> Iterator[tuple[float, str]]:
    """Yield by how much each term moves a document towards the one that is above it now, below 0, and why."""
    for term in before.weights | after.weights:
        old, new = before.weights.get(term, 0.0), after.weights.get(term, 0.0)
        first, second = was.get(term, 0.0), now.get(term, 0.0)
        other = (above_now or {}).get(term, 0.0)
        other_before = other if above_was is None else above_was.get(term, 0.0)
        if term not in after.weights:
            yield -old * first, f"{term} is not in the query any more: it gave {old * first:.2f}"
        elif second:
            yield old * (second - first), f"{term} has the weight {first:.2f} -> {second:.2f} in the chunk"
        else:
            yield -old * first, f"{term} is not in the chunk any more: it gave {old * first:.2f}"
        yield old * (other_before - other), f"{term} has the weight {other_before:.2f} -> {other:.2f} in {above}"
        if term in before.weights and term in after.weights:
            yield (new - old) * (second - other), f"{term} has {_moved(term, before, after)}"
        if above_was is None or term not in before.weights:
            yield new * (second - other), f"{term} gives {new * other:.2f} to {above}, {new * second:.2f} to this one"


def _moved(term: str, before: RecordedQuery, after: RecordedQuery) -> str:
    """Return the query weight of a term, and its df where that is the cause."""
    was, now = (f"{query.df[term]:,} of {query.num_chunks:,}" for query in (before, after))
    weights = f"query weight {before.weights[term]:.2f} -> {after.weights[term]:.2f}"
    return f"the {weights}" if was == now else f"df {was} -> {now}, {weights}"
