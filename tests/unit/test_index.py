from __future__ import annotations

import copy
import pickle
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from memory_store import MemoryStore
from reference import split

from rag_bm25 import AddReport, BM25Index, Chunk, FieldWeight, Hit, IndexConfig
from rag_bm25 import index as module
from rag_bm25.chunks import pk_digest
from rag_bm25.errors import (
    ConfigMismatchError,
    FilterError,
    FormatError,
    IndexNotFoundError,
    InputError,
    ParameterError,
    ReadOnlyError,
    StoreError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WRITES = {"create", "insert_chunks", "delete_chunks", "insert_log", "delete_log"}


def writes(store: MemoryStore) -> list[str]:
    return [call for call in store.calls if call in WRITES]


@pytest.fixture
def filled(index: BM25Index, store: MemoryStore) -> BM25Index:
    index.add(
        ["apple banana", "apple cherry", "fig"],
        ids=["1", "2", "3"],
        metadatas=[{"page": 1}, {"page": 2}, None],
    )
    store.calls.clear()
    return index


# Opening


def test_config_creates_an_index(store: MemoryStore, config: IndexConfig) -> None:
    index = BM25Index.from_store(store, config=config)
    assert index.config is config
    assert store.exists()
    assert (index.stats().num_chunks, index.search("apple")) == (0, [])


def test_index_of_one_chunk_finds_it(index: BM25Index) -> None:
    index.add(["apple"], ids=["1"])
    (hit,) = index.search("apple")
    assert (hit.id, hit.text) == ("1", "apple")
    assert hit.score > 0


def test_reopened_index_has_everything(filled: BM25Index, reopened: Callable[..., BM25Index]) -> None:
    again = reopened()
    assert again.search("apple cherry") == filled.search("apple cherry")
    assert again.stats() == filled.stats()


def test_config_is_stored(store: MemoryStore) -> None:
    config = IndexConfig(chunk_size=9, k1=1.25, b=0.5, idf="plus", epsilon=0.5, k3=7)
    BM25Index.from_store(store, config=config).close()
    assert BM25Index.from_store(store.reopen()).config == config


def test_query_side_may_differ_when_reopened(filled: BM25Index, reopened: Callable[..., BM25Index]) -> None:
    other = replace(filled.config, idf="plus")
    assert reopened(config=other).search("apple") == filled.search("apple", idf="plus")


@pytest.mark.parametrize("options", [{"config": None}, {"read_only": True}])
def test_index_that_does_not_exist_is_not_found(
    store: MemoryStore, config: IndexConfig, options: dict[str, Any]
) -> None:
    with pytest.raises(IndexNotFoundError) as caught:
        BM25Index.from_store(store, **{"config": config, **options})
    assert str(caught.value) == "there is no index in memory; to create it, pass config=IndexConfig(chunk_size=...)"
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


def test_closed_index_says_so(index: BM25Index) -> None:
    index.close()
    with pytest.raises(StoreError, match="memory is closed"):
        index.add(["apple"])


def test_an_index_shows_name_size_and_state_without_a_call(filled: BM25Index, store: MemoryStore) -> None:
    assert repr(filled) == "<BM25Index memory: 3 chunks, open>"
    filled.close()
    assert repr(filled) == "<BM25Index memory: 3 chunks, closed>"
    assert store.calls == ["close"]


@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy, copy.deepcopy])
def test_an_index_is_neither_pickled_nor_copied(index: BM25Index, copied: Callable[[object], object]) -> None:
    with pytest.raises(TypeError, match="an index cannot be pickled or copied, nor what holds one: open it in each"):
        copied({"index": index} if copied is not copy.copy else index)


@pytest.mark.parametrize("store_fails_at", ["exists", "create", "insert_log", "log_keys"])
def test_store_is_closed_where_opening_fails(store: MemoryStore, config: IndexConfig, store_fails_at: str) -> None:
    def fail(method: str) -> None:
        if method == store_fails_at:
            msg = "lost"
            raise StoreError(msg)

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


def fail_at(store: MemoryStore, failing: str) -> None:
    def fail(method: str) -> None:
        if method == failing:
            msg = "lost"
            raise StoreError(msg)

    store.on_call = fail


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


# Writing


def test_ids_come_back_in_order(index: BM25Index) -> None:
    assert index.add(["b", "a"], ids=["2", "1"]) == ["2", "1"]


