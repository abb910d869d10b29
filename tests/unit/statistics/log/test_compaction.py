from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest
from support.faulty_store import FaultyStore
from support.log_writing import counted, intent, kinds, read_anew, shown, write

from rag_bm25.errors import StoreError
from rag_bm25.statistics.log import log as statistics_log
from rag_bm25.statistics.log.log import StatisticsLog
from rag_bm25.statistics.log.snapshots import SnapshotHead, SnapshotRow
from rag_bm25.statistics.log.terms import TermsRow
from rag_bm25.vectors.terms import term_id

if TYPE_CHECKING:
    from support.faulty_store import Moment
    from support.memory_store import MemoryStore


@pytest.fixture
def grown(log: StatisticsLog) -> StatisticsLog:
    """Ten batches, of which the last takes one chunk away."""
    for number in range(9):
        opened = log.open_write(intent(log, namespace="xy"[number % 2]), {f"w{number}": term_id(f"w{number}")})
        opened.commit(counted(1, 2, a=1, **{f"w{number}": 1}))
    write(log, after=counted(0, 0), before=counted(1, 2, a=1, w0=1), namespace="x")
    return log


def test_compaction_keeps_the_sums(grown: StatisticsLog, store: MemoryStore) -> None:
    before = [shown(grown, namespace) for namespace in ("x", "y", None)]
    terms = set(grown.vocabulary())
    grown.compact(above=3)
    reader = read_anew(store)
    for log in (grown, reader):
        assert [shown(log, namespace) for namespace in ("x", "y", None)] == before
    assert kinds(store) == ["snapshot"] * 4 + ["terms"]
    assert set(reader.vocabulary()) == terms


def test_short_log_is_left_alone(grown: StatisticsLog, store: MemoryStore) -> None:
    before = dict(store.collections.log)
    grown.compact(above=10)
    assert store.collections.log == before


def test_log_is_compacted_above_64_deltas() -> None:
    assert statistics_log.COMPACT_ABOVE == 64


