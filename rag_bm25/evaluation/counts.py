"""Scores without an index: the corpus is analysed once, and any parameters are then tried on the counts.

What an index would answer is computed by the very formulas that it uses, in the precision in which it stores them, so
a search for good parameters needs no index for each of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from rag_bm25.analysis import AnalyzerConfig
from rag_bm25.document_encoder import term_frequencies
from rag_bm25.evaluation.running import DEPTH
from rag_bm25.query_encoder import QueryEncoder
from rag_bm25.sparse import SparseBatch
from rag_bm25.statistics import Contribution, CorpusStatistics
from rag_bm25.term_k1 import term_k1_estimator
from rag_bm25.terms import NO_TERMS_ID, num_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from rag_bm25.analysis import TextAnalyzer
    from rag_bm25.config import IndexConfig
    from rag_bm25.document_encoder import LengthUnit
    from rag_bm25.evaluation.running import Run
    from rag_bm25.similarity import DocumentWeighting, QueryWeighting
    from rag_bm25.sparse import SparseVector

__all__ = ["CorpusCounts", "CountsCache", "OfflineScorer"]

BATCH = 5_000

AnalyzerKey: TypeAlias = "AnalyzerConfig | TextAnalyzer"


class _Numbers(dict[str, int]):
    """Number terms from 1 in the order of their coming, so that no two collide and postings are an array."""

    def __missing__(self, term: str) -> int:
        self[term] = number = len(self) + 1
        return number


class _KnownNumbers(dict[str, int]):
    """Numbers of known terms; all others share the one that no chunk has."""

    def __missing__(self, term: str) -> int:
        return NO_TERMS_ID


@dataclass(frozen=True, eq=False)
class CorpusCounts:
    """What analysis leaves of a corpus: how often each term is in each document, and how long the documents are.

    Parameters
    ----------
    documents : list of str, shape (n_documents,)
        Their ids, sorted: hits of one score are in this order.
    tf : SparseBatch
        A row per document: term number -> tf.
    lengths : dict of str to ndarray of int64, shape (n_documents,)
        Lengths in each unit, ``characters`` and ``terms``, of which bigrams do not count.
    numbers : mapping of str to int
        Term -> its number, from 1; 0 for terms that no document has.

    Examples
    --------
    >>> counts = CorpusCounts.of({"d2": "to be or not to be", "d1": "to do"}, str.split)
    >>> counts.documents, counts.lengths["terms"].tolist(), counts.mean_length("characters")
    (['d1', 'd2'], [2, 6], 11.5)
    """

    documents: list[str]
    tf: SparseBatch
    lengths: dict[LengthUnit, NDArray[np.int64]]
    numbers: Mapping[str, int]

    @classmethod
    def of(
        cls, corpus: Mapping[str, str], analyzer: TextAnalyzer, progress: Callable[[int], object] = lambda _: None
    ) -> CorpusCounts:
        """Analyse a corpus.

        Parameters
        ----------
        corpus : mapping of str to str
            Document id -> text.
        analyzer : callable of str to list of str
            Text -> tokens.
        progress : callable of int
            Called from time to time with the number of documents analysed so far.

        Returns
        -------
        CorpusCounts
            Its memory is about 12 bytes for each distinct term of each document.
        """
        documents = sorted(corpus)
        numbers = _Numbers()
        parts: list[SparseBatch] = []
        terms: list[int] = []
        for batch in _batches(documents):
            tokens = [analyzer(corpus[id_]) for id_ in batch]
            parts.append(term_frequencies(tokens, numbers))
            terms += map(num_words, tokens)
            progress(len(terms))
        characters = [len(corpus[id_]) for id_ in documents]
        lengths: dict[LengthUnit, NDArray[np.int64]] = {
            "characters": np.array(characters, np.int64),
            "terms": np.array(terms, np.int64),
        }
        return cls(documents, _stacked(parts), lengths, _KnownNumbers(numbers))

    def mean_length(self, unit: LengthUnit) -> float:
        """Return the mean length of the documents, at least 1.0.

        Parameters
        ----------
        unit : {"characters", "terms"}
            What to count.

        Returns
        -------
        float
            As an index measures it.
        """
        return max(1.0, float(self.lengths[unit].mean())) if self.documents else 1.0

    @cached_property
    def statistics(self) -> CorpusStatistics:
        """N and df, as an index of the corpus has them; its lengths are counted in characters."""
        ids, df = np.unique(self.tf.ids, return_counts=True)
        total = int(self.lengths["characters"].sum())
        statistics = CorpusStatistics()
        statistics.add(Contribution(len(self.documents), total, ids, df.astype(np.int64)))
        return statistics

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """Which document each entry of `tf` belongs to, shape (nnz,)."""
        return np.repeat(np.arange(len(self.documents)), np.diff(self.tf.indptr))

    @cached_property
    def by_term(self) -> NDArray[np.int64]:
        """The entries of `tf` ordered by term, and by document within a term, shape (nnz,)."""
        return np.argsort(self.tf.ids, kind="stable")

    @cached_property
    def term_starts(self) -> NDArray[np.int64]:
        """Where the entries of each term number begin in that order, and where the last ones end."""
        return np.concatenate(([0], np.cumsum(np.bincount(self.tf.ids))))


class OfflineScorer:
    """Answer queries from counts, as an index with the same parameters would.

    Document weights and query weights are rounded to float32, as they are stored and sent; products are summed in
    float64 and rounded at the end.

    Parameters
    ----------
    counts : CorpusCounts
        Of the corpus, analysed with the analyzer of `config`.
    config : IndexConfig
        The parameters.
    encoded : dict of str to SparseVector, optional
        Vectors of queries that were encoded before, with the query's side of `config`; more are added.

    Examples
    --------
    >>> from rag_bm25 import IndexConfig
    >>> config = IndexConfig(chunk_size=11.5, idf="lucene", analyzer=str.split)
    >>> counts = CorpusCounts.of({"d1": "to do", "d2": "to be or not to be"}, config.build_analyzer())
    >>> {id_: round(score, 4) for id_, score in OfflineScorer(counts, config).search("to be").items()}
    {'d2': 0.4234, 'd1': 0.0978}
    """

    def __init__(
        self, counts: CorpusCounts, config: IndexConfig, encoded: dict[str, SparseVector] | None = None
    ) -> None:
        self._counts = counts
        self._encoded = {} if encoded is None else encoded
        self._encoder = QueryEncoder(config.build_analyzer(), config.query_weighting(), counts.numbers)
        lengths = counts.lengths[config.length_unit][counts.rows]
        weights = _document_weights(config.document_weighting(), counts, lengths).astype(np.float32)
        self._documents = counts.rows[counts.by_term]
        self._weights = weights[counts.by_term]

    def search(self, query: str, k: int = DEPTH) -> dict[str, float]:
        """Return the documents with the greatest scores.

        Parameters
        ----------
        query : str
            Any text.
        k : int
            How many at most, > 0.

        Returns
        -------
        dict of str to float
            Document id -> score, best first, and by id where scores are equal.
        """
        if query not in self._encoded:
            self._encoded[query] = self._encoder.encode(query, self._counts.statistics)
        sums = np.zeros(len(self._counts.documents))
        for term, weight in self._encoded[query].to_dict().items():
            entries = slice(*self._counts.term_starts[term : term + 2])
            sums[self._documents[entries]] += self._weights[entries] * np.float64(weight)
        scores = sums.astype(np.float32)
        best = _best(scores, k)
        documents = map(self._counts.documents.__getitem__, best.tolist())
        return dict(zip(documents, scores[best].tolist(), strict=True))

    def search_queries(self, queries: Mapping[str, str]) -> Run:
        """Ask every query for its first 100 documents.

        Parameters
        ----------
        queries : mapping of str to str
            Query id -> text.

        Returns
        -------
        dict of str to dict of str to float
            Query id -> document id -> score, best first.
        """
        return {id_: self.search(text) for id_, text in queries.items()}


def _document_weights(
    weighting: DocumentWeighting, counts: CorpusCounts, lengths: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the weight of each entry, with a k1 for each term where the weighting has one."""
    tf, estimator = counts.tf, term_k1_estimator(weighting.form)
    if estimator is None:
        return weighting.weights(tf.values, lengths)
    estimator.add(tf.ids, weighting.frequencies(tf.values, lengths))
    term_k1 = estimator.table(len(counts.documents))
    return weighting.weights(tf.values, lengths, term_k1.get_many(tf.ids, weighting.k1))


