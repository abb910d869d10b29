"""Add words that occur in the same chunks as those of a query: the formula of :class:`rag_bm25.Axiomatic`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rag_bm25.query.evidence import AskedTerms, FeedbackTable
from rag_bm25.query.terms import QueryTerm, TermSource
from rag_bm25.vectors.terms import term_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rag_bm25.query.evidence import Evidence
    from rag_bm25.query.feedback import Axiomatic

ROUNDING = 1e-9  # what is smaller is 0 but for rounding: a share of the chunks, or a similarity
NAMED = 3  # words of the query that an added word is said to be similar to


@dataclass(frozen=True, eq=False)
class WorkingSet:
    """Expected counts of words in a set of chunks: the relevant ones, and some others."""

    size: float
    with_word: NDArray[np.float64]  # number of chunks with each word
    with_both: NDArray[np.float64]  # with each word of the query, in rows, and each word
    queried: NDArray[np.intp]  # columns of the words of the query

    @classmethod
    def of(cls, table: FeedbackTable, background: int) -> WorkingSet:
        """Count the relevant chunks, and `background` times as many others, where words are independent."""
        present = np.zeros((table.rows, len(table.ids)))
        present[table.row, table.column] = 1
        r, queried = present.sum(axis=0), np.flatnonzero(table.queried)
        num_others = max(table.num_chunks - table.rows, 0)  # the statistics may be older than the chunks
        drawn = min(background * table.rows, num_others)
        rate = np.clip((table.df - r) / max(num_others, 1), 0, 1)
        both = present[:, queried].T @ present + drawn * np.outer(rate[queried], rate)
        return cls(table.rows + drawn, r + drawn * rate, both, queried)

    def similarities(self) -> NDArray[np.float64]:
        """Return I(q, t) / I(q, q) of each word q of the query, in rows, and each other word t, in 0..1."""
        x, y = self.with_word[self.queried, None], self.with_word[None, :]
        information = self._mutual_information(x, y, self.with_both)
        own = self._mutual_information(x, x, x)
        attracts = self.with_both * self.size > x * y  # what avoids q tells as much of it, and is not similar
        attracts[np.arange(len(self.queried)), self.queried] = False
        similar = np.divide(information, own, out=np.zeros_like(information), where=attracts & (own > 0))
        return np.where(similar > ROUNDING, similar, 0.0)

    def _mutual_information(
        self, x: NDArray[np.float64], y: NDArray[np.float64], both: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return I of the presence of two words: the sum of p(x, y) ln(p(x, y) / (p(x) p(y))), 0 where p is 0."""
        size = self.size
        cells = (
            (both, x, y),
            (x - both, x, size - y),
            (y - both, size - x, y),
            (size - x - y + both, size - x, size - y),
        )
        information = np.zeros(np.broadcast_shapes(x.shape, y.shape, both.shape))
        for count, one, other in cells:
            joint = np.where(count > ROUNDING * size, count, 0.0)
            ratio = np.divide(joint * size, one * other, out=np.ones_like(joint), where=joint > 0)
            information += joint / size * np.log(ratio)
        return np.maximum(information, 0.0)


def expand_axiomatic(method: Axiomatic, wanted: Sequence[QueryTerm], evidence: Evidence) -> list[QueryTerm]:
    """Add the words that are most similar to those of the query."""
    asked = AskedTerms.of(wanted, evidence)
    table = FeedbackTable.of(evidence.relevant, asked, evidence)
    place = {id_: at for at, id_ in enumerate(asked.ids.tolist())}
    similar = WorkingSet.of(table, method.background).similarities()
    queried = np.flatnonzero(table.queried)
    at_asked = [place[id_] for id_ in table.ids[queried].tolist()]
    weights = asked.own[at_asked] * table.idf[queried]
    parts = method.beta * weights[:, None] * similar
    added = parts.sum(axis=0)
    usable = table.queried | table.may_be_added(method.min_df, method.max_df)
    kept = table.select(np.where(usable, added, 0.0), method.fb_terms)
    words = [table.words[at] for at in queried.tolist()]
    terms = {table.words[at]: _source(words, similar[:, at], added[at] / table.idf[at]) for at in kept.tolist()}
    own = [
        asked_term if not (source := terms.pop(asked_term.term, None)) else _strengthen(asked_term, source, weight)
        for asked_term, weight in zip(wanted, asked.own.tolist(), strict=True)
    ]
    return [*own, *(QueryTerm(word, 1, source) for word, source in terms.items())]


def _source(words: Sequence[str], similar: NDArray[np.float64], boost: float) -> TermSource:
    """Say which words of the query a word is similar to, and how much."""
    best = [at for at in np.argsort(-similar, kind="stable").tolist()[:NAMED] if similar[at] > 0]
    named = ", ".join(f"{similar[at]:.2g} to {term_name(words[at])}" for at in best)
    formula = "beta * sum of w(q) * I(q, t) / I(q, q) over the words q of the query / idf(t)"
    return TermSource(f"similar: {named}", ((formula, float(boost)),))


def _strengthen(asked: QueryTerm, source: TermSource, own: float) -> QueryTerm:
    """Add to a word of the query what it gets from the others."""
    ((formula, boost),) = source.factors
    if not boost:
        return asked
    factors = (*asked.source.factors, (f"1 + {formula} / own, weight of the term before feedback", 1 + boost / own))
    return asked._replace(source=replace(asked.source, factors=factors))
