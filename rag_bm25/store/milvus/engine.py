"""A guarded connection to Milvus: the parts that all engines share."""

from __future__ import annotations

import importlib
import logging
import math
import os
import re
import shutil
import signal
import threading
from collections import Counter, defaultdict
from contextlib import contextmanager, suppress
from importlib import metadata
from typing import TYPE_CHECKING, Any

import grpc

from rag_bm25.errors import FilterError, StoreError
from rag_bm25.store.deferred import DeferredRows
from rag_bm25.store.milvus.client import Client, pymilvus
from rag_bm25.store.milvus.database_file import DatabaseLock
from rag_bm25.store.milvus.expressions import Dialect
from rag_bm25.store.milvus.limits import MESSAGE_BYTES, ReplyTooLargeError
from rag_bm25.store.milvus.schema import log_entity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from rag_bm25.store.protocol import WriteLock


try:  # the functions of `signal` look each handler up in an enum, which takes as long as packing a search
    _handler_of, _handle = (getattr(importlib.import_module("_signal"), name) for name in ("getsignal", "signal"))
except (ImportError, AttributeError):
    _handler_of, _handle = signal.getsignal, signal.signal

# The client pings an idle connection every 10 s; milvus-lite takes that for abuse and hangs up.
NO_PINGS = {"grpc.keepalive_time_ms": 2**31 - 1}
# Codes of a request that the engine cannot understand: a server, milvus-lite 2.5 and its C++ core, milvus-lite 3.
BAD_REQUEST = frozenset({1100, 2000, 6})
TOO_LARGE = ("exceed the limit size", "message larger than max", "maxOutputSize", "RESOURCE_EXHAUSTED")
UNREACHABLE = (
    "Fail connecting to server",
    "StatusCode.UNAVAILABLE",
    "server unavailable",
    "Stream removed",
    "Connection reset",
    "Socket closed",
)


