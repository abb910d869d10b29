"""Top k: keep the newest row of each chunk, filter namespaces, over-fetch until k remain."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from rag_bm25.index.searching.rows import latest_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rag_bm25.store.rows import Match

MAX_K = 16_384

T = TypeVar("T")


def top_k(
    search: Callable[[list[T], int], list[list[Match]]],  # of queries and a limit
    queries: Sequence[T],
    k: int,
    namespaces: Sequence[str] | None,
    limit: int = 0,  # rows to ask for at first; k by default
    keep: Callable[[T, list[Match]], list[Match]] | None = None,  # drops matches, in their order
) -> list[list[Match]]:
    """Search for the best k chunks of each query; with fewer only if fewer of the best 16,384 rows remain."""
    limit = limit or k
    found = search(list(queries), limit)
    chosen = [latest_rows(matches, namespaces) for matches in found]
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
        more = top_k(search, again, k, namespaces, min(2 * limit, MAX_K), keep)
        for position, matches in zip(lacking, more, strict=True):
            chosen[position] = matches
    return chosen
