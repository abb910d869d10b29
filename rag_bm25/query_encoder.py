"""The query's side: text and the statistics of now -> weights."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rag_bm25.analysis import query_tokens
from rag_bm25.sparse import EMPTY, SparseVector
from rag_bm25.terms import is_bigram

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from rag_bm25.analysis import TextAnalyzer
    from rag_bm25.similarity import QueryWeighting
    from rag_bm25.statistics import CorpusStatistics

__all__ = ["QueryEncoder", "QueryTerms"]


@dataclass(frozen=True, eq=False)
class QueryTerms:
    """The distinct terms of a query with what weighs them, unknown ones included.

    Parameters
    ----------
    terms : list of str
        Distinct terms, in the order of their first occurrence.
    ids : ndarray of uint32, shape (n_terms,)
        Their ids.
    qtf : ndarray of int64, shape (n_terms,)
        Occurrences in the query.
    df : ndarray of int64, shape (n_terms,)
        Chunks with the term, 0 for unknown terms.
    weights : ndarray of float64, shape (n_terms,)
        Query weights, 0 for unknown terms, otherwise > 0.
    """

    terms: list[str]
    ids: NDArray[np.uint32]
    qtf: NDArray[np.int64]
    df: NDArray[np.int64]
    weights: NDArray[np.float64]


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
        counts = Counter(self._tokens(query))
        terms = list(counts)
        ids = np.fromiter(map(self.ids.__getitem__, terms), np.uint32, len(terms))
        qtf = np.fromiter(counts.values(), np.int64, len(terms))
        df = statistics.df(ids)
        weights = np.zeros(len(terms))
        known = df > 0
        weights[known] = self.weighting.weights(qtf[known], df[known], statistics.figures)
        weights[list(map(is_bigram, terms))] *= self.weighting.bigram_weight
        return QueryTerms(terms, ids, qtf, df, weights)

    def _tokens(self, query: str) -> list[str]:
        """Return the tokens of the channels that have a weight."""
        tokens = query_tokens(self.analyzer, query)
        return tokens if self.weighting.bigram_weight else [token for token in tokens if not is_bigram(token)]
