"""Read a collection that others fill, page by page, without writing to it, loading it on a server or flushing it."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rag_bm25.errors import FilterError, IndexNotFoundError, ParameterError, StoreError
from rag_bm25.store.milvus.collection import IN_KEY_ORDER, Collection
from rag_bm25.store.milvus.handle import EngineHandle
from rag_bm25.store.milvus.limits import ReplyTooLargeError
from rag_bm25.store.milvus.schema import CHUNK_FIELDS, LOG_FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rag_bm25.store.milvus.connection import Connection

FIRST_PAGE = 200  # until the size of the rows is known
MAX_PAGE = 10_000  # below the 16,384 rows that an engine gives at once
PAGE_BYTES = 4 * 2**20
ROW_BYTES = 100  # key and wrapping


class ExternalCollection:
    """A collection of any schema, for reading alone."""

    def __init__(self, connection: Connection, collection: str) -> None:
        self._handle = EngineHandle(connection, collection, read_only=True)
        self._rows = Collection(self._handle, collection)
        self.name = self._handle.name
        try:
            described = self._describe()
            self._make_readable()
        except BaseException:
            self.close()
            raise
        self._fields = {field["name"]: field for field in described["fields"]}
        self._types = {name: field["type"].name for name, field in self._fields.items()}
        self.key = next(name for name, field in self._fields.items() if field.get("is_primary"))
        self._dynamic = ["$meta"] if described.get("enable_dynamic_field") else []

    def close(self) -> None:
        self._handle.close()

    @property
    def values(self) -> list[str]:
        """The names of all fields that are no vectors; ``$meta`` stands for those that the schema does not name."""
        return [name for name, kind in self._types.items() if not kind.endswith("VECTOR")] + self._dynamic

    def check_field(self, parameter: str, field: str, datatype: str, *, dynamic: bool = False) -> None:
        """Check that a field exists and has a type, such as ``VARCHAR``; a `dynamic` one may not be in the schema."""
        if dynamic and self._dynamic and field not in self._types:
            return
        if self._types.get(field) != datatype:
            fitting = ", ".join(name for name, kind in self._types.items() if kind == datatype) or "it has none"
            msg = f"{parameter} must be a {datatype} field of collection {self._rows.name!r} ({fitting}), got {field!r}"
            raise ParameterError(msg)

    def describe_vectors(self, field: str) -> tuple[int, str]:
        """Return the dimension of a field of dense vectors, and the metric of its index, "" without one."""
        read, name = self._rows.engine.read, self._rows.name
        indexes = read("list_indexes", name, field_name=field)
        index = read("describe_index", name, indexes[0]) if indexes else {}
        return int(self._fields[field]["params"]["dim"]), index.get("metric_type", "")

    def count(self) -> int:
        """Count rows: more than :meth:`rows` gives where an engine keeps several rows of one key."""
        return self._rows.count()

    def rows(self, output: Sequence[str]) -> Iterator[list[dict[str, Any]]]:
        """Stream all rows with their keys and some fields, in the order of the keys, each key once.

        A page has about 4 MiB, or one row. Rows that are added or deleted meanwhile may or may not be seen.
        """
        output = list(dict.fromkeys([self.key, *output]))
        after, seen, size = "", set[Any](), FIRST_PAGE
        while True:
            if len(seen) + size > MAX_PAGE:
                size = MAX_PAGE - len(seen)
            found = self._page(after, output, size, len(seen))
            rows = [row for row in found if row[self.key] not in seen]
            if not rows:
                return
            yield rows
            after, seen = self._rest(found, after, seen)
            size = _page_size(rows)

    def _describe(self) -> dict[str, Any]:
        """Return what the engine says of the collection; refuse one of an index."""
        name = self._rows.name
        if not self._rows.exists():
            raise IndexNotFoundError(f"collection {name!r} not found at {self._rows.engine.place}")
        described = self._rows.describe()
        fields = {field["name"] for field in described["fields"]}
        if any(fields >= ours.keys() for ours in (CHUNK_FIELDS, LOG_FIELDS)):
            raise ParameterError(f"collection must be one that others fill, but {name!r} is of an index of rag_bm25")
        return described

    def _make_readable(self) -> None:
        """Load the collection if only this process sees that; on a server its owner must."""
        engine, name = self._rows.engine, self._rows.name
        if engine.exclusive:
            self._rows.prepare()
            return
        state = engine.read("get_load_state", name)["state"].name
        if state != "Loaded":
            raise StoreError(
                f"collection {name!r} at {engine.place} is not loaded (its state is {state}): load it with "
                "the options that its users need, for instance by load_collection of pymilvus, and try again"
            )
        self._rows.is_prepared = True

    def _page(self, clause: str, output: Sequence[str], size: int, more: int) -> list[dict[str, Any]]:
        """Read rows in the order of their keys; fewer than `size` if the reply would be too large."""
        try:
            return self._rows.query(clause, output, limit=size + more, **IN_KEY_ORDER)
        except ReplyTooLargeError:
            if size == 1:
                raise
        return self._page(clause, output, size // 2, more)

    def _rest(self, rows: Sequence[dict[str, Any]], after: str, seen: set[Any]) -> tuple[str, set[Any]]:
        """Return the condition for the rows after a page, and the keys of the page that also meet it.

        A key that the engine cannot compare with, such as a carriage return with milvus-lite 2.5, cannot bound a page:
        the last comparable key does.
        """
        keys = [row[self.key] for row in rows]
        for last in range(len(keys) - 1, -1, -1):
            with suppress(FilterError):
                return self._beyond(keys[last]), set(keys[last + 1 :])
        seen = seen | set(keys)
        if len(seen) >= MAX_PAGE:
            msg = f"{self.name} has {len(seen):,} keys in a row that the engine cannot compare, such as {keys[0]!r}"
            raise StoreError(msg)
        return after, seen

    def _beyond(self, key: str | int) -> str:
        """Write the condition for greater keys; milvus-lite 2.5 cannot parse ``> -9223372036854775808``."""
        if isinstance(key, int):
            return f"{self.key} >= {key + 1}" if key < 0 else f"{self.key} > {key}"
        return f"{self.key} > {self._rows.engine.dialect.quote(key)}"


def _page_size(rows: Sequence[dict[str, Any]]) -> int:
    """Return how many rows of this size make a page."""
    mean = sum(_bytes(value) for row in rows for value in row.values()) / len(rows) + ROW_BYTES
    return max(1, min(MAX_PAGE, int(PAGE_BYTES / mean)))


def _bytes(value: Any) -> int:
    """Return the size of a value in a reply, about."""
    if isinstance(value, str):
        return len(value.encode())
    if isinstance(value, list) and value and isinstance(value[0], float):
        return 4 * len(value)
    return 0 if isinstance(value, int | float | None) else len(json.dumps(value, default=str))
