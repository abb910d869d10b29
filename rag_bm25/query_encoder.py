"""The query's side: text and the statistics of now -> weights."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rag_bm25.expansion import Expander
from rag_bm25.query import Query
from rag_bm25.similarity import equivalent_df, relevance_weight
from rag_bm25.sparse import EMPTY, SparseVector
from rag_bm25.terms import is_bigram, words_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from rag_bm25.analysis import TextAnalyzer
    from rag_bm25.expansion import Addition, ExpandedQuery
    from rag_bm25.query import QueryLike
    from rag_bm25.similarity import QueryWeighting
    from rag_bm25.statistics import CorpusStatistics

__all__ = [
    "Alternative",
    "ChunkShare",
    "FeedbackFactor",
    "Origin",
    "QueryEncoder",
    "QueryTerm",
    "QueryTerms",
    "RelevanceCounts",
]


@dataclass(frozen=True)
class ChunkShare:
    """How much of a chunk's vector feedback adds to a query.

    Parameters
    ----------
    chunk : str
        Id of the chunk.
    share : float
        Factor of its stored weights; negative for an irrelevant chunk.
    formula : str
        What the share is.
    parts : tuple of (str, float)
        The numbers of the formula, each with its name.
    """

    chunk: str
    share: float
    formula: str = ""
    parts: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class FeedbackFactor:
    """What feedback multiplies the weight of a term by.

    Parameters
    ----------
    keep : float
        What remains of the term's own weight, >= 0.
    keep_name : str
        Name of `keep`.
    own : float
        Weight of the term in the query without feedback and without IDF; 0 for a term that is not in it.
    shares : tuple of (ChunkShare, float)
        The chunks that have the term, each with its stored weight there.

    Examples
    --------
    >>> FeedbackFactor(0.8, "alpha", 2.0, ((ChunkShare("1", 0.5), 0.4),)).value
    0.9
    """

    keep: float
    keep_name: str
    own: float
    shares: tuple[tuple[ChunkShare, float], ...]

    @property
    def addition(self) -> float:
        """What the chunks add to the term's own weight."""
        return math.fsum(chunk.share * stored for chunk, stored in self.shares)

    @property
    def value(self) -> float:
        """``(keep * own + addition) / own``, or ``addition`` for a term that is not in the query; at least 0."""
        return max(0.0, self.keep + self.addition / self.own if self.own else self.addition)


@dataclass(frozen=True)
class Origin:
    """Why a term is in a query, and what multiplies its weight because of that.

    Parameters
    ----------
    reason : str
        As ``explain`` shows it, such as ``synonym of 'contract'``; empty for a term of the query itself.
    factors : tuple of (str, float)
        Factors of the weight, each with its name, all > 0.
    feedback : FeedbackFactor, optional
        One more factor, where there was feedback.

    Examples
    --------
    >>> Origin("synonym of 'contract'", (("weight of the synonym", 0.8), ("boost in the query", 2.0))).boost
    1.6
    """

    reason: str = ""
    factors: tuple[tuple[str, float], ...] = ()
    feedback: FeedbackFactor | None = None

    @property
    def boost(self) -> float:
        """Product of the factors, 1.0 without any."""
        product = math.prod(value for _, value in self.factors)
        return product if self.feedback is None else product * self.feedback.value


_AS_IT_IS = Origin()


@dataclass(frozen=True)
class QueryTerm:
    """A term that a query asks for.

    Parameters
    ----------
    term : str
        The term.
    qtf : int
        Occurrences in the query, > 0.
    origin : Origin
        Why it is asked for.
    """

    term: str
    qtf: int = 1
    origin: Origin = _AS_IT_IS


@dataclass(frozen=True)
class Alternative:
    """One way in which a chunk may have some words of a query.

    Parameters
    ----------
    ids : frozenset of int
        The terms that it has to have, all of them.
    stands_for : frozenset of str
        The words of the query.
    """

    ids: frozenset[int]
    stands_for: frozenset[str]


