"""Copying and dropping: the copy is the index, half a copy is nothing, and any fault is mended by the same call."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.faulty_store import FaultyStore, Moment
from support.memory_store import MemoryStore, drop_log

from rag_bm25 import (
    BM25Index,
    ConfigMismatchError,
    FormatError,
    IndexConfig,
    IndexNotFoundError,
    InputError,
    Progress,
    StoreError,
)
from rag_bm25.index.maintenance import copying
from rag_bm25.index.maintenance.copying import CopyPlan, CopyReport, copy_index, drop_index, plan_copy
from rag_bm25.store.rows import DenseField
from rag_bm25.vectors.sparse import SparseVector

QUERIES = ["apple fig", "banana", "pear", "grape apple"]


@pytest.fixture
def filled(index: BM25Index) -> BM25Index:
    """Two namespaces, several batches, an update, a delete, a chunk without terms."""
    index.add(["apple pie", "banana split", "cherry", ""], ids=["1", "2", "3", "4"], metadatas=[{"p": 1}, None, {}, {}])
    index.add(["apple fig", "grape"], ids=["1", "'\"\\"], namespace="x")
    index.add(["banana bread fig"], ids=["2"])
    index.delete(["3"])
    return index


def answers(store: MemoryStore, config: IndexConfig) -> Any:
    """Everything that can be seen of an index."""
    with BM25Index.from_store(store.reopen(), config=config) as index:
        found = [index.search(query, namespace=names) for query in QUERIES for names in (None, "", "x")]
        assert index.verify().differences == []
        return found, index.stats(), sorted(index.chunks(namespace="x"), key=lambda chunk: chunk.id)


def copied(source: MemoryStore, target: MemoryStore) -> None:
    assert target.collections.chunks == source.collections.chunks


def test_copy_is_the_index(filled: BM25Index, store: MemoryStore, config: IndexConfig) -> None:
    target = MemoryStore()
    before = dict(store.collections.log)
    assert copy_index(store, target) == CopyReport(5, 6, 5, 0)
    copied(store, target)
    assert answers(target, config) == answers(store, config)
    assert store.collections.log == before


def test_dense_vectors_are_carried_over(config: IndexConfig) -> None:
    source, target = MemoryStore(), MemoryStore()
    config = replace(config, dense_dim=3, dense_metric="IP")
    with BM25Index.from_store(source.reopen(), config=config) as index:
        index.add(["apple", "fig"], ids=["1", "2"], embeddings=np.array([[1, 2, 3], [4, 5, 6]], np.float32))
    copy_index(source, target)
    assert target.collections.dense == DenseField(3, "IP")
    with BM25Index.from_store(target, config=config) as index:
        assert {id_: row.tolist() for id_, row in index.get_embeddings(["1", "2"]).items()} == {
            "1": [1, 2, 3],
            "2": [4, 5, 6],
        }


def test_dense_vector_that_differs_is_found(config: IndexConfig) -> None:
    class Lossy(MemoryStore):
        def get_chunks(self, *args: Any, **options: bool) -> Any:
            found = super().get_chunks(*args, **options)
            return [row if row.dense is None else replace(row, dense=row.dense + np.float32(1)) for row in found]

    source, target = MemoryStore(), Lossy()
    with BM25Index.from_store(source.reopen(), config=replace(config, dense_dim=2)) as index:
        index.add(["apple"], embeddings=np.ones((1, 2), np.float32))
    with pytest.raises(StoreError, match=r"differs from memory, and was deleted\. Run the copy again to c"):
        copy_index(source, target)
    assert target.collections.chunks == {}


def test_displaced_terms_keep_their_ids(tiny_id_space: int, config: IndexConfig) -> None:
    source, target = MemoryStore(), MemoryStore()
    with BM25Index.from_store(source.reopen(), config=config) as index:
        index.add([f"t{number}" for number in range(8)])
    copy_index(source, target)
    with BM25Index.from_store(source, config=config) as one, BM25Index.from_store(target, config=config) as other:
        for number in range(8):
            assert one.search(f"t{number}") == other.search(f"t{number}") != []
        other.add(["t8 t9"])
        assert other.verify().ok


def test_copy_can_be_written_even_by_a_clock_that_is_behind(
    filled: BM25Index, store: MemoryStore, config: IndexConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = MemoryStore()
    monkeypatch.setattr("rag_bm25.statistics.log.batches.time.time_ns", lambda: 1_000)
    copy_index(store, target)
    with BM25Index.from_store(target.reopen(), config=config) as index:
        index.add(["fig"], ids=["1"])
    newest = max(row.batch for row in store.collections.chunks.values())
    (row,) = (row for row in target.collections.chunks.values() if (row.id, row.namespace) == ("1", ""))
    assert row.batch > newest
    assert answers(target, config)[1].num_chunks == 5


def test_progress_tells_both_passes(filled: BM25Index, store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "PAGE", 2)
    told: list[Progress] = []
    copy_index(store, MemoryStore(), progress=told.append)
    assert told == [Progress(f"rows {what}", done, 5) for what in ("copied", "checked") for done in (2, 4, 5)]


# Faults


def assert_half_a_copy_is_nothing(target: MemoryStore, config: IndexConfig) -> None:
    """Nobody can open it; a place where not even the mark landed is as good as empty."""
    if not target.collections.log and not target.collections.chunks:
        return
    for options in ({}, {"config": config}, {"config": config, "repair": True}, {"read_only": True}):
        with pytest.raises(FormatError, match=r"unfinished copy of memory\. Run the same copy again, or drop it\."):
            BM25Index.from_store(target.reopen(), **options)


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("moment", ["before", "halfway", "after"])
def test_fault_at_any_call(
    filled: BM25Index,
    store: MemoryStore,
    config: IndexConfig,
    side: str,
    moment: Moment,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(copying, "PAGE", 2)
    expected = answers(store, config)
    failures = 0
    for call in range(100):
        source, target = FaultyStore(collections=store.collections), FaultyStore()
        (source if side == "source" else target).fail_at(call, moment)
        try:
            copy_index(source, target)
        except StoreError:
            failures += 1
            if any(row.kind == "copy" for row in target.collections.log.values()):
                assert_half_a_copy_is_nothing(target, config)
            copy_or_keep(store, target.reopen())
        else:
            break
        assert answers(target, config) == expected
        copied(store, target)
    assert 5 < failures < 99


@pytest.mark.parametrize("side", ["source", "target"])
def test_kill_before_any_call(filled: BM25Index, store: MemoryStore, config: IndexConfig, side: str) -> None:
    expected, failures = answers(store, config), 0
    for left in range(100):
        source, target = store.reopen(), MemoryStore()
        dying = source if side == "source" else target

        def die(_: str, dying: MemoryStore = dying, left: int = left) -> None:
            if len(dying.calls) > left:
                raise KeyboardInterrupt

        dying.on_call = die
        try:
            copy_index(source, target)
        except KeyboardInterrupt:
            failures += 1
            assert_half_a_copy_is_nothing(target, config)
            copy_index(store.reopen(), target.reopen())
        else:
            break
        assert answers(target, config) == expected
    assert 5 < failures < 99


def copy_or_keep(source: MemoryStore, target: MemoryStore) -> None:
    """Run the copy again, unless its very last call was done although it failed."""
    if any(row.kind == "config" for row in target.collections.log.values()) and not any(
        row.kind == "copy" for row in target.collections.log.values()
    ):
        with pytest.raises(InputError, match="memory already exists"):
            copy_index(source, target)
        return
    copy_index(source, target)


def test_running_again_writes_only_what_is_missing(
    filled: BM25Index, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "PAGE", 2)
    target = FaultyStore()
    target.on_call = lambda method: stop() if target.calls.count("insert_chunks") == 2 else None
    with pytest.raises(StoreError, match="stop"):
        copy_index(store, target)
    assert plan_copy(store, target.reopen()) == CopyPlan("memory", 5, 6, resumes=True)
    assert copy_index(store, target.reopen()) == CopyReport(5, 6, 3, 0)


def stop() -> None:
    raise StoreError("stop")


def test_source_that_changed_between_two_attempts(filled: BM25Index, store: MemoryStore, config: IndexConfig) -> None:
    target = MemoryStore()
    begin(store, target)
    filled.delete(["4"])
    filled.add(["cherry"], ids=["2"])  # into the other slot
    filled.add(["cherry pie"], ids=["2"])  # and back into the first
    assert copy_index(store, target.reopen()) == CopyReport(4, 5, 1, 1)
    assert answers(target, config) == answers(store, config)


def begin(source: MemoryStore, target: MemoryStore) -> None:
    """Copy all rows, and stop before the statistics."""
    reading = source.reopen()
    vocabulary = "log_keys"

    def on_call(method: str) -> None:
        if target.collections.chunks and method == vocabulary:
            raise StoreError("stop")

    reading.on_call = on_call
    with pytest.raises(StoreError, match="stop"):
        copy_index(reading, target)


def test_source_that_changes_meanwhile_is_noticed(filled: BM25Index, store: MemoryStore, config: IndexConfig) -> None:
    target = MemoryStore()
    target.on_call = lambda method: late() if method == "scan_chunks" else None

    def late() -> None:
        filled.add(["fig"], ids=["late"])

    with pytest.raises(StoreError, match=r"statistics in the default namespace\. If the index changed during the copy"):
        copy_index(store, target)
    assert_half_a_copy_is_nothing(target, config)
    assert copy_index(store, target.reopen()).copied == 1
    assert answers(target, config) == answers(store, config)


def test_row_that_arrives_changed_is_deleted_and_copied_again(
    filled: BM25Index, store: MemoryStore, config: IndexConfig
) -> None:
    target = MemoryStore()
    target.on_call = lambda method: spoil(target) if method == "scan_chunks" else None
    with pytest.raises(StoreError, match=r"chunk '.*' in memory differs from memory, and was deleted"):
        copy_index(store, target)
    target.on_call = None
    assert copy_index(store, target).copied == 1
    assert answers(target, config) == answers(store, config)


def spoil(store: MemoryStore) -> None:
    pk, row = next(iter(store.collections.chunks.items()))
    weights = {id_: value / 2 for id_, value in row.vector.to_dict().items()}
    store.collections.chunks[pk] = replace(row, vector=SparseVector.from_dict(weights))


# Refusals


def test_source_without_an_index() -> None:
    empty = MemoryStore()
    empty.create()
    for source in (MemoryStore(), empty):
        target = MemoryStore()
        with pytest.raises(IndexNotFoundError, match="index not found in memory"):
            copy_index(source, target)
        assert not target.collections.exist


def test_unfinished_source_is_no_source(filled: BM25Index, store: MemoryStore) -> None:
    half = MemoryStore()
    begin(store, half)
    with pytest.raises(FormatError, match="unfinished copy"):
        copy_index(half, MemoryStore())


def test_source_with_an_unfinished_write(store: MemoryStore, config: IndexConfig) -> None:
    faulty = FaultyStore(collections=store.collections)
    index = BM25Index.from_store(faulty, config=config)
    index.add(["apple"], ids=["1"])
    faulty.on_call = lambda method: stop() if method == "delete_chunks" else None
    with pytest.raises(StoreError, match="stop"):
        index.add(["fig"], ids=["1"])
    target = MemoryStore()
    with pytest.raises(StoreError, match=r"memory has unfinished writes \(1\)"):
        copy_index(store, target)
    assert not target.collections.exist
    BM25Index.from_store(store.reopen(), config=config).close()
    assert copy_index(store, target).num_chunks == 1


def test_target_with_something_else(filled: BM25Index, store: MemoryStore, config: IndexConfig) -> None:
    for plan_or_copy in (plan_copy, copy_index):
        with pytest.raises(InputError, match=r"memory already exists\. Drop it first or choose another name"):
            plan_or_copy(store, store.reopen())
    other = MemoryStore()
    begin(store, other)
    source = MemoryStore()
    BM25Index.from_store(source.reopen(), config=replace(config, k1=2.0)).close()
    with pytest.raises(ConfigMismatchError, match="is an unfinished copy of memory, which differs from memory in its "):
        copy_index(source, other)


def test_rows_without_a_log_are_not_taken_for_an_empty_place(filled: BM25Index, store: MemoryStore) -> None:
    target = MemoryStore()
    target.create()
    target.insert_chunks(list(store.collections.chunks.values()))
    with pytest.raises(InputError, match="already exists"):
        copy_index(store, target)


def test_plan_writes_nothing(filled: BM25Index, store: MemoryStore) -> None:
    target = MemoryStore()
    assert plan_copy(store, target) == plan_copy(store, None) == CopyPlan("memory", 5, 6, resumes=False)
    assert target.collections == MemoryStore().collections


def test_drop_deletes_an_index_and_a_begun_copy(filled: BM25Index, store: MemoryStore) -> None:
    target = MemoryStore()
    begin(store, target)
    for one in (target, store):
        assert drop_index(one, dry_run=True) == 5
        assert one.collections.exist
        assert drop_index(one) == 5
        assert not one.collections.exist
    with pytest.raises(IndexNotFoundError, match="index not found in memory"):
        drop_index(store)
    assert store.calls.count("drop") == 1


def test_index_without_statistics_is_not_copied(filled: BM25Index, store: MemoryStore) -> None:
    drop_log(store)
    with pytest.raises(FormatError, match="memory is damaged: its statistics are lost"):
        plan_copy(store, None)


def test_what_a_drop_left_halfway_is_not_taken_for_an_empty_place(
    filled: BM25Index, store: MemoryStore, config: IndexConfig
) -> None:
    store.collections.chunks.clear()
    store.collections.exist = False  # as a store sees it when one of two collections is missing
    with pytest.raises(FormatError, match="memory has rows of an index that was dropped halfway"):
        BM25Index.from_store(store.reopen(), config=config)
    drop_index(store)
    with BM25Index.from_store(store.reopen(), config=config) as index:
        assert index.stats().num_chunks == 0


def test_damaged_index_is_not_copied(filled: BM25Index, store: MemoryStore) -> None:
    """The terms that it has lost would be nobody's in the copy, and their ids would be given to others."""
    store.delete_log([min(key for key in store.collections.log if key.startswith("terms"))])
    target = MemoryStore()
    with pytest.raises(FormatError, match=r"terms missing from the vocabulary: .*repair"):
        plan_copy(store, None)
    with pytest.raises(FormatError, match=r"terms missing from the vocabulary: .*repair"):
        copy_index(store, target)
    assert not target.exists()
    filled.repair()
    assert copy_index(store, target).num_chunks == 5
