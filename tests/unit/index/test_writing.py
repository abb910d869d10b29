"""Adding and deleting."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from support.memory_store import MemoryStore
from support.reference import split
from support.writes import writes

from rag_bm25 import BM25Index, Chunk, FieldWeight, IndexConfig, Progress
from rag_bm25.documents.chunks import AddReport
from rag_bm25.errors import (
    InputError,
    ParameterError,
    StoreError,
)
from rag_bm25.store.rows import ChunkRow

# Writing


@pytest.mark.parametrize("metadata", [None, {}, {"title": None}, {"Title": "fig"}, {"title": "fig"}])
def test_vectors_are_made_of_the_metadata_that_can_be_added(store: MemoryStore, metadata: Any) -> None:
    config = IndexConfig(chunk_size=4, analyzer=split, fields={"title": FieldWeight(chunk_size=2)})
    index = BM25Index.from_store(store, config=config)
    index.add(["apple"], metadatas=[metadata])
    (row,) = store.collections.chunks.values()
    assert index.encode_documents(["apple"], [metadata]) == [row.vector]
    index.add(["pear"])
    assert index.encode_documents(["pear"]) == index.encode_documents(["pear"], [None])


def test_nothing_can_be_added(index: BM25Index, store: MemoryStore) -> None:
    store.calls.clear()
    assert index.add([]) == []
    assert writes(store) == []


@pytest.mark.parametrize("assume_new", [False, True])
def test_many_chunks_go_in_batches(index: BM25Index, store: MemoryStore, assume_new: bool) -> None:
    store.calls.clear()
    assert len(index.add([f"w{number}" for number in range(2_001)], assume_new=assume_new)) == 2_001
    assert store.calls.count("insert_chunks") == 3
    assert ("get_chunks" in store.calls) == (not assume_new)
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


def test_a_text_that_moves_to_another_id_keeps_its_vector(store: MemoryStore) -> None:
    config = IndexConfig(chunk_size=4, length_unit="terms", analyzer=split, dense_dim=2, dense_metric="IP")
    index = BM25Index.from_store(store, config=config)
    asked: list[str] = []

    def embed(texts: list[str]) -> list[list[float]]:
        asked.extend(texts)
        return [[1.0, float(len(asked) + number)] for number in range(len(texts))]

    index.add(["one", "two", "two"], ids=["d#0", "d#1", "d#2"], embeddings=[[1.0, 0.1], [1.0, 0.2], [1.0, 0.3]])
    index.add(["new", "one", "two", "new"], ids=["d#0", "d#1", "d#2", "d#3"], embeddings=embed)
    assert asked == ["new"]
    vectors = {id_: vector[1] for id_, vector in index.get_embeddings(["d#0", "d#1", "d#2", "d#3"]).items()}
    assert vectors == pytest.approx({"d#0": 1.0, "d#1": 0.1, "d#2": 0.3, "d#3": 1.0})


class TestStream:
    """Chunks one by one, any number of them."""

    @pytest.fixture(autouse=True)
    def small_batches(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("rag_bm25.documents.chunks.MAX_BATCH_CHUNKS", 2)

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
        told: list[Progress] = []
        given = [Chunk("1", "a"), Chunk("2", "new b"), Chunk("3", "c", {"page": 1}), Chunk("4", "d"), Chunk("5", "e")]
        report = index.add_stream(given, progress=told.append)
        assert report == AddReport(added=2, updated=2, unchanged=1)
        assert told == [Progress("chunks", done, None) for done in (2, 4, 5)]
        assert report.total == told[-1].done

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
        """Else writers would wait for a slow source, and for ever where it waits for a thread that writes."""
        free: list[bool] = []

        def try_lock() -> None:
            free.append(index._live._log_lock.acquire(blocking=False))
            if free[-1]:
                index._live._log_lock.release()

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
            raise OSError("no more")

        with pytest.raises(OSError, match="no more"):
            index.add_stream(chunks())
        assert sorted(chunk.id for chunk in index.chunks()) == ["0", "1", "2", "3"]
        assert index.verify().ok

    @pytest.mark.parametrize(
        ("bad", "says"),
        [
            (Chunk("", "x"), r"chunk 5 of the stream: id must not be empty"),
            (Chunk("5", "a\0b"), r"chunk 5 of the stream: text \(id '5'\) has a NUL at character 1"),
            (Chunk("5", "x", {"page": float("nan")}), r"chunk 5 of the stream: metadata\['page'\] is nan"),
            ({"id": "5", "text": "x"}, "chunk 5 of the stream: it must have id, text .* and metadata .*, got dict"),
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
            raise StoreError("lost")

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


def test_deleting_reads_no_texts(filled: BM25Index, store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[ChunkRow] = []
    get_chunks = store.get_chunks

    def recorded(pks: Sequence[str], **what: bool) -> list[ChunkRow]:
        read.extend(rows := get_chunks(pks, **what))
        return rows

    monkeypatch.setattr(store, "get_chunks", recorded)
    assert filled.delete(["1", "2"]) == 2
    assert [(row.text, row.metadata) for row in read] == [("", {})] * 2
    assert filled.verify().ok


def test_deleting_by_filter(filled: BM25Index) -> None:
    assert filled.delete(filter={"page": 2}) == 1
    assert [chunk.id for chunk in filled.get(["1", "2", "3"])] == ["1", "3"]


def test_dropping_a_namespace_leaves_the_others(filled: BM25Index) -> None:
    filled.add(["apple"], ids=["1"], namespace="law")
    assert filled.drop_namespace("") == 3
    assert filled.stats().num_chunks == 1
    assert filled.verify().ok
