"""milvus-lite 3: a rewrite in pure Python, correct, but slow on rows that are not flushed."""

from __future__ import annotations

import atexit
import functools
import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rag_bm25.errors import MissingExtraError, StoreError
from rag_bm25.milvus_store import engines
from rag_bm25.milvus_store.expressions import Lite3Dialect

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Engine", "FlushingEngine"]

RELEASED = "call load()"
_inherited: list[Any] = []
_ending = threading.Event()


class FlushingEngine(engines.Engine):
    """What milvus-lite 3 needs, in this process or behind an address."""

    dense_index = "FLAT"
    dialect = Lite3Dialect()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._turns = threading.RLock()
        self._loaded: set[str] = set()
        super().__init__(*args, **kwargs)

    def _call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call the engine while no other thread does.

        It has no lock around its journal and its table of open collections: two writes at once mix their bytes, a flush
        deletes the journal that a write has just gone to, a read during a flush misses rows, and two threads that are
        the first to use a collection open it twice. Searches lose nothing: they are Python, and take turns anyway.
        """
        self._check_process()  # a forked child may have inherited the lock taken
        with self._turns:
            if _ending.is_set():
                msg = f"{method} failed at {self.name}: this program is ending"
                raise StoreError(msg)
            return super()._call(method, *args, **kwargs)

    def await_call(self) -> None:
        """Return when no call is under way."""
        with self._turns:
            pass

    def prepare(self, collection: str) -> None:
        """Load the collection, and flush what an earlier process left."""
        self._loaded.add(collection)
        self._unflushed().add(collection)
        self.read("load_collection", collection)  # like flushing, it may be done twice

    def read(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call the engine; where a server was started anew, load the collection again and call it once more."""
        try:
            return super().read(method, *args, **kwargs)
        except StoreError as error:
            if RELEASED not in str(error) or args[0] not in self._loaded:
                raise
        self.prepare(args[0])
        return super().read(method, *args, **kwargs)

    def written(self, collection: str, _rows: int) -> None:
        """Note that a flush is due; the rows can be seen at once."""
        self._unflushed().add(collection)

    def before_search(self, collection: str) -> None:
        """Flush what was written since the last search: rows in memory are indexed anew by every search."""
        if collection in self._unflushed():
            self._unflushed().discard(collection)
            self.read("flush", collection)

    def _unflushed(self) -> set[str]:
        """Return the collections with rows in memory."""
        names: set[str] = self.__dict__.setdefault("unflushed", set())
        return names


class Engine(FlushingEngine, engines.EmbeddedEngine):
    """One database folder, served by threads of this process."""

    def __init__(self, path: Path) -> None:
        if path.is_file():
            msg = (
                f"{path} is a file, a database of milvus-lite 2.5; milvus-lite 3 is installed and cannot open it: "
                'pip install "milvus-lite<3" "setuptools<82", or copy it through a server (docs/operating.md)'
            )
            raise StoreError(msg)
        super().__init__(path)

    def _start(self) -> Any:
        """Start the server threads and connect to them, past any proxy."""
        manager = _manager()
        self._is_shared = str(self.path) in vars(manager)["_servers"]
        uri = manager.start_and_get_uri(str(self.path))
        if uri is None:
            msg = f"milvus-lite 3 cannot open {self.place}; check that it is a database of this version, not damaged"
            raise StoreError(msg)
        failure = f"milvus-lite 3 at {self.place} does not answer; where a proxy is set, add 127.0.0.1 to no_proxy"
        return engines.connect_client(uri, failure, grpc_options={"grpc.enable_http_proxy": 0, **engines.NO_PINGS})

    def before_search(self, collection: str) -> None:
        """Flush into the folder that was opened: the engine would make another one in its place."""
        if collection in self._unflushed():
            self.check_in_place()
        super().before_search(collection)

    def _stop(self) -> None:
        """Stop the server threads, unless a client of pymilvus in this process had started them before."""
        if self._is_shared:
            return
        with suppress(StoreError):
            self.check_in_place()
        if self._loss:  # closing would flush into another folder in the place of the one that is gone
            server, database, _ = vars(_manager())["_servers"].pop(str(self.path))
            server.stop(grace=None)
            _abandon(database)
        else:
            _manager().release_server(str(self.path))


@functools.cache
def _manager() -> Any:
    """Return milvus-lite's registry of open databases."""
    try:
        from milvus_lite.server_manager import server_manager_instance
    except ImportError as error:
        msg = f'milvus-lite cannot be imported ({error}): pip install "rag-bm25[lite]"'
        raise MissingExtraError(msg) from error
    if hasattr(os, "register_at_fork"):  # not on Windows
        os.register_at_fork(after_in_child=functools.partial(_leave_to_the_parent, server_manager_instance))
    # The engine's threads end before those of the program do: a call that comes later would never be answered.
    getattr(threading, "_register_atexit", atexit.register)(_end_calls)
    return server_manager_instance


def _end_calls() -> None:
    """Take no more calls, and wait for those that are under way."""
    _ending.set()
    for engine in engines.open_engines():
        if isinstance(engine, FlushingEngine):
            engine.await_call()


def _abandon(database: Any) -> None:
    """Close the files of a database that is gone from its place, and write nothing: its journal has all rows."""
    for collection in vars(database)["_collections"].values():
        journal = vars(vars(collection)["_wal"])
        for file in (journal["_data_sink"], journal["_delta_sink"]):
            if file is not None:
                file.close()
    database._release_lock()  # noqa: SLF001


def _leave_to_the_parent(manager: Any) -> None:
    """Hide the parent's databases from the manager of a forked child.

    It closes all that it knows when its process ends. In a child this ends in gRPC's threads, which are not there, and
    flushes and deletes the journal of a database that the parent goes on writing: what came after would be lost.
    """
    _inherited.append(vars(manager)["_servers"])  # kept: freeing them would end in gRPC, too
    vars(manager)["_servers"] = {}
