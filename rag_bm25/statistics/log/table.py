"""The rows of a log, as listed last: read, decoded and inserted."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, TypeVar

from rag_bm25.errors import FormatError
from rag_bm25.statistics.log.keys import LogKey, complete_entries, keys_of
from rag_bm25.store.rows import LogRow

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rag_bm25.store.protocol import LogStore

ROWS_PER_INSERT = 200  # of at most 64 KB

_T = TypeVar("_T")


class RowsMovedError(Exception):
    """A row that was listed is gone: another writer has compacted the log meanwhile."""


class LogTable:
    """Rows by their keys; `keys` are those of the last :meth:`refresh`."""

    def __init__(self, store: LogStore) -> None:
        self.store = store
        self.keys: set[str] = set()

    def refresh(self) -> None:
        """List the keys."""
        self.keys = set(self.store.log_keys())

    def keys_of(self, *kinds: str) -> list[str]:
        """Return the keys of some kinds."""
        return keys_of(self.keys, *kinds)

    def entries(self, kind: str) -> dict[str, list[str]]:
        """Map the names of complete entries to their keys, oldest first."""
        return complete_entries(self.keys, kind)

    def read(self, keys: Sequence[str], *, packed: bool = False) -> list[LogRow]:
        """Read all of the rows, in the order of their keys."""
        rows = self.store.get_log(keys, packed=packed) if keys else []
        if len(rows) < len(keys):
            raise RowsMovedError
        return sorted(rows, key=lambda row: LogKey.parse(row.key))

    def decode(self, decode: Callable[[Any], _T], rows: Any) -> _T:
        """Decode a row, or the rows of one entry; raise ``FormatError`` for damaged ones."""
        try:
            return decode(rows)
        except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError, zlib.error) as error:
            first = rows if isinstance(rows, LogRow) else rows[0]
            msg = f"{self.store.name} is damaged: its log row {first.key!r} cannot be read ({error!r}). Run repair."
            raise FormatError(msg) from error

    def insert(self, rows: Sequence[LogRow]) -> None:
        """Insert rows, however many."""
        for start in range(0, len(rows), ROWS_PER_INSERT):
            self.store.insert_log(rows[start : start + ROWS_PER_INSERT])