class Engine:
    """A connection to Milvus, shared by all threads; engines override its attributes and methods."""

    exclusive = False
    defers = False  # whether log rows may wait for those after them
    partition_key = True
    dense_index = "AUTOINDEX"  # approximate, for many rows; FLAT of the embedded engines is exact
    keys_per_query = 1000
    dense_bytes = MESSAGE_BYTES  # of dense vectors in a message or a reply
    dialect: Dialect = Dialect()
    version = ""
    file_id: tuple[int, int] | None = None  # device and inode of the database file, if it is one
    options: dict[str, Any]
    client: Any

    def __init__(self, place: str) -> None:
        self.place = place
        self.users = 0  # stores that have it open
        self._write_lock = threading.RLock()
        self._log_writes: Counter[str] = Counter()
        self.deferred: defaultdict[str, DeferredRows] = defaultdict(DeferredRows)  # by log
        self._counting = threading.Lock()
        self._pid = os.getpid()

    @property
    def is_inherited(self) -> bool:
        """Whether a parent process made this connection before a fork; gRPC does not survive one."""
        return self._pid != os.getpid()

    @property
    def name(self) -> str:
        return f"{self.dialect.engine} at {self.place}"

    @property
    def write_lock(self) -> WriteLock:
        self._check_process()  # a forked child may have inherited it taken by a thread that it does not have
        return self._write_lock

    @property
    def late_seconds(self) -> float:
        """Seconds from its call during which a write that was given up may still take place."""
        return 0.0

    def storage_choices(self) -> Mapping[str, tuple[Any, ...]]:
        """Return the storage options that have an effect, each with its values, () for all."""
        return {}

    def check_collection(self, collection: str) -> None:
        """Refuse the name of a new collection that this engine would confuse with another."""

    def num_rows(self, collection: str) -> int | None:  # noqa: ARG002
        """Return the number of rows, if the engine knows it without loading them; else None."""
        return None

    def compact(self) -> bool:
        """Rewrite the file without what deleted rows have left there, if that can be done; return whether it was."""
        return False

    def prepare(self, collection: str) -> None:
        """Make a collection ready for calls, once after opening it."""

    def reveal_rows(self) -> None:
        """Mend rows that the engine hides."""

    def after_write(self, collection: str, rows: int) -> None:
        """Return once a write is visible."""

    def before_search(self, collection: str) -> None:
        """Finish the writes that a search must see."""

    def note_log_write(self, log: str) -> None:
        """Count a write to a log, for the other stores of this process that share the engine."""
        with self._counting:
            self._log_writes[log] += 1

    def log_writes(self, log: str) -> int:
        """Return how many writes to a log all stores of this process have made."""
        self._check_process()  # before a search waits for a lock that a thread of the parent holds for ever
        return self._log_writes[log]

    def close(self) -> None:
        """Release everything; closing twice is allowed."""

    def read(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of the client that changes nothing."""
        return self._call(method, *args, **kwargs)

    def write(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of the client that changes something."""
        return self._call(method, *args, **kwargs)

    def _call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call the client; translate its errors."""
        self._check_process()
        try:
            with quiet(), _sigint_deferred():
                return getattr(self.client, method)(*args, **self.options, **kwargs)
        except (pymilvus.MilvusException, grpc.RpcError) as error:
            raise self._translate(method, error, filtered=bool(kwargs.get("filter"))) from error

    def _check_process(self) -> None:
        """Refuse a connection inherited by fork."""
        if self.is_inherited:
            raise StoreError(f"{self.name} was opened before a fork; open it again in this process")

    def _translate(self, method: str, error: Exception, *, filtered: bool) -> StoreError | FilterError:
        reason = self.reason(error)
        if any(sign in reason for sign in TOO_LARGE):
            return ReplyTooLargeError(f"{method} at {self.place} failed: {reason}")
        if filtered and getattr(error, "code", None) in BAD_REQUEST:
            return FilterError(f"{self.dialect.engine} refused the filter: {reason}")
        return StoreError(f"{method} failed at {self.name}: {reason}")

    def reason(self, error: Exception) -> str:
        """Return the message of the engine, on one line."""
        text = str(getattr(error, "message", "")) or str(error)
        if isinstance(error, grpc.Call):
            text = f"{error.code()}, {error.details()}"
        return re.sub(r"\s+", " ", re.sub(r"^\[\w+\] Retry run out of 0 retry times, (message=)?", "", text)).strip()


class EmbeddedEngine(Engine):
    """A database file, opened by this process alone."""

    exclusive = True
    defers = True
    options = {"retry_times": 0}  # noqa: RUF012 - read only; the client repeats failed calls for a minute by default

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self.path = path
        self.version = metadata.version("milvus-lite")
        self.key = (os.getpid(), path, False)  # under which other stores find it
        self.afterwards: Callable[[], object] = lambda: None
        self._is_closed = False
        self._loss = ""
        self._lock = DatabaseLock(path)
        self._lock.acquire()
        try:
            self.client = self._start()
            self._lock.inode.acquire()  # of a database that the engine has just made
        except BaseException:
            self._lock.release()
            raise
        self.file_id = _identity(path)

    def write(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of the client that changes something, and check that the file is still in place."""
        result = super().write(method, *args, **kwargs)
        self.check_in_place()
        return result

    def end_deferring(self) -> None:
        """Store the log rows that wait, and let no others wait.

        Where that fails they are lost, and the next process to open the index works them out again.
        """
        self.defers = False
        if self.is_inherited or not self._write_lock.acquire(blocking=False):
            return
        try:
            for log, rows in self.deferred.items():
                if rows.is_sure:
                    self._store_deferred(log, rows)
        finally:
            self._write_lock.release()

    def _store_deferred(self, log: str, rows: DeferredRows) -> None:
        with suppress(StoreError):
            self.check_in_place()
            self._call("insert", log, [log_entity(row) for row in rows])  # an engine that has died is not restarted
            rows.clear()

    def is_at(self, path: Path) -> bool:
        """Return whether a path leads to the database, under whatever name."""
        return self.file_id is not None and self.file_id == _identity(path)

    def check_in_place(self) -> None:
        """Refuse to go on if the database is no longer at its path.

        The engine would go on in memory, or in a file that has no name.
        """
        if not self._loss and (now := _identity(self.path)) != self.file_id:
            became = "was moved or deleted" if now is None else "was replaced by another one"
            self._loss = (
                f"{self.place} {became} while it was open. The last write may be lost, and further writes are refused. "
                "All writes that were acknowledged before are in the database that was opened: close the index, then "
                "move that database back, or open it at its new path"
            )
        self._refuse_lost()

    def _check_process(self) -> None:
        """Refuse a connection inherited by fork, and a database that is closed or gone."""
        super()._check_process()
        if self._is_closed:
            raise StoreError(f"{self.name} is closed")
        self._refuse_lost()

    def _refuse_lost(self) -> None:
        """Refuse a database file that is gone: rows in the engine's memory may never be stored."""
        if self._loss:
            raise StoreError(self._loss)

    def _start(self) -> Any:
        raise NotImplementedError

    def _stop(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Stop the engine, then let other processes open the file."""
        self.end_deferring()
        self._is_closed = True
        try:
            if not self.is_inherited:
                with suppress(Exception):  # a client of a dead engine; it is thrown away either way
                    self.client.close()
                self._stop()
        finally:
            self._lock.release()
        if not self.is_inherited:
            self.afterwards()


def free_bytes(path: Path) -> float:
    """Return the free bytes on the disk of a database; infinite if unknown."""
    try:
        return shutil.disk_usage(path.parent).free
    except OSError:
        return math.inf


def _identity(path: Path) -> tuple[int, int] | None:
    """Return device and inode, which identify a file or folder; None if it does not exist."""
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_dev, status.st_ino


class _OwnThread(logging.Filter):
    """Drop the log records of this thread: the failure of a call is raised, so its traceback is noise."""

    def __init__(self) -> None:
        super().__init__()
        self._thread = threading.get_ident()

    def filter(self, record: logging.LogRecord) -> bool:
        return record.thread != self._thread


@contextmanager
def quiet() -> Iterator[None]:
    """Keep client and engine from logging errors that are raised, for one call in this thread."""
    # milvus-lite logs through the root logger itself, pymilvus through handlers of its own.
    loggers = [logging.getLogger(), *logging.getLogger("pymilvus").handlers]
    own_thread = _OwnThread()
    for logger in loggers:
        logger.addFilter(own_thread)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(own_thread)


@contextmanager
def _sigint_deferred() -> Iterator[None]:
    """Defer Ctrl-C until the call in progress has returned, or until its second press.

    Within gRPC it can leave a lock of the channel taken, and the next call would wait for ever. A write that goes on in
    the engine must not overlap with the next call of the program.
    """
    previous = _handler_of(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(previous):
        yield
        return
    pressed: list[int] = []

    def defer(number: int, frame: Any) -> None:
        pressed.append(number)
        if len(pressed) > 1:
            previous(number, frame)

    _handle(signal.SIGINT, defer)
    try:
        yield
    finally:
        _handle(signal.SIGINT, previous)
        if pressed:
            previous(signal.SIGINT, None)


def connect_client(uri: str, failure: str, **kwargs: Any) -> Any:
    """Connect a client with a channel of its own; without an answer, the ``StoreError`` is `failure`."""
    try:
        with quiet():
            return Client(uri, dedicated=True, alias=os.urandom(8).hex(), **kwargs)
    except (pymilvus.MilvusException, grpc.RpcError, OSError) as error:
        raise StoreError(failure) from error