@dataclass(frozen=True, eq=False)
class RelevanceCounts:
    """What is known of relevant chunks.

    Parameters
    ----------
    r : ndarray of int64, shape (n_terms,)
        For each term, how many relevant chunks have it.
    num_relevant : int
        R, the number of relevant chunks.
    """

    r: NDArray[np.int64]
    num_relevant: int

    @classmethod
    def within(cls, r: NDArray[np.int64], num_relevant: int, df: NDArray[np.int64], num_chunks: int) -> RelevanceCounts:
        """Return counts, cut to what the statistics allow, which may be damaged or older than the chunks.

        Parameters
        ----------
        r : ndarray of int64, shape (n_terms,)
            For each term, how many relevant chunks have it.
        num_relevant : int
            How many relevant chunks there are.
        df : ndarray of int64, shape (n_terms,)
            Chunks with the term.
        num_chunks : int
            N.

        Returns
        -------
        RelevanceCounts
            R <= N, and max(0, R - (N - df)) <= r <= min(df, R).
        """
        num_relevant = min(num_relevant, num_chunks)
        least, most = np.maximum(0, num_relevant - (num_chunks - df)), np.minimum(df, num_relevant)
        return cls(np.clip(r, least, most), num_relevant)

    def weights(self, df: NDArray[np.int64], num_chunks: int) -> NDArray[np.float64]:
        """Return the :func:`~rag_bm25.similarity.relevance_weight` of each term.

        Parameters
        ----------
        df : ndarray of int64, shape (n_terms,)
            Chunks with the term.
        num_chunks : int
            N.

        Returns
        -------
        ndarray of float64, shape (n_terms,)
            May be negative.
        """
        return relevance_weight(df, num_chunks, self.r, self.num_relevant)

    def equivalent_df(self, df: NDArray[np.int64], num_chunks: int) -> NDArray[np.float64]:
        """Return the :func:`~rag_bm25.similarity.equivalent_df` of each term, which the IDF is given.

        Parameters
        ----------
        df : ndarray of int64, shape (n_terms,)
            Chunks with the term.
        num_chunks : int
            N.

        Returns
        -------
        ndarray of float64, shape (n_terms,)
            In (-0.5, N + 0.5).
        """
        return equivalent_df(self.weights(df, num_chunks), num_chunks)


@dataclass(frozen=True, eq=False)
class QueryTerms:
    """The distinct terms of a query with what weighs them, unknown ones included.

    Parameters
    ----------
    terms : list of str
        Distinct terms, those of the query in the order of their first occurrence.
    ids : ndarray of uint32, shape (n_terms,)
        Their ids.
    qtf : ndarray of int64, shape (n_terms,)
        Occurrences in the query.
    df : ndarray of int64, shape (n_terms,)
        Chunks with the term, 0 for unknown terms.
    boost : ndarray of float64, shape (n_terms,)
        Product of the factors of each term's origin, > 0; 0 where feedback took the term out.
    weights : ndarray of float64, shape (n_terms,)
        Query weights, boost included; 0 for unknown terms, otherwise > 0 where the boost is.
    origins : list of Origin
        Why each term is there.
    alternatives : tuple of Alternative
        The words of the query, bigrams aside, and what stands for them.
    relevance : RelevanceCounts, optional
        What the IDF was told of relevant chunks.
    """

    terms: list[str]
    ids: NDArray[np.uint32]
    qtf: NDArray[np.int64]
    df: NDArray[np.int64]
    boost: NDArray[np.float64]
    weights: NDArray[np.float64]
    origins: list[Origin]
    alternatives: tuple[Alternative, ...] = ()
    relevance: RelevanceCounts | None = None

    @property
    def words(self) -> frozenset[str]:
        """The distinct words that were asked for, unknown ones included, bigrams and additions not."""
        return frozenset().union(*(alternative.stands_for for alternative in self.alternatives))

    def words_had_by(self, chunk: SparseVector) -> frozenset[str]:
        """Return which of the words a chunk has, itself or by something that was added for them.

        Parameters
        ----------
        chunk : SparseVector
            The stored vector of the chunk.

        Returns
        -------
        frozenset of str
            Some of :attr:`words`.
        """
        ids = set(chunk.ids.tolist())
        return frozenset().union(*(found.stands_for for found in self.alternatives if found.ids <= ids))

    def vector(self) -> SparseVector:
        """Return the weights as a vector; terms that no chunk has are left out.

        Returns
        -------
        SparseVector
            All weights > 0, also as float32; empty where no term is known.
        """
        weights: dict[int, float] = {}
        for id_, weight in zip(self.ids.tolist(), self.weights.tolist(), strict=True):
            if np.float32(weight) > 0:  # feedback and boosts may leave less than float32 can tell from 0
                weights[id_] = weights.get(id_, 0.0) + weight
        return SparseVector.from_dict(weights) if weights else EMPTY


