"""What reading the log shows to be lost is told when an index is opened, and mended by a repair."""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from support.clocks import PATIENCE
from support.faulty_store import FaultyStore
from support.memory_store import MemoryStore

from rag_bm25 import BM25Index, FormatError
from rag_bm25.errors import StoreError
from rag_bm25.statistics.log.terms import TermsRow
from rag_bm25.vectors.terms import term_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from rag_bm25 import IndexConfig
    from rag_bm25.events import Event

    Reopened = Callable[..., BM25Index]

MENDING = "Run `rag-bm25 repair`, or open it with repair=True"


@pytest.fixture
def filled(index: BM25Index, monkeypatch: pytest.MonkeyPatch) -> BM25Index:
    """Batches of a few chunks in two namespaces; entries of several rows."""
    monkeypatch.setattr("rag_bm25.statistics.log.terms.TERMS_PER_ROW", 2)
    index.add(["apple pie crust sugar", "banana split"], ids=["1", "2"])
    index.add(["cherry fig grape kiwi lemon"], ids=["3"], namespace="x")
    index.add(["apple fig"], ids=["1"])
    return index


def delete_log(store: MemoryStore, chosen: Callable[[str], bool]) -> None:
    keys = [key for key in store.collections.log if chosen(key)]
    assert keys
    store.delete_log(keys)


def delete_a_row_of_the_first_terms(store: MemoryStore) -> None:
    first = min(key for key in store.collections.log if key.startswith("terms"))
    delete_log(store, first.__eq__)


def assert_mended(filled: BM25Index, reopened: Reopened) -> None:
    reopened(repair=True).close()
    index = reopened()
    assert index.problems == []
    assert index.verify().differences == []
    assert index.search("apple fig", namespace=None) == filled.search("apple fig", namespace=None)
    index.add(["mango"], ids=["new"])
    assert reopened().verify().ok


def test_sound_index_has_no_damage(filled: BM25Index, reopened: Reopened, caplog: pytest.LogCaptureFixture) -> None:
    assert (filled.problems, reopened().problems, reopened(read_only=True).problems) == ([], [], [])
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("read_only", [False, True])
def test_lost_terms_are_told_when_the_index_is_opened(
    filled: BM25Index, store: MemoryStore, reopened: Reopened, read_only: bool, caplog: pytest.LogCaptureFixture
) -> None:
    delete_a_row_of_the_first_terms(store)
    told: list[Event] = []
    index = reopened(read_only=read_only, on_event=told.append)
    assert index.problems == ["terms missing from the vocabulary: 6"]  # a part of an entry does not count
    assert f"memory is damaged: {index.problems[0]}. {MENDING}" in caplog.messages
    assert [(event.name, event.counts) for event in told if event.name == "damage"] == [("damage", {"findings": 1})]
    assert [hit.id for hit in index.search("banana")] == ["2"]


def test_terms_are_not_given_ids_while_some_are_lost(filled: BM25Index, store: MemoryStore, reopened: Reopened) -> None:
    delete_a_row_of_the_first_terms(store)
    index, rows = reopened(), dict(store.collections.chunks)
    for write in (lambda: index.add(["zebra"]), lambda: index.delete(["1"])):
        with pytest.raises(FormatError, match="terms missing from the vocabulary"):
            write()
    assert store.collections.chunks == rows
    report = index.repair()
    assert report.recovered_terms == 5  # four in the other rows of the entry, and one in a text
    assert index.problems == []
    assert_mended(filled, reopened)


