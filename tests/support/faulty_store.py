"""A MemoryStore that fails at a chosen write: before it, after it, halfway through it, or from then on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias

from rag_bm25.errors import StoreError
from rag_bm25.store.rows import ChunkRow, KeyRange, LogRow
from support.memory_store import MemoryStore

Moment: TypeAlias = Literal["before", "halfway", "after", "full"]  # as a disk: no later write is stored, either


class FaultyStore(MemoryStore):
    """Raises ``StoreError`` at the call after :meth:`fail_at` let so many others pass: once, or until it has room."""

    _calls_left: int | None = None
    _moment: Moment = "before"

    def fail_at(self, calls: int | None, moment: Moment = "before") -> None:
        """Let `calls` reads and writes pass and fail at the next one; None never fails."""
        self._calls_left, self._moment = calls, moment

    def insert_chunks(self, rows: Sequence[ChunkRow]) -> None:
        self._write(super().insert_chunks, rows)

    def delete_chunks(self, pks: Sequence[str]) -> None:
        self._write(super().delete_chunks, pks)

    def insert_log(self, rows: Sequence[LogRow], *, defer: bool = False) -> None:
        self._write(partial(super().insert_log, defer=defer), rows)

    def delete_log(self, keys: Sequence[str]) -> None:
        self._write(super().delete_log, keys)

    def get_chunks(self, pks: Sequence[str], **options: bool) -> list[ChunkRow]:
        self._raise_if(self._moment != "full" and self._is_due())
        return super().get_chunks(pks, **options)

    def get_log(self, keys: Sequence[str], **options: bool) -> list[LogRow]:
        self._raise_if(self._moment != "full" and self._is_due())
        return super().get_log(keys, **options)

    def log_keys(self, ranges: Sequence[KeyRange] | None = None) -> list[str]:
        self._raise_if(self._moment != "full" and self._is_due())
        return super().log_keys(ranges)

    def _write(self, method: Callable[[Any], None], items: Sequence[Any]) -> None:
        due = self._is_due()
        if due and self._moment == "full":
            self._calls_left = 0
        self._raise_if(due and self._moment in ("before", "full"))
        method(items[: len(items) // 2] if due and self._moment == "halfway" else items)
        self._raise_if(due)

    def _is_due(self) -> bool:
        if self._calls_left is None:
            return False
        self._calls_left -= 1
        if self._calls_left >= 0:
            return False
        self._calls_left = None
        return True

    def _raise_if(self, failing: bool) -> None:
        if failing:
            raise StoreError("lost")
