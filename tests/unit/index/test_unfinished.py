"""What an index that was opened for reading makes of batches that nobody has finished."""

from __future__ import annotations

import pytest
from support.faulty_store import FaultyStore
from support.reference import Count, recount

from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.errors import StoreError
from rag_bm25.index.maintenance.copying import copy_index

WRITES = 4  # of a batch that updates


def figures(index: BM25Index) -> object:
    stats = index.stats(namespace=None)
    hits = index.search("apple cherry fig pie", k=10)
    return stats.num_chunks, stats.total_length, [(hit.id, hit.text, hit.score) for hit in hits]


@pytest.fixture(params=range(WRITES))
def writer(request: pytest.FixtureRequest, config: IndexConfig) -> tuple[FaultyStore, BM25Index]:
    """An index whose last batch, an update and a new chunk, was cut short before one of its writes."""
    store = FaultyStore()
    index = BM25Index.from_store(store, config=config)
    index.add(["apple", "cherry"], ids=["a", "c"])
    index.add(["pie"], ids=["p"])
    store.fail_at(1 + request.param)  # after reading
    with pytest.raises(StoreError, match="lost"):
        index.add(["apple pie", "fig"], ids=["a", "f"])
    return store, index


def test_it_counts_the_chunks_that_it_finds(writer: tuple[FaultyStore, BM25Index], config: IndexConfig) -> None:
    store, _ = writer
    log = dict(store.collections.log)
    reader = BM25Index.from_store(store.reopen(), config=config, read_only=True)
    newest = {row.id: row for row in sorted(store.collections.chunks.values(), key=lambda row: row.batch)}
    counted = reader._live.view.statistics.of().contribution()
    df = dict(zip(counted.ids.tolist(), counted.df.tolist(), strict=True))
    assert recount(newest.values()) == {"": Count(counted.num_chunks, counted.total_length, df)}
    assert reader.problems == []
    assert store.collections.log == log
    next_writer = BM25Index.from_store(store.reopen(), config=config)
    assert figures(next_writer) == figures(reader)
    assert next_writer.verify().ok


def test_it_verifies_what_it_finds(writer: tuple[FaultyStore, BM25Index], config: IndexConfig) -> None:
    store, _ = writer
    has_two_rows = len(store.collections.chunks) > len({row.id for row in store.collections.chunks.values()})
    reader = BM25Index.from_store(store.reopen(), config=config, read_only=True)
    for _ in range(2):
        assert any(found.what == "chunks with two rows" for found in reader.verify().differences) == has_two_rows
        assert reader.verify().ok == (not has_two_rows)


def test_it_takes_what_the_writer_makes_of_them(
    writer: tuple[FaultyStore, BM25Index], config: IndexConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both in one process: the writer goes on."""
    monkeypatch.setattr("rag_bm25.statistics.log.log.COMPACT_ABOVE", 2)
    store, index = writer
    reader = BM25Index.from_store(store.reopen(), config=config, read_only=True)
    index.delete(["p"])
    assert figures(reader) == figures(index)
    for number in range(5):
        index.add([f"apple {number}", f"fig {number}"], ids=["a", "f"])
        assert figures(reader) == figures(index)
    assert reader.problems == []
    assert reader.verify().ok


def test_a_copy_takes_them_unless_rows_are_to_be_deleted(
    writer: tuple[FaultyStore, BM25Index], config: IndexConfig
) -> None:
    store, _ = writer
    has_two_rows = len(store.collections.chunks) > len({row.id for row in store.collections.chunks.values()})
    target = FaultyStore()
    if has_two_rows:
        with pytest.raises(StoreError, match=r"unfinished writes \(1\)"):
            copy_index(store, target)
        return
    assert copy_index(store, target).num_chunks == len(store.collections.chunks)
    assert figures(BM25Index.from_store(target, config=config)) == figures(
        BM25Index.from_store(store.reopen(), config=config)
    )


@pytest.mark.parametrize("opens", [True, False])
def test_a_deletion_that_was_cut_short_is_counted_as_it_is(opens: bool, config: IndexConfig) -> None:
    """The chunk is found until a writer deletes it."""
    store = FaultyStore()
    index = BM25Index.from_store(store, config=config)
    index.add(["apple", "cherry"], ids=["a", "c"])
    reader = BM25Index.from_store(store.reopen(), config=config, read_only=True)
    store.fail_at(2)
    with pytest.raises(StoreError, match="lost"):
        index.delete(["a"])
    if opens:
        reader = BM25Index.from_store(store.reopen(), config=config, read_only=True)
    assert figures(reader)[0] == 2  # type: ignore[index]
    assert index.delete(["a"]) == 0  # the batch before was finished
    assert figures(reader) == figures(index)
    assert figures(reader)[0] == 1  # type: ignore[index]


def test_on_a_server_it_leaves_them_alone(config: IndexConfig) -> None:
    """Their writer may be alive."""
    store = FaultyStore(exclusive=False)
    index = BM25Index.from_store(store, config=config)
    index.add(["apple"], ids=["a"])
    store.fail_at(4)
    with pytest.raises(StoreError, match="lost"):
        index.add(["fig"], ids=["f"])
    assert len(store.collections.chunks) == 2
    reader = BM25Index.from_store(store.reopen(), config=config, read_only=True)
    assert reader._live.log.has_intents
    assert reader.stats().num_chunks == 1
    with pytest.raises(StoreError, match=r"unfinished writes \(1\)"):
        copy_index(store, FaultyStore())


def test_reading_is_tried_again_where_it_fails(config: IndexConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    store = FaultyStore()
    index = BM25Index.from_store(store, config=config)
    index.add(["apple"], ids=["a"])
    store.fail_at(3)
    with pytest.raises(StoreError, match="lost"):
        index.add(["fig"], ids=["f"])
    told: list[str] = []
    failing = store.reopen()
    failing.on_call = lambda method: fail() if method == "get_chunks" else None
    reader = BM25Index.from_store(
        failing, config=config, read_only=True, on_event=lambda event: told.append(event.name)
    )
    assert "recovery" in told
    assert reader.stats().num_chunks == 1
    monkeypatch.setattr(reader._live, "_next_recovery", 0.0)
    failing.on_call = None
    assert [hit.id for hit in reader.search("fig")] == ["f"]
    assert reader.stats().num_chunks == 2


def fail() -> None:
    raise StoreError("a broken disk")
