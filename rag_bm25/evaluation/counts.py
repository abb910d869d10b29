"""Scores without an index: the corpus is analysed once, and parameters are then tried on the counts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias, get_args

import numpy as np

from rag_bm25.analysis import AnalyzerConfig
from rag_bm25.analysis.config import without_query_side
from rag_bm25.documents.encoder import term_frequencies
from rag_bm25.documents.lengths import LengthUnit, chunk_length
from rag_bm25.documents.term_k1 import term_k1_estimator
from rag_bm25.evaluation.datasets import BeirDataset
from rag_bm25.evaluation.running import DEPTH
from rag_bm25.events import report_progress
from rag_bm25.query.encoder import QueryEncoder
from rag_bm25.query.evidence import Evidence, FeedbackChunk
from rag_bm25.query.learning import apply_feedback
from rag_bm25.statistics.corpus import Contribution, CorpusStatistics
from rag_bm25.vectors.sparse import SparseBatch, SparseVector
from rag_bm25.vectors.terms import NO_TERMS_ID, is_bigram

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from rag_bm25.analysis import TextAnalyzer
    from rag_bm25.evaluation.running import Run
    from rag_bm25.events import Progress
    from rag_bm25.index.config import IndexConfig
    from rag_bm25.query.feedback import RM3, Rocchio
    from rag_bm25.weighting.document import DocumentWeighting
    from rag_bm25.weighting.query import QueryWeighting

BATCH = 5_000

AnalyzerKey: TypeAlias = "AnalyzerConfig | TextAnalyzer"
FieldNames: TypeAlias = "frozenset[str]"


class _Numbers(dict[str, int]):
    """Terms numbered from 1 as they come, so that no two collide and postings are an array."""

    def __missing__(self, term: str) -> int:
        self[term] = number = len(self) + 1
        return number


class _KnownNumbers(dict[str, int]):
    """Numbers of known terms; all others share the number that no chunk has."""

    def __missing__(self, term: str) -> int:
        return NO_TERMS_ID


class _Counter:
    """Counts of the terms of texts, batch by batch; missing texts are empty."""

    def __init__(self, texts: Mapping[str, str], analyzer: TextAnalyzer, numbers: Mapping[str, int]) -> None:
        self.parts: list[SparseBatch] = []
        self.lengths: dict[LengthUnit, list[int]] = {unit: [] for unit in get_args(LengthUnit)}
        self._texts = texts
        self._analyzer = analyzer
        self._numbers = numbers

    def add(self, ids: Sequence[str]) -> None:
        texts = [self._texts.get(id_, "") for id_ in ids]
        tokens = [self._analyzer(text) for text in texts]
        self.parts.append(term_frequencies(tokens, self._numbers))
        for unit, lengths in self.lengths.items():
            lengths += [chunk_length(text, found, unit) for text, found in zip(texts, tokens, strict=True)]


@dataclass(frozen=True, eq=False)
class CorpusCounts:
    """Term frequencies and lengths of the documents of a corpus.

    Parameters
    ----------
    documents : list of str, shape (n_documents,)
        Their ids, sorted: hits with equal scores are in this order.
    tf : SparseBatch
        A row per document: term number -> tf.
    lengths : dict of str to ndarray of int64, shape (n_documents,)
        Lengths by unit; bigrams do not count.
    numbers : mapping of str to int
        Term -> its number, from 1; 0 for terms that no document has.
    fields : mapping of str to CorpusCounts
        Name of each field beside the text -> its counts. All `tf` then have the same entries, with a tf of 0 where
        the document has the term elsewhere.

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
        progress: Callable[[Progress], None] | None = None,
        fields: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    ) -> CorpusCounts:
        """Analyse a corpus.

        Parameters
        ----------
        corpus : mapping of str to str
            Document id -> text.
        analyzer : callable of str to list of str
            Text -> tokens.
        progress : callable of Progress to None, optional
            Called periodically with ``"documents"``, those that are analysed.
        fields : mapping of str to mapping of str to str
            Name of each field beside the text -> document id -> its text.

        Returns
        -------
        CorpusCounts
            About 12 bytes for each distinct term of each document.
        """
        documents, numbers = sorted(corpus), _Numbers()
        counters = [_Counter(texts, analyzer, numbers) for texts in (corpus, *fields.values())]
        for start in range(0, len(documents), BATCH):
            batch = documents[start : start + BATCH]
            for counter in counters:
                counter.add(batch)
            report_progress(progress, "documents", start + len(batch), len(documents))
        tfs = _align([_stack(counter.parts) for counter in counters])
        lengths = [{unit: np.array(of, np.int64) for unit, of in counter.lengths.items()} for counter in counters]
        known = _KnownNumbers(numbers)
        text, *others = (cls(documents, tf, of, known) for tf, of in zip(tfs, lengths, strict=True))
        return replace(text, fields=dict(zip(fields, others, strict=True)))

    def mean_length(self, unit: LengthUnit) -> float:
        """Return the mean length of the documents.

        Parameters
        ----------
        unit
            As for :func:`mean_length`.

        Returns
        -------
        float
            At least 1.0.
        """
        return max(1.0, float(self.lengths[unit].mean())) if self.documents else 1.0

    @cached_property
    def statistics(self) -> CorpusStatistics:
        """N and df of the corpus; lengths are in characters."""
        ids, df = np.unique(self.tf.ids, return_counts=True)
        total = int(self.lengths["characters"].sum())
        statistics = CorpusStatistics()
        marks = np.zeros(len(self.numbers) + 1, np.bool_)
        marks[[number for term, number in self.numbers.items() if is_bigram(term)]] = True
        statistics.add(Contribution(len(self.documents), total, ids, df.astype(np.int64), marks[ids]))
        return statistics

    @cached_property
    def terms(self) -> dict[int, str]:
        """Each term by its number."""
        return {number: term for term, number in self.numbers.items()}

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """Row of the document of each entry of `tf`, shape (nnz,)."""
        return np.repeat(np.arange(len(self.documents)), np.diff(self.tf.indptr))

    @cached_property
    def by_term(self) -> NDArray[np.int64]:
        """Places of the entries of `tf`, sorted by term, then by document, shape (nnz,)."""
        return np.argsort(self.tf.ids, kind="stable")

    @cached_property
    def term_starts(self) -> NDArray[np.int64]:
        """Start of the entries of each term number in :attr:`by_term`, and the end of the last ones."""
        return np.concatenate(([0], np.cumsum(np.bincount(self.tf.ids))))


