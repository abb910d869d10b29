"""Score the rows of a sparse search again, from their stored vectors.

A server may round the weights in its index to fp16; the vectors that it stores beside it are float32. Every weight is
above 0, so a rounded score differs from the exact one by at most the share by which one weight does, and two rows can
only change places if their scores are as close as that.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from rag_bm25.store.rows import MAX_K, Match, rank_of
from rag_bm25.store.storage import FP16_TOLERANCE
from rag_bm25.vectors.sparse import EMPTY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rag_bm25.store.protocol import Store
    from rag_bm25.store.rows import SearchArm
    from rag_bm25.vectors.sparse import SparseVector

SPARE = 10  # of 635 questions on SciFact, CMRC 2018 and LISA, none has more than one row within reach after the tenth
REACH = (1 - FP16_TOLERANCE) / (1 + FP16_TOLERANCE)
"""A row can only be among the best k if its rounded score is at least this share of the k-th rounded score."""


def search_rescored(store: Store, queries: Sequence[SparseVector], arm: SearchArm) -> list[list[Match]]:
    """Search as :meth:`Store.search` does, with exact scores, and in their order.

    More rows are asked for until all those are found that rounding may have kept from the first `limit`, as far as
    16,384 rows hold them.
    """
    wider = replace(arm, vectors=True)
    found = _search_within_reach(store, queries, wider, min(arm.limit + max(SPARE, arm.limit // 10), MAX_K))
    return [
        sorted((_rescore(match, query, keep=arm.vectors) for match in matches), key=rank_of)[: arm.limit]
        for query, matches in zip(queries, found, strict=True)
    ]


def _search_within_reach(
    store: Store, queries: Sequence[SparseVector], arm: SearchArm, asked: int
) -> list[list[Match]]:
    """Find the rows that may be among the best `arm.limit` by their exact scores."""
    found = store.search(queries, replace(arm, limit=asked))
    lowest = [_lowest_score(matches, arm.limit) for matches in found]
    cut = [at for at, matches in enumerate(found) if len(matches) == asked and matches[-1].score >= lowest[at]]
    found = [[match for match in matches if match.score >= least] for matches, least in zip(found, lowest, strict=True)]
    if cut and asked < MAX_K:
        again = _search_within_reach(store, [queries[at] for at in cut], arm, min(4 * asked, MAX_K))
        for at, matches in zip(cut, again, strict=True):
            found[at] = matches
    return found


def _lowest_score(matches: Sequence[Match], limit: int) -> float:
    """Return the lowest score within reach of the best `limit` rows."""
    return REACH * matches[limit - 1].score if len(matches) >= limit else 0.0


def _rescore(match: Match, query: SparseVector, *, keep: bool) -> Match:
    """Return a match with its exact score, and without its vector unless that was asked for."""
    row = match.row if keep else replace(match.row, vector=EMPTY)
    return Match(row, float(np.float32(query.dot(match.row.vector))))
