"""Chunks and statistics in Milvus, embedded or on a server."""

from __future__ import annotations

from rag_bm25.store.milvus.store import MilvusStore

__all__ = ["MilvusStore"]