def test_same_text_twice_is_one_chunk(index: BM25Index) -> None:
    one, other = index.add(["apple", "apple"])
    assert one == other
    assert index.stats().num_chunks == 1


def test_same_text_with_other_metadata_is_another_chunk(index: BM25Index) -> None:
    one, other = index.add(["apple", "apple"], metadatas=[{"page": 1}, {"page": 2}])
    assert one != other
    assert index.stats().num_chunks == 2


def test_nothing_can_be_added(index: BM25Index, store: MemoryStore) -> None:
    store.calls.clear()
    assert index.add([]) == []
    assert writes(store) == []


def test_many_chunks_go_in_batches(index: BM25Index, store: MemoryStore) -> None:
    store.calls.clear()
    index.add([f"w{number}" for number in range(2_001)])
    assert store.calls.count("insert_chunks") == 3
    assert index.stats().num_chunks == 2_001
    assert index.verify().ok


def test_new_chunks_are_not_looked_for(index: BM25Index, store: MemoryStore) -> None:
    store.calls.clear()
    assert index.add([f"w{number}" for number in range(2_001)], assume_new=True)
    assert store.calls.count("insert_chunks") == 3
    assert "get_chunks" not in store.calls
    assert index.stats().num_chunks == 2_001
    assert index.verify().ok


def test_new_chunks_are_embedded_without_looking_for_them(store: MemoryStore) -> None:
    config = IndexConfig(chunk_size=4, length_unit="terms", analyzer=split, dense_dim=2, dense_metric="IP")
    asked: list[list[str]] = []

    def embed(texts: list[str]) -> list[list[float]]:
        asked.append(texts)
        return [[1.0, 0.5]] * len(texts)

    index = BM25Index.from_store(store, config=config)
    store.calls.clear()
    index.add(["apple", "fig"], embeddings=embed, assume_new=True)
    assert asked == [["apple", "fig"]]
    assert "get_chunks" not in store.calls


