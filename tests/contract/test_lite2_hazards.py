"""What milvus-lite 2.5 does to those who use it naively, and that the store does not let it happen."""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import grpc
import numpy as np
import pytest
from support import engines
from support.programs import environment, run_python
from support.rows import ONE, chunk

from rag_bm25.errors import ClockError, ParameterError, StoreError
from rag_bm25.store.milvus import MilvusStore
from rag_bm25.store.milvus.sqlite_file import count_transactions
from rag_bm25.store.rows import DenseField, LogRow, SearchArm

pytestmark = pytest.mark.skipif(
    not engines.lite_version().startswith("2."), reason="milvus-lite 2.5 is not what is installed"
)

OPEN = "from rag_bm25.store.milvus import MilvusStore; store = MilvusStore(sys.argv[1], 'docs'); "


def run(code: str, *arguments: str | Path, env: dict[str, str] | None = None) -> Any:
    """Run Python code in another process, where a warning is an error."""
    return run_python(f"import sys; {code}", *arguments, flags=("-W", "error"), env=env or environment())


def engine_pid(path: Path) -> int:
    """Process id of the engine that has the file open: a child whose command line names it."""
    for child in Path("/proc/self/task").glob("*/children"):
        for pid in child.read_text().split():
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            if str(path).encode() in command.split(b"\0"):
                return int(pid)
    raise AssertionError(f"no engine has {path} open")


