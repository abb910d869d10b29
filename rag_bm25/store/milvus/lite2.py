"""milvus-lite 2.5: Milvus's C++ core in a child process, exact and fast, and unsafe without this care."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag_bm25.errors import ClockError, MissingExtraError, ParameterError, StoreError, StoreLockedError
from rag_bm25.store.milvus.engine import NO_PINGS, UNREACHABLE, EmbeddedEngine, connect_client, free_bytes, quiet
from rag_bm25.store.milvus.expressions import Lite2Dialect
from rag_bm25.store.milvus.limits import MESSAGE_BYTES
from rag_bm25.store.milvus.schema import LOG_FIELDS, SPARSE, vector_fields
from rag_bm25.store.milvus.sqlite_file import (
    count_transactions,
    has_stamps_after,
    is_stored_after,
    newest_stamp,
    stamp_anew,
    vacuum,
)
from rag_bm25.store.storage import INDEX_TYPES, MILVUS_2_ALGOS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

FILE_NAME = re.compile(r"[A-Za-z0-9.\-_]+", re.ASCII)
MAX_FILE_NAME = 36
MAX_SOCKET_PATH = 107
ROWS_PER_MS = 262_144
SETTLE_MS = 2.0
SEES_ROWS = frozenset({"query", "search", "delete"})  # methods, whose first argument is the collection
STAMPED = SEES_ROWS | {"insert"}  # calls that take the time from the wall clock
PATIENCE = 10.0  # seconds that the wall clock may be set back before a call fails instead of waiting
SLOWEST = 0.8  # of the true speed: that of a clock that is slowed down to be corrected, and not set back
COUNT_ATTEMPTS = 10  # another thread may insert or delete rows between two of its calls
STATS_TIMEOUT = 10.0
START_TIMEOUT = 60.0
STOP_TIMEOUT = 60.0
ENOUGH_BYTES = 2 * MESSAGE_BYTES  # for the largest message and SQLite's journal; the engine does not report a full disk
# The engine's output must not mix with the program's. Its input is a pipe that shows others that it is alive.
AT_HOME = 'export HOME="$0" TMPDIR="$0" DYLD_LIBRARY_PATH="$1"; shift; exec "$@" <>"$0/alive" >"$0/output" 2>&1'
CUT_OFF = ("Channel closed", "closed channel", "create connection first")  # by a thread that has restarted it
SPARSE_FIELDS = frozenset({SPARSE, *vector_fields(LOG_FIELDS)})


class Engine(EmbeddedEngine):
    """One engine process for one database file."""

    partition_key = False  # accepted without effect
    dense_index = "FLAT"
    dense_bytes = 2 * 2**20  # above 7 MB, a row takes 5 ms instead of 0.3 to write, and 15 to read
    dialect = Lite2Dialect()

    def __init__(self, path: Path) -> None:
        check_file_name(path)
        self._restarting = threading.RLock()
        self._starts = 0
        self._serves = False  # whether the last start succeeded
        self._rows = 0
        self._filled: set[str] = set()
        self._writing = threading.Lock()  # one write at a time, so that what it has stored can be counted
        self._has_written = False  # since its start
        self._prepared: set[str] = set()
        self._latest = 0.0  # time that the engine has stamped calls with, on the wall clock
        self._visible: dict[str, float] = {}  # when the last rows of a collection are, likewise
        super().__init__(path)

    def storage_choices(self) -> Mapping[str, tuple[Any, ...]]:
        """Return the options of its C++ core; one shard and memory are all there is, and weights are float32."""
        return {"index_type": INDEX_TYPES, "inverted_index_algo": MILVUS_2_ALGOS}

    def check_collection(self, collection: str) -> None:
        """Refuse a name that differs from another by case alone: both would be one table."""
        for other in self.read("list_collections"):
            if other != collection and other.lower() == collection.lower():
                raise ParameterError(
                    f"collection must differ by more than upper and lower case from {other!r}, which "
                    f"already exists in {self.place}, got {collection!r}"
                )

    def num_rows(self, collection: str) -> int:
        """Return the number of rows in the file; to load a million of them takes minutes."""
        return int(self.read("get_collection_stats", collection, timeout=STATS_TIMEOUT)["row_count"])

    def prepare(self, collection: str) -> None:
        """Refuse a collection with hidden rows."""
        self._await_clock("query", collection)
        self._latest = max(self._latest, time.time())
        self._require_visible(collection)
        self._prepared.add(collection)

    def _require_visible(self, collection: str) -> None:
        """Refuse a collection with hidden rows, after waiting for those of the next seconds."""
        for _ in range(COUNT_ATTEMPTS):
            stored = self.num_rows(collection)  # first: rows that come afterwards are no hidden ones
            seen = self._count_seen(collection)
            if seen >= stored:
                return
            self._await_stamps(collection, f"{self.place} hides {stored - seen} of {stored} rows of {collection!r}")
        raise StoreError(f"{self.place} hides {stored - seen} of {stored} rows of {collection!r}: it is damaged")

    def _await_stamps(self, collection: str, hides: str) -> None:
        """Wait until no row of a collection has a later stamp than now, or raise an error that says when that is."""
        newest = newest_stamp(self.path, collection) + SETTLE_MS / 1000
        if newest > time.time() + PATIENCE:
            until = datetime.fromtimestamp(newest, timezone.utc)
            raise ClockError(
                f"{hides} until {until:%Y-%m-%d %H:%M:%S} UTC: the clock of this computer was set back after they were "
                "written. If it is wrong now, correct it, and call again. If it was wrong then, open the index with "
                "repair=True, or run `rag-bm25 repair`: the rows are kept, and get the present time"
            )
        time.sleep(max(0.0, newest - time.time()))

    def reveal_rows(self) -> None:
        """Give the rows of the future the present time, in the file; without any, the engine goes on."""
        if has_stamps_after(self.path, time.time()):
            self._change_file(stamp_anew)
            self._visible.clear()
            self._latest = 0.0

    def compact(self) -> bool:
        """Rewrite the file: its free pages keep what was deleted."""
        try:
            self._change_file(vacuum)
        except StoreError as error:
            raise StoreError(f"{error}; the file was not rewritten, so deleted texts may still be in it") from error
        return True

    def _change_file(self, change: Callable[[Path], None]) -> None:
        """Change the file while no engine has it open, and no thread waits for one."""
        with self._write_lock, self._writing, self._restarting:
            self._restart(self._starts, meanwhile=partial(change, self.path))

    def after_write(self, collection: str, rows: int) -> None:
        """Note when the rows are visible: the next call that has to see them waits for that, and no other.

        The engine stamps a row with the time, plus a millisecond for every 262,144 rows inserted since its start, and
        neither reads nor deletes rows with a later stamp than now.
        """
        self._rows += rows
        self._visible[collection] = time.time() + (self._rows / ROWS_PER_MS + SETTLE_MS) / 1000

    def _await_clock(self, method: str, *args: Any) -> None:
        """Wait until the wall clock has caught up with all stamps that a call depends on.

        Where it was set back, rows would be hidden, deletions without effect, and new rows deleted by earlier ones.
        """
        while method in STAMPED and (behind := self._due(method, args[0]) - time.time()) > 0:
            if behind > PATIENCE:
                self._start_behind()
            else:
                time.sleep(behind)

    def _due(self, method: str, collection: str) -> float:
        visible = self._visible.get(collection, 0.0) if method in SEES_ROWS else 0.0
        return max(self._latest, visible)

    def _start_behind(self) -> None:
        """Go on with a clock that was set back: a new engine knows no deletions, so only its rows count."""
        with self._restarting:
            if max(self._latest, *self._visible.values(), 0.0) - time.time() <= PATIENCE:
                return  # another thread has done so
            if self._has_written:
                self._restart(self._starts)
            for collection in self._call("list_collections"):
                if collection in self._prepared:
                    self._require_visible(collection)
            self._latest = time.time()
            self._visible.clear()

    def read(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call the engine; if it has died, repeat the call after its restart."""
        self._await_clock(method, *args)
        if method == "query" and self._is_unfilled(args[0], kwargs["output_fields"]):
            return []
        return self._call_again(method, *args, **kwargs)

    def _call_again(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call the engine for what may be repeated, where it has died or the clock was set back."""
        try:
            return self._call_watched(method, *args, **kwargs)
        except EngineDiedError:
            self._await_clock(method, *args)
            return self._call_watched(method, *args, **kwargs)

    def _is_unfilled(self, collection: str, output: Sequence[str]) -> bool:
        """Return whether a query wants sparse vectors of a collection without rows, which the engine fails on."""
        if collection in self._filled or SPARSE_FIELDS.isdisjoint(output):
            return False
        if self._count_seen(collection):
            self._filled.add(collection)
        return collection not in self._filled

    def _count_seen(self, collection: str) -> int:
        """Count the rows of a collection that are not hidden."""
        return int(self._call_again("query", collection, filter="", output_fields=["count(*)"])[0]["count(*)"])

    def write(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call the engine; if the write fails, restart it, and never repeat the write.

        After a failed write, as on a full disk, the engine's memory has rows that its file does not have: they would be
        taken for stored.
        """
        self._check_process()  # a forked child must not start an engine of its own
        with self._writing:
            self._await_clock(method, *args)
            self._require_engine()
            starts = self._starts
            try:
                result = self._write_counted(method, *args, **kwargs)
            except StoreError as error:
                advice = self._advice(error)
                with contextlib.suppress(StoreError):  # then the next call starts it
                    self._restart(starts)
                self._refuse_lost()
                if not advice:
                    raise
                raise type(error)(f"{error}; {advice}") from error
            self.check_in_place()
        return result

    def _write_counted(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call the engine, and check that it has stored the rows that it says it has."""
        before = count_transactions(self.path)
        self._has_written = True
        result = self._call_watched(method, *args, **kwargs)
        if _has_changed_rows(method, result) and not is_stored_after(before, self.path):
            raise NotStoredError(f"{method} failed at {self.name}: nothing was written to the file")
        return result

    def _advice(self, error: StoreError) -> str:
        """Return the free space and advice, where a write may have failed for want of it."""
        free = free_bytes(self.path)
        if free <= ENOUGH_BYTES:
            return f"its disk has {free / 2**20:,.1f} MiB left: make room, and call again"
        if isinstance(error, NotStoredError):
            return f"its disk has {free / 2**20:,.0f} MiB left: make the file writable, and call again"
        return ""

    def _call_watched(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call the engine, and restart it if it has died."""
        self._require_engine()
        starts, begun, wall = self._starts, time.monotonic(), time.time()
        try:
            result = self._call(method, *args, **kwargs)
        except StoreError as error:
            if not any(sign in str(error) for sign in (*UNREACHABLE, *CUT_OFF)):
                raise
            self._restart(starts)
            raise EngineDiedError(
                f"the engine of {self.place} died during {method} and was restarted; whether a write took place is "
                "unknown"
            ) from error
        if method in STAMPED:
            self._note_time(method, wall, time.monotonic() - begun)
        return result

    def _note_time(self, method: str, wall: float, seconds: float) -> None:
        """Note the time of a call that began at a time and took so long, unless the clock was set back meanwhile."""
        now = time.time()
        self._latest = max(self._latest, now)
        if now < wall + SLOWEST * seconds - SETTLE_MS / 1000:
            self._latest = max(self._latest, wall + seconds)
            raise EngineDiedError(
                f"the clock of this computer was set back during {method} at {self.name}; whether a write took place "
                "is unknown"
            )

    def _require_engine(self) -> None:
        """Start the engine if that has failed after an earlier call, as on a full disk."""
        if not self._serves:
            self._restart(self._starts)

    def _restart(self, starts: int, *, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Restart the engine, unless another thread has done so since `starts` was read."""
        with self._restarting:
            if starts != self._starts:
                return
            self._check_process()
            self.check_in_place()  # it would create an empty file in place of a missing one
            if self._serves and not self._stop_server.alive:
                raise StoreError(f"{self.name} is closed: this program is ending")
            self._stop_engine()
            try:
                meanwhile()
            finally:
                self.client = self._start()

    def _stop_engine(self) -> None:
        with contextlib.suppress(Exception):  # the client of a dead engine
            self.client.close()
        self._stop()
        self._serves = False

    def _start(self) -> Any:
        _refuse_a_second_engine(self.path)
        _await_the_last_engine(self.path)
        try:
            home = _fresh_home(self.path)
        except OSError as error:  # as on a full disk
            raise StoreError(self._start_failure(str(error))) from error
        server = _server_class()(self.path, home)
        _check_environment(server)
        with _sigint_blocked(), quiet():
            started = server.init() and server.start() and _answers(server)
        self._stop_server = weakref.finalize(self, server.stop)
        if not started:
            failure = self._start_failure(server.last_words())
            self._stop_server()
            raise StoreError(failure)
        self._starts += 1
        self._serves = True
        self._rows = 0
        self._has_written = False
        self._filled.clear()
        failure = f"the engine of {self.place} was started but does not answer"
        return connect_client(server.uds_path, failure, grpc_options=NO_PINGS)

    def _stop(self) -> None:
        """Stop the engine process, also one that another thread is starting."""
        with self._restarting:
            self._stop_server()

    def _start_failure(self, reason: str) -> str:
        return (
            f"milvus-lite 2.5 cannot open {self.place} ({reason}); check that it is a file made by this "
            "version and not damaged, that it can be written, that the disk has room, and that no other program has it "
            "open"
        )


class EngineDiedError(StoreError):
    """The engine process died during a call and was restarted, or what it has answered cannot be relied on."""


class NotStoredError(StoreError):
    """The engine has acknowledged a write that is not in its file."""


def _has_changed_rows(method: str, result: Any) -> bool:
    """Return whether the engine says that a call has changed rows; it reports itself where other calls failed."""
    return method == "insert" or (method == "delete" and not (isinstance(result, dict) and not result["delete_count"]))


def check_file_name(path: Path) -> None:
    """Refuse a path that the engine cannot open."""
    if not FILE_NAME.fullmatch(path.name) or len(path.name) > MAX_FILE_NAME:
        raise ParameterError(
            f"the file name must have at most {MAX_FILE_NAME} of the characters A-Z a-z 0-9 . - _ "
            f"(a rule of milvus-lite 2.5), got {path.name!r}"
        )
    if path.is_dir():
        raise StoreError(
            f"{path} is a folder, a database of milvus-lite 3; milvus-lite 2.5 is installed and cannot open it: "
            'pip install "milvus-lite>=3", or copy it through a server (docs/moving.md)'
        )


def _import_server() -> Any:
    """Import milvus-lite's server without its package, which needs pkg_resources, that setuptools 82 has no more."""
    package = importlib.util.find_spec("milvus_lite")
    if package is None or package.origin is None:
        raise MissingExtraError('milvus-lite 2.5 is not whole: pip install --force-reinstall "milvus-lite<3"')
    spec = importlib.util.spec_from_file_location("milvus_lite.server", Path(package.origin).with_name("server.py"))
    assert spec is not None and spec.loader is not None  # noqa: PT018
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _server_class() -> Any:
    """Subclass milvus-lite's server, to be safe to start, to fork and to run beside others."""
    server = _import_server()

    class OwnedServer(server.Server):  # type: ignore[misc, name-defined, unused-ignore]
        """An engine with a home of its own, which a forked child cannot stop.

        Engines create and remove ``~/.cache/milvus`` when they start and stop: if two start together, one may find it
        gone and then fails at every call; one without a home dies. Its log files are there, too. It runs there and not
        beside the database, since milvus-lite has the folder that it runs in searched for shared libraries.
        """

        _lock_fd: Any

        def __init__(self, path: Path, home: Path) -> None:
            self._owner = os.getpid()
            self._home = home
            super().__init__(str(path))
            self._work_dir = home
            self._bin_path = Path(server.BIN_PATH)  # not that of a variable, which a .env file may have set

        @property
        def args(self) -> list[str]:
            """The command line; macOS removes DYLD_ variables from shells, so it is set again there."""
            return ["/bin/sh", "-c", AT_HOME, str(self._home), str(Path(self.milvus_bin).parent), *super().args]

        @property
        def is_running(self) -> bool:
            return self._p is not None and self._p.poll() is None

        def last_words(self) -> str:
            return _read_end(self._home / "output")

        def stop(self) -> None:
            if self._owner == os.getpid():  # not in a forked child
                if self._p is None:  # refused, or stopped before: the lock is another program's, and stays
                    self._lock_path = self._uds_path
                with contextlib.suppress(OSError):  # of the lock and the socket, on a file system become read-only
                    _close(self._lock_fd)
                    self._lock_fd = None
                    _stop_patiently(super().stop)
                shutil.rmtree(self._home.parent, ignore_errors=True)

    return OwnedServer


def _close(file: Any) -> None:
    """Close the engine's lock, which unlocks it, also where milvus-lite's flock fails."""
    if file is not None:
        file.close()


def _stop_patiently(stop: Callable[[], None]) -> None:
    """Stop an engine; to free gigabytes takes it longer than the seconds that milvus-lite waits."""
    end = time.monotonic() + STOP_TIMEOUT  # then the next process that opens the file waits for the engine
    while time.monotonic() < end:
        with contextlib.suppress(subprocess.TimeoutExpired):
            with contextlib.suppress(OSError):  # it has ended, and its lock is on a file system that is now read-only
                stop()
            break


def _read_end(output: Path) -> str:
    try:
        printed = output.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "it did not start"
    return " ".join(printed.split())[-300:] or "it printed nothing"


def _refuse_a_second_engine(path: Path) -> None:
    """Refuse a file that a client of pymilvus has open in this process.

    The engine's lock holds between processes only: a second engine on the file would start, and stop the first one when
    it stops.
    """
    manager = sys.modules.get("milvus_lite.server_manager")
    if manager is not None and str(path) in vars(manager.server_manager_instance)["_servers"]:
        raise StoreLockedError(
            f"{path} is open in this process through pymilvus; close that client and its engine first: "
            "milvus_lite.server_manager.server_manager_instance.release_server(path)"
        )


def _homes(path: Path) -> Path:
    """Return the folder of the homes of engines, beside the database."""
    return path.with_name(f".{path.name}.engine")


def _fresh_home(path: Path) -> Path:
    """Create an empty home, and remove those of killed processes.

    Its name is new, so that a shell that such a process had just started does not start an engine in it.
    """
    shutil.rmtree(_homes(path), ignore_errors=True)
    _homes(path).mkdir(mode=0o700, exist_ok=True)  # where nothing can be removed, either
    home = Path(tempfile.mkdtemp(dir=_homes(path)))
    with contextlib.suppress(OSError):  # not every file system has pipes
        os.mkfifo(home / "alive")
    return home


def _await_the_last_engine(path: Path) -> None:
    """Wait while the engine of a killed process is alive: it finishes a write, and locks the file meanwhile."""
    end = time.monotonic() + START_TIMEOUT
    while any(map(_has_a_reader, _homes(path).glob("*/alive"))):
        if time.monotonic() > end:
            msg = f"the engine of a killed process still has {path} open after {START_TIMEOUT:g} s; end that engine"
            raise StoreError(msg)
        time.sleep(0.01)


def _has_a_reader(pipe: Path) -> bool:
    try:
        os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
    except OSError:
        return False
    return pipe.is_fifo()


def _answers(server: Any) -> bool:
    """Wait until the engine takes connections; False if it ends or hangs instead."""
    end = time.monotonic() + START_TIMEOUT
    while server.is_running and time.monotonic() < end:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
            path = Path(server.uds_path.removeprefix("unix:"))
            probe.connect(str(path))
            with contextlib.suppress(OSError):  # who may write to the socket may read every row
                path.chmod(0o700)
            return True
        time.sleep(0.01)
    return False


def _check_environment(server: Any) -> None:
    """Refuse an environment in which the engine cannot start."""
    if not Path(server.milvus_bin).is_file():
        raise StoreError(f"milvus-lite has no engine at {server.milvus_bin}; reinstall milvus-lite")
    socket_path = server.uds_path.removeprefix("unix:")
    if len(os.fsencode(socket_path)) > MAX_SOCKET_PATH:
        raise StoreError(
            f"the engine's socket {socket_path} would have a path of more than {MAX_SOCKET_PATH} bytes; set TMPDIR to "
            "a shorter folder"
        )


@contextlib.contextmanager
def _sigint_blocked() -> Iterator[None]:
    """Block SIGINT, which the engine inherits: Ctrl-C is for the program, and would kill the engine.

    A mask, unlike a handler, can be set in any thread; the program gets its Ctrl-C right after.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
