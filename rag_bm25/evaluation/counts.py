"""Scores without an index: the corpus is analysed once, and any parameters are then tried on the counts.

What an index would answer is computed by the very formulas that it uses, in the precision in which it stores them, so
a search for good parameters needs no index for each of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from rag_bm25.analysis import AnalyzerConfig
from rag_bm25.document_encoder import term_frequencies
from rag_bm25.evaluation.datasets import BeirDataset
from rag_bm25.evaluation.running import DEPTH
from rag_bm25.query_encoder import QueryEncoder
from rag_bm25.sparse import SparseBatch
from rag_bm25.statistics import Contribution, CorpusStatistics
from rag_bm25.term_k1 import term_k1_estimator
from rag_bm25.terms import NO_TERMS_ID, num_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

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
FieldNames: TypeAlias = "frozenset[str]"


class _Numbers(dict[str, int]):
    """Number terms from 1 in the order of their coming, so that no two collide and postings are an array."""

    def __missing__(self, term: str) -> int:
        self[term] = number = len(self) + 1
        return number


class _KnownNumbers(dict[str, int]):
    """Numbers of known terms; all others share the one that no chunk has."""

    def __missing__(self, term: str) -> int:
        return NO_TERMS_ID


class _Counter:
    """Count the terms of texts, batch by batch; those that are missing are empty."""

    def __init__(self, texts: Mapping[str, str], analyzer: TextAnalyzer, numbers: Mapping[str, int]) -> None:
        self.parts: list[SparseBatch] = []
        self._texts = texts
        self._analyzer = analyzer
        self._numbers = numbers
        self._characters: list[int] = []
        self._terms: list[int] = []

    def add(self, ids: Sequence[str]) -> None:
        texts = [self._texts.get(id_, "") for id_ in ids]
        tokens = [self._analyzer(text) for text in texts]
        self.parts.append(term_frequencies(tokens, self._numbers))
        self._characters += map(len, texts)
        self._terms += map(num_words, tokens)

    def lengths(self) -> dict[LengthUnit, NDArray[np.int64]]:
        return {"characters": np.array(self._characters, np.int64), "terms": np.array(self._terms, np.int64)}


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
    fields : mapping of str to CorpusCounts
        Name of each field that counts beside the text -> its counts. The entries of all `tf` are then the same, with
        a tf of 0 where the document has the term elsewhere.

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
    fields: Mapping[str, CorpusCounts] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        corpus: Mapping[str, str],
        analyzer: TextAnalyzer,
        progress: Callable[[int], object] = lambda _: None,
        fields: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
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
        fields : mapping of str to mapping of str to str
            Name of each field beside the text -> document id -> its text.

        Returns
        -------
        CorpusCounts
            Its memory is about 12 bytes for each distinct term of each document.
        """
        documents, numbers = sorted(corpus), _Numbers()
        counters = [_Counter(texts, analyzer, numbers) for texts in (corpus, *fields.values())]
        done = 0
        for batch in _batches(documents):
            for counter in counters:
                counter.add(batch)
            done += len(batch)
            progress(done)
        tfs = _aligned([_stacked(counter.parts) for counter in counters])
        known = _KnownNumbers(numbers)
        text, *others = (
            cls(documents, tf, counter.lengths(), known) for tf, counter in zip(tfs, counters, strict=True)
        )
        return replace(text, fields=dict(zip(fields, others, strict=True)))

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
        weights = _document_weights(config.document_weighting(), counts, config.length_unit).astype(np.float32)
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


def _document_weights(weighting: DocumentWeighting, counts: CorpusCounts, unit: LengthUnit) -> NDArray[np.float64]:
    """Return the weight of each entry, with a k1 for each term where the weighting has one."""
    if weighting.fields:
        frequencies = _frequencies(weighting, counts, unit)
        return weighting.combined_weights(frequencies, _term_k1(weighting, counts, unit))
    lengths = counts.lengths[unit][counts.rows]
    return weighting.weights(counts.tf.values, lengths, _term_k1(weighting, counts, unit))


def _term_k1(weighting: DocumentWeighting, counts: CorpusCounts, unit: LengthUnit) -> NDArray[np.float64] | None:
    """Return the k1 of each entry, None where all terms have the same."""
    estimator = term_k1_estimator(weighting.form)
    if estimator is None:
        return None
    ids = counts.tf.ids
    estimator.add(ids, _frequencies(weighting, counts, unit))
    return estimator.table(len(counts.documents)).get_many(ids, weighting.k1)


def _frequencies(weighting: DocumentWeighting, counts: CorpusCounts, unit: LengthUnit) -> NDArray[np.float64]:
    """Return the weighted and normalised frequency of each entry, added up over text and fields."""
    frequencies = weighting.frequencies(counts.tf.values, counts.lengths[unit][counts.rows])
    for name in sorted(weighting.fields):  # in one order, since sums of floats depend on it
        of = counts.fields[name]
        frequencies += weighting.frequencies(of.tf.values, of.lengths[unit][counts.rows], name)
    return frequencies


class CountsCache:
    """Counts of one corpus for several analyzers, each made when it is first asked for, and the vectors of queries.

    Parameters
    ----------
    corpus : BeirDataset, or mapping of str to str
        Documents whose titles may be a field, or document id -> text.
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

    def __init__(
        self, corpus: BeirDataset | Mapping[str, str], progress: Callable[[int], object] = lambda _: None
    ) -> None:
        self._dataset = corpus if isinstance(corpus, BeirDataset) else BeirDataset(dict(corpus), {}, {})
        self._progress = progress
        self._counts: dict[tuple[AnalyzerKey, FieldNames], CorpusCounts] = {}
        self._encoded: dict[tuple[AnalyzerKey, FieldNames, QueryWeighting], dict[str, SparseVector]] = {}

    def counts(self, config: IndexConfig) -> CorpusCounts:
        """Return the counts for the analyzer and the fields of a config.

        Parameters
        ----------
        config : IndexConfig
            How queries are cut, the weights of fields, and everything else than analyzer and fields, makes no
            difference.

        Returns
        -------
        CorpusCounts
            The same object each time.

        Raises
        ------
        ParameterError
            The config has a field that the documents do not have.
        """
        key = _document_side(config.analyzer), frozenset(config.fields)
        if key not in self._counts:
            texts, fields = self._dataset.documents(config.fields)
            self._counts[key] = CorpusCounts.of(texts, config.build_analyzer(), self._progress, fields)
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
        key = config.analyzer, frozenset(config.fields), config.query_weighting()
        encoded = self._encoded.setdefault(key, {})
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


def _aligned(counted: list[SparseBatch]) -> list[SparseBatch]:
    """Give batches of the same rows the same entries, 0 where there was none."""
    if len(counted) == 1:
        return counted
    every = np.unique(np.concatenate([tf.keys for tf in counted]))
    aligned = []
    for tf in counted:
        values = np.zeros(len(every), np.float32)
        values[np.searchsorted(every, tf.keys)] = tf.values
        aligned.append(SparseBatch.from_keys(every, values, len(tf)))
    return aligned


def _batches(ids: list[str]) -> Iterator[list[str]]:
    iterator = iter(ids)
    while batch := list(islice(iterator, BATCH)):
        yield batch
