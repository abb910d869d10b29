"""Deleting for good, by the bytes of the file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from support import engines
from support.reference import split

from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.errors import StoreError
from rag_bm25.events import Progress
from rag_bm25.index import drop_former_generations, drop_index
from rag_bm25.ingestion import reindex
from rag_bm25.store import MilvusStore

pytestmark = pytest.mark.skipif(not engines.lite_version(), reason="milvus-lite is not installed")
lite2 = pytest.mark.skipif(not engines.lite_version().startswith("2."), reason="only milvus-lite 2.5 has a file")

CONFIG = IndexConfig(chunk_size=4, length_unit="terms", analyzer=split)
SECRETS = ("zebulonka", "buckeroo", "customer")  # in a text; displaced, so that the log has it as it is; a namespace


@pytest.fixture
def index(tmp_path: Path) -> Iterator[BM25Index]:
    """An index of which most was deleted."""
    with BM25Index.open(tmp_path / "test.db", "docs", config=CONFIG) as index:
        index.add(["tea plumless", "zebulonka likes tea", "buckeroo"], ids=["1", "2", "3"])
        index.add(["zebulonka"], namespace="customer")
        index.delete(["2", "3"])
        index.drop_namespace("customer")
        yield index


def left_in(path: Path) -> set[str]:
    return {secret for secret in SECRETS if secret.encode() in path.read_bytes()}


@lite2
def test_no_byte_of_what_was_deleted_is_left(index: BM25Index, tmp_path: Path) -> None:
    path = tmp_path / "test.db"
    index.repair()
    assert left_in(path) == set(SECRETS)
    assert index.repair(erase=True).compacted
    assert left_in(path) == set()
    files = [file for file in tmp_path.iterdir() if file.is_file()]
    assert not any(b"zebulonka" in file.read_bytes() for file in files)


@lite2
def test_the_index_goes_on(index: BM25Index, tmp_path: Path) -> None:
    with BM25Index.open(tmp_path / "test.db", "docs", config=CONFIG) as other:
        assert [hit.id for hit in other.search("tea")] == ["1"]
        index.repair(erase=True)
        other.add(["zebulonka"], ids=["4"])
        assert [hit.id for hit in other.search("tea")] == ["1"]
    with BM25Index.open(tmp_path / "test.db", "docs", config=CONFIG) as again:
        assert [hit.id for hit in again.search("zebulonka")] == ["4"]
        assert again.verify().ok


@lite2
def test_a_file_that_cannot_be_rewritten_is_told_and_goes_on(
    index: BM25Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as disk:
        disk.setattr("rag_bm25.store.milvus.sqlite_file.sqlite3.connect", full)
        with pytest.raises(StoreError, match=r"database or disk is full; .* deleted texts may still be in it"):
            index.repair(erase=True)
    assert [hit.id for hit in index.search("tea")] == ["1"]
    assert index.repair(erase=True).compacted
    assert left_in(tmp_path / "test.db") == set()


@lite2
def test_dropping_former_generations_frees_the_disk(tmp_path: Path) -> None:
    path = tmp_path / "test.db"
    with BM25Index.open(path, "docs", config=CONFIG) as index:
        index.add(["zebulonka " * 1_000] * 100, ids=[f"{at}" for at in range(100)])
        index.delete([f"{at}" for at in range(99)])
        reindex(index, replace(CONFIG, chunk_size=9))
        before = path.stat().st_size
        with closing(MilvusStore(path, "docs")) as store:
            drop_former_generations(store)
        assert path.stat().st_size < before / 2
        assert [hit.id for hit in index.search("zebulonka")] == ["99"]


@lite2
@pytest.mark.parametrize("way", ["--drop-old", "drop"])
def test_no_byte_is_left_of_other_generations(index: BM25Index, tmp_path: Path, way: str) -> None:
    def cut(_: Progress) -> None:
        raise InterruptedError

    reindex(index, replace(CONFIG, chunk_size=9))
    index.add(["zebulonka buckeroo"], ids=["4"], namespace="customer")
    with pytest.raises(InterruptedError):
        reindex(index, replace(CONFIG, chunk_size=8), progress=cut)
    index.drop_namespace("customer")
    with closing(MilvusStore(tmp_path / "test.db", "docs")) as store:
        if way == "drop":
            drop_index(store)
        else:
            with pytest.raises(StoreError, match="--drop-old"):
                index.repair(erase=True)
            drop_former_generations(store)
            index.repair(erase=True)
    index.close()
    assert {name for file in tmp_path.iterdir() if file.is_file() for name in left_in(file)} == set()


@pytest.mark.skipif(engines.lite_version().startswith("2."), reason="milvus-lite 2.5 can rewrite its file")
def test_other_engines_are_told_not_to_have_rewritten_anything(index: BM25Index) -> None:
    assert (index.repair(erase=True).erased_terms, index.repair(erase=True).compacted) == (3, False)
    assert index.verify().ok
