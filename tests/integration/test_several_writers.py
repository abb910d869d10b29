"""Several writers at once: on a server over TCP, and with true concurrency on the in-memory store."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from support import engines
from support.memory_store import MemoryStore
from support.serialized_store import serialized

from rag_bm25 import BM25Index
from rag_bm25.errors import RagBM25Error, StoreError
from rag_bm25.index.writing import chunk_writer
from rag_bm25.statistics.log.log import StatisticsLog
from rag_bm25.store.rows import ChunkRow

Open = Callable[..., BM25Index]

WRITERS = 4


class SharedStore(MemoryStore):
    """Rows that several writers change; of two rows under one pk the last one stays, as in milvus-lite 3."""

    def __init__(self, other: SharedStore | None = None) -> None:
        super().__init__(exclusive=False, collections=other.collections if other else None)

    def reopen(self) -> SharedStore:
        return SharedStore(self)

    def insert_chunks(self, rows: Sequence[ChunkRow]) -> None:
        for row in rows:
            self.collections.chunks.pop(row.pk, None)
        self.collections.postings.remove(row.pk for row in rows)
        super().insert_chunks(rows)

    def texts(self) -> dict[str, str]:
        return {row.id: row.text for row in self.collections.chunks.values()}


@pytest.fixture
def store() -> SharedStore:
    return SharedStore()


# Over TCP


@pytest.mark.parametrize("engine", ["server", *engines.SERVERS])
def test_four_processes_write_and_two_read_what_was_acknowledged(engine: str, tmp_path: Path) -> None:
    from soak.several_writers import run

    run(engines.uri_of(engine), tmp_path, writers=4, readers=2, operations=6)


# In threads


class Crowd:
    """Threads on one store: calls come one at a time, and in any order."""

    def __init__(self, store: SharedStore, opened: Open) -> None:
        self._lock = threading.Lock()
        self._store = store
        self._opened = opened
        self._errors: list[Exception] = []
        self.writing = WRITERS
        opened(store.reopen())

    def index(self, seed: object) -> BM25Index:
        rng = random.Random(str(seed))
        safe = serialized(self._store.reopen(), lambda: self._lock, lambda _: time.sleep(rng.choice([0, 0, 0.0005])))
        return self._opened(safe)

    def run(self, *tasks: Callable[[], None]) -> None:
        threads = [threading.Thread(target=self._guarded, args=[task]) for task in tasks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert self._errors == []

    def _guarded(self, task: Callable[[], None]) -> None:
        try:
            task()
        except (AssertionError, RagBM25Error) as error:
            self._errors.append(error)
            self.writing = 0


def text(rng: random.Random) -> str:
    return " ".join(f"w{rng.randrange(60)}" for _ in range(rng.randrange(1, 8)))


@pytest.mark.usefixtures("compact_often")
def test_writers_of_different_chunks_leave_exact_statistics(store: SharedStore, opened: Open) -> None:
    crowd, written = Crowd(store, opened), [dict[str, str]() for _ in range(WRITERS)]
    acknowledged, begun = [0] * WRITERS, [0] * WRITERS

    def write(number: int) -> None:
        rng, index = random.Random(number), crowd.index(number)
        for _ in range(25):
            ids = {f"{number}-{rng.randrange(30)}" for _ in range(rng.randrange(1, 6))}
            texts = {id_: text(rng) for id_ in sorted(ids)}
            written[number] |= texts
            begun[number] = len(written[number])
            index.add(list(texts.values()), ids=list(texts))
            acknowledged[number] = len(written[number])
        crowd.writing -= 1

    def read(number: int) -> None:
        index = crowd.index(f"reader {number}")
        while crowd.writing > 0:
            least = sum(acknowledged)
            index.refresh()
            assert least <= index.stats().num_chunks <= sum(begun)

    crowd.run(*(partial(write, n) for n in range(WRITERS)), *(partial(read, n) for n in range(2)))
    assert store.texts() == {id_: text for some in written for id_, text in some.items()}
    assert opened(store.reopen()).verify().differences == []


@pytest.mark.usefixtures("compact_often")
def test_writers_of_the_same_chunks_leave_what_one_of_them_wrote_and_repair_mends_the_counts(
    store: SharedStore, opened: Open
) -> None:
    crowd = Crowd(store, opened)
    written: dict[str, set[str]] = {f"{number}": set() for number in range(8)}

    def write(number: int) -> None:
        rng, index = random.Random(number), crowd.index(number)
        for _ in range(25):
            texts = {id_: text(rng) for id_ in sorted(rng.sample(sorted(written), 3))}
            for id_, some in texts.items():
                written[id_].add(some)
            add_again_where_refused(index, texts)

    crowd.run(*(partial(write, n) for n in range(WRITERS)))
    index = opened(store.reopen())
    index.repair()
    assert index.verify().differences == []
    assert {id_ for id_, some in store.texts().items() if some in written[id_]} == set(written)
    assert len(store.collections.chunks) == len(written)


def add_again_where_refused(index: BM25Index, texts: dict[str, str]) -> None:
    for _ in range(20):
        try:
            index.add(list(texts.values()), ids=list(texts))
        except StoreError:
            continue
        return
    pytest.fail("a writer was refused 20 times")


def test_verify_names_what_two_writers_of_one_chunk_did_and_repair_mends_it(store: SharedStore, opened: Open) -> None:
    opened(store.reopen()).add(["apple"], ids=["a"])
    other, slow = opened(store.reopen()), store.reopen()
    index = opened(slow)

    def overtake(method: str) -> None:
        if method == "insert_log":
            slow.on_call = None
            other.add(["banana"], ids=["a"])

    slow.on_call = overtake  # after it has read the chunk, and before it has told what it will do
    index.add(["cherry"], ids=["a"])
    assert store.texts() == {"a": "cherry"}
    checked = opened(store.reopen())
    assert sorted(map(str, checked.verify().differences)) == [
        "df of 'apple': stored -1, counted 0",
        "df of 'banana': stored 1, counted 0",
    ]
    checked.repair()
    assert checked.verify().differences == []


def test_writers_of_one_chunk_do_not_delete_each_other_s_rows(store: SharedStore, opened: Open) -> None:
    """One of them read the chunk in slot a, another one later in slot b: each is about to empty the other's slot."""
    opened(store.reopen()).add(["apple"], ids=["a"])
    newest, begun, go_on = store.reopen(), threading.Event(), threading.Event()

    def wait(method: str) -> None:
        if method == "insert_chunks":
            begun.set()
            go_on.wait()

    late = opened(serialized(store.reopen(), nullcontext, wait))
    thread = threading.Thread(target=late.add, args=[["banana"]], kwargs={"ids": ["a"]})
    thread.start()
    begun.wait()
    opened(store.reopen()).add(["cherry"], ids=["a"])
    other = opened(newest)

    def let_it_finish(method: str) -> None:
        if newest.calls[-2:] == ["insert_chunks", method]:
            go_on.set()
            thread.join()

    newest.on_call = let_it_finish
    other.add(["fig"], ids=["a"])
    checked = opened(store.reopen())
    checked.repair()
    assert [chunk.text for chunk in checked.chunks()] == ["fig"]
    assert checked.verify().differences == []


