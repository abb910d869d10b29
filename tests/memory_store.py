"""A Store in plain dicts, for tests; the contract suite holds it to what the Milvus engines do."""

from __future__ import annotations

import json
import operator
import re
import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rag_bm25.errors import FilterError, FormatError, StoreError
from rag_bm25.filters import And, Comparison, Expression, Filter, Not, Or
from rag_bm25.sparse import EMPTY, SparseVector
from rag_bm25.store import ChunkRow, DenseField, DenseMetric, LogRow, Match

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from rag_bm25.search_params import SearchParams

SCAN_BATCH = 1000


@dataclass
class Collections:
    """What several MemoryStores on one "database" share."""

    chunks: dict[str, ChunkRow] = field(default_factory=dict)
    log: dict[str, LogRow] = field(default_factory=dict)
    exist: bool = False
    dense: DenseField | None = None
    log_exists: bool = True
    write_lock: Any = field(default_factory=threading.RLock, compare=False)
    log_writes: int = 0

    def copied(self) -> Collections:
        """The same rows, apart from these; rows themselves are never changed."""
        return Collections(dict(self.chunks), dict(self.log), self.exist, self.dense, self.log_exists)


class MemoryStore:
    """Keeps rows in dicts; `calls` has the name of every method called, in order.

    `on_call`, where set, is called with the method's name before anything happens: raise there
    to inject a fault.
    """

    def __init__(self, *, exclusive: bool = True, collections: Collections | None = None) -> None:
        self.collections = collections or Collections()
        self.calls: list[str] = []
        self.params: list[SearchParams | None] = []
        self.on_call: Callable[[str], None] | None = None
        self.closed = False
        self._exclusive = exclusive
        self._own_lock = threading.RLock()
        self._own_log_writes = 0

    def reopen(self) -> MemoryStore:
        """Another store on the same rows, as another process would have it."""
        return MemoryStore(exclusive=self._exclusive, collections=self.collections)

    @property
    def name(self) -> str:
        return "memory"

    @property
    def exclusive(self) -> bool:
        return self._exclusive

    @property
    def write_lock(self) -> Any:
        return self.collections.write_lock if self._exclusive else self._own_lock

    @property
    def writes_of_others(self) -> int:
        return self.collections.log_writes - self._own_log_writes

    def exists(self) -> bool:
        self._called("exists", needs_collections=False)
        return self.collections.exist and self.collections.log_exists

    def has_collections(self) -> bool:
        self._called("has_collections", needs_collections=False)
        return self.collections.exist or bool(self.collections.log)

    def has_chunks(self) -> bool:
        self._called("has_chunks", needs_collections=False)
        return bool(self.collections.chunks)

    def create(self, dense: DenseField | None = None) -> None:
        self._called("create", needs_collections=False)
        if self.collections.exist and dense != self.collections.dense:
            raise FormatError(f"{self.name} has the dense field {self.collections.dense}, not {dense}")
        self.collections.exist, self.collections.dense, self.collections.log_exists = True, dense, True

    def dense_dim(self) -> int | None:
        self._called("dense_dim", needs_collections=False)
        return self.collections.dense.dim if self.collections.dense else None

    def drop(self) -> None:
        self._called("drop", needs_collections=False)
        self._note_log_write()
        self.collections.chunks.clear()
        self.collections.log.clear()
        self.collections.exist, self.collections.dense = False, None

    def drop_log(self) -> None:
        """Drop one of the two collections, as other tools can."""
        self.collections.log.clear()
        self.collections.log_exists = False

    def drop_chunks(self) -> None:
        """Drop the other one."""
        self.collections.chunks.clear()
        self.collections.exist = False

    def close(self) -> None:
        self.calls.append("close")
        self.closed = True

    def insert_chunks(self, rows: Sequence[ChunkRow]) -> None:
        self._called("insert_chunks")
        for row in rows:
            assert row.pk not in self.collections.chunks, f"pk {row.pk} is stored already"
            assert len(row.vector), f"the vector of {row.pk} is empty"
            self._check_dense(row)
        self.collections.chunks.update((row.pk, _copied(row)) for row in rows)

    def delete_chunks(self, pks: Sequence[str]) -> None:
        self._called("delete_chunks")
        for pk in pks:
            self.collections.chunks.pop(pk, None)

    def get_chunks(
        self, pks: Sequence[str], *, contents: bool = True, vectors: bool = False, dense: bool = False
    ) -> list[ChunkRow]:
        self._called("get_chunks")
        found = (self.collections.chunks.get(pk) for pk in dict.fromkeys(pks))
        return [_reduced(row, contents, vectors, dense) for row in found if row is not None]

    def scan_chunks(
        self,
        *,
        where: Filter | None = None,
        namespaces: Sequence[str] | None = None,
        contents: bool = False,
        vectors: bool = False,
    ) -> Iterator[list[ChunkRow]]:
        self._called("scan_chunks")
        rows = [_reduced(row, contents, vectors) for row in self._fitting(where, namespaces)]
        rows.sort(key=lambda row: row.pk)
        return (rows[start : start + SCAN_BATCH] for start in range(0, len(rows), SCAN_BATCH))

    def search(
        self,
        queries: Sequence[SparseVector],
        *,
        limit: int,
        where: Filter | None = None,
        namespaces: Sequence[str] | None = None,
        params: SearchParams | None = None,
    ) -> list[list[Match]]:
        self.params.append(params)
        self._called("search")
        rows = self._fitting(where, namespaces)
        return [_best(query, rows)[:limit] for query in queries]

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
        self.params.append(params)
        self._called("search_dense")
        self._check_metric(metric)
        rows = self._fitting(where, namespaces)
        return [_most_similar(query, rows, metric)[:limit] for query in queries]

    def count_chunks(self) -> int:
        self._called("count_chunks")
        return len(self.collections.chunks)

    def count_unloaded(self) -> int:
        return self.count_chunks()

    def insert_log(self, rows: Sequence[LogRow]) -> None:
        self._called("insert_log")
        self._note_log_write()
        self.collections.log.update((row.key, replace(row, meta=_json(row.meta))) for row in rows)

    def delete_log(self, keys: Sequence[str]) -> None:
        self._called("delete_log")
        self._note_log_write()
        for key in keys:
            self.collections.log.pop(key, None)

    def log_keys(self) -> list[str]:
        self._called("log_keys")
        return list(self.collections.log)

    def get_log(self, keys: Sequence[str], *, packed: bool = True) -> list[LogRow]:
        self._called("get_log")
        found = (self.collections.log.get(key) for key in dict.fromkeys(keys))
        return [
            replace(row, meta=_json(row.meta), packed=row.packed if packed else "") for row in found if row is not None
        ]

    def _called(self, method: str, *, needs_collections: bool = True) -> None:
        self.calls.append(method)
        if self.on_call is not None:
            self.on_call(method)
        if self.closed:
            raise StoreError(f"{self.name} is closed")
        if needs_collections and not self.collections.exist:
            raise StoreError(f"{self.name} has no collections yet")

    def _note_log_write(self) -> None:
        self._own_log_writes += 1
        self.collections.log_writes += 1

    def _check_dense(self, row: ChunkRow) -> None:
        field, vector = self.collections.dense, row.dense
        assert (vector is None) == (field is None), f"the dense vector of {row.pk} is missing, or too much"
        if field is not None and vector is not None:
            assert (vector.dtype, vector.shape) == (np.float32, (field.dim,))
            assert np.isfinite(vector).all()

    def _check_metric(self, metric: DenseMetric) -> None:
        if self.collections.dense is None:
            raise StoreError(f"{self.name} has no dense vectors")
        assert metric == self.collections.dense.metric

    def _fitting(self, where: Filter | None, namespaces: Sequence[str] | None) -> list[ChunkRow]:
        return [
            row
            for row in self.collections.chunks.values()
            if (namespaces is None or row.namespace in namespaces) and (where is None or matches(where, row.metadata))
        ]


