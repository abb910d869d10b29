from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pytest
from faulty_store import FaultyStore
from memory_store import MemoryStore

from rag_bm25 import log_rows, statistics_log
from rag_bm25.errors import FormatError, StoreError
from rag_bm25.log_rows import Change, Intent, LogKey
from rag_bm25.statistics import Contribution
from rag_bm25.statistics_log import StatisticsLog
from rag_bm25.terms import term_id

if TYPE_CHECKING:
    from faulty_store import Moment


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    store.create()
    return store


@pytest.fixture
def log(store: MemoryStore) -> StatisticsLog:
    return StatisticsLog(store)


def counted(num_chunks: int = 1, total_length: int = 0, /, **df: int) -> Contribution:
    by_id = sorted((term_id(term), count) for term, count in df.items())
    ids, counts = zip(*by_id, strict=True) if by_id else ((), ())
    return Contribution(num_chunks, total_length, np.array(ids, np.uint32), np.array(counts, np.int64))


def intent(log: StatisticsLog, before: Contribution | None = None, namespace: str = "") -> Intent:
    change = Change("0" * 40, "a", "")
    return Intent(log.new_batch(), "writer", 7.5, namespace, [change], before or Contribution())


def write(log: StatisticsLog, after: Contribution, before: Contribution | None = None, namespace: str = "") -> None:
    began = intent(log, before, namespace)
    log.begin(began, {})
    log.end(began, after)


def shown(log: StatisticsLog, namespace: str | None = None) -> tuple[int, int, dict[int, int]]:
    of = log.statistics.whole if namespace is None else log.statistics.of_one(namespace)
    total = of.contribution()
    return total.num_chunks, total.total_length, dict(zip(total.ids.tolist(), total.df.tolist(), strict=True))


def kinds(store: MemoryStore) -> list[str]:
    return sorted(LogKey.parse(key).kind for key in store.collections.log)


def read_anew(store: MemoryStore) -> StatisticsLog:
    log = StatisticsLog(store.reopen())
    log.refresh()
    return log


# Config


def test_config_comes_back(log: StatisticsLog) -> None:
    config = {"document": {"k1": 1.5}, "words": ["中文", "a\nb"]}
    log.write_config(config)
    assert log.read_config() == config


def test_new_log_has_no_config(log: StatisticsLog) -> None:
    assert log.read_config() is None


def test_long_config_is_cut_into_parts(log: StatisticsLog, store: MemoryStore) -> None:
    config = {"words": [f"{number * 7919 % 1_000_003:x}" for number in range(60_000)]}
    log.write_config(config)
    assert len(store.collections.log) > 1
    assert all(len(row.packed) <= 65_535 for row in store.collections.log.values())
    assert log.read_config() == config


def test_config_of_which_a_part_is_missing_is_none(log: StatisticsLog, store: MemoryStore) -> None:
    log.write_config({"words": [f"{number * 7919 % 1_000_003:x}" for number in range(60_000)]})
    del store.collections.log[min(store.collections.log)]
    assert log.read_config() is None


def test_newer_format_is_refused_with_both_versions(
    log: StatisticsLog, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_rows, "FORMAT", 3)
    log.write_config({})
    with pytest.raises(FormatError) as caught:
        log.read_config()
    assert str(caught.value) == "memory has format 3, this version of rag_bm25 reads up to 1: upgrade rag_bm25"


# Deltas


def test_delta_is_counted_at_once_and_read_by_others(log: StatisticsLog, store: MemoryStore) -> None:
    write(log, counted(2, 9, a=2, b=1))
    expected = (2, 9, {term_id("a"): 2, term_id("b"): 1})
    assert shown(log) == expected
    assert shown(read_anew(store)) == expected


def test_delta_is_what_changed(log: StatisticsLog, store: MemoryStore) -> None:
    write(log, counted(1, 4, a=1, b=1))
    write(log, after=counted(1, 6, a=1, c=1), before=counted(1, 4, a=1, b=1))
    expected = (1, 6, {term_id("a"): 1, term_id("c"): 1})
    assert shown(log) == expected
    assert shown(read_anew(store)) == expected


def test_counts_that_did_not_change_are_not_stored(log: StatisticsLog, store: MemoryStore) -> None:
    write(log, after=counted(1, 6, a=1, c=1), before=counted(1, 4, a=1, b=1))
    (row,) = store.collections.log.values()
    assert (row.added.to_dict(), row.removed.to_dict()) == ({term_id("c"): 1}, {term_id("b"): 1})


