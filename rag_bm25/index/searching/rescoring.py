"""Score the rows of a sparse search again: from their stored vectors, or by other weights of the chunks than these.

A server may round the weights in its index to fp16; the vectors that it stores beside it are float32. Every weight is
above 0, so a rounded score differs from the exact one by at most the share by which one weight does. Nor is a score by
other weights more than the largest ratio of one of them to the stored one; where each term has a k1 of its own, each
has its own ratio, by which the query is multiplied. Rows are asked for until no other can be among the best.
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
from rag_bm25.weighting.document import LARGEST_LENGTH, largest_ratio, ratios_of_terms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rag_bm25.documents.reweighing import Reweigher
    from rag_bm25.events import Events
    from rag_bm25.store.protocol import Store
    from rag_bm25.store.rows import ChunkRow, SearchArm
    from rag_bm25.vectors.sparse import SparseVector
    from rag_bm25.weighting.document import DocumentWeighting

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
class Bound:
    """Queries whose scores by the stored weights, times a factor, are at least those that are asked for."""

    queries: Sequence[SparseVector]
    factor: float = 1.0
    ratio: float = 1.0
    """By how much scores may differ from the bound; it decides how many rows are asked for at first."""

    @classmethod
    def of(
        cls,
        queries: Sequence[SparseVector],
        stored: DocumentWeighting,
        wanted: DocumentWeighting,
        longest: int = LARGEST_LENGTH,
    ) -> Bound:
        """Bound the scores by other weights than the stored ones, in chunks up to a length."""
        if wanted.k1_of_terms is None:
            ratio = largest_ratio(stored, wanted, longest)
            return cls(queries, ratio, ratio)
        ratios = [ratios_of_terms(stored, wanted, query.ids, longest) for query in queries]
        scaled = [
            replace(query, values=(query.values * most).astype(np.float32))
            for query, (_, most) in zip(queries, ratios, strict=True)
        ]
        return cls(scaled, ratio=max(float((most / least).max()) for least, most in ratios))


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
            return self._search(queries, arm, Bound(queries))
        length = _round_up(math.ceil(LONG * self.mean_length))
        weightings = self.reweigher.encoder.weighting, self.reweigher.weighting
        bound, bound_of_all = Bound.of(queries, *weightings, length), Bound.of(queries, *weightings)
        if bound_of_all.ratio <= WORTH_APART * bound.ratio:
            return self._search(queries, arm, bound_of_all)
        long = replace(arm, scope=replace(arm.scope, longer_than=length))
        found, others = self._search(queries, arm, bound), self._search(queries, long, bound_of_all)
        return [_merge(*pair)[: arm.limit] for pair in zip(found, others, strict=True)]

    def score(self, query: SparseVector, rows: Sequence[ChunkRow]) -> list[Match]:
        """Score rows with contents and vectors, and sort those that have a word of the query."""
        vectors = [row.vector for row in rows] if self.reweigher is None else self.reweigher.vectors(rows, query.ids)
        scores = SparseBatch.of(vectors).dot(query)
        found = zip(rows, scores, scores.astype(np.float32).tolist(), strict=True)
        return sorted((Match(row, score) for row, exact, score in found if exact > 0), key=rank_of)

    def _search(self, queries: Sequence[SparseVector], arm: SearchArm, bound: Bound) -> list[list[Match]]:
        """Search where scores are bounded by those of other queries by the stored weights."""
        more = max(SPARE, round(arm.limit * min(0.1 + OVERFETCH * (bound.ratio - 1), MOST_AT_FIRST)))
        found = self._within_reach(queries, arm, bound, min(arm.limit + more, MAX_K))
        return [
            [match if arm.vectors else replace(match, row=replace(match.row, vector=EMPTY)) for match in matches]
            for matches in found
        ]

    def _within_reach(
        self, queries: Sequence[SparseVector], arm: SearchArm, bound: Bound, asked: int
    ) -> list[list[Match]]:
        """Find the best `arm.limit` rows: read until the last stored score is out of reach of the last exact one."""
        check_budget()
        reach = REACH / bound.factor
        answers = self.store.search(bound.queries, replace(arm, limit=asked, vectors=True))
        found = [self.score(query, self._read(rows, arm)) for query, rows in zip(queries, answers, strict=True)]
        cut = [
            at
            for at, (rows, matches) in enumerate(zip(answers, found, strict=True))
            if len(rows) == asked and rows[-1].score >= reach * matches[arm.limit - 1].score
        ]
        if cut and asked < MAX_K:
            left = replace(bound, queries=[bound.queries[at] for at in cut])
            again = self._within_reach([queries[at] for at in cut], arm, left, min(4 * asked, MAX_K))
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
