"""The statistics log in Milvus: the part of a store that needs no chunks."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rag_bm25.errors import FormatError
from rag_bm25.store.milvus.collection import Collection
from rag_bm25.store.milvus.handle import EngineHandle
from rag_bm25.store.milvus.schema import (
    LOG_FACTS,
    LOG_FIELDS,
    check_fields,
    log_entity,
    log_row,
    name_generation,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rag_bm25.store.deferred import DeferredRows
    from rag_bm25.store.milvus.connection import Connection
    from rag_bm25.store.milvus.engine import Engine
    from rag_bm25.store.rows import KeyRange, LogRow


class MilvusLogStore:
    """The log of ``X``, in the collection ``X_bm25``; satisfies :class:`~rag_bm25.store.protocol.LogStore`."""

    def __init__(
        self, connection: Connection, collection: str, *, read_only: bool, generation: int, engine: Engine | None
    ) -> None:
        self._handle = EngineHandle(connection, collection, read_only=read_only, generation=generation, engine=engine)
        self._log = Collection(self._handle, f"{name_generation(collection, generation)}_bm25")
        self._own_log_writes = 0
        self.name, self.exclusive = self._handle.name, self._handle.engine.exclusive

    @property
    def writes_of_others(self) -> int:
        return self._open.log_writes(self._log.name) - self._own_log_writes

    def exists(self) -> bool:
        """Return whether the log exists and is complete."""
        try:
            return self._log.is_complete(LOG_FIELDS, self._log.find_fields())
        except FormatError:
            self._check_kind()
            return True  # of another format, which its parameters name

    def has_log(self) -> bool:
        """Return whether the log exists, complete or not."""
        return self._log.exists()

    def _check_kind(self) -> None:
        """Refuse a collection that is the log of no index, of whatever format."""
        wanted = {name: LOG_FIELDS[name] for name in LOG_FACTS}
        found = [field for field in self._log.describe_fields() if field["name"] in wanted]
        check_fields(self._log.name, wanted, found)

    def create(self) -> None:
        """Create the log, as far as it is missing."""
        self._handle.writable()
        self._log.complete(LOG_FIELDS)

    def close(self) -> None:
        self._handle.close()

    def insert_log(self, rows: Sequence[LogRow], *, defer: bool = False) -> None:
        with self._log_changes() as engine:
            if defer and engine.defers:
                self._deferred.add(rows)
            else:
                self._insert_log(rows)

    def delete_log(self, keys: Sequence[str]) -> None:
        with self._log_changes():
            self._insert_log()
            self._log.delete(keys)

    def log_keys(self, ranges: Sequence[KeyRange] | None = None) -> list[str]:
        deferred = self._deferred.keys(ranges)  # first: what is no longer deferred afterwards is stored
        if ranges == []:
            return []
        clause = "" if ranges is None else self._open.dialect.in_ranges("key", ranges)
        return list(dict.fromkeys([*self._log.keys(clause, "key"), *deferred]))

    def get_log(self, keys: Sequence[str], *, packed: bool = True) -> list[LogRow]:
        deferred = self._deferred.get(keys, packed=packed)  # first, likewise
        stored = [key for key in keys if key not in deferred]
        output = [*LOG_FACTS, "packed"] if packed else list(LOG_FACTS)
        return [*map(log_row, self._log.get(stored, output)), *deferred.values()]

    def _insert_log(self, rows: Sequence[LogRow] = ()) -> None:
        """Insert rows, after those that were deferred: before anything else is written."""
        with self._deferred.stored(self._stored_keys) as deferred:
            if deferred or rows:
                self._log.insert(map(log_entity, [*deferred, *rows]))

    def _stored_keys(self, keys: Sequence[str]) -> set[str]:
        return {entity["key"] for entity in self._log.get(keys, ["key"])}

    def _drop_log(self) -> None:
        self._log.drop()
        self._deferred.clear()

    @property
    def _deferred(self) -> DeferredRows:
        return self._open.deferred[self._log.name]

    @property
    def _open(self) -> Engine:
        """The engine, while the store is open."""
        return self._handle.engine

    @contextmanager
    def _log_changes(self) -> Iterator[Engine]:
        """Let the other stores that share the engine know that the log has changed, or may have."""
        engine = self._handle.writable()
        try:
            yield engine
        finally:
            self._own_log_writes += 1
            engine.note_log_write(self._log.name)
