"""Searches wait for no writer, no long read and no other search, and each is of one moment."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from support.clocks import PATIENCE
from support.memory_store import MemoryStore
from support.reference import split

from rag_bm25 import RSJ, BM25Index, Fuzzy, IndexConfig, QueryExpansion
from rag_bm25.errors import StoreError
from rag_bm25.index import live_statistics
from rag_bm25.index.maintenance.copying import copy_index

CHUNKS = ["apple pie", "apple tart", "banana split"]


class Gate:
    """Stops the thread that comes to it until it is opened."""

    def __init__(self) -> None:
        self._reached, self._opened = threading.Event(), threading.Event()
        self._stopped: threading.Thread | None = None

    def stop(self, thread: threading.Thread) -> None:
        """Stop a thread where it is next."""
        self._stopped = thread

    def pass_through(self) -> None:
        if threading.current_thread() is self._stopped:
            self._reached.set()
            assert self._opened.wait(PATIENCE)

    def await_arrival(self) -> None:
        assert self._reached.wait(PATIENCE)

    def open(self) -> None:
        self._opened.set()


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def index(store: MemoryStore, gate: Gate) -> BM25Index:
    """An index whose analyzer stops at the gate with the word "slowly"."""

    def analyzer(text: str) -> list[str]:
        if "slowly" in text:
            gate.pass_through()
        return split(text)

    index = BM25Index.from_store(store, config=IndexConfig(chunk_size=4, length_unit="terms", analyzer=analyzer))
    index.add(CHUNKS, ids=["a", "b", "c"])
    return index


@contextmanager
def stuck(gate: Gate, act: Callable[[], object]) -> Iterator[threading.Thread]:
    """Act in a thread as far as the gate."""
    failures: list[BaseException] = []

    def guarded() -> None:
        try:
            act()
        except BaseException as error:  # noqa: BLE001 - raised below
            failures.append(error)

    thread = threading.Thread(target=guarded, daemon=True)
    gate.stop(thread)
    thread.start()
    gate.await_arrival()
    try:
        yield thread
    finally:
        gate.open()
        thread.join(PATIENCE)
    assert not thread.is_alive()
    assert failures == []


def soon(act: Callable[[], Any]) -> Any:
    """Return what a call in another thread returns; it fails if that takes long."""
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(act()), daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert answers, "it waits, or has failed"
    return answers[0]


READS: dict[str, Callable[[BM25Index], object]] = {
    "search": lambda index: [(hit.id, hit.score) for hit in index.search("apple")],
    "batch": lambda index: [[hit.id for hit in found] for found in index.search_batch(["apple", "split"])],
    "fuzzy": lambda index: [h.id for h in index.search("appel", expansion=QueryExpansion(fuzzy=Fuzzy()))],
    "feedback": lambda index: {hit.id for hit in index.search("pie", feedback=RSJ(["a"]))},
    "suggestion": lambda index: index.suggest("appel"),
    "explain": lambda index: index.explain("apple pie", "a").value,
    "vectors": lambda index: index.encode_queries(["apple pie"]),
    "documents": lambda index: index.encode_documents(["apple pie"]),
    "get": lambda index: index.get(["a"]),
    "stats": lambda index: index.stats().num_chunks,
    "problems": lambda index: index.problems,
    "repr": repr,
}
WRITING = ["get_chunks", "insert_log", "insert_chunks", "delete_chunks"]


def add(index: BM25Index) -> None:
    index.add(["apple crumble", "new words"], ids=["a", "d"])


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("method", WRITING)
def test_no_reader_waits_for_a_batch(method: str, read: str, index: BM25Index, store: MemoryStore, gate: Gate) -> None:
    look = READS[read]
    look(index)  # what it loads once is loaded
    before = look(index)
    store.on_call = lambda called: gate.pass_through() if called == method else None
    with stuck(gate, lambda: add(index)):
        found = soon(lambda: look(index))
    if method in {"get_chunks", "insert_log"}:  # nothing is written yet
        assert found == before
    assert index.stats().num_chunks == 4
    assert index.verify().ok


LONG: dict[str, tuple[str, Callable[[BM25Index, Path], object]]] = {
    "verify": ("scan_chunks", lambda index, _: index.verify()),
    "repair": ("scan_chunks", lambda index, _: index.repair()),
    "iteration": ("scan_chunks", lambda index, _: list(index.chunks())),
    "copy": ("scan_chunks", lambda index, _: copy_index(index._store, MemoryStore())),
    "refresh": ("log_keys", lambda index, _: index.refresh()),
    "drop": ("scan_chunks", lambda index, _: index.drop_namespace("other")),
    "search": ("search", lambda index, _: index.search("apple")),
    "reading": ("get_chunks", lambda index, _: index.get(["a"])),
}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("name", LONG)
def test_no_reader_waits_for_a_long_call(
    name: str, read: str, index: BM25Index, store: MemoryStore, gate: Gate, tmp_path: Path
) -> None:
    (method, act), look = LONG[name], READS[read]
    look(index)
    before = look(index)
    store.on_call = lambda called: gate.pass_through() if called == method else None
    with stuck(gate, lambda: act(index, tmp_path)):
        assert soon(lambda: look(index)) == before
    assert look(index) == before


@pytest.mark.parametrize("read", READS)
def test_no_reader_waits_for_an_analyzer(read: str, index: BM25Index, gate: Gate) -> None:
    look = READS[read]
    look(index)
    before = look(index)
    with stuck(gate, lambda: index.search("slowly")):
        assert soon(lambda: look(index)) == before


def test_a_batch_does_not_wait_for_the_analysis_of_a_search(index: BM25Index, gate: Gate) -> None:
    with stuck(gate, lambda: index.search("slowly")):
        soon(lambda: add(index))
        assert soon(index.stats).num_chunks == 4


@pytest.mark.parametrize("method", WRITING)
def test_on_a_server_no_search_that_is_due_to_refresh_waits_for_a_batch(method: str, gate: Gate) -> None:
    store = MemoryStore(exclusive=False)
    config = IndexConfig(chunk_size=4, length_unit="terms", analyzer=split)
    index = BM25Index.from_store(store, config=config, refresh_interval=0)
    index.add(CHUNKS, ids=["a", "b", "c"])
    store.on_call = lambda called: gate.pass_through() if called == method else None
    with stuck(gate, lambda: add(index)):
        assert len(soon(lambda: index.search("banana"))) == 1


def test_on_a_server_no_search_waits_for_the_refresh_of_another(config: IndexConfig, gate: Gate) -> None:
    store = MemoryStore(exclusive=False)
    index = BM25Index.from_store(store, config=config, refresh_interval=0)
    index.add(CHUNKS)
    before = index.search("apple")
    store.on_call = lambda called: gate.pass_through() if called == "log_keys" else None
    with stuck(gate, lambda: index.search("apple")):
        assert soon(lambda: index.search("apple")) == before


READING: dict[str, Callable[[BM25Index], object]] = {
    "search": lambda index: index.search("apple"),
    "refresh": lambda index: index.refresh(),
    "vocabulary": lambda index: index._live.vocabulary(),
}


@pytest.mark.parametrize("name", READING)
def test_a_search_sees_what_another_index_of_the_process_wrote_before(
    name: str, config: IndexConfig, gate: Gate
) -> None:
    """Also where a third thread is reading the log, which it has listed too early."""
    store = MemoryStore()
    index, other = (BM25Index.from_store(store, config=config) for store in (store, store.reopen()))
    index.add(CHUNKS)
    other.refresh()
    index.add(["fig"], ids=["first"])
    other._store.on_call = lambda called: gate.pass_through() if called == "get_log" else None  # type: ignore[attr-defined]
    with stuck(gate, lambda: READING[name](other)):
        index.add(["fig"], ids=["second"])
        found: list[int] = []
        late = threading.Thread(target=lambda: found.append(other.stats().num_chunks), daemon=True)
        late.start()
        late.join(0.2)
        assert found == []  # it waits for the other reader
    late.join(PATIENCE)
    assert found == [5]


BEGINNING: dict[str, Callable[[BM25Index], object]] = {
    "batch": lambda index: index.add(["kiwi"]),
    "verify": lambda index: index.verify(),
}


@pytest.mark.parametrize("name", BEGINNING)
def test_a_search_sees_what_was_written_before_though_a_writer_begins(
    name: str, config: IndexConfig, gate: Gate
) -> None:
    """The writer has not read yet what the search has to see."""
    store = MemoryStore()
    index, other = (BM25Index.from_store(store, config=config) for store in (store, store.reopen()))
    other.add(["fig"])
    store.on_call = lambda called: gate.pass_through() if called == "get_log" else None
    found: list[int] = []
    with stuck(gate, lambda: BEGINNING[name](index)):
        late = threading.Thread(target=lambda: found.append(len(index.search("fig"))), daemon=True)
        late.start()
        late.join(0.2)
        assert found == []  # it waits until that is read, and for nothing else
    late.join(PATIENCE)
    assert found == [1]


@pytest.mark.parametrize("read", [lambda index: index.search("fig"), lambda index: index.suggest("figs")])
def test_a_search_sees_during_a_repair_what_was_written_before(read: Any, config: IndexConfig, gate: Gate) -> None:
    store = MemoryStore()
    index, other = (BM25Index.from_store(store, config=config) for store in (store, store.reopen()))
    other.add(["fig"])
    store.on_call = lambda called: gate.pass_through() if called == "scan_chunks" else None
    with stuck(gate, index.repair):
        assert soon(lambda: read(index))


# A signal handler searches, in the midst of anything


def interrupt_at(line: int, files: tuple[str, ...], act: Callable[[], object], handler: Callable[[], object]) -> bool:
    """Act, and call a handler before the line of some files that is executed as the n-th; say whether there is one."""
    executed = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal executed
        if not frame.f_code.co_filename.endswith(files):
            return None
        if event == "line":
            executed += 1
            if executed == line:
                sys.settrace(None)
                handler()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(before)
    return executed >= line


ACTS: dict[str, Callable[[BM25Index], object]] = {
    "search": lambda index: index.search("fig"),
    "refresh": lambda index: index.refresh(),
    "batch": lambda index: index.add(["kiwi"]),
}
HANDLERS: dict[str, Callable[[BM25Index], object]] = {"search": ACTS["search"], "refresh": ACTS["refresh"]}
INTERRUPTING = [
    *(("search", True), ("refresh", False)),
    *(pytest.param(*each, marks=pytest.mark.slow) for each in (("search", False), ("refresh", True))),
]
INTERRUPTED_ACTS = ["search", "refresh", pytest.param("batch", marks=pytest.mark.slow)]


@pytest.mark.parametrize("name", INTERRUPTED_ACTS)
@pytest.mark.parametrize(("handler", "exclusive"), INTERRUPTING)
def test_a_signal_handler_that_searches_counts_nothing_twice(
    name: str, handler: str, exclusive: bool, config: IndexConfig
) -> None:
    line, was_interrupted = 0, True
    while was_interrupted:
        line += 1
        store = MemoryStore(exclusive=exclusive)
        index, other = (
            BM25Index.from_store(store, config=config, refresh_interval=0) for store in (store, store.reopen())
        )
        other.add(["fig"])
        was_interrupted = interrupt_at(
            line,
            ("log/sums.py", "log/open_write.py"),
            partial(ACTS[name], index),
            partial(HANDLERS[handler], index),
        )
        assert index.verify().ok, line
    assert line > 10


INTERRUPTED = """
import signal, sys, threading
from contextlib import suppress
from rag_bm25.index import live_statistics