class TestStream:
    """Chunks one by one, any number of them."""

    @pytest.fixture(autouse=True)
    def small_batches(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("rag_bm25.chunks.MAX_BATCH_CHUNKS", 2)

    def test_stores_what_add_stores(self, index: BM25Index, store: MemoryStore, config: IndexConfig) -> None:
        chunks = [Chunk(f"i{n}", f"apple w{n}", {"page": n}) for n in range(7)]
        report = index.add_stream(chunk for chunk in chunks)
        assert report == AddReport(added=7)
        other = BM25Index.from_store(MemoryStore(), config=config)
        other.add([c.text for c in chunks], ids=[c.id for c in chunks], metadatas=[c.metadata for c in chunks])
        assert list(index.chunks()) == list(other.chunks())
        assert index.stats() == other.stats()
        assert store.calls.count("insert_chunks") == 4

    def test_tells_what_became_of_the_chunks(self, index: BM25Index) -> None:
        index.add(["a", "b", "c"], ids=["1", "2", "3"])
        told: list[AddReport] = []
        given = [Chunk("1", "a"), Chunk("2", "new b"), Chunk("3", "c", {"page": 1}), Chunk("4", "d"), Chunk("5", "e")]
        report = index.add_stream(given, progress=told.append)
        assert report == AddReport(added=2, updated=2, unchanged=1) == told[-1]
        assert [so_far.total for so_far in told] == [2, 4, 5]

    def test_one_index_flows_into_another(self, filled: BM25Index, config: IndexConfig) -> None:
        other = BM25Index.from_store(MemoryStore(), config=config)
        other.add_stream(filled.chunks())
        assert list(other.chunks()) == list(filled.chunks())

    def test_takes_no_more_than_it_counts_ahead(self, index: BM25Index, store: MemoryStore) -> None:
        taken: list[int] = []
        most: list[int] = []
        store.on_call = lambda method: most.append(len(taken)) if method == "insert_chunks" else None

        def chunks() -> Iterator[Chunk]:
            for n in range(12):
                taken.append(n)
                yield Chunk(str(n), f"w{n}")

        index.add_stream(chunks())
        assert most == [5, 7, 9, 11, 12, 12]  # two batches, and the first of the one after

    def test_source_is_never_asked_while_the_index_is_locked(self, index: BM25Index) -> None:
        """Else searches would wait for a slow source, and for ever where it waits for a thread that searches."""
        free: list[bool] = []

        def try_lock() -> None:
            free.append(index._lock.acquire(blocking=False))
            if free[-1]:
                index._lock.release()

        def chunks() -> Iterator[Chunk]:
            for n in range(9):
                thread = threading.Thread(target=try_lock)
                thread.start()
                thread.join()
                yield Chunk(str(n), f"w{n}")

        index.add_stream(chunks())
        assert free == [True] * 9

    def test_source_may_delete_what_it_replaces(self, index: BM25Index) -> None:
        index.add([f"old{n}" for n in range(9)], ids=[str(n) for n in range(9)])

        def chunks() -> Iterator[Chunk]:
            for n in range(9):
                index.delete([str(max(n - 2, 0))])
                yield Chunk(str(n), f"new{n}")

        assert index.add_stream(chunks()).total == 9
        assert sorted(chunk.text for chunk in index.chunks()) == [f"new{n}" for n in range(9)]
        assert index.verify().ok

    def test_id_that_comes_again_updates(self, index: BM25Index) -> None:
        report = index.add_stream([Chunk("1", "a"), Chunk("1", "b"), Chunk("2", "c"), Chunk("1", "d")])
        assert report == AddReport(added=2, updated=2)
        assert {chunk.id: chunk.text for chunk in index.chunks()} == {"1": "d", "2": "c"}
        assert index.verify().ok

    def test_chunks_without_an_id_are_named_by_their_contents(self, index: BM25Index) -> None:
        @dataclass
        class Mine:
            text: str
            id: None = None
            metadata: None = None

        assert index.add_stream([Mine("a"), Mine("b"), Mine("a")]) == AddReport(added=2, unchanged=1)
        assert sorted(chunk.id for chunk in index.chunks()) == sorted(index.add(["a", "b"]))

    def test_source_that_fails_leaves_whole_batches(self, index: BM25Index) -> None:
        def chunks() -> Iterator[Chunk]:
            yield from (Chunk(str(n), f"w{n}") for n in range(5))
            msg = "no more"
            raise OSError(msg)

        with pytest.raises(OSError, match="no more"):
            index.add_stream(chunks())
        assert sorted(chunk.id for chunk in index.chunks()) == ["0", "1", "2", "3"]
        assert index.verify().ok

    @pytest.mark.parametrize(
        ("bad", "says"),
        [
            (Chunk("", "x"), r"chunk 5 of the stream: ids\[0\] must not be empty"),
            (Chunk("5", "a\0b"), r"chunk 5 of the stream: texts\[0\] \(id '5'\) has a NUL at character 1"),
            (Chunk("5", "x", {"page": float("nan")}), r"chunk 5 of the stream: metadatas\[0\]\['page'\] is nan"),
            ({"id": "5", "text": "x"}, "chunk 5 of the stream: it must have id, text and metadata .*, got dict"),
        ],
    )
    def test_bad_chunk_is_named_and_whole_batches_stay(self, index: BM25Index, bad: Any, says: str) -> None:
        with pytest.raises(InputError, match=says):
            index.add_stream([*(Chunk(str(n), f"w{n}") for n in range(5)), bad])
        assert index.stats().num_chunks == 4
        assert index.verify().ok

    def test_fields_are_checked(self) -> None:
        config = IndexConfig(4, analyzer=split, fields={"title": FieldWeight(chunk_size=2)})
        index = BM25Index.from_store(MemoryStore(), config=config)
        with pytest.raises(InputError, match=r"chunk 1 of the stream: .*'title'.* must be a str"):
            index.add_stream([Chunk("1", "a", {"title": "b"}), Chunk("2", "a", {"title": 2})])

    def test_embeds_what_is_new(self, store: MemoryStore) -> None:
        config = IndexConfig(4, length_unit="terms", analyzer=split, dense_dim=2, dense_metric="IP")
        index = BM25Index.from_store(store, config=config)
        asked: list[list[str]] = []

        def embed(texts: list[str]) -> list[list[float]]:
            asked.append(texts)
            return [[1.0, 0.5]] * len(texts)

        index.add_stream([Chunk(str(n), f"w{n}") for n in range(3)], embeddings=embed)
        index.add_stream([Chunk(str(n), f"w{n}") for n in range(4)], embeddings=embed)
        assert asked == [["w0", "w1"], ["w2"], ["w3"]]
        with pytest.raises(InputError, match="embeddings must be given"):
            index.add_stream([])
        with pytest.raises(InputError, match="embeddings of a stream must be a callable, got list"):
            index.add_stream([Chunk("5", "x")], embeddings=[])  # type: ignore[arg-type]

    def test_new_chunks_are_not_looked_for(self, index: BM25Index, store: MemoryStore) -> None:
        store.calls.clear()
        assert index.add_stream((Chunk(str(n), "w") for n in range(5)), assume_new=True) == AddReport(added=5)
        assert "get_chunks" not in store.calls

    def test_namespace_is_theirs(self, index: BM25Index) -> None:
        index.add_stream([Chunk("1", "a", namespace="elsewhere")], namespace="here")
        assert [chunk.id for chunk in index.chunks(namespace="here")] == ["1"]

    def test_bad_arguments_are_refused_before_anything_is_taken(self, index: BM25Index) -> None:
        untouched = iter([Chunk("1", "a")])
        with pytest.raises(InputError, match="namespace must be a str"):
            index.add_stream(untouched, namespace=1)  # type: ignore[arg-type]
        with pytest.raises(ParameterError, match="workers must be"):
            index.add_stream(untouched, workers=-1)
        with pytest.raises(InputError, match="embeddings given, but"):
            index.add_stream(untouched, embeddings=lambda texts: [[0.0] for _ in texts])
        assert len(list(untouched)) == 1


def test_batches_that_were_written_stay_where_a_later_one_fails(index: BM25Index, store: MemoryStore) -> None:
    calls = iter(range(100))

    def fail(method: str) -> None:
        if method == "insert_chunks" and next(calls) == 1:
            msg = "lost"
            raise StoreError(msg)

    store.on_call = fail
    texts = [f"w{number}" for number in range(1_500)]
    with pytest.raises(StoreError):
        index.add(texts)
    store.on_call = None
    assert index.stats().num_chunks == 1_000
    index.add(texts)
    assert index.stats().num_chunks == 1_500
    assert index.verify().ok


def test_text_without_terms_is_stored_and_never_found(index: BM25Index) -> None:
    index.add(["", "  ", "apple"], ids=["1", "2", "3"])
    assert [chunk.text for chunk in index.get(["1", "2"])] == ["", "  "]
    assert [hit.id for hit in index.search("apple")] == ["3"]
    assert index.stats().num_chunks == 3
    index.add(["fig"], ids=["1"])
    assert index.delete(["1", "2"]) == 2
    assert index.verify().ok


def test_same_id_in_two_namespaces_is_two_chunks(index: BM25Index) -> None:
    index.add(["apple"], ids=["1"])
    index.add(["fig"], ids=["1"], namespace="law")
    assert index.delete(["1"], namespace="law") == 1
    assert [chunk.text for chunk in index.get(["1"])] == ["apple"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"texts": ["good", "b\0"]}, "texts[1] has a NUL at character 1"),
        ({"texts": ["good", None]}, "texts[1] must be a str, got NoneType"),
        ({"texts": ["good", "\ud800"]}, "texts[1] has a lone surrogate at character 0"),
        (
            {"texts": ["good", "x" * 70_000], "ids": ["1", "2"]},
            "texts[1] (id '2') has 70,000 bytes of UTF-8, at most 65,535 are allowed",
        ),
        ({"texts": ["good"], "ids": ["1", "2"]}, "ids and texts must have the same length, got 2 and 1"),
        (
            {"texts": ["a", "b"], "ids": ["1", "1"]},
            "ids must be distinct in one call: texts[0] and texts[1] both have the id '1', and differ in their text",
        ),
        ({"texts": ["a"], "ids": [""]}, "ids[0] must not be empty"),
        ({"texts": ["a"], "ids": ["x" * 513]}, "ids[0] has 513 bytes of UTF-8, at most 512 are allowed"),
        (
            {"texts": ["good", "b"], "metadatas": [None, {"page": float("nan")}]},
            "metadatas[1]['page'] is nan, which JSON does not have",
        ),
        ({"texts": ["good"], "namespace": None}, "namespace must be a str, got NoneType"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_written(
    index: BM25Index, store: MemoryStore, arguments: dict[str, Any], message: str
) -> None:
    store.calls.clear()
    with pytest.raises(InputError) as caught:
        index.add(**arguments)
    assert str(caught.value) == message
    assert writes(store) == []


def test_an_id_that_is_the_hash_of_another_chunk_loses_nothing(index: BM25Index, store: MemoryStore) -> None:
    (made,) = index.add(["first"])
    index.delete([made])
    store.calls.clear()
    with pytest.raises(InputError, match=rf"texts\[0\] and texts\[1\] both have the id '{made}'"):
        index.add(["first", "second"], ids=[None, made])
    assert store.calls == []
    assert index.add(["first", "first"], ids=[None, made]) == [made, made]
    assert index.stats().num_chunks == 1


def test_bad_text_in_a_later_batch_stops_the_first_one(index: BM25Index, store: MemoryStore) -> None:
    store.calls.clear()
    with pytest.raises(InputError):
        index.add([f"w{number}" for number in range(1_500)] + ["bad\0"])
    assert writes(store) == []


# Deleting


def test_deleting_takes_chunks_out_of_search_and_statistics(filled: BM25Index) -> None:
    assert filled.delete(["1", "unknown"]) == 1
    assert [hit.id for hit in filled.search("apple")] == ["2"]
    assert filled.stats().num_terms == 3
    assert filled.search("banana") == []


def test_deleting_by_filter(filled: BM25Index) -> None:
    assert filled.delete(filter={"page": 2}) == 1
    assert [chunk.id for chunk in filled.get(["1", "2", "3"])] == ["1", "3"]


def test_dropping_a_namespace_leaves_the_others(filled: BM25Index) -> None:
    filled.add(["apple"], ids=["1"], namespace="law")
    assert filled.drop_namespace("") == 3
    assert filled.stats().num_chunks == 1
    assert filled.verify().ok


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ids": "12"}, "ids must be a sequence of str, got str"),
        ({"ids": ["1", ""]}, "ids[1] must not be empty"),
        ({}, "delete needs ids or a filter, and not both"),
        ({"ids": ["1"], "filter": {"page": 1}}, "delete needs ids or a filter, and not both"),
        ({"filter": {}}, "delete needs a filter that is not empty; to delete a whole namespace, use drop_namespace"),
        ({"ids": ["1"], "namespace": 7}, "namespace must be a str, got int"),
    ],
)
def test_bad_delete_is_refused_and_nothing_is_deleted(
    filled: BM25Index, store: MemoryStore, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError) as caught:
        filled.delete(**arguments)
    assert str(caught.value) == message
    assert writes(store) == []


