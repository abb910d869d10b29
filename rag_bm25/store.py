"""What an index asks of a place that holds its rows.

The protocol belongs to its consumer, :mod:`rag_bm25.index`; it stands apart only so that a store can build its rows
without importing the index. :class:`rag_bm25.milvus_store.MilvusStore` satisfies it for every Milvus engine, and the
tests have an in-memory one; one contract suite runs against all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from rag_bm25.sparse import EMPTY, SparseVector

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rag_bm25.filters import Filter

__all__ = ["ChunkRow", "LogRow", "Match", "Store"]


def _empty() -> SparseVector:
    """Stand in for a default value, which dataclasses refuse for unhashable types."""
    return EMPTY


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
    """

    pk: str
    id: str
    namespace: str
    length: int
    batch: str
    text: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    vector: SparseVector = field(default_factory=_empty)


@dataclass(frozen=True)
class Match:
    """One row that a search found.

    Parameters
    ----------
    row : ChunkRow
        The row, with its contents and without its vector.
    score : float
        Inner product of query and row, > 0.
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
        ``config``, ``delta``, ``snapshot``, ``terms`` or ``intent``.
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


class Store(Protocol):
    """Two collections: the chunks and the statistics log.

    Every write is durable and visible to the next call of this store when it returns. Every failure of the engine is
    a :class:`~rag_bm25.errors.StoreError`.
    """

    @property
    def name(self) -> str:
        """Where the rows are, for messages: engine, URI without secrets, collection."""
        ...

    @property
    def exclusive(self) -> bool:
        """Whether this process alone can write (embedded engines): nothing changes behind its back."""
        ...

    def exists(self) -> bool:
        """Whether both collections are there. Another schema under the name is a ``FormatError``."""
        ...

    def create(self) -> None:
        """Create whichever of the two collections is missing."""
        ...

    def drop(self) -> None:
        """Drop both collections with everything in them."""
        ...

    def close(self) -> None:
        """Release the connection; closing twice is allowed."""
        ...

    def insert_chunks(self, rows: Sequence[ChunkRow]) -> None:
        """Insert rows whose pks are not stored yet, all or none where the engine can."""
        ...

    def delete_chunks(self, pks: Sequence[str]) -> None:
        """Delete rows; pks that are not stored are ignored."""
        ...

    def get_chunks(self, pks: Sequence[str], *, contents: bool = True, vectors: bool = False) -> list[ChunkRow]:
        """Return the stored ones of `pks`, one row a pk, in any order, however many are asked for."""
        ...

    def scan_chunks(
        self,
        *,
        where: Filter | None = None,
        namespaces: Sequence[str] | None = None,
        contents: bool = False,
        vectors: bool = False,
    ) -> Iterator[list[ChunkRow]]:
        """Stream every row that fits, each once, in batches of bounded size."""
        ...

    def search(
        self,
        queries: Sequence[SparseVector],
        *,
        limit: int,
        where: Filter | None = None,
        namespaces: Sequence[str] | None = None,
    ) -> list[list[Match]]:
        """Return for each query the `limit` rows of greatest inner product, by (-score, id, pk).

        Rows without a shared dimension are never returned. `limit` is in 1..16384; queries are never empty.
        """
        ...

    def count_chunks(self) -> int:
        """Return the number of stored rows."""
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
