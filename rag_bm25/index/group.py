"""Several indexes as one: their rows by `GroupStore`, and their statistics by `GroupStatistics`."""

# ruff: noqa: SLF001 - a group is one of its kind
from __future__ import annotations

import threading
from dataclasses import replace
from itertools import chain
from operator import is_not
from typing import TYPE_CHECKING, Any, NoReturn, cast

from rag_bm25.checks import check_callable, check_int
from rag_bm25.documents.checks import check_sequence
from rag_bm25.errors import ConfigMismatchError, InputError
from rag_bm25.events import Events
from rag_bm25.index.generation import Generation
from rag_bm25.index.index import BM25Index
from rag_bm25.index.lifetime import require_open
from rag_bm25.index.live_statistics import LiveStatistics
from rag_bm25.index.opening import AS_IT_IS
from rag_bm25.index.query_defaults import LiveConfig, query_differences
from rag_bm25.index.searching.group_store import GroupStore, refuse_writing
from rag_bm25.index.settings import document_side
from rag_bm25.index.stored_config import config_to_dict, contract_in, require_same
from rag_bm25.statistics.merging import MergedCounts, MergedSums, MergedTerms
from rag_bm25.statistics.view import StatisticsView

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rag_bm25.documents.chunks import Chunk, Hit
    from rag_bm25.events import Event
    from rag_bm25.hits.options import SearchOptions
    from rag_bm25.hits.selection import H
    from rag_bm25.index.config import IndexConfig
    from rag_bm25.index.searching.group_store import Threads
    from rag_bm25.store.protocol import Store
    from rag_bm25.vectors.terms import Vocabulary


SNAPSHOTS = 100  # tries to see all indexes at one moment, while writers of this process change them


class GroupStatistics(LiveStatistics):
    """Read the statistics of several indexes, each of which is kept up to date by its own `LiveStatistics`."""

    how_to_learn_k1 = "its indexes learn apart, each by its own chunks. Search one of them, or all with another k1"

    def __init__(self, parts: Sequence[LiveStatistics], terms: MergedTerms, threads: Threads, events: Events) -> None:
        self.events = events
        self._parts = parts
        self._terms = terms
        self._threads = threads
        self._sums = MergedSums()
        self._merging = threading.RLock()
        self._merged: tuple[list[StatisticsView], StatisticsView] = ([], StatisticsView())
        threads.map(lambda part: part.vocabulary(), parts)  # at once: they are on several hosts
        self._merge()

    def __getattr__(self, name: str) -> NoReturn:
        """Refuse what writing and a recount need: a log and a store."""
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

    def _merge(self) -> StatisticsView:
        """Return the statistics of what the indexes have read, merged anew where that has changed."""
        if _are_same(self._snapshot(), self._merged[0]):
            return self.view
        with self._merging:
            views = self._snapshot()
            pairs = zip(self._parts, (view.vocabulary for view in views), strict=True)
            self._terms.read([part.vocabulary() if own is None else own for part, own in pairs])
            self._merged = views, self._merge_views(views)
        return self.view

    def _merge_views(self, views: Sequence[StatisticsView]) -> StatisticsView:
        terms = self._terms
        counts = MergedCounts([view.statistics for view in views], terms.renumberings, self._sums)
        displaced, problems = dict(terms.vocabulary.displaced), tuple(self.problems)
        term_k1 = views[0].term_k1 if len(views) == 1 else None
        return StatisticsView(counts, displaced, problems=problems, term_k1=term_k1, vocabulary=terms.vocabulary)

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