class OfflineScorer:
    """Answer queries from counts, as an index with the same parameters would.

    Document weights and query weights are rounded to float32, as they are stored and sent; products are summed in
    float64 and rounded at the end.

    Parameters
    ----------
    counts : CorpusCounts
        Counts of the corpus, made with the analyzer of `config`.
    config : IndexConfig
        The parameters.
    encoded : dict of str to SparseVector, optional
        Cache of the vectors of queries, encoded with the query's side of `config`; new ones are added.

    Examples
    --------
    >>> from rag_bm25 import IndexConfig
    >>> config = IndexConfig(11.5, "characters", idf="lucene", analyzer=str.split)
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
        self._entries = _document_weights(config.document_weighting(), counts, config.length_unit).astype(np.float32)
        self._documents = counts.rows[counts.by_term]
        self._weights = self._entries[counts.by_term]

    def search(self, query: str, k: int = DEPTH, feedback: RM3 | Rocchio | None = None) -> dict[str, float]:
        """Return the documents with the highest scores.

        Parameters
        ----------
        query : str
            Any text.
        k : int
            Maximum number of documents, > 0.
        feedback : RM3 or Rocchio, optional
            A method of relevance feedback; it learns from the best documents of a first search.

        Returns
        -------
        dict of str to float
            Document id -> score, best first, and by id where scores are equal.
        """
        if query not in self._encoded:
            self._encoded[query] = self._encoder.encode(query, self._counts.statistics)
        vector = self._encoded[query]
        if feedback is not None:
            top, scores = self._score(vector, feedback.fb_docs)
            vector = apply_feedback(feedback, query, self._evidence(top, scores)).vector()
        top, scores = self._score(vector, k)
        return dict(zip(map(self._counts.documents.__getitem__, top.tolist()), scores.tolist(), strict=True))

    def _score(self, vector: SparseVector, k: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return the rows of the best documents, and their scores."""
        sums = np.zeros(len(self._counts.documents))
        for term, weight in vector.to_dict().items():
            entries = slice(*self._counts.term_starts[term : term + 2])
            sums[self._documents[entries]] += self._weights[entries] * np.float64(weight)
        scores = sums.astype(np.float32)
        top = _top_k(scores, k)
        return top, scores[top]

    def _evidence(self, rows: NDArray[np.int64], scores: NDArray[np.float32]) -> Evidence:
        """Return documents as chunks that a query learns from."""
        ids, starts = self._counts.tf.ids, self._counts.tf.indptr
        entries = [slice(starts[row], starts[row + 1]) for row in rows.tolist()]
        relevant = [
            FeedbackChunk(self._counts.documents[row], SparseVector(ids[of], self._entries[of]), score)
            for row, of, score in zip(rows.tolist(), entries, scores.tolist(), strict=True)
        ]
        return Evidence(relevant, [], self._encoder, self._counts.statistics, self._counts.terms.get)

    def search_queries(self, queries: Mapping[str, str]) -> Run:
        """Return the top 100 documents of each query.

        Parameters
        ----------
        queries
            As for :func:`search_queries`.

        Returns
        -------
        dict of str to dict of str to float
            Query id -> document id -> score, best first.
        """
        return {id_: self.search(text) for id_, text in queries.items()}