class InterruptError(Exception): ...

def interrupt(*_):
    raise InterruptError

lock = threading.RLock()
signal.signal(signal.SIGVTALRM, interrupt)
for _ in range(100):
    with suppress(InterruptError):
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.001)
        while True:
            with live_statistics._acquired(lock, wait=False):
                pass
signal.setitimer(signal.ITIMER_VIRTUAL, 0)
free = []
other = threading.Thread(target=lambda: free.append(lock.acquire(blocking=False)))
other.start()
other.join()
sys.exit(free != [True])
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="a matter of signals")
def test_ctrl_c_leaves_no_lock_taken() -> None:
    """In a process of its own: an interrupt would leave a lock of coverage taken, where that measures this one."""
    assert subprocess.run([sys.executable, "-c", INTERRUPTED], timeout=120, check=False).returncode == 0


def test_an_interrupted_repair_leaves_no_writer_that_readers_do_not_see(
    index: BM25Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(live_statistics, "ChunkWriter", interrupt)
        with pytest.raises(KeyboardInterrupt):
            index.repair()
    index.add(["fig"])
    assert len(index.search("fig")) == 1


def test_a_failed_batch_is_finished_by_the_next_search_and_not_before(index: BM25Index, store: MemoryStore) -> None:
    def fail(method: str) -> None:
        if method == "delete_chunks":
            msg = "no room"
            raise StoreError(msg)

    store.on_call = fail
    with pytest.raises(StoreError, match="no room"):
        add(index)
    store.on_call = None
    assert index._live.view.statistics.whole.num_chunks == 3
    index.search("apple")
    assert index._live.view.statistics.whole.num_chunks == 4


# One moment


def test_chunks_of_a_namespace_that_is_not_counted_yet_are_not_found_in_others(
    index: BM25Index, store: MemoryStore, gate: Gate
) -> None:
    """All that is counted is in one namespace, so that its searches are sent without a filter."""
    before = index.search("apple")

    def stop_before_the_delta(called: str) -> None:
        if called == "insert_log" and store.calls[-2:-1] == ["insert_chunks"]:
            gate.pass_through()

    store.on_call = stop_before_the_delta
    with stuck(gate, lambda: index.add(["apple"], namespace="other")):
        assert soon(lambda: index.search("apple")) == before
    assert len(index.search("apple", namespace=None)) == 3


def test_a_query_that_is_being_analysed_keeps_its_moment(index: BM25Index, gate: Gate) -> None:
    before = index.encode_queries(["apple tart slowly"])
    found: list[Any] = []
    with stuck(gate, lambda: found.extend(index.encode_queries(["apple tart  slowly"]))):
        index.add([f"apple {number}" for number in range(9)])
        index.delete(["b"])
    assert found == before
    assert index.encode_queries(["apple tart slowly"]) != before


def test_a_search_with_feedback_has_one_moment(index: BM25Index, store: MemoryStore, gate: Gate) -> None:
    options: dict[str, Any] = {"feedback": RSJ(["a"])}
    before = index.encode_queries(["apple tart"], **options)
    store.on_call = lambda called: gate.pass_through() if called == "get_chunks" else None
    found: list[Any] = []
    with stuck(gate, lambda: found.extend(index.encode_queries(["apple tart"], **options))):
        index.add([f"apple {number}" for number in range(9)])
    assert found == before
    assert index.encode_queries(["apple tart"], **options) != before


@pytest.mark.parametrize("namespace", [None, "", ["", "other"]])
def test_weights_of_every_search_are_those_of_one_moment(config: IndexConfig, namespace: Any) -> None:
    """N, df and the mean IDF of as many moments as there are batches, each of which changes all of them."""
    texts = [f"apple w{number} {'banana' * (number % 3)} {'pie' * (number % 2)}" for number in range(60)]
    query = "apple banana pie w0 bananabanana"

    def write(index: BM25Index, number: int) -> None:
        index.add([texts[number]], ids=[f"{number % 40}"], namespace="" if number % 4 else "other")

    moments = set()
    with BM25Index.from_store(MemoryStore(), config=config) as alone:
        for number in range(len(texts)):
            write(alone, number)
            moments.add(weights(alone, query, namespace))
    index = BM25Index.from_store(MemoryStore(), config=config)
    write(index, 0)
    seen: set[Any] = set()
    reading = True

    def read() -> None:
        while reading:
            seen.add(weights(index, query, namespace))

    readers = [threading.Thread(target=read) for _ in range(3)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for reader in readers:
            reader.start()
        for number in range(1, len(texts)):
            write(index, number)
            # On a busy machine, too, readers get their turns.
            wait_for(lambda: weights(index, query, namespace) in seen or not readers[0].is_alive())
    finally:
        reading = False
        for reader in readers:
            reader.join()
        sys.setswitchinterval(interval)
    assert seen <= moments
    assert len(seen) > 5


def wait_for(has_come: Callable[[], bool]) -> None:
    while not has_come():
        pass


def weights(index: BM25Index, query: str, namespace: Any) -> tuple[tuple[int, float], ...]:
    (vector,) = index.encode_queries([query], namespace=namespace)
    return tuple(vector.to_dict().items())
