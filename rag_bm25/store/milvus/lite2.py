"""milvus-lite 2.5: Milvus's C++ core in a child process, exact and fast, and unsafe without this care."""

from __future__ import annotations

import contextlib
import importlib.util
import math
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag_bm25.errors import MissingExtraError, ParameterError, StoreError, StoreLockedError
from rag_bm25.store.milvus.engine import NO_PINGS, UNREACHABLE, EmbeddedEngine, connect_client, quiet
from rag_bm25.store.milvus.expressions import Lite2Dialect
from rag_bm25.store.milvus.limits import MESSAGE_BYTES
from rag_bm25.store.milvus.schema import LOG_FIELDS, SPARSE, vector_fields
from rag_bm25.store.storage import INDEX_TYPES, MILVUS_2_ALGOS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

FILE_NAME = re.compile(r"[A-Za-z0-9.\-_]+", re.ASCII)
MAX_FILE_NAME = 36
MAX_SOCKET_PATH = 107
ROWS_PER_MS = 262_144
SETTLE_MS = 2.0
SEES_ROWS = frozenset({"query", "search", "delete"})  # methods, whose first argument is the collection
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
    searches_at_once = max(2, os.cpu_count() or 1)  # no more run side by side
    dialect = Lite2Dialect()

    def __init__(self, path: Path) -> None:
        check_file_name(path)
        self._restarting = threading.RLock()
        self._starts = 0
        self._serves = False  # whether the last start succeeded
        self._rows = 0
        self._filled: set[str] = set()
        self._visible: dict[str, float] = {}  # when the last rows of a collection are, on the monotonic clock
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
        for _ in range(COUNT_ATTEMPTS):
            stored = self.num_rows(collection)  # first: rows that come afterwards are no hidden ones
            seen = self.read("query", collection, filter="", output_fields=["count(*)"])[0]["count(*)"]
            if seen >= stored:
                return
        raise StoreError(
            f"{self.place} hides {stored - seen} of {stored} rows of {collection!r}. Either the clock of this computer "
            "was set back after they were written: correct it and open again. Or the file is damaged"
        )

    def compact(self) -> bool:
        """Rewrite the file while no engine has it open; until then its free pages keep what was deleted."""
        self._restart(self._starts, meanwhile=self._vacuum)
        return True

    def _vacuum(self) -> None:
        try:
            with contextlib.closing(sqlite3.connect(self.path, isolation_level=None)) as file:
                file.execute("VACUUM")
        except sqlite3.Error as error:
            msg = f"the file of {self.place} could not be rewritten, so deleted texts may still be in it: {error}"
            raise StoreError(msg) from error

    def after_write(self, collection: str, rows: int) -> None:
        """Note when the rows are visible: the next call that has to see them waits for that, and no other.

        The engine stamps a row with the time, plus a millisecond for every 262,144 rows inserted since its start, and
        neither reads nor deletes rows with a later stamp than now.
        """
        self._rows += rows
        self._visible[collection] = time.monotonic() + (self._rows / ROWS_PER_MS + SETTLE_MS) / 1000

    def read(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call the engine; if it has died, repeat the call after its restart."""
        if method == "query" and self._is_unfilled(args[0], kwargs["output_fields"]):
            return []
        try:
            return self._call_watched(method, *args, **kwargs)
        except EngineDiedError:
            return self._call_watched(method, *args, **kwargs)

    def _is_unfilled(self, collection: str, output: Sequence[str]) -> bool:
        """Return whether a query wants sparse vectors of a collection without rows, which the engine fails on."""
        if collection in self._filled or SPARSE_FIELDS.isdisjoint(output):
            return False
        counted = self._call_watched("query", collection, filter="", output_fields=["count(*)"])
        if counted[0]["count(*)"]:
            self._filled.add(collection)
        return collection not in self._filled

    def write(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call the engine; if the write fails, restart it, and never repeat the write.

        After a failed write, as on a full disk, the engine's memory has rows that its file does not have: they would be
        taken for stored.
        """
        self._check_process()  # a forked child must not start an engine of its own
        starts = self._starts
        try:
            result = self._call_watched(method, *args, **kwargs)
        except StoreError as error:
            free = _free_bytes(self.path)
            self._restart(starts)
            if free > ENOUGH_BYTES:
                raise
            msg = f"{error}; its disk has {free / 2**20:,.1f} MiB left: make room, and call again"
            raise type(error)(msg) from error
        self.check_in_place()
        return result

    def _call_watched(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call the engine, and restart it if it has died."""
        starts = self._starts
        if method in SEES_ROWS and (invisible := self._visible.get(args[0], 0.0) - time.monotonic()) > 0:
            time.sleep(invisible)
        try:
            return self._call(method, *args, **kwargs)
        except StoreError as error:
            if not any(sign in str(error) for sign in (*UNREACHABLE, *CUT_OFF)):
                raise
            self._restart(starts)
            raise EngineDiedError(
                f"the engine of {self.place} died during {method} and was restarted; whether a write took place is "
                "unknown"
            ) from error

    def _restart(self, starts: int, *, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Restart the engine, unless another thread has done so since `starts` was read."""
        with self._restarting:
            if starts != self._starts:
                return
            self._check_process()
            self.check_in_place()  # it would create an empty file in place of a missing one
            if self._serves and not self._stop_server.alive:
                raise StoreError(f"{self.name} is closed: this program is ending")
            with contextlib.suppress(Exception):  # the client of a dead engine
                self.client.close()
            self._stop()
            self._serves = False
            try:
                meanwhile()
            finally:
                self.client = self._start()

    def _start(self) -> Any:
        _refuse_a_second_engine(self.path)
        _await_the_last_engine(self.path)
        server = _server_class()(str(self.path))
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
    """The engine process died during a call and was restarted."""


def _free_bytes(path: Path) -> float:
    """Return the free bytes on the disk of a database; infinite if unknown."""
    try:
        return shutil.disk_usage(path.parent).free
    except OSError:
        return math.inf


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
            'pip install "milvus-lite>=3", or copy it through a server (docs/operating.md)'
        )


def _import_server() -> Any:
    """Import milvus-lite's server without its package, which needs pkg_resources, that setuptools 82 has no more."""
    package = importlib.util.find_spec("milvus_lite")
    if package is None or package.origin is None:
        raise MissingExtraError('milvus-lite 2.5 is not whole: pip install --force-reinstall "rag-bm25[lite]"')
    spec = importlib.util.spec_from_file_location("milvus_lite.server", Path(package.origin).with_name("server.py"))
    assert spec is not None and spec.loader is not None  # noqa: PT018
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Server


def _server_class() -> Any:
    """Subclass milvus-lite's server, to be safe to start, to fork and to run beside others."""
    server = _import_server()

    class OwnedServer(server):  # type: ignore[misc, valid-type, unused-ignore]
        """An engine with a home of its own, which a forked child cannot stop.

        Engines create and remove ``~/.cache/milvus`` when they start and stop: if two start together, one may find it
        gone and then fails at every call; one without a home dies. Its log files are there, too.
        """

        _lock_fd: Any

        def __init__(self, path: str) -> None:
            self._owner = os.getpid()
            self._home = _fresh_home(Path(path))
            super().__init__(path)

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
    _homes(path).mkdir(mode=0o700)
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
        raise StoreError(f"milvus-lite has no engine at {server.milvus_bin}; unset BIN_PATH, or reinstall milvus-lite")
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
