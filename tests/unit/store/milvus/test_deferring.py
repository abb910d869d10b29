"""Log rows that an embedded engine gets with the next ones, or when it is closed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support import engines
from support.rows import ONE

from rag_bm25.errors import StoreError
from rag_bm25.store.milvus import MilvusStore
from rag_bm25.store.rows import ChunkRow, LogRow

pytestmark = pytest.mark.skipif(not engines.lite_version(), reason="milvus-lite is not installed")


def rows(*names: str) -> list[LogRow]:
    return [LogRow(f"delta:{name}", "delta", {"of": name}, "packed") for name in names]


@pytest.fixture
def store(tmp_path: Path) -> MilvusStore:
    """A store whose `insertions` have the keys of each message."""
    store = MilvusStore(tmp_path / "test.db", "docs")
    store.create()
    engine, insertions = store._open, list[list[str]]()
    write = engine.write

    def noted(method: str, *args: Any, **kwargs: Any) -> Any:
        if method == "insert":
            insertions.append([entity.get("key", entity.get("pk")) for entity in args[1]])
        return write(method, *args, **kwargs)

    engine.write = noted  # type: ignore[method-assign]
    store.insertions = insertions  # type: ignore[attr-defined]
    return store


def test_deferred_rows_come_first_in_the_next_message(store: MilvusStore, tmp_path: Path) -> None:
    other = MilvusStore(tmp_path / "test.db", "docs")
    store.insert_log(rows("2"), defer=True)
    store.insert_log(rows("3"), defer=True)
    for reader in (store, other):
        assert reader.log_keys() == ["delta:2", "delta:3"]
        assert reader.log_keys([("delta:2", "delta:9")]) == ["delta:3"]
        assert reader.get_log(["delta:3"]) == rows("3")
    other.insert_log(rows("1"))
    store.insert_log(rows("4"), defer=True)
    store.insert_chunks([ChunkRow("a", "a", "", 1, "b", vector=ONE)])
    store.insert_log(rows("5"), defer=True)
    store.delete_chunks(["a"])
    store.insert_log(rows("6"), defer=True)
    store.delete_log(["delta:6", "delta:1"])
    assert store.insertions == [  # type: ignore[attr-defined]
        *(["delta:2", "delta:3", "delta:1"], ["delta:4"], ["a"], ["delta:5"], ["delta:6"])
    ]
    assert sorted(other.log_keys()) == ["delta:2", "delta:3", "delta:4", "delta:5"]
    other.close()
    store.close()


def test_closing_the_engine_stores_them(store: MilvusStore, tmp_path: Path) -> None:
    other = MilvusStore(tmp_path / "test.db", "docs")
    store.insert_log(rows("1"), defer=True)
    store.close()
    assert other.log_keys() == ["delta:1"]
    other.close()
    again = MilvusStore(tmp_path / "test.db", "docs", read_only=True)
    assert again.get_log(["delta:1"]) == rows("1")
    again.close()


def test_after_the_end_of_the_program_began_none_wait(store: MilvusStore) -> None:
    from rag_bm25.store.milvus.opening import _end_deferring

    store.insert_log(rows("1"), defer=True)
    _end_deferring()
    store.insert_log(rows("2"), defer=True)
    assert store.insertions == [["delta:2"]]  # type: ignore[attr-defined]
    assert sorted(store.log_keys()) == ["delta:1", "delta:2"]
    assert [entity["key"] for page in store._log.scan("", ["key"]) for entity in page] == ["delta:1", "delta:2"]
    store.close()


def test_no_thread_closes_the_engine_while_they_are_stored_at_the_end_of_the_program(
    store: MilvusStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rag_bm25.store.milvus import opening

    engine, kept_open = store._open, list[bool]()
    call = engine._call

    def watched(*args: Any, **kwargs: Any) -> Any:
        kept_open.append(opening._opening().locked())
        return call(*args, **kwargs)

    store.insert_log(rows("1"), defer=True)
    with monkeypatch.context() as watch:
        watch.setattr(engine, "_call", watched)
        opening._end_deferring()
    assert kept_open == [True]
    store.close()


@pytest.mark.parametrize("applied", [True, False])
def test_rows_of_an_insertion_that_failed_are_stored_once(
    applied: bool, store: MilvusStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.insert_log(rows("1"), defer=True)
    write = store._open.write

    def fail(method: str, *args: Any, **kwargs: Any) -> Any:
        if applied:
            write(method, *args, **kwargs)
        raise StoreError("lost")

    with monkeypatch.context() as fault:
        fault.setattr(store._open, "write", fail)
        with pytest.raises(StoreError, match="lost"):
            store.insert_log(rows("2"))
    assert sorted(store.log_keys()) == ["delta:1", "delta:2"][: 1 + applied]
    store.insert_log(rows("3"))
    keys = [entity["key"] for page in store._log.scan("", ["key"]) for entity in page]
    assert keys == ["delta:1", *(["delta:2"] if applied else []), "delta:3"]
    store.close()


def test_a_write_takes_two_insertions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One for the log and one for the chunk; the only reading is that of the chunk."""
    from rag_bm25 import BM25Index, IndexConfig

    with BM25Index.open(tmp_path / "test.db", "docs", config=IndexConfig(chunk_size=100)) as index:
        index.add(["apple"], ids=["a"])
        index.add(["apple"], ids=["b"])
        engine, calls = index._store._open, list[str]()  # type: ignore[attr-defined]
        call = engine._call
        monkeypatch.setattr(engine, "_call", lambda name, *args, **kw: (calls.append(name), call(name, *args, **kw))[1])
        index.add(["banana"], ids=["c"])
        assert calls == ["query", "insert", "insert"]
        calls.clear()
        index.add(["cherry"], ids=["c"])
        assert calls == ["query", "insert", "insert", "delete"]