class IndexGroup(BM25Index):
    """Several indexes, on any engines and hosts, that are searched as one.

    Scores and ranks are those of one index of all chunks: N and df are sums over the indexes, term by term. It has the
    methods of :class:`~rag_bm25.BM25Index` and their options; those that write, and `verify`, are a ReadOnlyError:
    call them of the indexes, whose changes the next search sees. The same id in two indexes is two chunks, which `part`
    tells apart.

    Parameters
    ----------
    indexes : sequence of BM25Index
        Open. All of them must have the same parameters, those of queries, too, and the same analyzer.
        They stay those of the caller, until he closes the group: that closes them, too.
    on_event : callable of Event to None, optional
        As for :meth:`BM25Index.open`, of searches of the group.

    Attributes
    ----------
    parts : tuple of BM25Index
        The indexes; the `part` of a hit is the place of its index here.

    Raises
    ------
    ConfigMismatchError
        Two indexes have other parameters; the message names each difference. A search raises it, too, once the
        defaults of queries are no longer the same.
    InputError
        There is no index, or one is given twice.

    Examples
    --------
    ::

        with IndexGroup([BM25Index.open("./laws.db", "laws"), BM25Index.open("http://host:19530", "cases")]) as group:
            for hit in group.search("劳动合同 解除", k=5):
                print(hit.part, hit.id, hit.score)
    """

    def __init__(self, indexes: Sequence[BM25Index], *, on_event: Callable[[Event], None] | None = None) -> None:
        check_sequence("indexes", indexes, "BM25Index")
        check_callable("on_event", on_event)
        self.parts = tuple(chain.from_iterable(map(_parts_of, indexes)))
        _check_parts(self.parts)
        self._on_event = on_event
        self._joined = self._members()
        self._begin(self._join(self._joined), replace(AS_IT_IS, read_only=True))

    def _members(self) -> list[tuple[Generation, IndexConfig]]:
        """Return the generations in force, each with its config of now."""
        return [(now, now.config) for now in [part._current() for part in self.parts]]  # a ScopedIndex has its own

    def _join(self, members: Sequence[tuple[Generation, IndexConfig]]) -> Generation:
        """Return some generations of the indexes as one."""
        parts = [part for part, _ in members]
        first, terms = parts[0], MergedTerms(len(parts))
        store = GroupStore([part.store for part in parts], terms, self._close_parts)
        events = Events(store.name, self._on_event)
        live = GroupStatistics([part.live for part in parts], terms, store.threads, events)
        return Generation(cast("Store", store), LiveConfig(members[0][1]), first.encoder, live, refuse_writing)

    def _current(self) -> Generation:
        """Return the generations in force, joined anew where that of an index, or its config, is another."""
        require_open(self)
        with self._going_on:
            members = self._members()
            if any(map(is_not, chain.from_iterable(members), chain.from_iterable(self._joined))):
                _check_parts(self.parts)
                self._generation, self._joined = self._join(members), members
            return self._generation

    @property
    def _identity(self) -> tuple[object, ...]:
        return tuple(part._identity for part in self.parts)

    def _close_parts(self) -> None:
        for part in self.parts:
            part.close()

    def _check_part(self, part: int | None) -> int | None:
        return None if part is None else check_int("part", part, 0, len(self.parts) - 1)

    def _store_of(self, chunk: Hit | Chunk) -> Store:
        return self._store if chunk.part is None else self.parts[chunk.part]._store

    def _with_contexts(self, now: Generation, hits: list[H], options: SearchOptions) -> list[H]:  # noqa: ARG002
        """Give each hit the neighbours that it has in its own index."""
        shown = {
            number: iter(part._with_contexts(part._current(), [hit for hit in hits if hit.part == number], options))
            for number, part in enumerate(self.parts)
        }
        return [next(shown[cast("int", hit.part)]) for hit in hits]

    def _require_writable(self) -> NoReturn:
        refuse_writing()


def _parts_of(index: Any) -> tuple[BM25Index, ...]:
    if not isinstance(index, BM25Index):
        raise InputError(f"indexes must hold BM25Index objects, got {type(index).__name__}")
    return index.parts if isinstance(index, IndexGroup) else (index,)


def _check_parts(parts: Sequence[BM25Index]) -> None:
    """Refuse indexes whose scores cannot be compared."""
    if not parts:
        raise InputError("indexes must hold an index at least, got none")
    identities = [part._identity for part in parts] if len(parts) > 1 else []
    if any(identity in identities[:at] for at, identity in enumerate(identities)):
        raise InputError("indexes must differ, got one of them twice: its chunks would count twice")
    first = parts[0]
    wanted = document_side(first.config)
    for number, part in enumerate(parts):
        if document_side(part.config) != wanted:
            _require_same(first, part, number)
        if found := query_differences(first.config, part.config):
            raise ConfigMismatchError(
                f"index {number} of the group has other defaults of queries than index 0: {'; '.join(found)}. Set them "
                "alike: `rag-bm25 set`, or set_query_defaults of the indexes"
            )


def _require_same(first: BM25Index, other: BM25Index, number: int) -> None:
    try:
        require_same(config_to_dict(first.config, contract_in(first.config)), other.config)
    except ConfigMismatchError as error:
        reason = str(error).partition(": ")[2]
        differs = first.config.fields != other.config.fields
        hint = (
            '. `rag-bm25 ingest` counts titles and headings, as IndexConfig(fields="default") does' if differs else ""
        )
        raise ConfigMismatchError(
            f"index {number} of the group was created with other parameters than index 0: {reason}{hint}"
        ) from None