def test_delta_that_another_writer_is_writing_is_left_by_compaction(
    grown: StatisticsLog, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rag_bm25.statistics.log.writes.MAX_ENTRIES", 2)
    write(StatisticsLog(store), counted(1, 4, a=1, b=1, c=1))
    last = store.collections.log.popitem()
    grown.compact(above=3)
    store.collections.log.update([last])
    reader = read_anew(store)
    assert reader.statistics.whole.num_chunks == 9
    assert reader.statistics.whole.df(np.array([term_id("c")], np.uint32)).tolist() == [1]


def test_snapshot_that_another_writer_is_writing_is_left_by_compaction(
    grown: StatisticsLog, store: MemoryStore
) -> None:
    name = "999999999999.0000000000000000"
    rows = SnapshotRow.encode(name, SnapshotHead("", []), {"x": counted(), "y": counted()})
    store.insert_log(rows[:1])
    grown.compact(above=3)
    assert rows[0].key in store.collections.log
    assert shown(read_anew(store)) == shown(grown)


def test_second_snapshot_replaces_the_first(grown: StatisticsLog, store: MemoryStore) -> None:
    grown.compact(above=3)
    first = {key for key in store.collections.log if key.startswith("snapshot")}
    for _ in range(5):
        write(grown, counted(1, 2, b=1), namespace="x")
    grown.compact(above=3)
    assert not first & set(store.collections.log)
    assert shown(read_anew(store)) == shown(grown)


def test_reader_goes_over_to_a_snapshot_without_counting_twice(grown: StatisticsLog, store: MemoryStore) -> None:
    reader = read_anew(store)
    grown.compact(above=3)
    write(grown, counted(1, 2, b=1), namespace="y")
    reader.refresh()
    assert shown(reader) == shown(grown)


def test_reader_that_missed_deltas_takes_the_snapshot(log: StatisticsLog, store: MemoryStore) -> None:
    write(log, counted(1, 2, a=1))
    reader = read_anew(store)
    for _ in range(5):
        write(log, counted(1, 2, a=1))
    log.compact(above=3)
    reader.refresh()
    assert shown(reader) == (6, 12, {term_id("a"): 6})


@pytest.mark.parametrize("failing", range(6))
@pytest.mark.parametrize("after", [False, True])
def test_compaction_that_fails_at_any_call_changes_no_sum(
    grown: StatisticsLog, store: MemoryStore, failing: int, after: bool
) -> None:
    before, terms = shown(grown), set(grown.vocabulary())
    calls = iter(range(100))

    def fail(method: str) -> None:
        if method in ("insert_log", "delete_log") and next(calls) == failing:
            raise StoreError("lost")

    store.on_call = fail
    try:
        grown.compact(above=3)
    except StoreError:
        store.on_call = None
        reader = read_anew(store)
        assert shown(reader) == before
        assert set(reader.vocabulary()) == terms
        grown.refresh()
        assert shown(grown) == before


def test_snapshot_carries_large_counts_exactly() -> None:
    total = counted(2**30, 2**40, a=2**24 + 1, b=2**24 - 1, c=2**30 + 12345)
    head = SnapshotHead("", [])
    back = SnapshotRow.decode(SnapshotRow.encode("n", head, {"": total}))[""]
    assert (back.num_chunks, back.total_length) == (2**30, 2**40)
    assert back.df.tolist() == total.df.tolist()


def test_empty_statistics_can_be_compacted(log: StatisticsLog, store: MemoryStore) -> None:
    for _ in range(3):
        write(log, counted(1, 2, a=1))
        write(log, after=counted(0, 0), before=counted(1, 2, a=1))
    log.compact(above=3)
    assert shown(read_anew(store)) == (0, 0, {})


# Entries of several rows


def write_words(log: StatisticsLog, words: list[str]) -> None:
    staged = log.vocabulary().stage()
    opened = log.open_write(intent(log), {word: staged[word] for word in words})
    opened.commit(counted(1, len(words), **dict.fromkeys(words, 1)))


@pytest.mark.usefixtures("small_rows")
def test_compaction_replaces_whole_entries_of_terms_only(log: StatisticsLog, store: MemoryStore) -> None:
    """The last row of a long entry has few terms; without it, the entry would not count."""
    for number in range(6):
        write_words(log, [f"long{number}.{n}" for n in range(5)])
        write_words(log, [f"short{number}"])
        log.compact(above=2)
        reader = read_anew(store)
        assert set(reader.vocabulary()) == set(log.vocabulary())
        assert shown(reader) == shown(log)
        assert reader.damage == []
    assert len(log.vocabulary()) == 36


@pytest.mark.usefixtures("small_rows")
def test_terms_of_small_entries_are_merged_again_and_again(log: StatisticsLog, store: MemoryStore) -> None:
    for number in range(40):
        write_words(log, [f"word{number}"])
        log.compact(above=2)
    assert kinds(store).count("terms") <= 40 / 2 + 3 + 3  # rows of merged entries, and the small ones of now
    assert sorted(read_anew(store).vocabulary()) == sorted(f"word{number}" for number in range(40))


@pytest.mark.parametrize("moment", ["before", "halfway", "after"])
@pytest.mark.usefixtures("small_rows")
def test_merging_that_fails_at_any_call_loses_no_term(moment: Moment) -> None:
    for call in itertools.count():
        store = FaultyStore()
        store.create()
        log = StatisticsLog(store)
        for number in range(4):
            write_words(log, [f"long{number}.{n}" for n in range(5)])
            write_words(log, [f"a{number}", f"b{number}", f"c{number}"])
        store.fail_at(call, moment)
        try:
            log.compact(above=2)
        except StoreError:
            reader = read_anew(store)
            assert set(reader.vocabulary()) == set(log.vocabulary())
            assert (shown(reader), reader.damage) == (shown(log), [])
        else:
            assert call > 20
            return


@pytest.mark.usefixtures("small_rows")
def test_parts_that_an_interrupted_merge_left_are_deleted_an_hour_later(
    log: StatisticsLog, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        write_words(log, [f"a{number}", f"b{number}", f"c{number}"])
    left = {key: row for key, row in store.collections.log.items() if key.startswith("terms") and ":1:2" in key}
    log.compact(above=2)
    unknown = TermsRow.encode(log.new_batch(), {word: term_id(word) for word in "xyz"})[:1]
    store.collections.log.update(left | {row.key: row for row in unknown})

    def compacted() -> set[str]:
        for _ in range(3):
            write(log, counted(1, 1, a0=1))
        log.compact(above=2)
        return {key for key in store.collections.log if key in left}

    assert compacted() == set(left)  # another writer may be at it
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now + 3601 * 10**9)
    assert compacted() == set()
    assert unknown[0].key in store.collections.log  # nobody else has its terms