class CountsCache:
    """Counts of one corpus for several analyzers, each made when it is first asked for, and the vectors of queries.

    Parameters
    ----------
    corpus : mapping of str to str
        Document id -> text.
    progress : callable of int
        Called while a corpus is analysed, with the number of documents done so far.

    Examples
    --------
    >>> from rag_bm25 import AnalyzerConfig, IndexConfig
    >>> cache = CountsCache({"d1": "running"})
    >>> exact = AnalyzerConfig(query_segmentation="exact")
    >>> cache.counts(IndexConfig(500)) is cache.counts(IndexConfig(500, analyzer=exact))
    True
    """

    def __init__(self, corpus: Mapping[str, str], progress: Callable[[int], object] = lambda _: None) -> None:
        self._corpus = corpus
        self._progress = progress
        self._counts: dict[AnalyzerKey, CorpusCounts] = {}
        self._encoded: dict[tuple[AnalyzerKey, QueryWeighting], dict[str, SparseVector]] = {}

    def counts(self, config: IndexConfig) -> CorpusCounts:
        """Return the counts for the analyzer of a config.

        Parameters
        ----------
        config : IndexConfig
            How queries are cut, and everything else than the analyzer, makes no difference.

        Returns
        -------
        CorpusCounts
            The same object each time.
        """
        key = _document_side(config.analyzer)
        if key not in self._counts:
            self._counts[key] = CorpusCounts.of(self._corpus, config.build_analyzer(), self._progress)
        return self._counts[key]

    def scorer(self, config: IndexConfig) -> OfflineScorer:
        """Return what answers queries with some parameters.

        Parameters
        ----------
        config : IndexConfig
            The parameters.

        Returns
        -------
        OfflineScorer
            Over the corpus.
        """
        encoded = self._encoded.setdefault((config.analyzer, config.query_weighting()), {})
        return OfflineScorer(self.counts(config), config, encoded)


def _document_side(analyzer: AnalyzerKey) -> AnalyzerKey:
    """Return the settings with what concerns queries alone set to one value."""
    return replace(analyzer, query_segmentation="search") if isinstance(analyzer, AnalyzerConfig) else analyzer


def _best(scores: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """Return the places of the k greatest scores above 0, of equal ones the first."""
    found = np.flatnonzero(scores)
    if len(found) > k:
        least = np.partition(scores[found], len(found) - k)[len(found) - k]
        found = found[scores[found] >= least]
    return found[np.argsort(-scores[found], kind="stable")][:k]


def _stacked(parts: list[SparseBatch]) -> SparseBatch:
    """Lay batches of rows end to end."""
    if not parts:
        return SparseBatch(np.zeros(1, np.int64), np.empty(0, np.uint32), np.empty(0, np.float32))
    sizes = np.concatenate([np.diff(part.indptr) for part in parts])
    return SparseBatch(
        np.concatenate(([0], np.cumsum(sizes))),
        np.concatenate([part.ids for part in parts]),
        np.concatenate([part.values for part in parts]),
    )


def _batches(ids: list[str]) -> Iterator[list[str]]:
    iterator = iter(ids)
    while batch := list(islice(iterator, BATCH)):
        yield batch
