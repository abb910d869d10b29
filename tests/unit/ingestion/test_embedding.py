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


PARAGRAPHS = "\n\n".join(f"Part {n} opens the valve {n}. It is shut at {n} bar." for n in range(1_200))
SECTIONS = "\n\n".join(f"# {n}\n\nWhole {n}." for n in range(2_000))


@pytest.mark.parametrize(("before", "after"), [(30, 60), (60, 30)])
def test_texts_that_only_move_are_not_embedded_again(before: int, after: int, tmp_path: Path) -> None:
    """Another splitter makes fewer chunks, or more: those that follow move by more than a batch of writing."""
    model, file = Lengths(), tmp_path / "a.md"
    file.write_text(f"{PARAGRAPHS}\n\n{SECTIONS}")
    with BM25Index.open(":memory:", "docs", config=IndexConfig(500, dense_dim=2)) as index:
        ingest(index, find_files([file]), embeddings=model, split_size=before)
        former = {chunk.text for chunk in index.chunks()}
        model.given.clear()
        ingest(index, find_files([file]), embeddings=model, split_size=after)
        now = {chunk.id: chunk.text for chunk in index.chunks()}
        vectors = index.get_embeddings(list(now))
    assert len(former & set(now.values())) > 1_000
    assert sorted(model.given) == sorted(set(now.values()) - former)
    assert all(vectors[id_][1] == len(text) for id_, text in now.items())


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