# Reading


def test_chunks_come_back_as_they_were_given(filled: BM25Index) -> None:
    assert filled.get(["3", "1", "unknown", "1"]) == [
        Chunk("3", "fig", {}, "", 1),
        Chunk("1", "apple banana", {"page": 1}, "", 2),
    ]


def test_all_chunks_can_be_streamed(filled: BM25Index) -> None:
    filled.add(["grape"], ids=["4"], namespace="law")
    assert sorted(chunk.id for chunk in filled.chunks()) == ["1", "2", "3"]
    assert sorted(chunk.id for chunk in filled.chunks(namespace=None)) == ["1", "2", "3", "4"]
    assert [chunk.id for chunk in filled.chunks(filter={"page": 2})] == ["2"]


def test_a_stream_of_chunks_is_checked_by_the_call(filled: BM25Index, store: MemoryStore) -> None:
    with pytest.raises(FilterError, match="unknown operator"):
        filled.chunks(filter={"page": {"$above": 1}})
    with pytest.raises(InputError, match="namespace must be a str"):
        filled.chunks(namespace=[])

    def fail(method: str) -> None:
        msg = f"{method} refused"
        raise FilterError(msg)

    store.on_call = fail
    with pytest.raises(FilterError, match="scan_chunks refused"):
        filled.chunks(filter="page ==")


