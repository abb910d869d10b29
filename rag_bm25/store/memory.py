"""A store in plain dicts, for evaluation and for tests of programs that use an index."""

from __future__ import annotations

import json
import operator
import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rag_bm25.checks import kind_of
from rag_bm25.errors import FormatError, IndexGoneError, StoreError
from rag_bm25.filters import ID, OPPOSITES, And, Comparison, Not, Or
from rag_bm25.store.milvus.schema import CHUNK_FIELDS, LOG_FIELDS, check_name, generation_suffix
from rag_bm25.store.postings import Postings
from rag_bm25.store.rows import ALL_CHUNKS, ChunkRow, Match, check_metric
from rag_bm25.store.storage import StorageInfo
from rag_bm25.vectors.sparse import EMPTY, SparseVector

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from rag_bm25.filters import Filter
    from rag_bm25.store.protocol import WriteLock
    from rag_bm25.store.rows import DenseField, DenseMetric, KeyRange, LogRow, Scope, SearchArm

SCAN_BATCH = 1000
ORDERS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}


@dataclass
class Collections:
    """The rows of one index, which several stores may share."""

    chunks: dict[str, ChunkRow] = field(default_factory=dict)
    log: dict[str, LogRow] = field(default_factory=dict)
    exist: bool = False
    dense: DenseField | None = None
    log_exists: bool = True
    write_lock: Any = field(default_factory=threading.RLock, compare=False)
    log_writes: int = 0
    successor: Collections | None = None  # the next generation
    first: Collections | None = None  # the first one, unless these are it
    postings: Postings = field(init=False, compare=False)

    def __post_init__(self) -> None:
        """Index the rows that there are."""
        self.postings = Postings(self.chunks.values())


