"""The in-memory store, with what only our own tests need: a record of its calls, faults, and a server's manners."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rag_bm25.store import memory
from rag_bm25.store.memory import Collections
from rag_bm25.store.milvus.schema import generation_suffix
from rag_bm25.store.rows import Match, SearchArm
from rag_bm25.store.search_params import SearchParams
from rag_bm25.vectors.sparse import SparseVector


class MemoryStore(memory.MemoryStore):
    """A store of which `calls` has the name of every method called, in order, and `params` those of each search.

    `on_call`, where set, is called with the method's name before anything happens: raise there to inject a fault.
    Without `exclusive` it is like a server, where each index object is a writer of its own.
    """

    def __init__(self, *, exclusive: bool = True, collections: Collections | None = None) -> None:
        super().__init__()
        self.collections = collections or self.collections
        self.calls: list[str] = []
        self.params: list[SearchParams | None] = []
        self.on_call: Callable[[str], None] | None = None
        self.exclusive = exclusive
        self._own_lock = threading.RLock()

    def reopen(self) -> MemoryStore:
        return MemoryStore(exclusive=self.exclusive, collections=self.collections)

    @property
    def name(self) -> str:
        return f"memory{generation_suffix(self.generation)}"

    @property
    def write_lock(self) -> Any:
        return self.collections.write_lock if self.exclusive else self._own_lock

    @property
    def closed(self) -> bool:
        return self._is_closed

    def close(self) -> None:
        self.calls.append("close")
        super().close()

    def search(self, queries: Sequence[SparseVector] | NDArray[np.float32], arm: SearchArm) -> list[list[Match]]:
        self.params.append(arm.params)
        return super().search(queries, arm)

    def _check_call(self, method: str, *, needs_collections: bool = True) -> None:
        self.calls.append(method)
        if self.on_call is not None:
            self.on_call(method)
        super()._check_call(method, needs_collections=needs_collections)


def drop_log(store: memory.MemoryStore) -> None:
    """Drop one of the two collections, as other tools can."""
    store.collections.log.clear()
    store.collections.log_exists = False


def drop_chunks(store: memory.MemoryStore) -> None:
    """Drop the other one."""
    store._clear_chunks()
    store.collections.exist = False


def copied(collections: Collections) -> Collections:
    """Return the same rows, apart from these; rows themselves are never changed."""
    return Collections(
        dict(collections.chunks), dict(collections.log), collections.exist, collections.dense, collections.log_exists
    )
