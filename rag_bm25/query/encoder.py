"""Weigh queries by the statistics of now."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from rag_bm25.query.expansion import Expander
from rag_bm25.query.query import Query
from rag_bm25.query.terms import PLAIN_SOURCE, QueryTerm, QueryTerms, RelevanceCounts, TermSource
from rag_bm25.vectors.terms import is_bigram, is_cjk, is_word_bigram
from rag_bm25.weighting.idf import idf

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from rag_bm25.analysis import TextAnalyzer
    from rag_bm25.query.query import QueryLike
    from rag_bm25.query.spelling import DfLookup
    from rag_bm25.query.terms import GroupWords
    from rag_bm25.statistics.corpus import CorpusStatistics
    from rag_bm25.vectors.sparse import SparseVector
    from rag_bm25.weighting.query import QueryWeighting


MAX_KEPT = 65_536

Factors: TypeAlias = tuple[tuple[str, float], ...]
"""Factors of a term, each with its name."""

_LATIN, _WORD_BIGRAM, _CJK, _CJK_BIGRAM = range(4)  # kinds of terms
_WORD_OF = (_LATIN, _LATIN, _CJK, _CJK)  # bigrams of a phrase have the weight of words


class TermFacts(NamedTuple):
    """What a term weighs by, whatever the query."""

    id: int
    df: int
    idf: float  # 0 for unknown terms


@dataclass(frozen=True, eq=False)
class QueryEncoder:
    """Turn queries into vectors of IDF weights."""

    analyzer: TextAnalyzer
    weighting: QueryWeighting
    ids: Mapping[str, int]  # of every term, as the vocabulary has it
    expander: Expander | None = None  # by default, nothing is added to queries
    kept: dict[str, TermFacts] | None = None  # of terms, where all queries are weighed by the same statistics

    def encode(self, query: QueryLike, statistics: CorpusStatistics) -> SparseVector:
        """Encode a query; terms that no chunk has are left out."""
        return self.terms(query, statistics).vector()

    def terms(self, query: QueryLike, statistics: CorpusStatistics) -> QueryTerms:
        """Weigh the terms of a query one by one, as `explain` shows them."""
        wanted, group_words = self.expand(query, statistics)
        return self.weigh(wanted, statistics, group_words=group_words)

    def expand(self, query: QueryLike, statistics: CorpusStatistics) -> tuple[list[QueryTerm], GroupWords]:
        """Collect the terms of a query, each once and without weights: its own, then those that are added."""
        expander = self.expander or Expander(self.analyzer)
        expanded = expander.expand(Query.of(query), self.df_lookup(statistics))
        added = expanded.added_terms(self.weighting, partial(self._weight_of, statistics))
        return [*expanded.own_terms(), *added], partial(expanded.groups, self.ids)

    def weigh(
        self,
        wanted: Sequence[QueryTerm],
        statistics: CorpusStatistics,
        relevant: Sequence[SparseVector] | None = None,
        group_words: GroupWords = tuple,
    ) -> QueryTerms:
        """Weigh distinct terms: boost times repetition times IDF.

        With the vectors of `relevant` chunks, the IDF counts these apart.
        """
        terms, repeats, sources = self._boost_kinds(wanted)
        ids, df, idfs = self._look_up(terms, statistics)
        qtf, boost = np.array(repeats, np.int64), np.array([source.boost for source in sources], np.float64)
        relevance = None
        if relevant:
            num_chunks = statistics.num_chunks
            relevance = _count_relevant(ids, df, num_chunks, relevant)
            idfs = self._idfs(terms, df, relevance.equivalent_df(df, num_chunks), statistics)
        weights = boost * (self.weighting.term_weights(qtf) * idfs)
        return QueryTerms(terms, ids, qtf, df, boost, weights, sources, group_words, relevance)

    def _look_up(
        self, terms: Sequence[str], statistics: CorpusStatistics
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64], NDArray[np.float64]]:
        """Return the id, df and IDF of each term; a dict of those of the last queries is faster than the counts."""
        kept = {} if self.kept is None else self.kept
        facts = {term: known for term in terms if (known := kept.get(term))}
        if missing := [term for term in terms if term not in facts]:
            ids = self._ids_of(missing)
            df = statistics.df(ids)
            idfs = self._idfs(missing, df, df, statistics)
            counted = dict(zip(missing, map(TermFacts, ids.tolist(), df.tolist(), idfs.tolist()), strict=True))
            facts.update(counted)
            if len(kept) > MAX_KEPT:
                kept.clear()
            kept.update(counted)
        found = [facts[term] for term in terms]
        return (
            np.array([known.id for known in found], np.uint32),
            np.array([known.df for known in found], np.int64),
            np.array([known.idf for known in found], np.float64),
        )

    def _idfs(
        self,
        terms: Sequence[str],
        df: NDArray[np.int64],
        informed: NDArray[np.int64] | NDArray[np.float64],  # df with relevance information
        statistics: CorpusStatistics,
    ) -> NDArray[np.float64]:
        """Return the IDF of each term, 0 for unknown ones."""
        known, values = df > 0, np.zeros(len(terms))
        are_bigrams = np.array([is_bigram(term) for term in terms], np.bool_)[known]
        name, epsilon, collection = self.weighting.idf, self.weighting.epsilon, statistics.collection_stats
        values[known] = idf(name, informed[known], collection, epsilon, are_bigrams)
        return values

    def df_lookup(self, statistics: CorpusStatistics) -> DfLookup:
        """Return a function that looks up the document frequency of each word."""
        return lambda words: statistics.df(self._ids_of(words))

    def _ids_of(self, terms: Sequence[str]) -> NDArray[np.uint32]:
        return np.array([self.ids[term] for term in terms], np.uint32)

    def _weight_of(self, statistics: CorpusStatistics, keys: Iterable[str]) -> float:
        """Return how much distinct terms weigh together; unknown ones count as if one chunk had them."""
        if not statistics.num_chunks:
            return 0.0
        distinct = list(dict.fromkeys(keys))
        df = np.maximum(statistics.df(self._ids_of(distinct)), 1)
        once, are_bigrams = np.ones(len(distinct), np.int64), list(map(is_bigram, distinct))
        return math.fsum(self.weighting.weights(once, df, statistics.collection_stats, are_bigrams).tolist())

    def _boost_kinds(self, wanted: Sequence[QueryTerm]) -> tuple[list[str], list[int], list[TermSource]]:
        """Return terms, qtf and sources; each term is boosted by the weight of its kind, or left out."""
        kinds = [_kind_of(term) for term, _, _ in wanted]
        factors_of = self._kind_factors[_CJK_BIGRAM in kinds]
        boosted = dict(self._boosted_plain)
        terms: list[str] = []
        repeats: list[int] = []
        sources: list[TermSource] = []
        for kind, (term, qtf, before) in zip(kinds, wanted, strict=True):
            factors = factors_of[_WORD_OF[kind] if before.of_phrase else kind]
            if not all(factor for _, factor in factors):
                continue
            source = before
            if factors:
                key = id(before), id(factors)
                if key not in boosted:
                    boosted[key] = replace(before, factors=(*before.factors, *factors))
                source = boosted[key]
            terms.append(term)
            repeats.append(qtf)
            sources.append(source)
        return terms, repeats, sources

    @cached_property
    def _kind_factors(self) -> tuple[tuple[Factors, ...], tuple[Factors, ...]]:
        """The factors of each kind of term, in queries without bigrams of characters and with them."""
        weighting = self.weighting
        of_cjk_bigrams = (("bigram_weight, of bigrams of characters", weighting.bigram_weight),)
        of_word_bigrams = (("word_bigram_weight, of bigrams of words", weighting.word_bigram_weight),)
        of_latin: Factors = (("latin_weight, of letters and numbers beside Chinese", weighting.latin_weight),)
        if weighting.latin_weight == 1 or not weighting.bigram_weight:
            of_latin = ()
        return ((), of_word_bigrams, (), of_cjk_bigrams), (of_latin, of_word_bigrams + of_latin, (), of_cjk_bigrams)

    @cached_property
    def _boosted_plain(self) -> dict[tuple[int, int], TermSource]:
        """The sources of terms of the text that have factors, by the ids of the source before and of the factors."""
        every = (*self._kind_factors[False], *self._kind_factors[True])
        return {(id(PLAIN_SOURCE), id(factors)): TermSource(factors=factors) for factors in every if factors}


def _kind_of(term: str) -> int:
    """Return the kind of a term, by which queries weigh it."""
    if is_bigram(term):
        return _WORD_BIGRAM if is_word_bigram(term) else _CJK_BIGRAM
    return _CJK if is_cjk(term) else _LATIN


def _count_relevant(
    ids: NDArray[np.uint32], df: NDArray[np.int64], num_chunks: int, relevant: Sequence[SparseVector]
) -> RelevanceCounts:
    """Count the relevant chunks that have each term."""
    held, counts = np.unique(np.concatenate([vector.ids for vector in relevant]), return_counts=True)
    at = np.searchsorted(held, ids).clip(max=len(held) - 1)
    r = np.where(held[at] == ids, counts[at], 0)
    return RelevanceCounts.within(r, len(relevant), df, num_chunks)