class MemoryStore:
    """The rows of an index in memory; satisfies :class:`rag_bm25.store.protocol.Store`.

    For evaluation, and for the tests of programs that use an index: it needs no engine, starts at once, and ends with
    the process. The suite that tests the Milvus engines tests it, too: order, scores, filters and refusals are theirs.
    A search reads the postings of its terms; one by dense vectors reads them all.

    Parameters
    ----------
    collection : str, default "docs"
        Name of the index, for messages.

    Examples
    --------
    >>> from rag_bm25 import BM25Index, IndexConfig
    >>> store = MemoryStore()
    >>> with BM25Index.from_store(store, config=IndexConfig(chunk_size=500)) as index:
    ...     ids = index.add(["Milvus stores sparse vectors."])
    >>> with BM25Index.from_store(store.reopen()) as index:
    ...     [hit.text for hit in index.search("vector")]
    ['Milvus stores sparse vectors.']
    """

    generation = 1
    exclusive = True
    late_seconds = 0.0

    def __init__(self, collection: str = "docs") -> None:
        check_name(collection)
        self.collections = Collections()
        self._collection = collection
        self._is_closed = False
        self._own_log_writes = 0

    def reopen(self) -> MemoryStore:
        """Open another store on the same rows, as another process would.

        Returns
        -------
        MemoryStore
            A store that is open, also where this one is closed.
        """
        store = MemoryStore(self._collection)
        store.collections = self.collections
        return store

    def successor(self) -> MemoryStore:
        own = self.collections
        if own.successor is None:
            own.successor = Collections(write_lock=own.write_lock, first=own.first or own)
        return self._at(own.successor, self.generation + 1)

    def first(self) -> MemoryStore:
        return self._at(self.collections.first or self.collections, 1)

    def _at(self, collections: Collections, generation: int) -> MemoryStore:
        """Open the store of a generation."""
        store = self.reopen()
        store.collections, store.generation = collections, generation
        return store

    @property
    def name(self) -> str:
        return f"memory, collection {self._collection!r}{generation_suffix(self.generation)}"

    @property
    def write_lock(self) -> WriteLock:
        lock: WriteLock = self.collections.write_lock
        return lock

    @property
    def place(self) -> tuple[object, ...]:
        return (id(self.collections),)

    @property
    def writes_of_others(self) -> int:
        return self.collections.log_writes - self._own_log_writes

    def exists(self) -> bool:
        self._check_call("exists", needs_collections=False)
        return self.collections.exist and self.collections.log_exists

    def has_collections(self) -> bool:
        self._check_call("has_collections", needs_collections=False)
        return self.collections.exist or bool(self.collections.log)

    def has_log(self) -> bool:
        self._check_call("has_log", needs_collections=False)
        return self.collections.exist and self.collections.log_exists

    def index_names(self) -> list[str]:
        self._check_call("index_names", needs_collections=False)
        return [self._collection] if self.collections.exist and self.collections.log_exists else []

    def compact(self) -> bool:
        self._check_call("compact", needs_collections=False)
        return True

    def has_chunks(self) -> bool:
        self._check_call("has_chunks", needs_collections=False)
        return bool(self.collections.chunks)

    def create(self, dense: DenseField | None = None) -> None:
        self._check_call("create", needs_collections=False)
        if self.collections.exist and dense != self.collections.dense:
            raise FormatError(f"{self.name} has the dense field {self.collections.dense}, not {dense}")
        self.collections.exist, self.collections.dense, self.collections.log_exists = True, dense, True

    def dense_dim(self) -> int | None:
        self._check_call("dense_dim", needs_collections=False)
        return self.collections.dense.dim if self.collections.dense else None

    def drop(self) -> None:
        self._check_call("drop", needs_collections=False)
        with self.write_lock:  # not within a batch
            self._note_log_write()
            self._clear_chunks()
            self.collections.log.clear()
            self.collections.exist, self.collections.dense = False, None

    def drop_chunks(self) -> None:
        self._check_call("drop_chunks", needs_collections=False)
        self._clear_chunks()

    def close(self) -> None:
        self._is_closed = True

    def insert_chunks(self, rows: Sequence[ChunkRow]) -> None:
        self._check_call("insert_chunks")
        for row in rows:
            self._check_row(row)
        copies = {row.pk: _copy(row) for row in rows}
        self.collections.chunks.update(copies)
        self.collections.postings.add(copies.values())

    def delete_chunks(self, pks: Sequence[str]) -> None:
        self._check_call("delete_chunks")
        for pk in pks:
            self.collections.chunks.pop(pk, None)
        self.collections.postings.remove(pks)

    def get_chunks(
        self, pks: Sequence[str], *, contents: bool = True, vectors: bool = False, dense: bool = False
    ) -> list[ChunkRow]:
        self._check_call("get_chunks")
        found = (self.collections.chunks.get(pk) for pk in dict.fromkeys(pks))
        return [_read(row, contents=contents, vectors=vectors, dense=dense) for row in found if row is not None]

    def scan_chunks(
        self, scope: Scope = ALL_CHUNKS, *, contents: bool = False, vectors: bool = False
    ) -> Iterator[list[ChunkRow]]:
        self._check_call("scan_chunks")
        every = list(self.collections.chunks.values())  # at once: another thread may be writing
        rows = [_read(row, contents=contents, vectors=vectors) for row in every if _is_within(row, scope)]
        rows.sort(key=lambda row: row.pk)
        return (rows[start : start + SCAN_BATCH] for start in range(0, len(rows), SCAN_BATCH))

    def search(self, queries: Sequence[SparseVector] | NDArray[np.float32], arm: SearchArm) -> list[list[Match]]:
        self._check_call("search")
        if not len(queries):
            return []
        if isinstance(queries, np.ndarray):
            return self._search_dense(queries, arm)
        postings = self.collections.postings if arm.pks is None else Postings(self._candidates(arm))
        view = postings.view()
        return [_best(view.rows, *_within(view.rows, *view.scores(query), arm), arm) for query in queries]

    def _search_dense(self, queries: NDArray[np.float32], arm: SearchArm) -> list[list[Match]]:
        self._check_queries(queries, arm.metric)
        rows = [row for row in self._candidates(arm) if _is_within(row, arm.scope)]
        vectors = np.array([row.dense for row in rows], np.float64).reshape(len(rows), queries.shape[1])
        every = np.arange(len(rows))
        return [_best(rows, every, _similarities(query, vectors, arm.metric), arm) for query in queries]

    def _candidates(self, arm: SearchArm) -> list[ChunkRow]:
        """Return the rows that a search may find."""
        if arm.pks is None:
            return list(self.collections.chunks.values())  # at once: another thread may be writing
        found = map(self.collections.chunks.get, dict.fromkeys(arm.pks))
        return [row for row in found if row is not None]

    def storage_info(self) -> StorageInfo:
        self._check_call("storage_info")
        return StorageInfo("memory")

    def count_chunks(self) -> int:
        self._check_call("count_chunks")
        return len(self.collections.chunks)

    def doubled_pks(self) -> list[str]:
        self._check_call("doubled_pks")
        return []

    def count_unloaded(self) -> int:
        return self.count_chunks()

    def insert_log(self, rows: Sequence[LogRow], *, defer: bool = False) -> None:  # noqa: ARG002
        self._check_call("insert_log")
        self._note_log_write()
        for row in rows:
            self._check_lengths(row, LOG_FIELDS)
        self.collections.log.update({row.key: replace(row, meta=_copy_json(row.meta)) for row in rows})

    def delete_log(self, keys: Sequence[str]) -> None:
        self._check_call("delete_log")
        self._note_log_write()
        for key in keys:
            self.collections.log.pop(key, None)

    def log_keys(self, ranges: Sequence[KeyRange] | None = None) -> list[str]:
        self._check_call("log_keys")
        keys = list(self.collections.log)
        return keys if ranges is None else [key for key in keys if any(low < key < high for low, high in ranges)]

    def get_log(self, keys: Sequence[str], *, packed: bool = True) -> list[LogRow]:
        self._check_call("get_log")
        found = (self.collections.log.get(key) for key in dict.fromkeys(keys))
        return [
            replace(row, meta=_copy_json(row.meta), packed=row.packed if packed else "")
            for row in found
            if row is not None
        ]

    def _check_call(self, method: str, *, needs_collections: bool = True) -> None:  # noqa: ARG002
        """Refuse a call of a closed store, or of one that has not been created."""
        if self._is_closed:
            raise StoreError(f"{self.name} is closed")
        if needs_collections and not self.collections.exist:
            raise IndexGoneError(f"{self.name} is not there: it was dropped while it was open, or not created yet")

    def _check_row(self, row: ChunkRow) -> None:
        """Check rows by the schema, as a server does, and by the rules of the write protocol."""
        self._check_lengths(row, CHUNK_FIELDS)
        if row.pk in self.collections.chunks:
            raise StoreError(f"{self.name} has a row {row.pk!r} already")
        if not len(row.vector):
            raise StoreError(f"the sparse vector of row {row.pk!r} is empty")
        dim = self.collections.dense.dim if self.collections.dense else None
        found = None if row.dense is None else len(row.dense)
        if found != dim:
            raise StoreError(f"row {row.pk!r} must have a dense vector of dimension {dim}, got {found}: {self.name}")

    def _check_lengths(self, row: ChunkRow | LogRow, fields: Mapping[str, Mapping[str, Any]]) -> None:
        """Refuse strings that a server refuses."""
        for name, most in ((name, one["max_length"]) for name, one in fields.items() if "max_length" in one):
            size = len(getattr(row, name).encode())
            if size > most:
                raise StoreError(f"{name} must have at most {most:,} bytes, got {size:,}: {self.name}")

    def _check_queries(self, queries: NDArray[np.float32], metric: DenseMetric) -> None:
        """Refuse dense queries that do not suit the collection."""
        stored = check_metric(self.name, self.collections.dense, metric)
        if queries.shape[1] != stored.dim:
            raise StoreError(f"a dense query must have dimension {stored.dim}, got {queries.shape[1]}: {self.name}")

    def _note_log_write(self) -> None:
        self._own_log_writes += 1
        self.collections.log_writes += 1

    def _clear_chunks(self) -> None:
        self.collections.chunks.clear()
        self.collections.postings = Postings()


