"""A store that keeps all writes in memory, beside the rows of another store, which is only read."""

from __future__ import annotations

from dataclasses import replace
from heapq import merge
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NoReturn, cast

from rag_bm25.errors import StoreError
from rag_bm25.store.memory import SCAN_BATCH, MemoryStore
from rag_bm25.store.rows import ALL_CHUNKS, MAX_K, rank_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from rag_bm25.store.protocol import Store
    from rag_bm25.store.rows import ChunkRow, DenseField, KeyRange, LogRow, Match, Scope, SearchArm
    from rag_bm25.vectors.sparse import SparseVector

WIDER = (2, 8, 32)
"""Factors of the limit of a search: so many rows are asked for before the rows below are copied."""


def overlay(below: Store, dense: DenseField | None) -> Store:
    """Return a store of the rows of another one, and of all that is written to it; the other one stays open."""
    return cast("Store", _Overlay(below, dense))


class _Overlay:
    """What is not about rows, such as name and locks, is that of the store below."""

    generation = 0  # it is none of the index below

    def __init__(self, below: Store, dense: DenseField | None) -> None:
        self._below = below
        self._own = MemoryStore()
        self._own.create(dense)
        self.insert_chunks, self.insert_log = self._own.insert_chunks, self._own.insert_log
        self.close = self._own.close
        self._deleted: set[str] = set()  # rows of the store below
        self._deleted_log: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._below, name)

    def successor(self) -> NoReturn:
        """Refuse the next generation, which is no copy: writes would change it."""
        raise StoreError(
            f"a dry run of {self.name} ends with that generation: it cannot be reindexed. If the index has been "
            "reindexed, begin another dry run"
        )

    def first(self) -> Store:
        """Open the first generation of the index below, which a dry run leaves as it is."""
        return self._below.first()

    def compact(self) -> bool:
        """Leave the engine alone."""
        return False

    def delete_log(self, keys: Sequence[str]) -> None:
        self._own.delete_log(keys)
        self._deleted_log.update(keys)

    def log_keys(self, ranges: Sequence[KeyRange] | None = None) -> list[str]:
        own = self._own.log_keys(ranges)
        return [*own, *(set(self._below.log_keys(ranges)) - self._deleted_log - set(own))]

    def get_log(self, keys: Sequence[str], *, packed: bool = True) -> list[LogRow]:
        own = self._own.get_log(keys, packed=packed)
        others = set(keys) - self._deleted_log - {row.key for row in own}
        return [*own, *(self._below.get_log(list(others), packed=packed) if others else ())]

    def delete_chunks(self, pks: Sequence[str]) -> None:
        self._own.delete_chunks(pks)
        self._deleted.update(row.pk for row in self._get_below(pks, contents=False))

    def get_chunks(self, pks: Sequence[str], **columns: bool) -> list[ChunkRow]:
        return [*self._own.get_chunks(pks, **columns), *self._get_below(pks, **columns)]

    def _get_below(self, pks: Sequence[str], **columns: bool) -> list[ChunkRow]:
        there = [pk for pk in pks if pk not in self._deleted]
        return self._below.get_chunks(there, **columns) if there else []

    def scan_chunks(self, scope: Scope = ALL_CHUNKS, **columns: bool) -> Iterator[list[ChunkRow]]:
        own = chain.from_iterable(self._own.scan_chunks(scope, **columns))
        rows = merge(own, self._scan_below(scope, **columns), key=lambda row: row.pk)
        return iter(lambda: list(islice(rows, SCAN_BATCH)), [])

    def _scan_below(self, scope: Scope, **columns: bool) -> Iterator[ChunkRow]:
        rows = chain.from_iterable(self._below.scan_chunks(scope, **columns))
        return (row for row in rows if row.pk not in self._deleted)

    def search(self, queries: Sequence[SparseVector] | NDArray[np.float32], arm: SearchArm) -> list[list[Match]]:
        below = self._search_below(queries, arm)  # first: it may copy rows
        own = self._own.search(queries, arm)
        return [sorted(chain(*matches), key=rank_of)[: arm.limit] for matches in zip(own, below, strict=True)]

    def _search_below(self, queries: Sequence[SparseVector] | NDArray[np.float32], arm: SearchArm) -> list[list[Match]]:
        """Search the rows below that are not deleted; where too many are, copy the others."""
        for factor in WIDER:
            asked = min(arm.limit + len(self._deleted), factor * arm.limit, MAX_K)
            found = self._below.search(queries, replace(arm, limit=asked))
            kept = [[match for match in matches if match.row.pk not in self._deleted] for matches in found]
            if all(len(rows) < asked or len(few) >= arm.limit for rows, few in zip(found, kept, strict=True)):
                return kept
        self._copy_up()
        return [[] for _ in queries]

    def _copy_up(self) -> None:
        """Take all rows of the store below into memory."""
        pks = [row.pk for row in self._scan_below(ALL_CHUNKS)]
        for start in range(0, len(pks), SCAN_BATCH):
            page = pks[start : start + SCAN_BATCH]
            self._own.insert_chunks(self._below.get_chunks(page, contents=True, vectors=True, dense=True))
            self._deleted.update(page)

    def count_unloaded(self) -> int:
        return self._below.count_unloaded() - len(self._deleted) + self._own.count_chunks()

    count_chunks = count_unloaded
