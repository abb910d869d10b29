"""The store of an index: two Milvus collections, on any engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from rag_bm25.budget import check_budget
from rag_bm25.checks import check_choice
from rag_bm25.errors import FormatError
from rag_bm25.store.milvus.collection import Collection
from rag_bm25.store.milvus.connection import Connection
from rag_bm25.store.milvus.expressions import where_clause
from rag_bm25.store.milvus.halves import has_fields, refuse_half
from rag_bm25.store.milvus.log_store import MilvusLogStore
from rag_bm25.store.milvus.schema import (
    CHUNK_FIELDS,
    DENSE,
    GENERATION,
    LOG_FACTS,
    SPARSE,
    chunk_entity,
    chunk_fields,
    chunk_output,
    chunk_row,
    dense_dim,
    name_generation,
)
from rag_bm25.store.milvus.searching import ChunkSearch
from rag_bm25.store.rows import ALL_CHUNKS, ConsistencyLevel, DenseField, check_metric
from rag_bm25.store.storage import (
    DEFAULT_STORAGE,
    StorageInfo,
    check_storage,
    require_effective,
    require_same_storage,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from rag_bm25.store.milvus.engine import Engine
    from rag_bm25.store.protocol import WriteLock
    from rag_bm25.store.rows import ChunkRow, Match, Scope, SearchArm
    from rag_bm25.store.storage import StorageOptions
    from rag_bm25.store.tls import TLS
    from rag_bm25.vectors.sparse import SparseVector


class MilvusStore(MilvusLogStore):
    """Chunks and statistics of an index in Milvus; satisfies :class:`~rag_bm25.store.protocol.Store`.

    Dense searches are exact on the embedded engines; the index of a server is approximate.

    Parameters
    ----------
    uri, collection, token, tls, timeout, read_only, consistency, storage
        As for :meth:`rag_bm25.BM25Index.open`, but ``":memory:"`` is refused.
    generation : int
        Generation of the index; :meth:`rag_bm25.BM25Index.from_store` goes on from the first one to that in force.
    engine : Engine or None
        Engine that another store of the same connection has open, to share it; None to open it.

    Raises
    ------
    IndexNotFoundError
        If the file is missing and `read_only` is set.
    MissingExtraError
        If a path is given and milvus-lite is not installed.
    StoreLockedError
        If another process has the file open.
    StoreError
        If Milvus cannot be reached or started.
    """

    generation = 1

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
        storage: StorageOptions | None = None,
        generation: int = 1,
        engine: Engine | None = None,
    ) -> None:
        check_choice("consistency", consistency, get_args(ConsistencyLevel))
        self._storage = check_storage(storage)
        self._collection, self._consistency, self.generation = collection, consistency, generation
        self._connection = Connection(uri, token, tls, timeout)
        super().__init__(self._connection, collection, read_only=read_only, generation=generation, engine=engine)
        self._chunks = _Chunks(self._handle, name_generation(collection, generation))
        self._searches = ChunkSearch(self._chunks, consistency)
        self._dense: DenseField | None = None  # as stored, once that has been read
        self._knows_dense = False

    @property
    def write_lock(self) -> WriteLock:
        return self._open.write_lock

    @property
    def place(self) -> tuple[object, ...]:
        file = self._open.file_id
        return (self._log.describe()["collection_id"],) if file is None else (*file, self._log.name)

    @property
    def late_seconds(self) -> float:
        return self._open.late_seconds

    def successor(self) -> MilvusStore:
        return self._at(self.generation + 1)

    def first(self) -> MilvusStore:
        return self._at(1)

    def _at(self, generation: int) -> MilvusStore:
        """Open the store of a generation, by the same connection."""
        connection = self._connection
        return type(self)(
            connection.uri,
            self._collection,
            token=connection.token,
            tls=connection.tls,
            timeout=connection.timeout,
            read_only=self._handle.read_only,
            consistency=self._consistency,
            storage=self._storage,
            generation=generation,
            engine=self._open,
        )

    def reveal_rows(self) -> None:
        """Mend rows that a clock that was wrong has hidden, in the whole file."""
        self._handle.writable().reveal_rows()

    def exists(self) -> bool:
        require_effective(self._storage, self._open.storage_choices(), self._open.dialect.engine)
        has_chunks, has_log = self._has_complete_chunks(), super().exists()
        if has_chunks != has_log:
            refuse_half(self._handle, self._log if has_log else self._chunks, is_log=has_log)
        if has_chunks and has_log:
            self._require_same_storage()
        return has_chunks and has_log

    def has_collections(self) -> bool:
        has_chunks, has_log = self._chunks.exists(), self._log.exists()
        if has_chunks:
            self._has_complete_chunks()  # for their fields
        if has_log:
            self._check_kind()
        if has_chunks != has_log:
            refuse_half(self._handle, self._log if has_log else self._chunks, is_log=has_log)
        return has_chunks or has_log

    def index_names(self) -> list[str]:
        names = set(self._open.read("list_collections"))
        pairs = {name for name in names if f"{name}_bm25" in names and self._is_index(name)}
        indexes = {GENERATION.sub("", name) for name in pairs}  # the chunks of the first generation may be dropped
        return sorted(name for name in indexes if f"{name}_bm25" in names)

    def _is_index(self, name: str) -> bool:
        """Return whether two collections have the fields of an index."""
        chunks, log = Collection(self._handle, name), Collection(self._handle, f"{name}_bm25")
        return has_fields(chunks, CHUNK_FIELDS) and has_fields(log, LOG_FACTS)

    def compact(self) -> bool:
        return self._handle.writable().compact()

    def has_chunks(self) -> bool:
        return self._has_complete_chunks() and self.count_unloaded() > 0

    def create(self, dense: DenseField | None = None) -> None:
        self._handle.writable()
        require_effective(self._storage, self._open.storage_choices(), self._open.dialect.engine)
        is_begun = self._chunks.exists()
        self._chunks.complete(chunk_fields(dense.dim if dense else None), dense, self._storage)
        if is_begun:
            self._require_same_storage()
        super().create()
        if dense is not None:
            check_metric(self.name, self._dense_field(), dense.metric, FormatError)

    def dense_dim(self) -> int | None:
        return dense_dim(self._chunks.find_fields())

    def drop(self) -> None:
        with self.write_lock, self._log_changes():  # not within a batch
            self._drop_log()  # first: statistics without their chunks would be taken for those of an index
            self._chunks.drop()
        self._dense, self._knows_dense = None, False

    def drop_chunks(self) -> None:
        self._chunks.drop()

    def insert_chunks(self, rows: Sequence[ChunkRow]) -> None:
        self._insert_log()
        self._chunks.insert(map(chunk_entity, rows))

    def delete_chunks(self, pks: Sequence[str]) -> None:
        self._insert_log()
        self._chunks.delete(pks)

    def get_chunks(
        self, pks: Sequence[str], *, contents: bool = True, vectors: bool = False, dense: bool = False
    ) -> list[ChunkRow]:
        output, page = chunk_output(contents=contents, vectors=vectors), self._open.keys_per_query
        if dense and (field := self._dense_field()) is not None:
            output.append(DENSE)
            page = max(1, min(page, self._open.dense_bytes // (4 * field.dim)))
        return [chunk_row(entity) for entity in self._chunks.get(pks, output, page)]

    def scan_chunks(
        self, scope: Scope = ALL_CHUNKS, *, contents: bool = False, vectors: bool = False
    ) -> Iterator[list[ChunkRow]]:
        clause = where_clause(self._open.dialect, scope)
        for page in self._chunks.scan(clause, chunk_output(contents=contents, vectors=vectors)):
            yield [chunk_row(entity) for entity in page]

    def search(self, queries: Sequence[SparseVector] | NDArray[np.float32], arm: SearchArm) -> list[list[Match]]:
        if isinstance(queries, np.ndarray):
            check_metric(self.name, self._dense_field(), arm.metric)
        return self._searches.search(queries, arm)

    def count_chunks(self) -> int:
        return self._chunks.count()

    def doubled_pks(self) -> list[str]:
        return self._chunks.doubled_keys("pk")

    def count_unloaded(self) -> int:
        stored = self._chunks.num_rows()
        return self.count_chunks() if stored is None else stored

    def storage_info(self) -> StorageInfo:
        engine = self._open
        built = self._chunks.describe_storage(SPARSE) if self._chunks.exists() else {}
        return StorageInfo(engine.dialect.engine, engine.version, **built)

    def _require_same_storage(self) -> None:
        if self._storage != DEFAULT_STORAGE:
            require_same_storage(self.name, self.storage_info(), self._storage)

    def _has_complete_chunks(self) -> bool:
        found = self._chunks.find_fields()
        return self._chunks.is_complete(chunk_fields(dense_dim(found)), found)

    def _dense_field(self) -> DenseField | None:
        """Return the stored dense field; once the collection is there, it is not read again."""
        if not self._knows_dense and (fields := self._chunks.find_fields()):
            if (dim := dense_dim(fields)) is not None:
                index = self._open.read("describe_index", self._chunks.name, DENSE)
                self._dense = DenseField(dim, index["metric_type"])
            self._knows_dense = True
        return self._dense


class _Chunks(Collection):
    """The chunks: their reads end with the budget. Those of the log do not, since all requests need them."""

    def query(self, clause: str, output: Sequence[str], **options: Any) -> list[dict[str, Any]]:
        check_budget()
        return super().query(clause, output, **options)