def test_words_first_seen_by_two_writers_at_once_get_one_id(store: SharedStore, opened: Open) -> None:
    one, other = opened(store.reopen()), store.reopen()
    index = opened(other)

    def overtake(method: str) -> None:
        if method == "insert_log":
            other.on_call = None
            one.add(["new word"], ids=["a"])

    other.on_call = overtake
    index.add(["new word"], ids=["b"])
    reader = opened(store.reopen(), read_only=True)
    assert reader.verify().differences == []
    assert sorted(hit.id for hit in reader.search("word")) == ["a", "b"]


# Dead writers, and those taken for dead


class Case(NamedTuple):
    """What a writer does to ``{"a": "apple", "b": "banana split"}``, and what is stored afterwards."""

    write: Callable[[BM25Index], object]
    result: dict[str, str]


CASES = {
    "insert": Case(
        lambda index: index.add(["apple pie", "fig"], ids=["x", "y"]),
        {"a": "apple", "b": "banana split", "x": "apple pie", "y": "fig"},
    ),
    "update": Case(lambda index: index.add(["cherry"], ids=["a"]), {"a": "cherry", "b": "banana split"}),
    "both": Case(
        lambda index: index.add(["cherry", "fig tart", "banana split"], ids=["a", "x", "b"]),
        {"a": "cherry", "b": "banana split", "x": "fig tart"},
    ),
    "delete": Case(lambda index: index.delete(["a"]), {"b": "banana split"}),
}


