"""The statistics of several open indexes, as those of one."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from rag_bm25.errors import ConfigMismatchError
from rag_bm25.index.live_statistics import LiveStatistics
from rag_bm25.index.searching.group_store import Threads, refuse_writing
from rag_bm25.statistics.merging import MergedCounts, MergedSums, MergedTerms
from rag_bm25.statistics.view import StatisticsView

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rag_bm25.events import Events
    from rag_bm25.statistics.corpus import CountsReader
    from rag_bm25.vectors.terms import Vocabulary

SNAPSHOTS = 100  # tries to see all indexes at one moment, while writers of this process change them


class GroupStatistics(LiveStatistics):
    """Read the statistics of several indexes, each of which is kept up to date by its own `LiveStatistics`."""

    def __init__(self, parts: Sequence[LiveStatistics], terms: MergedTerms, events: Events) -> None:
        self.events = events
        self._parts = parts
        self._terms = terms
        self._sums = MergedSums()
        self._threads = Threads(len(parts))
        self._merging = threading.RLock()
        self._merged: tuple[list[StatisticsView], StatisticsView] = ([], StatisticsView())
        self._threads.map(lambda part: part.vocabulary(), parts)  # at once: they are on several hosts
        self._merge()

    def __getattr__(self, name: str) -> NoReturn:
        refuse_writing()

    @property
    def problems(self) -> list[str]:
        return [f"index {at}: {problem}" for at, part in enumerate(self._parts) for problem in part.problems]

    @property
    def view(self) -> StatisticsView:
        return self._merged[1]

    def current(self, namespaces: Sequence[str] | None = None) -> StatisticsView:
        for part in self._parts:
            part.current(namespaces)
        return self._merge()

    def vocabulary(self) -> Vocabulary:
        return self._terms.vocabulary

    def refresh(self) -> None:
        self._threads.map(lambda part: part.refresh(), self._parts)
        self._merge()

    def finish_failed_batch(self) -> None:
        for part in self._parts:
            part.finish_failed_batch()

    def close(self) -> None:
        """Leave everything to the indexes."""

    def writing(self) -> NoReturn:
        refuse_writing()

    @contextmanager
    def at_rest(self) -> Iterator[tuple[CountsReader, Vocabulary]]:
        refuse_writing()
        yield

    def _merge(self) -> StatisticsView:
        """Return the statistics of what the indexes have read, merged anew where that has changed."""
        views = self._snapshot()
        if _are_same(views, self._merged[0]):
            return self.view
        with self._merging:
            views = self._snapshot()
            pairs = zip(views, self._parts, strict=True)
            self._terms.read(
                [part.vocabulary() if view.vocabulary is None else view.vocabulary for view, part in pairs]
            )
            renumberings = self._terms.renumberings
            tables = [one.vector(view.term_k1) for one, view in zip(renumberings, views, strict=True)]
            if others := [at for at, table in enumerate(tables) if table != tables[0]]:
                raise ConfigMismatchError(
                    f"the k1 of terms: index {others[0]} of the group has another table than index 0"
                )
            counts = MergedCounts([view.statistics for view in views], renumberings, self._sums)
            displaced, problems = dict(self._terms.vocabulary.displaced), tuple(self.problems)
            merged = StatisticsView(counts, displaced, tables[0], problems=problems, vocabulary=self._terms.vocabulary)
            self._merged = views, merged
        return merged

    def _snapshot(self) -> list[StatisticsView]:
        """Return what each index has read, all at one moment: none has changed since the first was looked at."""
        views = [part.view for part in self._parts]
        for _ in range(SNAPSHOTS):
            again = [part.view for part in self._parts]
            if _are_same(views, again):
                break
            views = again
        return views


def _are_same(some: Sequence[StatisticsView], others: Sequence[StatisticsView]) -> bool:
    return len(some) == len(others) and all(one is other for one, other in zip(some, others, strict=True))
