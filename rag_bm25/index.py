"""The index: the one place where chunks and statistics move together."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import asdict, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, NoReturn

from rag_bm25.analysis import Analyzer, contract_of
from rag_bm25.chunk_writer import ChunkWriter
from rag_bm25.chunks import (
    AddReport,
    Chunk,
    Hit,
    HybridHit,
    NewChunk,
    batches,
    check_distinct,
    check_id,
    check_ids,
    check_namespace,
    check_texts,
    given_parts,
    new_chunks,
)
from rag_bm25.config import IndexConfig, config_from_dict, config_to_dict, require_same
from rag_bm25.damage import damage_message
from rag_bm25.document_encoder import DocumentEncoder, FieldCounts
from rag_bm25.embeddings import as_matrix, as_vector, calling, check_repeated
from rag_bm25.errors import (
    ChunkNotFoundError,
    FormatError,
    IndexNotFoundError,
    InputError,
    ParameterError,
    ReadOnlyError,
    StoreError,
    shown,
)
from rag_bm25.events import Events
from rag_bm25.explanation import ChunkFacts, Explanation, QueryFacts, explain
from rag_bm25.fields import check_field_values
from rag_bm25.filters import both, parse_filter
from rag_bm25.fusion import RRF, Weighted
from rag_bm25.hybrid import Arms, SearchArm, search_arm, search_hybrid
from rag_bm25.index_stats import IndexStats
from rag_bm25.parameters import (
    check_callable,
    check_int,
    check_parameter,
    check_path,
    check_switch,
    comparable,
    is_iterable,
)
from rag_bm25.portable import read_statistics, write_statistics
from rag_bm25.query import Query
from rag_bm25.query_options import QueryOptions, check_options
from rag_bm25.ranking import MAX_K, newest
from rag_bm25.reencoding import ReencodeReport, survey
from rag_bm25.search_params import check_search_params
from rag_bm25.searcher import Searcher, newest_rows, rows_by_namespace
from rag_bm25.source_roots import SourceRoot, drop_damaged_roots, forget_roots, read_roots, remember_roots
from rag_bm25.sparse import EMPTY
from rag_bm25.spelling import Fuzzy
from rag_bm25.statistics_log import StatisticsLog
from rag_bm25.terms import TermIds
from rag_bm25.verification import RepairReport, VerifyReport, repair, require_same_vectors, verify
from rag_bm25.weightings import WEIGHTINGS
from rag_bm25.workers import CountingAhead, CountingThread, WorkerPools, check_workers

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from pathlib import Path
    from types import TracebackType

    import numpy as np
    from numpy.typing import NDArray
    from typing_extensions import Unpack

    from rag_bm25.chunks import GivenChunk
    from rag_bm25.embeddings import Embed, Embeddings
    from rag_bm25.events import Event
    from rag_bm25.filters import Filter
    from rag_bm25.fusion import Fusion
    from rag_bm25.query import QueryLike
    from rag_bm25.query_options import StatisticsScope
    from rag_bm25.search_params import SearchParams
    from rag_bm25.sparse import SparseVector
    from rag_bm25.store import ChunkRow, ConsistencyLevel, DenseField, Match, Store
    from rag_bm25.tls import TLS
    from rag_bm25.workers import Pool

__all__ = ["BM25Index"]

COUNT_ATTEMPTS = 3  # other writers may be at work between two of its calls
CANDIDATES = 100
"""How many chunks each arm of a hybrid search brings by default."""


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
    damage : list of str
        What is wrong with the statistics as far as reading them shows; empty where all is well. It is logged as a
        warning, too. :meth:`repair` mends it.

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
        self._seen_writes = 0  # of other stores of this process, as of the last refresh
        self._next_recovery = 0.0
        self._wrong_count = ""
        self._told: list[str] | None = None  # None until the index has been opened
        self._lock = threading.RLock()
        self._analyzer = config.build_analyzer()
        self._encoder = DocumentEncoder(self._analyzer, config.document_weighting(), config.length_unit)
        self._writer = ChunkWriter(store, log, self._encoder)
        self._searcher = self._new_searcher()
        self._pools = WorkerPools(config)
        self._is_open = True

    # Life

    @classmethod
    def open(
        cls,
        uri: str | Path,
        collection: str,
        *,
        config: IndexConfig | None = None,
        token: str | None = None,
        tls: TLS | None = None,
        timeout: float | None = None,
        read_only: bool = False,
        repair: bool = False,
        refresh_interval: float = 1.0,
        consistency: ConsistencyLevel = "Session",
        on_event: Callable[[Event], None] | None = None,
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
        tls : TLS, optional
            Certificates for an ``https://`` address, where no public authority has signed the server's.
        timeout : float, optional
            Seconds that one call to the server may take.
        read_only : bool
            Refuse every write, and write nothing when opening.
        repair : bool
            Call :meth:`repair` before anything is read, for an index whose statistics are damaged; its report is
            `repaired`. Where the stored config is lost too, `config` takes its place.
        refresh_interval : float
            On a server: seconds for which a search may use statistics without asking for newer ones.
        consistency : {"Strong", "Bounded", "Session", "Eventually"}
            On a server: which writes a search of the chunks waits for. "Session" waits for those of this process,
            "Bounded" also for those of others that are older than some seconds, "Strong" for all. What a write, a
            recount or a refresh reads is always Strong.
        on_event : callable of Event to None, optional
            Told of every batch, recovery, search and so on, for counters and timings: see :mod:`rag_bm25.events`.

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

        _check_opening(config, read_only, repair, refresh_interval, on_event)
        if is_missing_file(uri) and (config is None or read_only):
            raise _not_found(f"{collection!r} at {uri}")
        store = MilvusStore(
            uri, collection, token=token, tls=tls, timeout=timeout, read_only=read_only, consistency=consistency
        )
        return cls.from_store(
            store,
            config=config,
            read_only=read_only,
            repair=repair,
            refresh_interval=refresh_interval,
            on_event=on_event,
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
        on_event: Callable[[Event], None] | None = None,
    ) -> BM25Index:
        """Open or create an index in a store of one's own.

        Parameters
        ----------
        store : Store
            Closed by the index, also where opening fails.
        config, read_only, repair, refresh_interval, on_event
            As for :meth:`open`.

        Returns
        -------
        BM25Index
            The index.
        """
        try:
            _check_opening(config, read_only, repair, refresh_interval, on_event)
            with store.write_lock:  # an intent found under it is a dead writer's
                log = StatisticsLog(store, Events(store.name, on_event))
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
        self._is_open = False
        self._pools.close()
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

    def __repr__(self) -> str:
        """Return name, number of chunks as far as it is known here, and whether it is open; Milvus is not asked."""
        num_chunks = self._log.statistics.whole.num_chunks
        return f"<BM25Index {self._store.name}: {num_chunks:,} chunks, {'open' if self._is_open else 'closed'}>"

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled or copied, as everything does that holds a connection."""
        msg = "an index cannot be pickled or copied, nor what holds one: open it in each process"
        raise TypeError(msg)

    @property
    def damage(self) -> list[str]:
        """What is wrong with the statistics, one clause each."""
        with self._lock:
            return [*self._log.damage, *([self._wrong_count] if self._wrong_count else [])]

    def refresh(self) -> None:
        """Read at once what other writers have added to the statistics."""
        self._read_log()
        self._finish_what_failed()

    def _read_log(self) -> None:
        """Read the log, and say so where it has got damaged."""
        with self._log.events.held(), self._lock:
            seen = self._store.writes_of_others
            self._next_refresh = time.monotonic() + self._refresh_interval  # first: a hook may search meanwhile
            self._log.refresh()
            self._seen_writes = seen
            if self._told is not None:
                self._tell_damage()

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
            One for each text, 1 to 512 bytes; None, as by default, stands for a hash of text and metadata. The same
            chunk twice is one chunk; two with one id that differ are refused.
        metadatas : sequence of mappings, optional
            One for each text, JSON values only; what is under the names of the config's `fields` must be text.
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
            call this below ``if __name__ == "__main__":``. By default a thread does so, from the second batch on.

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
        check_switch("assume_new", assume_new)
        namespace = check_namespace(namespace)
        chunks = new_chunks(texts, ids, metadatas)
        check_field_values([chunk.metadata for chunk in chunks], self.config.fields)
        check_distinct(chunks)
        chunks, embed = self._with_embeddings(chunks, embeddings)
        distinct = list({chunk.id: chunk for chunk in chunks}.values())
        with closing(self._written(namespace, distinct, embed, assume_new=assume_new, workers=workers)) as written:
            deque(written, maxlen=0)
        return [chunk.id for chunk in chunks]

    def add_stream(
        self,
        chunks: Iterable[GivenChunk],
        *,
        embeddings: Embed | None = None,
        namespace: str = "",
        assume_new: bool = False,
        workers: int = 0,
        progress: Callable[[AddReport], object] | None = None,
    ) -> AddReport:
        """Insert or update any number of chunks, with no more of them in memory than a few batches.

        They are taken one by one from whatever yields them, in the thread of the caller, and checked one by one: where
        one breaks a rule, or taking the next one fails, the batches before are written, and the one that it would have
        been in is not. Calling again with the same chunks writes what is missing.

        Parameters
        ----------
        chunks : iterable of GivenChunk
            Whatever has `id`, `text` and `metadata`, such as :class:`Chunk`; the rules are those of :meth:`add`. An id
            that comes again updates what came before it.
        embeddings : callable of list of str to array_like of float, optional
            Needed where the index has dense vectors, and only there.
        namespace, assume_new, workers
            As for :meth:`add`.
        progress : callable of AddReport to None, optional
            Told after each batch what became of all chunks so far.

        Returns
        -------
        AddReport
            How many were added, updated and unchanged.

        Raises
        ------
        InputError
            A chunk breaks a rule; the message has its number in the stream, from 0.
        StoreError, WorkerError
            As for :meth:`add`.

        Examples
        --------
        From another index, or from a generator over a file of any size::

            index.add_stream(other.chunks())
            index.add_stream(Chunk(row["id"], row["text"], {"page": row["page"]}) for row in rows)
        """
        self._require_writable()
        check_workers(workers)
        check_switch("assume_new", assume_new)
        check_callable("progress", progress)
        namespace = check_namespace(namespace)
        if not is_iterable(chunks):
            msg = f"chunks must be an iterable of chunks, got {type(chunks).__name__}"
            raise InputError(msg)
        if not (embeddings is None or callable(embeddings)):
            msg = f"embeddings of a stream must be a callable, got {type(embeddings).__name__}"
            raise InputError(msg)
        _, embed = self._with_embeddings([], embeddings)
        report = AddReport()
        checked = self._checked(chunks)
        with closing(self._written(namespace, checked, embed, assume_new=assume_new, workers=workers)) as written:
            for batch in written:
                report += batch
                if progress is not None:
                    progress(report)
        return report

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
        namespace = check_namespace(namespace)
        if (ids is None) == (filter is None):
            msg = "delete needs ids or a filter, and not both"
            raise InputError(msg)
        where = parse_filter(filter)
        if ids is None and where is None:
            msg = "delete needs a filter that is not empty; to delete a whole namespace, use drop_namespace"
            raise InputError(msg)
        found = self._ids(where, namespace) if ids is None else check_ids(ids)
        with self._writing():
            return self._writer.delete(namespace, found)

    def drop_namespace(self, namespace: str) -> int:
        """Delete all chunks of a namespace, and forget its source roots.

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
        namespace = check_namespace(namespace)
        found = self._ids(None, namespace)
        with self._writing():
            deleted = self._writer.delete(namespace, found)
            forget_roots(self._store, namespace, self._log.new_batch)
            return deleted

    def remember_source_roots(self, roots: Sequence[SourceRoot], *, namespace: str = "") -> list[SourceRoot]:
        """Store folders that sources are named by, as :func:`rag_bm25.ingestion.ingest` does.

        Parameters
        ----------
        roots : sequence of SourceRoot
            Each with the version that it replaces, "" for a name that is new.
        namespace : str
            Whose chunks they name.

        Returns
        -------
        list of SourceRoot
            Those that count afterwards. Where another process has stored one of the names, none of the given ones was.
        """
        self._require_writable()
        namespace = check_namespace(namespace)
        if not isinstance(roots, Sequence) or not all(isinstance(root, SourceRoot) for root in roots):
            msg = f"roots must be a sequence of SourceRoot, got {shown(roots)}"
            raise InputError(msg)
        with self._writing():
            return remember_roots(self._store, namespace, roots, self._log.new_batch)

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
        check_callable("progress", progress)
        with self._writing(recovering=False):
            with self._log.events.timed("repair") as counts:
                report = repair(self._store, self._log, self._encoder, progress)
                counts.update(asdict(report))
            drop_damaged_roots(self._store)
            self._read_anew()
            return report

    def reencode(self, *, progress: Callable[[int, int], None] | None = None) -> ReencodeReport:
        """Work out the k1 of each term again, and encode all chunks with it; for ``bm25-adpt`` and ``bm25t``.

        These weightings take the k1 of a term from its frequencies in all chunks, which changes as chunks come and go;
        a stored vector does not. Until the first call every term has the config's k1; afterwards those that enough is
        known of have their own, in chunks that are added later, too. Call it after the first large ingestion, and when
        the index has grown by half or so: k1 follows the shape of a distribution, and moves slowly.

        With every other weighting a vector depends on its chunk alone, and nothing is read or written. Searches go on
        meanwhile, over vectors of both tables; chunks that are added meanwhile get the new one, too. A call that is cut
        short can be made again, and writes only what is missing. N and df do not change.

        Parameters
        ----------
        progress : callable of (int, int) to None, optional
            Told from time to time how many chunks were read or written, and how many it will be: each is met twice.

        Returns
        -------
        ReencodeReport
            What was done.
        """
        self._require_writable()
        check_callable("progress", progress)
        with self._log.events.held(), self._lock:
            self._log.refresh()
        if not WEIGHTINGS[self.config.weighting].k1_per_term:
            return ReencodeReport.of(self._log.statistics.whole.num_chunks, 0, EMPTY)
        total = 2 * self._log.statistics.whole.num_chunks
        tell = (lambda _done, _total: None) if progress is None else progress
        chunks, term_k1 = survey(self._store, self._log, self._encoder, lambda read: tell(read, max(total, 2 * read)))
        with self._writing():
            self._log.write_term_k1(term_k1)
        for rows in self._store.scan_chunks():  # what was added during the survey has k1 of the last table
            chunks.note_latecomers(rows)
        done = reencoded = 0
        for namespace, digests in chunks.batches():
            with self._writing():
                reencoded += self._writer.reencode(namespace, digests)
            done += len(digests)
            tell(len(chunks) + done, 2 * len(chunks))
        return ReencodeReport.of(done, reencoded, term_k1)

    def export_statistics(self, path: str | Path) -> None:
        """Write N, df, lengths and the vocabulary to one portable file.

        Parameters
        ----------
        path : str or Path
            Where to; gzip of JSON lines, see :mod:`rag_bm25.portable`.
        """
        file = check_path("path", path)
        with self._log.events.held(), self._lock:
            self.refresh()
            write_statistics(file, self._stored_config(), self._log.statistics, self._log.vocabulary())

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
        config, totals, vocabulary = read_statistics(check_path("path", path))
        require_same(config, self.config)
        with self._writing():
            self._log.replace(totals, vocabulary)
            self._read_anew()

    # Reading

    def source_roots(self, *, namespace: str = "") -> list[SourceRoot]:
        """Return the folders and files that sources are named by.

        Parameters
        ----------
        namespace : str
            Whose chunks they name.

        Returns
        -------
        list of SourceRoot
            By name; none where no files were ingested.
        """
        return read_roots(self._store, check_namespace(namespace))

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
        wanted = check_ids(ids)
        namespace = check_namespace(namespace)
        self._finish_what_failed()
        found = newest_rows(self._store, wanted, namespace)
        return [Chunk.of(found[id_]) for id_ in dict.fromkeys(wanted) if id_ in found]

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
        wanted, namespace = check_ids(ids), check_namespace(namespace)
        self._finish_what_failed()
        rows = newest_rows(self._store, wanted, namespace, dense=True)
        return {id_: row.dense for id_, row in rows.items() if row.dense is not None}

    def chunks(
        self,
        *,
        filter: Mapping[str, Any] | str | None = None,
        namespace: str | Sequence[str] | None = "",
    ) -> Iterator[Chunk]:
        """Stream all chunks, or those that fit a filter.

        The first thousand are read by the call itself, so that it raises what there is to raise.

        Parameters
        ----------
        filter : mapping or str, optional
            As for :meth:`search`.
        namespace : str, sequence of str or None
            Whose chunks; None for all.

        Returns
        -------
        iterator of Chunk
            In no particular order.

        Raises
        ------
        InputError, FilterError
            A namespace breaks a rule, the filter cannot be read, or Milvus refuses it.
        """
        where, names = parse_filter(filter), _names(namespace)
        self._finish_what_failed()
        pages = self._store.scan_chunks(where=where, namespaces=names, contents=True)
        first = next(pages, [])
        return map(Chunk.of, newest(chain(first, chain.from_iterable(pages))))

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
            `query` is something else, or a boost is out of its range.
        FilterError
            The filter cannot be read, or Milvus refuses it.
        ParameterError
            `k` or an option is out of its range.
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
        asked = self._searcher.ask(queries, where, namespaces, options)
        found = self._searcher.search(asked.questions, k, where, namespaces, options)
        return [[_hit(match) for match in matches] for matches in found]

    def search_dense(
        self,
        embedding: Sequence[float],
        k: int = 10,
        *,
        filter: Mapping[str, Any] | str | None = None,
        namespace: str | Sequence[str] | None = "",
        search_params: SearchParams | None = None,
    ) -> list[Hit]:
        """Return the chunks whose dense vectors are most similar.

        Parameters
        ----------
        embedding : sequence of float, shape (dense_dim,)
            The query's dense vector.
        k, filter, namespace
            As for :meth:`search`.
        search_params : mapping of str to str, bool, int or float, optional
            What Milvus is told about the search, such as ``{"ef": 200}``; which there are depends on the engine.

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
        arm = self._dense_arm(embedding, k, parse_filter(filter), names, check_search_params(search_params))
        self._finish_what_failed()
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
        dense_search_params: SearchParams | None = None,
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
            How two scores become one, see :mod:`rag_bm25.fusion`; by default :class:`~rag_bm25.fusion.RRF`.
        sparse_k, dense_k : int, optional
            How many candidates each search brings; by default 100, or `k` where that is more.
        filter, sparse_filter, dense_filter : mapping or str, optional
            Conditions for both searches, and for one of them in addition; as for :meth:`search`.
        arm_scores : bool
            Whether the hits are to have the scores of both searches; it changes nothing else.
        dense_search_params : mapping of str to str, bool, int or float, optional
            As `search_params` for :meth:`search_dense`; the option of that name is for the lexical search.
        namespace, **options
            As for :meth:`search`, but for `min_should_match`: no vector can hold it.

        Returns
        -------
        list of HybridHit
            By falling fused score, then by id.

        Raises
        ------
        InputError, FilterError, ParameterError
            As for :meth:`search` and :meth:`search_dense`.
        """
        for name, limit in (("k", k), ("sparse_k", sparse_k), ("dense_k", dense_k)):
            _check_k(k if limit is None else limit, name)
        _check_fusion(fusion)
        check_switch("arm_scores", arm_scores)
        names, common = _names(namespace), parse_filter(filter)
        where, limit = both(common, parse_filter(sparse_filter)), sparse_k or max(k, CANDIDATES)
        vector = self._vectors([query], where, names, options)[0]
        needed, params = self._searcher.needed(names), options.get("search_params")
        sparse = SearchArm(vector, "IP", limit, where, needed, params)
        where, limit = both(common, parse_filter(dense_filter)), dense_k or max(k, CANDIDATES)
        params = check_search_params(dense_search_params, "dense_search_params")
        dense = self._dense_arm(embedding, limit, where, names, params)
        self._check_bound(fusion)
        arms = Arms(sparse, dense, names, self._greatest_score(vector))
        return search_hybrid(self._store, arms, fusion or RRF(), k, arm_scores=arm_scores)

    def encode_documents(
        self, texts: Sequence[str], metadatas: Sequence[Mapping[str, Any]] | None = None
    ) -> list[SparseVector]:
        """Return the vectors that chunks of these texts have; nothing is stored or counted.

        Parameters
        ----------
        texts : sequence of str
            Any number.
        metadatas : sequence of mappings, optional
            One for each text, where the index has fields.

        Returns
        -------
        list of SparseVector
            Document weights; ``{0: 1.0}`` for a text without terms.

        Raises
        ------
        InputError
            A text is not a str, or a metadata no mapping or without the text of a field.
        """
        plain, checked = check_texts(texts, metadatas)
        check_field_values(checked or [], self.config.fields)
        with self._lock:
            ids = TermIds(self._log.displaced)
            term_k1 = self._log.term_k1
        return list(self._encoder.encode(plain, ids, checked, term_k1).vectors)

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
            Query weights, all > 0; empty where no term is known. No score is above what :meth:`greatest_scores` makes
            of them.

        Raises
        ------
        ParameterError
            `min_should_match` is given, which no vector can hold, or an option is out of its range.
        """
        vectors = self._vectors(queries, parse_filter(filter), _names(namespace), options)
        return [replace(each, ids=each.ids.copy(), values=each.values.copy()) for each in vectors]  # the caller's own

    def greatest_scores(
        self,
        queries: Sequence[QueryLike],
        *,
        filter: Mapping[str, Any] | str | None = None,
        namespace: str | Sequence[str] | None = "",
        **options: Unpack[QueryOptions],
    ) -> list[float]:
        """Return the greatest score that any chunk could have for each query, to bring scores to 0..1.

        Parameters
        ----------
        queries : sequence of str, mapping or Query
            Any number, as for :meth:`search`.
        filter, namespace, **options
            As for :meth:`search`; the filter matters where there is a first search for feedback.

        Returns
        -------
        list of float
            The sum of each query's weights, times the upper bound of the weighting (1 for ``bm25``); 0 where no term is
            known.

        Raises
        ------
        ParameterError
            The weighting has no upper bound, or an option is out of its range.
        """
        if math.isinf(self._encoder.weighting.bounds[1]):
            name = self.config.weighting
            msg = f"greatest scores, and relevance scores by them, need a weighting with an upper bound, got {name!r}"
            raise ParameterError(msg)
        asked = self._searcher.ask(queries, parse_filter(filter), _names(namespace), options)
        return [self._greatest_score(question.vector) for question in asked.questions]

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
        InputError
            `query` is no str, or too long.
        ParameterError
            `fuzzy` or `statistics` is something else.
        MissingExtraError
            rapidfuzz is not installed.
        """
        if not isinstance(query, str):
            msg = f"a query must be a str, got {type(query).__name__}"
            raise InputError(msg)
        if not isinstance(fuzzy, Fuzzy | None):
            msg = f"fuzzy must be a Fuzzy or None, got {shown(fuzzy)}"
            raise ParameterError(msg)
        text = str(Query.of(query))
        return self._searcher.corrected(text, fuzzy or Fuzzy(), _names(namespace), statistics)

    def explain(
        self,
        query: QueryLike,
        id: str,
        *,
        filter: Mapping[str, Any] | str | None = None,
        namespace: str | Sequence[str] | None = "",
        chunk_namespace: str | None = None,
        **options: Unpack[QueryOptions],
    ) -> Explanation:
        """Explain the score of a chunk, or why a search does not find it.

        Everything but `id` and `chunk_namespace` is as it was given to the search.

        Parameters
        ----------
        query : str, mapping of str to float, or Query
            The query.
        id : str
            The chunk's id.
        filter : mapping or str, optional
            As for :meth:`search`; it matters where there is a first search for feedback.
        namespace : str, sequence of str or None
            As for :meth:`search`: whose chunks were searched, and so whose statistics count; None for all.
        chunk_namespace : str, optional
            In which of the searched namespaces the chunk is, such as the `namespace` of a hit; needed where several
            have a chunk of that id.
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
        InputError
            `chunk_namespace` was not searched, or is not given and several namespaces have a chunk of that id.

        Examples
        --------
        Of a search over several namespaces::

            searched = ["laws", "contracts"]
            for hit in index.search("解除 合同", namespace=searched):
                print(index.explain("解除 合同", hit.id, namespace=searched, chunk_namespace=hit.namespace))
        """
        check_options(options)
        asked = Query.of(query, syntax=options.get("syntax", False))
        names, id_ = _names(namespace), check_id("id", id)
        place = _check_place(chunk_namespace, names)
        weighed = self._searcher.ask([asked], parse_filter(filter), names, options)
        row = self._explained(id_, names if place is None else [place])
        stop_words = self._analyzer.stop_words_in(str(asked)) if isinstance(self._analyzer, Analyzer) else []
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
        self._refresh_if_due()
        with self._lock:
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
        check_callable("progress", progress)
        with self._store.write_lock, self._lock:
            self._read_log()
            if not self._read_only and self._has_failed_batch():
                self._writer.recover()  # else what it has done would be taken for a difference
            with self._log.events.timed("verify") as counts:
                report = verify(self._store, self._log, progress)
                self._wrong_count = "" if report.ok else self._wrong_count
                counts.update(chunks=report.num_chunks, terms=report.num_terms, differences=len(report.differences))
            return report

    # Parts

    def _start(self) -> None:
        """Finish what dead writers left, read the statistics, and see whether they can be right."""
        if not self._read_only:
            self._log.refresh()
            self._writer.recover()
        self.refresh()
        self._look_for_damage()

    def _look_for_damage(self) -> None:
        """See whether the statistics can be right, and say so where they cannot."""
        self._log.check_terms()
        self._check_count()
        self._tell_damage()

    def _check_count(self) -> None:
        """Compare N with the number of stored rows, which are equal whenever no write is under way."""
        for _ in range(COUNT_ATTEMPTS):
            position, counted = self._log.position, self._log.statistics.whole.num_chunks
            if self._log.has_intents or counted == (stored := self._store.count_unloaded()):
                return
            self._log.refresh()
            if self._log.position == position:  # nothing was written in between
                self._wrong_count = f"the statistics count {counted:,} chunks, but {stored:,} are stored"
                return

    def _tell_damage(self) -> None:
        """Log what is wrong with the statistics, once."""
        found, told = self.damage, self._told
        self._told = found  # first: a hook may read meanwhile
        if found and found != told:
            self._log.events.warn("damage", damage_message(self._store.name, found), findings=len(found))

    def _finish_what_failed(self) -> None:
        """Finish a batch of this process that failed or was interrupted: until then, N and df are not those stored.

        Where that fails, as on a full disk, searches go on with the statistics that there are.
        """
        if self._read_only or not self._has_failed_batch() or time.monotonic() < self._next_recovery:
            return
        lock = self._store.write_lock
        if not lock.acquire(blocking=False):  # somebody writes, and begins or ends with that
            return
        try:
            with self._lock:
                self._log.refresh()
                self._writer.recover()
        except StoreError as error:
            self._next_recovery = time.monotonic() + self._refresh_interval
            self._log.events.warn("recovery", f"a batch that failed cannot be finished yet: {error}", chunks=0)
        finally:
            lock.release()

    def _has_failed_batch(self) -> bool:
        """Tell whether there is a batch of this process that nobody works on."""
        if self._writer.is_busy:  # a signal handler may read in the middle of a batch
            return False
        return self._writer.has_unfinished_batch or (self._store.exclusive and self._log.has_intents)

    def _read_anew(self) -> None:
        """Forget the statistics and read them from the store."""
        self._log = StatisticsLog(self._store, self._log.events)
        self._writer = ChunkWriter(self._store, self._log, self._encoder)
        self._searcher = self._new_searcher()
        self._wrong_count = ""
        self.refresh()
        if self._told is not None:
            self._look_for_damage()

    def _new_searcher(self) -> Searcher:
        return Searcher(self._store, self._log, self.config, self._analyzer, self._lock, self._refresh_if_due)

    def _stored_config(self) -> dict[str, Any]:
        return config_to_dict(self.config, contract_of(self._analyzer))

    def _require_writable(self) -> None:
        if self._read_only:
            msg = f"{self._store.name} was opened with read_only=True"
            raise ReadOnlyError(msg)

    @contextmanager
    def _writing(self, *, recovering: bool = True) -> Iterator[None]:
        """Keep other writers of this process out for a batch, and begin with what they have written.

        Their lock comes first: a search waits for `_lock` alone, which nobody holds who waits for another index.
        """
        with self._store.write_lock, self._lock:
            if recovering and self._store.exclusive and (self._others_wrote() or self._log.has_intents):
                self._read_log()
                self._writer.recover()  # the last batch of another index may have failed halfway
            yield

    def _others_wrote(self) -> bool:
        """Tell whether another index of this process has written to the log since the last refresh."""
        return self._store.writes_of_others != self._seen_writes

    def _refresh_if_due(self) -> None:
        """Look for the deltas of other writers; with an embedded engine all of them are in this process."""
        is_due = self._others_wrote() if self._store.exclusive else time.monotonic() >= self._next_refresh
        if is_due:
            self._read_log()
        self._finish_what_failed()

    def _vectors(
        self, queries: Sequence[QueryLike], where: Filter | None, namespaces: list[str] | None, options: QueryOptions
    ) -> list[SparseVector]:
        """Return what a search sends to Milvus."""
        if options.get("min_should_match") is not None:
            msg = "min_should_match is for search, search_batch and explain: no vector can hold it"
            raise ParameterError(msg)
        return [question.vector for question in self._searcher.ask(queries, where, namespaces, options).questions]

    def _written(
        self,
        namespace: str,
        chunks: Iterable[NewChunk],
        embed: Callable[[list[str]], NDArray[np.float32]] | None,
        *,
        assume_new: bool,
        workers: int,
    ) -> Generator[AddReport, None, None]:
        """Write chunks batch by batch; the next ones are counted meanwhile."""
        pending = batches(chunks, 4 * (self.config.dense_dim or 0))
        lent: AbstractContextManager[Pool] = (
            self._pools.lend(workers) if workers else closing(CountingThread(self._encoder))
        )
        with lent as pool, closing(CountingAhead(pending, pool)) as counting:
            for batch, count in counting:
                complete = batch if embed is None else self._embedded(namespace, batch, embed, assume_new=assume_new)
                with self._writing():
                    report = self._writer.add(namespace, complete, count=count, assume_new=assume_new)
                yield report

    def _checked(self, chunks: Iterable[GivenChunk]) -> Iterator[NewChunk]:
        """Check the chunks of a stream one by one; those that were checked before are taken as they are."""
        for number, chunk in enumerate(chunks):
            if isinstance(chunk, NewChunk):
                yield chunk
                continue
            try:
                id_, text, metadata = given_parts(chunk)
                (checked,) = new_chunks([text], [id_], [metadata])
                check_field_values([checked.metadata], self.config.fields)
            except InputError as error:
                msg = f"chunk {number} of the stream: {error}"
                raise InputError(msg) from None
            yield checked

    def _dense_field(self, name: str) -> DenseField:
        dense = self.config.dense_field()
        if dense is None:
            msg = f"{name}, but {self._store.name} has no dense vectors: it was created without dense_dim"
            raise InputError(msg)
        return dense

    def _dense_arm(
        self,
        embedding: Sequence[float],
        limit: int,
        where: Filter | None,
        namespaces: list[str] | None,
        params: SearchParams,
    ) -> SearchArm:
        dense = self._dense_field("embedding given")
        row = as_vector("embedding", embedding, dense)
        return SearchArm(row, dense.metric, limit, where, self._searcher.needed(namespaces), params)

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
        check_repeated([chunk.id for chunk in chunks], matrix)
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
        ids = [chunk.id for chunk in chunks]
        stored = {} if assume_new else newest_rows(self._store, ids, namespace, dense=True)
        known = {id_: row.dense for id_, row in stored.items()}
        new = [chunk for chunk in chunks if chunk.id not in stored or stored[chunk.id].text != chunk.text]
        if new:
            known.update(zip((chunk.id for chunk in new), embed([chunk.text for chunk in new]), strict=True))
        return [replace(chunk, dense=known[chunk.id]) for chunk in chunks]

    def _ids(self, where: Filter | None, namespace: str) -> list[str]:
        """Find the chunks that fit a filter."""
        found = self._store.scan_chunks(where=where, namespaces=[namespace])
        return [row.id for rows in found for row in rows]

    def _greatest_score(self, query: SparseVector) -> float:
        """Return what no score of a query is above, infinite where the weighting has no upper bound."""
        return self._encoder.weighting.bounds[1] * float(query.values.sum(dtype=float)) if len(query) else 0.0

    def _check_bound(self, fusion: Fusion | None) -> None:
        """Refuse a fusion that divides by an upper bound that the weighting does not have."""
        unbounded = math.isinf(self._encoder.weighting.bounds[1])
        if unbounded and isinstance(fusion, Weighted) and fusion.normalization == "bound":
            name = self.config.weighting
            msg = f"normalization must be 'min-max' with the weighting {name!r}, which has no upper bound"
            raise ParameterError(msg)

    def _explained(self, id_: str, names: list[str] | None) -> ChunkRow:
        """Read the one chunk that has an id in some namespaces."""
        rows = rows_by_namespace(self._store, id_, self._log.statistics.namespaces if names is None else names)
        if len(rows) == 1:
            return next(iter(rows.values()))
        if rows:
            msg = f"{len(rows)} namespaces have a chunk {id_!r}, {_listed(rows)}: say by chunk_namespace which is meant"
            raise InputError(msg)
        searched = "any namespace" if names is None else f"namespace{'s' * (len(names) > 1)} {_listed(names)}"
        msg = f"no chunk {id_!r} in {searched} of {self._store.name}"
        raise ChunkNotFoundError(msg)

    def _chunk_facts(self, row: ChunkRow) -> ChunkFacts:
        text = FieldCounts(Counter(self._analyzer(row.text)), row.length)
        fields = self._encoder.field_counts(row.metadata)
        weighting, unit = self._encoder.weighting, self.config.length_unit
        return ChunkFacts(row.id, text, fields, row.vector, weighting, unit, self._log.term_k1)


def _check_opening(
    config: object, read_only: object, repair: object, refresh_interval: object, on_event: object
) -> None:
    """Check how an index is to be opened, before anything is made."""
    if not isinstance(config, IndexConfig | None):
        msg = f"config must be an IndexConfig or None, got {shown(config)}"
        raise ParameterError(msg)
    check_switch("read_only", read_only)
    check_switch("repair", repair)
    at_least_0 = comparable(refresh_interval) >= 0
    check_parameter("refresh_interval", refresh_interval, "a finite number >= 0", at_least_0)
    check_callable("on_event", on_event)


def _stored_config(log: StatisticsLog, config: IndexConfig | None, *, repair: bool) -> IndexConfig | None:
    """Return the stored config, after checking the given one; None where there is none, or it is to be replaced."""
    stored = log.read_config(salvage=repair)
    try:
        return None if stored is None else config_from_dict(stored, config)
    except FormatError:
        if repair and config is not None:
            return None
        raise


def _open_config(
    store: Store, log: StatisticsLog, config: IndexConfig | None, *, read_only: bool, repair: bool
) -> IndexConfig:
    """Return the config of a stored index, after checking the given one; or create the index."""
    exists = store.exists()
    stored = _stored_config(log, config, repair=repair) if exists else None
    if stored is not None:
        return stored
    is_lost = store.has_chunks()
    if not exists and store.exists():  # another process has created it meanwhile
        return _open_config(store, log, config, read_only=read_only, repair=repair)
    if is_lost and (config is None or read_only or not repair):
        lost = "its config is lost" if exists else "its statistics are lost, with its config"
        msg = (
            f"{store.name} is damaged: {lost}; open it with repair=True and the config that it had, or run "
            "`rag-bm25 repair`, with --set for what was not the default"
        )
        raise FormatError(msg)
    if config is None or read_only:
        raise _not_found(f"in {store.name}")
    if is_lost:
        require_same_vectors(store, _encoder_of(config))
    store.create(config.dense_field())
    if not exists and not is_lost and store.log_keys():
        stored = _stored_config(log, config, repair=repair)  # another process may have created it meanwhile
        if stored is not None and (store.has_chunks() or not _counted(log)):
            return stored
        msg = f"{store.name} has rows of an index that was dropped halfway: drop it"
        raise FormatError(msg)
    log.write_config(config_to_dict(config, contract_of(config.build_analyzer())))
    return _stored_config(log, config, repair=repair) or config  # of several creators, the last one's counts


def _counted(log: StatisticsLog) -> int:
    """Read how many chunks the log has counted."""
    log.refresh()
    return log.statistics.whole.num_chunks


def _encoder_of(config: IndexConfig) -> DocumentEncoder:
    return DocumentEncoder(config.build_analyzer(), config.document_weighting(), config.length_unit)


def _not_found(name: str) -> IndexNotFoundError:
    msg = f"there is no index {name}; to create it, pass config=IndexConfig(chunk_size=...)"
    return IndexNotFoundError(msg)


def _names(namespace: str | Sequence[str] | None) -> list[str] | None:
    """Return namespaces as a list, None for all."""
    if namespace is None:
        return None
    names = [namespace] if isinstance(namespace, str) else namespace
    if isinstance(names, bytes) or not isinstance(names, Sequence) or not names:
        msg = f"namespace must be a str, a non-empty sequence of str, or None for all, got {shown(namespace)}"
        raise InputError(msg)
    return [check_namespace(name) for name in names]


def _check_place(chunk_namespace: str | None, searched: list[str] | None) -> str | None:
    """Check the namespace of a chunk that a search over some namespaces, or over all, is to have found."""
    if chunk_namespace is None:
        return None
    place = check_namespace(chunk_namespace, "chunk_namespace")
    if searched is not None and place not in searched:
        msg = f"chunk_namespace must be one of the namespaces that were searched, {_listed(searched)}, got {place!r}"
        raise InputError(msg)
    return place


def _listed(names: Iterable[str]) -> str:
    """Return names for a message: the first ones, where there are many."""
    found = sorted(set(names))
    return ", ".join(map(repr, found[:5])) + (f" and {len(found) - 5:,} more" if len(found) > 5 else "")


def _check_k(k: int, name: str = "k") -> None:
    check_int(name, k, 1, MAX_K)


def _check_fusion(fusion: object) -> None:
    if not isinstance(fusion, RRF | Weighted | None):
        msg = f"fusion must be RRF(...), Weighted(...) or None, got {shown(fusion)}"
        raise ParameterError(msg)


def _hit(match: Match) -> Hit:
    row = match.row
    return Hit(row.id, match.score, row.text, row.metadata, row.namespace)
