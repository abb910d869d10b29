"""A part of an index as an index of its own: some namespaces, the chunks that fit a filter, or both.

Rows come from `ScopedStore` and statistics from `ScopedStatistics` alone, so that no method can reach beyond the part.
"""

# ruff: noqa: SLF001 - a part of an index is one of its kind
from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, NoReturn, cast

from rag_bm25.budget import limited
from rag_bm25.errors import InputError, ReadOnlyError
from rag_bm25.filters import conjoin
from rag_bm25.index.arguments import parse_scope
from rag_bm25.index.generation import Generation
from rag_bm25.index.group import IndexGroup
from rag_bm25.index.index import BM25Index
from rag_bm25.index.live_statistics import LiveStatistics
from rag_bm25.index.opening import AS_IT_IS
from rag_bm25.index.searching.part_statistics import ROWS_AT_ONCE
from rag_bm25.index.searching.rows import drop_superseded
from rag_bm25.statistics.corpus import Contribution, CountsByNamespace
from rag_bm25.statistics.view import StatisticsView
from rag_bm25.store.memory import matches
from rag_bm25.store.rows import ALL_CHUNKS, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from rag_bm25.index.arguments import FilterLike, Namespaces
    from rag_bm25.statistics.corpus import CorpusCounts, CountsReader
    from rag_bm25.store.protocol import Store
    from rag_bm25.store.rows import ChunkRow, Match, SearchArm
    from rag_bm25.vectors.sparse import SparseVector
    from rag_bm25.vectors.terms import Vocabulary


def narrow(index: BM25Index, *, filter: FilterLike = None, namespace: Namespaces = None) -> BM25Index:
    """Return the part of an index that has some namespaces and fits a filter, which must be a mapping; only to read.

    Its hits, scores and answers are those of an index of these chunks alone, but for what the parameters of the index
    hold: `chunk_size` and the model of confidences.
    """
    part = parse_scope(filter, namespace)
    if isinstance(index, IndexGroup):
        return IndexGroup([ScopedIndex(one, part) for one in index.parts], on_event=index._on_event)
    return ScopedIndex(index, part)


class ScopedIndex(BM25Index):
    """A part of an index, which stays open and is closed by its owner."""

    def __init__(self, index: BM25Index, part: Scope) -> None:
        self._index = index
        self._part = part
        self._whole = index._current()
        self._begin(self._narrow(self._whole), replace(AS_IT_IS, read_only=True))

    @property
    def _identity(self) -> tuple[object, ...]:
        return *self._index._identity, self._part

    def _current(self) -> Generation:
        with self._going_on:
            if (whole := self._index._current()) is not self._whole:
                self._generation, self._whole = self._narrow(whole), whole
            return self._generation

    def _narrow(self, whole: Generation) -> Generation:
        store = cast("Store", ScopedStore(whole.store, self._part))
        live = ScopedStatistics(whole.live, store, self._part)
        narrowed = Generation(store, whole.live_config, whole.encoder, live, _refuse)
        narrowed.weigher.expanders = whole.weigher.expanders  # the vocabulary is put in order once
        return narrowed


class ScopedStore:
    """The reading half of :class:`~rag_bm25.store.protocol.Store`, for the rows of a scope."""

    def __init__(self, store: Store, part: Scope) -> None:
        self.name, self.exclusive, self.storage_info = store.name, store.exclusive, store.storage_info
        self._store = store
        self._part = part

    def __getattr__(self, name: str) -> NoReturn:
        """Refuse what writes, and what is of the whole, such as the log."""
        _refuse()

    def get_chunks(
        self, pks: Sequence[str], *, contents: bool = True, vectors: bool = False, dense: bool = False
    ) -> list[ChunkRow]:
        contents = contents or self._part.where is not None
        return list(filter(self._has, self._store.get_chunks(pks, contents=contents, vectors=vectors, dense=dense)))

    def scan_chunks(
        self, scope: Scope = ALL_CHUNKS, *, contents: bool = False, vectors: bool = False
    ) -> Iterator[list[ChunkRow]]:
        return self._store.scan_chunks(self._within(scope), contents=contents, vectors=vectors)

    def search(self, queries: Sequence[SparseVector] | NDArray[np.float32], arm: SearchArm) -> list[list[Match]]:
        return self._store.search(queries, replace(arm, scope=self._within(arm.scope)))

    def _within(self, scope: Scope) -> Scope:
        names = _names_within(self._part, scope.namespaces)
        return replace(scope, where=conjoin(self._part.where, scope.where), namespaces=names)

    def _has(self, row: ChunkRow) -> bool:
        where, names = self._part.where, self._part.namespaces
        return (names is None or row.namespace in names) and (where is None or matches(where, row.id, row.metadata))