def _is_within(row: ChunkRow, scope: Scope) -> bool:
    return (
        (scope.namespaces is None or row.namespace in scope.namespaces)
        and (scope.longer_than is None or row.length > scope.longer_than)
        and scope.having in row.text
        and row.pk > scope.after
        and (scope.where is None or matches(scope.where, row.id, row.metadata))
    )


def _copy_json(value: dict[str, Any]) -> dict[str, Any]:
    copied: dict[str, Any] = json.loads(json.dumps(value)) if value else {}
    return copied


def _copy(row: ChunkRow) -> ChunkRow:
    vector = SparseVector(row.vector.ids.copy(), row.vector.values.copy())
    dense = None if row.dense is None else row.dense.astype(np.float32)
    return replace(row, metadata=_copy_json(row.metadata), vector=vector, dense=dense)


def _read(row: ChunkRow, *, contents: bool, vectors: bool, dense: bool = False) -> ChunkRow:
    """Copy the requested columns of a row."""
    return ChunkRow(
        pk=row.pk,
        id=row.id,
        namespace=row.namespace,
        length=row.length,
        batch=row.batch,
        text=row.text if contents else "",
        metadata=_copy_json(row.metadata) if contents else {},
        vector=row.vector if vectors else EMPTY,
        dense=row.dense if dense else None,
    )


