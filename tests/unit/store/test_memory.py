"""The store that users' own tests have: what the contract suite does not ask of every engine."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.rows import ONE

from rag_bm25 import TLS, BM25Index, IndexConfig, IndexNotFoundError, ParameterError, StoreError
from rag_bm25.ingestion.source_roots import read_source_roots
from rag_bm25.store import MemoryStore
from rag_bm25.store.rows import ChunkRow, LogRow
from rag_bm25.vectors.sparse import EMPTY

CONFIG = IndexConfig(chunk_size=500)


def row(**changes: Any) -> ChunkRow:
    facts = {"pk": "00a", "id": "a", "namespace": "", "length": 1, "batch": "b", "text": "t", "vector": ONE}
    return ChunkRow(**{**facts, **changes})


@pytest.fixture
def store() -> MemoryStore:
    made = MemoryStore()
    made.create()
    return made


class TestOpening:
    def test_each_index_is_new_and_private(self) -> None:
        with BM25Index.open(":memory:", "docs", config=CONFIG) as one:
            one.add(["Milvus stores sparse vectors."], ids=["a"])
            with BM25Index.open(":memory:", "docs", config=CONFIG) as other:
                assert (one.stats().num_chunks, other.stats().num_chunks) == (1, 0)
            assert [hit.id for hit in one.search("vector")] == ["a"]
            assert repr(one) == "<BM25Index memory, collection 'docs': 1 chunks, open>"

    @pytest.mark.parametrize("options", [{}, {"config": CONFIG, "read_only": True}])
    def test_there_is_never_one_before(self, options: dict[str, Any]) -> None:
        with pytest.raises(IndexNotFoundError, match="'docs' not found at :memory:"):
            BM25Index.open(":memory:", "docs", **options)

    def test_names_are_those_that_engines_take(self) -> None:
        with pytest.raises(ParameterError, match="collection must be ASCII letters, digits and underscores"):
            BM25Index.open(":memory:", "my docs", config=CONFIG)

    @pytest.mark.parametrize(
        ("name", "value"),
        [("token", "root:secret"), ("tls", TLS()), ("timeout", 5.0), ("consistency", "Strong"), ("consistency", "no")],
    )
    def test_options_of_a_connection_are_refused(self, name: str, value: Any) -> None:
        with pytest.raises(ParameterError, match=f"^{name} must be left out with ':memory:'") as caught:
            BM25Index.open(":memory:", "docs", config=CONFIG, **{name: value})
        assert "secret" not in str(caught.value)

    def test_the_defaults_of_a_connection_are_accepted(self) -> None:
        BM25Index.open(":memory:", "docs", config=CONFIG, token=None, consistency="Session").close()

    def test_a_store_keeps_its_rows_for_the_next_index(self) -> None:
        store = MemoryStore("docs")
        with BM25Index.from_store(store, config=CONFIG) as index:
            index.add(["Milvus stores sparse vectors."], ids=["a"])
        with BM25Index.from_store(store.reopen()) as index:
            assert index.verify().ok
            assert [hit.id for hit in index.search("vector")] == ["a"]
        with pytest.raises(StoreError, match="memory, collection 'docs' is closed"):
            store.count_chunks()


CALLS = [
    lambda index: index.stats(),
    lambda index: index.search(""),
    lambda index: index.search("text"),
    lambda index: index.search_batch([]),
    lambda index: index.encode_queries(["text"]),
    lambda index: index.encode_documents(["text"]),
    lambda index: index.add([]),
    lambda index: index.add(["another"]),
    lambda index: index.add_stream([]),
    lambda index: index.delete([]),
    lambda index: index.get([]),
    lambda index: index.chunks(),
    read_source_roots,
    lambda index: index.refresh(),
    lambda index: index.verify(),
    lambda index: index.repair(),
]


@pytest.mark.parametrize("call", CALLS)
def test_a_closed_index_refuses_every_call(call: Callable[[BM25Index], Any], caplog: pytest.LogCaptureFixture) -> None:
    index = BM25Index.open(":memory:", "docs", config=CONFIG)
    index.add(["a text"])
    index.close()
    index.close()
    for _ in range(2):  # the second call must not try to mend what the first began
        with pytest.raises(StoreError, match="memory, collection 'docs' is closed"):
            call(index)
    assert not caplog.records
    assert (index.problems, repr(index)) == ([], "<BM25Index memory, collection 'docs': 1 chunks, closed>")


class TestRefusals:
    @pytest.mark.parametrize(
        ("field", "most"), [("pk", 64), ("id", 512), ("namespace", 256), ("text", 65_535), ("batch", 64)]
    )
    def test_strings_that_a_server_refuses(self, store: MemoryStore, field: str, most: int) -> None:
        with pytest.raises(StoreError, match=f"{field} must have at most {most:,} bytes, got {most + 1:,}: memory"):
            store.insert_chunks([row(pk="00b"), row(**{field: "é" * (most // 2) + "x" * (most % 2 + 1)})])
        assert store.count_chunks() == 0
        store.insert_chunks([row(**{field: "x" * most})])

    def test_log_rows_that_a_server_refuses(self, store: MemoryStore) -> None:
        with pytest.raises(StoreError, match="packed must have at most 65,535 bytes, got 65,536"):
            store.insert_log([LogRow("k", "delta", {}, "x" * 65_536)])
        assert store.log_keys() == []

    def test_a_row_that_is_stored(self, store: MemoryStore) -> None:
        store.insert_chunks([row()])
        with pytest.raises(StoreError, match="has a row '00a' already"):
            store.insert_chunks([row(text="another")])

    def test_an_empty_vector(self, store: MemoryStore) -> None:
        with pytest.raises(StoreError, match="the sparse vector of row '00a' is empty"):
            store.insert_chunks([row(vector=EMPTY)])


def test_what_was_given_and_read_can_be_changed_without_harm(store: MemoryStore) -> None:
    metadata = {"tags": ["a"]}
    store.insert_chunks([row(metadata=metadata)])
    metadata["tags"].append("b")
    store.get_chunks(["00a"])[0].metadata["tags"].append("c")
    assert store.get_chunks(["00a"])[0].metadata == {"tags": ["a"]}


def test_searching_while_another_thread_writes() -> None:
    with BM25Index.open(":memory:", "docs", config=CONFIG) as index:
        writer = threading.Thread(target=lambda: [index.add([f"word{number}"]) for number in range(100)])
        writer.start()
        while writer.is_alive():
            index.search("word1 word50")
        assert index.stats().num_chunks == 100


@given(st.text("ab\n", max_size=6), st.text("ab\n%", max_size=5))
@example("a", "a%a")
@example("a", "%a%a%")
@example("ab", "%a%b")
@example("ab\na", "a%a")
def test_patterns_match_as_regular_expressions_do(value: str, pattern: str) -> None:
    with BM25Index.open(":memory:", "docs", config=CONFIG) as index:
        index.add(["text"], metadatas=[{"key": value}])
        expected = re.fullmatch(pattern.replace("%", ".*"), value, re.DOTALL) is not None
        assert len(index.search("text", filter={"key": {"$like": pattern}})) == expected


def test_a_pattern_does_not_try_all_places_of_its_parts(store: MemoryStore) -> None:
    with BM25Index.from_store(store, config=CONFIG) as index:
        index.add(["text"], metadatas=[{"key": "a" * 5000}])
        assert not index.search("text", filter={"key": {"$like": "%a" * 500 + "b%"}})  # it would take for ever
