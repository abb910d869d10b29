"""milvus-lite 3: a rewrite in pure Python, correct, but slow on rows that are not flushed."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import threading
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rag_bm25.errors import MissingExtraError, StoreError, install_extra
from rag_bm25.store.milvus.engine import NO_PINGS, EmbeddedEngine, connect_client, free_bytes
from rag_bm25.store.milvus.engine import Engine as BaseEngine
from rag_bm25.store.milvus.expressions import Lite3Dialect

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

RELEASED = "call load()"
CHANGES = frozenset({"create_collection", "create_index", "drop_collection", "insert", "delete", "flush"})
_inherited: list[Any] = []
_ending = threading.Event()
_engines: weakref.WeakSet[Engine] = weakref.WeakSet()  # of this process


class FlushingEngine(BaseEngine):
    """The care that milvus-lite 3 needs, in this process or behind an address."""

    dense_index = "FLAT"
    dialect = Lite3Dialect()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._turns = threading.RLock()
        self._loaded: set[str] = set()
        super().__init__(*args, **kwargs)

    def _call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call the engine while no other thread does.

        It has no lock around its journal and its table of open collections: concurrent writes mix their bytes, a flush
        deletes the journal of a concurrent write, a read during a flush misses rows, and two threads that use a
        collection first open it twice. Searches lose no time: they are Python, and take turns anyway.
        """
        self._check_process()  # a forked child may have inherited the lock taken
        with self._turns:
            if _ending.is_set():
                raise StoreError(f"{method} failed at {self.name}: this program is ending")
            return super()._call(method, *args, **kwargs)

    def storage_choices(self) -> Mapping[str, tuple[Any, ...]]:
        """Return nothing: the engine ignores the storage options, or refuses them."""
        return {}

    def await_call(self) -> None:
        """Return when no call is in progress."""
        with self._turns:
            pass

    def prepare(self, collection: str) -> None:
        """Load the collection; its rows of an earlier process are flushed before the first search."""
        self._loaded.add(collection)
        self._unflushed().add(collection)
        self.read("load_collection", collection)  # like flushing, it may be done twice

    def read(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call the engine; if a server was restarted, load the collection again and repeat the call."""
        try:
            return super().read(method, *args, **kwargs)
        except StoreError as error:
            if RELEASED not in str(error) or args[0] not in self._loaded:
                raise
        self.prepare(args[0])
        return super().read(method, *args, **kwargs)

    def after_write(self, collection: str, _rows: int) -> None:
        """Note that a flush is due; the rows are visible at once."""
        self._unflushed().add(collection)

    def before_search(self, collection: str) -> None:
        """Flush the rows since the last search: every search indexes rows in memory again."""
        if collection in self._unflushed():
            self._unflushed().discard(collection)
            try:
                self.read("flush", collection)
            except BaseException:
                self._unflushed().add(collection)
                raise

    def _unflushed(self) -> set[str]:
        """Return the collections with rows in memory."""
        names: set[str] = self.__dict__.setdefault("unflushed", set())
        return names


class Engine(FlushingEngine, EmbeddedEngine):
    """One database folder, served by threads of this process."""

    def __init__(self, path: Path) -> None:
        if path.is_file():
            raise StoreError(
                f"{path} is a file, a database of milvus-lite 2.5; milvus-lite 3 is installed and cannot open it: "
                'pip install "milvus-lite<3", or copy it through a server (docs/moving.md)'
            )
        self._is_broken = False
        super().__init__(path)
        _engines.add(self)

    def _call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call the engine; after a failed write or flush, ask nothing of it until the database is opened again.

        A flush takes the rows out of memory before it writes them, and a torn record of the journal hides those that
        follow it: rows that were acknowledged before would be lost.
        """
        self._check_process()
        with self._turns:
            if self._is_broken:
                self._reopen()
            try:
                return super()._call(method, *args, **kwargs)
            except StoreError as error:
                if method not in CHANGES or _ending.is_set():
                    raise
                self._is_broken = True
                free = free_bytes(self.path) / 2**20
                with suppress(StoreError):  # then the next call tries again
                    self._reopen()
                raise type(error)(f"{error}; its disk has {free:,.1f} MiB left") from error

    def _reopen(self) -> None:
        """Open the database again, from its files alone."""
        self.check_in_place()
        if self._is_shared:
            raise StoreError(
                f"a write to {self.place} has failed, and pymilvus has the database open: end this program, and open "
                "the database again"
            )
        with suppress(Exception):  # a client without a server
            self.client.close()
        self._abandon_server()
        self.client = self._start()
        for collection in super()._call("list_collections"):
            if collection in self._loaded:
                super()._call("load_collection", collection)
                self._unflushed().add(collection)
        self._is_broken = False

    def _start(self) -> Any:
        """Start the server threads and connect to them, past any proxy."""
        manager = _manager()
        self._is_shared = str(self.path) in vars(manager)["_servers"]
        uri = manager.start_and_get_uri(str(self.path))
        if uri is None:
            msg = f"milvus-lite 3 cannot open {self.place}; check that it is a database of this version, not damaged"
            raise StoreError(msg)
        failure = f"milvus-lite 3 at {self.place} does not answer; where a proxy is set, add 127.0.0.1 to no_proxy"
        return connect_client(uri, failure, grpc_options={"grpc.enable_http_proxy": 0, **NO_PINGS})

    def read(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call the engine; where the file system ignores case, ``docs`` is not the collection ``Docs``.

        The engine looks for a folder, and would open the one of the other name a second time.
        """
        answer = super().read(method, *args, **kwargs)
        if method == "has_collection" and answer:
            names = super().read("list_collections")
            return args[0] in names or args[0].lower() not in map(str.lower, names)
        return answer

    def write(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method that changes something; what a killed process left of a collection is no obstacle to it."""
        if method == "create_collection":
            self._remove_remains(self.path / "collections" / args[0])
        return super().write(method, *args, **kwargs)

    def _remove_remains(self, folder: Path) -> None:
        """Remove the folder of a collection that was killed before it had a schema, and so before it had rows.

        The engine neither knows such a collection nor makes another one in its place.
        """
        if folder.is_dir() and not (folder / "schema.json").exists() and not any(folder.glob("*/*")):
            shutil.rmtree(folder, ignore_errors=True)

    def before_search(self, collection: str) -> None:
        """Flush into the folder that was opened; the engine would create another one in its place."""
        if collection in self._unflushed():
            self.check_in_place()
        super().before_search(collection)

    def _stop(self) -> None:
        """Stop the server threads, unless a client of pymilvus in this process had started them."""
        if self._is_shared:
            return
        with suppress(StoreError):
            self.check_in_place()
        if self._loss or self._is_broken:  # closing would flush into another folder at the path of the lost one
            self._abandon_server()
        else:
            _manager().release_server(str(self.path))

    def _abandon_server(self) -> None:
        server, database, _ = vars(_manager())["_servers"].pop(str(self.path), (None, None, 0))
        if server is not None:
            server.stop(grace=None).wait()
            _abandon(database)


@functools.cache
def _manager() -> Any:
    """Return the open databases of milvus-lite."""
    try:
        from milvus_lite.server_manager import server_manager_instance
        from milvus_lite.storage.wal import WAL
    except ImportError as error:
        raise MissingExtraError(f"milvus-lite cannot be imported ({error}): {install_extra('lite')}") from error
    if hasattr(os, "register_at_fork"):  # not on Windows
        os.register_at_fork(after_in_child=functools.partial(_leave_to_the_parent, server_manager_instance))
    if WAL.__init__.__defaults__ == ("close",):  # else a power loss takes acknowledged writes; it costs a fifth
        WAL.__init__.__defaults__ = ("batch",)
    # The engine's threads end before those of the program: a later call would never be answered.
    getattr(threading, "_register_atexit", atexit.register)(_end_calls)
    return server_manager_instance


def _end_calls() -> None:
    """Refuse further calls, and wait for those in progress."""
    _ending.set()
    for engine in list(_engines):
        if not engine.is_inherited:  # else the call in progress is the parent's, and never ends here
            engine.await_call()


def _abandon(database: Any) -> None:
    """Close the files of a database without writing: its journals have all rows."""
    for collection in vars(database)["_collections"].values():
        vars(collection)["_bg_executor"].shutdown()  # it removes files that the next one to open them would miss
        journal = vars(vars(collection)["_wal"])
        for file in (journal["_data_sink"], journal["_delta_sink"]):
            with suppress(OSError):  # what is left in its buffer is no row that was acknowledged
                if file is not None:
                    file.close()
    database._release_lock()  # noqa: SLF001


def _leave_to_the_parent(manager: Any) -> None:
    """Hide the parent's databases from the manager of a forked child.

    It closes them when its process ends. In a child this ends in gRPC's threads, which do not exist there, and flushes
    and deletes the journal of a database that the parent goes on writing: later rows would be lost.
    """
    _inherited.append(vars(manager)["_servers"])  # kept: to free them would end in gRPC, too
    vars(manager)["_servers"] = {}