def test_hit_has_all_of_its_chunk(filled: BM25Index) -> None:
    (hit,) = filled.search("banana")
    assert hit == Hit("1", hit.score, "apple banana", {"page": 1}, "")


def test_filters_are_passed_on(filled: BM25Index) -> None:
    assert [hit.id for hit in filled.search("apple", filter={"page": {"$gte": 2}})] == ["2"]


def test_filter_leaves_the_scores_as_they_are(filled: BM25Index) -> None:
    every = {hit.id: hit.score for hit in filled.search("apple")}
    assert every["2"] == filled.search("apple", filter={"page": 2})[0].score


@pytest.mark.parametrize("query", ["", "  ", "\n", "unknown", "unknown words"])
def test_query_without_known_terms_finds_nothing_and_asks_nobody(
    filled: BM25Index, store: MemoryStore, query: str
) -> None:
    assert filled.search(query) == []
    assert store.calls == []


def test_batch_asks_once_and_only_for_queries_with_known_terms(filled: BM25Index, store: MemoryStore) -> None:
    found = filled.search_batch(["apple", "unknown", "fig", ""])
    assert [[hit.id for hit in hits] for hits in found] == [["1", "2"], [], ["3"], []]
    assert store.calls == ["search"]


def test_empty_batch_is_empty(filled: BM25Index) -> None:
    assert filled.search_batch([]) == []


