from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from support.clocks import Clocks
from support.memory_store import MemoryStore
from support.reference import recount, split

from rag_bm25.documents.checks import check_chunks
from rag_bm25.documents.chunks import AddReport, NewChunk, pk_digest
from rag_bm25.documents.encoder import DocumentEncoder
from rag_bm25.errors import StoreError
from rag_bm25.index.writing import chunk_writer
from rag_bm25.index.writing.chunk_writer import LEASE_SECONDS, ChunkWriter, delete_leftovers
from rag_bm25.statistics.corpus import Contribution
from rag_bm25.statistics.log.generation import close_to_writers, open_to_writers
from rag_bm25.statistics.log.keys import LogKey
from rag_bm25.statistics.log.log import StatisticsLog
from rag_bm25.statistics.log.writes import Change, Intent, LeaseRow
from rag_bm25.store.rows import ChunkRow
from rag_bm25.weighting.document import DocumentWeighting

YEAR = 365 * 86400.0
WRITES = {"insert_chunks", "delete_chunks", "insert_log", "delete_log"}
METHODS = ["insert_log", "insert_chunks", "delete_chunks", "insert_log"]


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    store.create()
    return store


@pytest.fixture
def writer(store: MemoryStore) -> ChunkWriter:
    return writer_on(store)


def writer_on(store: MemoryStore) -> ChunkWriter:
    encoder = DocumentEncoder(split, DocumentWeighting(4), "terms")
    return ChunkWriter(store, StatisticsLog(store), encoder)


def chunks(**texts: str) -> list[NewChunk]:
    return check_chunks(list(texts.values()), list(texts), None)


def texts(store: MemoryStore) -> dict[str, str]:
    return {row.id: row.text for row in store.collections.chunks.values()}


def slots(store: MemoryStore) -> dict[str, str]:
    return {row.id: row.pk[-1] for row in store.collections.chunks.values()}


def is_sound(store: MemoryStore) -> bool:
    """Tell whether statistics as another process reads them equal a recount, and no intent is left."""
    log = StatisticsLog(store.reopen())
    log.refresh()
    for namespace, count in recount(store.collections.chunks.values()).items():
        found = log.statistics.of_one(namespace).contribution()
        assert (found.num_chunks, found.total_length) == (count.chunks, count.length)
        assert dict(zip(found.ids.tolist(), found.df.tolist(), strict=True)) == count.df
    assert log.statistics.whole.num_chunks == len(store.collections.chunks)
    return log.intents() == []


def failing_at(store: MemoryStore, number: int) -> Callable[[str], None]:
    """Fail the write of that number, from 0."""
    writes = iter(range(1000))

    def fail(method: str) -> None:
        if method in WRITES and next(writes) == number:
            raise StoreError("lost")

    return fail


def test_update_makes_the_four_writes_in_the_order_that_survives_a_crash(
    writer: ChunkWriter, store: MemoryStore
) -> None:
    writer.add("", chunks(a="apple"))
    store.calls.clear()
    assert writer.add("", chunks(a="banana")) == AddReport(updated=1)
    assert [call for call in store.calls if call in WRITES] == METHODS


def test_new_chunks_delete_nothing(writer: ChunkWriter, store: MemoryStore) -> None:
    assert writer.add("", chunks(a="apple", b="banana")) == AddReport(added=2)
    assert "delete_chunks" not in store.calls


def test_rows_carry_their_batch_and_what_was_given(writer: ChunkWriter, store: MemoryStore) -> None:
    writer.add("law", check_chunks(["apple pie"], ["a"], [{"page": 1}]))
    (row,) = store.collections.chunks.values()
    (key,) = (key for key in store.collections.log if key.startswith("delta"))
    assert (row.id, row.namespace, row.text, row.metadata) == ("a", "law", "apple pie", {"page": 1})
    assert (row.length, row.batch) == (2, LogKey.parse(key).name)


def test_slots_alternate(writer: ChunkWriter, store: MemoryStore) -> None:
    seen = []
    for text in ("one", "two", "three", "four"):
        writer.add("", chunks(a=text))
        seen.append(slots(store)["a"])
    assert seen == ["a", "b", "a", "b"]
    assert is_sound(store)


