"""The index: configuration, writing, searching, maintenance. Here are the functions that copy, drop and try one."""

from __future__ import annotations

from rag_bm25.index.maintenance.copying import copy_index, drop_index, plan_copy
from rag_bm25.index.maintenance.generations import drop_former_generations
from rag_bm25.index.maintenance.trial import dry_run

__all__ = ["copy_index", "drop_former_generations", "drop_index", "dry_run", "plan_copy"]
