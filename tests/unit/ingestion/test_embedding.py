"""Files into an index with dense vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rag_bm25 import BM25Index, IndexConfig, InputError
from rag_bm25.ingestion import find_files, ingest


class Lengths:
    """A model that embeds the length of a text, and records what it was given."""

    def __init__(self) -> None:
        self.given: list[str] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.given += texts
        return [[1.0, float(len(text))] for text in texts]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text("a text")
    (tmp_path / "b.txt").write_text("another text")
    return tmp_path


@pytest.mark.parametrize("wrap", [lambda model: model, lambda model: model.embed_documents])
def test_chunks_get_the_vectors_of_their_texts(folder: Path, wrap: Any) -> None:
    model = Lengths()
    with BM25Index.open(":memory:", "docs", config=IndexConfig(500, dense_dim=2)) as index:
        report = ingest(index, find_files([folder]), embeddings=wrap(model))
        vectors = index.get_embeddings([chunk.id for chunk in index.chunks()])
        texts = {chunk.id: chunk.text for chunk in index.chunks()}
        assert report.added == 2
        assert sorted(model.given) == ["a text", "another text"]
        for id_, vector in vectors.items():
            np.testing.assert_array_equal(vector, [1, len(texts[id_])])
        (folder / "b.txt").write_text("changed")
        model.given.clear()
        assert ingest(index, find_files([folder]), embeddings=wrap(model)).updated == 1
        assert model.given == ["changed"]


@pytest.mark.parametrize(
    ("dim", "embeddings", "says"),
    [
        (2, None, "embeddings must be given: the index has dense vectors, dense_dim=2"),
        (None, Lengths(), "embeddings given, but the index has no dense vectors"),
        (2, 3, "embeddings must be a callable, or an object with embed_documents, got int"),
        (3, Lengths(), "must have the index's dimension, 3, got shape \\(2,\\)"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_is_written(
    folder: Path, dim: int | None, embeddings: Any, says: str
) -> None:
    with BM25Index.open(":memory:", "docs", config=IndexConfig(500, dense_dim=dim)) as index:
        with pytest.raises(InputError, match=says):
            ingest(index, find_files([folder]), embeddings=embeddings)
        assert index.stats().num_chunks == 0