@pytest.mark.parametrize("k", [0, -1, 16_385, 1.0, True, "10", None])
def test_k_out_of_range_is_refused(filled: BM25Index, store: MemoryStore, k: Any) -> None:
    with pytest.raises(ParameterError) as caught:
        filled.search("apple", k)
    assert str(caught.value) == f"k must be an int in 1..16384, got {k!r}"
    assert store.calls == []


@pytest.mark.parametrize("k", [1, 16_384])
def test_k_at_its_limits_is_taken(filled: BM25Index, k: int) -> None:
    assert len(filled.search("apple", k)) == min(k, 2)


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        ("apple", "queries must be a sequence of str, got str"),
        (["a", 7], "a query must be a str, a mapping of str to float or a Query, got int"),
    ],
)
def test_bad_queries_are_refused(filled: BM25Index, queries: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        filled.search_batch(queries)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("namespace", "message"),
    [
        ([], "namespace must be a str, a non-empty sequence of str, or None for all, got []"),
        (7, "namespace must be a str, a non-empty sequence of str, or None for all, got 7"),
        ([7], "namespace must be a str, got int"),
        ("a\n", "namespace must not have control characters, got 'a\\n'"),
    ],
)
def test_bad_namespace_is_refused(filled: BM25Index, namespace: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        filled.search("apple", namespace=namespace)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"idf": "bm25"}, "idf must be one of epsilon, lucene, zero, plus, tfidf, plain, got 'bm25'"),
        ({"epsilon": 0}, "epsilon must be a finite number > 0, got 0"),
        ({"k3": -1}, "k3 must be None, or finite and >= 0, got -1"),
    ],
)
def test_bad_query_parameter_is_refused(filled: BM25Index, option: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError) as caught:
        filled.search("apple", **option)
    assert str(caught.value) == message


def test_unknown_scope_of_statistics_is_refused(filled: BM25Index) -> None:
    with pytest.raises(ParameterError, match="statistics must be one of namespace, all, got 'corpus'"):
        filled.search("apple", statistics="corpus")  # type: ignore[arg-type]


def test_bad_filter_is_refused(filled: BM25Index, store: MemoryStore) -> None:
    with pytest.raises(FilterError):
        filled.search("apple", filter={"page": {"$near": 1}})
    assert store.calls == []


def test_filter_that_the_store_refuses_is_a_filter_error(filled: BM25Index) -> None:
    with pytest.raises(FilterError):
        filled.search("apple", filter="metadata[")


# Two rows of one chunk, while an update is under way


@pytest.fixture(params=["b", "a"])
def updating(filled: BM25Index, store: MemoryStore, request: pytest.FixtureRequest) -> BM25Index:
    """The update of chunk 1 to "apple apple" has inserted its row in that slot, and not deleted the old one."""
    if request.param == "a":
        filled.add(["apple"], ids=["1"])
    old = {row.id: row for row in store.collections.chunks.values()}["1"]
    filled.add(["apple apple"], ids=["1"])
    store.collections.chunks[old.pk] = old
    assert pk_digest("", "1") + request.param in store.collections.chunks
    store.calls.clear()
    return filled


def test_update_under_way_shows_the_newer_row_once(updating: BM25Index) -> None:
    assert [(hit.id, hit.text) for hit in updating.search("apple")] == [("1", "apple apple"), ("2", "apple cherry")]