def _similarities(query: NDArray[np.float32], vectors: NDArray[np.float64], metric: DenseMetric) -> NDArray[np.float64]:
    wanted = query.astype(np.float64)
    products: NDArray[np.float64] = vectors @ wanted
    if metric == "COSINE":
        norms = np.linalg.norm(wanted) * np.linalg.norm(vectors, axis=1)
        np.divide(products, norms, out=products, where=norms > 0)  # those of a vector of zeros are 0.0 already
    return products


def _within(
    rows: list[ChunkRow], found: NDArray[np.intp], scores: NDArray[np.float64], arm: SearchArm
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Leave out the rows that are not within the scope, and some that others push out of the limit.

    The rows are tried by falling score, since a filter takes longer than a score.
    """
    if arm.scope == ALL_CHUNKS:
        return found, scores
    rounded = scores.astype(np.float32)
    order = np.argsort(-rounded, kind="stable")
    kept: list[int] = []
    last = np.inf
    for place, at, score in zip(order.tolist(), found[order].tolist(), rounded[order].tolist(), strict=True):
        if len(kept) >= arm.limit and score < last:
            break
        if _is_within(rows[at], arm.scope):
            kept.append(place)
            last = score
    return found[kept], scores[kept]


def _best(rows: list[ChunkRow], found: NDArray[np.intp], exact: NDArray[np.float64], arm: SearchArm) -> list[Match]:
    """Return the best of the rows that were found, by (-score, id, pk)."""
    scores, limit = exact.astype(np.float32), arm.limit
    if len(found) > limit:
        last = np.partition(scores, len(scores) - limit)[len(scores) - limit]
        found, scores = found[scores >= last], scores[scores >= last]  # with all rows that share the last score
    ranked = [(-score, rows[at].id, rows[at].pk, at) for at, score in zip(found.tolist(), scores.tolist(), strict=True)]
    best = sorted(ranked)[:limit]
    return [Match(_read(rows[at], contents=arm.pks is None, vectors=arm.vectors), -score) for score, _, _, at in best]


def matches(where: Filter, id: str, metadata: dict[str, Any]) -> bool:
    """Evaluate a filter, as :mod:`rag_bm25.filters` defines it."""
    if isinstance(where, And):
        return all(matches(part, id, metadata) for part in where.parts)
    if isinstance(where, Or):
        return any(matches(part, id, metadata) for part in where.parts)
    if isinstance(where, Not):
        return not matches(where.part, id, metadata)
    return _compare(where, id if where.path == ID else _value(metadata, where.path))


def _value(metadata: Any, path: tuple[str, ...]) -> Any:
    for step in path:
        metadata = metadata.get(step) if isinstance(metadata, dict) else None
    return metadata


def _compare(where: Comparison, value: Any) -> bool:
    wanted: Any = where.value
    if where.op == "exists":
        return value is not None
    if where.op in OPPOSITES:
        return not _compare(Comparison(where.path, OPPOSITES[where.op], wanted), value)
    if where.op == "in":
        return any(_same(value, member) for member in wanted)
    if where.op == "contains":
        return isinstance(value, list) and any(_same(member, wanted) for member in value)
    if where.op == "like":
        return isinstance(value, str) and _like(value, wanted)
    if where.op == "==":
        return _same(value, wanted)
    return kind_of(value) == kind_of(wanted) and bool(ORDERS[where.op](value, wanted))


def _same(value: Any, other: Any) -> bool:
    return kind_of(value) == kind_of(other) and bool(value == other)


def _like(value: str, pattern: str) -> bool:
    """Match a pattern, each part at its first place: a regular expression would try all places of all parts."""
    first, *parts = pattern.split("%")
    if not parts:
        return value == first
    last = parts.pop()
    at, end = len(first), len(value) - len(last)
    if not (value.startswith(first) and value.endswith(last)):
        return False
    for part in parts:
        found = value.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return at <= end
