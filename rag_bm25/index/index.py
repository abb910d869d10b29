"""The index: chunks and their statistics in Milvus."""

from __future__ import annotations

import threading
import weakref
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

from rag_bm25.checks import (
    as_str,
    check_callable,
    check_int,
    check_switch,
    parameter_error,
)
from rag_bm25.definitions import check_given
from rag_bm25.documents.checks import check_id, check_ids, check_namespace, check_sequence, check_texts
from rag_bm25.documents.chunks import Chunk, Hit
from rag_bm25.errors import ConfigMismatchError, InputError, ParameterError, ReadOnlyError, StoreError
from rag_bm25.events import Events
from rag_bm25.hits.highlights import Highlighting
from rag_bm25.hits.options import (
    NEEDS_LEXICAL_SCORE,
    ONLY_LEXICAL,
    Effect,
    QueryDefaults,
    check_dense_options,
    check_options,
    check_options_of_answers,
    depth_of,
    is_by_score,
    options_that,
    refuse,
)
from rag_bm25.index.arguments import (
    check_chunk_namespace,
    check_k,
    check_namespaces,
    check_window,
    parse_scope,
)
from rag_bm25.index.config import require_dense_field
from rag_bm25.index.coroutines import WriteThread
from rag_bm25.index.generation import Generation
from rag_bm25.index.lifetime import OfGeneration, WhileOpen, require_open
from rag_bm25.index.live_statistics import LiveStatistics
from rag_bm25.index.maintenance.answers import AnswerCalibration, AnswerFitter
from rag_bm25.index.maintenance.learning import LearnedK1, learn_k1
from rag_bm25.index.maintenance.rewriting import rewrite
from rag_bm25.index.maintenance.setting import change_query_defaults
from rag_bm25.index.maintenance.verification import RepairOptions, repair, verify
from rag_bm25.index.opening import AS_IT_IS, OpenOptions, closed_on_failure, open_config, open_store
from rag_bm25.index.searching.contexts import WINDOWS, add_contexts, read_passages
from rag_bm25.index.searching.diagnosing import DiagnosedSearch, Diagnoser, find_missing_fields
from rag_bm25.index.searching.hybrid import HybridRequest, HybridSearcher
from rag_bm25.index.searching.judging import Judges
from rag_bm25.index.searching.placing import RerankRecorder, place_hit
from rag_bm25.index.searching.rows import drop_superseded, read_chunks, read_embeddings, to_chunk
from rag_bm25.index.searching.searcher import Searcher
from rag_bm25.index.searching.selecting import Selector, SparseSelector
from rag_bm25.index.searching.term_listing import TermLister
from rag_bm25.index.searching.weigher import QueryWeigher
from rag_bm25.index.stats import compute_stats, find_frequent_names, with_learned
from rag_bm25.index.writing.pipeline import WriteOptions, WritePipeline
from rag_bm25.query.query import Query
from rag_bm25.query.scores import with_placement
from rag_bm25.statistics.log.generation import SupersededError, other_generations, require_no_others
from rag_bm25.statistics.log.log import StatisticsLog
from rag_bm25.statistics.log.source_roots import drop_damaged_roots
from rag_bm25.store.rows import MAX_K, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray
    from typing_extensions import Unpack

    from rag_bm25.analysis import TextAnalyzer
    from rag_bm25.documents.chunks import AddReport, Fragment, GivenChunk, GivenDocument, HybridHit, Passage
    from rag_bm25.events import Event, Progress
    from rag_bm25.hits.options import SearchOptions
    from rag_bm25.index.arguments import FilterLike, Namespaces
    from rag_bm25.index.config import IndexConfig
    from rag_bm25.index.maintenance.verification import RepairReport, VerifyReport
    from rag_bm25.index.searching.hybrid import HybridOptions
    from rag_bm25.index.searching.term_listing import ChunkTerm, TermStatistics
    from rag_bm25.index.searching.weigher import WeightedQuery
    from rag_bm25.index.stats import IndexStats
    from rag_bm25.query.diagnosis import Diagnosis
    from rag_bm25.query.explanation import Explanation
    from rag_bm25.query.options import StatisticsPart
    from rag_bm25.query.query import QueryLike
    from rag_bm25.query.scores import ScoreExplanation
    from rag_bm25.query.spelling import Fuzzy
    from rag_bm25.store.embeddings import Embed, Embeddings
    from rag_bm25.store.protocol import Store
    from rag_bm25.store.rows import ConsistencyLevel
    from rag_bm25.store.storage import StorageOptions
    from rag_bm25.store.tls import TLS
    from rag_bm25.vectors.sparse import SparseVector

H = TypeVar("H", bound=Hit)

MAX_SIMILAR_TERMS = 1024
MAX_LISTED_TERMS = 1_000_000