def test_unchanged_chunks_cost_no_write(writer: ChunkWriter, store: MemoryStore) -> None:
    writer.add("", chunks(a="apple", b="banana"))
    store.calls.clear()
    assert writer.add("", chunks(a="apple", b="banana")) == AddReport(unchanged=2)
    assert not WRITES & set(store.calls)


def test_only_changed_chunks_are_written(writer: ChunkWriter, store: MemoryStore) -> None:
    writer.add("", chunks(a="apple", b="banana"))
    before = {row.id: row.batch for row in store.collections.chunks.values()}
    assert writer.add("", chunks(a="apple", b="cherry", c="fig")) == AddReport(added=1, updated=1, unchanged=1)
    after = {row.id: row.batch for row in store.collections.chunks.values()}
    assert after["a"] == before["a"]
    assert after["b"] == after["c"] > before["b"]
    assert is_sound(store)


@pytest.mark.parametrize(("old", "new"), [({}, {"a": 1}), ({"a": 1}, {"a": 1.0}), ({"a": 1}, {"a": True})])
def test_other_metadata_is_a_change(
    writer: ChunkWriter, store: MemoryStore, old: dict[str, object], new: dict[str, object]
) -> None:
    writer.add("", check_chunks(["apple"], ["a"], [old]))
    assert writer.add("", check_chunks(["apple"], ["a"], [new])) == AddReport(updated=1)
    (row,) = store.collections.chunks.values()
    assert str(row.metadata) == str(new)


def test_order_of_metadata_keys_is_no_change(writer: ChunkWriter) -> None:
    writer.add("", check_chunks(["apple"], ["a"], [{"x": 1, "y": 2}]))
    assert writer.add("", check_chunks(["apple"], ["a"], [{"y": 2, "x": 1}])) == AddReport(unchanged=1)


def test_order_in_which_the_engine_returns_metadata_is_no_change(writer: ChunkWriter, store: MemoryStore) -> None:
    given = check_chunks(["apple"], ["a"], [{"x": 1, "y": {"p": 1, "q": 2}}])
    writer.add("", given)
    (row,) = store.collections.chunks.values()
    store.collections.chunks[row.pk] = replace(row, metadata={"y": {"q": 2, "p": 1}, "x": 1})
    assert writer.add("", given) == AddReport(unchanged=1)


def test_deleting_returns_how_many_there_were(writer: ChunkWriter, store: MemoryStore) -> None:
    writer.add("", chunks(a="apple", b="banana"))
    assert writer.delete("", ["a", "a", "unknown"]) == 1
    assert texts(store) == {"b": "banana"}
    assert is_sound(store)


def test_deleting_what_is_not_there_writes_nothing(writer: ChunkWriter, store: MemoryStore) -> None:
    writer.add("x", chunks(a="apple"))
    store.calls.clear()
    assert writer.delete("y", ["a"]) == 0
    assert not WRITES & set(store.calls)


def test_long_deletes_go_in_batches(writer: ChunkWriter, store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_writer, "MAX_BATCH_CHUNKS", 2)
    writer.add("", chunks(a="apple", b="banana", c="cherry", d="fig", e="grape"))
    store.calls.clear()
    assert writer.delete("", list("abcde")) == 5
    assert store.calls.count("delete_chunks") == 3
    assert is_sound(store)


@pytest.mark.parametrize("write", range(4))
@pytest.mark.parametrize("way", ["retry", "reopen"])
def test_update_that_fails_at_any_write_is_finished(store: MemoryStore, write: int, way: str) -> None:
    writer = writer_on(store)
    writer.add("", chunks(a="apple", b="banana"))
    store.on_call = failing_at(store, write)
    with pytest.raises(StoreError, match="lost"):
        writer.add("", chunks(a="cherry pie", c="fig"))
    store.on_call = None
    assert texts(store)["b"] == "banana"
    assert texts(store)["a"] in ("apple", "cherry pie")
    if way == "reopen":
        for _ in range(2):  # which may be done twice
            writer = writer_on(store)
            writer.recover()
        assert is_sound(store)
        assert texts(store)["a"] == ("apple" if write < 2 else "cherry pie")
        assert [row.text for row in store.collections.chunks.values() if row.id == "a"] == [texts(store)["a"]]
    writer.add("", chunks(a="cherry pie", c="fig"))
    assert texts(store) == {"a": "cherry pie", "b": "banana", "c": "fig"}
    assert is_sound(store)