def engines_of(path: Path) -> list[int]:
    """Process ids of all engines that have the file open, whose children ever they are."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            program, *arguments = (process / "cmdline").read_bytes().split(b"\0")
            if program.endswith(b"/milvus") and str(path).encode() in arguments:
                found.append(int(process.name))
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "test.db"


@pytest.fixture
def opened(path: Path) -> Callable[..., MilvusStore]:
    stores: list[MilvusStore] = []

    def open_(name: str = "docs", **options: bool) -> MilvusStore:
        stores.append(MilvusStore(path, name, **options))
        return stores[-1]

    yield open_
    for store in stores:
        store.close()


@pytest.fixture
def store(opened: Callable[..., MilvusStore]) -> MilvusStore:
    made = opened()
    made.create()
    return made


@pytest.mark.slow
class TestOneProcess:
    def test_every_further_process_is_refused_and_told_the_holder(self, store: MilvusStore, path: Path) -> None:
        for _ in range(3):  # the engine itself lets the third one in
            refused = run(OPEN, path)
            assert f"StoreLockedError: {path} is open in process {os.getpid()} on" in refused.stderr
        store.insert_chunks([chunk(1)])
        assert store.count_chunks() == 1

    def test_another_process_may_open_after_the_last_store_closed(
        self, opened: Callable[..., MilvusStore], path: Path
    ) -> None:
        first, second = opened(), opened("other")
        first.close()
        assert "StoreLockedError" in run(OPEN, path).stderr
        second.close()
        assert run(OPEN + "store.close()", path).returncode == 0

    def test_a_killed_process_leaves_nothing_that_locks(self, store: MilvusStore, path: Path) -> None:
        store.close()
        killed = run(OPEN + "store.create(); import os, signal; os.kill(os.getpid(), signal.SIGKILL)", path)
        assert killed.returncode == -signal.SIGKILL
        assert run(OPEN + "assert store.exists(); store.close()", path).stderr == ""
        assert sorted(file.name for file in path.parent.iterdir()) == ["test.db", "test.db.lock"]

    @pytest.mark.skipif(sys.platform != "linux", reason="finds the engines in /proc")
    def test_an_engine_whose_process_was_killed_is_awaited(
        self, opened: Callable[..., MilvusStore], path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        waited: list[list[int]] = []

        def sleep(_: float) -> None:
            waited.append(engines_of(path))
            with suppress(ProcessLookupError):
                os.kill(left, signal.SIGCONT)

        killed = run(
            OPEN
            + "store.create(); import os, signal; sys.path.append(sys.argv[2]); import test_lite2_hazards, pathlib\n"
            "os.kill(test_lite2_hazards.engine_pid(pathlib.Path(sys.argv[1])), signal.SIGSTOP)\n"
            "os.kill(os.getpid(), signal.SIGKILL)",
            path,
            str(Path(__file__).parent),
        )
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        (left,) = engines_of(path)
        monkeypatch.setattr("rag_bm25.store.milvus.lite2.time.sleep", sleep)
        assert opened().exists()
        assert waited[0] == [left]
        assert left not in engines_of(path)

    def test_a_link_is_the_same_database(self, store: MilvusStore, path: Path, tmp_path: Path) -> None:
        (tmp_path / "link.db").symlink_to(path)
        store.insert_chunks([chunk(1)])
        linked = MilvusStore(tmp_path / "link.db", "docs")
        assert linked.count_chunks() == 1
        linked.close()

    def test_a_hard_link_is_the_same_database(self, store: MilvusStore, path: Path, tmp_path: Path) -> None:
        (tmp_path / "hard.db").hardlink_to(path)
        refused = run(OPEN, tmp_path / "hard.db")
        assert f"{tmp_path}/hard.db is open in process {os.getpid()}, maybe under another name" in refused.stderr
        store.insert_chunks([chunk(1)])
        linked = MilvusStore(tmp_path / "hard.db", "docs")
        linked.insert_chunks([chunk(2)])
        assert store.count_chunks() == 2
        store.close()
        assert linked.count_chunks() == 2
        linked.close()

    def test_deleting_the_lock_lets_nobody_in(self, store: MilvusStore, path: Path) -> None:
        path.with_name("test.db.lock").unlink()
        assert f"{path} is open in process {os.getpid()}, maybe" in run(OPEN, path).stderr
        assert store.count_chunks() == 0

    def test_closing_on_a_file_system_that_is_now_read_only_raises_nothing(
        self, store: MilvusStore, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(place: str | Path, **_: object) -> None:
            raise OSError(errno.EROFS, "Read-only file system", place)

        with monkeypatch.context() as read_only:
            read_only.setattr(os, "unlink", refuse)
            store.close()
        assert run(OPEN + "store.close()", path).stderr == ""

    @pytest.mark.skipif(metadata.version("filelock").startswith("3."), reason="refuses file systems without flock")
    def test_closing_without_flock_raises_nothing(self, path: Path) -> None:
        code = (
            "import errno, fcntl, warnings; warnings.simplefilter('ignore')\n"
            "def flock(*_): raise OSError(errno.ENOSYS, 'Function not implemented')\n"
            "fcntl.flock = flock; " + OPEN + "store.create(); store.close()"
        )
        assert run(code, path).stderr == ""
        assert engines_of(path) == []

    def test_a_forked_child_cannot_use_the_store_nor_harm_it(self, store: MilvusStore, path: Path) -> None:
        code = (
            OPEN + "store.create(); import atexit, os, warnings; warnings.simplefilter('ignore'); child = os.fork();\n"
            "if child == 0:\n"
            "    for act in store.count_chunks, store.drop:\n"
            "        try: act()\n"
            "        except Exception as error: print(type(error).__name__, error, flush=True)\n"
            "    store.close(); atexit._run_exitfuncs(); os._exit(0)\n"  # gRPC does not survive being freed in a child
            "os.waitpid(child, 0)\n"
            "import subprocess; other = subprocess.run([sys.executable, '-c', sys.argv[2], sys.argv[1]],"
            " capture_output=True, text=True)\n"
            "print('StoreLockedError' in other.stderr, store.count_chunks())\n"
            "print(sorted(os.listdir(os.path.dirname(sys.argv[1])))); store.close()"
        )
        store.close()
        env = environment(GRPC_ENABLE_FORK_SUPPORT="false")  # gRPC's own handlers of forks may hang
        forked = run(code, path, f"import sys; {OPEN}", env=env)
        assert re.sub(r"at \S+", "at PATH", forked.stdout).splitlines() == [
            "StoreError milvus-lite 2.5 at PATH was opened before a fork; open it again in this process",
            "StoreError milvus-lite 2.5 at PATH was opened before a fork; open it again in this process",
            "True 0",
            "['.test.db.engine', '.test.db.lock', 'test.db', 'test.db.lock', 'test.db.owner']",
        ], forked.stderr

    def test_stores_may_be_closed_in_any_thread(self, store: MilvusStore, path: Path) -> None:
        from threading import Thread

        closing = Thread(target=store.close)
        closing.start()
        closing.join()
        assert run(OPEN + "store.close()", path).stderr == ""


class TestEngineProcess:
    def test_nobody_else_can_connect_or_read_its_log(self, path: Path) -> None:
        code = (
            "import os, pathlib; os.umask(0); folder = pathlib.Path(sys.argv[1]).parent;"
            "os.environ['TMPDIR'] = sys.argv[2];" + OPEN + "store.create();"
            "[socket] = pathlib.Path(sys.argv[2]).glob('*.sock');"
            "places = folder / '.test.db.engine', socket;"
            "print(*(oct(place.stat().st_mode & 0o777) for place in places)); store.close()"
        )
        with tempfile.TemporaryDirectory(prefix="s-", dir="/tmp") as short:  # a socket's path must be
            assert run(code, path, short).stdout.split() == ["0o700", "0o700"]

    def test_survives_ctrl_c(self, store: MilvusStore, path: Path) -> None:
        pid = engine_pid(path)
        os.kill(pid, signal.SIGINT)
        store.insert_chunks([chunk(1)])
        assert (store.count_chunks(), engine_pid(path)) == (1, pid)

    def test_ctrl_c_still_reaches_the_program(self, store: MilvusStore) -> None:
        assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])

    def test_reads_survive_its_death(self, store: MilvusStore, path: Path) -> None:
        store.insert_chunks([chunk(1)])
        dead = engine_pid(path)
        os.kill(dead, signal.SIGKILL)
        assert store.count_chunks() == 1
        assert engine_pid(path) != dead
        assert len(store.search([ONE], SearchArm(2))[0]) == 1

    def test_a_write_into_its_death_fails_clearly_and_the_next_one_works(self, store: MilvusStore, path: Path) -> None:
        store.insert_chunks([chunk(1)])
        os.kill(engine_pid(path), signal.SIGKILL)
        with pytest.raises(StoreError, match=r"died during insert and was restarted; whether a write took place"):
            store.insert_chunks([chunk(2)])
        store.insert_chunks([chunk(3)])
        assert {row.id for row in store.get_chunks([chunk(n).pk for n in (1, 3)])} == {"id-1", "id-3"}

    def test_a_closed_store_leaves_no_process_and_no_socket(self, store: MilvusStore, path: Path) -> None:
        store.close()
        with pytest.raises(AssertionError, match="no engine"):
            engine_pid(path)
        assert sorted(file.name for file in path.parent.iterdir()) == ["test.db", "test.db.lock"]

    def test_an_engine_that_takes_long_to_end_is_waited_for(
        self, store: MilvusStore, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """With gigabytes to give back, it takes longer than milvus-lite waits after killing it."""
        wait, calls = subprocess.Popen.wait, []

        def slow(process: subprocess.Popen[bytes], timeout: float | None = None) -> int:
            calls.append(timeout)
            if len(calls) < 5:
                raise subprocess.TimeoutExpired(process.args, timeout or 0)
            return wait(process, timeout)

        monkeypatch.setattr(subprocess.Popen, "wait", slow)
        store.close()
        assert len(calls) >= 5
        assert not path.with_name(f".{path.name}.engine").exists()
        MilvusStore(path, "docs").close()

    def test_calls_are_never_repeated_by_the_client(self, store: MilvusStore, monkeypatch: pytest.MonkeyPatch) -> None:
        store.count_chunks()
        given: list[object] = []
        client = store._open.client
        insert = client.insert
        monkeypatch.setattr(
            client, "insert", lambda *args, **kwargs: given.append(kwargs["retry_times"]) or insert(*args, **kwargs)
        )
        monkeypatch.setattr(client, "query", lambda *args, **kwargs: given.append(kwargs["retry_times"]) or [])
        store.insert_chunks([chunk(1)])
        list(store.scan_chunks())
        assert set(given) == {0}

    def test_a_write_that_fails_on_a_full_disk_says_so(
        self, store: MilvusStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class UnknownError(grpc.RpcError):  # which is all that the engine says
            pass

        usage = shutil.disk_usage(Path.cwd())
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=300_000))
        monkeypatch.setattr(store._open.client, "insert", Mock(side_effect=UnknownError("Unexpected error")))
        with pytest.raises(
            StoreError, match=r"Unexpected error; its disk has 0\.3 MiB left: make room, and call again"
        ):
            store.insert_chunks([chunk(1)])
        store.insert_chunks([chunk(1)])
        assert store.count_chunks() == 1

    def test_an_error_of_the_client_while_preparing_is_ours(
        self, store: MilvusStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class DamagedError(grpc.RpcError):  # as for a file with garbage in its middle
            pass

        monkeypatch.setattr(store._open.client, "get_collection_stats", Mock(side_effect=DamagedError("malformed")))
        with pytest.raises(StoreError, match=r"get_collection_stats failed at milvus-lite 2\.5 at .*: malformed"):
            store.count_chunks()

    def test_a_thread_whose_call_is_cut_off_by_a_restart_calls_again(
        self, store: MilvusStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store.insert_chunks([chunk(1)])
        engine = store._open
        query = engine.client.query

        def cut_off(*args: object, **kwargs: object) -> object:
            engine._restart(engine._starts)  # as another thread does whose write has failed
            return query(*args, **kwargs)

        monkeypatch.setattr(engine.client, "query", cut_off)
        assert store.count_chunks() == 1

    def test_a_closed_engine_is_not_started_again(self, store: MilvusStore, path: Path) -> None:
        engine = store._open
        store.close()
        for call in (engine.read, engine.write):
            with pytest.raises(StoreError, match=r"test\.db is closed$"):
                call("list_collections")
        assert engines_of(path) == []


class TestStoring:
    """The engine acknowledges inserts that SQLite could not store."""

    @pytest.mark.parametrize("rows", [1, 5, 1000])
    def test_each_call_that_stores_something_is_one_transaction(
        self, store: MilvusStore, path: Path, rows: int
    ) -> None:
        some = [chunk(number) for number in range(rows)]
        counted = [count_transactions(path)]
        for write in (
            lambda: store.insert_chunks(some),
            lambda: store.insert_log([LogRow(row.pk, "delta") for row in some]),
            lambda: store.delete_chunks([row.pk for row in some]),
            lambda: store.delete_chunks([row.pk for row in some]),  # there are none
            lambda: store.delete_log([row.pk for row in some]),
            store.drop,
        ):
            write()
            counted.append(count_transactions(path))
        assert [after - before for before, after in pairwise(counted)] == [1, 1, 1, 0, 1, 2]

    @pytest.mark.parametrize(
        ("method", "answer", "write"),
        [
            ("insert", {"insert_count": 1}, lambda store: store.insert_chunks([chunk(2)])),
            ("insert", {"insert_count": 1}, lambda store: store.insert_log([LogRow("k", "delta")])),
            ("delete", [chunk(1).pk], lambda store: store.delete_chunks([chunk(1).pk])),
        ],
    )
    def test_what_was_acknowledged_and_not_stored_is_an_error_with_the_free_space(
        self,
        method: str,
        answer: object,
        write: Callable[[MilvusStore], None],
        store: MilvusStore,
        path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        store.insert_chunks([chunk(1)])
        pid = engine_pid(path)
        monkeypatch.setattr(store._open.client, method, lambda *_, **__: answer)
        message = rf"{method} failed at .*: nothing was written to the file; its disk has [\d,]+ MiB left: make"
        with pytest.raises(StoreError, match=message):
            write(store)
        assert engine_pid(path) != pid  # its memory is no longer that of the file
        assert store.count_chunks() == 1
        write(store)

    def test_a_transaction_whose_journal_is_left_is_not_stored(
        self, store: MilvusStore, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        insert, journal = store._open.client.insert, path.with_name("test.db-journal")
        monkeypatch.setattr(
            store._open.client, "insert", lambda *args, **kwargs: (insert(*args, **kwargs), journal.touch())[0]
        )
        with pytest.raises(StoreError, match="nothing was written to the file"):
            store.insert_chunks([chunk(1)])

    def test_another_journal_mode_is_refused(self, store: MilvusStore, path: Path) -> None:
        store.close()
        with closing(sqlite3.connect(path)) as database:
            database.execute("pragma journal_mode=wal")
        reopened = MilvusStore(path, "docs")
        with pytest.raises(StoreError, match=r"has another journal than .*pragma journal_mode=delete"):
            reopened.insert_chunks([chunk(1)])
        reopened.close()

    def test_an_engine_that_cannot_be_started_is_started_by_the_next_call(
        self, store: MilvusStore, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store.insert_chunks([chunk(1)])
        with monkeypatch.context() as full:
            full.setattr(store._open.client, "insert", lambda *_, **__: None)
            full.setattr(tempfile, "mkdtemp", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
            with pytest.raises(StoreError, match="nothing was written to the file; its disk has"):
                store.insert_chunks([chunk(2)])
            with pytest.raises(StoreError, match=r"cannot open .*No space left on device"):
                store.insert_chunks([chunk(2)])
        store.insert_chunks([chunk(2)])
        assert store.count_chunks() == 2


class TestVisibility:
    @pytest.mark.parametrize("rows", [0, 262_144, 2_621_440])
    def test_calls_that_see_rows_wait_until_the_engine_s_clock_has_caught_up(
        self, store: MilvusStore, monkeypatch: pytest.MonkeyPatch, rows: int
    ) -> None:
        store.insert_chunks([chunk(1)])
        monkeypatch.setattr(store._open, "_rows", rows)
        clock = Clock(monkeypatch, begun := time.time())
        waited = clock.waited
        store._open.after_write("docs", 262_144)
        store.insert_chunks([chunk(2)])
        store.insert_log([LogRow("k", "delta")])
        assert waited == []
        store._open.after_write("docs", 262_144)
        for call in (store.count_chunks, lambda: store.search([ONE], SearchArm(2)), lambda: store.delete_chunks(["a"])):
            call()
            assert waited.pop() == pytest.approx((rows / 262_144 + 2 + 2) / 1000, abs=1e-4)
            clock.now = begun
            store._open._latest = clock.now
        store.log_keys()
        assert waited.pop() == pytest.approx((rows / 262_144 + 1 + 2) / 1000, abs=1e-4)  # of its own rows

    def test_a_clock_that_is_set_back_while_rows_are_counted_is_waited_for(
        self, opened: Callable[..., MilvusStore], store: MilvusStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store.insert_chunks([chunk(1)])
        other, call, clock = opened(), store._open._call, Clock(monkeypatch, time.time() + 1)
        steps = [0.5]  # seconds, of which the first call takes

        def set_back(name: str, *args: Any, **options: Any) -> Any:
            result = call(name, *args, **options)
            if name == "query" and steps:
                clock.now -= steps.pop()
            return result

        monkeypatch.setattr(store._open, "_call", set_back)
        assert other.count_chunks() == 1
        assert (steps, clock.waited) == ([], [pytest.approx(0.5)])

    def test_all_stores_of_a_file_count_rows_together(
        self, opened: Callable[..., MilvusStore], store: MilvusStore, path: Path
    ) -> None:
        store.insert_chunks([chunk(1), chunk(2)])
        opened().insert_log([LogRow("k", "delta")])
        assert store._open._rows == 3
        os.kill(engine_pid(path), signal.SIGKILL)
        store.count_chunks()
        assert store._open._rows == 0  # the engine's count starts anew

    @pytest.mark.parametrize(
        ("method", "write", "left"),
        [
            ("get_collection_stats", lambda store: store.insert_chunks([chunk(3)]), 3),
            ("query", lambda store: store.delete_chunks([chunk(1).pk]), 1),
        ],
    )
    def test_rows_that_another_store_writes_meanwhile_are_not_taken_for_hidden_ones(
        self,
        method: str,
        write: Callable[[MilvusStore], None],
        left: int,
        opened: Callable[..., MilvusStore],
        store: MilvusStore,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        store.insert_chunks([chunk(1), chunk(2)])
        other, call = opened(), store._open._call

        def call_in_between(name: str, *args: Any, **options: Any) -> Any:
            if name == method:
                monkeypatch.undo()
                write(store)
            return call(name, *args, **options)

        monkeypatch.setattr(store._open, "_call", call_in_between)
        assert other.count_chunks() == left

    def test_rows_hidden_by_a_clock_set_back_are_noticed(self, opened: Callable[..., MilvusStore], path: Path) -> None:
        store = opened()
        store.create()
        store.insert_chunks([chunk(1), chunk(2)])
        store.close()
        move_to_tomorrow(path, chunk(2).pk)
        reopened = opened()
        assert reopened.exists()
        with pytest.raises(ClockError, match=r"hides 1 of 2 rows of 'docs' until .* UTC: the clock .* set back after"):
            reopened.count_chunks()
        with pytest.raises(ClockError, match=r"hides 1 of 2 rows"):
            reopened.insert_chunks([chunk(3)])

    def test_rows_of_the_future_are_revealed_by_a_repair(self, opened: Callable[..., MilvusStore], path: Path) -> None:
        store = opened()
        store.create()
        store.insert_chunks([chunk(1), chunk(2)])
        store.insert_log([LogRow("k", "delta")])
        store.close()
        before = stored(path)
        move_to_tomorrow(path, chunk(2).pk)
        reopened = opened()
        reopened.reveal_rows()
        assert {row.id for row in reopened.get_chunks([chunk(1).pk, chunk(2).pk])} == {"id-1", "id-2"}
        reopened.delete_chunks([chunk(2).pk])
        reopened.close()
        assert opened_ids(opened()) == ["id-1"]
        assert [row for row in before if chunk(2).pk not in row] == stored(path)  # the others are as they were

    def test_a_missing_row_is_no_matter_of_the_clock(
        self, opened: Callable[..., MilvusStore], store: MilvusStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store.insert_chunks([chunk(1)])
        other = opened()
        monkeypatch.setattr(other._open, "num_rows", lambda _: 2)
        with pytest.raises(StoreError, match=r"hides 1 of 2 rows of 'docs': it is damaged") as refused:
            other.count_chunks()
        assert not isinstance(refused.value, ClockError)


class Clock:
    """A wall clock that only moves when it is slept by, and a list of how long that was."""

    def __init__(self, patch: pytest.MonkeyPatch, now: float) -> None:
        self.now = now
        self.waited: list[float] = []
        patch.setattr(time, "time", lambda: self.now)
        patch.setattr(time, "monotonic", lambda: self.now)
        patch.setattr(time, "sleep", self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.waited.append(seconds)
        self.now += seconds


@pytest.fixture(scope="session")
def shifted_clock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that sets the wall clock of a program and its engine, by the seconds in the file $SHIFT_FILE."""
    folder = tmp_path_factory.mktemp("clock")
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("no C compiler, or no LD_PRELOAD, to shift the clock of the engine")
    source, library = Path(__file__).parents[1] / "support" / "shifted_clock.c", folder / "clock.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


