"""Faults of every kind in the middle of a batch: the next write finds a sound index."""

from __future__ import annotations

import functools
import itertools
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from support import engines
from support.clocks import PATIENCE
from support.lazy_store import LazyStore
from support.memory_store import MemoryStore
from support.programs import environment, run_python
from support.proxy import Proxy
from support.serialized_store import serialized

from rag_bm25 import BM25Index
from rag_bm25.errors import StoreError
from rag_bm25.index.maintenance.copying import copy_index
from rag_bm25.statistics.log.log import StatisticsLog

Open = Callable[..., BM25Index]

BEFORE = {"a": "apple", "b": "banana split", "c": "cherry"}
UPDATE = {"a": "apple pie", "b": "banana split", "x": "fig"}
AFTER = {"a": "apple pie", "b": "banana split", "c": "cherry", "x": "fig"}
WRITES = {"insert_chunks", "delete_chunks", "insert_log", "delete_log"}
STATEFUL = {
    *("index.py", "live_statistics.py", "pipeline.py", "counting_ahead.py", "workers.py", "chunk_writer.py"),
    *("corpus.py", "count_table.py", "terms.py", "log.py", "open_write.py", "sums.py", "table.py", "deferred.py"),
}
CHILD = """
import os, sys
from support.reference import split
from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.errors import StoreError
uri, config = sys.argv[1], IndexConfig(chunk_size=4, length_unit="terms", analyzer=split)
"""


def add(index: BM25Index, chunks: dict[str, str]) -> None:
    index.add(list(chunks.values()), ids=list(chunks))


def texts(index: BM25Index) -> dict[str, str]:
    return {chunk.id: chunk.text for chunk in index.chunks()}


def assert_sound(index: BM25Index, expected: dict[str, str]) -> None:
    assert texts(index) == expected
    assert index.verify().differences == []


# Failing calls


class FailingCalls:
    """Lets the write of a number fail, from 0: before it reaches the engine, or after it was applied."""

    def __init__(self, number: int, *, applied: bool) -> None:
        self._left = number
        self._applied = applied
        self._due = False

    def before(self, method: str) -> None:
        self._due = method in WRITES and self._left == 0
        self._left -= method in WRITES
        if self._due and not self._applied:
            self._fail()

    @contextmanager
    def around(self) -> Iterator[None]:
        yield
        if self._due:
            self._fail()

    def _fail(self) -> None:
        self._due = False
        raise StoreError("the connection timed out")


@pytest.mark.parametrize("applied", [True, False])
def test_retry_after_a_timeout_counts_once_though_another_wrote_in_between(applied: bool, opened: Open) -> None:
    for number in range(4):
        store = MemoryStore(exclusive=False)
        calls = FailingCalls(-1, applied=applied)
        index = opened(serialized(store, calls.around, calls.before))
        add(index, BEFORE)
        calls._left = number
        with pytest.raises(StoreError, match="timed out"):
            add(index, UPDATE)
        add(opened(store.reopen()), {"a": "apple tart", "y": "grape"})
        add(index, UPDATE)
        assert_sound(opened(store.reopen()), {**AFTER, "y": "grape"})


# A lost connection


@pytest.mark.usefixtures("nothing_late")
def test_connection_lost_at_any_write_of_a_batch(server_uri: str, tmp_path: Path, opened: Open) -> None:
    from rag_bm25.store.milvus import MilvusStore

    proxy = Proxy(server_uri)
    cut_at = [-1]

    def before(method: str) -> None:
        cut_at[0] -= method in WRITES
        if cut_at[0] == 0 and method in WRITES:
            proxy.cut()

    store = MilvusStore(proxy.uri, f"lost_{os.getpid()}", timeout=30)
    index = opened(serialized(store, suppress, before))
    number = itertools.count()
    expected: dict[str, str] = {}
    for write in range(4):
        new = {"a": f"apple {next(number)}", f"x{write}": "fig"}
        add(index, {"a": "apple"} | expected)
        cut_at[0] = write + 1
        with pytest.raises(StoreError):
            add(index, new)
        cut_at[0] = -1
        proxy.mend()
        add_until_connected(index, new)
        expected |= new
        assert_sound(index, expected)
    store.drop()
    index.close()
    proxy.close()


