"""Several indexes as one."""

# ruff: noqa: SLF001 - a group is one of its kind
from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, NoReturn, cast

from rag_bm25.documents.checks import check_sequence
from rag_bm25.errors import ConfigMismatchError, InputError
from rag_bm25.events import Events
from rag_bm25.index.group_statistics import GroupStatistics
from rag_bm25.index.index import BM25Index
from rag_bm25.index.searching.group_store import GroupStore, refuse_writing
from rag_bm25.index.settings import document_side
from rag_bm25.index.stored_config import config_to_dict, contract_in, require_same
from rag_bm25.statistics.merging import MergedTerms

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rag_bm25.documents.chunks import Chunk, Hit
    from rag_bm25.events import Event
    from rag_bm25.hits.options import SearchOptions
    from rag_bm25.hits.selection import H
    from rag_bm25.store.protocol import Store


class IndexGroup(BM25Index):
    """Several indexes, on any engines and hosts, that are searched as one.

    Scores and ranks are those of one index of all chunks: N and df are sums over the indexes, term by term. It has the
    methods of :class:`~rag_bm25.BM25Index` and their options; those that write, and `verify`, are a ReadOnlyError:
    call them of the indexes, whose changes the next search sees. The weighting of queries is that of the first index,
    unless a search gives another one. The same id in two indexes is two chunks, which `part` tells apart.

    Parameters
    ----------
    indexes : sequence of BM25Index
        Open. All of them must have been made with the same parameters on the document's side and the same analyzer.
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
        Two indexes were made with other parameters; the message names each difference.
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
        self.parts = tuple(chain.from_iterable(map(_parts_of, indexes)))
        _check_parts(self.parts)
        first = self.parts[0]
        terms = MergedTerms(len(self.parts))
        store = GroupStore([part._store for part in self.parts], terms, self._close_parts)
        live = GroupStatistics([part._live for part in self.parts], terms, Events(store.name, on_event))
        self._assemble(cast("Store", store), first.config, first._encoder, live, read_only=True)

    def _close_parts(self) -> None:
        for part in self.parts:
            part.close()

    def _store_of(self, chunk: Hit | Chunk) -> Store:
        return self._store if chunk.part is None else self.parts[chunk.part]._store

    def _with_contexts(self, hits: list[H], options: SearchOptions) -> list[H]:
        """Give each hit the neighbours that it has in its own index."""
        shown = {
            number: iter(part._with_contexts([hit for hit in hits if hit.part == number], options))
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
    if len(set(map(id, parts))) < len(parts):
        raise InputError("indexes must differ, got one of them twice: its chunks would count twice")
    first = parts[0]
    wanted = document_side(first.config)
    for number, part in enumerate(parts):
        if document_side(part.config) != wanted:
            _require_same(first, part, number)


def _require_same(first: BM25Index, other: BM25Index, number: int) -> None:
    try:
        require_same(config_to_dict(first.config, contract_in(first.config)), other.config)
    except ConfigMismatchError as error:
        reason = str(error).partition(": ")[2]
        raise ConfigMismatchError(
            f"index {number} of the group was created with other parameters than index 0: {reason}"
        ) from None
