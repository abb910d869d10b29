"""What an index asks of a place that holds its rows.

The protocol belongs to its consumer, :mod:`rag_bm25.index`; it stands apart only so that a store can build its rows
without importing the index. :class:`rag_bm25.milvus_store.MilvusStore` satisfies it for every Milvus engine, and the
tests have an in-memory one; one contract suite runs against all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, get_args

from rag_bm25.parameters import check_choice, check_int
from rag_bm25.sparse import EMPTY, SparseVector

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

    import numpy as np
    from numpy.typing import NDArray

    from rag_bm25.filters import Filter
    from rag_bm25.search_params import SearchParams

__all__ = [
    "ChunkRow",
    "ConsistencyLevel",
    "DenseField",
    "DenseMetric",
    "ImportState",
    "LogRow",
    "LogStore",
    "Match",
    "Store",
    "WriteLock",
]

ConsistencyLevel: TypeAlias = Literal["Strong", "Bounded", "Session", "Eventually"]
DenseMetric: TypeAlias = Literal["COSINE", "IP"]
"""How dense vectors are compared."""

MIN_DIM, MAX_DIM = 2, 32_768  # of a FLOAT_VECTOR in Milvus


def _empty() -> SparseVector:
    """Stand in for a default value, which dataclasses refuse for unhashable types."""
    return EMPTY


@dataclass(frozen=True)
class DenseField:
    """The dense vectors of an index that has them beside its sparse ones.

    ``L2`` is not offered: in every search here, greater is better. On normalised vectors L2 ranks as ``COSINE`` does.

    Parameters
    ----------
    dim : int
        Number of dimensions, in 2..32768.
    metric : {"COSINE", "IP"}
        Cosine similarity, or inner product.

    Raises
    ------
    ParameterError
        If one of them breaks its rule.

    Examples
    --------
    >>> DenseField(384, "COSINE")
    DenseField(dim=384, metric='COSINE')
    >>> DenseField(384, "L2")
    Traceback (most recent call last):
    rag_bm25.errors.ParameterError: metric must be one of COSINE, IP, got 'L2'
    """

    dim: int
    metric: DenseMetric

    def __post_init__(self) -> None:
        """Check both values."""
        object.__setattr__(self, "dim", check_int("dim", self.dim, MIN_DIM, MAX_DIM))
        object.__setattr__(self, "metric", check_choice("metric", self.metric, get_args(DenseMetric)))


@dataclass(frozen=True)
class ChunkRow:
    """One stored chunk.

    Parameters
    ----------
    pk : str
        Primary key: lower-case hex digits and a slot letter, never the user's string.
    id : str
        The user's id.
    namespace : str
        Tenant or sub-corpus.
    length : int
        Length of the chunk in the index's unit.
    batch : str
        The write that put the row there; later writes have greater strings.
    text : str
        The chunk; empty where a read did not ask for contents.
    metadata : dict
        As the user gave it; empty where a read did not ask for contents.
    vector : SparseVector
        Document weights, never empty when stored; :data:`~rag_bm25.sparse.EMPTY` where a read did not ask for it.
    dense : ndarray of float32, shape (dim,), optional
        Dense vector, finite; None where a read did not ask for it, and in an index without a dense field. It has no
        part in ``==``.
    """

    pk: str
    id: str
    namespace: str
    length: int
    batch: str
    text: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    vector: SparseVector = field(default_factory=_empty)
    # Compared, an array would make `==` of two rows raise: it has no single truth value.
    dense: NDArray[np.float32] | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Match:
    """One row that a search found.

    Parameters
    ----------
    row : ChunkRow
        The row, with its contents and without its vectors.
    score : float
        Greater is better: the inner product of sparse vectors, > 0, or the similarity of dense ones, of any sign.
    """

    row: ChunkRow
    score: float


@dataclass(frozen=True)
class LogRow:
    """One row of the statistics log. Rows are only ever inserted and deleted, never changed.

    Parameters
    ----------
    key : str
        Primary key; printable ASCII without quotes or backslashes, at most 128 characters.
    kind : str
        ``config``, ``delta``, ``snapshot``, ``terms``, ``intent``, ``lease`` or ``k1``.
    meta : dict
        Small facts, JSON.
    packed : str
        Up to 65,535 ASCII characters of packed data; empty where a read did not ask for it.
    added, removed : SparseVector
        Counts, each below 2**24 so that float32 holds it exactly; may be empty.
    """

    key: str
    kind: str
    meta: dict[str, Any] = field(default_factory=dict)
    packed: str = ""
    added: SparseVector = field(default_factory=_empty)
    removed: SparseVector = field(default_factory=_empty)


@dataclass(frozen=True)
class ImportState:
    """How far an engine has come with reading a file by itself.

    Parameters
    ----------
    finished : bool
        Whether all of its rows are stored.
    failure : str
        Why none of them will be; "" where nothing is wrong.
    """

    finished: bool
    failure: str = ""


class WriteLock(Protocol):
    """A lock that its holder may take again, such as ``threading.RLock``."""

    def acquire(self, blocking: bool = True) -> bool:
        """Take the lock; False where it is taken and `blocking` is False."""
        ...

    def release(self) -> None:
        """Give it back."""
        ...

    def __enter__(self) -> bool:
        """Take the lock."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        """Give it back."""
        ...


class LogStore(Protocol):
    """The statistics log alone.

    Every write is durable and visible to the next call of this store when it returns. Every failure of the engine is
    a :class:`~rag_bm25.errors.StoreError`.
    """

    @property
    def name(self) -> str:
        """Where the rows are, for messages: engine, URI without secrets, collection."""
        ...

    def insert_log(self, rows: Sequence[LogRow]) -> None:
        """Insert log rows, all or none where the engine can."""
        ...

    def delete_log(self, keys: Sequence[str]) -> None:
        """Delete log rows; keys that are not stored are ignored."""
        ...

    def log_keys(self) -> list[str]:
        """Return the key of every log row, in any order, each once."""
        ...

    def get_log(self, keys: Sequence[str], *, packed: bool = True) -> list[LogRow]:
        """Return the stored ones of `keys`, one row a key, in any order, however many are asked for."""
        ...


class Store(LogStore, Protocol):
    """Two collections: the chunks and the statistics log."""

    @property
    def exclusive(self) -> bool:
        """Whether this process alone can write (embedded engines): nothing changes but what its own stores write."""
        ...

    @property
    def write_lock(self) -> WriteLock:
        """Held for a whole batch, a recovery, or any other sequence of calls that no write may come between.

        Shared by all stores of this process on one embedded engine, so that an intent found under it belongs to nobody
        alive. On a server each store has its own. Reentrant.
        """
        ...

    @property
    def writes_of_others(self) -> int:
        """How often other stores of this process have written to the log; where it has grown, the log has changed.

        Counts from any number, and where the store is not :attr:`exclusive` it means nothing.
        """
        ...

    def exists(self) -> bool:
        """Whether both collections are there, with or without a dense field.

        Another schema under the name is a ``FormatError``.
        """
        ...

    def has_collections(self) -> bool:
        """Whether one of the two collections is there, or both, complete or not.

        Another schema under one of the names is a ``FormatError``.
        """
        ...

    def has_chunks(self) -> bool:
        """Whether there are rows of chunks, also where the log is missing."""
        ...

    def create(self, dense: DenseField | None = None) -> None:
        """Create whichever of the two collections is missing, with a field for dense vectors where one is given.

        A chunk collection that is there with another dense field, or without it, is a ``FormatError``.
        """
        ...

    def dense_dim(self) -> int | None:
        """Return the dimensions of the stored dense vectors, None where the collection is missing or has none."""
        ...

    def drop(self) -> None:
        """Drop both collections with everything in them."""
        ...

    def close(self) -> None:
        """Release the connection; closing twice is allowed."""
        ...

    def insert_chunks(self, rows: Sequence[ChunkRow]) -> None:
        """Insert rows whose pks are not stored yet, all or none where the engine can.

        Every row has a dense vector of the right shape where the collection has the field, and none has it elsewhere.
        """
        ...

    def delete_chunks(self, pks: Sequence[str]) -> None:
        """Delete rows; pks that are not stored are ignored."""
        ...

    def get_chunks(
        self, pks: Sequence[str], *, contents: bool = True, vectors: bool = False, dense: bool = False
    ) -> list[ChunkRow]:
        """Return the stored ones of `pks`, one row a pk, in any order, however many are asked for.

        `dense` has no effect where the collection has no dense field.
        """
        ...

    def scan_chunks(
        self,
        *,
        where: Filter | None = None,
        namespaces: Sequence[str] | None = None,
        contents: bool = False,
        vectors: bool = False,
    ) -> Iterator[list[ChunkRow]]:
        """Stream every row that fits, each once, in the order of the pks, in batches of bounded size."""
        ...

    def search(
        self,
        queries: Sequence[SparseVector],
        *,
        limit: int,
        where: Filter | None = None,
        namespaces: Sequence[str] | None = None,
        params: SearchParams | None = None,
    ) -> list[list[Match]]:
        """Return for each query the `limit` rows of greatest inner product, by (-score, id, pk).

        Rows without a shared dimension are never returned. `limit` is in 1..16384; queries are never empty. `params`
        are the engine's own matter, and may make it leave out rows.
        """
        ...

    def search_dense(
        self,
        queries: NDArray[np.float32],
        *,
        metric: DenseMetric,
        limit: int,
        where: Filter | None = None,
        namespaces: Sequence[str] | None = None,
        params: SearchParams | None = None,
    ) -> list[list[Match]]:
        """Return for each row of `queries`, of shape (n, dim), the `limit` most similar rows, by (-score, id, pk).

        `metric` is that of the index. Rows are returned whatever the sign of their score. A collection without a dense
        field is a ``StoreError``. `limit` is in 1..16384. `params` as for :meth:`search`.
        """
        ...

    def count_chunks(self) -> int:
        """Return the number of stored rows."""
        ...

    def count_unloaded(self) -> int:
        """Return the same, without loading the rows where the engine can tell it so: opening an index asks for it."""
        ...
