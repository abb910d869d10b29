"""A refresh lists what may be new, and not the whole log; what comes late is found all the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

import pytest
from support.clocks import Clocks
from support.log_writing import counted, intent, read_anew, rows, shown, taken, write, write_words
from support.memory_store import MemoryStore

from rag_bm25.statistics.log import log as statistics_log
from rag_bm25.statistics.log.keys import LogKey
from rag_bm25.statistics.log.log import StatisticsLog
from rag_bm25.statistics.log.table import OVERLAP_SECONDS, RowsMovedError
from rag_bm25.statistics.log.terms import REMAINDER_SECONDS
from rag_bm25.store.rows import KeyRange
from rag_bm25.vectors.terms import term_id


@pytest.fixture
def server() -> MemoryStore:
    store = MemoryStore(exclusive=False)
    store.create()
    return store


def listed_by(log: StatisticsLog, call: Callable[[], object] | None = None) -> list[str]:
    """Return the keys that a refresh lists."""
    listed: list[str] = []
    store = log._store
    log_keys = store.log_keys

    def listing(ranges: Sequence[KeyRange] | None = None) -> list[str]:
        found = log_keys(ranges)
        listed.extend(found)
        return found

    store.log_keys = listing  # type: ignore[method-assign]
    try:
        (call or log.refresh)()
    finally:
        store.log_keys = log_keys  # type: ignore[method-assign]
    return listed


def grow(log: StatisticsLog, batches: int, *, clocks: Clocks | None = None) -> None:
    for number in range(batches):
        if clocks:
            clocks.wait(1)
        log.refresh()
        log.compact()
        write_words(log, ["all", f"w{number}"], "xy"[number % 2])


def test_refresh_without_news_lists_next_to_nothing(
    log: StatisticsLog, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for above in (10_000, 8):  # with a long log, and with a short one
        monkeypatch.setattr(statistics_log, "COMPACT_ABOVE", above)
        grow(log, 150)
        other = StatisticsLog(store.reopen())
        assert len(listed_by(other)) >= len(rows(store, "delta"))
        for one in (log, other):
            one.refresh()
            assert len(listed_by(one)) <= 10
        assert shown(other) == shown(log)


def test_refresh_lists_what_another_index_of_the_process_has_written(log: StatisticsLog, store: MemoryStore) -> None:
    other = StatisticsLog(store.reopen())
    grow(log, 40)
    other.refresh()
    grow(log, 1)
    assert {LogKey.parse(key).kind for key in listed_by(other)} == {"delta", "intent", "terms"} - {"terms"}
    assert shown(other) == shown(log)


@pytest.mark.slow
def test_on_a_server_what_is_old_is_not_listed_again(server: MemoryStore, clocks: Clocks) -> None:
    log = StatisticsLog(server)
    grow(log, 300, clocks=clocks)
    reader = read_anew(server)
    assert len(listed_by(reader)) > 10
    clocks.wait(OVERLAP_SECONDS + 1)
    assert len(listed_by(reader)) == 0  # though nobody has written since
    grow(log, 1)
    reader.refresh()
    assert len(listed_by(reader)) <= 10  # what came with older names
    assert shown(reader) == shown(log)


def test_write_does_not_list_the_log(log: StatisticsLog) -> None:
    grow(log, 60)
    assert len(listed_by(log, lambda: write_words(log, ["all", "new"], "x"))) == 0
    assert len(listed_by(log, lambda: (log.refresh(), log.compact(), write_words(log, ["all"], "x")))) <= 10


# Late rows


def late_batch(log: StatisticsLog, clocks: Clocks, seconds: float) -> Callable[[], None]:
    """Name a batch now, and let time pass; what is returned stores it."""
    began = intent(log)
    clocks.wait(seconds)
    return lambda: log.open_write(began, {}).commit(counted(1, 3, all=1))


@pytest.mark.parametrize("seconds", [0.5, OVERLAP_SECONDS - 1])
def test_batch_with_an_older_name_is_found_within_the_overlap(
    server: MemoryStore, clocks: Clocks, seconds: float
) -> None:
    first, second, reader = (StatisticsLog(server.reopen()) for _ in range(3))
    grow(first, 1)
    store_it = late_batch(second, clocks, seconds)
    grow(first, 1)
    reader.refresh()
    store_it()
    reader.refresh()
    assert shown(reader) == shown(read_anew(server))
    assert shown(reader)[0] == 3


def test_batch_that_came_later_than_that_is_found_by_its_number(server: MemoryStore, clocks: Clocks) -> None:
    """Its writer counts it with the next one; a reader that finds one less lists everything."""
    first, second, reader = (StatisticsLog(server.reopen()) for _ in range(3))
    grow(first, 2)
    second.refresh()
    store_it = late_batch(second, clocks, OVERLAP_SECONDS + 5)
    grow(first, 1)
    reader.refresh()
    store_it()
    reader.refresh()
    assert shown(reader)[0] == 3  # nothing tells of it
    grow(second, 1)
    reader.refresh()
    assert shown(reader) == shown(read_anew(server))
    assert (shown(reader)[0], reader.problems) == (5, [])


def test_end_of_a_batch_that_took_long_is_found_by_its_intent(server: MemoryStore, clocks: Clocks) -> None:
    first, second, reader = (StatisticsLog(server.reopen()) for _ in range(3))
    opened = second.open_write(intent(second), {})
    reader.refresh()
    clocks.wait(5 * OVERLAP_SECONDS)
    grow(first, 3)
    reader.refresh()
    assert reader.has_intents
    opened.commit(counted(1, 3, all=1))
    reader.refresh()
    assert not reader.has_intents
    assert shown(reader) == shown(read_anew(server))
    assert shown(reader)[0] == 4


def test_batch_of_an_embedded_engine_is_found_by_its_intent(log: StatisticsLog, store: MemoryStore) -> None:
    """A search of another index reads in the middle of it."""
    reader = StatisticsLog(store.reopen())
    opened = log.open_write(intent(log), {})
    reader.refresh()
    opened.commit(counted(1, 3, all=1))
    reader.refresh()
    assert shown(reader) == (1, 3, {term_id("all"): 1})


@pytest.mark.usefixtures("small_rows")
@pytest.mark.parametrize("exclusive", [True, False])
@pytest.mark.parametrize("kind", ["delta", "terms", "head", "intent"])
def test_entry_is_picked_up_when_its_last_part_arrives(
    kind: str, exclusive: bool, clocks: Clocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others have been read meanwhile, with greater names."""
    monkeypatch.setattr("rag_bm25.statistics.log.head.MAX_PACKED", 40)
    store = MemoryStore(exclusive=exclusive)
    store.create()
    log = StatisticsLog(store.reopen())
    reader = StatisticsLog(store.reopen())
    reader.refresh()
    reader.vocabulary()
    if kind == "intent":
        write(log, counted(1, 5, all=1), before=counted(0, 0, a=1, b=1, c=1), namespace="x")
    else:
        write_words(log, ["all", "a", "b", "c", "d"], "x")
    before = dict(store.collections.log)
    if kind == "head":
        log.compact(above=0)
        store.collections.log.update(before)
    last = taken(store, rows(store, kind)[-1].key)
    delta = taken(store, *(row.key for row in rows(store, "delta"))) if kind == "intent" else {}
    reader.refresh()
    clocks.wait(REMAINDER_SECONDS - 10)
    write(StatisticsLog(store.reopen()), counted(1, 2, all=1), namespace="y")
    reader.refresh()
    store.collections.log.update(last)
    reader.refresh()
    store.collections.log.update(delta)
    reader.refresh()
    other = read_anew(store)
    assert (shown(reader), shown(reader)[0]) == (shown(other), 2)
    assert set(reader.vocabulary()) == set(other.vocabulary())
    assert (reader.position, reader.problems) == (other.position, other.problems)


