"""Several processes on a server write and compact the same log, at any moment of each other's compactions."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable

import pytest
from support.clocks import Clocks
from support.log_writing import asked_of, counted, intent, kinds, read_anew, rows, shown, store_of, write, write_words
from support.memory_store import MemoryStore

from rag_bm25.statistics.log import sums
from rag_bm25.statistics.log.head import read_head
from rag_bm25.statistics.log.keys import LogKey
from rag_bm25.statistics.log.log import CLAIM_SECONDS, StatisticsLog
from rag_bm25.statistics.log.table import LogTable
from rag_bm25.store.rows import LogRow
from rag_bm25.vectors.terms import term_id


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore(exclusive=False)
    store.create()
    return store


def opened(store: MemoryStore) -> StatisticsLog:
    """Another process."""
    return read_anew(store)


def grow(log: StatisticsLog, number: int, batches: int = 4) -> None:
    for at in range(batches):
        log.refresh()
        write_words(log, ["all", f"w{number}.{at}"], "xyz"[at % 3])


def assert_sound(store: MemoryStore, expected: int, *others: StatisticsLog) -> None:
    for log in (read_anew(store), *others):
        log.refresh()
        assert log.problems == []
        assert shown(log)[:2] == (expected, 2 * expected)
        assert shown(log)[2][term_id("all")] == expected
        assert sum(shown(log, name)[0] for name in log.statistics.namespaces) == expected
        assert len(shown(log)[2]) == expected + 1


# One at a time


def test_writer_does_not_compact_while_another_one_does(store: MemoryStore) -> None:
    first, second = opened(store), opened(store)
    grow(first, 1)
    second.refresh()
    seen = []

    def compact_too(method: str) -> None:
        if method == "insert_log" and rows(store, "compaction"):
            store_of(first).on_call = None
            second.compact(above=0)
            seen.append(kinds(store).count("head"))

    store_of(first).on_call = compact_too
    first.compact(above=0)
    assert seen == [0]
    assert kinds(store).count("head") == 1
    assert "compaction" not in kinds(store)
    assert_sound(store, 4, first, second)


def test_of_two_writers_that_begin_at_once_none_compacts(store: MemoryStore) -> None:
    """The next batch of either tries again."""
    first, second = opened(store), opened(store)
    grow(first, 1)
    second.refresh()

    def compact_too(method: str) -> None:
        if method == "log_keys" and rows(store, "compaction"):
            store_of(first).on_call = None
            store.insert_log([LogRow(str(LogKey("compaction", second.new_batch())), "compaction")])

    store_of(first).on_call = compact_too
    first.compact(above=0)
    assert kinds(store).count("head") == 0
    assert kinds(store).count("compaction") == 1  # the own one is gone
    store.delete_log([row.key for row in rows(store, "compaction")])
    first.compact(above=0)
    assert kinds(store).count("head") == 1


YEAR = 365 * 86400.0


def dead_compaction(store: MemoryStore, ahead: float = 0.0) -> None:
    """The mark of a writer that died, with a clock that was so far ahead."""
    began = int((time.time() + ahead) * 1e6)
    store.insert_log([LogRow(str(LogKey("compaction", f"{began:016x}beef")), "compaction")])


@pytest.mark.parametrize("ahead", [0.0, -YEAR, YEAR])
def test_compaction_of_a_dead_writer_expires_by_the_time_that_an_open_log_has_seen_it(
    ahead: float, store: MemoryStore, clocks: Clocks
) -> None:
    log = opened(store)
    grow(log, 1)
    log._claims.look([])  # it comes later
    dead_compaction(store, ahead)
    log.compact(above=0)
    clocks.wait(CLAIM_SECONDS - 1)
    log.compact(above=0)
    assert kinds(store).count("head") == 0
    clocks.wait(2)
    log.compact(above=0)
    assert kinds(store).count("head") == 1
    assert "compaction" not in kinds(store)


@pytest.mark.parametrize("ahead", [0.0, YEAR])
def test_commands_that_run_every_five_minutes_compact_after_a_dead_writer(
    ahead: float, store: MemoryStore, clocks: Clocks
) -> None:
    """As from a crontab: none of them lives for long, and the dead one's clock may have been wrong."""
    grow(opened(store), 1)
    dead_compaction(store, ahead)
    compacted = []
    for _ in range(5):
        opened(store).compact(above=0)
        compacted.append(kinds(store).count("head"))
        clocks.wait(300)
    assert compacted == [0, 0, 1, 1, 1]
    assert "compaction" not in kinds(store)


