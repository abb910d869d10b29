"""Candidates: keep the newest row of each chunk, filter namespaces, over-fetch until there are enough."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from rag_bm25.hits.options import MAX_K
from rag_bm25.index.searching.rows import latest_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rag_bm25.events import Events
    from rag_bm25.store.rows import Match

OVERFETCH = 4
"""Factor of k for the first search if hits may be dropped, grouped or reordered."""

T = TypeVar("T")


@dataclass(frozen=True)
class Candidates:
    """The best chunks of a query, as far as they were searched for."""

    matches: list[Match]
    below: float  # no other chunk has a higher score
    is_all: bool  # whether there is no other chunk


def warn_incomplete(events: Events, k: int) -> None:
    """Report that the best 16,384 chunks do not decide."""
    msg = f"the best {MAX_K:,} chunks do not decide which hits are the first {k:,}: the last ones may be others"
    events.warn("incomplete", msg, candidates=MAX_K)


def find_candidates(
    search: Callable[[list[T], int], list[list[Match]]],  # of queries and a limit
    queries: Sequence[T],
    limit: int,  # rows to ask for at first
    enough: Callable[[T, Candidates], bool],
    namespaces: Sequence[str] | None,
    keep: Callable[[T, list[Match]], list[Match]] | None = None,  # drops matches, in their order
    decide: Callable[[T, int], Candidates | None]
    | None = None,  # finds all candidates if that reads about `limit` rows
) -> list[Candidates]:
    """Search for twice as many rows until there are enough candidates, or the best 16,384 rows have been read."""
    decided = [None if decide is None else decide(query, limit) for query in queries]
    open_ = [query for query, found in zip(queries, decided, strict=True) if found is None]
    answers = iter(search(open_, limit) if open_ else [])
    chosen: list[Candidates] = []
    for query, whole in zip(queries, decided, strict=True):
        if whole is not None:
            chosen.append(whole)
            continue
        matches = next(answers)
        newest = latest_rows(matches, namespaces)
        kept = newest if keep is None else keep(query, newest)
        is_all = len(matches) < limit
        chosen.append(Candidates(kept, 0.0 if is_all else matches[-1].score, is_all))
    lacking = [
        position
        for position, (query, found) in enumerate(zip(queries, chosen, strict=True))
        if limit < MAX_K and not found.is_all and not enough(query, found)
    ]
    if lacking:
        again = [queries[position] for position in lacking]
        more = find_candidates(search, again, min(2 * limit, MAX_K), enough, namespaces, keep, decide)
        for position, found in zip(lacking, more, strict=True):
            chosen[position] = found
    return chosen
