"""Which engine a URI means, and what all engines have in common: one guarded way to call them."""

from __future__ import annotations

import importlib
import logging
import math
import os
import re
import signal
import threading
import warnings
import weakref
from collections import Counter
from contextlib import contextmanager, suppress
from importlib import metadata
from typing import TYPE_CHECKING, Any

import grpc

from rag_bm25.errors import FilterError, IndexNotFoundError, MissingExtraError, ParameterError, StoreError, shown
from rag_bm25.milvus_store.address import database_path, is_address, refuse_tls
from rag_bm25.milvus_store.client import Client, pymilvus
from rag_bm25.milvus_store.expressions import Dialect
from rag_bm25.milvus_store.lock import DatabaseLock
from rag_bm25.milvus_store.private_copy import PrivateCopy, can_be_written
from rag_bm25.tls import TLS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from rag_bm25.store import WriteLock

__all__ = [
    "MESSAGE_BYTES",
    "NO_PINGS",
    "UNREACHABLE",
    "EmbeddedEngine",
    "Engine",
    "ReplyTooLargeError",
    "connect_client",
    "open_engine",
    "open_engines",
    "quiet",
    "release_engine",
    "release_when_forgotten",
]

try:  # those of `signal` ask an enum about each handler, which takes as long as packing a search
    _handler_of, _handle = (getattr(importlib.import_module("_signal"), name) for name in ("getsignal", "signal"))
except (ImportError, AttributeError):
    _handler_of, _handle = signal.getsignal, signal.signal

# The client pings an idle connection every 10 s; milvus-lite takes that for abuse after some time, and hangs up.
NO_PINGS = {"grpc.keepalive_time_ms": 2**31 - 1}
MESSAGE_BYTES = 32 * 2**20  # half of what a server takes by default
# Codes of a request that makes no sense to the engine: a server, milvus-lite 2.5 (also its C++ core), milvus-lite 3.
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


class ReplyTooLargeError(StoreError):
    """A message was larger than the engine takes; asking for less helps."""


class Engine:
    """A connection to Milvus, shared by all threads.

    What differs between engines is a method or an attribute here, with the common case as its default.
    """

    exclusive = False
    imports = False  # whether it reads files by itself
    partition_key = True
    dense_index = "AUTOINDEX"  # approximate, for many rows; embedded engines have FLAT, which is exact
    dense_bytes = MESSAGE_BYTES  # of dense vectors in a message or a reply
    dialect: Dialect = Dialect()
    options: dict[str, Any]
    client: Any

    def __init__(self, place: str) -> None:
        self.place = place
        self._write_lock = threading.RLock()
        self._log_writes: Counter[str] = Counter()
        self._counting = threading.Lock()
        self._pid = os.getpid()

    @property
    def is_inherited(self) -> bool:
        """Whether a parent process made this connection before a fork, which gRPC does not survive."""
        return self._pid != os.getpid()

    @property
    def name(self) -> str:
        """Engine and place, for messages."""
        return f"{self.dialect.engine} at {self.place}"

    @property
    def write_lock(self) -> WriteLock:
        """The lock that all stores on this engine hold for a batch; reentrant."""
        self._check_process()  # a forked child may have inherited it taken, by a thread that it does not have
        return self._write_lock

    def check_collection(self, collection: str) -> None:
        """Refuse a new collection whose name this engine would mix up with another."""

    def num_rows(self, collection: str) -> int | None:  # noqa: ARG002
        """Return how many rows a collection has, where that can be told without loading them; else None."""
        return None

    def prepare(self, collection: str) -> None:
        """Make a collection ready for reading, once after opening it."""

    def written(self, collection: str, rows: int) -> None:
        """Return once a write is visible."""

    def before_search(self, collection: str) -> None:
        """Do what is still to do between a write and a search."""

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
        """Call the client, with errors as ours."""
        self._check_process()
        try:
            with quiet(), _interrupts_deferred():
                return getattr(self.client, method)(*args, **self.options, **kwargs)
        except (pymilvus.MilvusException, grpc.RpcError) as error:
            raise self._translated(method, error, filtered=_is_filtered(kwargs)) from error

    def _check_process(self) -> None:
        """Refuse a connection inherited by fork."""
        if self.is_inherited:
            msg = f"{self.name} was opened before a fork; open it again in this process"
            raise StoreError(msg)

    def _translated(self, method: str, error: Exception, *, filtered: bool) -> StoreError | FilterError:
        """Turn a failure of the client into one of ours."""
        reason = self.reason(error)
        if any(sign in reason for sign in TOO_LARGE):
            return ReplyTooLargeError(f"{method} at {self.place} failed: {reason}")
        if filtered and getattr(error, "code", None) in BAD_REQUEST:
            hint = 'metadata is named as in metadata["page"]'
            return FilterError(f"{self.dialect.engine} refused the filter: {reason} ({hint})")
        return StoreError(f"{method} failed at {self.name}: {reason}")

    def reason(self, error: Exception) -> str:
        """Return what the engine says, on one line."""
        text = str(getattr(error, "message", "")) or str(error)
        if isinstance(error, grpc.Call):
            text = f"{error.code()}, {error.details()}"
        return re.sub(r"\s+", " ", re.sub(r"^\[\w+\] Retry run out of 0 retry times, (message=)?", "", text)).strip()