def test_a_clock_that_is_behind_ends_no_compaction_of_others(store: MemoryStore, clocks: Clocks) -> None:
    grow(opened(store), 1)
    dead_compaction(store)
    clocks.now -= YEAR
    opened(store).compact(above=0)
    clocks.now += YEAR
    opened(store).compact(above=0)
    assert kinds(store).count("head") == 0


def test_compaction_that_fails_leaves_no_sign(store: MemoryStore) -> None:
    log = opened(store)
    grow(log, 1)

    def interrupt(method: str) -> None:
        if method == "insert_log" and rows(store, "compaction"):
            store_of(log).on_call = None
            raise KeyboardInterrupt

    store_of(log).on_call = interrupt
    with pytest.raises(KeyboardInterrupt):
        log.compact(above=0)
    assert "compaction" not in kinds(store)
    log.compact(above=0)
    assert_sound(store, 4, log)


def test_embedded_writer_leaves_no_sign_at_all() -> None:
    store = MemoryStore()
    store.create()
    log = read_anew(store)
    grow(log, 1)
    seen: set[str] = set()
    store_of(log).on_call = lambda _: seen.update(kinds(store))
    log.compact(above=0)
    assert "compaction" not in seen


# Between any two calls of a compaction


def batch(log: StatisticsLog) -> None:
    log.refresh()
    write_words(log, ["all", "new"], "x")


def reading(log: StatisticsLog) -> None:
    log.refresh()
    shown(log, "x")


def compaction(log: StatisticsLog) -> None:
    """As if the first one's had expired: it takes ten minutes and more."""
    store = log._store
    store.delete_log([row.key for row in rows(store, "compaction")])  # type: ignore[arg-type]
    log.refresh()
    log.compact(above=0)


@pytest.mark.parametrize("other", [batch, reading, compaction])
@pytest.mark.parametrize("fan", [2, 8])
def test_another_process_acts_between_any_two_calls_of_a_compaction(
    other: Callable[[StatisticsLog], None], fan: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sums, "FAN", fan)
    monkeypatch.setattr("rag_bm25.statistics.log.packing.COUNTS_PER_ROW", 4)
    monkeypatch.setattr("rag_bm25.statistics.log.table.ROWS_PER_INSERT", 2)
    monkeypatch.setattr("rag_bm25.statistics.log.runs.ROWS_PER_INSERT", 2)
    for call in itertools.count():
        store = MemoryStore(exclusive=False)
        store.create()
        first = opened(store)
        grow(first, 1)
        first.compact(above=0)
        grow(first, 2)
        first.compact(above=0)
        grow(first, 3)
        second = opened(store)
        calls = itertools.count()

        def act(_: str, calls: itertools.count[int] = calls, second: StatisticsLog = second, call: int = call) -> None:
            if next(calls) == call:
                other(second)

        store_of(first).on_call = act
        first.compact(above=0)
        store_of(first).on_call = None
        expected = 12 + (other is batch and next(calls) > call)
        for log in (first, second, opened(store), first):
            assert_sound(store, expected, first, second)
            log.compact(above=0)
            grow(log, 3, 0)
        assert_sound(store, expected, first, second)
        if next(calls) <= call + 1:
            assert call > 8
            return


