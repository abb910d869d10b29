"""The index: configuration, writing, searching, maintenance."""

from __future__ import annotations

from rag_bm25.index.config import IndexConfig
from rag_bm25.index.index import BM25Index
from rag_bm25.index.maintenance.copying import CopyPlan, CopyReport, copy_index, drop_index, plan_copy

__all__ = ["BM25Index", "CopyPlan", "CopyReport", "IndexConfig", "copy_index", "drop_index", "plan_copy"]