def test_refresh_reads_only_what_is_new(log: StatisticsLog, store: MemoryStore) -> None:
    other = StatisticsLog(store)
    write(other, counted(1, 4, a=1))
    log.refresh()
    write(other, counted(1, 4, b=1))
    asked: list[str] = []
    get_log = store.get_log
    store.get_log = lambda keys, **options: (asked.extend(keys), get_log(keys, **options))[1]  # type: ignore[method-assign]
    log.refresh()
    assert [LogKey.parse(key).kind for key in asked] == ["delta"]
    assert shown(log) == (2, 8, {term_id("a"): 1, term_id("b"): 1})


def test_own_delta_is_not_counted_twice(log: StatisticsLog) -> None:
    write(log, counted(1, 4, a=1))
    log.refresh()
    assert shown(log) == (1, 4, {term_id("a"): 1})


def test_long_delta_is_cut_into_parts(log: StatisticsLog, store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_rows, "MAX_ENTRIES", 2)
    write(log, counted(1, 4, a=1, b=1, c=1, d=1, e=1))
    assert kinds(store) == ["delta"] * 3
    assert shown(read_anew(store)) == (1, 4, {term_id(term): 1 for term in "abcde"})


def test_delta_of_which_a_part_is_missing_is_passed_over(
    log: StatisticsLog, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_rows, "MAX_ENTRIES", 2)
    write(log, counted(1, 4, a=1, b=1, c=1))
    last = store.collections.log.popitem()
    reader = read_anew(store)
    assert shown(reader) == (0, 0, {})
    store.collections.log.update([last])
    reader.refresh()
    assert shown(reader) == (1, 4, {term_id(term): 1 for term in "abc"})


def test_namespaces_are_kept_apart(log: StatisticsLog, store: MemoryStore) -> None:
    write(log, counted(1, 4, a=1), namespace="x")
    write(log, counted(1, 6, a=1), namespace="y")
    reader = read_anew(store)
    assert shown(reader, "x") == (1, 4, {term_id("a"): 1})
    assert shown(reader) == (2, 10, {term_id("a"): 2})


def test_refresh_gives_up_where_rows_keep_vanishing(log: StatisticsLog, store: MemoryStore) -> None:
    write(StatisticsLog(store), counted(1, 4, a=1))
    store.get_log = lambda keys, **options: []  # type: ignore[method-assign]
    with pytest.raises(StoreError) as caught:
        log.refresh()
    expected = "the statistics of memory changed 10 times while they were read: try again"
    assert str(caught.value) == expected


@pytest.mark.usefixtures("small_rows")
def test_delta_that_goes_while_it_is_read_is_none(log: StatisticsLog, store: MemoryStore) -> None:
    write(log, counted(1, 4, a=1, b=1, c=1))
    [batch] = {LogKey.parse(key).name for key in store.collections.log}
    found = log.delta(batch)
    assert found is not None
    assert found.df.tolist() == [1, 1, 1]
    get_log = store.get_log
    store.get_log = lambda keys, **options: get_log(keys[1:], **options)  # type: ignore[method-assign]
    assert log.delta(batch) is None


# Batches


def test_batches_rise(log: StatisticsLog) -> None:
    batches = [log.new_batch() for _ in range(50)]
    assert batches == sorted(set(batches))
    assert {len(batch) for batch in batches} == {24}


