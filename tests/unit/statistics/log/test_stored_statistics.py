"""The counts of a namespace are read when someone asks for them, and are those of the moment that was asked."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from support.clocks import PATIENCE
from support.log_writing import counted, read_anew, rows, shown, store_of, write, write_words
from support.memory_store import MemoryStore

from rag_bm25.statistics.corpus import CorpusCounts
from rag_bm25.statistics.log.keys import LogKey
from rag_bm25.statistics.log.log import StatisticsLog
from rag_bm25.statistics.log.stored_statistics import NamespaceChange, StoredStatistics
from rag_bm25.statistics.log.table import RowsMovedError
from rag_bm25.vectors.terms import term_id


@pytest.fixture
def store() -> MemoryStore:
    """A server's, with namespaces in runs and in deltas."""
    store = MemoryStore(exclusive=False)
    store.create()
    log = StatisticsLog(store)
    for name in "xyz":
        write_words(log, ["all", name], name)
    log.compact(above=0)
    write_words(log, ["all", "late"], "x")
    return store


def reads(log: StatisticsLog, call: Callable[[], object]) -> list[str]:
    """Return the kinds of rows that a call reads, call by call."""
    found: list[str] = []
    store = store_of(log)
    get_log = store.get_log
    store.get_log = lambda keys, **options: (  # type: ignore[method-assign]
        found.append("+".join(sorted({LogKey.parse(key).kind for key in keys}))),
        get_log(keys, **options),
    )[1]
    try:
        call()
    finally:
        store.get_log = get_log  # type: ignore[method-assign]
    return found


def df(statistics: CorpusCounts) -> dict[int, int]:
    total = statistics.contribution()
    return dict(zip(total.ids.tolist(), total.df.tolist(), strict=True))


ALL, LATE, X = term_id("all"), term_id("late"), term_id("x")


def test_counts_of_a_namespace_are_read_once_and_when_they_are_asked_for(store: MemoryStore) -> None:
    log = read_anew(store)
    assert reads(log, lambda: (log.statistics.num_chunks, log.statistics.filled, log.statistics.of_one("none"))) == []
    assert reads(log, lambda: log.statistics.of_one("x")) == ["run"]
    assert reads(log, lambda: log.statistics.of_one("x")) == []
    assert reads(log, lambda: log.statistics.whole) == ["run"]
    assert reads(log, lambda: log.statistics.of(["x", "y"])) == ["run"]
    assert reads(log, lambda: log.statistics.of(["y", "x"])) == []
    assert df(log.statistics.of_one("x")) == {ALL: 2, X: 1, LATE: 1}


def test_what_was_read_is_handed_on(store: MemoryStore) -> None:
    """Through batches of this process, of others, and through compactions."""
    log, other = read_anew(store), read_anew(store)
    log.statistics.of_one("x"), log.statistics.whole
    write(log, counted(1, 2, all=1), namespace="x")
    assert reads(log, lambda: (shown(log, "x"), shown(log))) == []
    other.refresh()
    other.compact(above=0)
    write(other, counted(1, 2, all=1), namespace="x")
    assert not any("run" in kind for kind in reads(log, lambda: (log.refresh(), shown(log, "x")))[2:])
    assert shown(log, "x") == shown(read_anew(store), "x") == (4, 8, {ALL: 4, X: 1, LATE: 1})
    assert shown(log) == shown(read_anew(store))


def test_moment_keeps_its_counts_while_others_follow(store: MemoryStore) -> None:
    log = read_anew(store)
    moments = []
    for number in range(5):
        moments.append(log.statistics)
        write(log, counted(1, 2, all=1), namespace="x")
        if number % 2:
            log.compact(above=0)
    for number, moment in reversed(list(enumerate(moments))):  # the newest is read first
        assert moment.of_one("x").num_chunks == 2 + number
        assert df(moment.of_one("x")) == {ALL: 2 + number, X: 1, LATE: 1}
        assert df(moment.whole)[ALL] == 4 + number
        assert df(moment.of_one("y")) == {ALL: 1, term_id("y"): 1}


