"""Bulk loading into every engine: the rows and the scores that adding gives there."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support.reference import split

from rag_bm25 import BM25Index, FormatError, IndexConfig, Progress, StoreError
from rag_bm25.bulk import encode_part, load, load_by_import, merge
from rag_bm25.bulk.parts import batch_of
from rag_bm25.index.maintenance.copying import drop_index

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rag_bm25.store.protocol import Store
    from rag_bm25.store.rows import ChunkRow

pytest.importorskip("pyarrow")

CONFIG = IndexConfig(chunk_size=4, length_unit="terms", analyzer=split, dense_dim=3)
METADATA = {"page": 3, "ratio": 0.1, "tags": ["a", None, True], "big": 2**62, "中文": {"quote": "'\"\\\n"}}
PARTS = [
    ("", [{"text": "apple fig", "id": "1", "metadata": METADATA}, {"text": "", "id": "'\"\\"}]),
    ("x", [{"text": "apple apple", "id": "1"}, {"text": "中文 词 \U0001f34e", "id": "2"}]),
    ("", [{"text": f"fig {' '.join(f'w{n * m}' for m in range(1, 9))}", "id": f"n{n}"} for n in range(300)]),
]
QUERIES = ["apple fig 中文", "w12 w8", "词"]


def with_embeddings(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "embedding": [1 / 7, number, 0.1]} for number, row in enumerate(rows)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The parts, merged."""
    for part, (namespace, rows) in enumerate(PARTS):
        encode_part(with_embeddings(rows), CONFIG, tmp_path / "bulk", part, namespace=namespace)
    merge(tmp_path / "bulk")
    return tmp_path / "bulk"


def add_all(store: Store) -> None:
    with BM25Index.from_store(store, config=CONFIG) as index:
        for namespace, rows in PARTS:
            index.add(
                [row["text"] for row in rows],
                ids=[row["id"] for row in rows],
                metadatas=[row.get("metadata") for row in rows],
                embeddings=[row["embedding"] for row in with_embeddings(rows)],
                namespace=namespace,
            )


def contents(store: Store) -> dict[str, tuple[Any, ...]]:
    pks = [row.pk for rows in store.scan_chunks() for row in rows]
    rows: list[ChunkRow] = store.get_chunks(pks, contents=True, vectors=True, dense=True)
    return {
        row.pk: (
            row.id, row.namespace, row.length, row.text, row.metadata,
            row.vector.ids.tobytes(), row.vector.values.tobytes(), np.asarray(row.dense).tobytes(),
        )
        for row in rows
    }  # fmt: skip


def answers(store: Store) -> Any:
    with BM25Index.from_store(store, config=CONFIG) as index:
        assert index.verify().differences == []
        found = [index.search(query, namespace=names) for query in QUERIES for names in ("", "x", None)]
        figures = index.stats()
        return found, (figures.num_chunks, figures.num_terms, figures.mean_length)


def test_loading_is_adding(opened: Callable[..., Store], folder: Path, engine: str) -> None:
    add_all(opened("added"))
    with closing(opened("loaded")) as target:
        assert load(folder, target).loaded == 304
        if engine != "memory":
            assert [target.count_batch(batch_of(part)) for part in range(4)] == [2, 2, 300, 0]  # type: ignore[attr-defined]
    with closing(opened("added")) as one, closing(opened("loaded")) as other:
        assert contents(one) == contents(other)
    assert answers(opened("added")) == answers(opened("loaded"))
    for name in ("added", "loaded"):
        drop_index(opened(name))


def test_half_a_load_cannot_be_opened_and_goes_on(opened: Callable[..., Store], folder: Path) -> None:
    def stop(progress: Progress) -> None:
        if progress.done == 4:
            raise StoreError("stop")

    with closing(opened()) as target, pytest.raises(StoreError, match="stop"):
        load(folder, target, progress=stop)
    with pytest.raises(FormatError, match="unfinished copy of the files in"):
        BM25Index.from_store(opened(), config=CONFIG)
    with closing(opened()) as target:
        assert load(folder, target).loaded == 300
    assert answers(opened())[1][0] == 304
    drop_index(opened())


def test_embedded_engines_have_no_bulk_import(opened: Callable[..., Store], engine: str, folder: Path) -> None:
    if engine not in ("embedded", "server"):
        pytest.skip("an engine of its own kind")
    with closing(opened()) as target:
        with pytest.raises(StoreError, match="has no bulk import: load the files row by row instead"):
            load_by_import(folder, target, "bulk")  # type: ignore[arg-type]
        assert not target.exists()
