"""Choose and open the engine of an address; share embedded engines within a process."""

from __future__ import annotations

import atexit
import functools
import importlib
import os
import threading
import warnings
import weakref
from contextlib import suppress
from importlib import metadata
from typing import TYPE_CHECKING

from rag_bm25.errors import IndexNotFoundError, MissingExtraError, install_extra
from rag_bm25.store.milvus.address import database_path
from rag_bm25.store.milvus.database_file import PrivateCopy, can_be_written, require_database
from rag_bm25.store.milvus.engine import EmbeddedEngine, Engine
from rag_bm25.store.milvus.server import connect

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rag_bm25.store.milvus.connection import Connection

_open: dict[tuple[int, Path, bool], EmbeddedEngine] = {}  # by process, path, and whether it is a private copy
_locks: dict[int, threading.Lock] = {}  # by process: a thread of the parent may hold its own during a fork


def _opening() -> threading.Lock:
    """Return the lock of this process, which is held while an engine is opened or closed."""
    return _locks.setdefault(os.getpid(), threading.Lock())


def open_engine(connection: Connection, *, read_only: bool) -> Engine:
    """Connect to the engine of a URI; :func:`release_engine` takes it back."""
    if connection.is_server:
        return share_engine(connect(connection))
    path = database_path(connection.uri)
    if read_only and not path.exists():
        raise IndexNotFoundError(f"database {path} not found")
    with _opening():
        path = next((engine.path for engine in _open.values() if engine.is_at(path)), path)
        is_copy = read_only and not can_be_written(path)
        key = (os.getpid(), path, is_copy)
        if key in _open:
            _open[key].check_in_place()
        else:
            require_database(path)
            _open[key] = _open_copy(path) if is_copy else _embedded_class()(path)
            _prepare_exit()  # only now: what is registered last runs first, and engines end at exit as well
        engine = _open[key]
        engine.key = key
        engine.users += 1
    return engine


def share_engine(engine: Engine) -> Engine:
    """Use an engine that is open once more; :func:`release_engine` takes it back."""
    with _opening():
        engine.users += 1
    return engine


@functools.cache
def _prepare_exit() -> None:
    """Have what was deferred stored when the process ends, also where nobody closes the index."""
    with suppress(RuntimeError):  # it is ending already
        getattr(threading, "_register_atexit", atexit.register)(_end_deferring)


def _end_deferring() -> None:
    with _opening():  # waits for an engine that its thread is closing, since its owner was forgotten
        for engine in _open.values():
            engine.end_deferring()


def _open_copy(path: Path) -> EmbeddedEngine:
    """Open a copy of a database that cannot be written to; it is removed when the engine is closed."""
    engine_class, copy = _embedded_class(), PrivateCopy(path)
    try:
        engine = engine_class(copy.path)
    except BaseException:
        copy.remove()
        raise
    engine.place = f"a copy of {path}"
    engine.afterwards = weakref.finalize(engine, copy.remove)  # also if the engine is never closed
    return engine


def release_when_forgotten(owner: object, engine: Engine) -> Callable[[], object]:
    """Release an engine when its owner is garbage; return the function that cancels this."""
    forgotten = weakref.finalize(owner, _release_forgotten, engine)
    forgotten.atexit = False  # engines end with the process by themselves
    return forgotten.detach


def _release_forgotten(engine: Engine) -> None:
    """Release an engine whose owner is gone; in a forked child it is the parent's.

    In a thread of its own: garbage is collected anywhere, also while this thread has the lock that a release needs.
    """
    if not engine.is_inherited:
        threading.Thread(target=release_engine, args=(engine,), name="rag_bm25-release").start()
        warnings.warn(f"an index at {engine.name} was not closed", ResourceWarning, stacklevel=2)


def release_engine(engine: Engine) -> None:
    """Release an engine; its last user closes it."""
    with _opening():
        engine.users -= 1
        if engine.users:
            return
        if isinstance(engine, EmbeddedEngine):
            _open.pop(engine.key, None)
        engine.close()


def _embedded_class() -> Callable[[Path], EmbeddedEngine]:
    """Choose the class for the installed milvus-lite."""
    try:
        version = metadata.version("milvus-lite")
    except metadata.PackageNotFoundError:
        msg = f"a database file needs milvus-lite, which is not installed: {install_extra('lite')}"
        raise MissingExtraError(msg) from None
    module = "lite2" if version.startswith("2.") else "lite3"
    engine: Callable[[Path], EmbeddedEngine] = importlib.import_module(f"rag_bm25.store.milvus.{module}").Engine
    return engine