@pytest.mark.parametrize("write", range(3))
def test_delete_that_fails_at_any_write_is_finished(store: MemoryStore, write: int) -> None:
    writer = writer_on(store)
    writer.add("", chunks(a="apple", b="banana"))
    store.on_call = failing_at(store, write)
    with pytest.raises(StoreError, match="lost"):
        writer.delete("", ["a"])
    store.on_call = None
    writer_on(store).recover()
    assert is_sound(store)
    assert texts(store) == ({"a": "apple", "b": "banana"} if write == 0 else {"b": "banana"})


@pytest.mark.parametrize("write", range(2))
def test_recovery_that_fails_itself_is_done_again(store: MemoryStore, write: int) -> None:
    writer = writer_on(store)
    writer.add("", chunks(a="apple"))
    store.on_call = failing_at(store, 2)
    with pytest.raises(StoreError):
        writer.add("", chunks(a="banana"))
    store.on_call = failing_at(store, write)
    with pytest.raises(StoreError):
        writer_on(store).recover()
    store.on_call = None
    writer_on(store).recover()
    assert texts(store) == {"a": "banana"}
    assert is_sound(store)


def test_failed_write_is_finished_before_the_next_one(writer: ChunkWriter, store: MemoryStore) -> None:
    writer.add("", chunks(a="apple"))
    store.on_call = failing_at(store, 3)
    with pytest.raises(StoreError):
        writer.add("", chunks(a="banana"))
    store.on_call = None
    writer.add("", chunks(b="cherry"))
    assert texts(store) == {"a": "banana", "b": "cherry"}
    assert is_sound(store)


@pytest.fixture
def doubled(writer: ChunkWriter, store: MemoryStore) -> MemoryStore:
    """Two rows of chunk a, both counted, as two writers on a server may leave them."""
    writer.add("", chunks(a="apple"))
    writer.add("", chunks(z="banana pie"))
    newer = next(row for row in store.collections.chunks.values() if row.id == "z")
    del store.collections.chunks[newer.pk]
    pk = pk_digest("", "a") + "b"
    store.collections.chunks[pk] = replace(newer, pk=pk, id="a")
    assert is_sound(store)
    return store


def test_older_of_two_rows_goes_with_the_next_add(doubled: MemoryStore) -> None:
    assert writer_on(doubled).add("", chunks(a="banana pie")) == AddReport(unchanged=1)
    assert [row.text for row in doubled.collections.chunks.values()] == ["banana pie"]
    assert is_sound(doubled)


def test_two_rows_of_one_chunk_are_updated_to_one(doubled: MemoryStore) -> None:
    assert writer_on(doubled).add("", chunks(a="cherry")) == AddReport(updated=1)
    assert [row.text for row in doubled.collections.chunks.values()] == ["cherry"]
    assert is_sound(doubled)


def test_two_rows_of_one_chunk_are_deleted_as_one(doubled: MemoryStore) -> None:
    assert writer_on(doubled).delete("", ["a"]) == 1
    assert doubled.collections.chunks == {}
    assert is_sound(doubled)


@pytest.mark.parametrize(
    ("change", "batch", "left"),
    [
        (Change("", "b", "a"), "2", {"b"}),  # its row landed
        (Change("", "b", "a"), "1", {"a", "b"}),  # the row in its slot is another writer's
        (Change("", "", "ab"), "3", set()),  # it was to delete both
        (Change("", "", "ab"), "2", {"b"}),  # the row of slot b came later
    ],
)
def test_leftovers_of_a_dead_writer(doubled: MemoryStore, change: Change, batch: str, left: set[str]) -> None:
    digest = pk_digest("", "a")
    rows = doubled.collections.chunks
    for slot, written in (("a", "0"), ("b", "2")):
        rows[digest + slot] = replace(rows[digest + slot], batch=written)
    delete_leftovers(doubled, Intent(batch, "dead", 0.0, "", [replace(change, digest=digest)], Contribution()))
    assert {pk[-1] for pk in rows} == left


# Writers on a server