def test_update_under_way_does_not_cost_a_hit(updating: BM25Index, store: MemoryStore) -> None:
    assert [hit.id for hit in updating.search("apple", 2)] == ["1", "2"]
    assert store.calls == ["search", "search"]


def test_enough_hits_need_no_second_search(updating: BM25Index, store: MemoryStore) -> None:
    assert [hit.id for hit in updating.search("apple", 1)] == ["1"]
    assert len(updating.search("apple", 4)) == 2
    assert store.calls == ["search", "search"]


def test_many_updates_under_way_cost_few_searches(index: BM25Index, store: MemoryStore) -> None:
    ids = [str(number) for number in range(20)]
    index.add(["apple pie"] * 20, ids=ids)
    old = dict(store.collections.chunks)
    index.add(["apple tart"] * 20, ids=ids)
    store.collections.chunks.update(old)
    store.calls.clear()
    assert {hit.text for hit in index.search("apple", 20)} == {"apple tart"}
    assert store.calls == ["search", "search"]


def test_second_search_is_only_for_the_queries_that_lack_hits(updating: BM25Index) -> None:
    found = updating.search_batch(["fig", "apple", "cherry"], 2)
    assert [[hit.id for hit in hits] for hits in found] == [["3"], ["1", "2"], ["2"]]


def test_update_under_way_is_read_as_the_newer_row(updating: BM25Index) -> None:
    assert [chunk.text for chunk in updating.get(["1"])] == ["apple apple"]
    assert updating.explain("apple", "1").value == pytest.approx(updating.search("apple")[0].score)


# Namespaces


def test_row_that_landed_in_a_new_namespace_is_not_seen_by_others(filled: BM25Index, store: MemoryStore) -> None:
    fail_at(store, "delete_log")
    calls = iter(range(9))
    store.on_call = lambda method: fail_second_insert(method, calls)
    with pytest.raises(StoreError):
        filled.add(["apple secret"], ids=["1"], namespace="other")
    store.on_call = None
    assert {hit.namespace for hit in filled.search("apple")} == {""}
    assert [hit.id for hit in filled.search("apple", 2)] == ["1", "2"]


def fail_second_insert(method: str, calls: Any) -> None:
    """Fail when the delta is written."""
    if method == "insert_log" and next(calls) == 1:
        msg = "lost"
        raise StoreError(msg)


def test_only_namespace_is_searched_without_a_filter(filled: BM25Index, store: MemoryStore) -> None:
    asked = []
    search = store.search
    store.search = lambda *queries, **options: (asked.append(options["namespaces"]), search(*queries, **options))[1]  # type: ignore[method-assign]
    filled.search("apple")
    filled.search("apple", namespace=["", "law"])
    filled.add(["apple"], namespace="law")
    filled.search("apple")
    filled.search("apple", namespace=None)
    assert asked == [None, None, [""], None]


def test_on_a_server_the_namespace_is_always_named(config: IndexConfig) -> None:
    store = MemoryStore(exclusive=False)
    index = BM25Index.from_store(store, config=config)
    index.add(["apple"])
    asked = []
    search = store.search
    store.search = lambda *queries, **options: (asked.append(options["namespaces"]), search(*queries, **options))[1]  # type: ignore[method-assign]
    index.search("apple")
    assert asked == [[""]]


# Figures


def test_stats_have_the_drift_of_the_chunk_size(filled: BM25Index) -> None:
    stats = filled.stats()
    assert (stats.name, stats.namespaces, stats.length_unit) == ("memory", [""], "terms")
    assert (stats.num_chunks, stats.num_terms, stats.total_length) == (3, 4, 5)
    assert (stats.k1, stats.b, stats.chunk_size) == (1.5, 0.75, 4)
    assert stats.mean_length == pytest.approx(5 / 3)
    assert stats.chunk_size_ratio == pytest.approx(2.4)
    assert stats.effective_k1 == pytest.approx(1.5 * (0.25 + 0.75 / 2.4))
    assert stats.effective_b == pytest.approx((0.75 / 2.4) / (0.25 + 0.75 / 2.4))


def test_stats_of_a_namespace(filled: BM25Index) -> None:
    filled.add(["grape fig"], namespace="law")
    assert (filled.stats(namespace="law").num_chunks, filled.stats(namespace="law").num_terms) == (1, 2)
    assert filled.stats(namespace=["law", ""]).num_terms == filled.stats().num_terms == 5
    assert filled.stats(namespace="unknown").num_chunks == 0


