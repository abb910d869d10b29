"""The index: configuration, writing, searching, maintenance. Here are the functions that copy and drop one."""

from __future__ import annotations

from rag_bm25.index.maintenance.copying import copy_index, drop_index, plan_copy
from rag_bm25.index.maintenance.generations import drop_former_generations

__all__ = ["copy_index", "drop_former_generations", "drop_index", "plan_copy"]