def shared_store() -> MemoryStore:
    store = MemoryStore(exclusive=False)
    store.create()
    return store


def dying(store: MemoryStore) -> ChunkWriter:
    """Return a writer whose rows landed, and nothing after them."""
    writer = writer_on(store)
    store.on_call = failing_at(store, 2)
    with pytest.raises(StoreError):
        writer.add("", chunks(a="apple"))
    store.on_call = None
    return writer


def test_intent_of_a_living_writer_is_left_alone() -> None:
    store = shared_store()
    dying(store)
    writer_on(store).recover()
    assert [LogKey.parse(key).kind for key in store.collections.log].count("intent") == 1


def test_intent_is_finished_by_others_after_its_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    store = shared_store()
    dying(store)
    monkeypatch.setattr(chunk_writer, "LEASE_SECONDS", -1.0)
    writer_on(store).recover()
    assert is_sound(store)


@pytest.mark.parametrize("ahead", [0.0, -YEAR, YEAR])
def test_an_open_writer_finishes_what_it_has_seen_unfinished_for_the_time_of_a_lease(
    ahead: float, clocks: Clocks
) -> None:
    store = shared_store()
    living = writer_on(store)
    living.add("", chunks(x="fig"))
    clocks.now += ahead
    dying(store)
    clocks.now -= ahead
    assert unfinished_after(living) == 1
    clocks.wait(LEASE_SECONDS - 1)
    assert unfinished_after(living) == 1
    clocks.wait(2)
    assert unfinished_after(living) == 0
    assert is_sound(store)


@pytest.mark.parametrize("ahead", [0.0, YEAR])
def test_commands_that_run_every_five_minutes_finish_what_a_dead_writer_left(ahead: float, clocks: Clocks) -> None:
    """As from a crontab: none of them lives for long, and the dead one's clock may have been wrong."""
    store = shared_store()
    clocks.now += ahead
    dying(store)
    clocks.now -= ahead
    unfinished = []
    for _ in range(5):
        writer = writer_on(store.reopen())
        writer.recover()
        unfinished.append(unfinished_after(writer))
        clocks.wait(300)
    assert unfinished == [1, 1, 0, 0, 0]
    assert is_sound(store)


def test_a_writer_that_renews_its_lease_is_left_alone_however_long_it_takes(clocks: Clocks) -> None:
    store = shared_store()
    living = writer_on(store)
    living.add("", chunks(x="fig"))
    slow = dying(store)._log
    unfinished_after(living)
    (intent,) = slow.intents()
    for number in range(5):
        clocks.wait(LEASE_SECONDS / 3)
        store.insert_log(LeaseRow(intent.batch, time.time()).encode(number))
        assert unfinished_after(living) == 1


def unfinished_after(writer: ChunkWriter) -> int:
    """Count the unfinished batches that a writer leaves after a batch of its own."""
    writer.add("", chunks(x=f"fig {time.time()}"))
    writer._log.refresh()
    return len(writer._log.open_batches.batches)


def test_a_batch_that_others_have_ended_is_counted_also_where_a_reindex_was_about_to_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Which is called off, so that this generation stays in force."""
    store = shared_store()
    writer, insert = writer_on(store), store.insert_chunks

    def insert_late(rows: Sequence[ChunkRow]) -> None:
        writer_on(store.reopen()).recover()
        close_to_writers(store, "0")
        insert(rows)

    monkeypatch.setattr(chunk_writer, "LEASE_SECONDS", -1.0)
    monkeypatch.setattr(chunk_writer.time, "sleep", lambda _: open_to_writers(store))
    monkeypatch.setattr(store, "insert_chunks", insert_late)
    writer.add("", chunks(a="apple"))
    assert is_sound(store)


def test_writer_finishes_its_own_intent_at_once() -> None:
    store = shared_store()
    writer = dying(store)
    writer.recover()
    assert is_sound(store)


def test_writers_see_what_others_stored() -> None:
    store = shared_store()
    one, other = writer_on(store), writer_on(store.reopen())
    one.add("", chunks(a="apple", b="banana"))
    assert other.add("", chunks(a="apple")) == AddReport(unchanged=1)
    other.add("", chunks(b="cherry", c="fig"))
    assert one.delete("", ["c"]) == 1
    assert is_sound(store)
