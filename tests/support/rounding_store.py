"""A store that rounds the weights in its index to fp16, as Milvus 3 may; the vectors that it gives back are not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rag_bm25.store.rows import ChunkRow, Match, SearchArm
from rag_bm25.store.storage import StorageInfo
from rag_bm25.vectors.sparse import SparseVector
from support.memory_store import MemoryStore


class RoundingStore(MemoryStore):
    """Searches among rounded vectors; `version` and `quant_type` are what it says of itself."""

    version = "v3.0.1"
    quant_type: str | None = None

    def __init__(self) -> None:
        super().__init__(exclusive=False)  # only servers round

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

    def insert_chunks(self, rows: Sequence[ChunkRow]) -> None:
        super().insert_chunks(rows)
        self.collections.postings.remove(row.pk for row in rows)
        self.collections.postings.add(map(_rounded_row, rows))

    def _candidates(self, arm: SearchArm) -> list[ChunkRow]:
        return list(map(_rounded_row, super()._candidates(arm)))


def _rounded_row(row: ChunkRow) -> ChunkRow:
    return replace(row, vector=rounded(row.vector))


def rounded(vector: SparseVector) -> SparseVector:
    return SparseVector(vector.ids, vector.values.astype(np.float16).astype(np.float32))
