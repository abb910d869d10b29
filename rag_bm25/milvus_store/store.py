"""The store of an index: two Milvus collections, on any engine."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, get_args

from rag_bm25.errors import FormatError, ParameterError, ReadOnlyError, StoreError
from rag_bm25.milvus_store.expressions import where_clause
from rag_bm25.milvus_store.schema import (
    CHUNK_CONTENTS,
    CHUNK_FACTS,
    DENSE,
    LOG_COUNTS,
    LOG_FIELDS,
    SPARSE,
    check_fields,
    check_name,
    chunk_entity,
    chunk_fields,
    chunk_row,
    entity_bytes,
    field_types,
    log_entity,
    log_row,
    vector_fields,
)
from rag_bm25.store import ConsistencyLevel, DenseField, ImportState, Match

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from rag_bm25.filters import Filter
    from rag_bm25.milvus_store.engines import Engine
    from rag_bm25.search_params import SearchParams
    from rag_bm25.sparse import SparseVector
    from rag_bm25.store import ChunkRow, DenseMetric, LogRow, WriteLock
    from rag_bm25.tls import TLS

__all__ = ["MilvusStore"]

T = TypeVar("T")
_Hits: TypeAlias = "list[list[tuple[float, Mapping[str, Any]]]]"  # score and entity of each hit, for each query

PAGE = 1000
KEYS_PAGE = 10_000
MAX_LIMIT = 16_384
QUERIES_PER_CALL = 100
STRONG: ConsistencyLevel = "Strong"  # of everything but searches
SPARE = 2  # of 100 searches for ten chunks, 5 to 8 share the last score with one more row, and one with two
MAKING_SECONDS = 2.0
SPARSE_METRIC = "IP"
SPARSE_INDEX = {"index_type": "SPARSE_INVERTED_INDEX", "metric_type": SPARSE_METRIC}


class MilvusStore:
    """Rows of an index in Milvus; satisfies :class:`rag_bm25.store.Store`.

    Parameters
    ----------
    uri : str or Path
        A path ending in ``.db`` for the embedded engine, or the address of a server:
        ``http://``, ``https://``, ``tcp://`` or ``unix:``; a database name may follow as the path.
    collection : str
        Name of the index: its chunks are in ``<collection>``, its statistics in ``<collection>_bm25``.
    token : str, optional
        ``user:password`` or an API key, for servers.
    tls : TLS, optional
        Certificates, for ``https://`` addresses.
    timeout : float, optional
        Seconds that a call of a server may take; by default 10 for connecting and 60 for other calls.
    read_only : bool, default False
        Refuse every write.
    consistency : {"Strong", "Bounded", "Session", "Eventually"}, default "Session"
        Which writes a search of a server waits for: all of them, those older than some seconds, those of this process,
        or none. Everything else is read Strong, whatever this is.

    Raises
    ------
    ParameterError
        If the path, the name or the level breaks a rule.
    IndexNotFoundError
        If the file is missing and `read_only` is set.
    MissingExtraError
        If a path is given and milvus-lite is not installed.
    StoreLockedError
        If another process has the file open.
    StoreError
        If Milvus cannot be reached or started.
    """

    def __init__(
        self,
        uri: str | Path,
        collection: str,
        *,
        token: str | None = None,
        tls: TLS | None = None,
        timeout: float | None = None,
        read_only: bool = False,
        consistency: ConsistencyLevel = "Session",
    ) -> None:
        # pymilvus takes a third of a second to import: only those who open a store wait for it.
        from rag_bm25.milvus_store.engines import open_engine, release_when_forgotten

        check_name(collection)
        _check_consistency(consistency)
        self._chunks = collection
        self._log = f"{collection}_bm25"
        self._read_only = read_only
        self._consistency = consistency  # of searches
        self._prepared: set[str] = set()
        self._dense: DenseField | None = None  # as stored, once it has been read
        self._own_log_writes = 0
        self._engine: Engine | None = open_engine(uri, token=token, tls=tls, timeout=timeout, read_only=read_only)
        self._is_closed = release_when_forgotten(self, self._engine)
        self._name = f"{self._engine.name}, collection {collection!r}"

    @property
    def name(self) -> str:
        """Engine, URI without secrets, and collection."""
        return self._name

    @property
    def exclusive(self) -> bool:
        """Whether this process alone has the database open."""
        return self._open.exclusive

    @property
    def write_lock(self) -> WriteLock:
        """Held for a whole batch; shared by all stores of this process on one embedded engine."""
        return self._open.write_lock

    @property
    def writes_of_others(self) -> int:
        """How often other stores of this process that share the engine have written to the log."""
        return self._open.log_writes(self._log) - self._own_log_writes

    def exists(self) -> bool:
        """Return whether both collections are there and complete, with or without dense vectors.

        Returns
        -------
        bool
            False also where creating them was interrupted; :meth:`create` completes them.

        Raises
        ------
        FormatError
            If a collection of the name has other fields.
        """
        return all(self._is_complete(name, fields) for name, fields in self._collections(self.dense_dim()).items())

    def has_collections(self) -> bool:
        """Return whether one of the two collections is there, or both, complete or not.

        Returns
        -------
        bool
            True also for what creating or dropping left halfway.

        Raises
        ------
        FormatError
            If a collection of the name has other fields.
        """
        there = [name for name in (self._chunks, self._log) if self._open.read("has_collection", name)]
        fields = self._collections(self.dense_dim())
        for name in there:
            self._is_complete(name, fields[name])  # for its fields
        return bool(there)

    def has_chunks(self) -> bool:
        """Return whether there are rows of chunks, also where the log is missing.

        Returns
        -------
        bool
            False also where the collection is missing, or creating it was interrupted.

        Raises
        ------
        FormatError
            If the collection has other fields.
        """
        return self._is_complete(self._chunks, chunk_fields(self.dense_dim())) and self.count_unloaded() > 0

    def create(self, dense: DenseField | None = None) -> None:
        """Create what is missing of the two collections.

        Parameters
        ----------
        dense : DenseField, optional
            The dense vectors of the chunks; by default there are none.

        Raises
        ------
        FormatError
            If a collection of the name has other fields, or dense vectors of another kind.
        ParameterError
            If the engine would mix the name up with another collection's.
        """
        self._check_writable()
        engine = self._open
        for name, fields in self._collections(dense.dim if dense else None).items():
            if not self._is_complete(name, fields):
                engine.check_collection(name)
                self._create(name, fields, dense)
        if dense is not None:
            self._check_metric(dense.metric, FormatError)

    def dense_dim(self) -> int | None:
        """Return the dimensions of the stored dense vectors.

        Returns
        -------
        int or None
            None where the collection is missing or has no dense vectors.
        """
        if not self._open.read("has_collection", self._chunks):
            return None
        described = self._open.read("describe_collection", self._chunks)["fields"]
        return next((field["params"].get("dim") for field in described if field["name"] == DENSE), None)

    def drop(self) -> None:
        """Drop both collections with everything in them; missing ones are ignored.

        The log goes first: statistics without their chunks would be taken for those of an index.
        """
        self._check_writable()
        for name in (self._log, self._chunks):
            self._open.write("drop_collection", name)
            self._prepared.discard(name)
        self._note_write(self._log)
        self._dense = None

    def close(self) -> None:
        """Release the connection; the last store of a database file stops its engine."""
        if self._engine is not None:
            from rag_bm25.milvus_store.engines import release_engine

            engine, self._engine = self._engine, None
            self._is_closed()
            release_engine(engine)

    def insert_chunks(self, rows: Sequence[ChunkRow]) -> None:
        """Insert rows whose pks are not stored yet.

        Parameters
        ----------
        rows : sequence of ChunkRow
            Their sparse vectors are not empty; all of them have a dense one where the index has them, else none.
        """
        self._insert(self._chunks, [chunk_entity(row) for row in rows])

    def delete_chunks(self, pks: Sequence[str]) -> None:
        """Delete rows; pks that are not stored are ignored.

        Parameters
        ----------
        pks : sequence of str
            Primary keys.
        """
        self._delete(self._chunks, pks)

    def get_chunks(
        self, pks: Sequence[str], *, contents: bool = True, vectors: bool = False, dense: bool = False
    ) -> list[ChunkRow]:
        """Return the stored ones of `pks`, in any order.

        Parameters
        ----------
        pks : sequence of str
            Primary keys, any number.
        contents : bool, default True
            Whether to read text and metadata.
        vectors : bool, default False
            Whether to read the sparse vectors.
        dense : bool, default False
            Whether to read the dense vectors, where there are some.

        Returns
        -------
        list of ChunkRow
            One row a pk.
        """
        output, page = _chunk_output(contents=contents, vectors=vectors), PAGE
        if dense and (field := self._dense_field()) is not None:
            output.append(DENSE)
            page = max(1, min(PAGE, self._open.dense_bytes // (4 * field.dim)))
        found = self._get(self._chunks, pks, output, page)
        return [chunk_row(entity) for entity in found]

    def scan_chunks(
        self,
        *,
        where: Filter | None = None,
        namespaces: Sequence[str] | None = None,
        contents: bool = False,
        vectors: bool = False,
    ) -> Iterator[list[ChunkRow]]:
        """Stream every row that fits, each once, in the order of the pks.

        Parameters
        ----------
        where : Filter, optional
            Condition on the metadata.
        namespaces : sequence of str, optional
            Only these namespaces.
        contents : bool, default False
            Whether to read text and metadata.
        vectors : bool, default False
            Whether to read the sparse vectors.

        Yields
        ------
        list of ChunkRow
            At most 1,000 rows.
        """
        clause = where_clause(self._open.dialect, where, namespaces)
        output = _chunk_output(contents=contents, vectors=vectors)
        for page in self._scan(self._chunks, clause, output, PAGE):
            yield [chunk_row(entity) for entity in page]

    def search(
        self,
        queries: Sequence[SparseVector],
        *,
        limit: int,
        where: Filter | None = None,
        namespaces: Sequence[str] | None = None,
        params: SearchParams | None = None,
    ) -> list[list[Match]]:
        """Return for each query the rows of greatest inner product, by (-score, id, pk).

        Parameters
        ----------
        queries : sequence of SparseVector
            None of them empty.
        limit : int
            How many rows for each query, in 1..16384.
        where : Filter, optional
            Condition on the metadata.
        namespaces : sequence of str, optional
            Only these namespaces.
        params : mapping of str to str, bool, int or float, optional
            What else the engine is told; some make it leave out rows.

        Returns
        -------
        list of list of Match
            Rows without a shared dimension are never among them. Which of several rows with the same score come
            first does not depend on the limit, as long as fewer than 16,384 rows have that score or a higher one.

        Raises
        ------
        FilterError
            If the engine cannot evaluate the filter.
        """
        call = self._call(SPARSE, SPARSE_METRIC, where, namespaces, params)
        return self._search_all(queries, limit, call)

    def search_dense(
        self,
        queries: NDArray[np.float32],
        *,
        metric: DenseMetric,
        limit: int,
        where: Filter | None = None,
        namespaces: Sequence[str] | None = None,
        params: SearchParams | None = None,
    ) -> list[list[Match]]:
        """Return for each query the most similar rows, by (-score, id, pk).

        Parameters
        ----------
        queries : ndarray of float32, shape (n, dim)
            Dense vectors, finite.
        metric : {"COSINE", "IP"}
            The metric of the index.
        limit : int
            How many rows for each query, in 1..16384.
        where : Filter, optional
            Condition on the metadata.
        namespaces : sequence of str, optional
            Only these namespaces.
        params : mapping of str to str, bool, int or float, optional
            What else the engine is told; some make it leave out rows.

        Returns
        -------
        list of list of Match
            Exact on the embedded engines, where ties are broken as in :meth:`search`; a server's index is approximate.
            A vector of zeros has cosine 0.0 with every other.

        Raises
        ------
        FilterError
            If the engine cannot evaluate the filter.
        StoreError
            If the index has no dense vectors, or another metric.
        """
        self._check_metric(metric)
        return self._search_all(list(queries), limit, self._call(DENSE, metric, where, namespaces, params))

    def count_chunks(self) -> int:
        """Return the number of stored rows.

        Returns
        -------
        int
            Rows of all namespaces.
        """
        return self._count("")

    def count_unloaded(self) -> int:
        """Return the number of stored rows without loading them, where the engine can tell it so.

        Returns
        -------
        int
            Rows of all namespaces, also those that cannot be seen.
        """
        stored = self._open.num_rows(self._chunks)
        return self.count_chunks() if stored is None else stored

    def count_batch(self, batch: str) -> int:
        """Return how many rows a batch has put there.

        Parameters
        ----------
        batch : str
            Its id.

        Returns
        -------
        int
            Rows of all namespaces.
        """
        return self._count(f'batch == "{batch}"')

    def require_imports(self) -> None:
        """Refuse an engine that cannot read files by itself.

        Raises
        ------
        StoreError
            It has no bulk import.
        """
        self._importing()

    def start_import(self, path: str) -> int:
        """Have a server read a Parquet file with rows from its own object storage.

        Parameters
        ----------
        path : str
            Where it is in the server's bucket.

        Returns
        -------
        int
            Number of the job: all of its rows come, or none.

        Raises
        ------
        StoreError
            The engine has no bulk import, or refuses it.
        """
        self._check_writable()
        return int(self._importing().write("start_import", self._chunks, path))

    def import_state(self, job: int) -> ImportState:
        """Return how far a job has come.

        Parameters
        ----------
        job : int
            As returned by :meth:`start_import`.

        Returns
        -------
        ImportState
            As of now.
        """
        return _import_state(self._importing().read("import_state", job))

    def imports_under_way(self) -> list[int]:
        """Return the jobs that are not finished yet, whoever started them.

        Returns
        -------
        list of int
            Their numbers.
        """
        states = {state.task_id: _import_state(state) for state in self._importing().read("list_imports", self._chunks)}
        return [job for job, state in states.items() if not (state.finished or state.failure)]

    def after_imports(self) -> None:
        """Make what was imported visible."""
        self._importing().read("refresh_load", self._chunks)

    def insert_log(self, rows: Sequence[LogRow]) -> None:
        """Insert log rows.

        Parameters
        ----------
        rows : sequence of LogRow
            Under keys that are not stored yet.
        """
        self._insert(self._log, [log_entity(row) for row in rows])

    def delete_log(self, keys: Sequence[str]) -> None:
        """Delete log rows; keys that are not stored are ignored.

        Parameters
        ----------
        keys : sequence of str
            Primary keys.
        """
        self._delete(self._log, keys)

    def log_keys(self) -> list[str]:
        """Return the key of every log row.

        Returns
        -------
        list of str
            Each once.
        """
        return [entity["key"] for page in self._scan(self._log, "", ["key"], KEYS_PAGE) for entity in page]

    def get_log(self, keys: Sequence[str], *, packed: bool = True) -> list[LogRow]:
        """Return the stored ones of `keys`, in any order.

        Parameters
        ----------
        keys : sequence of str
            Primary keys, any number.
        packed : bool, default True
            Whether to read the packed data.

        Returns
        -------
        list of LogRow
            One row a key.
        """
        output = [*LOG_COUNTS, "packed"] if packed else list(LOG_COUNTS)
        return [log_row(entity) for entity in self._get(self._log, keys, output)]

    def _collections(self, dim: int | None) -> dict[str, Mapping[str, Mapping[str, Any]]]:
        """Return the fields of both collections."""
        return {self._chunks: chunk_fields(dim), self._log: LOG_FIELDS}

    @property
    def _open(self) -> Engine:
        """The engine, while the store is open."""
        if self._engine is None:
            msg = f"{self._name} is closed"
            raise StoreError(msg)
        return self._engine

    def _check_writable(self) -> None:
        """Refuse to write to what was opened for reading."""
        if self._read_only:
            msg = f"{self._name} was opened read-only"
            raise ReadOnlyError(msg)

    def _importing(self) -> Engine:
        """Return the engine, where it reads files by itself."""
        engine = self._open
        if not engine.imports:
            msg = f"{self._name} has no bulk import: load the files row by row instead"
            raise StoreError(msg)
        return engine

    def _prepare(self, collection: str) -> Engine:
        """Make a collection ready, once."""
        engine = self._open
        if collection not in self._prepared:
            engine.prepare(collection)
            self._prepared.add(collection)
        return engine

    def _is_complete(self, collection: str, fields: Mapping[str, Mapping[str, Any]]) -> bool:
        """Tell whether a collection is there with its indexes; check its fields."""
        engine = self._open
        if not engine.read("has_collection", collection):
            return False
        described = engine.read("describe_collection", collection)["fields"]
        check_fields(collection, fields, field_types(described))
        return set(vector_fields(fields)) <= set(engine.read("list_indexes", collection))

    def _dense_field(self) -> DenseField | None:
        """Return what dense vectors are stored; once found, it is not read again."""
        if self._dense is None and (dim := self.dense_dim()) is not None:
            index = self._open.read("describe_index", self._chunks, DENSE)
            self._dense = DenseField(dim, index["metric_type"])
        return self._dense

    def _check_metric(self, metric: DenseMetric, error: type[Exception] = StoreError) -> None:
        """Refuse a metric that the index does not have: milvus-lite 3 would answer with wrong scores."""
        stored = self._dense_field()
        if stored is None:
            msg = f"{self._name} has no dense vectors: it was created without them"
            raise error(msg)
        if metric != stored.metric:
            msg = f"{self._name} compares dense vectors by {stored.metric}, not by {metric}"
            raise error(msg)

    def _create(self, collection: str, fields: Mapping[str, Mapping[str, Any]], dense: DenseField | None) -> None:
        """Create a collection and its indexes, where they are missing."""
        engine, client = self._open, self._open.client
        kinds = {DENSE: {"index_type": engine.dense_index, "metric_type": dense.metric}} if dense else {}
        schema = client.create_schema(auto_id=False)
        for name, field in fields.items():
            partition_key = name == "namespace" and engine.partition_key
            schema.add_field(
                name, **{**field, "datatype": _data_type(field["datatype"])}, is_partition_key=partition_key
            )
        if not engine.read("has_collection", collection):
            options = {"schema": schema, "num_shards": 1, "consistency_level": STRONG}
            self._make("create_collection", collection, options, lambda: engine.read("has_collection", collection))
        indexed = engine.read("list_indexes", collection)  # milvus-lite 3 refuses to make one twice
        for name in (name for name in vector_fields(fields) if name not in indexed):
            index = client.prepare_index_params()
            index.add_index(name, index_name=name, **kinds.get(name, SPARSE_INDEX))
            options = {"index_params": index, "sync": False}
            self._make("create_index", collection, options, partial(self._is_indexed, collection, name))

    def _is_indexed(self, collection: str, field: str) -> bool:
        """Tell whether a field has its index."""
        return field in self._open.read("list_indexes", collection)

    def _make(self, method: str, collection: str, options: Mapping[str, Any], is_made: Callable[[], bool]) -> None:
        """Make a collection or an index, unless another process of several that begin together does."""
        engine = self._open
        try:
            engine.write(method, collection, **options)
        except StoreError:
            end = time.monotonic() + (0 if engine.exclusive else MAKING_SECONDS)  # it may have begun just before
            while not is_made():
                if time.monotonic() >= end:
                    raise
                time.sleep(0.05)

    def _insert(self, collection: str, entities: list[dict[str, Any]]) -> None:
        """Insert entities, in as few messages as the engine takes."""
        self._check_writable()
        engine = self._prepare(collection)
        try:
            for message in _messages(entities, engine.dense_bytes):
                engine.write("insert", collection, message)
                engine.written(collection, len(message))
        finally:
            self._note_write(collection)

    def _delete(self, collection: str, keys: Sequence[str]) -> None:
        """Delete by primary key, page by page."""
        self._check_writable()
        engine = self._prepare(collection)
        try:
            for page in _pages(keys, PAGE):
                engine.write("delete", collection, ids=list(page))
                engine.written(collection, 0)
        finally:
            self._note_write(collection)

    def _note_write(self, collection: str) -> None:
        """Let the other stores that share the engine know that the log has changed, or may have."""
        if collection == self._log:
            self._own_log_writes += 1
            self._open.note_log_write(collection)

    def _query(self, collection: str, clause: str, output: Sequence[str], **kwargs: Any) -> list[dict[str, Any]]:
        """Read what is stored now, whoever wrote it."""
        engine = self._prepare(collection)
        found: list[dict[str, Any]] = engine.read(
            "query", collection, filter=clause, output_fields=list(output), consistency_level=STRONG, **kwargs
        )
        return found

    def _count(self, clause: str) -> int:
        """Count the chunks that fit."""
        counted = self._query(self._chunks, clause, ["count(*)"])
        return int(counted[0]["count(*)"])

    def _get(
        self, collection: str, keys: Sequence[str], output: Sequence[str], size: int = PAGE
    ) -> list[dict[str, Any]]:
        """Read rows by key, each key once, page by page."""
        found: dict[str, dict[str, Any]] = {}
        for page in _pages(list(dict.fromkeys(keys)), size):
            found.update((entity[output[0]], entity) for entity in self._get_page(collection, page, output))
        return list(found.values())

    def _get_page(self, collection: str, keys: Sequence[str], output: Sequence[str]) -> list[dict[str, Any]]:
        """Read a page of rows by key, in two halves where the reply would be too large."""
        from rag_bm25.milvus_store.engines import ReplyTooLargeError

        try:
            return self._query(collection, self._open.dialect.any_of(output[0], keys), output)
        except ReplyTooLargeError:
            if len(keys) == 1:
                raise
        middle = len(keys) // 2
        halves = keys[:middle], keys[middle:]
        return [entity for half in halves for entity in self._get_page(collection, half, output)]

    def _scan(self, collection: str, clause: str, output: Sequence[str], page: int) -> Iterator[list[dict[str, Any]]]:
        """Read every row that fits, in the order of the keys."""
        from rag_bm25.milvus_store.engines import ReplyTooLargeError

        key, last = output[0], ""
        while True:
            rest = f"{key} > {self._open.dialect.quote(last)}"
            try:
                found = self._query(
                    collection, f"({clause}) and {rest}" if clause else rest, output, limit=page, **IN_KEY_ORDER
                )
            except ReplyTooLargeError:
                if page == 1:
                    raise
                page //= 2
                continue
            if not found:
                return
            yield found
            last = found[-1][key]

    def _call(
        self,
        field: str,
        metric: str,
        where: Filter | None,
        namespaces: Sequence[str] | None,
        params: SearchParams | None,
    ) -> dict[str, Any]:
        """Say what a search compares and which rows it considers."""
        clause = where_clause(self._open.dialect, where, namespaces)
        return {"anns_field": field, "search_params": {"metric_type": metric, **(params or {})}, "filter": clause}

    def _search_all(self, queries: Sequence[Any], limit: int, call: Mapping[str, Any]) -> list[list[Match]]:
        """Search, call by call."""
        self._prepare(self._chunks).before_search(self._chunks)
        found: list[list[Match]] = []
        for page in _pages(queries, QUERIES_PER_CALL):
            found += self._search(page, limit, call)
        return found

    def _search(self, queries: Sequence[Any], limit: int, call: Mapping[str, Any]) -> list[list[Match]]:
        """Search one call's worth of queries."""
        wanted = limit + max(SPARE, limit // 10)  # those below show whether the last score is shared
        found = self._nearest(queries, min(wanted, MAX_LIMIT), call)
        while wanted < MAX_LIMIT:
            cut = [at for at, matches in enumerate(found) if _is_cut(matches, limit, wanted)]
            if not cut:
                break
            wanted = min(4 * wanted, MAX_LIMIT)
            for at, matches in zip(cut, self._nearest([queries[at] for at in cut], wanted, call), strict=True):
                found[at] = matches
        return [sorted(matches, key=_rank)[:limit] for matches in found]

    def _nearest(self, queries: Sequence[Any], limit: int, call: Mapping[str, Any]) -> list[list[Match]]:
        """Ask the engine for the rows of greatest score."""
        from rag_bm25.milvus_store.engines import ReplyTooLargeError

        asked = {**call, "data": list(queries), "limit": limit}
        try:
            hits = self._hits([*CHUNK_FACTS, *CHUNK_CONTENTS], asked)
        except ReplyTooLargeError:  # the contents are fetched page by page
            hits = self._hits(["pk"], asked)
            rows = {row.pk: row for row in self.get_chunks([entity["pk"] for found in hits for _, entity in found])}
            return [
                [Match(rows[entity["pk"]], score) for score, entity in found if entity["pk"] in rows] for found in hits
            ]
        return [[Match(chunk_row(entity), score) for score, entity in found] for found in hits]

    def _hits(self, output: list[str], asked: Mapping[str, Any]) -> _Hits:
        """Search, and return score and entity of each hit."""
        options = {"output_fields": output, "consistency_level": self._consistency, **asked}
        found = self._open.read("search", self._chunks, **options)
        return [[(float(hit["distance"]), hit["entity"]) for hit in hits] for hits in found]


# The client leaves the level of such a query to the collection, whatever it is told: hence it is created Strong.
IN_KEY_ORDER = {"iterator": "True", "reduce_stop_for_best": "True"}


def _import_state(state: Any) -> ImportState:
    """Read the client's state of an import."""
    failed = state.state in (state.ImportFailed, state.ImportFailedAndCleaned)
    return ImportState(state.state == state.ImportCompleted, state.failed_reason or "unknown" if failed else "")


def _check_consistency(level: str) -> None:
    """Refuse what is no level."""
    if level not in get_args(ConsistencyLevel):
        msg = f"consistency must be one of {', '.join(get_args(ConsistencyLevel))}, got {level!r}"
        raise ParameterError(msg)


def _chunk_output(*, contents: bool, vectors: bool) -> list[str]:
    """Name the fields to read, the key first."""
    return [*CHUNK_FACTS, *(CHUNK_CONTENTS if contents else ()), *([SPARSE] if vectors else ())]


def _data_type(name: str) -> Any:
    """Return the client's name of a type."""
    from pymilvus import DataType

    return DataType[name]


def _pages(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Cut a sequence into pages."""
    return (items[start : start + size] for start in range(0, len(items), size))


def _messages(entities: list[dict[str, Any]], dense_bytes: int) -> Iterator[list[dict[str, Any]]]:
    """Cut entities into messages that the engine takes, and takes fast."""
    from rag_bm25.milvus_store.engines import MESSAGE_BYTES

    message: list[dict[str, Any]] = []
    size = dense = 0
    for entity in entities:
        more, more_dense = entity_bytes(entity), getattr(entity.get(DENSE), "nbytes", 0)
        if message and (size + more > MESSAGE_BYTES or dense + more_dense > dense_bytes):
            yield message
            message, size, dense = [], 0, 0
        message.append(entity)
        size, dense = size + more, dense + more_dense
    if message:
        yield message


def _rank(match: Match) -> tuple[float, str, str]:
    """Order matches: ties by id, then by pk."""
    return (-match.score, match.row.id, match.row.pk)


def _is_cut(matches: Sequence[Match], limit: int, wanted: int) -> bool:
    """Tell whether rows with the last score that counts may have been left out."""
    return len(matches) == wanted and matches[limit - 1].score == matches[-1].score