def test_moment_whose_rows_are_gone_takes_the_counts_of_the_next_ones(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Less what has changed since."""
    monkeypatch.setattr("rag_bm25.statistics.log.sums.FAN", 2)  # each compaction writes another run
    log = read_anew(store)
    moment, runs = log.statistics, {row.key for row in rows(store, "run")}
    for _ in range(3):
        write(log, counted(1, 2, all=1, new=1), namespace="x")
        write(log, counted(-1, -2, all=-1, y=-1), namespace="y")
        write(log, counted(2, 4, all=2, y=2), namespace="y")
        log.compact(above=0)
    assert not runs & store.collections.log.keys()
    assert df(moment.of_one("x")) == {ALL: 2, X: 1, LATE: 1}
    assert (moment.of_one("x").num_chunks, moment.of_one("x").total_length) == (2, 4)
    assert df(moment.whole) == {ALL: 4, X: 1, LATE: 1, term_id("y"): 1, term_id("z"): 1}
    assert df(log.statistics.of_one("x"))[ALL] == 5


def test_last_moment_whose_rows_are_gone_says_so(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refresh gives another one."""
    monkeypatch.setattr("rag_bm25.statistics.log.sums.FAN", 2)
    log, other = read_anew(store), read_anew(store)
    for _ in range(3):
        write(other, counted(1, 2, all=1), namespace="x")
        other.compact(above=0)
    with pytest.raises(RowsMovedError, match="compacted while they were read: try again"):
        log.statistics.of_one("x")
    log.refresh()
    assert shown(log, "x") == shown(other, "x")


@pytest.mark.parametrize("act", ["commit", "compaction", "both"])
def test_reader_that_loads_while_a_writer_is_at_work_has_the_counts_of_its_moment(store: MemoryStore, act: str) -> None:
    """The next moments have what it reads, however the two meet."""
    log = read_anew(store)
    moment = log.statistics
    is_reading, may_read = threading.Event(), threading.Event()
    get_log = store_of(log).get_log
    found: list[dict[int, int]] = []

    def blocking(keys: list[str], **options: bool) -> object:
        if threading.current_thread() is reader:
            is_reading.set()
            assert may_read.wait(PATIENCE)
        return get_log(keys, **options)

    store_of(log).get_log = blocking  # type: ignore[method-assign,assignment]
    reader = threading.Thread(target=lambda: found.append(df(moment.of_one("x"))), daemon=True)
    reader.start()
    assert is_reading.wait(PATIENCE)
    if act != "compaction":
        write(log, counted(1, 2, all=1), namespace="x")
    if act != "commit":
        log.compact(above=0)
    may_read.set()
    reader.join(PATIENCE)
    assert found == [{ALL: 2, X: 1, LATE: 1}]
    assert reads(log, lambda: log.statistics.of_one("x")) == []
    assert df(log.statistics.of_one("x")) == {ALL: 2 + (act != "compaction"), X: 1, LATE: 1}


@pytest.mark.parametrize("step", ["before the moment is known", "after"])
def test_what_is_read_while_the_next_moment_is_made_is_handed_on(
    store: MemoryStore, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = read_anew(store)
    moment = log.statistics
    changed, put = StoredStatistics._changed, StoredStatistics.put
    moment.of_one("y")

    def read_before(self: StoredStatistics, part: str | None, *rest: object) -> object:
        if self is moment and part == "y":  # what was read is being copied
            moment.of_one("x")
        return changed(self, part, *rest)  # type: ignore[arg-type]

    def read_after(self: StoredStatistics, part: str | None, counts: CorpusCounts) -> None:
        put(self, part, counts)
        if self is not moment and part == "y":
            moment.of_one("x")

    with monkeypatch.context() as patch:
        if step == "after":
            patch.setattr(StoredStatistics, "put", read_after)
        else:
            patch.setattr(StoredStatistics, "_changed", read_before)
        following = moment.plus([NamespaceChange("x", counted(1, 2, all=1))])
    assert set(following.loaded()) == {"x", "y"}
    assert df(following.of_one("x")) == {ALL: 3, X: 1, LATE: 1}
    assert df(moment.of_one("x")) == {ALL: 2, X: 1, LATE: 1}


class Waiting:
    """A lock that tells how many threads have asked for it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.asked = threading.Semaphore(0)

    def __enter__(self) -> None:
        self.asked.release()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_one_thread_reads_for_all(store: MemoryStore) -> None:
    log = read_anew(store)
    log.statistics._loading["x"] = lock = Waiting()  # type: ignore[assignment]
    found: list[CorpusCounts] = []
    threads = [threading.Thread(target=lambda: found.append(log.statistics.of_one("x"))) for _ in range(3)]

    def run() -> None:
        with lock._lock:
            for thread in threads:
                thread.start()
                assert lock.asked.acquire(timeout=PATIENCE)  # each of them has found nothing read yet
        for thread in threads:
            thread.join(PATIENCE)

    assert reads(log, run) == ["run"]
    assert len({id(one) for one in found}) == 1


def test_counts_below_zero_are_told_once_they_were_read(store: MemoryStore) -> None:
    other = read_anew(store)
    write(other, counted(0, 0, y=-2), namespace="y")
    log = read_anew(store)
    other.compact(above=0)
    for one in (log, read_anew(store)):
        assert one.statistics.negative == []
        one.statistics.of_one("y")
        assert one.statistics.negative == ["y"]
        one.refresh()
        assert one.statistics.negative == ["y"]
    write(log, counted(0, 0, y=2), namespace="y")
    assert log.statistics.negative == []


def test_totals_below_zero_are_told_at_once(store: MemoryStore) -> None:
    write(read_anew(store), counted(-2, 0), namespace="y")
    assert read_anew(store).statistics.negative == ["y"]


def test_empty_namespace_is_no_longer_filled(store: MemoryStore) -> None:
    log = read_anew(store)
    write(log, counted(-1, -2, all=-1, y=-1), namespace="y")
    for one in (log, read_anew(store)):
        assert (one.statistics.namespaces, one.statistics.filled) == (["x", "y", "z"], ["x", "z"])
        assert df(one.statistics.of_one("y")) == {}