SHIFTED = """
import os, time
from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.errors import ClockError, StoreError
def shift(seconds):
    open(os.environ["SHIFT_FILE"], "w").write(str(seconds))
def show(index):
    chunks, hits = list(index.chunks()), index.search("alpha", k=50)
    print(index.stats().num_chunks, len(chunks), sorted({hit.text for hit in hits}), index.verify().ok, flush=True)
def fails(act):
    try: print("no error:", act())
    except ClockError: print("ClockError", flush=True)
def opened(**options):
    return BM25Index.open(sys.argv[1], "docs", config=IndexConfig(chunk_size=500), **options)
shift(0)
"""


@pytest.mark.slow
class TestClock:
    """What the engine does where the clock steps, shown by a real engine with a clock of its own."""

    @pytest.fixture
    def shifted(self, shifted_clock: Path, path: Path, tmp_path: Path) -> Callable[[str], list[str]]:
        env = environment(LD_PRELOAD=str(shifted_clock), SHIFT_FILE=str(tmp_path / "shift"))

        def run_shifted(code: str) -> list[str]:
            done = run(SHIFTED + code, path, env=env)
            assert done.returncode == 0, done.stderr
            return done.stdout.splitlines()

        return run_shifted

    def test_set_back_an_hour_nothing_is_answered_nor_written_until_it_is_right_again(
        self, shifted: Callable[[str], list[str]]
    ) -> None:
        shown = shifted("""
with opened() as index:
    index.add(["alpha"] * 3, ids=list("abc"))
    shift(-3600)
    fails(lambda: index.search("alpha"))
    fails(lambda: index.add(["alpha 2"], ids=["a"]))
    fails(lambda: index.delete(["b"]))
    fails(lambda: opened())
    shift(0)
    show(index)
    index.delete(["b"])
with opened() as index:
    show(index)
""")
        assert shown == [*["ClockError"] * 4, "3 3 ['alpha'] True", "2 2 ['alpha'] True"]

    def test_set_back_seconds_in_the_middle_of_updates_it_is_waited_for(
        self, shifted: Callable[[str], list[str]]
    ) -> None:
        shown = shifted("""
with opened() as index:
    for number in range(9):
        index.add([f"alpha {number}"] * 3, ids=list("abc"))
        if number == 4:
            shift(-2)
            index.delete(["a"])
    show(index)
with opened() as index:
    show(index)
""")
        assert shown == ["3 3 ['alpha 8'] True"] * 2

    def test_set_back_while_a_call_is_in_progress_the_call_is_made_again_or_fails(
        self, shifted: Callable[[str], list[str]]
    ) -> None:
        shown = shifted("""
def shifting(client, method):
    call = getattr(client, method)
    def shift_then_call(*args, **kwargs):
        setattr(client, method, call)
        shift(-2)
        return call(*args, **kwargs)
    setattr(client, method, shift_then_call)
with opened() as index:
    index.add(["alpha"], ids=["a"])
    shifting(index._store._open.client, "search")
    show(index)
    shift(2)
    index.add(["alpha 2"], ids=["b"])
    shifting(index._store._open.client, "delete")
    try: index.delete(["b"])
    except StoreError as error: print("set back during delete" in str(error))
    index.delete(["b"])
    show(index)
""")
        assert shown == ["1 1 ['alpha'] True", "True", "1 1 ['alpha'] True"]

    def test_rows_that_are_older_than_the_step_are_found(self, shifted: Callable[[str], list[str]]) -> None:
        """A server that was started with a clock that was ahead goes on when it is corrected."""
        shown = shifted("""
opened().close()
with opened() as index: index.add(["alpha"], ids=["a"])
shift(7200)
with opened() as index:
    show(index)
    shift(3600)
    show(index)
    index.add(["alpha 2"], ids=["a"])
    show(index)
""")
        assert shown == ["1 1 ['alpha'] True", "1 1 ['alpha'] True", "1 1 ['alpha 2'] True"]

    def test_what_was_deleted_ahead_of_time_can_be_written_again(self, shifted: Callable[[str], list[str]]) -> None:
        """An engine applies its deletions by their stamps; another one knows none of them."""
        shown = shifted("""
with opened() as index: index.add(["alpha"], ids=["a"])
with opened() as index:
    rows = [row for page in index._store.scan_chunks(contents=True, vectors=True) for row in page]
    shift(3600)
    index._store.delete_chunks([row.pk for row in rows])
    shift(0)
    index._store.insert_chunks(rows)
    show(index)
""")
        assert shown == ["1 1 ['alpha'] True"]

    def test_what_was_written_ahead_of_time_is_rescued_by_a_repair(self, shifted: Callable[[str], list[str]]) -> None:
        shown = shifted("""
shift(500_000_000)
with opened() as index: index.add(["alpha"] * 2, ids=["a", "b"])
shift(0)
fails(opened)
fails(lambda: opened(read_only=True))
with opened(repair=True) as index:
    show(index)
    index.add(["alpha 2"], ids=["a"])
    index.delete(["b"])
with opened() as index: show(index)
""")
        assert shown == ["ClockError", "ClockError", "2 2 ['alpha'] True", "1 1 ['alpha 2'] True"]

    def test_the_command_repairs_it_too(self, shifted: Callable[[str], list[str]]) -> None:
        shown = shifted("""
from typer.testing import CliRunner
from rag_bm25.cli.app import app
shift(86_400)
with opened() as index: index.add(["alpha"], ids=["a"])
shift(0)
for command in (["search", "alpha"], ["repair"], ["search", "alpha"]):
    print(CliRunner().invoke(app, [*command, "--uri", sys.argv[1]]).exit_code)
""")
        assert shown == ["1", "0", "0"]