def test_head_of_a_slow_compaction_does_not_count_after_a_later_one(store: MemoryStore) -> None:
    """Its name is older; what it has written is deleted."""
    slow, fast = opened(store), opened(store)
    grow(slow, 1)
    fast.refresh()

    def overtake(method: str) -> None:
        if method == "insert_log" and rows(store, "run"):
            store_of(slow).on_call = None
            compaction(fast)
            grow(fast, 2)

    store_of(slow).on_call = overtake
    slow.compact(above=0)
    assert_sound(store, 8, slow, fast)
    fast.compact(above=0)
    assert_sound(store, 8, slow, fast)
    names = {run.name for run in read_head(LogTable(store)).runs}
    assert {LogKey.parse(row.key).name for row in rows(store, "run")} <= names | {max(names)}


# Readers


def test_reader_that_missed_no_delta_adopts_a_head_and_reads_no_counts(store: MemoryStore) -> None:
    writer = opened(store)
    for number in range(4):
        grow(writer, number)
        reader = opened(store)
        before = shown(reader), shown(reader, "x")
        statistics = reader.statistics
        writer.compact(above=0)
        asked = asked_of(store_of(reader), reader.refresh)
        assert {LogKey.parse(key).kind for key in asked} <= {"head", "run", "terms"}
        totals = {key for info in read_head(LogTable(store)).runs for key in run_keys(info.name, info.pages)}
        assert not totals & set(asked)
        assert asked_of(store_of(reader), lambda reader=reader: (shown(reader), shown(reader, "x"))) == []  # type: ignore[misc]
        assert (shown(reader), shown(reader, "x")) == before
        assert reader.statistics is not statistics


def run_keys(name: str, pages: int) -> list[str]:
    return [str(LogKey.row("run", name, place)) for place in range(pages)]


def test_writers_that_compact_in_turn_adopt_each_others_heads(store: MemoryStore) -> None:
    """None of them reads counts again that it has."""
    first, second = opened(store), opened(store)
    for number in range(6):
        one, other = (first, second) if number % 2 else (second, first)
        grow(one, number)
        other.refresh()
        assert (shown(other), shown(one)) == (shown(read_anew(store)),) * 2
        one.compact(above=0)
        asked = asked_of(store_of(other), lambda other=other: (other.refresh(), shown(other)))  # type: ignore[misc]
        pages = {key for info in read_head(LogTable(store)).runs for key in run_keys(info.name, info.pages)}
        assert not pages & set(asked), number
        assert_sound(store, 4 * (number + 1), first, second)


def test_reader_that_missed_deltas_of_two_compactions_reads_anew(store: MemoryStore) -> None:
    writer, reader = opened(store), opened(store)
    grow(writer, 1)
    reader.refresh()
    shown(reader, "x")
    for number in (2, 3):
        grow(writer, number)
        writer.compact(above=0)
    asked = asked_of(store_of(reader), reader.refresh)
    assert any(LogKey.parse(key).kind == "run" for key in asked)
    assert_sound(store, 12, reader)
    assert asked_of(store_of(reader), lambda: shown(reader, "x")) == []  # what was asked for is there again at once


def test_batch_that_ended_before_two_compactions_is_not_open_for_ever(store: MemoryStore) -> None:
    """A reader that saw its intent finds neither that nor its delta."""
    ending, writer, reader = opened(store), opened(store), opened(store)
    write = ending.open_write(intent(ending), {})
    reader.refresh()
    assert reader.has_intents
    write.commit(counted(0, 0))
    for number in (1, 2, 3):
        grow(writer, number)
        writer.compact(above=0)
    assert not any(write.intent.batch in key for key in store.collections.log)
    reader.refresh()
    assert not reader.has_intents


def test_writer_goes_on_after_others_have_compacted_twice(store: MemoryStore) -> None:
    first, second = opened(store), opened(store)
    for number in range(6):
        one, other = (first, second) if number % 2 else (second, first)
        for part in range(2):
            grow(one, 10 * number + part)
            one.compact(above=0)
        assert_sound(store, 8 * (number + 1), one)
        write(other, counted(0, 0))  # as far as it knows
        assert_sound(store, 8 * (number + 1), first, second)
