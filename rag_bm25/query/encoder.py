"""Weigh queries by the statistics of now."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from rag_bm25.query.expansion import Expander
from rag_bm25.query.query import Query
from rag_bm25.query.terms import QueryTerm, QueryTerms, RelevanceCounts, TermGroup, TermSource
from rag_bm25.vectors.terms import is_bigram

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from rag_bm25.analysis import TextAnalyzer
    from rag_bm25.query.query import QueryLike
    from rag_bm25.query.spelling import DfLookup
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
        wanted, groups = self.expand(query, statistics)
        return self.weigh(wanted, statistics, groups=groups)

    def expand(self, query: QueryLike, statistics: CorpusStatistics) -> tuple[list[QueryTerm], tuple[TermGroup, ...]]:
        """Collect the terms of a query, each once and without weights: its own, then those that are added."""
        expander = self.expander or Expander(self.analyzer)
        expanded = expander.expand(Query.of(query), self.df_lookup(statistics))
        added = expanded.added_terms(self.weighting, partial(self._weight_of, statistics))
        return [*expanded.own_terms(), *added], tuple(expanded.groups(self.ids))

    def weigh(
        self,
        wanted: Iterable[QueryTerm],
        statistics: CorpusStatistics,
        relevant: Sequence[SparseVector] | None = None,
        groups: tuple[TermGroup, ...] = (),
    ) -> QueryTerms:
        """Weigh distinct terms: boost times repetition times IDF.

        With the vectors of `relevant` chunks, the IDF counts these apart.
        """
        wanted = list(self._boost_bigrams(wanted))
        terms = [asked.term.key for asked in wanted]
        ids = self._ids_of(terms)
        qtf = np.fromiter((asked.qtf for asked in wanted), np.int64, len(terms))
        is_bigram = np.fromiter((asked.term.is_bigram for asked in wanted), np.bool_, len(terms))
        boost = np.fromiter((asked.source.boost for asked in wanted), np.float64, len(terms))
        df, collection = statistics.df(ids), statistics.collection_stats
        weights = np.zeros(len(terms))
        known = df > 0
        relevance = _count_relevant(ids, df, collection.num_chunks, relevant) if relevant else None
        informed = df if relevance is None else relevance.equivalent_df(df, collection.num_chunks)
        known_weights = self.weighting.weights(qtf[known], informed[known], collection, is_bigram[known])
        weights[known] = boost[known] * known_weights
        sources = [asked.source for asked in wanted]
        return QueryTerms(terms, ids, qtf, df, boost, weights, sources, groups, relevance)

    def df_lookup(self, statistics: CorpusStatistics) -> DfLookup:
        """Return a function that looks up the document frequency of each word."""
        return lambda words: statistics.df(self._ids_of(words))

    def _ids_of(self, terms: Sequence[str]) -> NDArray[np.uint32]:
        return np.fromiter(map(self.ids.__getitem__, terms), np.uint32, len(terms))

    def _weight_of(self, statistics: CorpusStatistics, keys: Iterable[str]) -> float:
        """Return how much distinct terms weigh together; unknown ones count as if one chunk had them."""
        if not statistics.num_chunks:
            return 0.0
        distinct = list(dict.fromkeys(keys))
        df = np.maximum(statistics.df(self._ids_of(distinct)), 1)
        once, are_bigrams = np.ones(len(distinct), np.int64), list(map(is_bigram, distinct))
        return math.fsum(self.weighting.weights(once, df, statistics.collection_stats, are_bigrams).tolist())

    def _boost_bigrams(self, wanted: Iterable[QueryTerm]) -> Iterator[QueryTerm]:
        """Boost bigrams by the weight of their kind, or leave them out."""
        of_characters = ("bigram_weight, of bigrams of characters", self.weighting.bigram_weight)
        of_words = ("word_bigram_weight, of bigrams of words", self.weighting.word_bigram_weight)
        sources: dict[tuple[int, bool], tuple[TermSource, TermSource]] = {}  # most bigrams share one
        for asked in wanted:
            factor = of_words if asked.term.is_word_bigram else of_characters
            if not asked.term.is_bigram or asked.source.of_phrase:
                yield asked
            elif factor[1] > 0:
                before, key = asked.source, (id(asked.source), asked.term.is_word_bigram)
                if key not in sources:
                    sources[key] = before, replace(before, factors=(*before.factors, factor))
                yield QueryTerm(asked.term, asked.qtf, sources[key][1])


def _count_relevant(
    ids: NDArray[np.uint32], df: NDArray[np.int64], num_chunks: int, relevant: Sequence[SparseVector]
) -> RelevanceCounts:
    """Count the relevant chunks that have each term."""
    held, counts = np.unique(np.concatenate([vector.ids for vector in relevant]), return_counts=True)
    at = np.searchsorted(held, ids).clip(max=len(held) - 1)
    r = np.where(held[at] == ids, counts[at], 0)
    return RelevanceCounts.within(r, len(relevant), df, num_chunks)
