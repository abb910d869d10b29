"""A store that rounds the weights in its index to fp16, as Milvus 3 may; the vectors that it gives back are not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rag_bm25.store.rows import ChunkRow, Match, Scope, SearchArm
from rag_bm25.store.storage import StorageInfo
from rag_bm25.vectors.sparse import SparseVector
from support.memory_store import MemoryStore


class RoundingStore(MemoryStore):
    """Searches among rounded vectors; `version` and `quant_type` are what it says of itself."""

    version = "v3.0.1"
    quant_type: str | None = None

    @property
    def exclusive(self) -> bool:
        return False  # only servers round

    def storage_info(self) -> StorageInfo:
        return StorageInfo("Milvus", self.version, 1, quant_type=self.quant_type)

    def search(self, queries: Sequence[SparseVector] | NDArray[np.float32], arm: SearchArm) -> list[list[Match]]:
        stored = self.collections.chunks
        return [
            [replace(match, row=self._with_vector(match.row, stored[match.row.pk], arm)) for match in matches]
            for matches in super().search(queries, arm)
        ]

    def _with_vector(self, row: ChunkRow, stored: ChunkRow, arm: SearchArm) -> ChunkRow:
        return replace(row, vector=stored.vector) if arm.vectors else row

    def _rows(self, scope: Scope) -> list[ChunkRow]:
        rows = super()._rows(scope)
        if self.calls[-1] != "search":
            return rows
        return [replace(row, vector=rounded(row.vector)) for row in rows]


def rounded(vector: SparseVector) -> SparseVector:
    return SparseVector(vector.ids, vector.values.astype(np.float16).astype(np.float32))
