"""A FaultyStore that defers log rows, as embedded engines do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rag_bm25.store.deferred import DeferredRows
from rag_bm25.store.rows import ChunkRow, KeyRange, LogRow
from support.faulty_store import FaultyStore


class LazyStore(FaultyStore):
    """`reopen` gives a store of the next process, after this one was killed; `beside` one of the same process."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.deferred = DeferredRows()

    def reopen(self) -> LazyStore:
        return LazyStore(collections=self.collections)

    def beside(self) -> LazyStore:
        store = self.reopen()
        store.deferred = self.deferred
        return store

    def insert_log(self, rows: Sequence[LogRow], *, defer: bool = False) -> None:
        if defer:
            self._note_log_write()
            self._write(self.deferred.add, rows)
        else:
            self._store_rows(rows)

    def delete_log(self, keys: Sequence[str]) -> None:
        self._store_rows()
        super().delete_log(keys)

    def insert_chunks(self, rows: Sequence[ChunkRow]) -> None:
        self._store_rows()
        super().insert_chunks(rows)

    def delete_chunks(self, pks: Sequence[str]) -> None:
        self._store_rows()
        super().delete_chunks(pks)

    def log_keys(self, ranges: Sequence[KeyRange] | None = None) -> list[str]:
        return [*super().log_keys(ranges), *self.deferred.keys(ranges)]

    def get_log(self, keys: Sequence[str], *, packed: bool = True) -> list[LogRow]:
        deferred = self.deferred.get(keys, packed=packed)
        stored = super().get_log([key for key in keys if key not in deferred], packed=packed)
        return [*stored, *(replace(row) for row in deferred.values())]

    def _store_rows(self, rows: Sequence[LogRow] = ()) -> None:
        with self.deferred.stored(self.collections.log.keys().__and__) as deferred:
            if deferred or rows:
                assert self.collections.log.keys().isdisjoint(row.key for row in deferred)
                super().insert_log([*deferred, *rows])