def _json(value: dict[str, Any]) -> dict[str, Any]:
    copied: dict[str, Any] = json.loads(json.dumps(value))
    return copied


def _copied(row: ChunkRow) -> ChunkRow:
    vector = SparseVector(row.vector.ids.copy(), row.vector.values.copy())
    dense = None if row.dense is None else row.dense.copy()
    return replace(row, metadata=_json(row.metadata), vector=vector, dense=dense)


def _reduced(row: ChunkRow, contents: bool, vectors: bool, dense: bool = False) -> ChunkRow:
    return replace(
        row,
        text=row.text if contents else "",
        metadata=_json(row.metadata) if contents else {},
        vector=row.vector if vectors else EMPTY,
        dense=row.dense if dense else None,
    )


def _best(query: SparseVector, rows: list[ChunkRow]) -> list[Match]:
    found = [
        Match(_reduced(row, True, False), float(np.float32(query.dot(row.vector))))
        for row in rows
        if np.intersect1d(query.ids, row.vector.ids).size
    ]
    return sorted(found, key=_rank)


def _most_similar(query: NDArray[np.float32], rows: list[ChunkRow], metric: DenseMetric) -> list[Match]:
    scored = ((row, _similarity(query.astype(np.float64), row, metric)) for row in rows)
    return sorted((Match(_reduced(row, True, False), score) for row, score in scored), key=_rank)


