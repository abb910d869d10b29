"""Chunks and statistics in Milvus, embedded or on a server."""

from __future__ import annotations

from rag_bm25.milvus_store.address import is_missing_file
from rag_bm25.milvus_store.foreign import BesideStore, ForeignCollection
from rag_bm25.milvus_store.store import MilvusStore

__all__ = ["BesideStore", "ForeignCollection", "MilvusStore", "is_missing_file"]
