"""Weigh queries by the statistics of now."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from rag_bm25.query.expansion import Expander
from rag_bm25.query.query import Query
from rag_bm25.query.terms import QueryTerm, QueryTerms, RelevanceCounts, TermSource
from rag_bm25.vectors.terms import is_bigram, is_word_bigram

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


@dataclass(frozen=True)
class QueryEncoder:
    """Turn queries into vectors of IDF weights."""

    analyzer: TextAnalyzer
    weighting: QueryWeighting
    ids: Mapping[str, int]  # of every term, as the vocabulary has it
    expander: Expander | None = None  # by default, nothing is added to queries

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
        terms, repeats, sources = self._boost_bigrams(wanted)
        ids, qtf = self._ids_of(terms), np.array(repeats, np.int64)
        are_bigrams = np.array([is_bigram(term) for term in terms], np.bool_)
        boost = np.array([source.boost for source in sources], np.float64)
        df, collection = statistics.df(ids), statistics.collection_stats
        weights = np.zeros(len(terms))
        known = df > 0
        relevance = _count_relevant(ids, df, collection.num_chunks, relevant) if relevant else None
        informed = df if relevance is None else relevance.equivalent_df(df, collection.num_chunks)
        known_weights = self.weighting.weights(qtf[known], informed[known], collection, are_bigrams[known])
        weights[known] = boost[known] * known_weights
        return QueryTerms(terms, ids, qtf, df, boost, weights, sources, group_words, relevance)

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

    def _boost_bigrams(self, wanted: Sequence[QueryTerm]) -> tuple[list[str], list[int], list[TermSource]]:
        """Return terms, qtf and sources; bigrams are boosted by the weight of their kind, or left out."""
        of_characters = ("bigram_weight, of bigrams of characters", self.weighting.bigram_weight)
        of_words = ("word_bigram_weight, of bigrams of words", self.weighting.word_bigram_weight)
        boosted: dict[tuple[int, bool], TermSource] = {}  # by the source before; most bigrams share one
        terms: list[str] = []
        repeats: list[int] = []
        sources: list[TermSource] = []
        for term, qtf, before in wanted:
            source = before
            if is_bigram(term) and not before.of_phrase:
                factor = of_words if is_word_bigram(term) else of_characters
                if not factor[1]:
                    continue
                key = id(before), factor is of_words
                if key not in boosted:
                    boosted[key] = replace(before, factors=(*before.factors, factor))
                source = boosted[key]
            terms.append(term)
            repeats.append(qtf)
            sources.append(source)
        return terms, repeats, sources


def _count_relevant(
    ids: NDArray[np.uint32], df: NDArray[np.int64], num_chunks: int, relevant: Sequence[SparseVector]
) -> RelevanceCounts:
    """Count the relevant chunks that have each term."""
    held, counts = np.unique(np.concatenate([vector.ids for vector in relevant]), return_counts=True)
    at = np.searchsorted(held, ids).clip(max=len(held) - 1)
    r = np.where(held[at] == ids, counts[at], 0)
    return RelevanceCounts.within(r, len(relevant), df, num_chunks)
