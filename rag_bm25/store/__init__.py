"""The storage protocol of an index, its row types, and the stores that implement it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rag_bm25.store.protocol import LogStore, Store, WriteLock
from rag_bm25.store.rows import ChunkRow, DenseField, LogRow, Match, Scope, SearchArm
from rag_bm25.store.storage import StorageInfo, StorageOptions

if TYPE_CHECKING:
    from rag_bm25.store.memory import MemoryStore
    from rag_bm25.store.milvus.store import MilvusStore

__all__ = [
    "ChunkRow",
    "DenseField",
    "LogRow",
    "LogStore",
    "Match",
    "MemoryStore",
    "MilvusStore",
    "Scope",
    "SearchArm",
    "StorageInfo",
    "StorageOptions",
    "Store",
    "WriteLock",
]


def __getattr__(name: str) -> Any:
    """Import a store when it is first asked for, and the client of Milvus with that of Milvus."""
    if name == "MemoryStore":
        from rag_bm25.store.memory import MemoryStore

        return MemoryStore
    if name == "MilvusStore":
        from rag_bm25.store.milvus.store import MilvusStore

        return MilvusStore
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