def test_batches_rise_where_the_clock_steps_back(
    log: StatisticsLog, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(log, counted(1, 1, a=1))
    (key,) = store.collections.log
    monkeypatch.setattr(statistics_log.time, "time_ns", lambda: 1_000_000)
    assert log.new_batch() > LogKey.parse(key).name
    assert read_anew(store).new_batch() > LogKey.parse(key).name


def test_older_batch_of_another_writer_does_not_turn_the_clock_back(
    log: StatisticsLog, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = StatisticsLog(store)
    monkeypatch.setattr(statistics_log.time, "time_ns", lambda: 1_000_000)
    older = intent(slow)
    monkeypatch.setattr(statistics_log.time, "time_ns", lambda: 9_000_000)
    newer = log.new_batch()
    slow.begin(older, {})
    log.refresh()
    monkeypatch.setattr(statistics_log.time, "time_ns", lambda: 2_000_000)
    assert log.new_batch() > newer


# Intents


def test_intent_comes_back_as_it_was(log: StatisticsLog) -> None:
    changes = [Change("0" * 40, "b", "a"), Change("f" * 40, "", "ab"), Change("a" * 40, "a", "")]
    began = Intent(log.new_batch(), "me", 7.5, "law", changes, counted(2, 9, a=2, b=1))
    log.begin(began, {})
    (found,) = log.intents()
    assert (found.batch, found.writer, found.time, found.namespace) == (began.batch, "me", 7.5, "law")
    assert found.changes == changes
    before = found.before
    assert (before.num_chunks, before.total_length) == (2, 9)
    assert (before.ids.tolist(), before.df.tolist()) == (began.before.ids.tolist(), began.before.df.tolist())


def test_intents_are_listed_oldest_first(log: StatisticsLog, store: MemoryStore) -> None:
    began = [intent(log) for _ in range(4)]
    for one in reversed(began):
        log.begin(one, {})
    assert [found.batch for found in log.intents()] == [one.batch for one in began]


def test_end_drops_the_intent_after_the_delta(log: StatisticsLog, store: MemoryStore) -> None:
    began = intent(log)
    log.begin(began, {})
    store.calls.clear()
    log.end(began, counted(1, 1, a=1))
    assert store.calls == ["insert_log", "delete_log"]
    assert kinds(store) == ["delta"]


def test_renewed_lease_counts_and_goes_with_its_intent(log: StatisticsLog, store: MemoryStore) -> None:
    began = intent(log)
    log.begin(began, {})
    log.renew(began, 0)
    assert log.intents()[0].time > began.time
    log.end(began, counted())
    assert kinds(store) == ["delta"]


# Terms


def test_new_terms_are_read_by_others(log: StatisticsLog, store: MemoryStore) -> None:
    log.begin(intent(log), {"a": term_id("a"), "中文": term_id("中文")})
    vocabulary = read_anew(store).vocabulary()
    assert list(vocabulary) == ["a", "中文"]
    assert vocabulary.id("中文") == term_id("中文")


def test_terms_are_stored_with_or_before_their_intent(log: StatisticsLog, store: MemoryStore) -> None:
    store.calls.clear()
    log.begin(intent(log), {"a": term_id("a")})
    assert store.calls[0] == "insert_log"
    assert sorted(kinds(store)) == ["intent", "terms"]


def test_displaced_terms_are_known_without_the_vocabulary(log: StatisticsLog, store: MemoryStore) -> None:
    log.begin(intent(log), {"a": term_id("a"), "moved": 7})
    reader = read_anew(store)
    assert reader.displaced == {"moved": 7}
    assert reader._vocabulary is None
    assert log.displaced == {"moved": 7}


def test_reader_without_vocabulary_does_not_fetch_terms(log: StatisticsLog, store: MemoryStore) -> None:
    log.begin(intent(log), {"a": term_id("a")})
    reader, packed = StatisticsLog(store), []
    get_log = store.get_log

    def spying(keys: list[str], *, packed_too: bool = True, **options: bool) -> object:
        packed.append(options.get("packed", packed_too))
        return get_log(keys, **options)

    store.get_log = spying  # type: ignore[method-assign,assignment]
    reader.refresh()
    assert packed == [False]


def test_a_failed_read_of_the_vocabulary_is_not_taken_for_an_empty_one(log: StatisticsLog, store: MemoryStore) -> None:
    log.begin(intent(log), {"a": term_id("a")})
    reader = StatisticsLog(store)

    def fail(method: str) -> None:
        if method == "get_log":
            raise StoreError("no answer")

    store.on_call = fail
    with pytest.raises(StoreError, match="no answer"):
        reader.vocabulary()
    store.on_call = None
    assert list(reader.vocabulary()) == ["a"]


def test_vocabulary_in_use_grows_with_refresh(log: StatisticsLog, store: MemoryStore) -> None:
    reader = StatisticsLog(store)
    assert len(reader.vocabulary()) == 0
    log.begin(intent(log), {"a": term_id("a")})
    reader.refresh()
    assert list(reader.vocabulary()) == ["a"]


def test_many_new_terms_are_cut_into_rows(log: StatisticsLog, store: MemoryStore) -> None:
    words = [f"{number * 7919 % 1_000_003:x}" for number in range(60_000)]
    log.begin(intent(log), {word: term_id(word) for word in words})
    assert kinds(store).count("terms") > 1
    assert all(len(row.packed) <= 65_535 for row in store.collections.log.values())
    assert list(read_anew(store).vocabulary()) == words


# Compaction


@pytest.fixture
def grown(log: StatisticsLog) -> StatisticsLog:
    """Ten batches, of which the last takes one chunk away."""
    for number in range(9):
        began = intent(log, namespace="xy"[number % 2])
        log.begin(began, {f"w{number}": term_id(f"w{number}")})
        log.end(began, counted(1, 2, a=1, **{f"w{number}": 1}))
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
    monkeypatch.setattr(log_rows, "MAX_ENTRIES", 2)
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
    rows = log_rows.snapshot_rows(name, log_rows.SnapshotHead("", []), {"x": counted(), "y": counted()})
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
    head = log_rows.SnapshotHead("", [])
    back = log_rows.snapshot_of(log_rows.snapshot_rows("n", head, {"": total}))[""]
    assert (back.num_chunks, back.total_length) == (2**30, 2**40)
    assert back.df.tolist() == total.df.tolist()


def test_empty_statistics_can_be_compacted(log: StatisticsLog, store: MemoryStore) -> None:
    for _ in range(3):
        write(log, counted(1, 2, a=1))
        write(log, after=counted(0, 0), before=counted(1, 2, a=1))
    log.compact(above=3)
    assert shown(read_anew(store)) == (0, 0, {})


# Entries of several rows


def begin_and_end(log: StatisticsLog, words: list[str]) -> None:
    staged = log.vocabulary().stage()
    began = intent(log)
    log.begin(began, {word: staged[word] for word in words})
    log.end(began, counted(1, len(words), **dict.fromkeys(words, 1)))


@pytest.fixture
def small_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut every kind of entry after a few items, so that all of them have several rows."""
    monkeypatch.setattr(log_rows, "TERMS_PER_ROW", 2)
    monkeypatch.setattr(log_rows, "COUNTS_PER_ROW", 2)
    monkeypatch.setattr(log_rows, "MAX_ENTRIES", 2)
    monkeypatch.setattr(statistics_log, "FEW_TERMS", 4)
    monkeypatch.setattr(statistics_log, "ROWS_PER_INSERT", 1)


@pytest.mark.usefixtures("small_rows")
def test_compaction_replaces_whole_entries_of_terms_only(log: StatisticsLog, store: MemoryStore) -> None:
    """The last row of a long entry has few terms; without it, the entry would not count."""
    for number in range(6):
        begin_and_end(log, [f"long{number}.{n}" for n in range(5)])
        begin_and_end(log, [f"short{number}"])
        log.compact(above=2)
        reader = read_anew(store)
        assert set(reader.vocabulary()) == set(log.vocabulary())
        assert shown(reader) == shown(log)
        assert reader.damage == []
    assert len(log.vocabulary()) == 36


@pytest.mark.usefixtures("small_rows")
def test_terms_of_small_entries_are_merged_again_and_again(log: StatisticsLog, store: MemoryStore) -> None:
    for number in range(40):
        begin_and_end(log, [f"word{number}"])
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
            begin_and_end(log, [f"long{number}.{n}" for n in range(5)])
            begin_and_end(log, [f"a{number}", f"b{number}", f"c{number}"])
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
        begin_and_end(log, [f"a{number}", f"b{number}", f"c{number}"])
    left = {key: row for key, row in store.collections.log.items() if key.startswith("terms") and ":1:2" in key}
    log.compact(above=2)
    unknown = log_rows.terms_rows(log.new_batch(), {word: term_id(word) for word in "xyz"})[:1]
    store.collections.log.update(left | {row.key: row for row in unknown})

    def compacted() -> set[str]:
        for _ in range(3):
            write(log, counted(1, 1, a0=1))
        log.compact(above=2)
        return {key for key in store.collections.log if key in left}

    assert compacted() == set(left)  # another writer may be at it
    now = statistics_log.time.time_ns()
    monkeypatch.setattr(statistics_log.time, "time_ns", lambda: now + 3601 * 10**9)
    assert compacted() == set()
    assert unknown[0].key in store.collections.log  # nobody else has its terms
