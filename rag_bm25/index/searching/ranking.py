"""Candidates: keep the newest row of each chunk, filter namespaces, over-fetch until there are enough."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from rag_bm25.index.searching.rows import latest_rows
from rag_bm25.store.rows import MAX_K

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rag_bm25.events import Events
    from rag_bm25.store.rows import Match

OVERFETCH = 4
"""Factor of k for the first search if hits may be dropped, grouped or reordered."""

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Candidates:
    """The best chunks of a query, as far as they were searched for."""

    matches: list[Match]
    below: float  # no other chunk has a higher score
    is_all: bool  # whether there is no other chunk


def warn_incomplete(events: Events, k: int) -> None:
    """Report that the best 16,384 chunks do not decide."""
    msg = f"the best {MAX_K:,} chunks do not decide which hits are the first {k:,}: the last ones may be others"
    events.warn("incomplete", msg, candidates=MAX_K)


def widen_until(
    search: Callable[[dict[int, int]], None], is_enough: Callable[[int], bool], limits: Sequence[int]
) -> None:
    """Search with the limit of each search, and then with twice as much, until there is enough or no room for more.

    `search` gets the limit of each search by its position. Rows that one search finds may take candidates from another
    one, which had enough before.
    """
    asked = last = dict(enumerate(limits))
    while asked:
        search(asked)
        last = {**last, **asked}
        asked = {at: min(2 * limit, MAX_K) for at, limit in last.items() if limit < MAX_K and not is_enough(at)}


def find_candidates(
    search: Callable[[list[T], int], list[list[Match]]],  # of queries and a limit
    queries: Sequence[T],
    limit: int,  # rows to ask for at first
    enough: Callable[[T, Candidates], bool],
    namespaces: Sequence[str] | None,
    keep: Callable[[T, list[Match]], list[Match]] | None = None,  # drops matches, in their order
    decide: Callable[[T, int], Candidates | None] | None = None,  # finds all by reading about as many rows, if it can
) -> list[Candidates]:
    """Search until there are enough candidates of each query, or the best 16,384 rows have been read."""
    chosen: dict[int, Candidates] = {}
    settled: set[int] = set()

    def look(asked: dict[int, int]) -> None:
        limit = max(asked.values())  # all are equal
        whole = {at: found for at in asked if decide is not None and (found := decide(queries[at], limit)) is not None}
        open_ = [at for at in asked if at not in whole]
        rows = search([queries[at] for at in open_], limit) if open_ else []
        chosen.update(whole)
        for at, matches in zip(open_, rows, strict=True):
            newest = latest_rows(matches, namespaces)
            kept = newest if keep is None else keep(queries[at], newest)
            is_all = len(matches) < limit
            chosen[at] = Candidates(kept, 0.0 if is_all else matches[-1].score, is_all)

    def is_enough(at: int) -> bool:
        if at not in settled and (chosen[at].is_all or enough(queries[at], chosen[at])):
            settled.add(at)
        return at in settled

    widen_until(look, is_enough, [limit] * len(queries))
    return [chosen[at] for at in range(len(queries))]