def _similarity(query: NDArray[np.float64], row: ChunkRow, metric: DenseMetric) -> float:
    assert row.dense is not None
    dense = row.dense.astype(np.float64)
    norms = float(np.linalg.norm(query) * np.linalg.norm(dense)) if metric == "COSINE" else 1.0
    return float(np.float32(query @ dense / norms)) if norms else 0.0


def _rank(match: Match) -> tuple[float, str, str]:
    return (-match.score, match.row.id, match.row.pk)


def matches(where: Filter, metadata: dict[str, Any]) -> bool:
    """Evaluate a filter tree, as :mod:`rag_bm25.filters` defines it."""
    if isinstance(where, And):
        return all(matches(part, metadata) for part in where.parts)
    if isinstance(where, Or):
        return any(matches(part, metadata) for part in where.parts)
    if isinstance(where, Not):
        return not matches(where.part, metadata)
    if isinstance(where, Expression):
        raise FilterError("the in-memory store cannot evaluate Milvus expressions")
    return _compare(where, _value(metadata, where.path))


def _value(metadata: Any, path: tuple[str, ...]) -> Any:
    for step in path:
        metadata = metadata.get(step) if isinstance(metadata, dict) else None
    return metadata


def _compare(where: Comparison, value: Any) -> bool:
    if where.op == "exists":
        return value is not None
    if where.op in ("!=", "not in"):
        positive = "==" if where.op == "!=" else "in"
        return not _compare(Comparison(where.path, positive, where.value), value)
    if where.op == "in":
        return any(_same(value, member) for member in where.value)
    if where.op == "contains":
        return isinstance(value, list) and any(_same(member, where.value) for member in value)
    if where.op == "like":
        return isinstance(value, str) and _like(value, str(where.value))
    if where.op == "==":
        return _same(value, where.value)
    return _kind(value) == _kind(where.value) and bool(ORDERS[where.op](value, where.value))


ORDERS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    return "number" if isinstance(value, int | float) else type(value).__name__


def _same(value: Any, other: Any) -> bool:
    return _kind(value) == _kind(other) and bool(value == other)


def _like(value: str, pattern: str) -> bool:
    regex = ".*".join(re.escape(part) for part in pattern.split("%"))
    return re.fullmatch(regex, value, re.DOTALL) is not None
