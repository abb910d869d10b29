"""Bulk import: a server reads files from its own object storage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rag_bm25.errors import StoreError
from rag_bm25.store.rows import ImportState

if TYPE_CHECKING:
    from rag_bm25.store.milvus.collection import Collection
    from rag_bm25.store.milvus.engine import Engine
    from rag_bm25.store.milvus.handle import EngineHandle


class BulkImports:
    """The part of a store that imports files as chunks; satisfies :class:`~rag_bm25.bulk.ImportingStore`."""

    _handle: EngineHandle
    _chunks: Collection

    def require_imports(self) -> None:
        self._importing()

    def start_import(self, path: str) -> int:
        self._handle.writable()
        return int(self._importing().write("start_import", self._chunks.name, path))

    def import_state(self, job: int) -> ImportState:
        return _import_state(self._importing().read("import_state", job))

    def imports_under_way(self) -> list[int]:
        jobs = self._importing().read("list_imports", self._chunks.name)
        states = {job.task_id: _import_state(job) for job in jobs}
        return [job for job, state in states.items() if not (state.finished or state.failure)]

    def after_imports(self) -> None:
        self._importing().read("refresh_load", self._chunks.name)

    def count_batch(self, batch: str) -> int:
        return self._chunks.count(f'batch == "{batch}"')

    def _importing(self) -> Engine:
        """Return the engine, if it reads files by itself."""
        engine = self._handle.engine
        if not engine.imports:
            raise StoreError(f"{self._handle.name} has no bulk import: load the files row by row instead")
        return engine


def _import_state(state: Any) -> ImportState:
    """Read the client's state of an import."""
    failed = state.state in (state.ImportFailed, state.ImportFailedAndCleaned)
    return ImportState(state.state == state.ImportCompleted, state.failed_reason or "unknown" if failed else "")
