"""Rows that are stored with the next ones: whoever reads finds each of them once."""

from __future__ import annotations

import pytest
from support.lazy_store import LazyStore

from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.errors import StoreError
from rag_bm25.statistics.log.keys import kind_of
from rag_bm25.store.rows import LogRow


@pytest.fixture
def store() -> LazyStore:
    store = LazyStore()
    store.create()
    return store


def rows(*names: str) -> list[LogRow]:
    return [LogRow(f"delta:{name}", "delta", {"of": name}, f"packed {name}") for name in names]


def stored(store: LazyStore) -> list[str]:
    return list(store.collections.log)


def test_they_are_read_as_if_they_were_stored(store: LazyStore) -> None:
    store.insert_log(rows("1"))
    store.insert_log(rows("2", "3"), defer=True)
    for reader in (store, store.beside()):
        assert reader.log_keys() == ["delta:1", "delta:2", "delta:3"]
        assert reader.log_keys([("delta:1", "delta:3"), ("x", "y")]) == ["delta:2"]
        assert reader.get_log(["delta:3", "delta:1", "missing"]) == [*rows("1"), *rows("3")]
        assert reader.get_log(["delta:2"], packed=False) == [LogRow("delta:2", "delta", {"of": "2"})]
    assert store.reopen().log_keys() == ["delta:1"]  # the process was killed


@pytest.mark.parametrize("moment", ["before", "halfway", "after"])
def test_after_a_failure_those_that_are_missing_are_stored(store: LazyStore, moment: str) -> None:
    store.insert_log(rows("1", "2"), defer=True)
    store.fail_at(0, moment)  # type: ignore[arg-type]
    with pytest.raises(StoreError, match="lost"):
        store.insert_log(rows("3", "4"))
    assert (
        stored(store)
        == [row.key for row in rows("1", "2", "3", "4")][: ["before", "halfway", "after"].index(moment) * 2]
    )
    assert store.log_keys([("delta:0", "delta:3")])[-2:] == ["delta:1", "delta:2"]
    assert store.get_log(["delta:1", "delta:2"]) == rows("1", "2")
    store.insert_log(rows("5"), defer=True)
    inserted: list[str] = []
    store.on_call = lambda method: inserted.append(method) if method == "insert_log" else None
    before = stored(store)
    store.insert_log(rows("6"))
    assert stored(store) == [*before, *(row.key for row in rows("1", "2", "5", "6") if row.key not in before)]
    assert len(inserted) == 1


def test_the_intent_of_a_batch_takes_the_delta_of_the_last_one_along(config: IndexConfig) -> None:
    store = LazyStore()
    index = BM25Index.from_store(store, config=config)
    index.add(["apple"], ids=["a"])
    store.calls.clear()
    index.add(["apple"], ids=["b"])
    assert store.calls == ["get_chunks", "insert_log", "insert_chunks"]
    assert sorted(map(kind_of, stored(store))) == ["birth", "config", "delta", "intent", "intent", "terms"]
    assert sorted(map(kind_of, store.log_keys()))[2:4] == ["delta", "delta"]


def test_a_crash_after_each_write_leaves_a_whole_log(config: IndexConfig) -> None:
    store = LazyStore()
    index = BM25Index.from_store(store, config=config)
    for number in range(5):
        index.add([f"apple {number}", "fig"], ids=["same", f"{number}"])
        index.delete([str(number - 2)])
        after = BM25Index.from_store(store.beside().reopen(), config=config, read_only=True)
        assert after.problems == []
        assert after.stats().num_chunks == index.stats().num_chunks
        assert after.verify().differences == []
