"""The stores of an index: Milvus on every engine, and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rag_bm25.store.memory import MemoryStore
    from rag_bm25.store.milvus.store import MilvusStore

__all__ = ["MemoryStore", "MilvusStore"]


def __getattr__(name: str) -> Any:
    """Import a store when it is first asked for, and the client of Milvus with that of Milvus."""
    if name == "MemoryStore":
        from rag_bm25.store.memory import MemoryStore

        return MemoryStore
    if name == "MilvusStore":
        from rag_bm25.store.milvus.store import MilvusStore

        return MilvusStore
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