class BM25Index:
    """Chunks in Milvus with exact BM25 scores, from :meth:`open` to :meth:`close`.

    Several threads may search and write; writes of one index run one after the other. In an event loop, use
    :class:`~rag_bm25.AsyncBM25Index`.

    Parameters
    ----------
    store, log, config, options
        The rows, the statistics in the same store, the stored config, and the arguments of opening, as :meth:`open` and
        :meth:`from_store` check them.

    Attributes
    ----------
    repaired : RepairReport or None
        Report of the repair, if the index was opened with ``repair=True``.

    Examples
    --------
    Creating an index needs a config, opening it again does not::

        with BM25Index.open("./rag.db", "docs", config=IndexConfig(chunk_size=500)) as index:
            index.add(["Milvus stores sparse vectors.", "jieba cuts 中文 into words."])
            for hit in index.search("sparse vectors", k=1):
                print(hit.score, hit.text)
    """

    _live = OfGeneration[LiveStatistics]()
    _weigher = OfGeneration[QueryWeigher]()
    _terms = OfGeneration[TermLister]()
    _searcher = OfGeneration[Searcher]()
    _hybrid = OfGeneration[HybridSearcher]()
    _pipeline = OfGeneration[WritePipeline]()
    _write_thread = WhileOpen[WriteThread]()

    def __init__(self, store: Store, log: StatisticsLog, config: IndexConfig, options: OpenOptions = AS_IT_IS) -> None:
        if isinstance(store, str):
            raise TypeError("an index is opened by BM25Index.open(uri, collection, config=...)")
        itself = weakref.ref(self)  # an index that nobody holds is garbage at once
        go_on = lambda: cast("BM25Index", itself())._current()  # noqa: E731, SLF001
        self._begin(Generation.of(store, log, config, options, go_on), options)

    def _begin(self, generation: Generation, options: OpenOptions) -> None:
        self.repaired: RepairReport | None = None
        self._options = options
        self._generation = generation
        self._former: list[Store] = []  # of earlier generations, in which calls may not have ended
        self._going_on = threading.RLock()
        self._is_open = True
        self._write_thread = WriteThread(generation.store.name)

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
        storage: StorageOptions | None = None,
        on_event: Callable[[Event], None] | None = None,
        analyzer: TextAnalyzer | None = None,
    ) -> BM25Index:
        """Open an index, or create it if there is none and a config is given.

        Parameters
        ----------
        uri : str or Path
            A file ending in ``.db`` for the embedded engine; the URI of a Milvus server, ``http://``, ``https://``,
            ``tcp://`` or ``unix:``, where a database name may follow as the path; or ``":memory:"``, for tests, a
            :class:`~rag_bm25.store.MemoryStore`, which is new, empty and private at every call. It connects to nothing,
            so `token`, `tls`, `timeout`, `consistency` and `storage` are refused.
        collection : str
            Name of the index; its two Milvus collections are ``collection`` and ``collection_bm25``.
        config : IndexConfig, optional
            Needed to create an index. Of an existing one, the document side must equal the stored one, which is the
            default.
        token : str, optional
            ``user:password`` or API key of the server.
        tls : TLS, optional
            Certificates for an ``https://`` address whose own one no public authority has signed.
        timeout : float, optional
            Maximum duration of one call to the server, in seconds; by default 10 for connecting and 60 for other calls.
        read_only : bool
            Refuse every write, and write nothing when opening.
        repair : bool
            Call :meth:`repair` before anything is read, for an index whose statistics are damaged; the report is
            `repaired`. If the stored config is lost too, `config` replaces it.
        refresh_interval : float
            On a server: seconds after which a thread reads the writes of others, while somebody searches; with 0, every
            search reads them first, and waits.
        consistency : {"Strong", "Bounded", "Session", "Eventually"}
            On a server: the writes that a search of the chunks waits for. "Session" waits for those of this process,
            "Bounded" also for those of others that are older than some seconds, "Strong" for all. Reads for a write, a
            recount or a refresh are always Strong.
        storage : StorageOptions, optional
            On a server: how it stores the chunks of a new index, such as the number of shards. An existing index must
            have been created with the options that are given; :meth:`stats` shows them.
        on_event : callable of Event to None, optional
            Called after every batch, recovery, search and so on, for counters and timings: see :mod:`rag_bm25.events`.
        analyzer : callable of str to list of str, optional
            The function that an existing index was made with, where no `config` names it. Without it, such an index
            opens for what analyses nothing, and the first call that analyses is a ConfigMismatchError.

        Raises
        ------
        IndexNotFoundError
            If there is no such index, and no config to create it with.
        ConfigMismatchError
            If the index was created with other parameters, another analyzer or other storage options.
        ParameterError
            If the engine would ignore a storage option, or an argument breaks a rule.
        FormatError
            If the collection is no index, damaged, or of a newer version.
        StoreError
            If Milvus cannot be reached, or another process has the file open.
        """
        options = OpenOptions(config, read_only, repair, refresh_interval, on_event, analyzer)
        connection = {"token": token, "tls": tls, "timeout": timeout, "consistency": consistency, "storage": storage}
        store = open_store(uri, collection, options, **connection)
        with closed_on_failure(store):
            return cls._open(store, options)

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
        analyzer: TextAnalyzer | None = None,
    ) -> BM25Index:
        """Open or create an index in a store of one's own.

        Parameters
        ----------
        store : Store
            Closed by the index, also if opening fails.
        config, read_only, repair, refresh_interval, on_event, analyzer
            As for :meth:`open`.
        """
        with closed_on_failure(store):
            return cls._open(store, OpenOptions(config, read_only, repair, refresh_interval, on_event, analyzer))

    @classmethod
    def _open(cls, store: Store, options: OpenOptions) -> BM25Index:
        try:
            with store.write_lock:  # an intent found under it is a dead writer's
                log = StatisticsLog(store, Events(store.name, options.on_event))
                config = open_config(store, log, options)
                index = cls(store, log, config, options.beside(config))
                if options.repair:
                    index.repaired = index.repair()
                index._generation.live.start()
            return index
        except SupersededError:
            with closed_on_failure(successor := store.successor()):
                index = cls._open(successor, options)
            store.close()
            return index

    def _current(self) -> Generation:
        """Return the generation in force, as far as this process knows."""
        require_open(self)
        while (now := self._generation).live.is_superseded():
            with self._going_on:
                if self._generation is now:
                    after = self._open_after(now)
                    after.go_on = now.go_on
                    self._generation = after
                    self._former.append(now.store)  # alone: statistics and processes end with the last call
                    now.live.close()
        return now

    def _open_after(self, now: Generation) -> Generation:
        """Open the generation in force in place of an earlier one."""
        with closed_on_failure(store := now.store.successor()):
            try:
                after = self._open(store, self._options.to_go_on())
            except ConfigMismatchError:  # its analyzer is another than the one that was given
                after = self._open(store, replace(self._options.to_go_on(), analyzer=None))
        return after._generation  # noqa: SLF001 - it becomes that of this index

    @property
    def config(self) -> IndexConfig:
        """The parameters in use."""
        return self._latest.config

    @property
    def _identity(self) -> tuple[object, ...]:
        """What all objects on the index have in common: a copy has another place, or another birth id."""
        now = self._current()
        return now.live.log.birth, *now.store.place

    @property
    def _latest(self) -> Generation:
        """The generation in force, or of a closed index the last one."""
        return self._current() if self._is_open else self._generation

    @property
    def _store(self) -> Store:
        return self._latest.store

    def close(self) -> None:
        """Release the connection and, with an embedded engine, the file. Closing twice is allowed.

        Writes that coroutines have begun or wait for end first, also those of cancelled tasks that have begun.
        """
        if self._is_open:
            self._write_thread.close()
        self._is_open = False
        for store in self._former:
            store.close()
        self._generation.close()

    def __enter__(self) -> BM25Index:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        """Return the number of chunks, of all namespaces."""
        return self._live.current().statistics.num_chunks

    def __bool__(self) -> bool:
        """Return True: an empty index is an index."""
        return True

    def __repr__(self) -> str:
        """Return name, number of chunks as far as it is known here, and whether it is open; Milvus is not asked."""
        known = self._generation
        num_chunks = known.live.view.statistics.num_chunks
        state = "open" if self._is_open else "closed"
        return f"<{type(self).__name__} {known.store.name}: {num_chunks:,} chunks, {state}>"

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled or copied: a connection cannot be."""
        msg = "an index cannot be pickled or copied, nor can an object that holds one: open it in each process"
        raise TypeError(msg)

    @property
    def analyzer(self) -> TextAnalyzer:
        """The analyzer of its chunks."""
        return self._latest.encoder.analyzer

    @property
    def problems(self) -> list[str]:
        """Problems of the statistics that reading them has shown, one clause each; :meth:`repair` mends them."""
        return self._generation.live.problems

    def refresh(self) -> None:
        """Read the changes of other writers to the statistics now."""
        self._live.refresh()

    # Writing

    def add(
        self,
        texts: Iterable[str] | Iterable[GivenChunk] | Iterable[GivenDocument],
        *,
        ids: Iterable[str | None] | None = None,
        metadatas: Iterable[Mapping[str, Any] | None] | None = None,
        embeddings: Embeddings | None = None,
        namespace: str = "",
        assume_new: bool = False,
        workers: int = 0,
    ) -> list[str]:
        """Insert chunks, or update those whose id already exists.

        A chunk that is stored with the same id, text, metadata and dense vector costs no write.

        Parameters
        ----------
        texts : iterable of str, GivenChunk or GivenDocument
            The chunks, each at most 65,535 bytes of UTF-8, such as a list or a column of a DataFrame; an iterator may
            have 1,000, and :meth:`add_stream` takes any number. Text without terms is stored, but never found by a
            search. LangChain's ``Document`` and :class:`Chunk` have their own ids and metadata.
        ids : iterable of str, optional
            One for each text, 1 to 512 bytes; None, the default, stands for a hash of text and metadata. The same chunk
            twice is one chunk; two different chunks with one id are refused.
        metadatas : iterable of mappings, optional
            One for each text, JSON values only; the values of the config's `fields` must be text.
        embeddings : array_like of float, shape (n_texts, dense_dim), or callable of list of str to such an array
            Needed if the index has dense vectors, and only then. A callable gets only texts that are not stored with
            their vector yet, about 1,000 at a time; to replace vectors, give an array.
        namespace : str
            Tenant or sub-corpus; the same id in two namespaces is two chunks.
        assume_new : bool
            Promise that no chunk is stored under any of the ids, also not by a call that failed halfway; it saves
            reading the stored chunks. If the promise is broken, both versions of a chunk are counted and may be found,
            or the old one is counted still: :meth:`verify` reports it, and deleting the chunk, then :meth:`repair`,
            mends it.
        workers : int
            Processes, in 0..61, that analyse the next batches while one is written; the stored rows are the same. The
            first call starts them, which takes a second or two, and they stay until :meth:`close`. A script must call
            this below ``if __name__ == "__main__":``. By default a thread does the work, from the second batch on.

        Returns
        -------
        list of str
            The ids, in the order of `texts`.

        Raises
        ------
        InputError
            If an argument breaks a rule; nothing was written.
        StoreError, WorkerError
            If Milvus failed, or a worker process died. Batches of about 1,000 chunks are written one by one; calling
            again with the same input writes the missing ones.
        """
        self._require_writable()
        options = WriteOptions(namespace, assume_new=assume_new, workers=workers)
        return self._pipeline.add(texts, ids, metadatas, embeddings, options)

    def add_stream(
        self,
        chunks: Iterable[GivenChunk] | Iterable[GivenDocument],
        *,
        embeddings: Embed | None = None,
        namespace: str = "",
        assume_new: bool = False,
        workers: int = 0,
        progress: Callable[[Progress], None] | None = None,
    ) -> AddReport:
        """Insert or update any number of chunks, with only a few batches of them in memory.

        They are taken and checked one by one, in the thread of the caller. If one breaks a rule, or taking the next one
        fails, the batches before are written. Calling again with the same chunks writes the missing ones.

        Parameters
        ----------
        chunks : iterable of GivenChunk or GivenDocument
            Objects with `id`, `text` and `metadata`, such as :class:`Chunk`, or LangChain's documents; the rules are
            those of :meth:`add`. A repeated id updates the chunk that came before.
        embeddings : callable of list of str to array_like of float, optional
            As for :meth:`add`; an array is not taken.
        namespace, assume_new, workers
            As for :meth:`add`.
        progress : callable of Progress to None, optional
            Called after each batch with ``"chunks"``: those of the stream that are stored. The total is not known.

        Returns
        -------
        AddReport
            Numbers of added, updated and unchanged chunks.

        Raises
        ------
        InputError
            If a chunk breaks a rule; the message has its number in the stream, from 0.
        StoreError, WorkerError
            As for :meth:`add`.

        Examples
        --------
        From a generator over a file of any size::

            index.add_stream(Chunk(row["id"], row["text"], {"page": row["page"]}) for row in rows)
        """
        self._require_writable()
        options = WriteOptions(namespace, assume_new=assume_new, workers=workers)
        return self._pipeline.add_stream(chunks, embeddings, options, progress)

    def delete(self, ids: Sequence[str] | None = None, *, filter: FilterLike = None, namespace: str = "") -> int:
        """Delete chunks by their ids or by a filter.

        Parameters
        ----------
        ids : sequence of str, optional
            Any number; ids that do not exist are ignored.
        filter
            As for :meth:`search`; the chunks are found by it first, and then deleted by their ids.
        namespace : str
            Namespace of the chunks.

        Returns
        -------
        int
            Number of deleted chunks.

        Raises
        ------
        InputError
            If an argument breaks a rule, or not exactly one of `ids` and `filter` is given; nothing was deleted.
        """
        self._require_writable()
        return self._pipeline.delete(ids, filter, check_namespace(namespace))

    def drop_namespace(self, namespace: str) -> int:
        """Delete all chunks of a namespace, and forget its source roots.

        Parameters
        ----------
        namespace : str
            Namespace to delete.

        Returns
        -------
        int
            Number of deleted chunks.
        """
        self._require_writable()
        return self._pipeline.drop_namespace(check_namespace(namespace))

    def repair(
        self,
        *,
        erase: bool = False,
        accept_loss: bool = False,
        progress: Callable[[Progress], None] | None = None,
    ) -> RepairReport:
        """Count all stored vectors again and replace the statistics by the result.

        The statistics are right afterwards, whatever happened to them: lost, damaged and half-written rows of the log,
        rows that other tools inserted or deleted. Chunks whose vector or length is not that of their text and metadata,
        as :meth:`verify` finds them, are encoded and written again. A repair that is cut short can be run again. It is
        refused while others write, and where rows are missing.

        Parameters
        ----------
        erase : bool
            Erase the words of deleted chunks for good, where the vocabulary keeps them by default. The file of
            milvus-lite 2.5 is then rewritten, for which its disk needs the room of a second one. With any other engine,
            copy the index instead, and remove the old database. Refused while other generations of the index have
            rows: :func:`rag_bm25.index.drop_former_generations` drops them.
        accept_loss : bool
            Count the rows that can be read, though the engine counts more of them, or on a server the statistics do.
        progress : callable of Progress to None, optional
            Called periodically with ``"rows counted"``.

        Returns
        -------
        RepairReport
            Faults that were found.

        Raises
        ------
        StoreError
            If another process writes, or was killed in the last ten minutes; if rows are missing: a server may still be
            loading them.
        """
        self._require_writable()
        check_callable("progress", progress)
        options = RepairOptions(erase, accept_loss)
        return self._current().in_force(partial(_repair, options, progress))

    def set_query_defaults(self, **defaults: Unpack[QueryDefaults]) -> None:
        """Set what searches go by that do not say otherwise: weights of terms, synonyms, the fusion of hybrid searches.

        The values stay with the index: other processes and servers have them at their next refresh, copies and later
        generations carry them. No chunk is written. A search that gives an option replaces the values that this one
        gives, and ``None`` takes one away: ``expansion=QueryExpansion(synonyms=None)``. :attr:`config` has them all.

        Parameters
        ----------
        **defaults : QueryDefaults
            `weighting`, `expansion` and `fusion`, as a search takes them. What they do not give stays as it is.
            Together they have at most 1,048,576 bytes of JSON, some ten thousand synonyms.

        Raises
        ------
        ParameterError
            If nothing is given, a value is out of its range or does not suit the index, or all of it is too large.
        InputError
            If the analyzer drops all words of a synonym.

        Examples
        --------
        ::

            index.set_query_defaults(expansion=QueryExpansion(synonyms=Synonyms.read("synonyms.txt")))
            index.set_query_defaults(weighting=QueryWeighting(idf="lucene"))
            index.set_query_defaults(fusion=Weighted(sparse=0.3, dense=0.7))
        """
        given = check_given(QueryDefaults, defaults)
        if not given:
            raise ParameterError("set_query_defaults needs weighting, expansion or fusion, got none")
        self._require_writable()
        self.refresh()
        self._current().in_force(partial(change_query_defaults, cast("QueryDefaults", given)))

    def calibrate_answers(
        self,
        queries: Sequence[QueryLike],
        is_answer: Callable[[QueryLike, Hit], bool],
        *,
        filter: FilterLike = None,
        namespace: Namespaces = "",
        dry_run: bool = False,
        progress: Callable[[Progress], None] | None = None,
        **options: Unpack[SearchOptions],
    ) -> AnswerCalibration:
        """Fit the confidence that a hit answers to judged queries, and keep the model with the index.

        Each query counts twice: as it is, and with its answers taken out. From then on hits have a `confidence`, also
        in other processes, and searches take `min_confidence`. It holds for searches with this weighting; with other
        options it is that of the same signals. A new model replaces the old one.

        Parameters
        ----------
        queries : sequence of str, mapping or Query
            Some hundred questions as users ask them, with an answer in the index.
        is_answer : callable of (query, Hit) to bool
            Whether a hit answers a query.
        filter, namespace
            As for :meth:`search`.
        dry_run : bool
            Fit and measure the model, and store nothing.
        progress : callable of Progress to None, optional
            Called after each batch with ``"queries"``.
        **options
            As for :meth:`search`, those of the terms and the statistics; the others have no effect, and are refused.

        Returns
        -------
        AnswerCalibration
            How well the confidence tells answers, and the model.

        Raises
        ------
        InputError
            If too few first hits answer, or too few do not.
        ParameterError
            If the weighting has no upper bound.

        Examples
        --------
        ::

            judged = {"notice period": {"terms.md#0"}, "trial contract": {"trial.md#0", "trial.md#3"}}
            index.calibrate_answers(list(judged), lambda query, hit: hit.id in judged[query])
            index.search("notice period", min_confidence=0.8)
        """
        check_sequence("queries", queries, "str")
        if not callable(is_answer):
            raise parameter_error("is_answer", "a callable", is_answer)
        check_callable("progress", progress)
        check_switch("dry_run", dry_run)
        if not dry_run:
            self._require_writable()
        scope, checked = parse_scope(filter, namespace), check_options_of_answers(options)

        def fit(now: Generation) -> AnswerCalibration:
            calibration = AnswerFitter(now.searcher, is_answer, scope, checked).fit(queries, progress)
            if not dry_run:
                now.live.write_answers(calibration.model)
            return calibration

        return self._current().in_force(fit)

    def learn_k1(self, *, progress: Callable[[Progress], None] | None = None) -> LearnedK1:
        """Learn a k1 for each term of two chunks or more, and keep it with the index.

        From then on, searches take ``QueryWeighting(k1="bm25t")``, ``k1="adpt"`` and ``idf="adpt"``, also in other
        processes. All chunks are read once; no vector changes. What was learned stays until the next call, or
        ``repair(erase=True)``: new words have the k1 of the index, and :meth:`stats` says how far N has moved since.

        Parameters
        ----------
        progress : callable of Progress to None, optional
            Called periodically with ``"chunks read"``.

        Returns
        -------
        LearnedK1
            What it was learned from.

        Raises
        ------
        ParameterError
            The weighting of the index is not ``"bm25"``.

        Examples
        --------
        ::

            index.learn_k1()
            index.search("notice period", weighting=QueryWeighting(k1="adpt", idf="adpt"))
        """
        check_callable("progress", progress)
        self._require_writable()

        def learn(now: Generation) -> LearnedK1:
            table = learn_k1(now, progress)
            now.live.write_k1(table)
            return LearnedK1.of(table)

        return self._current().in_force(learn)

    # Reading

    def get(self, ids: Sequence[str], *, namespace: str = "") -> list[Chunk]:
        """Return chunks by their ids.

        Parameters
        ----------
        ids, namespace
            As for :meth:`delete`.

        Returns
        -------
        list of Chunk
            The chunks that exist, in the order of `ids`.
        """
        wanted, namespace = check_ids(ids), check_namespace(namespace)
        self._live.finish_failed_batch()
        found = read_chunks(self._store, wanted, namespace)
        return [to_chunk(found[id_]) for id_ in dict.fromkeys(wanted) if id_ in found]

    def get_embeddings(self, ids: Sequence[str], *, namespace: str = "") -> dict[str, NDArray[np.float32]]:
        """Return the dense vectors of chunks.

        Parameters
        ----------
        ids, namespace
            As for :meth:`get`.

        Returns
        -------
        dict of str to ndarray of float32, shape (dense_dim,)
            Id -> vector, of the chunks that exist.

        Raises
        ------
        InputError
            If the index has no dense vectors.
        """
        require_dense_field(self.config, "get_embeddings called", self._store.name)
        wanted, namespace = check_ids(ids), check_namespace(namespace)
        self._live.finish_failed_batch()
        return read_embeddings(self._store, wanted, namespace)

    def chunks(self, *, filter: FilterLike = None, namespace: Namespaces = "") -> Iterator[Chunk]:
        """Stream all chunks, or those that a filter selects.

        The call itself reads the first thousand, so that it raises the errors of its arguments.

        Parameters
        ----------
        filter, namespace
            As for :meth:`search`.

        Returns
        -------
        iterator of Chunk
            In no particular order.
        """
        scope = parse_scope(filter, namespace)
        self._live.finish_failed_batch()
        pages = self._store.scan_chunks(scope, contents=True)
        first = next(pages, [])
        return map(to_chunk, drop_superseded(chain(first, chain.from_iterable(pages))))

    def search(
        self,
        query: QueryLike,
        k: int = 10,
        *,
        filter: FilterLike = None,
        namespace: Namespaces = "",
        **options: Unpack[SearchOptions],
    ) -> list[Hit]:
        """Return the chunks with the highest BM25 scores.

        Parameters
        ----------
        query : str, mapping of str to float, or Query
            Any text; or texts with a boost for each, as in ``{"合同": 2.0, "解除": 1.0}``.
        k : int
            Maximum number of hits, in 1..16384.
        filter : mapping, optional
            Conditions on the metadata and the ids, see :func:`rag_bm25.filters.parse_filter`.
        namespace : str, sequence of str or None
            Namespaces to search; None for all.
        **options
            See :class:`~rag_bm25.SearchOptions`.

        Returns
        -------
        list of Hit
            By falling score, then by id. Empty if no term of the query is known. With `group`, at most `k` groups, best
            first, the hits of each one after the other.

        Raises
        ------
        InputError
            If `query` has another type, or a boost is out of range.
        FilterError
            If the filter cannot be read, or Milvus refuses it.
        ParameterError
            If `k` or an option is out of range.
        """
        (hits,) = self.search_batch([query], k, filter=filter, namespace=namespace, **options)
        if not hits:
            events = self._current().live.events
            with events.mute():
                is_told = any(find_missing_fields(self, query, filter, namespace, to="log"))
            if is_told:  # no log has names of fields
                told = "a search found nothing, and its filter names a field that no chunk has: `diagnose` tells which"
                events.warn("filter_field", told)
        return hits

    def search_batch(
        self,
        queries: Sequence[QueryLike],
        k: int = 10,
        *,
        filter: FilterLike = None,
        namespace: Namespaces = "",
        **options: Unpack[SearchOptions],
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
        check_k(k)
        scope, asked = parse_scope(filter, namespace), check_options(options)
        now = self._current()
        prepared = now.searcher.prepare(queries, scope, asked)
        selector: Selector[Hit] = Selector(now.store, now.live.events, asked, k)
        sparse = SparseSelector(now.searcher, selector, scope, now.searcher.judges(prepared, asked))
        hits = sparse.select(prepared.queries, [str(Query.of(query)) for query in queries])
        return [self._finish(now, query, some, asked) for query, some in zip(prepared.queries, hits, strict=True)]

    def more_like_this(
        self,
        id: str,
        k: int = 10,
        *,
        max_terms: int = 25,
        filter: FilterLike = None,
        namespace: Namespaces = "",
        **options: Unpack[SearchOptions],
    ) -> list[Hit]:
        """Return the chunks that resemble a stored chunk: a search for its terms.

        The query is the stored vector times the IDF, cut to its best terms; nothing is analysed again.

        Parameters
        ----------
        id : str
            Id of the chunk, in the searched namespaces; it is not among the hits.
        k : int
            Maximum number of hits, in 1..16384.
        max_terms : int
            Maximum number of terms, in 1..1024.
        filter, namespace, **options
            As for :meth:`search`; options that change the words of a query are refused.

        Returns
        -------
        list of Hit
            As from :meth:`search`. The query that a reranker gets is the text of the chunk.

        Raises
        ------
        ChunkNotFoundError
            If there is no such chunk.

        Examples
        --------
        ::

            index.more_like_this("guide.md#4", k=5, diversity=NearDuplicates(0.9))
        """
        check_k(k)
        scope, asked = parse_scope(filter, namespace), check_options(options)
        refuse(asked, options_that(Effect.REWORDS), "the query is a stored vector, and has no words")
        refuse(asked, NEEDS_LEXICAL_SCORE, ONLY_LEXICAL)
        limit = check_int("max_terms", max_terms, 1, MAX_SIMILAR_TERMS)
        now = self._current()
        query, row = now.searcher.weigh_like(check_id("id", id), limit, scope, asked)
        selector: Selector[Hit] = Selector(now.store, now.live.events, asked, k, but=row.key)
        judges = Judges(now.searcher.max_score)
        (hits,) = SparseSelector(now.searcher, selector, scope, judges).select([query], [row.text])
        return self._finish(now, query, hits, asked)

    def highlight(
        self,
        query: QueryLike,
        text: str,
        highlighting: Highlighting | None = None,
        *,
        namespace: Namespaces = "",
        **options: Unpack[SearchOptions],
    ) -> list[Fragment]:
        """Highlight the terms of a query in any text, as `highlight` of a search does in hits.

        Parameters
        ----------
        query : str, mapping of str to float, or Query
            As for :meth:`search`.
        text : str
            Any text, of any size. It need not be stored.
        highlighting : Highlighting, optional
            Number and size of the fragments.
        namespace, **options
            As for :meth:`search`: they decide which terms the query has, and their weights.

        Returns
        -------
        list of Fragment
            Best first. Terms that no chunk has are marked, too, with a weight of 0.

        Examples
        --------
        ::

            for fragment in index.highlight("notice period", Path("contract.md").read_text(), Highlighting(size=300)):
                print(fragment.start, fragment.text)
        """
        if not isinstance(text, str):
            raise InputError(f"text must be a str, got {type(text).__name__}")
        chosen = check_options({"highlight": highlighting}).get("highlight") or Highlighting()
        assert isinstance(chosen, Highlighting)
        searcher = self._searcher
        (query_terms,) = searcher.prepare([query], parse_scope(None, namespace), check_options(options)).queries
        return list(searcher.highlighter(query_terms, chosen).highlight(as_str(text)))

    def neighbors(self, hit: Hit | Chunk, before: int | None = 1, after: int | None = 1) -> Passage:
        """Return a chunk with the chunks before and after it in its document.

        The place of a chunk is what ingestion stores in its metadata: ``source``, its number under ``chunk``, and its
        first character under ``start_index``, which LangChain's splitters store as well.

        Parameters
        ----------
        hit : Hit or Chunk
            A chunk of this index.
        before, after : int or None
            Maximum number of chunks, in 0..16384; None for all.

        Returns
        -------
        Passage
            The text, each character once where chunks overlap, and the chunks. The chunk alone if its place is not
            known, or no other chunk of its document is stored.

        Examples
        --------
        ::

            for hit in index.search("notice period", k=3):
                print(index.neighbors(hit, before=1, after=2).text)
        """
        if not isinstance(hit, Hit | Chunk):
            raise InputError(f"hit must be a Hit or a Chunk, got {type(hit).__name__}")
        before, after = check_window("before", before), check_window("after", after)
        return read_passages(self._store_of(hit), [hit], before, after)[0]

    def _check_part(self, part: int | None) -> int | None:
        """Check the place of an index in a group, which this is not."""
        if part is not None:
            raise InputError(f"part must be left out: it is for a group of indexes, and {self._store.name} is one")
        return None

    def _store_of(self, chunk: Hit | Chunk) -> Store:  # noqa: ARG002 - for a group of indexes
        return self._store

    def _finish(self, now: Generation, query: WeightedQuery, hits: list[H], options: SearchOptions) -> list[H]:
        """Give hits their highlights and contexts, if the options ask for them."""
        return self._with_contexts(now, now.searcher.highlight(query, hits, options), options)

    def _with_contexts(self, now: Generation, hits: list[H], options: SearchOptions) -> list[H]:
        context = options.get("context")
        return hits if context is None else add_contexts(now.store, hits, *WINDOWS[context])

    def search_dense(
        self,
        embedding: Sequence[float],
        k: int = 10,
        *,
        filter: FilterLike = None,
        namespace: Namespaces = "",
        **options: Unpack[SearchOptions],
    ) -> list[Hit]:
        """Return the chunks with the most similar dense vectors.

        Parameters
        ----------
        embedding : sequence of float, shape (dense_dim,)
            The query's dense vector.
        k, filter, namespace
            As for :meth:`search`.
        **options
            See :class:`~rag_bm25.SearchOptions`, except those of the query's terms, `boosts`, since similarities may be
            negative, and `rerank` and `highlight`, since there is no query text. `search_params` are those of a dense
            search, such as ``{"ef": 200}``.

        Returns
        -------
        list of Hit
            By falling score, then by id: cosine similarity or inner product, by the index's `dense_metric`.

        Raises
        ------
        InputError
            If the index has no dense vectors, or `embedding` does not fit them.
        """
        asked = check_dense_options(options)
        scope = parse_scope(filter, namespace)
        now = self._current()
        return self._with_contexts(now, now.hybrid.search_dense(embedding, check_k(k), scope, asked), asked)

    def search_hybrid(
        self,
        query: QueryLike,
        embedding: Sequence[float] | None,
        k: int = 10,
        *,
        filter: FilterLike = None,
        namespace: Namespaces = "",
        **options: Unpack[HybridOptions],
    ) -> list[HybridHit]:
        """Return the best chunks of a lexical and a dense search together.

        Parameters
        ----------
        query : str, mapping of str to float, or Query
            As for :meth:`search`; without known terms, the dense search decides alone.
        embedding, k
            As for :meth:`search_dense`; without an embedding, as where its model has failed, the lexical search decides
            alone, and the scores are those that it gives.
        filter, namespace
            As for :meth:`search`, for both searches.
        **options
            See :class:`~rag_bm25.FusionOptions`, and :class:`~rag_bm25.SearchOptions`, which apply to the candidates of
            both searches. Twice as many of these are asked for while there are fewer than k hits.

        Returns
        -------
        list of HybridHit
            By falling fused score, then by id; groups as for :meth:`search`.
        """
        now = self._current()
        request = HybridRequest.of(k, parse_scope(filter, namespace), options, now.config.fusion)
        return self._with_contexts(now, now.hybrid.search(query, embedding, request), request.options)

    def encode_documents(
        self, texts: Sequence[str], metadatas: Sequence[Mapping[str, Any] | None] | None = None
    ) -> list[SparseVector]:
        """Return the vectors of chunks with these texts; nothing is stored or counted.

        Parameters
        ----------
        texts, metadatas
            As for :meth:`add`, but of any size, and `metadatas` matter only if the index has fields. A chunk whose
            metadata lacks a field is a chunk without it.

        Returns
        -------
        list of SparseVector
            Document weights; ``{0: 1.0}`` for a text without terms.
        """
        now = self._current()
        plain, checked = check_texts(texts, metadatas, now.config.fields)
        return list(now.encoder.encode(plain, now.live.view.ids, checked).vectors)

    def encode_queries(
        self,
        queries: Sequence[QueryLike],
        *,
        filter: FilterLike = None,
        namespace: Namespaces = "",
        **options: Unpack[SearchOptions],
    ) -> list[SparseVector]:
        """Return the vectors that a search sends to Milvus.

        Parameters
        ----------
        queries : sequence of str, mapping or Query
            Any number, as for :meth:`search`.
        filter, namespace, **options
            As for :meth:`search`, except conditions and options for hits: no vector can hold them. A filter changes no
            weight.

        Returns
        -------
        list of SparseVector
            Query weights, all > 0; empty if no term is known. :meth:`max_scores` gives the upper bounds of their
            scores.
        """
        vectors = self._searcher.vectors(queries, parse_scope(filter, namespace), check_options(options))
        return [replace(each, ids=each.ids.copy(), values=each.values.copy()) for each in vectors]  # the caller's own

    def max_scores(
        self,
        queries: Sequence[QueryLike],
        *,
        filter: FilterLike = None,
        namespace: Namespaces = "",
        **options: Unpack[SearchOptions],
    ) -> list[float]:
        """Return the upper bound of each query's scores, to normalise scores to 0..1.

        Parameters
        ----------
        queries, filter, namespace, **options
            As for :meth:`encode_queries`.

        Returns
        -------
        list of float
            The sum of each query's weights, times the upper bound of the weighting (1 for ``bm25``); 0 if no term is
            known.

        Raises
        ------
        ParameterError
            If the weighting has no upper bound, or an option is out of range.
        """
        return self._searcher.max_scores(queries, parse_scope(filter, namespace), check_options(options))

    def suggest(
        self,
        query: str,
        *,
        fuzzy: Fuzzy | None = None,
        namespace: Namespaces = "",
        statistics: StatisticsPart = "namespace",
    ) -> str | None:
        """Return a query with corrected spelling: "did you mean ...?".

        Parameters
        ----------
        query : str
            Any text.
        fuzzy : Fuzzy, optional
            How near spellings are found, by rapidfuzz. Only words that no chunk has are corrected or completed.
        namespace, statistics
            As for :meth:`search`.

        Returns
        -------
        str or None
            The query with the likeliest word in place of each misspelt one, as a text has it; None if there is nothing
            to correct. If nothing follows the last word, it may not have been typed to its end, and is completed first.

        Raises
        ------
        InputError, MissingExtraError
            If `query` is no str or too long; if rapidfuzz is not installed.
        """
        scope = Scope(namespaces=check_namespaces(namespace))
        return self._searcher.correct(query, fuzzy, scope, check_options({"statistics": statistics}))

    def explain(
        self,
        query: QueryLike,
        id: str,
        k: int = 10,
        *,
        filter: FilterLike = None,
        namespace: Namespaces = "",
        chunk_namespace: str | None = None,
        part: int | None = None,
        **options: Unpack[SearchOptions],
    ) -> ScoreExplanation:
        """Explain the score of a chunk, or why a search does not find it.

        Parameters
        ----------
        query, id
            The query as it was given to the search, and the id of the chunk.
        k : int
            As it was given to the search; it matters with `rerank`, `group` and `diversity`, for which the search is
            made again.
        filter, namespace
            As they were given to the search; the namespaces decide on the statistics.
        chunk_namespace : str, optional
            Namespace of the chunk, one of those searched, such as the `namespace` of a hit; needed if several of them
            have a chunk with that id.
        part : int, optional
            In an :class:`~rag_bm25.IndexGroup`, the `part` of the hit; needed if several of its indexes have the id.
        **options
            As they were given to the search.

        Returns
        -------
        ScoreExplanation
            Its value is the score of the hit, to 1e-5 of it. As text it is a table, its `tree` shows every formula, and
            its `terms` have the numbers. Where a server may round its index to fp16, the root of the tree says so: the
            score of a search is then within 0.1 % of it, and equal with ``search_params={"rescore": True}``.

        Raises
        ------
        ChunkNotFoundError
            If there is no such chunk.
        InputError
            If `chunk_namespace` was not searched, or it or `part` is needed and not given.

        Examples
        --------
        Of a search over several namespaces::

            searched = ["laws", "contracts"]
            for hit in index.search("解除 合同", namespace=searched):
                print(index.explain("解除 合同", hit.id, namespace=searched, chunk_namespace=hit.namespace))
        """
        scope = parse_scope(filter, namespace)
        place = check_chunk_namespace(chunk_namespace, scope.namespaces)
        check_k(k)
        asked = check_options(options)
        explained = self._searcher.explain(query, check_id("id", id), scope, place, asked, self._check_part(part))
        if is_by_score(asked):
            return explained
        recorder = RerankRecorder(asked.get("rerank"))
        unshown = dict.fromkeys(options_that(Effect.SHOWS))
        again: Any = {**asked, **unshown, "offset": None, "rerank": asked.get("rerank") and recorder}
        k = min(depth_of(asked, k), MAX_K)
        hits = self.search(query, k, filter=filter, namespace=namespace, **again)
        chunk = explained.namespace, explained.id, part
        return with_placement(explained, place_hit(chunk, hits, k, asked, recorder))

    def diagnose(
        self,
        query: QueryLike,
        id: str | None = None,
        k: int = 10,
        *,
        filter: FilterLike = None,
        namespace: Namespaces = "",
        chunk_namespace: str | None = None,
        part: int | None = None,
        **options: Unpack[SearchOptions],
    ) -> Diagnosis:
        """Find out why a search has no hits, or why a chunk is not among them.

        The search is made again, and then without each of its options, so that this takes several times as long.

        Parameters
        ----------
        query
            As it was given to :meth:`search`.
        id : str, optional
            Id of the chunk; it need not exist. Without, why there are no hits.
        k, filter, namespace
            As they were given to :meth:`search`.
        chunk_namespace, part
            As for :meth:`explain`.
        **options
            As they were given to :meth:`search`.

        Returns
        -------
        Diagnosis
            The reasons, and the rank and the score of the chunk; no reasons if there are hits, or the chunk is one.

        Raises
        ------
        InputError, ParameterError, FilterError
            As for :meth:`search` and :meth:`explain`.

        Examples
        --------
        ::

            print(index.diagnose("解除 合同", filter={"kind": "law"}))
            print(index.diagnose("解除 合同", "law.txt#12", k=5))
        """
        scope = parse_scope(filter, namespace)
        search = DiagnosedSearch.of(query, check_k(k), scope, check_options(options))
        now = self._current()
        diagnoser = Diagnoser(now.store, now.live, now.searcher, self.search, search)
        place, of_index = check_chunk_namespace(chunk_namespace, scope.namespaces), self._check_part(part)
        if id is None:
            return diagnoser.diagnose_no_hits()
        return diagnoser.diagnose_missing_chunk(check_id("id", id), place, of_index)

    def explain_hybrid(
        self,
        query: QueryLike,
        embedding: Sequence[float] | None,
        id: str,
        k: int = 10,
        *,
        filter: FilterLike = None,
        namespace: Namespaces = "",
        chunk_namespace: str | None = None,
        part: int | None = None,
        **options: Unpack[HybridOptions],
    ) -> Explanation:
        """Explain the fused score of a chunk: what each arm gives to it, and from which rank or scores.

        Parameters
        ----------
        query, embedding
            As they were given to :meth:`search_hybrid`. The search is made again, since the fused score depends on the
            candidates of both arms.
        id
            The id of the chunk.
        k, filter, namespace
            As they were given to :meth:`search_hybrid`.
        chunk_namespace, part
            As for :meth:`explain`.
        **options
            As they were given to :meth:`search_hybrid`.

        Returns
        -------
        Explanation
            A tree; its root is the score of the hit: the fused one, or the reranker's. The score of the lexical arm is
            explained as by :meth:`explain`.

        Raises
        ------
        ChunkNotFoundError
            If there is no such chunk.
        InputError
            If `chunk_namespace` was not searched, or it or `part` is needed and not given; as for
            :meth:`search_hybrid`.

        Examples
        --------
        ::

            for hit in index.search_hybrid("解除 合同", vector):
                print(index.explain_hybrid("解除 合同", vector, hit.id))
        """
        request = HybridRequest.of(k, parse_scope(filter, namespace), options, self.config.fusion)
        place = check_chunk_namespace(chunk_namespace, request.arms[0].scope.namespaces)
        return self._hybrid.explain(query, embedding, check_id("id", id), place, request, self._check_part(part))

    def term_statistics(
        self, terms: str | Sequence[str], namespace: Namespaces = "", filter: FilterLike = None
    ) -> list[TermStatistics]:
        """Return N, df and IDF of terms, as searches use them, or in any part of the index.

        Parameters
        ----------
        terms : str or sequence of str
            Any texts; they are analysed as queries are, so that stop words have no statistics.
        namespace : str, sequence of str or None
            Namespaces to count; None for all.
        filter : mapping, optional
            Only the chunks that fit it, counted as for the option `statistics` of :meth:`search`.

        Returns
        -------
        list of TermStatistics
            One for each word, in text order, without repeats; df and IDF are 0 for unknown ones.

        Examples
        --------
        ::

            for term in index.term_statistics("劳动合同 notice", filter={"kind": "law"}):
                print(term.term, term.df, term.num_chunks, term.idf)
        """
        texts = [terms] if isinstance(terms, str) else terms
        check_sequence("terms", texts, "str")
        for at, text in enumerate(texts):
            if not isinstance(text, str):
                raise InputError(f"terms[{at}] must be a str, got {type(text).__name__}")
        return self._terms.of_texts([as_str(text) for text in texts], parse_scope(filter, namespace))

    def terms(
        self, *, prefix: str = "", k: int = 100, namespace: Namespaces = "", filter: FilterLike = None
    ) -> list[TermStatistics]:
        """List the terms that most chunks have; bigrams are not among them.

        Parameters
        ----------
        prefix : str
            Only terms that begin with it, as it is written or case-folded, and the term that the analyzer makes of it
            as a word, which may begin otherwise: ``battery`` lists ``batteri``.
        k : int
            Maximum number of terms, in 1..1000000.
        namespace, filter
            As for :meth:`term_statistics`.

        Returns
        -------
        list of TermStatistics
            By falling df, then by term.

        Examples
        --------
        ::

            [term.term for term in index.terms(prefix="contract", k=10)]
        """
        if not isinstance(prefix, str):
            raise InputError(f"prefix must be a str, got {type(prefix).__name__}")
        check_int("k", k, 1, MAX_LISTED_TERMS)
        return self._terms.beginning_with(as_str(prefix), k, parse_scope(filter, namespace))

    def chunk_terms(self, id: str, *, k: int = 10, namespace: Namespaces = "") -> list[ChunkTerm]:
        """List the terms of a stored chunk that count most; bigrams are not among them.

        Parameters
        ----------
        id : str
            Id of the chunk.
        k : int
            Maximum number of terms, in 1..1000000.
        namespace
            As for :meth:`search`; the chunk must be in one of them only.

        Returns
        -------
        list of ChunkTerm
            By falling weight, then by term.

        Raises
        ------
        ChunkNotFoundError
            There is no such chunk.

        Examples
        --------
        ::

            [term.term for term in index.chunk_terms("docs/law.txt#12", k=5)]
        """
        check_int("k", k, 1, MAX_LISTED_TERMS)
        return self._terms.of_chunk(check_id("id", id), k, parse_scope(None, namespace))

    def stats(self, *, namespace: Namespaces = None) -> IndexStats:
        """Return the figures of the index, and the effective BM25 parameters of its `chunk_size`.

        Parameters
        ----------
        namespace : str, sequence of str or None
            Namespaces to count; None for all.

        Returns
        -------
        IndexStats
            As of now.
        """
        names = check_namespaces(namespace)
        now = self._current()
        statistics = now.live.current(names).statistics
        info = now.store.storage_info()
        found = compute_stats(now.store.name, now.config, statistics.of(names), statistics.filled, info)
        found = with_learned(found, now.live.view.term_k1, statistics.num_chunks)
        return replace(found, confidence_doubt=now.searcher.doubt_of_confidence())

    def frequent_names(self, *, namespace: Namespaces = None) -> list[str]:
        """Return words of more than half of the chunks that most queries may have.

        These may be names, two words or a word of three ideographs; and other words, if there are three or more of
        them, as in a language whose stop words are unknown. Where queries have them, too, ``idf="lucene"`` is better
        than ``epsilon``, which weighs them more than rarer words. The first call reads all terms.

        Parameters
        ----------
        namespace : str, sequence of str or None
            Namespaces to count; None for all.

        Returns
        -------
        list of str
            The most frequent first, as most chunks write it; none of fewer than 100 chunks.
        """
        names = check_namespaces(namespace)
        now = self._current()
        counts, written = now.live.current(names).statistics.of(names), partial(now.searcher.written_form, names)
        return find_frequent_names(counts, now.live.vocabulary, written)

    def verify(self, *, vectors: bool = True, progress: Callable[[Progress], None] | None = None) -> VerifyReport:
        """Count all stored vectors again and compare the statistics with the result, and each vector with its text.

        On a server, others may write meanwhile: a count differs if that cannot explain it.

        Counts are compared exactly, weights to six digits. They do not depend on what a server has rounded in its
        index: the stored vectors are float32.

        Parameters
        ----------
        vectors : bool
            Whether to encode all stored texts and metadata again; that takes as long as when they were added.
        progress
            As for :meth:`repair`.

        Returns
        -------
        VerifyReport
            Every difference; none if statistics and vectors are right, or if that cannot be told: see `inconclusive`.
        """
        check_switch("vectors", vectors)
        check_callable("progress", progress)
        report = self._current().in_force(partial(verify, vectors=vectors, progress=progress))
        with suppress(StoreError):  # a role of a server may be refused to look
            report = replace(report, other_generations=other_generations(self._current().store))
        return report

    def _require_writable(self) -> None:
        if self._options.read_only:
            raise ReadOnlyError(f"{self._store.name} was opened with read_only=True")


def _repair(options: RepairOptions, progress: Callable[[Progress], None] | None, now: Generation) -> RepairReport:
    """Replace the statistics, write chunks again that need it, and count these once more."""
    if options.erase:
        require_no_others(now.store)
    with now.store.write_lock, now.live.events.measure("repair") as counts:
        with now.live.replacing():
            report, wrong = repair(now, options, progress)
            drop_damaged_roots(now.store)
        if len(wrong):  # their wrong terms were counted
            rewritten = rewrite(now, wrong)
            with now.live.replacing():
                again, _ = repair(now, options, progress)
            nameless = again.nameless_terms
            report = replace(report, rewritten=rewritten, num_terms=again.num_terms, nameless_terms=nameless)
        if options.erase:
            report = replace(report, compacted=now.store.compact())
        counts.update(asdict(report))
        return report
