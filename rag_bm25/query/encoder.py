"""Weigh queries by the statistics of now."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import compress
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rag_bm25.analysis.numbers import is_article
from rag_bm25.query.expansion import Expander
from rag_bm25.query.query import Query
from rag_bm25.query.terms import PLAIN_SOURCE, QueryTerm, QueryTerms, RelevanceCounts, TermOrigin
from rag_bm25.vectors.terms import BIGRAMS, CHARACTERS, WORDS, channel_of, is_cjk, is_word_bigram
from rag_bm25.weighting.idf import idf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from rag_bm25.analysis import TextAnalyzer
    from rag_bm25.query.query import QueryLike
    from rag_bm25.query.spelling import DfLookup
    from rag_bm25.query.terms import GroupWords
    from rag_bm25.statistics.corpus import CorpusCounts
    from rag_bm25.vectors.sparse import SparseVector
    from rag_bm25.weighting.query import QueryWeighting
    from rag_bm25.weighting.term_k1 import TermK1


MAX_KEPT = 65_536
MIN_DF_OF_CHUNK = 2  # a term that only the chunk itself has finds nothing else

ARTICLE_WEIGHT = 6.0  # measured: below 5, the name of the law decides, and above 8, the article of any law comes first

_LATIN, _WORD_BIGRAM, _CJK, _CJK_BIGRAM, _CHARACTER, _ARTICLE = range(6)  # kinds of terms
_WORD_OF = (_LATIN, _LATIN, _CJK, _CJK, _CJK, _ARTICLE)  # bigrams of a phrase have the weight of words
_CHANNEL_OF = (WORDS, BIGRAMS, WORDS, BIGRAMS, CHARACTERS, WORDS)


class TermFacts(NamedTuple):
    """Id, df, IDF and kind of a term; independent of the query."""

    id: int
    df: int
    idf: float  # 0 for unknown terms
    kind: int


@dataclass(frozen=True, eq=False)
class QueryEncoder:
    """Turn queries into vectors of IDF weights."""

    analyzer: TextAnalyzer
    weighting: QueryWeighting
    ids: Mapping[str, int]  # of every term, as the vocabulary has it
    expander: Expander | None = None  # by default, nothing is added to queries
    kept: dict[str, TermFacts] | None = None  # of terms, where all queries are weighed by the same statistics
    learned: TermK1 | None = None  # with G(1) of terms, which `idf="adpt"` needs

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
        dfs, weight = self.df_lookup(statistics), self.weighting.question_word_weight
        expanded = expander.expand(Query.of(query), dfs)
        known = self._known([*expanded.own, *expanded.questions], statistics)
        expanded.additions.update(expander.pairs(expanded, known, dfs))
        wanted = [*expanded.own_terms(), *expanded.added_terms(self.weighting, partial(self._weight_of, statistics))]
        if weight and expanded.questions:
            terms = {term.term: None for term in wanted}
            if self._known(list(terms), statistics):  # question words find no chunk by themselves
                wanted += [term for term in expanded.question_terms(weight) if term.term not in terms]
        return wanted, partial(expanded.groups, self.ids, self.analyzer)

    def _known(self, terms: Sequence[str], statistics: CorpusCounts) -> set[str]:
        """Return the terms that chunks have."""
        return {term for term, facts in zip(terms, self._look_up(terms, statistics), strict=True) if facts.df}

    def weigh(
        self,
        wanted: Sequence[QueryTerm],
        statistics: CorpusCounts,
        relevant: Sequence[SparseVector] | None = None,
        group_words: GroupWords = tuple,
    ) -> QueryTerms:
        """Weigh distinct terms: boost times repetition times IDF, which counts `relevant` chunks apart."""
        facts = self._look_up([term for term, _, _ in wanted], statistics)
        factored = self._factored_sources(wanted, [known.kind for known in facts])
        if not all(factored):  # by a weight of 0
            wanted, facts = list(compress(wanted, factored)), list(compress(facts, factored))
        sources = list(filter(None, factored))
        terms = [term for term, _, _ in wanted]
        ids = np.array([known.id for known in facts], np.uint32)
        qtf = np.array([repeats for _, repeats, _ in wanted], np.int64)
        df = np.array([known.df for known in facts], np.int64)
        idfs = np.array([known.idf for known in facts], np.float64)
        boost = np.array([source.boost for source in sources], np.float64)
        relevance = None
        if relevant:
            num_chunks = statistics.num_chunks
            relevance = RelevanceCounts.of(relevant, ids, df, num_chunks)
            kinds, informed = [known.kind for known in facts], relevance.equivalent_df(df, num_chunks)
            idfs = self._idfs(kinds, df, informed, statistics)  # in place of G(1)
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
            QueryTerm(term, 1, TermOrigin("in the chunk", (("weight in the chunk, as stored", weight),)))
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

    def _look_up(self, terms: Sequence[str], statistics: CorpusCounts) -> list[TermFacts]:
        """Return what is known of each term; a dict of those of the last queries is faster than the counts."""
        kept = {} if self.kept is None else self.kept
        facts = {term: known for term in terms if (known := kept.get(term))}
        if missing := [term for term in terms if term not in facts]:
            ids, kinds = self._ids_of(missing), list(map(_kind_of, missing))
            df = statistics.df(ids)
            idfs = self._idfs(kinds, df, df, statistics, self._gains(ids))
            counted = dict(zip(missing, map(TermFacts, ids.tolist(), df.tolist(), idfs.tolist(), kinds), strict=True))
            facts.update(counted)
            if len(kept) > MAX_KEPT:
                kept.clear()
            kept.update(counted)
        return [facts[term] for term in terms]

    def _idfs(
        self,
        kinds: Sequence[int],
        df: NDArray[np.int64],
        informed: NDArray[np.int64] | NDArray[np.float64],  # df with relevance information
        statistics: CorpusCounts,
        gains: NDArray[np.float64] | None = None,
    ) -> NDArray[np.float64]:
        """Return the IDF of each term, 0 for unknown ones."""
        known, values = df > 0, np.zeros(len(kinds))
        if not known.any():
            return values
        channels = np.array([_CHANNEL_OF[kind] for kind in kinds])[known]
        name, epsilon, collection = self.weighting.idf, self.weighting.epsilon, statistics.idf_inputs
        gain = math.nan if gains is None else gains[known]
        values[known] = idf(name, informed[known], collection, epsilon, channels, gain)
        return values

    def _gains(self, ids: NDArray[np.uint32]) -> NDArray[np.float64]:
        """Return G(1) of each term, NaN where it was not learned."""
        return np.full(ids.shape, math.nan) if self.learned is None else self.learned.get("gain", ids)

    def word_weights(
        self, words: Sequence[str], df: NDArray[np.int64], statistics: CorpusCounts
    ) -> NDArray[np.float64]:
        """Return the weight of words that occur once in a query, 0 for those that no chunk has."""
        weights, known = np.zeros(len(df)), df > 0
        once = np.ones(np.count_nonzero(known), np.int64)
        gains = self._gains(self._ids_of(words))[known]
        weights[known] = self.weighting.weights(once, df[known], statistics.idf_inputs, gain=gains)
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
        ids = self._ids_of(distinct)
        df = np.maximum(statistics.df(ids), 1)
        once, channels = np.ones(len(distinct), np.int64), list(map(channel_of, distinct))
        weights = self.weighting.weights(once, df, statistics.idf_inputs, channels, self._gains(ids))
        return math.fsum(weights.tolist())

    def _factored_sources(self, wanted: Sequence[QueryTerm], kinds: list[int]) -> list[TermOrigin | None]:
        """Return the source of each term with the factors of its kind; None if one of these is 0."""
        plain = self._plain_sources[_CJK_BIGRAM in kinds]
        return [
            plain[kind] if source is PLAIN_SOURCE else _with_factors(source, plain[_kind_within(source, kind)])
            for (_, _, source), kind in zip(wanted, kinds, strict=True)
        ]

    @cached_property
    def _plain_sources(self) -> tuple[tuple[TermOrigin | None, ...], tuple[TermOrigin | None, ...]]:
        """The source of plain terms of each kind, in queries without bigrams of characters and with them."""
        weighting = self.weighting
        bigram = _plain_source(("bigram_weight, of bigrams of characters", weighting.bigram_weight))
        character = _plain_source(("character_weight, of single characters", weighting.character_weight))
        of_word_bigrams = ("word_bigram_weight, of bigrams of words", weighting.word_bigram_weight)
        article = _plain_source(("article_weight, of the number of an article", ARTICLE_WEIGHT))
        alone = PLAIN_SOURCE, _plain_source(of_word_bigrams), PLAIN_SOURCE, bigram, character, article
        if weighting.latin_weight == 1 or not weighting.bigram_weight:
            return alone, alone
        of_latin = ("latin_weight, of letters and numbers beside Chinese", weighting.latin_weight)
        return alone, (_plain_source(of_latin), _plain_source(of_word_bigrams, of_latin), *alone[2:])


def _plain_source(*factors: tuple[str, float]) -> TermOrigin | None:
    return TermOrigin(factors=factors) if all(value for _, value in factors) else None


def _with_factors(source: TermOrigin, of_kind: TermOrigin | None) -> TermOrigin | None:
    return of_kind and replace(source, factors=(*source.factors, *of_kind.factors))


def _kind_within(source: TermOrigin, kind: int) -> int:
    """Return the kind by which a term with a source is weighed."""
    if source.within_chinese and kind == _LATIN:
        kind = _CJK
    return _WORD_OF[kind] if source.of_phrase else kind


def _kind_of(term: str) -> int:
    """Return the kind of a term, by which queries weigh it."""
    channel = channel_of(term)
    if channel == WORDS:
        return (_ARTICLE if is_article(term) else _CJK) if is_cjk(term) else _LATIN
    if channel == CHARACTERS:
        return _CHARACTER
    return _WORD_BIGRAM if is_word_bigram(term) else _CJK_BIGRAM