def filled(opened: Open) -> SharedStore:
    store = SharedStore()
    opened(store).add(["apple", "banana split"], ids=["a", "b"])
    return store


def calls_of(case: Case, opened: Open) -> int:
    """How many calls of the store a write makes."""
    store = filled(opened)
    counted = store.reopen()
    index = opened(counted)
    before = len(counted.calls)
    case.write(index)
    return len(counted.calls) - before


def at_call(store: SharedStore, numbers: Sequence[int], act: Callable[[], object]) -> None:
    """Do something before each of some calls of the store, counted from now."""
    number = itertools.count()

    def on_call(method: str) -> None:
        if next(number) in numbers:
            act()

    store.on_call = on_call


def refused(write: Callable[[], object]) -> bool:
    """Tell whether a write ends with the advice to verify."""
    try:
        write()
    except StoreError as error:
        return "Its chunks are stored. Run verify" in str(error)
    return False


def open_elsewhere(store: SharedStore, opened: Open) -> None:
    """Open the index as another process, which finishes what seems dead."""
    opened(store.reopen())


def compact_elsewhere(store: SharedStore, opened: Open) -> None:
    """Open the index as another process, and sum everything up."""
    opened(store.reopen())._live.log.compact(above=0)


def unfinished(store: SharedStore) -> list[str]:
    log = StatisticsLog(store.reopen())
    log.refresh()
    return log.open_batches.batches


def die() -> None:
    raise StoreError("died")


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("times", [1, 2])
def test_premature_recovery_between_any_calls_does_no_harm(
    case: Case, times: int, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk_writer, "LEASE_SECONDS", -1.0)
    for moments in itertools.combinations(range(calls_of(case, opened)), times):
        store = filled(opened)
        slow = store.reopen()
        index = opened(slow)
        at_call(slow, moments, partial(open_elsewhere, store, opened))
        case.write(index)
        assert store.texts() == case.result, moments
        assert opened(store.reopen()).verify().differences == [], moments
        assert not unfinished(store), moments


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_premature_recovery_folded_into_a_run_is_right_or_an_error(
    case: Case, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the delta of another's recovery is in a run, nobody knows any more what it counted."""
    monkeypatch.setattr(chunk_writer, "LEASE_SECONDS", -1.0)
    for moment in range(calls_of(case, opened)):
        store = filled(opened)
        slow = store.reopen()
        index = opened(slow)
        at_call(slow, [moment], partial(compact_elsewhere, store, opened))
        if refused(partial(case.write, index)):
            opened(store.reopen()).repair()
        assert store.texts() == case.result, moment
        assert opened(store.reopen()).verify().differences == [], moment


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("next_one", ["the same", "other texts", "deletes"])
def test_dead_writer_s_chunks_can_be_written_by_another_within_its_lease(
    case: Case, next_one: str, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ingest that dies and is started again at once, long before the lease is over."""
    again = {
        "the same": case,
        "other texts": Case(lambda index: index.add(["grape juice", "fig grape"], ids=["a", "x"]), {}),
        "deletes": Case(lambda index: index.delete(["a", "b", "x"]), {}),
    }[next_one]
    for moment in range(calls_of(case, opened)):
        store = filled(opened)
        dying = store.reopen()
        index = opened(dying)
        at_call(dying, [moment], die)
        with pytest.raises(StoreError, match="died"):
            case.write(index)
        again.write(opened(store.reopen()))
        with monkeypatch.context() as later:
            later.setattr(chunk_writer, "LEASE_SECONDS", -1.0)
            checked = opened(store.reopen())
        assert checked.verify().differences == [], moment
        assert next_one != "the same" or store.texts() == case.result, moment