def stored(path: Path) -> list[tuple[Any, ...]]:
    """The rows of the file."""
    with closing(sqlite3.connect(path)) as database:
        database.text_factory = bytes
        return [(key.decode(), data) for key, data in database.execute("select milvus_id, data from docs")]


def opened_ids(store: MilvusStore) -> list[str]:
    return [row.id for rows in store.scan_chunks() for row in rows]


def move_to_tomorrow(path: Path, pk: str) -> None:
    """Stamp a stored row with a time a day ahead, as a clock that was wrong leaves it."""
    database = sqlite3.connect(path)
    database.text_factory = bytes
    (data,) = database.execute("select data from docs where milvus_id = ?", (pk,)).fetchone()
    for position in range(data.index(b"Timestamp"), len(data) - 8):
        piece = data[position : position + 9]
        stamp = sum((byte & 127) << (7 * at) for at, byte in enumerate(piece))
        if piece[-1] < 128 and min(piece[:-1]) > 127 and abs((stamp >> 18) / 1000 - time.time()) < 3600:
            later = stamp + (86_400_000 << 18)
            encoded = bytes(((later >> (7 * at)) & 127) | (128 if at < 8 else 0) for at in range(9))
            data = data[:position] + encoded + data[position + 9 :]
            break
    else:
        raise AssertionError("no timestamp found")
    database.execute("update docs set data = cast(? as text) where milvus_id = ?", (data, pk))
    database.commit()
    database.close()


