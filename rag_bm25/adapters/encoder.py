"""Both sides of BM25 without a store: texts to vectors, with counts of the texts that were learned."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from rag_bm25.analysis.contract import contract_of
from rag_bm25.documents.checks import check_sequence, check_texts
from rag_bm25.errors import InputError, ParameterError
from rag_bm25.index.opening import check_analyzer
from rag_bm25.index.stored_config import config_from_dict, config_to_dict
from rag_bm25.query.encoder import QueryEncoder
from rag_bm25.query.expanders import Expanders
from rag_bm25.query.explanation import ChunkFacts, QueryFacts
from rag_bm25.query.query import Query
from rag_bm25.query.scores import explain_score
from rag_bm25.query.stop_words import stop_words_in
from rag_bm25.statistics.corpus import Contribution, CountsByNamespace
from rag_bm25.statistics.portable import read_statistics, write_statistics
from rag_bm25.vectors.terms import TermIds, Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from rag_bm25.analysis import TextAnalyzer
    from rag_bm25.index.config import IndexConfig
    from rag_bm25.query.expansion import QueryExpansion
    from rag_bm25.query.query import QueryLike
    from rag_bm25.query.scores import ScoreExplanation
    from rag_bm25.statistics.corpus import CorpusCounts
    from rag_bm25.vectors.sparse import SparseVector
    from rag_bm25.weighting.query import QueryWeighting


class TextEncoder(Protocol):
    """Protocol of encoders: `BM25Encoder` and `BM25Index`."""

    def encode_documents(self, texts: Sequence[str]) -> list[SparseVector]:
        """Encode chunks; nothing is counted.

        Weights are > 0, at most 1 with the weighting ``bm25``; a chunk without terms is ``{0: 1.0}``, since Milvus
        refuses empty vectors.
        """
        ...

    def encode_queries(self, queries: Sequence[str]) -> list[SparseVector]:
        """Encode queries, weighed by the counts; the vector is empty where no term is known."""
        ...


@dataclass(frozen=True)
class _Counts:
    """What queries are weighed by, as of one moment."""

    statistics: CorpusCounts
    ids: TermIds


class BM25Encoder:
    """Encode chunks and queries for a vector store that other software fills.

    A chunk's vector depends on the chunk alone, so encoding counts nothing. Queries are weighed by counts: pass every
    chunk that is stored to :meth:`learn`, once, and every chunk that is deleted to :meth:`forget`. If the config has
    fields, each of these methods, and :meth:`encode_documents`, needs the metadata of the chunks.

    Parameters
    ----------
    config : IndexConfig
        The parameters.

    Examples
    --------
    >>> from rag_bm25 import IndexConfig
    >>> encoder = BM25Encoder(IndexConfig(chunk_size=20))
    >>> chunks = ["Milvus stores vectors.", "jieba cuts words."]
    >>> first, second = encoder.learn(chunks)
    >>> (query,) = encoder.encode_queries(["stored vectors"])
    >>> query.dot(first) > query.dot(second) == 0
    True
    """

    def __init__(self, config: IndexConfig) -> None:
        self.config = config
        self._documents = config.document_encoder()
        self._statistics = CountsByNamespace()
        self._vocabulary = Vocabulary()
        self._expanders = Expanders(self._documents.analyzer, lambda: self._vocabulary)
        self._lock = threading.Lock()

    @property
    def num_chunks(self) -> int:
        """Number of chunks learned and not forgotten, N."""
        return self._statistics.whole.num_chunks

    def fit(self, texts: Sequence[str], metadatas: Sequence[Mapping[str, Any] | None] | None = None) -> BM25Encoder:
        """Forget everything, then learn; the old counts hold until all chunks are learned.

        Parameters
        ----------
        texts, metadatas
            All chunks that are stored, as for :meth:`learn`.

        Returns
        -------
        BM25Encoder
            The encoder itself.
        """
        fitted = BM25Encoder(self.config)
        fitted.learn(texts, metadatas)
        with self._lock:
            self._statistics, self._vocabulary = fitted._statistics, fitted._vocabulary
        return self

    def learn(
        self, texts: Sequence[str], metadatas: Sequence[Mapping[str, Any] | None] | None = None
    ) -> list[SparseVector]:
        """Count chunks, and encode them; learning the same chunk twice counts it twice.

        Parameters
        ----------
        texts, metadatas
            As for :meth:`encode_documents`.

        Returns
        -------
        list of SparseVector
            As :meth:`encode_documents` returns them.
        """
        plain, given = check_texts(texts, metadatas, self.config.fields)
        with self._lock:
            ids = self._vocabulary.stage()
            encoded = self._documents.encode(plain, ids, given)
            self._vocabulary.add(ids.new)
            learned = Contribution.of(encoded.vectors, encoded.lengths.tolist())
            self._statistics.add("", learned.marked(self._vocabulary))
            return list(encoded.vectors)

    def forget(self, texts: Sequence[str], metadatas: Sequence[Mapping[str, Any] | None] | None = None) -> None:
        """Take chunks out of the counts.

        Parameters
        ----------
        texts, metadatas
            Chunks that were learned, as for :meth:`learn`.

        Raises
        ------
        InputError
            A count would fall below zero; nothing was changed.
        """
        plain, given = check_texts(texts, metadatas, self.config.fields)
        with self._lock:
            encoded = self._documents.encode(plain, self._vocabulary.stage(), given)
            gone = Contribution.of(encoded.vectors, encoded.lengths.tolist())
            known = self._statistics.whole
            if gone.num_chunks > known.num_chunks or (known.df(gone.ids) < gone.df).any():
                raise InputError("forget() was given texts that were not learned")
            self._statistics.add("", -gone)

    def encode_documents(
        self, texts: Sequence[str], metadatas: Sequence[Mapping[str, Any] | None] | None = None
    ) -> list[SparseVector]:
        """Encode chunks; nothing is counted.

        Parameters
        ----------
        texts, metadatas
            The chunks' texts, and one mapping for each if the config has fields; None, or a mapping without a field,
            is a chunk without it.

        Returns
        -------
        list of SparseVector
            As of :class:`TextEncoder`.
        """
        plain, given = check_texts(texts, metadatas, self.config.fields)
        return list(self._documents.encode(plain, self._counted().ids, given).vectors)

    def encode_queries(
        self,
        queries: Sequence[QueryLike],
        *,
        weighting: QueryWeighting | None = None,
        expansion: QueryExpansion | None = None,
    ) -> list[SparseVector]:
        """Encode queries, weighed by the counts.

        Parameters
        ----------
        queries : sequence of str, mapping or Query
            Any number, without conditions, which no vector can hold.
        weighting : QueryWeighting, optional
            In place of that of the config.
        expansion : QueryExpansion, optional
            Synonyms and near spellings to search for, too, and how prefixes are completed.

        Returns
        -------
        list of SparseVector
            Weights > 0; empty where no term is known.
        """
        check_sequence("queries", queries, "str")
        parsed, counted = list(map(Query.of, queries)), self._counted()
        weigher = self._weigher(parsed, counted, weighting, expansion)
        return [weigher.encode(query, counted.statistics) for query in parsed]

    def explain(
        self,
        query: QueryLike,
        text: str,
        metadata: Mapping[str, Any] | None = None,
        *,
        weighting: QueryWeighting | None = None,
        expansion: QueryExpansion | None = None,
    ) -> ScoreExplanation:
        """Explain the score of a chunk with this text: the inner product of both vectors.

        Parameters
        ----------
        query
            As for :meth:`encode_queries`.
        text, metadata
            The chunk, as for :meth:`encode_documents`.
        weighting, expansion
            As for :meth:`encode_queries`.

        Returns
        -------
        ScoreExplanation
            As of :meth:`rag_bm25.BM25Index.explain`.
        """
        parsed, counted, given = Query.of(query), self._counted(), metadata or {}
        (vector,) = self.encode_documents([text], [given])
        weigher, encoder = self._weigher([parsed], counted, weighting, expansion), self._documents
        terms, stats = weigher.terms(parsed, counted.statistics), counted.statistics.idf_inputs
        asked = QueryFacts(str(parsed), terms, stop_words_in(encoder.analyzer, parsed, terms), weigher.weighting, stats)
        counts = encoder.count_text(text), encoder.field_counts(given)
        chunk = ChunkFacts("text", *counts, vector, encoder.weighting, encoder.length_unit)
        return explain_score(asked, chunk, namespace="")

    def save(self, path: str | Path) -> None:
        """Write parameters, counts and terms to a file.

        Parameters
        ----------
        path : str or Path
            The file.
        """
        with self._lock:
            config = config_to_dict(self.config, contract_of(self._documents.analyzer))
            write_statistics(path, config, self._statistics.whole.contribution(), self._vocabulary)

    @classmethod
    def load(
        cls, path: str | Path, *, config: IndexConfig | None = None, analyzer: TextAnalyzer | None = None
    ) -> BM25Encoder:
        """Read a file of :meth:`save`.

        Parameters
        ----------
        path : str or Path
            The file.
        config : IndexConfig, optional
            By default the stored one, which it must fit.
        analyzer : callable of str to list of str, optional
            The function that the file was made with, where no `config` names it.

        Raises
        ------
        ConfigMismatchError
            The file was made with another `config`.
        FormatError
            The file is something else, damaged, or of a newer version.
        """
        check_analyzer(analyzer, config)
        stored, total, vocabulary = read_statistics(path)
        encoder = cls(config_from_dict(stored, config, analyzer))
        encoder._vocabulary = vocabulary
        encoder._statistics.add("", total.marked(vocabulary))
        return encoder

    def _counted(self) -> _Counts:
        """Return the counts of now."""
        with self._lock:
            return _Counts(self._statistics.whole, TermIds(self._vocabulary.displaced))

    def _weigher(
        self,
        queries: Sequence[Query],
        counted: _Counts,
        weighting: QueryWeighting | None,
        expansion: QueryExpansion | None,
    ) -> QueryEncoder:
        """Return the encoder of queries; it reads the vocabulary only where a query asks for it."""
        if any(query.has_conditions for query in queries):
            raise ParameterError("must, must_not and phrases are not supported here: a vector cannot express them")
        expander = self._expanders.make(expansion)
        own = self.config.query_weighting()
        weights = own if weighting is None else weighting.over(own)
        if weights.reweighs:
            raise ParameterError("k1, b and length of a query are not supported here: a vector cannot express them")
        return QueryEncoder(self._documents.analyzer, weights, counted.ids, expander)


def document_encoding(encoder: TextEncoder, *, learn: bool) -> Callable[[Sequence[str]], list[SparseVector]]:
    """Return the method that encodes documents, and also counts them if `learn`."""
    if not learn:
        return encoder.encode_documents
    if not isinstance(encoder, BM25Encoder):
        msg = f"learn=True needs a BM25Encoder, got {type(encoder).__name__}, which counts the chunks in Milvus"
        raise ParameterError(msg)
    return encoder.learn
