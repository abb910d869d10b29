"""Both sides of BM25 without a store: texts to vectors, with statistics that are told what to count."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from rag_bm25.analysis import contract_of
from rag_bm25.chunks import check_sequence, check_texts
from rag_bm25.config import IndexConfig, config_from_dict, config_to_dict
from rag_bm25.document_encoder import DocumentEncoder
from rag_bm25.errors import InputError, ParameterError
from rag_bm25.fields import check_field_values
from rag_bm25.portable import read_statistics, write_statistics
from rag_bm25.query_encoder import QueryEncoder
from rag_bm25.statistics import Contribution, NamespaceStatistics
from rag_bm25.terms import TermIds, Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from rag_bm25.document_encoder import EncodedChunks
    from rag_bm25.sparse import SparseVector

__all__ = ["BM25Encoder", "TextEncoder", "document_encoding"]


class TextEncoder(Protocol):
    """What the adapters need: a :class:`BM25Encoder`, an adopted one, or a :class:`rag_bm25.BM25Index`."""

    def encode_documents(self, texts: Sequence[str]) -> list[SparseVector]:
        """Return the vector of each chunk."""
        ...

    def encode_queries(self, queries: Sequence[str]) -> list[SparseVector]:
        """Return the vector of each query."""
        ...


class BM25Encoder:
    """Encode chunks and queries for a vector store that others fill.

    A chunk's vector depends on the chunk alone, so that encoding counts nothing. What is stored must be told to
    :meth:`learn`, once, and what is deleted to :meth:`forget`: queries are weighed by these counts.

    Parameters
    ----------
    config : IndexConfig
        The parameters.

    Examples
    --------
    >>> encoder = BM25Encoder(IndexConfig(chunk_size=20))
    >>> chunks = ["Milvus stores vectors.", "jieba cuts words."]
    >>> encoder.learn(chunks)
    >>> query, (first, second) = encoder.encode_queries(["stored vectors"])[0], encoder.encode_documents(chunks)
    >>> query.dot(first) > query.dot(second) == 0
    True
    """

    def __init__(self, config: IndexConfig) -> None:
        self.config = config
        self._analyzer = config.build_analyzer()
        self._documents = DocumentEncoder(self._analyzer, config.document_weighting(), config.length_unit)
        self._statistics = NamespaceStatistics()
        self._vocabulary = Vocabulary()
        self._lock = threading.Lock()

    @property
    def num_chunks(self) -> int:
        """Number of chunks learned and not forgotten, N."""
        return self._statistics.whole.num_chunks

    def fit(self, texts: Sequence[str], metadatas: Sequence[Mapping[str, Any]] | None = None) -> BM25Encoder:
        """Forget everything, then learn.

        Parameters
        ----------
        texts : sequence of str
            All chunks that are stored.
        metadatas : sequence of mappings, optional
            One for each text, where the config has fields.

        Returns
        -------
        BM25Encoder
            The encoder itself.
        """
        self._checked(texts, metadatas)
        with self._lock:
            self._statistics, self._vocabulary = NamespaceStatistics(), Vocabulary()
        self.learn(texts, metadatas)
        return self

    def learn(self, texts: Sequence[str], metadatas: Sequence[Mapping[str, Any]] | None = None) -> None:
        """Count chunks; learning the same chunk twice counts it twice.

        Parameters
        ----------
        texts : sequence of str
            Chunks that were stored.
        metadatas : sequence of mappings, optional
            One for each text, where the config has fields.
        """
        self.learn_and_encode(texts, metadatas)

    def learn_and_encode(
        self, texts: Sequence[str], metadatas: Sequence[Mapping[str, Any]] | None = None
    ) -> list[SparseVector]:
        """Count chunks, and encode them.

        Parameters
        ----------
        texts : sequence of str
            Chunks that are about to be stored.
        metadatas : sequence of mappings, optional
            One for each text, where the config has fields.

        Returns
        -------
        list of SparseVector
            As of :meth:`encode_documents`.
        """
        texts, metadatas = self._checked(texts, metadatas)
        with self._lock:
            ids = self._vocabulary.stage()
            encoded = self._documents.encode(texts, ids, metadatas)
            self._statistics.add("", _contribution(encoded))
            self._vocabulary.add(ids.new)
            return list(encoded.vectors)

    def forget(self, texts: Sequence[str], metadatas: Sequence[Mapping[str, Any]] | None = None) -> None:
        """Take chunks out of the counts.

        Parameters
        ----------
        texts : sequence of str
            Chunks that were learned, and are not stored any more.
        metadatas : sequence of mappings, optional
            One for each text, where the config has fields.

        Raises
        ------
        InputError
            A term would come to be in fewer than no chunks; nothing was changed.
        """
        texts, metadatas = self._checked(texts, metadatas)
        with self._lock:
            gone = _contribution(self._documents.encode(texts, self._vocabulary.stage(), metadatas))
            known = self._statistics.whole
            if gone.num_chunks > known.num_chunks or (known.df(gone.ids) < gone.df).any():
                msg = "forget got texts that were never learned"
                raise InputError(msg)
            self._statistics.add("", -gone)

    def encode_documents(
        self, texts: Sequence[str], metadatas: Sequence[Mapping[str, Any]] | None = None
    ) -> list[SparseVector]:
        """Encode chunks.

        Parameters
        ----------
        texts : sequence of str
            The chunks.
        metadatas : sequence of mappings, optional
            One for each text, where the config has fields.

        Returns
        -------
        list of SparseVector
            Weights > 0, at most 1 with the weighting ``bm25``; a chunk without terms is ``{0: 1.0}``, since Milvus
            refuses empty vectors.
        """
        texts, metadatas = self._checked(texts, metadatas)
        return list(self._documents.encode(texts, TermIds(self._vocabulary.displaced), metadatas).vectors)

    def encode_queries(self, queries: Sequence[str]) -> list[SparseVector]:
        """Encode queries, weighed by what was learned.

        Parameters
        ----------
        queries : sequence of str
            The queries.

        Returns
        -------
        list of SparseVector
            Weights > 0; empty where no term is known.
        """
        check_sequence("queries", queries, "str")
        with self._lock:
            encoder = QueryEncoder(self._analyzer, self.config.query_weighting(), TermIds(self._vocabulary.displaced))
            return [encoder.encode(query, self._statistics.whole) for query in queries]

    def _checked(
        self, texts: Sequence[str], metadatas: Sequence[Mapping[str, Any]] | None
    ) -> tuple[Sequence[str], Sequence[Mapping[str, Any]] | None]:
        """Check texts and metadata as an index does, before anything is counted."""
        plain, checked = check_texts(texts, metadatas)
        check_field_values(checked or [], self.config.fields)
        return plain, checked

    def save(self, path: str | Path) -> None:
        """Write parameters, counts and terms to a file.

        Parameters
        ----------
        path : str or Path
            Where to; the format is that of :meth:`rag_bm25.BM25Index.export_statistics`.
        """
        with self._lock:
            config = config_to_dict(self.config, contract_of(self._analyzer))
            write_statistics(path, config, self._statistics, self._vocabulary)

    @classmethod
    def load(cls, path: str | Path, *, config: IndexConfig | None = None) -> BM25Encoder:
        """Read a file of :meth:`save` or of :meth:`rag_bm25.BM25Index.export_statistics`.

        Parameters
        ----------
        path : str or Path
            The file; its namespaces are added up.
        config : IndexConfig, optional
            Needed where the analyzer is a callable of one's own; must fit the stored one.

        Returns
        -------
        BM25Encoder
            A new encoder.

        Raises
        ------
        ConfigMismatchError
            `config` is not what the file was made with.
        FormatError
            The file is something else, damaged, or of a newer version.
        """
        stored, totals, vocabulary = read_statistics(path)
        encoder = cls(config_from_dict(stored, config))
        encoder._vocabulary = vocabulary
        for total in totals.values():
            encoder._statistics.add("", total)
        return encoder

    @classmethod
    def from_counts(
        cls, config: IndexConfig, num_chunks: int, df: Mapping[str, int], *, total_length: int = 0
    ) -> BM25Encoder:
        """Return an encoder with counts that were made elsewhere.

        Parameters
        ----------
        config : IndexConfig
            The parameters; its analyzer must be the one that the terms came from.
        num_chunks : int
            N.
        df : mapping of str to int
            Term -> number of chunks with it, in [1, N].
        total_length : int
            Sum of the chunk lengths, in the unit of `config`.

        Returns
        -------
        BM25Encoder
            A new encoder.
        """
        encoder = cls(config)
        staged = encoder._vocabulary.stage()
        ids = np.fromiter((staged[term] for term in df), np.uint32, len(df))
        counts = np.fromiter(df.values(), np.int64, len(df))
        order = np.argsort(ids)
        encoder._vocabulary.add(staged.new)
        counted = Contribution(num_chunks, total_length, ids[order], counts[order])
        encoder._statistics.add("", counted)
        return encoder


def document_encoding(encoder: TextEncoder, *, learn: bool) -> Callable[[Sequence[str]], list[SparseVector]]:
    """Return what encodes documents, and counts them where it is to learn.

    Parameters
    ----------
    encoder : TextEncoder
        What encodes.
    learn : bool
        Whether every text that is encoded is learned.

    Returns
    -------
    callable of sequence of str to list of SparseVector
        Texts -> vectors.

    Raises
    ------
    ParameterError
        `encoder` cannot learn.
    """
    if not learn:
        return encoder.encode_documents
    if not isinstance(encoder, BM25Encoder):
        msg = f"learn needs a BM25Encoder, got {type(encoder).__name__}, which counts what Milvus holds"
        raise ParameterError(msg)
    return encoder.learn_and_encode


def _contribution(encoded: EncodedChunks) -> Contribution:
    lengths: Iterable[int] = encoded.lengths.tolist()
    return Contribution.of(encoded.vectors, lengths)