class TestNames:
    def test_names_that_differ_by_case_alone_are_refused(
        self, opened: Callable[..., MilvusStore], store: MilvusStore
    ) -> None:
        with pytest.raises(ParameterError, match=r"more than upper and lower case from 'docs'.*got 'Docs'"):
            opened("Docs").create()
        assert not opened("Docs").exists()

    @pytest.mark.parametrize("name", ["a b.db", "é.db", "x" * 34 + ".db", "a;b.db"])
    def test_file_names_that_the_engine_refuses_are_named_with_the_rule(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(ParameterError, match=r"must have at most 36 of the characters A-Z a-z 0-9"):
            MilvusStore(tmp_path / name, "docs")
        assert list(tmp_path.iterdir()) == []

    def test_a_name_of_36_characters_works(self, tmp_path: Path) -> None:
        store = MilvusStore(tmp_path / ("x" * 33 + ".db"), "docs")
        assert not store.exists()
        store.close()


class TestEnvironment:
    def test_a_folder_is_a_database_of_the_other_engine(self, tmp_path: Path) -> None:
        (tmp_path / "test.db").mkdir()
        with pytest.raises(StoreError, match=r"is a folder, a database of milvus-lite 3; milvus-lite 2.5 is installed"):
            MilvusStore(tmp_path / "test.db", "docs")

    def test_what_is_no_database_is_refused_and_not_locked(self, tmp_path: Path) -> None:
        (tmp_path / "test.db").write_text("SQLite format 3\0" + "no database, " * 1000)
        refused = run(OPEN, tmp_path / "test.db")
        assert re.search(r"StoreError: milvus-lite 2\.5 cannot open \S+ \(.*not a database.*\); check", refused.stderr)
        assert not (tmp_path / "test.db.owner").exists()

    @pytest.mark.parametrize("home", [{}, {"HOME": "/nowhere"}, {"HOME": "/dev/null"}], ids=str)
    def test_no_home_is_needed(self, path: Path, home: dict[str, str]) -> None:
        env = {key: value for key, value in environment().items() if key != "HOME"} | home
        opened = run(OPEN + "store.create(); print(store.count_chunks()); store.close()", path, env=env)
        assert (opened.stdout, opened.stderr) == ("0\n", "")

    def test_no_variable_names_another_engine(self, path: Path) -> None:
        opened = run(OPEN + "store.close()", path, env=environment(BIN_PATH="/nowhere"))
        assert opened.stderr == ""

    def test_a_missing_engine_is_named(self) -> None:
        from rag_bm25.store.milvus import lite2

        with pytest.raises(StoreError, match="milvus-lite has no engine at /nowhere/milvus; reinstall milvus-lite"):
            lite2._check_environment(Mock(milvus_bin="/nowhere/milvus"))

    def test_a_long_temporary_folder_is_named(self, path: Path, tmp_path: Path) -> None:
        long = tmp_path / ("t" * 100)
        long.mkdir()
        refused = run(OPEN, path, env=environment(TMPDIR=str(long)))
        assert "would have a path of more than 107 bytes; set TMPDIR to a shorter folder" in refused.stderr

    def test_pkg_resources_are_not_needed(self, path: Path) -> None:
        without = "sys.modules['pkg_resources'] = None; "
        opened = run(without + OPEN + "store.create(); print(store.count_chunks()); store.close()", path)
        assert (opened.stdout, opened.stderr) == ("0\n", "")


class TestNoise:
    def test_refused_calls_leave_nothing_on_stderr(self, path: Path) -> None:
        code = (
            OPEN + "store.create(); from rag_bm25.vectors.sparse import SparseVector\n"
            "from rag_bm25.store.milvus import searching; from rag_bm25.store.rows import SearchArm\n"
            "searching.where_clause = lambda dialect, scope: 'nosuchfield == 1'\n"
            "try: store.search([SparseVector.from_dict({1: 1.0})], SearchArm(1))\n"
            "except ValueError as error: print(type(error).__name__, error)\n"
            "store.close()"
        )
        refused = run(code, path)
        assert re.match("FilterError milvus-lite 2.5 refused the filter: .*nosuchfield", refused.stdout)
        assert refused.stderr == ""

    def test_reading_vectors_of_an_empty_collection_is_silent(
        self, store: MilvusStore, capfd: pytest.CaptureFixture[str]
    ) -> None:
        assert list(store.scan_chunks(vectors=True)) == []
        assert store.get_log(["k"]) == []
        assert capfd.readouterr() == ("", "")


class TestDenseVectors:
    def test_a_message_has_no_more_of_them_than_the_engine_takes_fast(
        self, opened: Callable[..., MilvusStore], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store = opened("dense")
        store.create(DenseField(2048, "IP"))
        messages: list[list[str]] = []
        insert = store._open.client.insert
        monkeypatch.setattr(
            store._open.client,
            "insert",
            lambda name, rows, **options: messages.append([row["pk"] for row in rows]) or insert(name, rows, **options),
        )
        rows = [replace(chunk(number), dense=np.full(2048, number, np.float32)) for number in range(1300)]
        store.insert_chunks(rows)
        assert [len(message) for message in messages] == [256] * 5 + [20]  # of 2 MB at most
        assert [pk for message in messages for pk in message] == [row.pk for row in rows]
        assert store.count_chunks() == 1300

    def test_a_reply_has_no_more_of_them_than_the_engine_sends_fast(
        self, opened: Callable[..., MilvusStore], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store = opened("dense")
        store.create(DenseField(2048, "IP"))
        rows = [replace(chunk(number), dense=np.full(2048, number, np.float32)) for number in range(600)]
        store.insert_chunks(rows)
        replies: list[int] = []
        query = store._open.client.query
        monkeypatch.setattr(
            store._open.client,
            "query",
            lambda *args, **kwargs: replies.append(len(found := query(*args, **kwargs))) or found,
        )
        assert len(store.get_chunks([row.pk for row in rows], dense=True)) == 600
        assert replies[-3:] == [256, 256, 88]
        assert len(store.get_chunks([row.pk for row in rows])) == 600
        assert replies[-1] == 600
