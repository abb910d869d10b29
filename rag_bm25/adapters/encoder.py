"""Both sides of BM25 without a store: texts to vectors, with counts of the texts that were learned.

The counts are saved as gzip of JSON lines, a header and then a line for each term::

    {"kind": "rag_bm25 statistics", "format": 1, "config": {...}, "chunks": 2, "length": 57}
    ["milvus", 725768567, 1]
"""

from __future__ import annotations

import gzip
import json
import threading
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from rag_bm25.analysis.contract import contract_of
from rag_bm25.documents.checks import check_sequence, check_texts
from rag_bm25.errors import FormatError, InputError, ParameterError
from rag_bm25.index.opening import check_analyzer
from rag_bm25.index.stored_config import config_from_dict, config_to_dict
from rag_bm25.query.encoder import QueryEncoder
from rag_bm25.query.expanders import Expanders
from rag_bm25.query.explanation import ChunkFacts, QueryFacts
from rag_bm25.query.query import Query
from rag_bm25.query.scores import explain_score
from rag_bm25.query.stop_words import stop_words_in
from rag_bm25.replacing import replacing
from rag_bm25.statistics.corpus import MAX_COUNT, Contribution, CountsByNamespace
from rag_bm25.vectors.sparse import sorted_items
from rag_bm25.vectors.terms import MAX_ID, TermIds, Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import TextIO

    from rag_bm25.analysis import TextAnalyzer
    from rag_bm25.index.config import IndexConfig
    from rag_bm25.query.expansion import QueryExpansion
    from rag_bm25.query.query import QueryLike
    from rag_bm25.query.scores import ScoreExplanation
    from rag_bm25.statistics.corpus import CorpusCounts
    from rag_bm25.vectors.sparse import SparseVector
    from rag_bm25.weighting.query import QueryWeighting


KIND = "rag_bm25 statistics"
FILE_FORMAT = 1
MAX_LINE = 64 << 20  # characters; the longest is the header, with the user's dictionary

_NOT_GZIP = (gzip.BadGzipFile, zlib.error)


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
            In place of that of the config: synonyms and near spellings to search for, too.

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
        """Snapshot the current counts."""
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
        expander = self._expanders.make(expansion, self.config.expansion)
        own = self.config.query_weighting()
        weights = own if weighting is None else weighting.over(own)
        if weights.reweighs:
            raise ParameterError("k1, b and length of a query are not supported here: a vector cannot express them")
        if weights.needs_learning:
            raise ParameterError("idf='adpt' is not supported here: counts alone do not tell it")
        return QueryEncoder(self._documents.analyzer, weights, counted.ids, expander, kept={})


def document_encoding(encoder: TextEncoder, *, learn: bool) -> Callable[[Sequence[str]], list[SparseVector]]:
    """Return the method that encodes documents, and also counts them if `learn`."""
    if not learn:
        return encoder.encode_documents
    if not isinstance(encoder, BM25Encoder):
        msg = f"learn=True needs a BM25Encoder, got {type(encoder).__name__}, which counts the chunks in Milvus"
        raise ParameterError(msg)
    return encoder.learn


def write_statistics(path: str | Path, config: Mapping[str, Any], total: Contribution, vocabulary: Vocabulary) -> None:
    """Write config, counts and vocabulary to a file, replacing an existing one only when it is complete."""
    dfs: dict[int, int] = dict(zip(total.ids.tolist(), total.df.tolist(), strict=True))
    sums = {"chunks": total.num_chunks, "length": total.total_length}
    header = {"kind": KIND, "format": FILE_FORMAT, "config": config, **sums}
    known = ((term, vocabulary.id(term)) for term in vocabulary.after(0))
    unnamed = ((None, id_) for id_ in dfs if vocabulary.term(id_) is None)
    with replacing(path) as part, gzip.open(part, "wt", encoding="utf-8") as file:
        file.write(json.dumps(header, ensure_ascii=False) + "\n")
        for terms in (known, unnamed):
            for term, id_ in terms:
                file.write(json.dumps([term, id_, dfs.get(id_ or 0, 0)], ensure_ascii=False) + "\n")


def read_statistics(path: str | Path) -> tuple[dict[str, Any], Contribution, Vocabulary]:
    """Read config, counts and vocabulary from a file."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            lines = map(json.loads, _lines(file))
            header = _check_header(path, next(lines, None))
            chunks, length = _whole(header["chunks"], "chunks"), _whole(header["length"], "length")
            df, vocabulary = _read_terms(lines)
    except (AttributeError, EOFError, LookupError, RecursionError, TypeError, ValueError, *_NOT_GZIP) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"{path} is not a statistics file, or is damaged: {error}") from error
    return header["config"], Contribution(chunks, length, *sorted_items(df, np.int64)), vocabulary


def _lines(file: TextIO) -> Iterator[str]:
    """Yield the lines; a few bytes may have been made to unpack to one that fills the memory."""
    while line := file.readline(MAX_LINE + 1):
        if len(line) > MAX_LINE:
            raise ValueError(f"a line has more than {MAX_LINE:,} characters")
        yield line


def _check_header(path: str | Path, header: Any) -> dict[str, Any]:
    if not isinstance(header, dict) or header.get("kind") != KIND:
        raise FormatError(f"{path} is not a statistics file")
    if _whole(header["format"], "format") > FILE_FORMAT:
        raise FormatError(f"{path} has format {header['format']}, this version of rag_bm25 reads up to {FILE_FORMAT}")
    if not isinstance(header["config"], dict):
        raise TypeError("its config must be a JSON object")
    return header


def _read_terms(lines: Iterable[tuple[str | None, int, int]]) -> tuple[dict[int, int], Vocabulary]:
    """Return the df of each id that has one, and the terms."""
    vocabulary = Vocabulary()
    dfs: dict[int, int] = {}
    for term, id_, df in lines:
        checked = _whole(id_, "id", 1, MAX_ID)
        if term is not None:
            term.encode()  # rejects lone surrogates
            vocabulary.add({term: checked})
        if _whole(df, "df"):
            dfs[checked] = df
    return dfs, vocabulary


def _whole(value: object, name: str, lowest: int = -MAX_COUNT, highest: int = MAX_COUNT) -> int:
    if type(value) is not int or not lowest <= value <= highest:
        raise ValueError(f"{name} must be a whole number in {lowest}..{highest}")
    return value