def _is_filtered(call: Mapping[str, Any]) -> bool:
    """Tell whether a call has a filter, its own or that of one of its searches."""
    return bool(call.get("filter")) or any(request.expr for request in call.get("reqs", ()))


class EmbeddedEngine(Engine):
    """A database file, opened by this process alone."""

    exclusive = True
    options = {"retry_times": 0}  # noqa: RUF012 - read only; the client repeats failed calls for a minute by default

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self.path = path
        self.key = (os.getpid(), path, False)  # under which other stores find it
        self.afterwards: Callable[[], object] = lambda: None
        self.users = 0
        self._is_closed = False
        self._loss = ""
        self._lock = DatabaseLock(path)
        self._lock.acquire()
        try:
            self.client = self._start()
        except BaseException:
            self._lock.release()
            raise
        self._identity = _identity(path)

    def write(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of the client that changes something; it counts when it is where the file was opened."""
        result = super().write(method, *args, **kwargs)
        self.check_in_place()
        return result

    def check_in_place(self) -> None:
        """Refuse to go on when the path is not that of the database any more.

        The engine would go on in memory, or in a file that nobody finds.
        """
        if not self._loss and (now := _identity(self.path)) != self._identity:
            became = "was moved or deleted" if now is None else "was replaced by another one"
            self._loss = (
                f"{self.place} {became} while it was open: the last write may be lost, no other is taken. All that was "
                "acknowledged before is in the database that was opened: close the index, then move that database "
                "back, or open it where it is now"
            )
        self._refuse_lost()

    def _check_process(self) -> None:
        """Refuse a connection inherited by fork, and a database that is closed or gone."""
        super()._check_process()
        if self._is_closed:
            msg = f"{self.name} is closed"
            raise StoreError(msg)
        self._refuse_lost()

    def _refuse_lost(self) -> None:
        """Refuse a database that was found to be gone: what the engine has in memory may be stored nowhere."""
        if self._loss:
            raise StoreError(self._loss)

    def _start(self) -> Any:
        """Start the engine and connect to it."""
        raise NotImplementedError

    def _stop(self) -> None:
        """Stop the engine."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop the engine, then let other processes open the file."""
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


def _identity(path: Path) -> tuple[int, int] | None:
    """Return what tells a file or folder from another that takes its place; None where there is none."""
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_dev, status.st_ino


_open: dict[tuple[int, Path, bool], EmbeddedEngine] = {}  # by process, path, and whether it is a copy
_opening = threading.Lock()


def open_engine(
    uri: str | Path, *, token: str | None, timeout: float | None, read_only: bool, tls: TLS | None = None
) -> Engine:
    """Connect to the engine that a URI means.

    Parameters
    ----------
    uri : str or Path
        A path ending in ``.db``, or the address of a server.
    token : str or None
        ``user:password`` or an API key, for servers.
    timeout : float or None
        Seconds that a call of a server may take, connecting included.
    read_only : bool
        Whether a missing file is an error, instead of being made.
    tls : TLS or None
        Certificates, for ``https://`` addresses.

    Returns
    -------
    Engine
        To be given back to :func:`release_engine`.
    """
    _check_connection(token, timeout, tls)
    if is_address(uri):
        from rag_bm25.milvus_store.server import connect

        return connect(str(uri), token=token, timeout=timeout, tls=tls)
    refuse_tls(uri, tls)
    path = database_path(uri)
    if read_only and not path.exists():
        msg = f"there is no database at {path}"
        raise IndexNotFoundError(msg)
    with _opening:
        is_copy = read_only and not can_be_written(path)
        key = (os.getpid(), path, is_copy)
        if key in _open:
            _open[key].check_in_place()
        else:
            _open[key] = _opened_copy(path) if is_copy else _embedded_class()(path)
        engine = _open[key]
        engine.key = key
        engine.users += 1
    return engine


def _opened_copy(path: Path) -> EmbeddedEngine:
    """Open a copy of a database that cannot be written to; it is removed when the engine is closed."""
    engine_class, copy = _embedded_class(), PrivateCopy(path)
    try:
        engine = engine_class(copy.path)
    except BaseException:
        copy.remove()
        raise
    engine.place = f"a copy of {path}"
    engine.afterwards = weakref.finalize(engine, copy.remove)  # also where nobody closes the engine
    return engine


def open_engines() -> list[EmbeddedEngine]:
    """Return the engines that this process has open."""
    return list(_open.values())


def _check_connection(token: object, timeout: object, tls: object) -> None:
    """Refuse what is not of its type; the value may be a secret."""
    if not isinstance(token, str | None):
        msg = f"token must be a str, got {type(token).__name__}"
        raise ParameterError(msg)
    if timeout is not None and not _is_duration(timeout):
        msg = f"timeout must be a number greater than 0, got {shown(timeout)}"
        raise ParameterError(msg)
    if not isinstance(tls, TLS | None):
        msg = f"tls must be a TLS, got {type(tls).__name__}"
        raise ParameterError(msg)


def _is_duration(value: object) -> bool:
    """Tell a number of seconds that a call may take."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf


def release_when_forgotten(owner: object, engine: Engine) -> Callable[[], object]:
    """Give an engine back when its owner is garbage; return what calls that off."""
    forgotten = weakref.finalize(owner, _release_forgotten, engine)
    forgotten.atexit = False  # engines end with the process by themselves
    return forgotten.detach


def _release_forgotten(engine: Engine) -> None:
    """Give back an engine that nobody can close any more; in a forked child it is the parent's.

    In a thread: garbage is collected anywhere, also while this thread has the lock that releasing needs.
    """
    if not engine.is_inherited:
        threading.Thread(target=release_engine, args=(engine,), name="rag_bm25-release").start()
        warnings.warn(f"an index at {engine.name} was not closed", ResourceWarning, stacklevel=2)


def release_engine(engine: Engine) -> None:
    """Give an engine back; the last user of a database file closes it."""
    if not isinstance(engine, EmbeddedEngine):
        engine.close()
        return
    with _opening:
        engine.users -= 1
        if engine.users == 0:
            _open.pop(engine.key, None)
            engine.close()


def _embedded_class() -> Callable[[Path], EmbeddedEngine]:
    """Choose by the milvus-lite that is installed."""
    try:
        version = metadata.version("milvus-lite")
    except metadata.PackageNotFoundError:
        msg = 'a database file needs milvus-lite, which is not installed: pip install "rag-bm25[lite]"'
        raise MissingExtraError(msg) from None
    module = "lite2" if version.startswith("2.") else "lite3"
    engine: Callable[[Path], EmbeddedEngine] = importlib.import_module(f"rag_bm25.milvus_store.{module}").Engine
    return engine


class _OwnThread(logging.Filter):
    """Drops what this thread logs: a call's failure is raised, so its traceback is noise."""

    def __init__(self) -> None:
        super().__init__()
        self._thread = threading.get_ident()

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep the records of other threads."""
        return record.thread != self._thread


@contextmanager
def quiet() -> Iterator[None]:
    """Keep client and engine from logging errors that we raise, for one call in this thread."""
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
def _interrupts_deferred() -> Iterator[None]:
    """Let Ctrl-C come after the call that is under way, or at its second press.

    Within gRPC it can leave a lock of the channel taken, and the next call would wait for ever; and a write that goes
    on in the engine must not overlap with what the program does next.
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


def connect_client(uri: str, what: str, **kwargs: Any) -> Any:
    """Connect a client that shares its channel with nobody.

    Raises
    ------
    StoreError
        If nobody answers; the message begins with `what`.
    """
    try:
        with quiet():
            return Client(uri, dedicated=True, alias=os.urandom(8).hex(), **kwargs)
    except (pymilvus.MilvusException, grpc.RpcError, OSError) as error:
        raise StoreError(what) from error
