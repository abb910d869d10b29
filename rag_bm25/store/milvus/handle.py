"""The engine that a store uses, until the store is closed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rag_bm25.errors import ReadOnlyError, StoreError
from rag_bm25.store.milvus.schema import check_name, generation_suffix

if TYPE_CHECKING:
    from rag_bm25.store.milvus.connection import Connection
    from rag_bm25.store.milvus.engine import Engine


class EngineHandle:
    """An engine on behalf of one store; it is given back by :meth:`close`, or when the handle is garbage."""

    def __init__(
        self,
        connection: Connection,
        collection: str,
        *,
        read_only: bool,
        generation: int = 1,
        engine: Engine | None = None,  # that another store has open
    ) -> None:
        # pymilvus takes a third of a second to import: only those who open a store wait for it.
        from rag_bm25.store.milvus.opening import open_engine, release_when_forgotten, share_engine

        check_name(collection)
        self.read_only = read_only
        self._engine: Engine | None = (
            open_engine(connection, read_only=read_only) if engine is None else share_engine(engine)
        )
        self._cancel_release = release_when_forgotten(self, self._engine)
        self.name = f"{self._engine.name}, collection {collection!r}{generation_suffix(generation)}"

    @property
    def engine(self) -> Engine:
        """The engine, while the store is open."""
        if self._engine is None:
            raise StoreError(f"{self.name} is closed")
        return self._engine

    def writable(self) -> Engine:
        """Return the engine, unless the store was opened for reading."""
        if self.read_only:
            raise ReadOnlyError(f"{self.name} was opened read-only")
        return self.engine

    def close(self) -> None:
        if self._engine is not None:
            from rag_bm25.store.milvus.opening import release_engine

            engine, self._engine = self._engine, None
            self._cancel_release()
            release_engine(engine)
