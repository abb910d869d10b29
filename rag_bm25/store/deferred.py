"""Log rows that are stored with the next ones: one call of the engine less for each batch."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from rag_bm25.store.rows import KeyRange, LogRow


class DeferredRows:
    """The last rows of a log, as long as nothing was written after them.

    Every store of the process reads them as if they were stored. They are written before anything else is, so that a
    crash leaves the rows of some earlier moment, never a later row without them.
    """

    def __init__(self) -> None:
        self._rows: dict[str, LogRow] = {}  # replaced and never changed: other threads read it meanwhile
        self._is_doubtful = False  # whether some may be stored: an insertion of them has failed

    def __iter__(self) -> Iterator[LogRow]:
        """Iterate over the rows."""
        return iter(self._rows.values())

    @property
    def is_sure(self) -> bool:
        """Whether there are rows, and none of them is stored."""
        return bool(self._rows) and not self._is_doubtful

    def add(self, rows: Sequence[LogRow]) -> None:
        """Defer rows."""
        self._rows = self._rows | {row.key: row for row in rows}

    def clear(self) -> None:
        """Forget the rows: they are stored, or their log was dropped."""
        self._rows, self._is_doubtful = {}, False

    @contextmanager
    def stored(self, find: Callable[[list[str]], Collection[str]]) -> Iterator[list[LogRow]]:
        """Yield the rows, which the body stores before anything else; `find` says which keys are stored."""
        rows = self._rows
        found = find(list(rows)) if self._is_doubtful else ()
        self._is_doubtful = bool(rows)
        yield [row for key, row in rows.items() if key not in found]
        self.clear()

    def keys(self, ranges: Sequence[KeyRange] | None) -> list[str]:
        """Return the keys in one of some ranges."""
        return [key for key in self._rows if ranges is None or any(low < key < high for low, high in ranges)]

    def get(self, keys: Sequence[str], *, packed: bool) -> dict[str, LogRow]:
        """Return the rows of some keys."""
        rows = self._rows
        return {key: rows[key] if packed else replace(rows[key], packed="") for key in keys if key in rows}
