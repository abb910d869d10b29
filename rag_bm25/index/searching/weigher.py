"""Weigh queries by live statistics: their terms, with the additions and the IDF that a search asks for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from rag_bm25.errors import ParameterError
from rag_bm25.index.searching.memo import QueryMemo
from rag_bm25.index.searching.part_statistics import count_part
from rag_bm25.query.conditions import Conditions
from rag_bm25.query.encoder import QueryEncoder
from rag_bm25.query.expanders import Expanders
from rag_bm25.query.options import statistics_filter
from rag_bm25.store.rows import Scope
from rag_bm25.weighting.query import DEFAULT_WEIGHTING

if TYPE_CHECKING:
    from collections.abc import Hashable

    from rag_bm25.documents.encoder import DocumentEncoder
    from rag_bm25.hits.options import SearchOptions
    from rag_bm25.index.live_statistics import LiveStatistics
    from rag_bm25.index.query_defaults import LiveConfig
    from rag_bm25.query.query import Query
    from rag_bm25.query.terms import QueryTerms
    from rag_bm25.statistics.corpus import CorpusCounts
    from rag_bm25.statistics.view import StatisticsView
    from rag_bm25.store.protocol import Store
    from rag_bm25.vectors.sparse import SparseVector
    from rag_bm25.weighting.document import DocumentWeighting
    from rag_bm25.weighting.query import QueryWeighting

MAX_PARTS = 8  # statistics of filters; each takes as much memory as those of an index of these chunks
MAX_KEPT = 1000
"""Maximum length, in characters, of a query that is remembered as it was weighed."""


@dataclass(frozen=True, eq=False)
class WeightedQuery:
    """The terms of a query with their weights; shared with later searches for the same query."""

    terms: QueryTerms
    vector: SparseVector  # empty if no term is known
    documents: DocumentWeighting  # by which chunks are to be scored
    mean_length: float  # of those that count
    conditions: Conditions | None = None  # that hits must meet

    @classmethod
    def of(cls, terms: QueryTerms, context: QueryContext, conditions: Conditions | None = None) -> WeightedQuery:
        """Write terms as a vector."""
        return cls(terms, terms.vector(), context.documents, context.corpus.mean_length, conditions)


class QueryContext(NamedTuple):
    """Statistics and encoder for the queries of one call: no answer mixes two moments."""

    view: StatisticsView
    counted: Scope  # the chunks whose N and df count
    encoder: QueryEncoder
    corpus: CorpusCounts  # of these chunks
    documents: DocumentWeighting  # that their mean length and the search ask for


class QueryWeigher:
    """Weigh queries, the last ones only once."""

    def __init__(self, store: Store, live: LiveStatistics, documents: DocumentEncoder, config: LiveConfig) -> None:
        self._store = store
        self._live = live
        self._analyzer = documents.analyzer
        self._documents = documents.weighting
        self._config = config
        self.expanders = Expanders(self._analyzer, live.vocabulary)
        self._memo: QueryMemo[WeightedQuery] = QueryMemo()
        self._contexts: QueryMemo[QueryContext] = QueryMemo(MAX_PARTS)
        self._parts: QueryMemo[CorpusCounts] = QueryMemo(MAX_PARTS)

    def context_for(self, scope: Scope, options: SearchOptions) -> QueryContext:
        """Return the context of the queries of a search."""
        return self._context(_counted_scope(scope, options), options)

    def context_of(self, counted: Scope) -> QueryContext:
        """Return the context of words that are weighed by the statistics of some chunks."""
        return self._context(counted, {})

    def prepare(self, context: QueryContext, query: Query) -> WeightedQuery:
        """Weigh a query, unless that has just been done; expansions are not kept, which depend on the vocabulary."""
        is_plain = context.encoder.expander is self.expanders.plain and not query.has_prefix
        if not is_plain or len(str(query)) > MAX_KEPT:
            return self._weigh_anew(context, query)
        return self._memo.get((query, context.encoder), context.view, lambda: self._weigh_anew(context, query))

    def _context(self, counted: Scope, options: SearchOptions) -> QueryContext:
        view, asked = self._live.current(counted.namespaces), options.get("weighting")
        own = _learned(self._config.weighting(view), view)
        weighting = (own if asked is None else asked.over(own)).without_stored(self._documents)
        expander = self.expanders.make(options.get("expansion"), self._config.of(view).expansion)
        self.require_learned(view, weighting)
        encoder = QueryEncoder(self._analyzer, weighting, view.ids, expander, {}, view.term_k1)

        def count() -> QueryContext:
            corpus = self._count(view, counted)
            documents = weighting.of_documents(self._documents, corpus.mean_length, view.term_k1)
            return QueryContext(view, counted, encoder, corpus, documents)

        is_plain = expander is self.expanders.plain
        return self._contexts.get((weighting, _key_of(counted)), view, count) if is_plain else count()

    def require_learned(self, view: StatisticsView, weighting: QueryWeighting) -> None:
        """Refuse a k1 of each term, and G(1), where none was learned."""
        if view.term_k1 is not None or not weighting.needs_learning:
            return
        asked, name, advice = weighting.needs_learning, self._store.name, self._live.how_to_learn_k1
        raise ParameterError(f"{asked} needs a k1 of each term, and {name} has none: {advice}")

    def _count(self, view: StatisticsView, counted: Scope) -> CorpusCounts:
        """Return N and df of some chunks; those of a filter are counted, unless that was done for this view."""
        corpus = view.statistics.of(counted.namespaces)
        if counted.where is None:
            return corpus
        return self._parts.get(
            _key_of(counted), view, lambda: count_part(self._store, counted, corpus, self._live.events)
        )

    def _weigh_anew(self, context: QueryContext, query: Query) -> WeightedQuery:
        numerals = (context.encoder.expander or self.expanders.plain).expansion.numerals
        conditions = Conditions.of(query, self._analyzer, context.encoder.ids, numerals=numerals)
        return WeightedQuery.of(context.encoder.terms(query, context.corpus), context, conditions)


def _learned(own: QueryWeighting, view: StatisticsView) -> QueryWeighting:
    """Leave out what an index goes by and was not learned, as after an erasure or in a part: no search has asked."""
    if view.term_k1 is not None or not own.needs_learning:
        return own
    idf = DEFAULT_WEIGHTING.idf if own.idf == "adpt" else own.idf
    return replace(own, k1=None if own.has_k1_of_terms else own.k1, idf=idf)


def _key_of(counted: Scope) -> Hashable:
    return counted.namespaces if counted.where is None else repr(counted)  # 1 == True, and the filters differ


def _counted_scope(scope: Scope, options: SearchOptions) -> Scope:
    """Return the chunks whose N and df count."""
    part = options.get("statistics")
    return Scope(statistics_filter(part), None if part == "all" else scope.namespaces)
