"""A FaultyStore whose failed writes of chunks take place later, as those that a server was still busy with."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from rag_bm25.errors import StoreError
from rag_bm25.store.memory import Collections
from rag_bm25.store.protocol import AmbiguousWriteError
from rag_bm25.store.rows import ChunkRow
from support.faulty_store import FaultyStore

LATE_SECONDS = 120.0

Late: TypeAlias = list[tuple[float, Callable[[], object]]]


class LateStore(FaultyStore):
    """A write of chunks that fails raises after `seconds`, and takes place `delay` seconds after its call.

    `failing` is the method whose next call fails. A `refusing` store raises at once, and the write never takes place.
    All stores on the same rows have one list of the writes to come, `late`. A row that lands under a key that is stored
    replaces the row there, as the newer one does in Milvus.
    """

    late_seconds = LATE_SECONDS

    def __init__(self, *, collections: Collections | None = None, late: Late | None = None) -> None:
        super().__init__(exclusive=False, collections=collections)
        self.late: Late = [] if late is None else late
        self.failing = ""
        self.refusing = False
        self.seconds = 60.0
        self.delay = 119.0

    def reopen(self) -> LateStore:
        return LateStore(collections=self.collections, late=self.late)

    def insert_chunks(self, rows: Sequence[ChunkRow]) -> None:
        self._fail_if("insert_chunks")
        self._write_late(super().insert_chunks, rows, self._land)

    def delete_chunks(self, pks: Sequence[str]) -> None:
        self._fail_if("delete_chunks")
        self._write_late(super().delete_chunks, pks, self._remove)

    def _fail_if(self, method: str) -> None:
        if self.failing == method:
            self.failing = ""
            self.fail_at(0)

    def _write_late(self, write: Callable[[Any], None], items: Sequence[Any], do: Callable[[Any], None]) -> None:
        called = time.monotonic()
        try:
            write(items)
        except StoreError as error:
            if self.refusing:
                raise
            done = {"after": len(items), "halfway": len(items) // 2}.get(self._moment, 0)
            self.late.append((called + self.delay, partial(do, items[done:])))
            time.sleep(self.seconds)
            raise AmbiguousWriteError(str(error)) from error

    def _land(self, rows: Sequence[ChunkRow]) -> None:
        self._remove([row.pk for row in rows])
        self.collections.chunks.update({row.pk: row for row in rows})
        self.collections.postings.add(rows)

    def _remove(self, pks: Sequence[str]) -> None:
        for pk in pks:
            self.collections.chunks.pop(pk, None)
        self.collections.postings.remove(pks)

    def _check_call(self, method: str, *, needs_collections: bool = True) -> None:
        super()._check_call(method, needs_collections=needs_collections)
        self.land()

    def land(self) -> None:
        """Do what is due by now."""
        due = [one for one in self.late if one[0] <= time.monotonic()]
        self.late[:] = [one for one in self.late if one not in due]
        for _, do in due:
            do()