def _document_weights(weighting: DocumentWeighting, counts: CorpusCounts, unit: LengthUnit) -> NDArray[np.float64]:
    """Return the weight of each entry."""
    term_k1 = None  # of each entry, if it is not the same for all terms
    mean_length = float(counts.lengths[unit].mean()) if counts.documents else 0.0
    if estimator := term_k1_estimator(weighting, mean_length):
        estimator.add(counts.tf.ids, _frequencies(weighting, counts, unit))
        term_k1 = estimator.table(len(counts.documents)).get_many(counts.tf.ids, weighting.k1)
    if weighting.fields:
        return weighting.combined_weights(_frequencies(weighting, counts, unit), term_k1)
    return weighting.weights(counts.tf.values, counts.lengths[unit][counts.rows], term_k1)


def _frequencies(weighting: DocumentWeighting, counts: CorpusCounts, unit: LengthUnit) -> NDArray[np.float64]:
    """Return the weighted and normalised frequency of each entry, summed over text and fields."""
    frequencies = weighting.frequencies(counts.tf.values, counts.lengths[unit][counts.rows])
    for name in sorted(weighting.fields):  # in one order, since sums of floats depend on it
        of = counts.fields[name]
        frequencies += weighting.frequencies(of.tf.values, of.lengths[unit][counts.rows], name)
    return frequencies


class CountsCache:
    """Cache of the counts of one corpus for several analyzers, and of the vectors of queries.

    Parameters
    ----------
    corpus : BeirDataset, or mapping of str to str
        Documents whose titles may be a field, or document id -> text.
    progress
        As for :meth:`CorpusCounts.of`.
    """

    def __init__(
        self, corpus: BeirDataset | Mapping[str, str], progress: Callable[[Progress], None] | None = None
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
            Only its analyzer, apart from what concerns queries, and the names of its fields matter.

        Returns
        -------
        CorpusCounts
            The same object each time.

        Raises
        ------
        ParameterError
            The documents do not have a field of the config.
        """
        analyzer = config.analyzer
        if isinstance(analyzer, AnalyzerConfig):
            analyzer = without_query_side(analyzer)
        key = analyzer, frozenset(config.fields)
        if key not in self._counts:
            texts, fields = self._dataset.documents(config.fields)
            self._counts[key] = CorpusCounts.of(texts, config.build_analyzer(), self._progress, fields)
        return self._counts[key]

    def scorer(self, config: IndexConfig) -> OfflineScorer:
        """Return a scorer with some parameters.

        Parameters
        ----------
        config : IndexConfig
            The parameters.

        Returns
        -------
        OfflineScorer
            A scorer of the corpus.
        """
        key = config.analyzer, frozenset(config.fields), config.query_weighting()
        return OfflineScorer(self.counts(config), config, self._encoded.setdefault(key, {}))


def _top_k(scores: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """Return the places of the k highest scores above 0, of equal ones the first."""
    found = np.flatnonzero(scores)
    if len(found) > k:
        least = np.partition(scores[found], len(found) - k)[len(found) - k]
        found = found[scores[found] >= least]
    return found[np.argsort(-scores[found], kind="stable")][:k]


def _stack(parts: list[SparseBatch]) -> SparseBatch:
    """Concatenate the rows of batches."""
    if not parts:
        return SparseBatch(np.zeros(1, np.int64), np.empty(0, np.uint32), np.empty(0, np.float32))
    sizes = np.concatenate([np.diff(part.indptr) for part in parts])
    return SparseBatch(
        np.concatenate(([0], np.cumsum(sizes))),
        np.concatenate([part.ids for part in parts]),
        np.concatenate([part.values for part in parts]),
    )


def _align(counted: list[SparseBatch]) -> list[SparseBatch]:
    """Give batches of the same rows the same entries, 0 where one had none."""
    if len(counted) == 1:
        return counted
    every = np.unique(np.concatenate([tf.keys for tf in counted]))
    aligned = []
    for tf in counted:
        values = np.zeros(len(every), np.float32)
        values[np.searchsorted(every, tf.keys)] = tf.values
        aligned.append(SparseBatch.from_keys(every, values, len(tf)))
    return aligned