# Rows that move while they are read


@pytest.mark.parametrize("kind", ["head", "delta", "terms"])
def test_compaction_in_the_middle_of_a_refresh_loses_nothing(kind: str, server: MemoryStore, clocks: Clocks) -> None:
    """The reader has missed two compactions, and rows that it has listed are gone when it reads them."""
    log, reader = StatisticsLog(server.reopen()), StatisticsLog(server.reopen())
    grow(log, 4)
    reader.refresh()
    shown(reader, "x")
    for _ in range(2):
        grow(log, 3)
        log.compact(above=0)
    late = StatisticsLog(server.reopen())
    late.refresh()
    store_it = late_batch(late, clocks, OVERLAP_SECONDS + 5)
    grow(log, 1)
    get_log = reader._store.get_log
    failed: list[str] = []

    def moving(keys: Sequence[str], **options: bool) -> object:
        if not failed and any(LogKey.parse(key).kind == kind for key in keys):
            failed.extend(keys)
            raise RowsMovedError("moved")
        return get_log(keys, **options)

    reader._store.get_log = moving  # type: ignore[method-assign,assignment]
    store_it()
    reader.refresh()
    assert failed
    assert (shown(reader), shown(reader, "x")) == (shown(read_anew(server)), shown(read_anew(server), "x"))
    assert reader.problems == []


def test_rows_that_move_while_a_torn_read_is_repeated_lose_nothing(log: StatisticsLog, store: MemoryStore) -> None:
    reader = StatisticsLog(store.reopen())
    grow(log, 3)
    reader.refresh()
    with suppress(KeyboardInterrupt), reader._sums._changing():
        raise KeyboardInterrupt
    log.open_write(intent(log), {"new": term_id("new")})
    get_log = reader._store.get_log
    failed: list[str] = []

    def moving(keys: Sequence[str], **options: bool) -> object:
        if not failed and keys[0].startswith("terms"):
            failed.extend(keys)
            return []
        return get_log(keys, **options)

    reader._store.get_log = moving  # type: ignore[method-assign,assignment]
    reader.refresh()
    assert failed
    assert shown(reader) == shown(log)


def test_terms_that_come_while_others_are_loaded_are_known_to_both(log: StatisticsLog, store: MemoryStore) -> None:
    """A process may have the strings, and load the fingerprints when it begins to write."""
    write_words(log, ["a", "b"])
    reader = StatisticsLog(store.reopen())
    assert set(reader.vocabulary()) == {"a", "b"}
    calls: list[str] = []

    def write_between(method: str) -> None:
        calls.append(method)
        if calls.count("log_keys") == 2:
            reader._store.on_call = None  # type: ignore[attr-defined]
            write_words(log, ["c"])

    reader._store.on_call = write_between  # type: ignore[attr-defined]
    ids = {"a": term_id("a"), "c": term_id("c")}
    assert reader.known_terms().lookup(list(ids), list(ids.values())) == ids
    reader.refresh()
    assert set(reader.vocabulary()) == {"a", "b", "c"}
    assert reader.problems == []