def test_repair_by_another_process_is_seen(
    store: MemoryStore, config: IndexConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rag_bm25.statistics.log.terms.TERMS_PER_ROW", 2)
    server = FaultyStore(exclusive=False, collections=store.collections)
    BM25Index.from_store(server, config=config).add(["apple pie crust"], ids=["1"])
    delete_a_row_of_the_first_terms(store)
    del store.collections.chunks[next(iter(store.collections.chunks))]
    index = BM25Index.from_store(server.reopen(), config=config, refresh_interval=0)
    assert index.problems == ["terms missing from the vocabulary: 3", "the statistics count 1 chunks, but 0 are stored"]
    with pytest.raises(StoreError, match="gives 0 of 1 chunks: is it still loading"):
        BM25Index.from_store(server.reopen(), config=config, repair=True)
    BM25Index.from_store(server.reopen(), config=config).repair(accept_loss=True)
    assert index.verify().ok
    assert index.problems == []
    index.add(["mango"])


def test_loss_that_counts_alone_do_not_show_is_found_by_the_missing_row(
    index: BM25Index, store: MemoryStore, reopened: Reopened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Terms that two writers have added at once count twice, and make up for the number of those that are lost."""
    monkeypatch.setattr("rag_bm25.statistics.log.terms.TERMS_PER_ROW", 3)
    index.add(["a b c"], ids=["1"])
    index.add(["apple pie crust tart"], ids=["2"])
    for _ in range(2):
        store.insert_log(TermsRow.encode(index._live.log.new_batch(), {term: term_id(term) for term in "abc"}))
    assert reopened().problems == []
    delete_log(store, lambda key: key.startswith("terms") and key.endswith(":1:2"))
    assert reopened().problems == ["terms missing from the vocabulary: 4"]


def test_terms_that_no_text_explains_are_told_until_a_repair_has_seen_them(
    filled: BM25Index, store: MemoryStore, reopened: Reopened
) -> None:
    vector = filled.encode_documents(["term of another tool"])[0]
    pk, row = next((pk, row) for pk, row in store.collections.chunks.items() if row.id == "2")
    store.collections.chunks["mine"] = replace(row, pk="mine", vector=vector)  # ours would be written again
    del store.collections.chunks[pk]
    report = filled.repair()
    assert report.nameless_terms == 4
    index = reopened()
    assert index.problems == []
    index.add(["mango"])
    index._live.log.compact(above=0)
    again = reopened()
    again._live.vocabulary()
    assert again.problems == []
    delete_log(store, lambda key: key.startswith("terms"))
    assert reopened().problems == ["terms missing from the vocabulary: 12"]


def test_after_a_repair_terms_without_chunks_are_missed_as_well(
    index: BM25Index, store: MemoryStore, reopened: Reopened
) -> None:
    index.add(["apple pie"], ids=["1"])
    index.delete(["1"])
    index.repair()
    assert reopened().problems == []
    delete_log(store, lambda key: key.startswith("terms"))
    assert reopened().problems == ["terms missing from the vocabulary: 2"]


def test_lost_change_is_told(filled: BM25Index, store: MemoryStore, reopened: Reopened) -> None:
    """The update of chunk 1 counted on the deltas before it."""
    [first, *_] = sorted(key for key in store.collections.log if key.startswith("delta"))
    store.delete_log([first])
    index = reopened()
    assert "changes missing from the statistics: 1" in index.problems
    assert_mended(filled, reopened)


def test_lost_head_is_told(filled: BM25Index, store: MemoryStore, reopened: Reopened) -> None:
    """The deltas of the first compaction are gone after the second."""
    filled._live.log.compact(above=1)
    filled.add(["mango"])
    filled._live.log.compact(above=0)
    filled.add(["papaya"])
    delete_log(store, lambda key: key.startswith("head"))
    assert "changes missing from the statistics: 3" in reopened().problems
    assert_mended(filled, reopened)


@pytest.mark.parametrize("lost", ["first page", "last page", "totals", "all"])
def test_lost_rows_of_a_run_are_told(
    filled: BM25Index, store: MemoryStore, reopened: Reopened, lost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the counts are asked for, not as if there were none; totals are read when the index is opened."""
    monkeypatch.setattr("rag_bm25.statistics.log.packing.COUNTS_PER_ROW", 3)
    filled._live.log.compact(above=1)
    filled.add(["mango"])
    filled._live.log.compact(above=0)
    [first, *_] = sorted({key.split(":")[1] for key in store.collections.log if key.startswith("run")})
    run = [key for key in store.collections.log if key.startswith(f"run:{first}:")]  # in the order of their parts
    assert len(run) > 2
    store.delete_log({"first page": run[:1], "last page": run[-2:-1], "totals": run[-1:], "all": run}[lost])
    message = "rows of its statistics are missing. Run repair"
    if lost in ("totals", "all"):
        with pytest.raises(FormatError, match=message):
            reopened()
    else:
        index = reopened()
        with pytest.raises(FormatError, match=message):
            [index.search("apple fig", namespace=namespace) for namespace in (None, "x")]
    assert_mended(filled, reopened)


def test_lost_heads_after_all_deltas_are_in_runs_are_told(
    filled: BM25Index, store: MemoryStore, reopened: Reopened
) -> None:
    """Nothing has a number any more; the rows of the chunks are there."""
    for number in range(3):
        filled.add([f"mango {number}"], ids=["mango"])
        filled._live.log.compact(above=0)
    delete_log(store, lambda key: key.startswith(("head", "delta")))
    assert "the statistics count 0 chunks, but 4 are stored" in reopened().problems
    assert_mended(filled, reopened)


def test_lost_deltas_between_two_compactions_are_told(
    filled: BM25Index, store: MemoryStore, reopened: Reopened
) -> None:
    """Those that a head covers may go, those after it may not."""
    filled._live.log.compact(above=1)
    delete_log(store, lambda key: key.startswith("delta"))
    assert reopened().problems == []
    filled.add(["mango"], ids=["mango"])
    filled.add(["papaya"], ids=["papaya"])
    [first, _] = sorted(key for key in store.collections.log if key.startswith("delta"))
    store.delete_log([first])
    index = reopened()
    assert "changes missing from the statistics: 1" in index.problems
    assert_mended(filled, reopened)


def test_lost_entry_of_merged_terms_is_told(
    filled: BM25Index, store: MemoryStore, reopened: Reopened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The head and each delta say how many terms there must be."""
    monkeypatch.setattr("rag_bm25.statistics.log.terms.FEW_TERMS", 1_000)
    num_terms = len(filled._live.vocabulary())
    filled._live.log.compact(above=1)
    merged = {key.split(":")[1] for key in store.collections.log if key.startswith("terms")}
    assert len(merged) == 1
    delete_log(store, lambda key: key.startswith("terms"))
    assert reopened().problems == [f"terms missing from the vocabulary: {num_terms}"]
    assert_mended(filled, reopened)


def test_loss_is_told_after_the_rest_was_summed_up(filled: BM25Index, store: MemoryStore, reopened: Reopened) -> None:
    [first, *_] = sorted(key for key in store.collections.log if key.startswith("delta"))
    store.delete_log([first])
    index = reopened()
    index._live.log.compact(above=1)
    index.add(["mango"])
    for reader in (index, reopened()):
        assert "changes missing from the statistics: 1" in reader.problems
    assert_mended(reopened(repair=True), reopened)


def test_counts_below_zero_are_told(filled: BM25Index, store: MemoryStore, reopened: Reopened) -> None:
    filled.delete(["3"], namespace="x")
    delete_log(store, lambda key: key.startswith("delta") and store.collections.log[key].meta["chunks"] == 1)
    index = reopened()
    assert "namespaces with counts below zero: 1" in index.problems
    assert [hit.id for hit in index.search("apple", namespace=None)] == ["1"]
    assert_mended(filled, reopened)


def test_write_under_way_is_no_damage(store: MemoryStore, config: IndexConfig) -> None:
    """On a server others may be between inserting rows and counting them."""
    shared = FaultyStore(exclusive=False, collections=store.collections)
    index = BM25Index.from_store(shared, config=config)
    for call in range(30):
        shared.fail_at(call)
        try:
            index.add([f"apple {call}", "banana"], ids=["1", f"new{call}"])
        except StoreError:
            reader = BM25Index.from_store(shared.reopen(), read_only=True, config=config)
            assert reader.problems == []
        shared.fail_at(None)


def test_writer_that_finishes_while_rows_are_counted_is_no_damage(
    store: MemoryStore, config: IndexConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = FaultyStore(exclusive=False, collections=store.collections)
    index = BM25Index.from_store(shared, config=config)
    index.add(["apple"], ids=["1"])
    reading = FaultyStore(exclusive=False, collections=store.collections)
    count = reading.count_chunks

    def count_beside_a_writer() -> int:
        index.add(["apple pie"], ids=[f"at {index.stats().num_chunks}"])
        return count()

    monkeypatch.setattr(reading, "count_chunks", count_beside_a_writer)
    assert BM25Index.from_store(reading, config=config).problems == []


# A batch that was cut short


def failing_update(store: FaultyStore, index: BM25Index, call: int) -> bool:
    store.fail_at(call)
    try:
        index.add(["apple pie", "fig"], ids=["1", "4"])
    except StoreError:
        return True
    finally:
        store.fail_at(None)
    return False


def full(method: str) -> None:
    """Fail as a full disk does."""
    if method.startswith(("insert", "delete")):
        raise StoreError("no room")


READS: dict[str, Callable[[BM25Index], object]] = {
    "search": lambda index: [(hit.id, hit.text, hit.score) for hit in index.search("apple banana fig", namespace=None)],
    "stats": lambda index: index.stats(),
    "verify": lambda index: index.verify(),
    "suggest": lambda index: index.suggest("aple"),
    "explain": lambda index: index.explain("apple", "2").value,
    "encode_queries": lambda index: [vector.to_dict() for vector in index.encode_queries(["apple banana"])],
    "get": lambda index: [(chunk.id, chunk.text) for chunk in index.get(["1", "4"])],
    "chunks": lambda index: sorted((chunk.id, chunk.text) for chunk in index.chunks()),
    "refresh": lambda index: index.refresh(),
}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("exclusive", [True, False])
def test_read_after_a_batch_that_failed_sees_what_a_fresh_process_sees(
    read: str, exclusive: bool, config: IndexConfig
) -> None:
    for call in range(100):
        store = FaultyStore(exclusive=exclusive)
        index = BM25Index.from_store(store, config=config, refresh_interval=3600)
        index.add(["apple", "banana apple", "cherry"], ids=["1", "2", "3"])
        if not failing_update(store, index, call):
            assert call > 4
            return
        now = READS[read](index)
        fresh = BM25Index.from_store(store.reopen(), config=config)
        assert now == READS[read](fresh)
        assert index.stats() == fresh.stats()
        assert not index._live._writer.has_unfinished_batch


def test_read_goes_on_where_the_batch_cannot_be_finished(config: IndexConfig, caplog: pytest.LogCaptureFixture) -> None:
    store = FaultyStore()
    index = BM25Index.from_store(store, config=config, refresh_interval=0)
    index.add(["apple", "banana"], ids=["1", "2"])
    assert failing_update(store, index, 4)
    store.on_call = full
    assert {hit.id for hit in index.search("apple banana")} >= {"1", "2"}
    assert "a batch that failed cannot be finished yet: no room" in caplog.messages
    store.on_call = None
    assert index.search("apple banana")
    assert index.verify().ok


def test_chunks_are_streamed_once_while_an_update_is_unfinished(store: MemoryStore, config: IndexConfig) -> None:
    """A reader cannot finish it, and two rows of one chunk are there."""
    failing = FaultyStore(collections=store.collections)
    index = BM25Index.from_store(failing, config=config)
    index.add(["apple", "banana"], ids=["1", "2"])
    seen = set()
    for call in range(20):
        failing_update(failing, index, call)
        seen.add(len(store.collections.chunks))
        reader = BM25Index.from_store(store.reopen(), config=config, read_only=True)
        ids = [chunk.id for chunk in reader.chunks()]
        assert len(set(ids)) == len(ids)
        assert dict.fromkeys(chunk.text for chunk in reader.chunks() if chunk.id == "1") in (
            {"apple": None},
            {"apple pie": None},
        )
        index.add(["apple"], ids=["1"])
        index.delete(["4"])
    assert 4 in seen


def test_hook_that_reads_in_the_middle_of_a_batch_does_not_finish_it(store: MemoryStore, config: IndexConfig) -> None:
    seen: list[int] = []
    index = BM25Index.from_store(
        store, config=config, on_event=lambda event: seen.append(index.stats().num_chunks) if started else None
    )
    started = True
    index.add(["apple"], ids=["1"])
    index.add(["apple pie"], ids=["1"])
    assert len(seen) >= 2
    assert index.verify().ok


def test_read_by_a_signal_handler_does_not_finish_the_batch_that_it_interrupts(
    store: MemoryStore, config: IndexConfig
) -> None:
    index = BM25Index.from_store(store, config=config)
    index.add(["apple"], ids=["1"])

    def refresh(method: str) -> None:
        if method == "delete_chunks":
            store.on_call = None
            index.refresh()

    store.on_call = refresh
    index.add(["apple pie"], ids=["1"])
    assert store.on_call is None
    assert index.problems == []
    assert index.verify().ok


@pytest.mark.parametrize("reads", [True, False])
def test_write_finishes_what_another_index_left_also_at_the_second_attempt(reads: bool, config: IndexConfig) -> None:
    """The first one may fail like the batch, or a search may read the log before the batch has failed."""
    store = FaultyStore()
    failing = BM25Index.from_store(store, config=config)
    failing.add(["apple", "banana"], ids=["1", "2"])
    other = FaultyStore(collections=store.collections)
    index = BM25Index.from_store(other, config=config)

    def fail(method: str) -> None:
        if method == "delete_chunks":
            if reads:
                search = threading.Thread(target=index.search, args=["apple"])
                search.start()
                search.join()
            raise StoreError("no room")

    store.on_call = fail
    with pytest.raises(StoreError, match="no room"):
        failing.add(["apple pie"], ids=["1"])
    store.on_call = None
    if not reads:
        other.on_call = fail
        with pytest.raises(StoreError, match="no room"):
            index.add(["fig"], ids=["3"])
        other.on_call = None
    index.add(["cherry"], ids=["1"])
    assert index.verify().ok
    assert failing.verify().ok
    assert BM25Index.from_store(store.reopen(), config=config).verify().ok


def test_verify_fails_where_it_cannot_finish_a_batch(config: IndexConfig) -> None:
    """What the batch has done is no difference."""
    store = FaultyStore()
    index = BM25Index.from_store(store, config=config)
    index.add(["apple", "banana"], ids=["1", "2"])
    assert failing_update(store, index, 4)
    store.on_call = full
    with pytest.raises(StoreError, match="no room"):
        index.verify()
    store.on_call = None
    assert index.verify().ok


def test_hook_may_verify_when_it_is_told_of_damage(filled: BM25Index, store: MemoryStore, config: IndexConfig) -> None:
    told: list[Event] = []

    def verify(event: Event) -> None:
        if event.name == "damage":
            told.append(event)
            assert len(told) < 3
            index.verify()

    index = BM25Index.from_store(store.reopen(), config=config, on_event=verify)
    delete_log(store, max(key for key in store.collections.log if key.startswith("delta")).__eq__)
    filled.add(["mango"], ids=["new"])
    with index._live.replacing():
        pass
    assert index.problems
    assert len(told) == 1


def test_vocabulary_that_cannot_be_read_now_is_not_lost(filled: BM25Index, store: MemoryStore) -> None:
    failing = FaultyStore(collections=store.collections)
    index = BM25Index.from_store(failing, config=filled.config)
    failing.fail_at(0)
    with pytest.raises(StoreError):
        index.add(["mango"], ids=["new"])
    assert index.problems == []
    assert index.add(["mango"], ids=["new"]) == ["new"]
    assert index.verify().ok


def test_deletion_that_is_counted_before_the_insertion_is_no_damage(config: IndexConfig) -> None:
    """A chunk can be deleted as soon as its row is there, which is before its batch has ended."""
    store = MemoryStore(exclusive=False)
    adding = BM25Index.from_store(store, config=config)
    other = store.reopen()
    deleting = BM25Index.from_store(other, config=config)
    is_inserted, is_deleted, calls = threading.Event(), threading.Event(), list[str]()

    def wait_before_the_delta(method: str) -> None:
        calls.append(method)
        if method == "insert_log" and "insert_chunks" in calls:
            is_inserted.set()
            is_deleted.wait(PATIENCE)

    def insert_now(method: str) -> None:
        if method == "get_chunks" and not thread.ident:
            thread.start()
            is_inserted.wait(PATIENCE)

    thread = threading.Thread(target=adding.add, args=(["apple fig"],), kwargs={"ids": ["1"]}, daemon=True)
    store.on_call, other.on_call = wait_before_the_delta, insert_now
    assert deleting.delete(["1"]) == 1
    reader = BM25Index.from_store(store.reopen(), config=config, read_only=True)
    assert reader.problems == []
    is_deleted.set()
    thread.join(PATIENCE)
    reader.refresh()
    assert reader.problems == []
    assert reader.verify().ok


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_bm25.statistics.log.terms.FEW_TERMS", 4)