def add_until_connected(index: BM25Index, chunks: dict[str, str]) -> None:
    """Try until the client has made up its mind to connect again: it waits some seconds after a failure."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with suppress(StoreError):
            add(index, chunks)
            return
        time.sleep(0.1)
    pytest.fail("the connection was not made again")


# A full disk


@pytest.fixture(params=["tmpfs", "ext4"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A file system of some MB, of each kind."""
    image, folder = tmp_path / "image", tmp_path / "disk"
    folder.mkdir()
    make = {
        "tmpfs": f"mount -t tmpfs -o size=6m tmpfs {folder}",
        "ext4": f"truncate -s 40M {image} && mkfs.ext4 -q -F -m 0 {image} && mount -o loop {image} {folder}",
    }[request.param]
    made = subprocess.run(make, shell=True, capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"cannot mount a small file system: {made.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(index: BM25Index, size: int) -> tuple[dict[str, str], dict[str, str]]:
    """Add until it fails; return what was acknowledged, and what was not."""
    rng, acknowledged = random.Random(1), dict[str, str]()
    for number in itertools.count():
        batch = {f"{number}-{i}": f"{number} {rng.randbytes(200).hex()}" for i in range(size)}
        try:
            add(index, batch)
        except StoreError:
            break
        acknowledged |= batch
    return acknowledged, batch


@pytest.mark.slow
@pytest.mark.usefixtures("embedded")
@pytest.mark.parametrize("disk", ["tmpfs"], indirect=True)
@pytest.mark.parametrize("size", [100, 400])
def test_full_disk_loses_nothing_that_was_acknowledged(size: int, disk: Path, opened: Open) -> None:
    """Small batches fail first where they tell what is to come, large ones where they insert chunks."""
    index = opened(engines.open_store("embedded", disk))
    acknowledged, batch = fill(index, size)
    with suppress(StoreError):  # there may be room for some of it
        add(index, batch)
    subprocess.run(["mount", "-o", "remount,size=200m", str(disk)], check=True)
    add(index, batch)
    assert_sound(index, acknowledged | batch)
    index.close()
    assert_sound(opened(engines.open_store("embedded", disk)), acknowledged | batch)


@contextmanager
def ballast(disk: Path) -> Iterator[None]:
    """Fill a disk to the last byte."""
    file = disk / "ballast"
    with file.open("wb", buffering=0) as full:
        for size in (65536, 512, 1):
            with suppress(OSError):
                while full.write(bytes(size)):
                    pass
    yield
    file.unlink()


def some_chunks(name: str, number: int) -> dict[str, str]:
    return {f"{name}-{i}": f"{name} {i} " + " ".join(f"w{i * 7 + k}" for k in range(40)) for i in range(number)}


@pytest.mark.usefixtures("embedded")
@pytest.mark.parametrize("size", [1, 2, 5, 100])
def test_on_a_full_disk_a_write_is_refused_or_stored_and_the_open_index_goes_on(
    size: int, disk: Path, opened: Open
) -> None:
    index = opened(engines.open_store("embedded", disk))
    expected = some_chunks("before", size) | {"deleted": "gone"}
    add(index, expected)
    refused = []
    with ballast(disk):
        for number in range(4):
            new = some_chunks(f"full{number}", size)
            try:
                add(index, new)
            except StoreError as error:
                refused.append(str(error))
            else:
                expected |= new
        with suppress(StoreError):
            assert index.delete(["deleted"]) == 1
            del expected["deleted"]
        with suppress(StoreError):
            index._live.log.compact(above=0)
        assert refused
        assert "MiB left" in refused[0]
    add(index, some_chunks("after", size))
    expected |= some_chunks("after", size)
    found = texts(index)
    assert expected.items() <= found.items() | {("deleted", "gone")}
    assert index.verify().differences == []
    index.close()
    assert_sound(opened(engines.open_store("embedded", disk)), found)


@pytest.mark.usefixtures("lite2")
@pytest.mark.parametrize("disk", ["ext4"], indirect=True)
def test_on_a_file_system_that_becomes_read_only_writes_are_refused(disk: Path, opened: Open) -> None:
    """As after an I/O error."""
    index = opened(engines.open_store("embedded", disk))
    for number in range(3):
        add(index, some_chunks(f"before{number}", 1))
    expected = texts(index)
    os.sync()
    subprocess.run(["mount", "-o", "remount,abort", str(disk)], check=True)
    for number in range(3):
        with pytest.raises(StoreError):
            add(index, some_chunks(f"after{number}", 1))
    index.close()
    image = disk.parent / "image"
    subprocess.run(f"umount {disk}; e2fsck -fy {image}; mount -o loop {image} {disk}", shell=True, check=True)
    assert_sound(opened(engines.open_store("embedded", disk)), expected)


LIMITED = """
import resource
with BM25Index.open(uri, "docs", config=config) as index:
    index.add(["apple"], ids=["a"])
    acknowledged, refused = ["a"], 0
    def limit(size):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    limit(os.path.getsize(uri) + 40_000)
    index._store._open._restart(index._store._open._starts)  # with the limit
    for number in range(60):
        try: index.add([" ".join(f"w{number * 9 + k}" for k in range(200))], ids=[str(number)])
        except StoreError: refused += 1
        else: acknowledged.append(str(number))
    limit(resource.RLIM_INFINITY)
    index._store._open._restart(index._store._open._starts)
    index.add(["fig"], ids=["f"])
    print(refused > 0, set(acknowledged) <= {chunk.id for chunk in index.chunks()}, index.verify().ok, flush=True)
with BM25Index.open(uri, "docs", config=config) as index:
    print(set(acknowledged) <= {chunk.id for chunk in index.chunks()}, index.verify().ok, index.problems)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("lite2")
def test_at_a_limit_of_file_sizes_a_write_is_refused_or_stored(tmp_path: Path) -> None:
    done = run_python(CHILD + LIMITED, tmp_path / "test.db")
    assert done.stdout.splitlines() == ["True True True", "True True []"], done.stderr


# Other processes


INTERRUPTED = """
import faulthandler
assert "coverage" not in sys.modules, "its lock would stay taken: tests/conftest.py"
faulthandler.dump_traceback_later(100, exit=True)  # where it hangs
dropped = []
sys.unraisablehook = dropped.append  # Python drops a Ctrl-C that comes while an object is freed
with BM25Index.open(uri, "docs", config=config) as index:
    number = 0
    try:
        while True:
            index.add([f"text {number} {i % 7}" for i in range(60)], ids=[str(i) for i in range(60)])
            number += 1
            print(number, flush=True)
            if dropped:
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    index.add([f"text {number} {i % 7}" for i in range(60)], ids=[str(i) for i in range(60)])
    print(sorted({chunk.text for chunk in index.chunks()}) == [f"text {number} {i}" for i in range(7)])
    print(index.verify().differences)
"""


@pytest.mark.usefixtures("embedded")
def test_ctrl_c_in_the_middle_of_a_batch_surfaces_and_the_next_write_finds_a_sound_index(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CHILD + INTERRUPTED, str(tmp_path / "int.db")]
    process = subprocess.Popen(
        command,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        process.stdout.readline()
        time.sleep(random.Random().uniform(0, 0.05))
        os.killpg(process.pid, signal.SIGINT)  # as the terminal does: the engine's process gets it too
        output, complaint = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert (process.returncode, output.splitlines()[-3:]) == (0, ["interrupted", "True", "[]"]), complaint


@functools.cache
def is_stateful(file: str) -> bool:
    return Path(file).name in STATEFUL


def interrupted_after(lines: int, act: Callable[[], None]) -> bool:
    """Act, with Ctrl-C after so many lines of the package; tell whether there were so many."""
    left = itertools.count(lines, -1)

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if not is_stateful(frame.f_code.co_filename):
            return None
        if event == "line" and next(left) == 0:
            raise KeyboardInterrupt
        return trace

    traced = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(traced)
    return False


@pytest.mark.slow
@pytest.mark.parametrize("kind", [MemoryStore, partial(MemoryStore, exclusive=False), LazyStore])
def test_ctrl_c_at_any_line_leaves_an_index_that_the_next_write_finds_sound(
    kind: Callable[[], MemoryStore], opened: Open
) -> None:
    for lines in itertools.count():
        store = kind()
        index = opened(store)
        add(index, BEFORE)
        if not interrupted_after(lines, partial(add, index, UPDATE)):
            assert lines > 100
            return
        add(index, UPDATE)
        assert_sound(index, AFTER)
        assert_sound(opened(store.reopen()), AFTER)


@pytest.mark.parametrize("start", range(4))
def test_ctrl_c_between_batches_that_are_counted_ahead_leaves_a_sound_index(
    start: int, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One chunk a batch: while one is written, a thread is at the next one."""
    monkeypatch.setattr("rag_bm25.documents.chunks.MAX_BATCH_CHUNKS", 1)
    for lines in itertools.count(start * 11, 44):
        index = opened(MemoryStore())
        add(index, BEFORE)
        if not interrupted_after(lines, partial(add, index, UPDATE)):
            assert lines > 200
            return
        add(index, UPDATE)
        assert_sound(index, AFTER)


# What is stored with the next write

LEFT = """
index = BM25Index.open(uri, "docs", config=config)
index.add(["apple", "banana"], ids=["a", "b"])
index.add(["apple pie"], ids=["a"])
index.delete(["b"])
index.add(["cherry"], ids=["c"])
print("written", flush=True)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("embedded")
@pytest.mark.parametrize("end", ["os.kill(os.getpid(), 9)", "os._exit(0)"])
def test_after_a_kill_readers_and_copies_count_what_was_acknowledged(end: str, tmp_path: Path, opened: Open) -> None:
    assert run_python(CHILD + LEFT + end, tmp_path / "test.db").stdout == "written\n"
    left = {"a": "apple pie", "c": "cherry"}
    reader = opened(engines.open_store("embedded", tmp_path), read_only=True)
    assert reader.problems == []
    assert reader._live.log.statistics.num_chunks == 2
    assert [hit.id for hit in reader.search("cherry")] == ["c"]
    assert_sound(reader, left)
    target = MemoryStore()
    assert copy_index(reader._store, target).num_chunks == 2
    assert_sound(opened(target), left)
    assert unfinished(reader) == 1
    index = opened(engines.open_store("embedded", tmp_path))
    assert unfinished(index) == 0
    assert_sound(index, left)
    assert_sound(reader, left)


@pytest.mark.slow
@pytest.mark.usefixtures("embedded")
@pytest.mark.parametrize("end", ["index.close()", "", "raise SystemExit(3)", "import gc; del index; gc.collect()"])
def test_a_process_that_ends_leaves_nothing_unfinished(end: str, tmp_path: Path, opened: Open) -> None:
    done = run_python(CHILD + LEFT + end, tmp_path / "test.db")
    assert done.stdout == "written\n", done.stderr
    reader = opened(engines.open_store("embedded", tmp_path), read_only=True)
    assert unfinished(reader) == 0
    assert_sound(reader, {"a": "apple pie", "c": "cherry"})


def unfinished(index: BM25Index) -> int:
    """Number of batches without a delta."""
    log = StatisticsLog(index._store)
    log.refresh()
    return len(log.intents())


# Clocks


def test_clock_that_steps_back_does_not_let_old_rows_win(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [2_000_000_000.0]
    monkeypatch.setattr(time, "time", lambda: clock[0])
    monkeypatch.setattr(time, "time_ns", lambda: int(clock[0] * 1e9))
    for number in range(7):
        store = MemoryStore()
        add(opened(store), BEFORE)
        clock[0] -= 3600
        calls = FailingCalls(number, applied=number % 2 == 0)
        index = opened(serialized(store.reopen(), calls.around, calls.before))
        with suppress(StoreError):
            add(index, UPDATE)
        clock[0] -= 3600
        index = opened(store.reopen())
        add(index, UPDATE)
        clock[0] -= 3600
        add(index, {"a": "apple tart"})
        assert_sound(opened(store.reopen()), {**AFTER, "a": "apple tart"})


# Many rows in one engine process


@pytest.mark.usefixtures("lite2")
@pytest.mark.skipif(not os.environ.get("RAG_BM25_SLOW"), reason="takes minutes: RAG_BM25_SLOW=1 and --timeout 0")
def test_updates_and_deletes_right_after_a_million_rows(tmp_path: Path, opened: Open) -> None:
    """The engine stamps rows with a time that runs ahead of the clock by the rows written."""
    from rag_bm25.store.rows import ChunkRow
    from rag_bm25.vectors.sparse import SparseVector

    store = engines.open_store("embedded", tmp_path)
    index = opened(store)
    other = engines.open_store("embedded", tmp_path, "rows")
    other.create()
    one = SparseVector.from_dict({1: 1.0})
    for start in range(0, 1_050_000, 10_000):
        other.insert_chunks([ChunkRow(f"{start + i:x}", "i", "", 1, "b", vector=one) for i in range(10_000)])
    expected: dict[str, str] = {}
    for number in range(100):
        new = {f"{number % 10}-{i}": f"text {number} {i}" for i in range(5)}
        add(index, new)
        expected |= new
        gone = f"{number % 10}-{number % 5}"
        assert index.delete([gone]) == 1
        del expected[gone]
        assert texts(index) == expected
        assert len(index.search(f"text {number}", k=100)) == len(expected)
    assert_sound(index, expected)
    index.close()
    assert_sound(opened(engines.open_store("embedded", tmp_path)), expected)
    other.close()
