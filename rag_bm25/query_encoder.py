"""The query's side: text and the statistics of now -> weights."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rag_bm25.analysis import query_tokens
from rag_bm25.sparse import EMPTY, SparseVector
from rag_bm25.terms import is_bigram

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from rag_bm25.analysis import TextAnalyzer
    from rag_bm25.similarity import QueryWeighting
    from rag_bm25.statistics import CorpusStatistics

__all__ = ["Origin", "QueryEncoder", "QueryTerm", "QueryTerms"]


@dataclass(frozen=True)
class Origin:
    """Why a term is in a query, and what multiplies its weight because of that.

    Parameters
    ----------
    reason : str
        As ``explain`` shows it, such as ``synonym of 'contract'``; empty for a term of the query itself.
    factors : tuple of (str, float)
        Factors of the weight, each with its name, all > 0.

    Examples
    --------
    >>> Origin("synonym of 'contract'", (("weight of the synonym", 0.8), ("boost in the query", 2.0))).boost
    1.6
    """

    reason: str = ""
    factors: tuple[tuple[str, float], ...] = ()

    @property
    def boost(self) -> float:
        """Product of the factors, 1.0 without any."""
        return math.prod(value for _, value in self.factors)


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
    origin: Origin = Origin()


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
        Product of the factors of each term's origin, > 0.
    weights : ndarray of float64, shape (n_terms,)
        Query weights, boost included; 0 for unknown terms, otherwise > 0.
    origins : list of Origin
        Why each term is there.
    """

    terms: list[str]
    ids: NDArray[np.uint32]
    qtf: NDArray[np.int64]
    df: NDArray[np.int64]
    boost: NDArray[np.float64]
    weights: NDArray[np.float64]
    origins: list[Origin]


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

    def encode(self, query: str, statistics: CorpusStatistics) -> SparseVector:
        """Encode a query; terms that no chunk has are left out.

        Parameters
        ----------
        query : str
            Any text.
        statistics : CorpusStatistics
            The corpus now.

        Returns
        -------
        SparseVector
            All weights > 0; empty where no term is known.
        """
        terms = self.terms(query, statistics)
        weights: dict[int, float] = {}
        for id_, weight in zip(terms.ids.tolist(), terms.weights.tolist(), strict=True):
            if weight > 0:
                weights[id_] = weights.get(id_, 0.0) + weight
        return SparseVector.from_dict(weights) if weights else EMPTY

    def terms(self, query: str, statistics: CorpusStatistics) -> QueryTerms:
        """Weigh the terms of a query one by one, as ``explain`` shows them.

        Parameters
        ----------
        query : str
            Any text.
        statistics : CorpusStatistics
            The corpus now.

        Returns
        -------
        QueryTerms
            Also the unknown ones; no bigrams where their weight is 0.
        """
        counts = Counter(query_tokens(self.analyzer, query))
        return self.weigh((QueryTerm(term, qtf) for term, qtf in counts.items()), statistics)

    def weigh(self, wanted: Iterable[QueryTerm], statistics: CorpusStatistics) -> QueryTerms:
        """Weigh terms, from whatever origin: boost times repetition times IDF; of bigrams, their weight is a boost.

        Parameters
        ----------
        wanted : iterable of QueryTerm
            Each term once.
        statistics : CorpusStatistics
            The corpus now.

        Returns
        -------
        QueryTerms
            In the order of `wanted`, without bigrams where their weight is 0.
        """
        wanted = list(self._in_channels(wanted))
        terms = [asked.term for asked in wanted]
        ids = np.fromiter(map(self.ids.__getitem__, terms), np.uint32, len(terms))
        qtf = np.fromiter((asked.qtf for asked in wanted), np.int64, len(terms))
        boost = np.fromiter((asked.origin.boost for asked in wanted), np.float64, len(terms))
        df = statistics.df(ids)
        weights = np.zeros(len(terms))
        known = df > 0
        weights[known] = boost[known] * self.weighting.weights(qtf[known], df[known], statistics.figures)
        return QueryTerms(terms, ids, qtf, df, boost, weights, [asked.origin for asked in wanted])

    def _in_channels(self, wanted: Iterable[QueryTerm]) -> Iterator[QueryTerm]:
        """Boost bigrams by the weight of their channel, or leave them out."""
        weight = self.weighting.bigram_weight
        for asked in wanted:
            if not is_bigram(asked.term):
                yield asked
            elif weight > 0:
                factors = (*asked.origin.factors, ("bigram_weight, of the channel of bigrams", weight))
                yield replace(asked, origin=replace(asked.origin, factors=factors))
