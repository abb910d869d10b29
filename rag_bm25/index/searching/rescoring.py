"""Score the rows of a sparse search again: from their stored vectors, or by other weights of the chunks than these.

A server may round the weights in its index to fp16; the vectors that it stores beside it are float32. Every weight is
above 0, so a rounded score differs from the exact one by at most the share by which one weight does. Nor is a score by
other weights more than the largest ratio of one of them to the stored one. Rows are asked for until no other can be
among the best.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rag_bm25.budget import check_budget
from rag_bm25.index.searching.ranking import warn_incomplete
from rag_bm25.store.rows import MAX_K, Match, rank_of
from rag_bm25.store.storage import FP16_TOLERANCE
from rag_bm25.vectors.sparse import EMPTY, SparseBatch
from rag_bm25.weighting.document import largest_ratio

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rag_bm25.documents.reweighing import Reweigher
    from rag_bm25.events import Events
    from rag_bm25.store.protocol import Store
    from rag_bm25.store.rows import ChunkRow, SearchArm
    from rag_bm25.vectors.sparse import SparseVector

SPARE = 10  # of 635 questions on SciFact, CMRC 2018 and LISA, none has more than one row within reach after the tenth
REACH = 1 - FP16_TOLERANCE
"""A row can only be among the best k if its rounded score is at least this share of the k-th exact score."""
LONG = 2
"""Chunks longer than this multiple of the mean are few, and searched for apart if their ratios are larger."""
WORTH_APART = 1.25
OVERFETCH = 8
"""How many times the limit is asked for at first, where a ratio is 1 above that of equal weights."""
MOST_AT_FIRST = 20


@dataclass(frozen=True, eq=False)
class Rescorer:
    """Search a store with exact scores, by the stored weights or by others."""

    store: Store
    events: Events
    reweigher: Reweigher | None = None
    mean_length: float = 0.0

    def search(self, queries: Sequence[SparseVector], arm: SearchArm) -> list[list[Match]]:
        """Search as :meth:`Store.search` does, with exact scores, and in their order.

        More rows are asked for until all those are found that may be among the first `limit`, as far as 16,384 rows
        hold them.
        """
        if self.reweigher is None or arm.pks is not None:
            return self._search(queries, arm, 1.0)
        weightings = self.reweigher.encoder.weighting, self.reweigher.weighting
        length = _round_up(math.ceil(LONG * self.mean_length))
        ratio, ratio_of_all = largest_ratio(*weightings, length), largest_ratio(*weightings)
        if ratio_of_all <= WORTH_APART * ratio:
            return self._search(queries, arm, ratio_of_all)
        long = replace(arm, scope=replace(arm.scope, longer_than=length))
        found, others = self._search(queries, arm, ratio), self._search(queries, long, ratio_of_all)
        return [_merge(*pair)[: arm.limit] for pair in zip(found, others, strict=True)]

    def score(self, query: SparseVector, rows: Sequence[ChunkRow]) -> list[Match]:
        """Score rows with contents and vectors, and sort those that have a word of the query."""
        vectors = [row.vector for row in rows] if self.reweigher is None else self.reweigher.vectors(rows, query.ids)
        scores = SparseBatch.of(vectors).dot(query)
        found = zip(rows, scores, scores.astype(np.float32).tolist(), strict=True)
        return sorted((Match(row, score) for row, exact, score in found if exact > 0), key=rank_of)

    def _search(self, queries: Sequence[SparseVector], arm: SearchArm, ratio: float) -> list[list[Match]]:
        """Search where no weight is more than a multiple of the stored one."""
        more = max(SPARE, round(arm.limit * min(0.1 + OVERFETCH * (ratio - 1), MOST_AT_FIRST)))
        found = self._within_reach(queries, arm, REACH / ratio, min(arm.limit + more, MAX_K))
        return [
            [match if arm.vectors else replace(match, row=replace(match.row, vector=EMPTY)) for match in matches]
            for matches in found
        ]

    def _within_reach(
        self, queries: Sequence[SparseVector], arm: SearchArm, reach: float, asked: int
    ) -> list[list[Match]]:
        """Find the best `arm.limit` rows: read until the last stored score is below `reach` of the last exact one."""
        check_budget()
        answers = self.store.search(queries, replace(arm, limit=asked, vectors=True))
        found = [self.score(query, self._read(rows, arm)) for query, rows in zip(queries, answers, strict=True)]
        cut = [
            at
            for at, (rows, matches) in enumerate(zip(answers, found, strict=True))
            if len(rows) == asked and rows[-1].score >= reach * matches[arm.limit - 1].score
        ]
        if cut and asked < MAX_K:
            again = self._within_reach([queries[at] for at in cut], arm, reach, min(4 * asked, MAX_K))
            for at, matches in zip(cut, again, strict=True):
                found[at] = matches
        elif cut and self.reweigher is not None:
            warn_incomplete(self.events, arm.limit)
        return [matches[: arm.limit] for matches in found]

    def _read(self, matches: Sequence[Match], arm: SearchArm) -> list[ChunkRow]:
        """Return the rows of matches; a search of given rows does not read their contents."""
        if self.reweigher is None or arm.pks is None or not matches:
            return [match.row for match in matches]
        return self.store.get_chunks([match.row.pk for match in matches], contents=True, vectors=True)


def _round_up(number: int) -> int:
    """Round up to three binary digits: a mean changes with every write, and the ratio for it is cached."""
    step = 1 << max(number.bit_length() - 3, 0)
    return -(-number // step) * step


def _merge(found: Sequence[Match], others: Sequence[Match]) -> list[Match]:
    """Unite the matches of two searches."""
    return sorted({match.row.pk: match for match in (*found, *others)}.values(), key=rank_of)
