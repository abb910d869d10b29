"""The storage protocol of an index.

:class:`rag_bm25.store.MilvusStore` satisfies it for every Milvus engine, :class:`rag_bm25.store.MemoryStore` in memory;
one contract suite tests them all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rag_bm25.errors import StoreError
from rag_bm25.store.rows import ALL_CHUNKS, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

    import numpy as np
    from numpy.typing import NDArray

    from rag_bm25.store.rows import ChunkRow, DenseField, KeyRange, LogRow, Match, SearchArm
    from rag_bm25.store.storage import StorageInfo
    from rag_bm25.vectors.sparse import SparseVector


class AmbiguousWriteError(StoreError):
    """A write was given up without an answer: a server may still carry it out."""


class WriteLock(Protocol):
    """A lock that its holder may take again, such as ``threading.RLock``."""

    def acquire(self, blocking: bool = True) -> bool:
        """Take the lock; return False if it is taken and `blocking` is False."""
        ...

    def release(self) -> None:
        """Release the lock."""
        ...

    def __enter__(self) -> bool: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None: ...


class LogStore(Protocol):
    """The statistics log alone.

    Every write is durable when it returns, unless it is deferred, and visible to the next call of this store. Every
    failure of the engine is a :class:`~rag_bm25.errors.StoreError`.
    """

    @property
    def name(self) -> str:
        """Engine, URI without secrets, and collection, for messages."""
        ...

    @property
    def exclusive(self) -> bool:
        """Whether this process alone can write, as with embedded engines: only its own stores change anything."""
        ...

    def insert_log(self, rows: Sequence[LogRow], *, defer: bool = False) -> None:
        """Insert log rows under keys that are not stored yet, all or none if the engine can.

        Parameters
        ----------
        rows : sequence of LogRow
            The rows.
        defer : bool
            Whether an :attr:`exclusive` store may keep them until the next write, and write them first then, or when it
            is closed. All stores of the process read them at once; a process that is killed before loses them.
        """
        ...

    def delete_log(self, keys: Sequence[str]) -> None:
        """Delete log rows; keys that are not stored are ignored."""
        ...

    def log_keys(self, ranges: Sequence[KeyRange] | None = None) -> list[str]:
        """Return the keys of log rows, each once, in any order.

        Parameters
        ----------
        ranges : sequence of (str, str), optional
            Only the keys in one of these ranges, whose two ends are left out; by default all keys.
        """
        ...

    def get_log(self, keys: Sequence[str], *, packed: bool = True) -> list[LogRow]:
        """Read the log rows of any number of keys, each once, in any order; keys that are not stored are ignored.

        Parameters
        ----------
        packed : bool
            Whether to read the packed data.
        """
        ...


class Store(LogStore, Protocol):
    """Two collections: the chunks and the statistics log."""

    @property
    def write_lock(self) -> WriteLock:
        """Reentrant lock for a batch, a recovery, or any sequence of calls that no write may interrupt.

        Shared by all stores of this process on one embedded engine, so that an intent found under it has no living
        writer. On a server each store has its own.
        """
        ...

    @property
    def place(self) -> tuple[object, ...]:
        """Where the rows are: equal for two stores on the same collections, under whatever path or address."""
        ...

    @property
    def late_seconds(self) -> float:
        """Seconds from its call during which a write may take place after an ``AmbiguousWriteError``; 0 without any."""
        ...

    @property
    def writes_of_others(self) -> int:
        """Number of writes to the log by other stores of this process; if it has grown, the log has changed.

        It counts from any number, and means nothing if the store is not :attr:`exclusive`.
        """
        ...

    def exists(self) -> bool:
        """Return whether both collections exist and are complete, with or without a dense field.

        If creating them was interrupted they are not; :meth:`create` completes them.

        Raises
        ------
        FormatError
            A collection of the name has other fields.
        ConfigMismatchError, ParameterError
            The store was given storage options that the collections do not have, or that the engine would ignore.
        """
        ...

    def has_collections(self) -> bool:
        """Return whether one of the two collections exists, also as remains of an interrupted create or drop.

        It raises the error of :meth:`exists`.
        """
        ...

    @property
    def generation(self) -> int:
        """Number of the generation of the index that this store holds, from 1."""
        ...

    def successor(self) -> Store:
        """Open the store of the next generation, in the same database and with the same options; it may be empty."""
        ...

    def first(self) -> Store:
        """Open the store of the first generation, likewise."""
        ...

    def has_log(self) -> bool:
        """Return whether the statistics log exists, also where the chunks were dropped."""
        ...

    def index_names(self) -> list[str]:
        """Return the names of the indexes in the same database, sorted; this one need not be among them."""
        ...

    def compact(self) -> bool:
        """Rewrite the database without what deleted rows have left; return False where only Milvus itself does that."""
        ...

    def has_chunks(self) -> bool:
        """Return whether rows of chunks exist, also if the log is missing; other fields are a ``FormatError``."""
        ...

    def create(self, dense: DenseField | None = None) -> None:
        """Create the two collections, as far as they are missing.

        Raises
        ------
        FormatError
            A collection of the name has other fields, or another dense field.
        ParameterError
            The engine would confuse the name with that of another collection.
        """
        ...

    def dense_dim(self) -> int | None:
        """Return the dimension of the stored dense vectors; None without a collection or without a dense field."""
        ...

    def drop(self) -> None:
        """Drop both collections with everything in them; missing ones are ignored."""
        ...

    def drop_chunks(self) -> None:
        """Drop the chunks, and leave the log; missing ones are ignored."""
        ...

    def close(self) -> None:
        """Release the connection; the last store of a database file stops its engine. Closing twice is allowed."""
        ...

    def insert_chunks(self, rows: Sequence[ChunkRow]) -> None:
        """Insert rows whose pks are not stored yet, all or none if the engine can.

        No sparse vector is empty. All rows have a dense vector, of shape (dim,), or none where the collection has none.
        """
        ...

    def delete_chunks(self, pks: Sequence[str]) -> None:
        """Delete rows; pks that are not stored are ignored."""
        ...

    def get_chunks(
        self, pks: Sequence[str], *, contents: bool = True, vectors: bool = False, dense: bool = False
    ) -> list[ChunkRow]:
        """Read the rows of any number of pks, each once, in any order; pks that are not stored are ignored.

        Parameters
        ----------
        contents, vectors, dense : bool
            Whether to read text and metadata, the sparse vectors, and the dense vectors if there are any.
        """
        ...

    def scan_chunks(
        self, scope: Scope = ALL_CHUNKS, *, contents: bool = False, vectors: bool = False
    ) -> Iterator[list[ChunkRow]]:
        """Stream every row of a scope, each once, in the order of the pks, at most 1,000 at a time.

        Parameters
        ----------
        contents, vectors : bool
            Whether to read text and metadata, and the sparse vectors.

        Raises
        ------
        FilterError
            The engine cannot evaluate the filter.
        """
        ...

    def search(self, queries: Sequence[SparseVector] | NDArray[np.float32], arm: SearchArm) -> list[list[Match]]:
        """Return the best rows for each query, by (-score, id, pk).

        Parameters
        ----------
        queries : sequence of SparseVector, or ndarray of float32, shape (n, dim)
            Sparse queries, none of them empty, search the sparse vectors; the rows of an array, all finite, search the
            dense ones.

        Returns
        -------
        list of list of Match
            For a sparse query, the rows with the greatest inner products; never one that shares no dimension with it.
            For a dense query, the most similar rows, whatever the sign of their score; a vector of zeros has cosine
            0.0 with every other. The order of rows with equal scores does not depend on the limit, unless 16,384 rows
            or more have that score or a higher one.

        Raises
        ------
        FilterError
            The engine cannot evaluate the filter.
        StoreError
            Queries are dense, and the collection has no dense vectors, or another metric.
        """
        ...

    def storage_info(self) -> StorageInfo:
        """Return how the engine stores the chunks, as it says itself."""
        ...

    def count_chunks(self) -> int:
        """Return the number of stored rows, of all namespaces."""
        ...

    def doubled_pks(self) -> list[str]:
        """Return the pks of which several rows are stored, though reading gives one: a server does not refuse them.

        It stores a row again where it repeats a write whose answer was lost. To delete the pk deletes all of its rows.
        """
        ...

    def count_unloaded(self) -> int:
        """Return that number, rows that cannot be seen included, without loading the rows if the engine can.

        Opening an index asks for it.
        """
        ...
