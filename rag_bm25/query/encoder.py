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
from rag_bm25.vectors.terms import CHARACTERS, WORDS, channel_of, is_cjk, is_word_bigram
from rag_bm25.weighting.idf import idf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from rag_bm25.analysis import TextAnalyzer
    from rag_bm25.query.additions import ExpandedQuery
    from rag_bm25.query.query import QueryLike
    from rag_bm25.query.spelling import DfLookup
    from rag_bm25.query.terms import GroupWords
    from rag_bm25.statistics.corpus import CorpusCounts
    from rag_bm25.vectors.sparse import SparseVector
    from rag_bm25.weighting.query import QueryWeighting


MAX_KEPT = 65_536
MIN_DF_OF_CHUNK = 2  # a term that only the chunk itself has finds nothing else

Factors: TypeAlias = tuple[tuple[str, float], ...]
"""Factors of a term, each with its name."""

_LATIN, _WORD_BIGRAM, _CJK, _CJK_BIGRAM, _CHARACTER = range(5)  # kinds of terms
_WORD_OF = (_LATIN, _LATIN, _CJK, _CJK, _CJK)  # bigrams of a phrase have the weight of words


class TermFacts(NamedTuple):
    """Id, df and IDF of a term; independent of the query."""

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

    def encode(self, query: QueryLike, statistics: CorpusCounts) -> SparseVector:
        """Encode a query; terms that no chunk has are left out."""
        return self.terms(query, statistics).vector()

    def terms(self, query: QueryLike, statistics: CorpusCounts) -> QueryTerms:
        """Weigh the terms of a query one by one, as `explain` shows them."""
        wanted, group_words = self.expand(query, statistics)
        return self.weigh(wanted, statistics, group_words=group_words)

    def expand(self, query: QueryLike, statistics: CorpusCounts) -> tuple[list[QueryTerm], GroupWords]:
        """Collect the terms of a query, each once and without weights: its own, then those that are added."""
        expander = self.expander or Expander(self.analyzer)
        expanded = expander.expand(Query.of(query), self.df_lookup(statistics))
        added = expanded.added_terms(self.weighting, partial(self._weight_of, statistics))
        terms = [*expanded.own_terms(), *added]
        return [*terms, *self._question_terms(expanded, terms, statistics)], partial(expanded.groups, self.ids)

    def _question_terms(
        self, expanded: ExpandedQuery, others: Sequence[QueryTerm], statistics: CorpusCounts
    ) -> list[QueryTerm]:
        """Return the terms of question words that are not among the others; none finds a chunk by itself."""
        weight, terms = self.weighting.question_word_weight, {term.term: None for term in others}
        if not (weight and expanded.questions and any(self._look_up([term], statistics)[1][0] for term in terms)):
            return []
        return [term for term in expanded.question_terms(weight) if term.term not in terms]

    def weigh(
        self,
        wanted: Sequence[QueryTerm],
        statistics: CorpusCounts,
        relevant: Sequence[SparseVector] | None = None,
        group_words: GroupWords = tuple,
    ) -> QueryTerms:
        """Weigh distinct terms: boost times repetition times IDF, which counts `relevant` chunks apart."""
        boosted = self._boost_kinds(wanted)
        terms = [term for term, _, _ in boosted]
        sources = [source for _, _, source in boosted]
        ids, df, idfs = self._look_up(terms, statistics)
        qtf = np.array([repeats for _, repeats, _ in boosted], np.int64)
        boost = np.array([source.boost for source in sources], np.float64)
        relevance = None
        if relevant:
            num_chunks = statistics.num_chunks
            relevance = RelevanceCounts.of(relevant, ids, df, num_chunks)
            idfs = self._idfs(terms, df, relevance.equivalent_df(df, num_chunks), statistics)
        weights = boost * (self.weighting.term_weights(qtf) * idfs)
        return QueryTerms(terms, ids, qtf, df, boost, weights, sources, group_words, relevance)

    def weigh_chunk(
        self,
        chunk: SparseVector,
        statistics: CorpusCounts,
        term_of: Callable[[int], str | None],  # the term of an id, as the vocabulary has it
        max_terms: int,
    ) -> QueryTerms:
        """Weigh the best terms of a chunk by stored weight times IDF: a query for chunks that resemble it.

        That is what Lucene's MoreLikeThis does.
        """
        common = statistics.df(chunk.ids) >= MIN_DF_OF_CHUNK
        wanted = [
            QueryTerm(term, 1, TermSource("in the chunk", (("weight in the chunk, as stored", weight),)))
            for id_, weight in zip(chunk.ids[common].tolist(), chunk.values[common].tolist(), strict=True)
            if (term := term_of(id_)) is not None and weight > 0
        ]
        weighed = self.weigh(wanted, statistics)
        best = np.sort(np.lexsort((weighed.ids, -weighed.weights))[:max_terms])
        return replace(
            weighed,
            terms=[weighed.terms[at] for at in best],
            sources=[weighed.sources[at] for at in best],
            **{name: getattr(weighed, name)[best] for name in ("ids", "qtf", "df", "boost", "weights")},
        )

    def _look_up(
        self, terms: Sequence[str], statistics: CorpusCounts
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
        statistics: CorpusCounts,
    ) -> NDArray[np.float64]:
        """Return the IDF of each term, 0 for unknown ones."""
        known, values = df > 0, np.zeros(len(terms))
        if not known.any():
            return values
        channels = np.array([channel_of(term) for term in terms])[known]
        name, epsilon, collection = self.weighting.idf, self.weighting.epsilon, statistics.idf_inputs
        values[known] = idf(name, informed[known], collection, epsilon, channels)
        return values

    def word_weights(self, df: NDArray[np.int64], statistics: CorpusCounts) -> NDArray[np.float64]:
        """Return the weight of words that occur once in a query, 0 for those that no chunk has."""
        weights, known = np.zeros(len(df)), df > 0
        once = np.ones(np.count_nonzero(known), np.int64)
        weights[known] = self.weighting.weights(once, df[known], statistics.idf_inputs)
        return weights

    def df_lookup(self, statistics: CorpusCounts) -> DfLookup:
        """Return a function that looks up the document frequency of each word."""
        return lambda words: statistics.df(self._ids_of(words))

    def _ids_of(self, terms: Sequence[str]) -> NDArray[np.uint32]:
        return np.array([self.ids[term] for term in terms], np.uint32)

    def _weight_of(self, statistics: CorpusCounts, keys: Iterable[str]) -> float:
        """Return how much distinct terms weigh together; unknown ones count as if one chunk had them."""
        if not statistics.num_chunks:
            return 0.0
        distinct = list(dict.fromkeys(keys))
        df = np.maximum(statistics.df(self._ids_of(distinct)), 1)
        once, channels = np.ones(len(distinct), np.int64), list(map(channel_of, distinct))
        return math.fsum(self.weighting.weights(once, df, statistics.idf_inputs, channels).tolist())

    def _boost_kinds(self, wanted: Sequence[QueryTerm]) -> list[QueryTerm]:
        """Give each term the factors of its kind; leave out those with a factor of 0."""
        kinds = [_kind_of(term, source) for term, _, source in wanted]
        boosts = self._kind_boosts[_CJK_BIGRAM in kinds]
        boosted: list[QueryTerm] = []
        for kind, term in zip(kinds, wanted, strict=True):
            boost = boosts[_WORD_OF[kind] if term.source.of_phrase else kind]
            if boost is None:
                boosted.append(term)
            elif boost.is_positive:
                boosted.append(QueryTerm(term.term, term.qtf, boost.of(term.source)))
        return boosted

    @cached_property
    def _kind_boosts(self) -> tuple[tuple[_KindBoost | None, ...], tuple[_KindBoost | None, ...]]:
        """The boost of each kind of term, in queries without bigrams of characters and with them."""
        weighting = self.weighting
        of_cjk_bigrams = ("bigram_weight, of bigrams of characters", weighting.bigram_weight)
        of_characters = ("character_weight, of single characters", weighting.character_weight)
        of_word_bigrams = ("word_bigram_weight, of bigrams of words", weighting.word_bigram_weight)
        plain = None, _KindBoost((of_word_bigrams,)), None, _KindBoost((of_cjk_bigrams,)), _KindBoost((of_characters,))
        if weighting.latin_weight == 1 or not weighting.bigram_weight:
            return plain, plain
        of_latin = ("latin_weight, of letters and numbers beside Chinese", weighting.latin_weight)
        return plain, (_KindBoost((of_latin,)), _KindBoost((of_word_bigrams, of_latin)), *plain[2:])


class _KindBoost:
    """Factors of all terms of a kind."""

    def __init__(self, factors: Factors) -> None:
        self.is_positive = all(factor for _, factor in factors)
        self._factors = factors
        self._plain = TermSource(factors=factors)

    def of(self, source: TermSource) -> TermSource:
        """Return a source with the factors; that of plain terms is one object."""
        return self._plain if source is PLAIN_SOURCE else replace(source, factors=(*source.factors, *self._factors))


def _kind_of(term: str, source: TermSource) -> int:
    """Return the kind of a term, by which queries weigh it."""
    channel = channel_of(term)
    if channel == WORDS:
        return _CJK if source.within_chinese or is_cjk(term) else _LATIN
    if channel == CHARACTERS:
        return _CHARACTER
    return _WORD_BIGRAM if is_word_bigram(term) else _CJK_BIGRAM
