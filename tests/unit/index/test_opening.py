"""An index is opened, or created."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from support.memory_store import MemoryStore
from support.reference import split
from support.writes import fail_at, writes

from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.errors import (
    ConfigMismatchError,
    FormatError,
    IndexNotFoundError,
    ParameterError,
    ReadOnlyError,
    StoreError,
)

# Opening


def test_constructor_names_the_way_to_open() -> None:
    with pytest.raises(TypeError, match=r"BM25Index\.open\(uri, collection, config="):
        BM25Index("./rag.db", "docs", IndexConfig(chunk_size=500))  # type: ignore[arg-type]


def test_config_creates_an_index(store: MemoryStore, config: IndexConfig) -> None:
    index = BM25Index.from_store(store, config=config)
    assert index.config is config
    assert store.exists()
    assert (index.stats().num_chunks, index.search("apple")) == (0, [])


def test_an_analyzer_may_be_given_without_a_config(filled: BM25Index, reopened: Callable[..., BM25Index]) -> None:
    again = reopened(config=None, analyzer=filled.config.analyzer)
    assert (again.config, again.search("apple")) == (filled.config, filled.search("apple"))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"analyzer": list},
            ConfigMismatchError,
            r"^the index was created with other parameters: tokens of '.*' differ",
        ),
        ({"analyzer": 7}, ParameterError, "analyzer must be a callable or None, got 7"),
        ({"analyzer": split, "config": IndexConfig(500)}, ParameterError, "analyzer must be left out beside a config"),
    ],
    ids=["other tokens", "no callable", "beside a config"],
)
def test_another_analyzer_is_refused(
    filled: BM25Index, reopened: Callable[..., BM25Index], options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        reopened(**{"config": None, **options})


@pytest.mark.parametrize("options", [{"config": None}, {"read_only": True}])
def test_index_that_does_not_exist_is_not_found(
    store: MemoryStore, config: IndexConfig, options: dict[str, Any]
) -> None:
    with pytest.raises(IndexNotFoundError) as caught:
        BM25Index.from_store(store, **{"config": config, **options})
    assert str(caught.value) == "index not found in memory. To create it, pass config=IndexConfig(chunk_size=...)"
    assert writes(store) == []
    assert store.closed


def test_other_parameters_are_refused(filled: BM25Index, store: MemoryStore) -> None:
    reopened = store.reopen()
    with pytest.raises(ConfigMismatchError) as caught:
        BM25Index.from_store(reopened, config=replace(filled.config, chunk_size=9, b=0.5))
    expected = "the index was created with other parameters: chunk_size: stored 4, given 9; b: stored 0.75, given 0.5"
    assert str(caught.value) == expected
    assert writes(reopened) == []
    assert reopened.closed


def test_chunks_without_a_config_are_not_adopted(filled: BM25Index, store: MemoryStore, config: IndexConfig) -> None:
    store.collections.log.clear()
    reopened = store.reopen()
    with pytest.raises(FormatError, match="memory is damaged: its config is lost"):
        BM25Index.from_store(reopened, config=config)
    assert writes(reopened) == []


def test_creation_that_was_cut_short_is_done_again(store: MemoryStore, config: IndexConfig) -> None:
    store.create()
    BM25Index.from_store(store, config=config).add(["apple"])
    assert BM25Index.from_store(store.reopen(), config=config).stats().num_chunks == 1


def test_index_closes_its_store_after_a_with_block(store: MemoryStore, config: IndexConfig) -> None:
    with BM25Index.from_store(store, config=config) as index:
        index.close()
    assert store.closed


def test_an_index_shows_name_size_and_state_without_a_call(filled: BM25Index, store: MemoryStore) -> None:
    assert repr(filled) == "<BM25Index memory: 3 chunks, open>"
    filled.close()
    assert repr(filled) == "<BM25Index memory: 3 chunks, closed>"
    assert store.calls == ["close"]


@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy, copy.deepcopy])
def test_an_index_is_neither_pickled_nor_copied(index: BM25Index, copied: Callable[[object], object]) -> None:
    with pytest.raises(TypeError, match="an index cannot be pickled or copied, nor can an object that holds one: open"):
        copied({"index": index} if copied is not copy.copy else index)


@pytest.mark.parametrize("store_fails_at", ["exists", "create", "insert_log", "log_keys"])
def test_store_is_closed_where_opening_fails(store: MemoryStore, config: IndexConfig, store_fails_at: str) -> None:
    def fail(method: str) -> None:
        if method == store_fails_at:
            raise StoreError("lost")

    store.on_call = fail
    with pytest.raises(StoreError, match="lost"):
        BM25Index.from_store(store, config=config)
    assert store.closed


def test_unfinished_write_is_finished_when_opening(
    filled: BM25Index, store: MemoryStore, reopened: Callable[..., BM25Index]
) -> None:
    fail_at(store, "delete_chunks")
    with pytest.raises(StoreError):
        filled.add(["grape"], ids=["1"])
    store.on_call = None
    again = reopened()
    assert again.verify().ok
    assert [chunk.text for chunk in again.get(["1"])] == ["grape"]


def test_reader_leaves_unfinished_writes_alone(filled: BM25Index, store: MemoryStore, config: IndexConfig) -> None:
    fail_at(store, "delete_chunks")
    with pytest.raises(StoreError):
        filled.add(["grape"], ids=["1"])
    store.on_call = None
    reader = store.reopen()
    BM25Index.from_store(reader, config=config, read_only=True)
    assert writes(reader) == []


@pytest.mark.parametrize(
    "write",
    [
        lambda index: index.add(["fig"]),
        lambda index: index.delete(["1"]),
        lambda index: index.drop_namespace(""),
        lambda index: index.repair(),
    ],
)
def test_reader_refuses_writes(
    filled: BM25Index, store: MemoryStore, config: IndexConfig, write: Callable[[BM25Index], Any]
) -> None:
    reader = store.reopen()
    index = BM25Index.from_store(reader, config=config, read_only=True)
    with pytest.raises(ReadOnlyError) as caught:
        write(index)
    assert str(caught.value) == "memory was opened with read_only=True"
    assert writes(reader) == []
