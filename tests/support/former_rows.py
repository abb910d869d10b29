"""The rows of an index of format 4, as commit 5213701d has written them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rag_bm25.store.protocol import Store
from rag_bm25.store.rows import ChunkRow, DenseField, LogRow
from rag_bm25.vectors.sparse import SparseVector

TEXT = (Path(__file__).parents[1] / "fixtures" / "format-4.json").read_text(encoding="utf-8")
FILES: dict[str, str] = json.loads(TEXT)["files"]
"""What was ingested: the text of each file by its path below the folder that the rows call /srv."""


class Embedder:
    """What the vectors are from; `texts` has what it was given."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        self.texts += texts
        return [[len(text), text.count("a") + 1] for text in texts]


def write_files(folder: Path) -> None:
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")


def insert_format_4(store: Store, folder: Path) -> None:
    """Insert the rows as if the folder had been ingested where it is."""
    rows = json.loads(TEXT)
    store.create(DenseField(2, "COSINE"))
    store.insert_chunks([_chunk_row(**row) for row in rows["chunks"]])
    there = json.dumps(str(folder))[1:-1]
    store.insert_log([LogRow(**{**row, "packed": row["packed"].replace("/srv", there)}) for row in rows["log"]])


def _chunk_row(sparse: dict[str, float], dense: list[float], **row: object) -> ChunkRow:
    vector = SparseVector.from_dict({int(id_): weight for id_, weight in sparse.items()})
    return ChunkRow(**row, vector=vector, dense=np.array(dense, np.float32))  # type: ignore[arg-type]
