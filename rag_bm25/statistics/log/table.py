"""The rows of a log: list those that are new, read, decode and insert."""

from __future__ import annotations

import time
import zlib
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from rag_bm25.errors import FormatError, StoreError
from rag_bm25.statistics.log.batches import earlier
from rag_bm25.statistics.log.birth import BIRTH, births_in, is_stray, require_same
from rag_bm25.statistics.log.generation import KINDS
from rag_bm25.statistics.log.keys import LogKey, complete_entries, keys_of, range_after, range_of
from rag_bm25.store.rows import LogRow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rag_bm25.store.protocol import LogStore
    from rag_bm25.store.rows import KeyRange

ROWS_PER_INSERT = 200  # of at most 64 KB
LISTED = ("answers", "defaults", "delta", "head", "intent", "k1", "terms")  # in this order: see `list_new`
READ_ATTEMPTS = 10  # while other writers compact the log
OVERLAP_SECONDS = 60.0
"""Time that a row may take from its name to its place in the log, on another host whose clock may be slow."""

_T = TypeVar("_T")


class RowsMovedError(StoreError):
    """A row that was listed is gone: another writer has compacted the log meanwhile."""


@dataclass(frozen=True)
class Listing:
    """Keys of rows that may be new."""

    keys: Sequence[str]

    def entries(self, kind: str) -> dict[str, list[str]]:
        """Map the names of complete entries to their keys, oldest first."""
        return complete_entries(self.keys, kind)

    def names(self) -> set[tuple[str, str]]:
        """Return the kinds and names of all entries, incomplete ones included."""
        return {key[:2] for key in map(LogKey.parse, self.keys)}

    def incomplete(self) -> set[tuple[str, str]]:
        """Return the kinds and names of entries of which a row is missing, or on its way."""
        whole = {(kind, name) for kind in LISTED for name in self.entries(kind)}
        return self.names() - whole


class LogTable:
    """Rows by their keys, of the index with a birth id alone; without one, of that which the first listing finds."""

    def __init__(self, store: LogStore, birth: str = "") -> None:
        self.store = store
        self.birth = birth
        self._marks: dict[str, str] = {}  # of each kind, the greatest name that was read
        self._marked: dict[str, float] = {}  # when it was first read

    def list_new(self, watched: Iterable[tuple[str, str]] = ()) -> Listing:
        """List the rows that came after those that were read, and those of some entries by kind and name."""
        # Deltas come before intents, so that a batch that ends meanwhile is seen to be open, and watched from then on.
        ranges = [range_after(kind, self._mark(kind)) for kind in LISTED]
        ranges += [range_of(*entry) for entry in watched]
        ranges += [range_after(kind) for kind in KINDS]  # all of them: they are few
        return self._list(ranges)

    def list_all(self, *kinds: str) -> Listing:
        """List all rows of some kinds."""
        return self._list([range_after(kind) for kind in kinds])

    def _list(self, ranges: Sequence[KeyRange]) -> Listing:
        """List rows; raise where the index was dropped, or made again."""
        keys = set(self.store.log_keys([*ranges, range_after(BIRTH)]))
        births = births_in(keys)
        self.birth = self.birth or min(births, default="")
        if self.birth:
            require_same(self.store.name, self.birth, births)
        return Listing(sorted(key for key in keys.difference(keys_of(keys, BIRTH)) if not is_stray(key, births)))

    def list_of(self, kind: str, namespace: str) -> list[str]:
        """List the rows of a kind that are about one namespace, as their meta says."""
        keys = self.list_all(kind).keys
        rows = self.store.get_log(keys, packed=False) if keys else []
        return [row.key for row in rows if row.meta.get("namespace") == namespace]

    def advance(self, listing: Listing) -> None:
        """Note that the rows listed were read."""
        for kind, name in listing.names():
            if name > self._marks.get(kind, ""):
                self._marks[kind], self._marked[kind] = name, time.monotonic()

    @property
    def lists_all(self) -> bool:
        """Whether the next listing has all rows."""
        return not self._marks

    def begin_anew(self) -> None:
        """List all rows the next time."""
        self._marks = {}

    def _mark(self, kind: str) -> str:
        """Return the greatest name that need not be listed again."""
        mark = self._marks.get(kind, "")
        if self.store.exclusive or not mark:
            return mark
        is_old = time.monotonic() - self._marked[kind] > OVERLAP_SECONDS
        return mark if is_old else earlier(mark, OVERLAP_SECONDS)

    def read(self, keys: Sequence[str], *, packed: bool = False) -> list[LogRow]:
        """Read all of the rows, in the order of their keys."""
        rows = self.store.get_log(keys, packed=packed) if keys else []
        if len(rows) < len(keys):
            raise RowsMovedError(f"{self.store.name} was compacted while it was read: try again")
        return sorted(rows, key=lambda row: LogKey.parse(row.key))

    def read_whole(self, read: Callable[[], _T]) -> _T:
        """Call a function that lists rows and reads them, and call it again if they move meanwhile."""
        for _ in range(READ_ATTEMPTS - 1):
            with suppress(RowsMovedError):
                return read()
        return read()

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

    def delete(self, keys: Sequence[str]) -> None:
        """Delete rows, if any."""
        if keys:
            self.store.delete_log(keys)