@dataclass(frozen=True)
class QueryEncoder:
    """Turn queries into IDF vectors.

    Parameters
    ----------
    analyzer : callable of str to list of str
        Text -> tokens; its ``query`` method is used where it has one.
    weighting : QueryWeighting
        IDF, saturation of repeated terms, and the weight of bigrams.
    ids : mapping of str to int
        Term -> id for every term.
    expander : Expander, optional
        What adds terms to the query; by default nothing does.

    Examples
    --------
    >>> from rag_bm25.similarity import QueryWeighting
    >>> from rag_bm25.statistics import Contribution, CorpusStatistics
    >>> statistics = CorpusStatistics()
    >>> statistics.add(Contribution.of([SparseVector.from_dict({7: 0.4})], [12]))
    >>> encoder = QueryEncoder(str.split, QueryWeighting(idf="lucene"), {"milvus": 7, "is": 8})
    >>> {id_: round(weight, 4) for id_, weight in encoder.encode("milvus is", statistics).to_dict().items()}
    {7: 0.2877}
    """

    analyzer: TextAnalyzer
    weighting: QueryWeighting
    ids: Mapping[str, int]
    expander: Expander | None = None

    def encode(self, query: QueryLike, statistics: CorpusStatistics) -> SparseVector:
        """Encode a query; terms that no chunk has are left out.

        Parameters
        ----------
        query : str, mapping of str to float, or Query
            Any text, or texts with their boosts.
        statistics : CorpusStatistics
            The corpus now.

        Returns
        -------
        SparseVector
            All weights > 0; empty where no term is known.
        """
        return self.terms(query, statistics).vector()

    def terms(self, query: QueryLike, statistics: CorpusStatistics) -> QueryTerms:
        """Weigh the terms of a query one by one, as ``explain`` shows them.

        Parameters
        ----------
        query : str, mapping of str to float, or Query
            Any text, or texts with their boosts.
        statistics : CorpusStatistics
            The corpus now.

        Returns
        -------
        QueryTerms
            Also the unknown ones; no bigrams where their weight is 0.
        """
        wanted, alternatives = self.wanted(query, statistics)
        return replace(self.weigh(wanted, statistics), alternatives=alternatives)

    def wanted(self, query: QueryLike, statistics: CorpusStatistics) -> tuple[list[QueryTerm], tuple[Alternative, ...]]:
        """Return the terms that a query asks for, without weights.

        Parameters
        ----------
        query : str, mapping of str to float, or Query
            Any text, or texts with their boosts.
        statistics : CorpusStatistics
            The corpus now.

        Returns
        -------
        terms : list of QueryTerm
            Each term once: those of the query in the order of their first occurrence, then what was added to them.
        alternatives : tuple of Alternative
            The words of the query, and what stands for them.
        """
        expander = self.expander or Expander(self.analyzer)
        expanded = expander.expand(Query.of(query), self.dfs_in(statistics))
        own = [QueryTerm(term, len(boosts), _own_origin(boosts)) for term, boosts in expanded.own.items()]
        return [*own, *self._heaviest(expanded, statistics)], tuple(self._alternatives(expanded))

    def weigh(
        self,
        wanted: Iterable[QueryTerm],
        statistics: CorpusStatistics,
        relevant: Sequence[SparseVector] | None = None,
    ) -> QueryTerms:
        """Weigh terms, from whatever origin: boost times repetition times IDF; of bigrams, their weight is a boost.

        Parameters
        ----------
        wanted : iterable of QueryTerm
            Each term once.
        statistics : CorpusStatistics
            The corpus now.
        relevant : sequence of SparseVector, optional
            Document vectors of chunks that are known to be relevant: the IDF is given their counts, see
            :func:`rag_bm25.similarity.relevance_weight`.

        Returns
        -------
        QueryTerms
            In the order of `wanted`, without bigrams where their weight is 0.
        """
        wanted = list(self._in_channels(wanted))
        terms = [asked.term for asked in wanted]
        ids = self._ids_of(terms)
        qtf = np.fromiter((asked.qtf for asked in wanted), np.int64, len(terms))
        boost = np.fromiter((asked.origin.boost for asked in wanted), np.float64, len(terms))
        df, corpus = statistics.df(ids), statistics.figures
        weights = np.zeros(len(terms))
        known = df > 0
        relevance = _counts(ids, df, corpus.num_chunks, relevant) if relevant else None
        informed = df if relevance is None else relevance.equivalent_df(df, corpus.num_chunks)
        weights[known] = boost[known] * self.weighting.weights(qtf[known], informed[known], corpus)
        origins = [asked.origin for asked in wanted]
        return QueryTerms(terms, ids, qtf, df, boost, weights, origins, relevance=relevance)

    def dfs_in(self, statistics: CorpusStatistics) -> Callable[[Sequence[str]], NDArray[np.int64]]:
        """Return what tells the df of terms.

        Parameters
        ----------
        statistics : CorpusStatistics
            The corpus now.

        Returns
        -------
        callable of sequence of str to ndarray of int64
            df of each term, 0 for unknown ones.
        """
        return lambda terms: statistics.df(self._ids_of(terms))

    def _ids_of(self, terms: Sequence[str]) -> NDArray[np.uint32]:
        return np.fromiter(map(self.ids.__getitem__, terms), np.uint32, len(terms))

    def _heaviest(self, expanded: ExpandedQuery, statistics: CorpusStatistics) -> Iterable[QueryTerm]:
        """Return the added terms that the query does not have itself, each for the reason that weighs most."""
        heaviest: dict[str, tuple[float, QueryTerm]] = {}
        for addition, qtf in expanded.additions.items():
            origin = Origin(addition.reason, (*addition.factors, *self._share(addition, statistics)))
            boost = origin.boost * float(self.weighting.term_weights(qtf))
            for term in dict.fromkeys(addition.terms):
                if term not in expanded.own and boost > heaviest.get(term, (0.0,))[0]:
                    heaviest[term] = boost, QueryTerm(term, qtf, origin)
        return [term for _, term in heaviest.values()]

    def _share(self, addition: Addition, statistics: CorpusStatistics) -> Iterator[tuple[str, float]]:
        """Yield the factor that keeps an addition from weighing more than what it is like."""
        most, own = self._mass(addition.like, statistics), self._mass(addition.terms, statistics)
        if own > most:
            added, like = (" ".join(map(repr, words_in(terms))) for terms in (addition.terms, addition.like))
            yield f"share, so that {added} weighs as {like}: {most:.6g} / {own:.6g}", most / own

    def _mass(self, terms: Iterable[str], statistics: CorpusStatistics) -> float:
        """Return what words weigh together, each asked for once; unknown ones count as if one chunk had them."""
        if not statistics.num_chunks:
            return 0.0
        words = list(dict.fromkeys(words_in(terms)))
        df = np.maximum(statistics.df(self._ids_of(words)), 1)
        return math.fsum(self.weighting.weights(np.ones(len(words), np.int64), df, statistics.figures).tolist())

    def _alternatives(self, expanded: ExpandedQuery) -> Iterator[Alternative]:
        """Yield the words of the query, and what was added for them."""
        for term in words_in(expanded.own):
            yield Alternative(frozenset([self.ids[term]]), frozenset([term]))
        for addition in expanded.additions:
            yield Alternative(frozenset(map(self.ids.__getitem__, words_in(addition.terms))), addition.stands_for)

    def _in_channels(self, wanted: Iterable[QueryTerm]) -> Iterator[QueryTerm]:
        """Boost bigrams by the weight of their channel, or leave them out."""
        weight = self.weighting.bigram_weight
        before, after = _AS_IT_IS, self._in_channel_of_bigrams(_AS_IT_IS)
        for asked in wanted:
            if not is_bigram(asked.term):
                yield asked
            elif weight > 0:
                if asked.origin is not before:  # neighbours share an origin, mostly
                    before, after = asked.origin, self._in_channel_of_bigrams(asked.origin)
                yield QueryTerm(asked.term, asked.qtf, after)

    def _in_channel_of_bigrams(self, origin: Origin) -> Origin:
        factor = ("bigram_weight, of the channel of bigrams", self.weighting.bigram_weight)
        return replace(origin, factors=(*origin.factors, factor))


def _counts(
    ids: NDArray[np.uint32], df: NDArray[np.int64], num_chunks: int, relevant: Sequence[SparseVector]
) -> RelevanceCounts:
    """Count the relevant chunks that have each term."""
    held, counts = np.unique(np.concatenate([vector.ids for vector in relevant]), return_counts=True)
    at = np.searchsorted(held, ids).clip(max=len(held) - 1)
    r = np.where(held[at] == ids, counts[at], 0)
    return RelevanceCounts.within(r, len(relevant), df, num_chunks)


def _own_origin(boosts: list[float]) -> Origin:
    """Return the origin of a term of the query, from the boost of each of its occurrences."""
    if set(boosts) == {1.0}:
        return _AS_IT_IS
    same = min(boosts) == max(boosts)
    name = "boost in the query" if same else "boost in the query, mean of its occurrences"
    return Origin(factors=((name, math.fsum(boosts) / len(boosts)),))
