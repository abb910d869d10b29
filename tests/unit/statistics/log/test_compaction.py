from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
from support.faulty_store import FaultyStore, Moment
from support.log_writing import counted, intent, kinds, read_anew, rows, shown, taken, write, write_words
from support.memory_store import MemoryStore

from rag_bm25.errors import StoreError
from rag_bm25.statistics.log import log as statistics_log
from rag_bm25.statistics.log.keys import LogKey
from rag_bm25.statistics.log.log import StatisticsLog
from rag_bm25.statistics.log.runs import HeldSums, write_run
from rag_bm25.statistics.log.table import LogTable
from rag_bm25.statistics.log.terms import TermsRow
from rag_bm25.vectors.terms import term_id


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
    assert set(kinds(store)) == {"delta", "head", "intent", "run", "terms"}
    assert [kinds(store).count(kind) for kind in ("head", "run", "terms")] == [1, 2, 1]
    assert set(reader.vocabulary()) == terms


def test_what_a_compaction_covers_is_deleted_by_the_next_one(grown: StatisticsLog, store: MemoryStore) -> None:
    """Readers that are one compaction behind find everything."""
    covered = {row.key for kind in ("delta", "intent") for row in rows(store, kind)}
    grown.compact(above=3)
    assert covered <= store.collections.log.keys()
    write(grown, counted(1, 2, b=1), namespace="x")
    grown.compact(above=0)
    assert not covered & store.collections.log.keys()
    assert [kinds(store).count(kind) for kind in ("delta", "intent", "head")] == [1, 1, 1]
    assert shown(read_anew(store)) == shown(grown)


def test_intent_that_is_open_stays_through_compactions(grown: StatisticsLog, store: MemoryStore) -> None:
    dead = StatisticsLog(store)
    began = intent(dead, counted(1, 7, a=1))
    dead.open_write(began, {}).renew()
    for _ in range(4):
        write(grown, counted(1, 2, b=1), namespace="x")
        grown.compact(above=0)
    (found,) = read_anew(store).intents()
    assert (found.batch, found.time > began.time) == (began.batch, True)
    grown.resume_write(found).commit(counted())
    for _ in range(2):
        write(grown, counted(1, 2, b=1), namespace="x")
        grown.compact(above=0)
    assert "lease" not in kinds(store)
    assert not any(began.batch in key for key in store.collections.log)
    assert shown(read_anew(store)) == shown(grown)


def test_short_log_is_left_alone(grown: StatisticsLog, store: MemoryStore) -> None:
    before = dict(store.collections.log)
    grown.compact(above=10)
    assert store.collections.log == before


def test_log_is_compacted_above_64_deltas() -> None:
    assert statistics_log.COMPACT_ABOVE == 64


def test_delta_that_another_writer_is_writing_is_left_by_compaction(
    grown: StatisticsLog, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rag_bm25.statistics.log.packing.COUNTS_PER_ROW", 2)
    write(StatisticsLog(store), counted(1, 4, a=1, b=1, c=1))
    last = taken(store, max(row.key for row in rows(store, "delta")))
    for _ in range(2):
        write(grown, counted(0, 0))
        grown.compact(above=0)
    store.collections.log.update(last)
    reader = read_anew(store)
    assert reader.statistics.whole.num_chunks == 9
    assert reader.statistics.whole.df(np.array([term_id("c")], np.uint32)).tolist() == [1]


def test_run_without_a_head_does_not_count_and_goes_with_the_next_compaction(
    grown: StatisticsLog, store: MemoryStore
) -> None:
    left = write_run(LogTable(store), grown.new_batch(), 0, [HeldSums.of({"x": counted(5, 5, a=5)})])
    assert shown(read_anew(store)) == shown(grown)
    grown.compact(above=3)
    assert not any(left.info.name in key for key in store.collections.log)
    assert shown(read_anew(store)) == shown(grown)


@pytest.mark.usefixtures("small_rows")
def test_head_of_which_a_row_is_missing_does_not_count(
    grown: StatisticsLog, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writer is storing it, and has not deleted anything yet."""
    monkeypatch.setattr("rag_bm25.statistics.log.head.MAX_PACKED", 40)
    grown.compact(above=3)
    write(grown, counted(1, 2, b=1), namespace="x")
    before = dict(store.collections.log)
    grown.compact(above=0)
    assert len(rows(store, "head")) > 1
    store.collections.log.update(before)
    last = taken(store, rows(store, "head")[-1].key)
    reader = read_anew(store)
    assert (shown(reader), reader.position) == (shown(grown), (LogKey.parse(rows(store, "head")[0].key).name, 11))
    store.collections.log.update(last)
    reader.refresh()
    assert (shown(reader), reader.position) == (shown(grown), grown.position)


def test_second_compaction_replaces_the_head_and_keeps_the_runs(grown: StatisticsLog, store: MemoryStore) -> None:
    grown.compact(above=3)
    head, runs = ({row.key for row in rows(store, kind)} for kind in ("head", "run"))
    for _ in range(5):
        write(grown, counted(1, 2, b=1), namespace="x")
    grown.compact(above=3)
    assert not head & store.collections.log.keys()
    assert runs <= store.collections.log.keys()
    assert shown(read_anew(store)) == shown(grown)


def test_runs_that_were_merged_go_with_the_compaction_after(
    grown: StatisticsLog, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rag_bm25.statistics.log.sums.FAN", 2)
    grown.compact(above=3)
    merged = {row.key for row in rows(store, "run")}
    for there in (True, False):
        write(grown, counted(1, 2, b=1), namespace="x")
        grown.compact(above=0)
        assert (merged <= store.collections.log.keys(), bool(merged & store.collections.log.keys())) == (there, there)
        assert shown(read_anew(store)) == shown(grown)


@pytest.mark.parametrize("moment", ["before", "halfway", "after"])
@pytest.mark.parametrize("exclusive", [True, False])
@pytest.mark.usefixtures("small_rows")
def test_compaction_that_fails_at_any_call_changes_no_sum(moment: Moment, exclusive: bool) -> None:
    """Neither at once, nor when others have gone on from what it left."""
    for call in itertools.count():
        store = FaultyStore(exclusive=exclusive)
        store.create()
        log = StatisticsLog(store)
        for number in range(9):
            write_words(log, ["all", f"w{number % 4}"], "xyz"[number % 3])
            log.compact(above=2)
        before = shown(log)
        write(log, counted(0, 0), namespace="x")
        store.fail_at(call, moment)
        try:
            log.compact(above=0)
        except StoreError:
            store.fail_at(None)
            assert (shown(read_anew(store)), read_anew(store).problems) == (before, [])
            for one in (log, read_anew(store), log, log):
                one.refresh()
                assert shown(one) == before
                write(one, counted(0, 0), namespace="x")
                one.compact(above=0)
                assert (shown(one), one.problems) == (before, [])
                assert (shown(read_anew(store)), read_anew(store).problems) == (before, [])
        else:
            assert call > 5
            return


# Entries of several rows


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
        assert reader.problems == []
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
            assert (shown(reader), reader.problems) == (shown(log), [])
        else:
            assert call > 20
            return


@pytest.mark.usefixtures("small_rows")
def test_entries_that_an_interrupted_merge_left_are_not_counted_twice(grown: StatisticsLog, store: MemoryStore) -> None:
    """Else they would make up for the number of terms that are lost later."""
    merged = {row.key: row for row in rows(store, "terms")}
    grown.compact(above=3)
    store.collections.log.update(merged)  # it had not come to deleting them
    reader = read_anew(store)
    assert reader._terms.size == len(reader.vocabulary()) == 9


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
