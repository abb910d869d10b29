"""The index: the one place where chunks and statistics move together."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from rag_bm25.analysis import Analyzer, contract_of
from rag_bm25.chunk_writer import ChunkWriter
from rag_bm25.chunks import Chunk, Hit, HybridHit, NewChunk, batches, check_ids, check_namespace, new_chunks, pk_digest
from rag_bm25.config import IndexConfig, config_from_dict, config_to_dict, require_same
from rag_bm25.document_encoder import DocumentEncoder
from rag_bm25.embeddings import as_matrix, calling
from rag_bm25.errors import (
    ChunkNotFoundError,
    FormatError,
    IndexNotFoundError,
    InputError,
    ReadOnlyError,
    WorkerError,
)
from rag_bm25.expansion import Expander, QueryExpansion
from rag_bm25.explanation import ChunkFacts, Explanation, QueryFacts, explain
from rag_bm25.feedback import Evidence, FeedbackChunk, learn
from rag_bm25.filters import both, parse_filter
from rag_bm25.fusion import RRF
from rag_bm25.hybrid import Arms, search_arm, search_hybrid
from rag_bm25.lookup import TermLookup
from rag_bm25.min_should_match import required_words
from rag_bm25.portable import read_statistics, write_statistics
from rag_bm25.query import Query
from rag_bm25.query_encoder import QueryEncoder
from rag_bm25.query_options import QueryOptions, check_options, feedback_of, weighting_of
from rag_bm25.ranking import MAX_K, best
from rag_bm25.similarity import effective_parameters
from rag_bm25.spelling import Fuzzy, Speller
from rag_bm25.statistics_log import StatisticsLog
from rag_bm25.store import SearchArm
from rag_bm25.synonyms import SynonymTable
from rag_bm25.terms import TermIds
from rag_bm25.verification import RepairReport, VerifyReport, repair, verify
from rag_bm25.workers import Workers, check_workers

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from pathlib import Path
    from types import TracebackType

    import numpy as np
    from numpy.typing import NDArray
    from typing_extensions import Unpack

    from rag_bm25.document_encoder import CountedChunks
    from rag_bm25.embeddings import Embeddings
    from rag_bm25.filters import Filter
    from rag_bm25.fusion import Fusion
    from rag_bm25.query import QueryLike
    from rag_bm25.query_encoder import QueryTerms
    from rag_bm25.query_options import StatisticsScope
    from rag_bm25.similarity import CorpusFigures, QueryWeighting
    from rag_bm25.sparse import SparseVector
    from rag_bm25.statistics import CorpusStatistics
    from rag_bm25.store import ChunkRow, DenseField, Match, Store
    from rag_bm25.synonyms import Synonyms

__all__ = ["BM25Index", "IndexStats"]

CANDIDATES = 100
"""How many chunks each arm of a hybrid search brings by default."""

OVERFETCH = 4
"""How many times k chunks are asked for at first, where some of them may have too few words of the query."""


@dataclass(frozen=True)
class IndexStats:
    """Figures of an index, or of some of its namespaces.

    Parameters
    ----------
    name : str
        Engine, URI and collection.
    num_chunks : int
        N.
    num_terms : int
        Terms with df > 0.
    total_length : int
        Sum of the chunk lengths, in `length_unit`.
    mean_length : float
        avgdl, measured, in `length_unit`.
    average_idf : float
        Mean IDF over all terms.
    namespaces : list of str
        All namespaces of the index.
    chunk_size : float
        The constant in place of the mean length.
    length_unit : str
        Unit of all lengths.
    k1, b : float
        The parameters in use.
    chunk_size_ratio : float
        s = chunk_size / mean_length; 1.0 for an empty index.
    effective_k1, effective_b : float
        Parameters of the exact BM25 that this chunk_size amounts to, see
        :func:`rag_bm25.similarity.effective_parameters`.
    """

    name: str
    num_chunks: int
    num_terms: int
    total_length: int
    mean_length: float
    average_idf: float
    namespaces: list[str]
    chunk_size: float
    length_unit: str
    k1: float
    b: float
    chunk_size_ratio: float
    effective_k1: float
    effective_b: float

    @classmethod
    def of(cls, name: str, config: IndexConfig, statistics: CorpusStatistics, namespaces: Sequence[str]) -> IndexStats:
        """Work the figures out.

        Parameters
        ----------
        name : str
            Of what.
        config : IndexConfig
            Its parameters.
        statistics : CorpusStatistics
            Its N, df and lengths.
        namespaces : sequence of str
            All namespaces that there are.

        Returns
        -------
        IndexStats
            As of now.
        """
        ratio = config.chunk_size / statistics.mean_length if statistics.mean_length else 1.0
        effective_k1, effective_b = effective_parameters(config.k1, config.b, ratio)
        return cls(
            name=name,
            num_chunks=statistics.num_chunks,
            num_terms=statistics.num_terms,
            total_length=statistics.total_length,
            mean_length=statistics.mean_length,
            average_idf=statistics.figures.average_idf,
            namespaces=list(namespaces),
            chunk_size=config.chunk_size,
            length_unit=config.length_unit,
            k1=config.k1,
            b=config.b,
            chunk_size_ratio=ratio,
            effective_k1=effective_k1,
            effective_b=effective_b,
        )


@dataclass(frozen=True, eq=False)
class _Question:
    """A query on its way to the store."""

    terms: QueryTerms
    vector: SparseVector


@dataclass(frozen=True, eq=False)
class _Asked:
    """Queries on their way to the store, and what weighed them."""

    questions: list[_Question]
    weighting: QueryWeighting
    figures: CorpusFigures

    @classmethod
    def of(cls, terms: list[QueryTerms], encoder: QueryEncoder, corpus: CorpusStatistics) -> _Asked:
        """Keep what the weights come from, which the next write may change."""
        return cls([_Question(each, each.vector()) for each in terms], encoder.weighting, corpus.figures)


class BM25Index:
    """Chunks in Milvus with exact BM25 scores, from :meth:`open` to :meth:`close`.

    Searching and writing from several threads is allowed; writes of one index run one after the other.

    Parameters
    ----------
    store : Store
        Where the rows are; closed by :meth:`close`.
    log : StatisticsLog
        The statistics in that store.
    config : IndexConfig
        That of the stored index. :meth:`open` and :meth:`from_store` see to it.
    read_only : bool
        Refuse every write.
    refresh_interval : float
        Seconds for which a search may use statistics without asking for newer ones.

    Attributes
    ----------
    config : IndexConfig
        The parameters in use.
    repaired : RepairReport or None
        What was found where the index was opened with ``repair=True``.

    Examples
    --------
    Creating an index needs a config, opening it again does not::

        with BM25Index.open("./rag.db", "docs", config=IndexConfig(chunk_size=500)) as index:
            index.add(["Milvus stores sparse vectors.", "jieba cuts 中文 into words."])
            for hit in index.search("sparse vectors", k=1):
                print(hit.score, hit.text)
    """

    def __init__(
        self,
        store: Store,
        log: StatisticsLog,
        config: IndexConfig,
        *,
        read_only: bool = False,
        refresh_interval: float = 1.0,
    ) -> None:
        self.config = config
        self.repaired: RepairReport | None = None
        self._store = store
        self._log = log
        self._read_only = read_only
        self._refresh_interval = refresh_interval
        self._next_refresh = 0.0
        self._lock = threading.RLock()
        self._analyzer = config.build_analyzer()
        self._encoder = DocumentEncoder(self._analyzer, config.document_weighting(), config.length_unit)
        self._writer = ChunkWriter(store, log, self._encoder)
        self._lookup = TermLookup()
        self._synonyms: tuple[Synonyms, SynonymTable] | None = None
        self._pools: dict[int, Workers] = {}  # by how many

    # Life

    @classmethod
    def open(
        cls,
        uri: str | Path,
        collection: str,
        *,
        config: IndexConfig | None = None,
        token: str | None = None,
        timeout: float | None = None,
        read_only: bool = False,
        repair: bool = False,
        refresh_interval: float = 1.0,
    ) -> BM25Index:
        """Open an index, or create it where a config is given and there is none yet.

        Parameters
        ----------
        uri : str or Path
            A file ending in ``.db`` for the embedded engine, or the URI of a Milvus server.
        collection : str
            Name of the index; its two Milvus collections are ``collection`` and ``collection_bm25``.
        config : IndexConfig, optional
            Needed to create an index. For an existing one, its fixed side must equal the stored one; by default the
            stored one is used.
        token : str, optional
            ``user:password`` or API key of the server.
        timeout : float, optional
            Seconds that one call to the server may take.
        read_only : bool
            Refuse every write, and write nothing when opening.
        repair : bool
            Call :meth:`repair` before anything is read, for an index whose statistics are damaged; its report is
            `repaired`. Where the stored config is lost too, `config` takes its place.
        refresh_interval : float
            On a server: seconds for which a search may use statistics without asking for newer ones.

        Returns
        -------
        BM25Index
            To be closed, or used in a ``with`` statement.

        Raises
        ------
        IndexNotFoundError
            There is no such index, and no config to create it with.
        ConfigMismatchError
            The index was created with other parameters or another analyzer.
        FormatError
            The collection is something else, damaged, or of a newer version.
        StoreError
            Milvus cannot be reached, or another process has the file open.
        """
        from rag_bm25.milvus_store import MilvusStore, is_missing_file

        if is_missing_file(uri) and (config is None or read_only):
            raise _not_found(f"{collection!r} at {uri}")
        store = MilvusStore(uri, collection, token=token, timeout=timeout, read_only=read_only)
        return cls.from_store(
            store, config=config, read_only=read_only, repair=repair, refresh_interval=refresh_interval
        )

    @classmethod
    def from_store(
        cls,
        store: Store,
        *,
        config: IndexConfig | None = None,
        read_only: bool = False,
        repair: bool = False,
        refresh_interval: float = 1.0,
    ) -> BM25Index:
        """Open or create an index in a store of one's own.

        Parameters
        ----------
        store : Store
            Closed by the index, also where opening fails.
        config, read_only, repair, refresh_interval
            As for :meth:`open`.

        Returns
        -------
        BM25Index
            The index.
        """
        try:
            log = StatisticsLog(store)
            used = _open_config(store, log, config, read_only=read_only, repair=repair)
            index = cls(store, log, used, read_only=read_only, refresh_interval=refresh_interval)
            if repair:
                index.repaired = index.repair()
            index._start()
        except BaseException:
            store.close()
            raise
        return index

    def close(self) -> None:
        """Release the connection and, for an embedded engine, the file. Closing twice is allowed."""
        while self._pools:
            self._pools.popitem()[1].close()
        self._store.close()

    def __enter__(self) -> BM25Index:
        """Return the index itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the index."""
        self.close()

    def refresh(self) -> None:
        """Read at once what other writers have added to the statistics."""
        with self._lock:
            self._log.refresh()
            self._next_refresh = time.monotonic() + self._refresh_interval

    # Writing

    def add(
        self,
        texts: Sequence[str],
        *,
        ids: Sequence[str | None] | None = None,
        metadatas: Sequence[Mapping[str, Any] | None] | None = None,
        embeddings: Embeddings | None = None,
        namespace: str = "",
        assume_new: bool = False,
        workers: int = 0,
    ) -> list[str]:
        """Insert chunks, or update those whose id is there already.

        A chunk whose id, text, metadata and dense vector are stored as they are costs no write.

        Parameters
        ----------
        texts : sequence of str
            The chunks, each at most 65,535 bytes of UTF-8. Text without terms is stored, but never found by a search.
        ids : sequence of str, optional
            One for each text, distinct, 1 to 512 bytes; None, as by default, stands for a hash of text and metadata,
            so that the same chunk twice is one chunk.
        metadatas : sequence of mappings, optional
            One for each text, JSON values only.
        embeddings : array_like of float, shape (n_texts, dense_dim), or callable of list of str to such an array
            Needed where the index has dense vectors, and only there. A callable is asked only for texts that are not
            stored with their vector already, about 1,000 at a time; to replace vectors, give them as an array.
        namespace : str
            Tenant or sub-corpus; the same id in two namespaces is two chunks.
        assume_new : bool
            Promise that no chunk is stored under any of the ids, also not by a call that failed halfway; it saves
            reading what is stored. Where the promise is broken, both versions of a chunk are counted and may be found,
            or the old one is counted still: :meth:`verify` tells so, and deleting the chunk, then :meth:`repair`, puts
            it right.
        workers : int
            Processes, in 0..61, that analyse the next batches while one is written; what is stored is the same. They
            are started by the first call, which takes a second or two, and kept until :meth:`close`. A script must
            call this below ``if __name__ == "__main__":``.

        Returns
        -------
        list of str
            The ids, in the order of `texts`.

        Raises
        ------
        InputError
            Something breaks a rule; nothing was written.
        StoreError
            Milvus failed. Batches of about 1,000 chunks are written one by one; calling again with the same input
            writes what is missing.
        WorkerError
            A worker process died; likewise.
        """
        self._require_writable()
        check_workers(workers)
        check_namespace(namespace)
        chunks = new_chunks(texts, ids, metadatas)
        chunks, embed = self._with_embeddings(chunks, embeddings)
        distinct = list({chunk.id: chunk for chunk in chunks}.values())
        pending = batches(distinct, 4 * (self.config.dense_dim or 0))
        with closing(self._counted(pending, workers)) as counting:
            for batch, counted in counting:
                complete = batch if embed is None else self._embedded(namespace, batch, embed, assume_new=assume_new)
                with self._lock:
                    self._writer.add(namespace, complete, counted=counted, assume_new=assume_new)
        return [chunk.id for chunk in chunks]

    def delete(
        self,
        ids: Sequence[str] | None = None,
        *,
        filter: Mapping[str, Any] | str | None = None,
        namespace: str = "",
    ) -> int:
        """Delete chunks, named by their ids or by a filter.

        Parameters
        ----------
        ids : sequence of str, optional
            Any number; those that are not there are ignored.
        filter : mapping or str, optional
            As for :meth:`search`; the chunks are found by it first, and then deleted by their ids.
        namespace : str
            Where they are.

        Returns
        -------
        int
            How many there were.

        Raises
        ------
        InputError
            An id or the filter breaks a rule, or not exactly one of the two is given; nothing was deleted.
        """
        self._require_writable()
        check_namespace(namespace)
        if (ids is None) == (filter is None):
            msg = "delete needs ids or a filter, and not both"
            raise InputError(msg)
        where = parse_filter(filter)
        if ids is None and where is None:
            msg = "delete needs a filter that is not empty; to delete a whole namespace, use drop_namespace"
            raise InputError(msg)
        found = self._ids(where, namespace) if ids is None else check_ids(ids)
        with self._lock:
            return self._writer.delete(namespace, found)

    def drop_namespace(self, namespace: str) -> int:
        """Delete all chunks of a namespace.

        Parameters
        ----------
        namespace : str
            Which.

        Returns
        -------
        int
            How many chunks there were.
        """
        self._require_writable()
        found = self._ids(None, check_namespace(namespace))
        with self._lock:
            return self._writer.delete(namespace, found)

    def repair(self, *, progress: Callable[[int, int], None] | None = None) -> RepairReport:
        """Count all stored vectors again and replace the statistics by the result.

        Whatever happened to the statistics, they are right afterwards: lost, damaged and half-written rows of the
        log, rows that other tools inserted or deleted. A repair that is cut short can be run again. No other writer
        may be at work on a server meanwhile.

        Parameters
        ----------
        progress : callable of (int, int) to None, optional
            Told from time to time how many rows were counted, and how many there are.

        Returns
        -------
        RepairReport
            What was found.
        """
        self._require_writable()
        with self._lock:
            report = repair(self._store, self._log, self._analyzer, progress)
            self._read_anew()
            return report

    def export_statistics(self, path: str | Path) -> None:
        """Write N, df, lengths and the vocabulary to one portable file.

        Parameters
        ----------
        path : str or Path
            Where to; gzip of JSON lines, see :mod:`rag_bm25.portable`.
        """
        with self._lock:
            self._log.refresh()
            write_statistics(path, self._stored_config(), self._log.statistics, self._log.vocabulary())

    def import_statistics(self, path: str | Path) -> None:
        """Replace the statistics by those of a file; :meth:`verify` tells whether they fit the chunks.

        Parameters
        ----------
        path : str or Path
            As written by :meth:`export_statistics`.

        Raises
        ------
        ConfigMismatchError
            They come from an index with other parameters or another analyzer.
        FormatError
            The file is something else, damaged, or of a newer version.
        """
        self._require_writable()
        config, totals, vocabulary = read_statistics(path)
        require_same(config, self.config)
        with self._lock:
            self._log.replace(totals, vocabulary)
            self._read_anew()

    # Reading

    def get(self, ids: Sequence[str], *, namespace: str = "") -> list[Chunk]:
        """Return chunks by their ids.

        Parameters
        ----------
        ids : sequence of str
            Any number.
        namespace : str
            Where they are.

        Returns
        -------
        list of Chunk
            Those that are there, in the order of `ids`.
        """
        found = self._rows(check_ids(ids), check_namespace(namespace))
        return [Chunk.of(found[id_]) for id_ in dict.fromkeys(ids) if id_ in found]

    def get_embeddings(self, ids: Sequence[str], *, namespace: str = "") -> dict[str, NDArray[np.float32]]:
        """Return the dense vectors of chunks.

        Parameters
        ----------
        ids : sequence of str
            Any number.
        namespace : str
            Where they are.

        Returns
        -------
        dict of str to ndarray of float32, shape (dense_dim,)
            Id -> vector, of those that are there.

        Raises
        ------
        InputError
            The index has no dense vectors.
        """
        self._dense_field("get_embeddings called")
        rows = self._rows(check_ids(ids), check_namespace(namespace), dense=True)
        return {id_: row.dense for id_, row in rows.items() if row.dense is not None}

    def chunks(
        self,
        *,
        filter: Mapping[str, Any] | str | None = None,
        namespace: str | Sequence[str] | None = "",
    ) -> Iterator[Chunk]:
        """Stream all chunks, or those that fit a filter.

        Parameters
        ----------
        filter : mapping or str, optional
            As for :meth:`search`.
        namespace : str, sequence of str or None
            Whose chunks; None for all.

        Yields
        ------
        Chunk
            In no particular order.
        """
        where = parse_filter(filter)
        for rows in self._store.scan_chunks(where=where, namespaces=_names(namespace), contents=True):
            yield from map(Chunk.of, rows)

    def search(
        self,
        query: QueryLike,
        k: int = 10,
        *,
        filter: Mapping[str, Any] | str | None = None,
        namespace: str | Sequence[str] | None = "",
        **options: Unpack[QueryOptions],
    ) -> list[Hit]:
        """Return the chunks with the greatest BM25 scores.

        Parameters
        ----------
        query : str, mapping of str to float, or Query
            Any text; or texts with a boost for each, as in ``{"合同": 2.0, "解除": 1.0}``.
        k : int
            How many at most, in 1..16384.
        filter : mapping or str, optional
            Conditions on the metadata, see :func:`rag_bm25.filters.parse_filter`, or a Milvus expression.
        namespace : str, sequence of str or None
            Whose chunks; None for all.
        **options
            See :class:`~rag_bm25.query_options.QueryOptions`.

        Returns
        -------
        list of Hit
            By falling score, then by id. Empty where no term of the query is known.

        Raises
        ------
        InputError
            `k` or a boost is out of its range, or `query` is something else.
        FilterError
            The filter cannot be read, or Milvus refuses it.
        ParameterError
            An option is out of its range.
        """
        return self.search_batch([query], k, filter=filter, namespace=namespace, **options)[0]

    def search_batch(
        self,
        queries: Sequence[QueryLike],
        k: int = 10,
        *,
        filter: Mapping[str, Any] | str | None = None,
        namespace: str | Sequence[str] | None = "",
        **options: Unpack[QueryOptions],
    ) -> list[list[Hit]]:
        """Answer several queries in one call to Milvus.

        Parameters
        ----------
        queries : sequence of str, mapping or Query
            Any number, as for :meth:`search`.
        k, filter, namespace, **options
            As for :meth:`search`, the same for all queries.

        Returns
        -------
        list of list of Hit
            One for each query, in their order.
        """
        _check_k(k)
        where, namespaces = parse_filter(filter), _names(namespace)
        asked = self._ask(queries, where, namespaces, options)
        found = self._search(asked.questions, k, where, namespaces, options)
        return [[_hit(match) for match in matches] for matches in found]

    def search_dense(
        self,
        embedding: Sequence[float],
        k: int = 10,
        *,
        filter: Mapping[str, Any] | str | None = None,
        namespace: str | Sequence[str] | None = "",
    ) -> list[Hit]:
        """Return the chunks whose dense vectors are most similar.

        Parameters
        ----------
        embedding : sequence of float, shape (dense_dim,)
            The query's dense vector.
        k, filter, namespace
            As for :meth:`search`.

        Returns
        -------
        list of Hit
            By falling score, then by id: cosine similarity or inner product, as the index's `dense_metric` says.

        Raises
        ------
        InputError
            The index has no dense vectors, or `embedding` is not one for it.
        """
        _check_k(k)
        names = _names(namespace)
        arm = self._dense_arm(embedding, k, parse_filter(filter), names)
        return [_hit(match) for match in search_arm(self._store, arm, names)]

    def search_hybrid(
        self,
        query: QueryLike,
        embedding: Sequence[float],
        k: int = 10,
        *,
        fusion: Fusion | None = None,
        sparse_k: int | None = None,
        dense_k: int | None = None,
        filter: Mapping[str, Any] | str | None = None,
        sparse_filter: Mapping[str, Any] | str | None = None,
        dense_filter: Mapping[str, Any] | str | None = None,
        arm_scores: bool = False,
        namespace: str | Sequence[str] | None = "",
        **options: Unpack[QueryOptions],
    ) -> list[HybridHit]:
        """Return the chunks that a lexical and a dense search find together.

        Parameters
        ----------
        query : str, mapping of str to float, or Query
            As for :meth:`search`; without known terms, the dense search decides alone.
        embedding : sequence of float, shape (dense_dim,)
            The query's dense vector.
        k : int
            How many at most, in 1..16384.
        fusion : RRF or Weighted, optional
            How two scores become one, see :mod:`rag_bm25.fusion`; by default :class:`~rag_bm25.fusion.RRF`, which is
            one call to Milvus.
        sparse_k, dense_k : int, optional
            How many candidates each search brings; by default 100, or `k` where that is more.
        filter, sparse_filter, dense_filter : mapping or str, optional
            Conditions for both searches, and for one of them in addition; as for :meth:`search`.
        arm_scores : bool
            Whether the hits are to have the scores of both searches, which costs a second call.
        namespace, **options
            As for :meth:`search`.

        Returns
        -------
        list of HybridHit
            By falling fused score, then by id.

        Raises
        ------
        InputError, FilterError, ParameterError
            As for :meth:`search` and :meth:`search_dense`.
        """
        for limit in (k, sparse_k, dense_k):
            _check_k(k if limit is None else limit)
        names, common = _names(namespace), parse_filter(filter)
        where, limit = both(common, parse_filter(sparse_filter)), sparse_k or max(k, CANDIDATES)
        vector = self._vectors([query], where, names, options)[0]
        sparse = SearchArm(vector, "IP", limit, where, self._needed(names)) if len(vector) else None
        where, limit = both(common, parse_filter(dense_filter)), dense_k or max(k, CANDIDATES)
        dense = self._dense_arm(embedding, limit, where, names)
        arms = Arms(sparse, dense, names, float(vector.values.sum(dtype=float)))
        return search_hybrid(self._store, arms, fusion or RRF(), k, arm_scores=arm_scores)

    def encode_documents(self, texts: Sequence[str]) -> list[SparseVector]:
        """Return the vectors that chunks of these texts have; nothing is stored or counted.

        Parameters
        ----------
        texts : sequence of str
            Any number.

        Returns
        -------
        list of SparseVector
            Document weights; ``{0: 1.0}`` for a text without terms.
        """
        with self._lock:
            ids = TermIds(self._log.displaced)
        return list(self._encoder.encode(texts, ids).vectors)

    def encode_queries(
        self,
        queries: Sequence[QueryLike],
        *,
        filter: Mapping[str, Any] | str | None = None,
        namespace: str | Sequence[str] | None = "",
        **options: Unpack[QueryOptions],
    ) -> list[SparseVector]:
        """Return the vectors that a search sends to Milvus.

        Parameters
        ----------
        queries : sequence of str, mapping or Query
            Any number, as for :meth:`search`.
        filter, namespace, **options
            As for :meth:`search`; the filter matters where there is a first search for feedback.

        Returns
        -------
        list of SparseVector
            Query weights, all > 0; empty where no term is known. The sum of the weights is above every score that the
            query can have.

        Raises
        ------
        InputError
            `min_should_match` is given: no vector can hold it.
        """
        return self._vectors(queries, parse_filter(filter), _names(namespace), options)

    def suggest(
        self,
        query: str,
        *,
        fuzzy: Fuzzy | None = None,
        namespace: str | Sequence[str] | None = "",
        statistics: StatisticsScope = "namespace",
    ) -> str | None:
        """Return a query as it may have been meant: "did you mean ...?".

        Parameters
        ----------
        query : str
            Any text.
        fuzzy : Fuzzy, optional
            How near spellings are found. Only words that no chunk has are corrected.
        namespace, statistics
            As for :meth:`search`.

        Returns
        -------
        str or None
            The query with the likeliest term in the place of each misspelt word; None where there is nothing to
            correct.

        Raises
        ------
        MissingExtraError
            rapidfuzz is not installed.
        """
        if not isinstance(query, str):
            msg = f"a query must be a str, got {type(query).__name__}"
            raise InputError(msg)
        with self._lock:
            encoder, corpus = self._query_side(_names(namespace), {"statistics": statistics})
            speller = Speller(fuzzy or Fuzzy(), self._analyzer, self._terms_of_vocabulary(), encoder.dfs_in(corpus))
            return speller.corrected(query)

    def explain(
        self,
        query: QueryLike,
        id: str,
        *,
        filter: Mapping[str, Any] | str | None = None,
        namespace: str = "",
        **options: Unpack[QueryOptions],
    ) -> Explanation:
        """Explain the score of a chunk, or why a search does not find it.

        Parameters
        ----------
        query : str, mapping of str to float, or Query
            The query.
        id : str
            The chunk's id.
        filter : mapping or str, optional
            As for :meth:`search`; it matters where there is a first search for feedback.
        namespace : str
            Where the chunk is, and what was searched.
        **options
            As for :meth:`search`.

        Returns
        -------
        Explanation
            A tree; its root is the score that Milvus gives.

        Raises
        ------
        ChunkNotFoundError
            There is no such chunk.
        """
        check_options(options)
        asked = Query.of(query, syntax=options.get("syntax", False))
        names = [check_namespace(namespace)]
        row = self._rows(check_ids([id]), namespace, vectors=True).get(id)
        if row is None:
            msg = f"no chunk {id!r} in namespace {namespace!r} of {self._store.name}"
            raise ChunkNotFoundError(msg)
        stop_words = self._analyzer.stop_words_in(str(asked)) if isinstance(self._analyzer, Analyzer) else []
        weighed = self._ask([asked], parse_filter(filter), names, options)
        wanted, (question,) = options.get("min_should_match"), weighed.questions
        facts = QueryFacts(str(asked), question.terms, stop_words, weighed.weighting, weighed.figures, wanted)
        return explain(facts, self._chunk_facts(row))

    def stats(self, *, namespace: str | Sequence[str] | None = None) -> IndexStats:
        """Return the figures of the index, with what its chunk_size amounts to.

        Parameters
        ----------
        namespace : str, sequence of str or None
            Whose figures; None for all.

        Returns
        -------
        IndexStats
            As of now.
        """
        names = _names(namespace)
        with self._lock:
            self._refresh_if_due()
            statistics = self._log.statistics
            return IndexStats.of(self._store.name, self.config, statistics.of(names), statistics.namespaces)

    def verify(self, *, progress: Callable[[int, int], None] | None = None) -> VerifyReport:
        """Count all stored vectors again and compare the statistics with the result.

        Parameters
        ----------
        progress : callable of (int, int) to None, optional
            Told from time to time how many rows were counted, and how many there are.

        Returns
        -------
        VerifyReport
            Every difference; none where all is well.
        """
        with self._lock:
            self._log.refresh()
            return verify(self._store, self._log, progress)

    # Parts

    def _start(self) -> None:
        """Finish what dead writers left, and read the statistics."""
        if not self._read_only:
            self._log.refresh()
            self._writer.recover()
        self.refresh()

    def _read_anew(self) -> None:
        """Forget the statistics and read them from the store."""
        self._log = StatisticsLog(self._store)
        self._writer = ChunkWriter(self._store, self._log, self._encoder)
        self._lookup = TermLookup()
        self.refresh()

    def _stored_config(self) -> dict[str, Any]:
        return config_to_dict(self.config, contract_of(self._analyzer))

    def _require_writable(self) -> None:
        if self._read_only:
            msg = f"{self._store.name} was opened with read_only=True"
            raise ReadOnlyError(msg)

    def _refresh_if_due(self) -> None:
        """Look for the deltas of other writers; with an embedded engine there are none."""
        if not self._store.exclusive and time.monotonic() >= self._next_refresh:
            self.refresh()

    def _vectors(
        self, queries: Sequence[QueryLike], where: Filter | None, namespaces: list[str] | None, options: QueryOptions
    ) -> list[SparseVector]:
        """Return what a search sends to Milvus."""
        if options.get("min_should_match") is not None:
            msg = "min_should_match is for search, search_batch and explain: no vector can hold it"
            raise InputError(msg)
        return [question.vector for question in self._ask(queries, where, namespaces, options).questions]

    def _ask(
        self, queries: Sequence[QueryLike], where: Filter | None, namespaces: list[str] | None, options: QueryOptions
    ) -> _Asked:
        """Weigh the terms of each query, with feedback where it is asked for."""
        check_options(options)
        _check_sequence(queries)
        asked = [Query.of(query, syntax=options.get("syntax", False)) for query in queries]
        completing, method = any(query.has_prefix for query in asked), feedback_of(options)
        with self._lock:  # a write in another thread must not change the statistics halfway through
            encoder, corpus = self._query_side(namespaces, options, completing=completing)
            weighed = _Asked.of([encoder.terms(query, corpus) for query in asked], encoder, corpus)
        if method is None:
            return weighed
        relevant = self._relevant(weighed.questions, method.fb_docs, where, namespaces, options)
        irrelevant = self._marked("irrelevant", namespaces, options)
        with self._lock:
            encoder, corpus = self._query_side(namespaces, options, completing=completing)
            term_of = self._log.vocabulary().term
            terms = [
                learn(method, query, Evidence(chunks, irrelevant, encoder, corpus, term_of))
                for query, chunks in zip(asked, relevant, strict=True)
            ]
            return _Asked.of(terms, encoder, corpus)

    def _relevant(
        self,
        asked: list[_Question],
        fb_docs: int,
        where: Filter | None,
        namespaces: list[str] | None,
        options: QueryOptions,
    ) -> list[list[FeedbackChunk]]:
        """Return the chunks that each query learns from: those that are marked, or else the best ones."""
        if options.get("relevant") is not None or options.get("irrelevant") is not None:
            return [self._marked("relevant", namespaces, options)] * len(asked)
        found = self._search(asked, fb_docs, where, namespaces, options)
        pks = {match.row.pk for matches in found for match in matches}
        rows = {row.pk: row for row in self._store.get_chunks(sorted(pks), contents=False, vectors=True)}
        return [
            [
                FeedbackChunk(match.row.id, rows[match.row.pk].vector, match.score)
                for match in matches
                if match.row.pk in rows  # it may have been deleted since
            ]
            for matches in found
        ]

    def _marked(
        self, name: Literal["relevant", "irrelevant"], namespaces: list[str] | None, options: QueryOptions
    ) -> list[FeedbackChunk]:
        """Read the chunks that are marked; an id stands for the chunks that have it in any of the namespaces."""
        ids = list(dict.fromkeys(check_ids(options.get(name) or [])))
        if not ids:
            return []
        spaces = self._log.statistics.namespaces if namespaces is None else dict.fromkeys(namespaces)
        rows = [row for space in spaces for row in self._rows(ids, space, vectors=True).values()]
        missing = sorted(set(ids) - {row.id for row in rows})
        if missing:
            msg = f"no chunk {missing[0]!r}, which is given as {name}, in the namespaces of the search"
            raise ChunkNotFoundError(msg)
        return [FeedbackChunk(row.id, row.vector) for row in rows]

    def _query_side(
        self, namespaces: list[str] | None, options: QueryOptions, *, completing: bool = False
    ) -> tuple[QueryEncoder, CorpusStatistics]:
        """Return what weighs a query: the config's side with what was asked to differ, and the statistics."""
        check_options(options)
        weighting = weighting_of(self.config.query_weighting(), options)
        self._refresh_if_due()
        expander = self._expander(options.get("expansion") or QueryExpansion(), completing=completing)
        encoder = QueryEncoder(self._analyzer, weighting, TermIds(self._log.displaced), expander)
        return encoder, self._log.statistics.of(None if options.get("statistics") == "all" else namespaces)

    def _expander(self, expansion: QueryExpansion, *, completing: bool) -> Expander:
        """Return what adds terms; the vocabulary is read only where near spellings or prefixes need it."""
        lookup = self._terms_of_vocabulary() if completing or expansion.fuzzy is not None else None
        return Expander(self._analyzer, expansion, self._synonym_table(expansion.synonyms), lookup)

    def _synonym_table(self, synonyms: Synonyms | None) -> SynonymTable | None:
        """Return synonyms as tokens; those of the last search are kept."""
        if synonyms is None:
            return None
        if self._synonyms is None or self._synonyms[0] is not synonyms:
            self._synonyms = synonyms, SynonymTable(synonyms, self._analyzer)
        return self._synonyms[1]

    def _terms_of_vocabulary(self) -> TermLookup:
        self._lookup.update(self._log.vocabulary())
        return self._lookup

    def _search(
        self,
        asked: list[_Question],
        k: int,
        where: Filter | None,
        namespaces: list[str] | None,
        options: QueryOptions,
    ) -> list[list[Match]]:
        """Find the best k chunks for each query; one without weights finds none, without a call."""
        found: list[list[Match]] = [[] for _ in asked]
        positions = [position for position, question in enumerate(asked) if len(question.vector)]
        if positions:
            needed, wanted = self._needed(namespaces), options.get("min_should_match")
            answers = best(
                lambda some, limit: self._store.search(
                    [question.vector for question in some], limit=limit, where=where, namespaces=needed
                ),
                [asked[position] for position in positions],
                k,
                namespaces,
                limit=k if wanted is None else min(OVERFETCH * k, MAX_K),
                keep=None if wanted is None else partial(self._with_enough_words, wanted),
            )
            for position, matches in zip(positions, answers, strict=True):
                found[position] = matches
        return found

    def _with_enough_words(self, wanted: int | str, asked: _Question, matches: list[Match]) -> list[Match]:
        """Leave out the chunks with too few words of the query, by their stored vectors."""
        least = required_words(wanted, len(asked.terms.words))
        rows = self._store.get_chunks([match.row.pk for match in matches], contents=False, vectors=True)
        enough = {row.pk for row in rows if len(asked.terms.words_had_by(row.vector)) >= least}
        return [match for match in matches if match.row.pk in enough]

    def _counted(
        self, pending: Iterator[list[NewChunk]], workers: int
    ) -> Generator[tuple[list[NewChunk], CountedChunks | None], None, None]:
        """Have batches counted by workers, where there are some; the writer counts the others."""
        if not workers:
            yield from ((batch, None) for batch in pending)
            return
        pool = self._pool(workers)
        try:
            yield from pool.count(pending)
        except WorkerError:
            self._pools.pop(workers, None)  # the next call starts others
            pool.close()
            raise

    def _pool(self, workers: int) -> Workers:
        """Return the pool of that many workers, which is made once."""
        with self._lock:
            if workers not in self._pools:
                self._pools[workers] = Workers(self.config, workers)
            return self._pools[workers]

    def _dense_field(self, name: str) -> DenseField:
        dense = self.config.dense_field()
        if dense is None:
            msg = f"{name}, but {self._store.name} has no dense vectors: it was created without dense_dim"
            raise InputError(msg)
        return dense

    def _dense_arm(
        self, embedding: Sequence[float], limit: int, where: Filter | None, namespaces: list[str] | None
    ) -> SearchArm:
        dense = self._dense_field("embedding given")
        row = as_matrix("embedding", [embedding], 1, dense)[0]
        return SearchArm(row, dense.metric, limit, where, self._needed(namespaces))

    def _with_embeddings(
        self, chunks: list[NewChunk], embeddings: Embeddings | None
    ) -> tuple[list[NewChunk], Callable[[list[str]], NDArray[np.float32]] | None]:
        """Give the chunks their dense vectors, or return what will make them."""
        if embeddings is None:
            if self.config.dense_dim is not None:
                msg = f"embeddings must be given: {self._store.name} has dense_dim={self.config.dense_dim}"
                raise InputError(msg)
            return chunks, None
        dense = self._dense_field("embeddings given")
        if callable(embeddings):
            return chunks, calling(embeddings, dense)
        matrix = as_matrix("embeddings", embeddings, len(chunks), dense)
        return [replace(chunk, dense=row) for chunk, row in zip(chunks, matrix, strict=True)], None

    def _embedded(
        self,
        namespace: str,
        chunks: list[NewChunk],
        embed: Callable[[list[str]], NDArray[np.float32]],
        *,
        assume_new: bool,
    ) -> list[NewChunk]:
        """Embed the texts that are not stored with their vector; searches in other threads go on meanwhile."""
        stored = {} if assume_new else self._rows([chunk.id for chunk in chunks], namespace, dense=True)
        known = {id_: row.dense for id_, row in stored.items()}
        new = [chunk for chunk in chunks if chunk.id not in stored or stored[chunk.id].text != chunk.text]
        if new:
            known.update(zip((chunk.id for chunk in new), embed([chunk.text for chunk in new]), strict=True))
        return [replace(chunk, dense=known[chunk.id]) for chunk in chunks]

    def _needed(self, namespaces: list[str] | None) -> list[str] | None:
        """Leave out a namespace filter that every row passes; only an embedded engine can be sure of that."""
        all_of_them = namespaces is not None and set(self._log.statistics.namespaces) <= set(namespaces)
        return None if self._store.exclusive and all_of_them else namespaces

    def _ids(self, where: Filter | None, namespace: str) -> list[str]:
        """Find the chunks that fit a filter."""
        found = self._store.scan_chunks(where=where, namespaces=[namespace])
        return [row.id for rows in found for row in rows]

    def _rows(
        self, ids: list[str], namespace: str, *, vectors: bool = False, dense: bool = False
    ) -> dict[str, ChunkRow]:
        """Read the newest row of each chunk."""
        pks = [pk_digest(namespace, id_) + slot for id_ in ids for slot in "ab"]
        rows = self._store.get_chunks(pks, contents=True, vectors=vectors, dense=dense)
        return {row.id: row for row in sorted(rows, key=lambda row: row.batch)}

    def _chunk_facts(self, row: ChunkRow) -> ChunkFacts:
        tf = Counter(self._analyzer(row.text))
        config = self.config
        return ChunkFacts(row.id, tf, row.length, row.vector, config.document_weighting(), config.length_unit)


