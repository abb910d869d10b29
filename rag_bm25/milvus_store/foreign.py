"""Collections that others fill: their texts are read, page by page, and statistics may stand beside them.

Nothing here writes to such a collection, loads it on a server, or flushes it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rag_bm25.errors import FilterError, IndexNotFoundError, ParameterError, StoreError
from rag_bm25.filters import Expression
from rag_bm25.milvus_store.expressions import where_clause
from rag_bm25.milvus_store.schema import CHUNK_FIELDS, LOG_FIELDS, as_vector, check_name
from rag_bm25.milvus_store.store import IN_KEY_ORDER, MilvusStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from types import TracebackType

    from rag_bm25.milvus_store.engines import Engine
    from rag_bm25.sparse import SparseVector
    from rag_bm25.store import DenseField
    from rag_bm25.tls import TLS

__all__ = ["BesideStore", "ForeignCollection"]

FIRST_PAGE = 200  # until the size of the rows is known
MAX_PAGE = 10_000  # below the 16,384 rows that an engine gives at once
PAGE_BYTES = 4 * 2**20
ROW_BYTES = 100  # key and wrapping


class ForeignCollection:
    """A collection of any schema, for reading alone.

    Parameters
    ----------
    uri : str or Path
        As for :class:`~rag_bm25.milvus_store.MilvusStore`; a database file must be there.
    collection : str
        Its name.
    token : str, optional
        ``user:password`` or an API key, for servers.
    tls : TLS, optional
        Certificates, for ``https://`` addresses.
    timeout : float, optional
        Seconds that a call of a server may take; by default 10 for connecting and 60 for other calls.

    Raises
    ------
    IndexNotFoundError
        If there is no such file or collection.
    ParameterError
        If the collection is an index of this package.
    StoreError
        If Milvus cannot be reached, or the collection of a server is not loaded.
    """

    def __init__(
        self,
        uri: str | Path,
        collection: str,
        *,
        token: str | None = None,
        tls: TLS | None = None,
        timeout: float | None = None,
    ) -> None:
        from rag_bm25.milvus_store.engines import open_engine, release_when_forgotten

        check_name(collection)
        self._collection = collection
        self._engine: Engine | None = open_engine(uri, token=token, tls=tls, timeout=timeout, read_only=True)
        self._is_closed = release_when_forgotten(self, self._engine)
        self.name = f"{self._engine.name}, collection {collection!r}"
        try:
            self._types = self._described()
            self._make_readable()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> ForeignCollection:
        """Return the collection itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Release the connection."""
        self.close()

    def close(self) -> None:
        """Release the connection; the last user of a database file stops its engine."""
        if self._engine is not None:
            from rag_bm25.milvus_store.engines import release_engine

            engine, self._engine = self._engine, None
            self._is_closed()
            release_engine(engine)

    def check_field(self, parameter: str, field: str, datatype: str) -> None:
        """Check that a field is there and has a type.

        Parameters
        ----------
        parameter : str
            What the caller calls it, for the message.
        field : str
            Its name.
        datatype : str
            In Milvus's words, such as ``VARCHAR``.

        Raises
        ------
        ParameterError
            If it is not; the message has the fields that are.
        """
        if self._types.get(field) != datatype:
            fitting = ", ".join(name for name, kind in self._types.items() if kind == datatype) or "it has none"
            msg = (
                f"{parameter} must be a {datatype} field of collection {self._collection!r} ({fitting}), got {field!r}"
            )
            raise ParameterError(msg)

    def count(self, filter: str = "") -> int:
        """Count rows.

        Parameters
        ----------
        filter : str, default ""
            A Milvus expression over the collection's own fields.

        Returns
        -------
        int
            More than :meth:`texts` gives where an engine keeps several rows of one key.

        Raises
        ------
        FilterError
            If the engine refuses the filter.
        """
        counted = self._query(self._clause(filter), ["count(*)"])
        return int(counted[0]["count(*)"])

    def texts(self, text_field: str, filter: str = "") -> Iterator[list[str]]:
        """Stream the texts of all rows in the order of their keys, each key once.

        Rows that come or go meanwhile are seen or not.

        Parameters
        ----------
        text_field : str
            A VARCHAR field.
        filter : str, default ""
            A Milvus expression over the collection's own fields.

        Yields
        ------
        list of str
            About 4 MiB, or one row; "" where a row's text is null.

        Raises
        ------
        FilterError
            If the engine refuses the filter.
        """
        where = self._clause(filter)
        after, seen, size = "", set[Any](), FIRST_PAGE
        while True:
            if len(seen) + size > MAX_PAGE:
                size = MAX_PAGE - len(seen)
            found = self._page(_both(where, after), [self._key, text_field], size, len(seen))
            rows = [row for row in found if row[self._key] not in seen]
            if not rows:
                return
            texts = [row.get(text_field) or "" for row in rows]
            yield texts
            after, seen = self._rest(found, after, seen)
            size = _fitting(texts)

    def sample(self, text_field: str, vector_field: str, limit: int) -> list[tuple[Any, str, SparseVector]]:
        """Read the first rows with their sparse vectors.

        Parameters
        ----------
        text_field, vector_field : str
            A VARCHAR and a SPARSE_FLOAT_VECTOR field.
        limit : int
            How many at most; at most some 100.

        Returns
        -------
        list of tuple of (str or int, str, SparseVector)
            Key, text and vector; rows without one of them are left out.
        """
        if not self.count():  # milvus-lite 2.5 fails on vectors of a collection that was never filled
            return []
        output = [self._key, text_field, vector_field]
        rows = self._query("", output, limit=limit, **IN_KEY_ORDER)
        return [
            (row[self._key], row[text_field], as_vector(row[vector_field]))
            for row in rows
            if row.get(text_field) is not None and row.get(vector_field)
        ]

    def _described(self) -> dict[str, str]:
        """Return the type of each field, and note which is the key."""
        if not self._open.read("has_collection", self._collection):
            msg = f"there is no collection {self._collection!r} at {self._open.place}"
            raise IndexNotFoundError(msg)
        fields = self._open.read("describe_collection", self._collection)["fields"]
        types = {field["name"]: field["type"].name for field in fields}
        if any(types.keys() >= ours.keys() for ours in (CHUNK_FIELDS, LOG_FIELDS)):
            msg = f"collection must be one that others fill, and {self._collection!r} is of an index of rag_bm25"
            raise ParameterError(msg)
        self._key = next(field["name"] for field in fields if field.get("is_primary"))
        return types

    def _make_readable(self) -> None:
        """Load the collection where only this process sees that; on a server that is for its owner to do."""
        engine = self._open
        if engine.exclusive:
            engine.prepare(self._collection)
            return
        state = engine.read("get_load_state", self._collection)["state"].name
        if state != "Loaded":
            msg = (
                f"collection {self._collection!r} at {engine.place} is not loaded (its state is {state}): load it with "
                "the options that its users need, for instance by load_collection of pymilvus, and try again"
            )
            raise StoreError(msg)

    @property
    def _open(self) -> Engine:
        """The engine, while the collection is open."""
        if self._engine is None:
            msg = f"{self.name} is closed"
            raise StoreError(msg)
        return self._engine

    def _clause(self, filter: str) -> str:
        """Check a filter, and write it as the engine reads it."""
        return where_clause(self._open.dialect, Expression(filter) if filter.strip() else None, None)

    def _query(self, clause: str, output: Sequence[str], **options: Any) -> list[dict[str, Any]]:
        """Read what is stored now."""
        found: list[dict[str, Any]] = self._open.read(
            "query",
            self._collection,
            filter=clause,
            output_fields=list(output),
            consistency_level="Strong",
            **options,
        )
        return found

    def _page(self, clause: str, output: Sequence[str], size: int, more: int) -> list[dict[str, Any]]:
        """Read rows in the order of their keys, fewer than `size` where the reply would be too large."""
        from rag_bm25.milvus_store.engines import ReplyTooLargeError

        try:
            return self._query(clause, output, limit=size + more, **IN_KEY_ORDER)
        except ReplyTooLargeError:
            if size == 1:
                raise
        return self._page(clause, output, size // 2, more)

    def _rest(self, rows: Sequence[dict[str, Any]], after: str, seen: set[Any]) -> tuple[str, set[Any]]:
        """Return the condition for what comes after a page, and the keys of the page that meet it all the same.

        A key that the engine cannot compare with, as milvus-lite 2.5 cannot with a carriage return, cannot bound a
        page: the last one that can does.
        """
        keys = [row[self._key] for row in rows]
        for last in range(len(keys) - 1, -1, -1):
            with suppress(FilterError):
                return self._beyond(keys[last]), set(keys[last + 1 :])
        seen = seen | set(keys)
        if len(seen) >= MAX_PAGE:
            msg = (
                f"{self.name} has {len(seen):,} keys in a row that the engine cannot compare with, such as {keys[0]!r}"
            )
            raise StoreError(msg)
        return after, seen

    def _beyond(self, key: str | int) -> str:
        """Write the condition for greater keys; milvus-lite 2.5 reads no ``> -9223372036854775808``."""
        if isinstance(key, int):
            return f"{self._key} >= {key + 1}" if key < 0 else f"{self._key} > {key}"
        return f"{self._key} > {self._open.dialect.quote(key)}"


class BesideStore(MilvusStore):
    """The statistics log beside a collection that others fill; that collection itself is out of reach.

    Parameters
    ----------
    uri, collection, token, tls, timeout, read_only, consistency
        As for :class:`~rag_bm25.milvus_store.MilvusStore`; the log of ``X`` is ``X_bm25``.
    """

    def exists(self) -> bool:
        """Return whether the log is there and complete.

        Returns
        -------
        bool
            False also where creating it was interrupted.

        Raises
        ------
        FormatError
            If a collection of its name has other fields.
        """
        return self._is_complete(self._log, LOG_FIELDS)

    def create(self, dense: DenseField | None = None) -> None:
        """Create the log, or what is missing of it.

        Parameters
        ----------
        dense : DenseField, optional
            Of no effect: a log has no such vectors.
        """
        del dense
        self._check_writable()
        if not self.exists():
            self._open.check_collection(self._log)
            self._create(self._log, LOG_FIELDS, None)

    def drop(self) -> None:
        """Drop the log with everything in it; a missing one is ignored."""
        self._check_writable()
        self._open.write("drop_collection", self._log)
        self._prepared.discard(self._log)

    def _prepare(self, collection: str) -> Engine:
        """Make the log ready; every other collection is somebody else's."""
        if collection != self._log:
            msg = f"{self._name} is filled by others: only its statistics can be used here"
            raise StoreError(msg)
        return super()._prepare(collection)


def _both(*conditions: str) -> str:
    """Join the conditions that there are."""
    return " and ".join(f"({condition})" for condition in conditions if condition)


def _fitting(texts: Sequence[str]) -> int:
    """Return how many rows such as these make a page."""
    mean = sum(len(text.encode()) for text in texts) / len(texts) + ROW_BYTES
    return max(1, min(MAX_PAGE, int(PAGE_BYTES / mean)))
