"""From what a store finds to what users see: k chunks, each once, and only of the namespaces asked for."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rag_bm25.store import ChunkRow, Match

__all__ = ["MAX_K", "best", "newest", "shown"]

MAX_K = 16_384

T = TypeVar("T")


def best(
    ask: Callable[[list[T], int], list[list[Match]]],
    queries: Sequence[T],
    k: int,
    namespaces: Sequence[str] | None,
    limit: int = 0,
    keep: Callable[[T, list[Match]], list[Match]] | None = None,
) -> list[list[Match]]:
    """Ask for the best k chunks of each query, and for more where some of what is found is not to be shown.

    Parameters
    ----------
    ask : callable of (list of queries, limit) to list of list of Match
        Searches the store.
    queries : sequence
        What is searched for.
    k : int
        How many chunks at most, in 1..16384.
    namespaces : sequence of str or None
        Whose chunks; None for all.
    limit : int
        How many rows to ask for at first; by default k.
    keep : callable of (query, list of Match) to list of Match, optional
        Leaves out matches that do not fit a query, in the order in which they are.

    Returns
    -------
    list of list of Match
        For each query, by falling score. They are the best ones, unless fewer than k of the best 16,384 fit.
    """
    limit = limit or k
    found = ask(list(queries), limit)
    chosen = [shown(matches, namespaces) for matches in found]
    if keep is not None:
        chosen = [keep(query, matches) for query, matches in zip(queries, chosen, strict=True)]
    chosen = [matches[:k] for matches in chosen]
    lacking = [
        position
        for position, matches in enumerate(chosen)
        if len(matches) < k and len(found[position]) == limit < MAX_K
    ]
    if lacking:
        again = [queries[position] for position in lacking]
        more = best(ask, again, k, namespaces, min(2 * limit, MAX_K), keep)
        for position, matches in zip(lacking, more, strict=True):
            chosen[position] = matches
    return chosen


def shown(matches: Sequence[Match], namespaces: Sequence[str] | None, others: Sequence[Match] = ()) -> list[Match]:
    """Drop the older of two rows of one chunk, and rows of other namespaces: a write under way has both.

    Parameters
    ----------
    matches : sequence of Match
        As the store found them.
    namespaces : sequence of str or None
        Whose chunks; None for all.
    others : sequence of Match
        Rows that another search for the same query found; one of them may be the newer.

    Returns
    -------
    list of Match
        What is left, in the same order.
    """
    newest: dict[tuple[str, str], str] = {}
    for match in (*matches, *others):
        chunk = (match.row.namespace, match.row.id)
        newest[chunk] = max(newest.get(chunk, ""), match.row.batch)
    return [
        match
        for match in matches
        if newest[match.row.namespace, match.row.id] == match.row.batch
        and (namespaces is None or match.row.namespace in namespaces)
    ]


def newest(rows: Iterable[ChunkRow]) -> Iterator[ChunkRow]:
    """Drop the older of two rows of one chunk while all rows are streamed.

    Parameters
    ----------
    rows : iterable of ChunkRow
        In the order of their keys, so that both rows of a chunk stand side by side.

    Yields
    ------
    ChunkRow
        One for each chunk.
    """
    for _, versions in groupby(rows, key=lambda row: (row.namespace, row.id)):
        yield max(versions, key=lambda row: row.batch)