def test_stats_of_an_empty_index_have_no_drift(index: BM25Index) -> None:
    stats = index.stats()
    assert (stats.mean_length, stats.average_idf, stats.chunk_size_ratio) == (0.0, 0.0, 1.0)
    assert (stats.effective_k1, stats.effective_b) == (1.5, 0.75)


# Several writers on a server


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that the index sees, to be set by the test."""
    now = [1000.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


def test_reader_sees_others_after_the_refresh_interval(config: IndexConfig, clock: list[float]) -> None:
    store = MemoryStore(exclusive=False)
    writer = BM25Index.from_store(store, config=config)
    reader = BM25Index.from_store(store.reopen(), config=config, refresh_interval=5)
    writer.add(["apple"])
    assert reader.search("apple") == []
    clock[0] += 5
    assert len(reader.search("apple")) == 1


def test_refresh_sees_others_at_once(config: IndexConfig, clock: list[float]) -> None:
    store = MemoryStore(exclusive=False)
    writer = BM25Index.from_store(store, config=config)
    reader = BM25Index.from_store(store.reopen(), config=config, refresh_interval=5)
    writer.add(["apple"])
    reader.refresh()
    assert len(reader.search("apple")) == 1


def test_writer_sees_its_own_writes_at_once(config: IndexConfig, clock: list[float]) -> None:
    index = BM25Index.from_store(MemoryStore(exclusive=False), config=config, refresh_interval=1e9)
    index.add(["apple"])
    assert len(index.search("apple")) == 1


def test_embedded_index_never_looks_for_others(filled: BM25Index, store: MemoryStore, clock: list[float]) -> None:
    clock[0] += 1e9
    filled.search("apple")
    assert store.calls == ["search"]


# Threads


def test_write_waits_until_a_query_has_its_weights(store: MemoryStore) -> None:
    """Else N, df and avgIDF of one query could come from different moments."""
    waited: list[bool] = []

    def analyzer(text: str) -> list[str]:
        if text == "apple pie":
            thread = threading.Thread(target=index.add, args=(["apple"],))
            thread.start()
            thread.join(0.2)
            waited.append(thread.is_alive())
            threads.append(thread)
        return text.split()

    threads: list[threading.Thread] = []
    index = BM25Index.from_store(store, config=IndexConfig(chunk_size=4, analyzer=analyzer))
    index.add(["apple tart"])
    assert len(index.search("apple pie")) == 1
    threads[0].join()
    assert waited == [True]
    assert index.stats().num_chunks == 2


def test_threads_may_search_and_write_at_once(index: BM25Index) -> None:
    failures: list[BaseException] = []

    def work(name: str) -> None:
        try:
            for number in range(25):
                index.add([f"apple {name} w{number}"], ids=[f"{name}{number % 5}"])
                assert all(hit.score > 0 for hit in index.search(f"apple w{number}"))
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert index.stats().num_chunks == 20
    assert index.verify().ok


# Keys


def test_keys_are_digests_and_slots_and_never_the_ids(index: BM25Index, store: MemoryStore) -> None:
    odd = ["it's", 'a"b', "back\\slash", "line\nbreak", "中文"]
    index.add(["apple"] * len(odd), ids=odd, namespace="law")
    assert set(store.collections.chunks) == {pk_digest("law", id_) + "a" for id_ in odd}
    assert [chunk.id for chunk in index.get(odd, namespace="law")] == odd


def test_built_in_analyzer_is_the_default(store: MemoryStore) -> None:
    index = BM25Index.from_store(store, config=IndexConfig(chunk_size=500))
    index.add(["解除劳动合同", "Searching sparse vectors"], ids=["1", "2"])
    assert [hit.id for hit in index.search("勞動合同")] == ["1"]
    assert [hit.id for hit in index.search("VECTOR search")] == ["2"]


def test_callable_analyzer_is_used_for_both_sides(store: MemoryStore) -> None:
    config = IndexConfig(chunk_size=500, analyzer=lambda text: split(text.lower()))
    index = BM25Index.from_store(store, config=config)
    index.add(["Apple"], ids=["1"])
    assert [hit.id for hit in index.search("aPPLE")] == ["1"]
