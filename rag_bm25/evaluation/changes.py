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
MAX_REASONS = 2  # of each side
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
    """Compare two runs on the same queries by the measures of the later one, which the earlier one has as well."""
    measures = {}
    for name in after.measures:
        first, second = ([run.queries[id_].measures[name] for id_ in after.queries] for run in (before, after))
        measures[name] = MeasureChange(fmean(first), fmean(second), paired_test(first, second))
    changes = [_change(id_, before.queries[id_], query) for id_, query in after.queries.items()]
    worse = sorted((one for one in changes if one.lowest < 0), key=lambda one: one.lowest)
    better = [one for one in changes if one.lowest >= 0 and one.before != one.after]
    same = [one.id for one in changes if one.before == one.after]
    reordered = [id_ for id_ in same if before.queries[id_].first_hits != after.queries[id_].first_hits]
    return Changes(measures, worse, better, reordered, len(changes))


def _change(id_: str, before: RecordedQuery, after: RecordedQuery) -> QueryChange:
    of_before = {name: before.measures[name] for name in after.measures}
    return QueryChange(id_, after.text, of_before, after.measures, list(_falls(before, after)))


def _falls(before: RecordedQuery, after: RecordedQuery) -> Iterator[Fall]:
    for id_, hit in before.hits.items():
        now = after.hits[id_] if id_ in after.hits else None
        if hit.grade > 0 and hit.rank and (now is None or now.rank is None or now.rank > hit.rank):
            above = _displacing(id_, before, after)
            reasons = list(_reasons(hit, now, above, before, after))
            yield Fall(id_, hit.rank, now and now.rank, above, reasons)


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
    if now is None or now.weights is None:
        yield f"its chunk {was.chunk!r} is not in the index any more"
        return
    other: Weights = (after.hits[above].weights or {}) if above else {}
    score = sum(before.weights.get(term, 0.0) * weight for term, weight in (was.weights or {}).items())
    effects = sorted(_effects(was.weights or {}, now.weights, other, before, after))
    of_query = [reason for effect, reason in effects if effect < -LEAST_SHARE * score][:MAX_REASONS]
    yield from of_query
    if above and not (of_query and above in before.first_hits):
        gains = sorted(_gains(now.weights, other, above, after.weights), reverse=True)
        yield from [reason for gain, reason in gains if gain > LEAST_SHARE * score][:MAX_REASONS]


def _effects(
    was: Weights, now: Weights, other: Weights, before: RecordedQuery, after: RecordedQuery
) -> Iterator[tuple[float, str]]:
    """Yield by how much each term moves a document away from another one, and how."""
    for term, old in before.weights.items():
        first, second = was.get(term, 0.0), now.get(term, 0.0)
        if term not in after.weights:
            yield -old * first, f"{term} is no term of the query any more: it gave {old * first:.2f}"
            continue
        new = after.weights[term]
        chunk = f"has weight {first:.2f} -> {second:.2f} in the chunk" if second else "is not in the chunk any more"
        yield old * (second - first), f"{term} {chunk}: it gave {old * first:.2f}, and gives {new * second:.2f}"
        dfs = f"df {before.df[term]:,} of {before.num_chunks:,} -> {after.df[term]:,} of {after.num_chunks:,}"
        yield (new - old) * (second - other.get(term, 0.0)), f"{term} has {dfs}, query weight {old:.2f} -> {new:.2f}"


def _gains(own: Weights, other: Weights, above: str, weights: Weights) -> Iterator[tuple[float, str]]:
    """Yield how much more each term gives to the document above."""
    for term, weight in other.items():
        gives = weights[term] * weight
        own_part = weights[term] * own.get(term, 0.0)
        yield gives - own_part, f"{term} gives {gives:.2f} to {above}, and {own_part:.2f} to this one"
