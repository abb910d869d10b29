"""The rows of several indexes, as searches read those of one."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, NoReturn, TypeVar

import numpy as np

from rag_bm25.errors import ReadOnlyError
from rag_bm25.index.arguments import list_first
from rag_bm25.store.rows import ALL_CHUNKS, Match, pk_in, rank_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from rag_bm25.statistics.merging import MergedTerms, Renumbering
    from rag_bm25.store.protocol import Store
    from rag_bm25.store.rows import ChunkRow, Scope, SearchArm
    from rag_bm25.store.storage import StorageInfo
    from rag_bm25.vectors.sparse import SparseVector

T = TypeVar("T")
R = TypeVar("R")

MAX_THREADS = 32


def refuse_writing() -> NoReturn:
    """Refuse what writes, keeps writers out, or reads the log."""
    raise ReadOnlyError("a group of indexes is only searched: call that method of its parts")


class Threads:
    """Call a function for several objects at once."""

    def __init__(self, number: int) -> None:
        self._number = min(number, MAX_THREADS)
        self._pools: dict[int, ThreadPoolExecutor] = {}  # by process: a forked child does not have the threads

    def map(self, function: Callable[[T], R], given: Sequence[T]) -> list[R]:
        """Return what a function returns for each, in their order; it sees the caller's context."""
        if len(given) <= 1:
            return list(map(function, given))
        if (pid := os.getpid()) not in self._pools:
            self._pools[pid] = ThreadPoolExecutor(self._number, "rag_bm25-group")
        futures = [self._pools[pid].submit(copy_context().run, function, one) for one in given]
        return [future.result() for future in futures]


@dataclass(frozen=True)
class _Part:
    """The rows of one index in a group: keys name the index, and vectors have the ids of the group."""

    number: int
    store: Store
    terms: MergedTerms

    @property
    def renumbering(self) -> Renumbering:
        return self.terms.renumberings[self.number]

    def own(self, pks: Iterable[str]) -> list[str]:
        """Return the keys of rows that may be in this index, without the number that a group adds to them."""
        parted = (pk.partition("@") for pk in pks)
        return [pk for pk, _, number in parted if number in ("", str(self.number))]

    def of_group(self, row: ChunkRow) -> ChunkRow:
        vector = self.renumbering.vector(row.vector)
        return replace(row, pk=pk_in(self.number, row.pk), vector=vector, part=self.number)

    def search(self, queries: Sequence[SparseVector] | NDArray[np.float32], arm: SearchArm) -> list[list[Match]]:
        """Return the best rows of this index; a query of words that it does not have finds none."""
        here = arm if arm.pks is None else replace(arm, pks=tuple(self.own(arm.pks)))
        if here.pks == ():
            return [[] for _ in queries]
        if isinstance(queries, np.ndarray):
            return self.store.search(queries, here)
        vectors = list(map(self.renumbering.undo, queries))
        known = [at for at, vector in enumerate(vectors) if len(vector)]
        found = dict(zip(known, self.store.search([vectors[at] for at in known], here), strict=True)) if known else {}
        return [found.get(at, []) for at in range(len(vectors))]


class GroupStore:
    """The reading half of :class:`~rag_bm25.store.protocol.Store`, on the stores of several indexes."""

    def __init__(self, stores: Sequence[Store], terms: MergedTerms, close: Callable[[], None]) -> None:
        self.name = f"a group of {len(stores)} indexes: {list_first(store.name for store in stores)}"
        self.close = close
        self.exclusive = all(store.exclusive for store in stores)
        self._parts = [_Part(number, store, terms) for number, store in enumerate(stores)]
        self.threads = Threads(len(stores))

    def __getattr__(self, name: str) -> NoReturn:
        """Refuse what one index alone has, such as its log."""
        refuse_writing()

    def get_chunks(
        self, pks: Sequence[str], *, contents: bool = True, vectors: bool = False, dense: bool = False
    ) -> list[ChunkRow]:
        """Read rows; a key that names no index is looked for in all of them."""
        asked = [(part, own) for part in self._parts if (own := part.own(pks))]

        def read(each: tuple[_Part, list[str]]) -> list[ChunkRow]:
            part, own = each
            rows = part.store.get_chunks(own, contents=contents, vectors=vectors, dense=dense)
            return list(map(part.of_group, rows))

        return list(chain.from_iterable(self.threads.map(read, asked)))

    def scan_chunks(
        self, scope: Scope = ALL_CHUNKS, *, contents: bool = False, vectors: bool = False
    ) -> Iterator[list[ChunkRow]]:
        """Stream the rows of one index after the other."""
        after, _, first = scope.after.partition("@")
        for part in self._parts[int(first or 0) :]:
            here = replace(scope, after=after if str(part.number) == first else "")
            for page in part.store.scan_chunks(here, contents=contents, vectors=vectors):
                yield list(map(part.of_group, page))

    def search(self, queries: Sequence[SparseVector] | NDArray[np.float32], arm: SearchArm) -> list[list[Match]]:
        """Return the best rows of all indexes: scores are those of one index, so that they are compared as they are."""
        found = self.threads.map(partial(_Part.search, queries=queries, arm=arm), self._parts)
        return [self._merge(matches, arm.limit) for matches in zip(*found, strict=True)]

    def _merge(self, found: Sequence[list[Match]], limit: int) -> list[Match]:
        ranked = [(*rank_of(match), part, match) for part, some in enumerate(found) for match in some]
        best = sorted(ranked, key=lambda each: each[:4])[:limit]
        return [Match(self._parts[part].of_group(match.row), match.score) for *_, part, match in best]

    def storage_info(self) -> StorageInfo:
        """Return how that engine stores the chunks whose scores are the least exact."""
        infos = self.threads.map(lambda part: part.store.storage_info(), self._parts)
        return max(infos, key=lambda info: info.score_tolerance)