class ScopedStatistics(LiveStatistics):
    """The statistics of a scope; those of a filter are counted anew when somebody has written."""

    how_to_learn_k1 = "what was learned of all chunks would tell of those outside of a part. Search the whole index"

    def __init__(self, live: LiveStatistics, store: Store, part: Scope) -> None:
        self.events = live.events
        self._live = live
        self._rows = store
        self._part = part
        self._narrowing = threading.RLock()
        self._narrowed: tuple[StatisticsView | None, StatisticsView] = (None, StatisticsView())

    def __getattr__(self, name: str) -> NoReturn:
        """Refuse what writing and a recount need."""
        _refuse()

    @property
    def problems(self) -> list[str]:
        return ["the statistics of the index are damaged"] if self._live.problems else []  # without their numbers

    @property
    def view(self) -> StatisticsView:
        return self._narrow(self._live.view)

    def current(self, namespaces: Sequence[str] | None = None) -> StatisticsView:
        return self._narrow(self._live.current(_names_within(self._part, namespaces)))

    def vocabulary(self) -> Vocabulary:
        return self._live.vocabulary()

    def refresh(self) -> None:
        self._live.refresh()

    def finish_failed_batch(self) -> None:
        self._live.finish_failed_batch()

    def close(self) -> None:
        """Leave everything to the index."""

    def _narrow(self, whole: StatisticsView) -> StatisticsView:
        with self._narrowing:
            if self._narrowed[0] is not whole:
                of_all = whole.statistics
                counts = self._count(of_all) if self._part.where else ScopedCounts(of_all, self._part)
                self._narrowed = whole, replace(whole, statistics=counts, problems=(), term_k1=None)
            return self._narrowed[1]

    def _count(self, of_all: CountsReader) -> CountsByNamespace:
        """Count the chunks that fit the filter, without the budget of a request: each would begin anew."""
        counts = CountsByNamespace()
        with limited(lambda: None), self.events.measure("count") as told:
            rows = drop_superseded(chain.from_iterable(self._rows.scan_chunks(vectors=True)))
            while batch := list(islice(rows, ROWS_AT_ONCE)):
                for name in {row.namespace for row in batch}:
                    own = [row for row in batch if row.namespace == name]
                    counts.add(name, Contribution.of_rows(own).marked(of_all.of_one(name)))
            told.update(chunks=counts.num_chunks, terms=counts.whole.num_terms)
        return counts


@dataclass(frozen=True, eq=False)
class ScopedCounts:
    """The statistics of some namespaces; satisfies `CountsReader`."""

    of_all: CountsReader
    part: Scope

    @property
    def namespaces(self) -> list[str]:
        return self._own(self.of_all.namespaces)

    @property
    def filled(self) -> list[str]:
        return self._own(self.of_all.filled)

    @property
    def num_chunks(self) -> int:
        return self.whole.num_chunks

    @property
    def whole(self) -> CorpusCounts:
        return self.of()

    def of(self, namespaces: Sequence[str] | None = None) -> CorpusCounts:
        return self.of_all.of(_names_within(self.part, namespaces))

    def of_one(self, namespace: str) -> CorpusCounts:
        return self.of([namespace])

    def are_all(self, namespaces: Sequence[str]) -> bool:
        return set(namespaces) >= set(self.namespaces)

    def contributions(self) -> dict[str, Contribution]:
        return {name: self.of_one(name).contribution() for name in self.namespaces}

    def _own(self, names: list[str]) -> list[str]:
        return names if self.part.namespaces is None else [name for name in names if name in self.part.namespaces]


def _names_within(part: Scope, names: Sequence[str] | None) -> tuple[str, ...] | None:
    """Return the namespaces that are asked for, or else all of the part; refuse any other."""
    if names is None or part.namespaces is None:
        return part.namespaces if names is None else tuple(names)
    if not set(names) <= set(part.namespaces):
        raise InputError("namespace must be one of those of this part of the index")
    return tuple(names)


def _refuse() -> NoReturn:
    raise ReadOnlyError("a part of an index is only searched: call that method of the index")