def _open_config(
    store: Store, log: StatisticsLog, config: IndexConfig | None, *, read_only: bool, repair: bool
) -> IndexConfig:
    """Return the config of a stored index, after checking the given one; or create the index."""
    exists = store.exists()
    stored = log.read_config(salvage=repair) if exists else None
    if stored is not None:
        return config_from_dict(stored, config)
    if exists and not (repair and config) and store.count_chunks():
        msg = f"{store.name} is damaged: its config is lost; open it with repair=True and the config that it had"
        raise FormatError(msg)
    if config is None or read_only:
        raise _not_found(f"in {store.name}")
    store.create(config.dense_field())
    log.write_config(config_to_dict(config, contract_of(config.build_analyzer())))
    return config


def _not_found(name: str) -> IndexNotFoundError:
    msg = f"there is no index {name}; to create it, pass config=IndexConfig(chunk_size=...)"
    return IndexNotFoundError(msg)


def _names(namespace: str | Sequence[str] | None) -> list[str] | None:
    """Return namespaces as a list, None for all."""
    if namespace is None:
        return None
    names = [namespace] if isinstance(namespace, str) else namespace
    if not isinstance(names, Sequence) or not names:
        msg = "namespace must be a str, a non-empty sequence of str, or None for all"
        raise InputError(msg)
    return [check_namespace(name) for name in names]


def _check_sequence(queries: Sequence[QueryLike]) -> None:
    if isinstance(queries, str) or not isinstance(queries, Sequence):
        msg = f"queries must be a sequence of str, got {type(queries).__name__}"
        raise InputError(msg)


def _check_k(k: int) -> None:
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= MAX_K:
        msg = f"k must be an int in 1..{MAX_K}, got {k!r}"
        raise InputError(msg)


def _hit(match: Match) -> Hit:
    row = match.row
    return Hit(row.id, match.score, row.text, row.metadata, row.namespace)
