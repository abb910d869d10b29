"""Fuse the candidates of two arms in layers: the first ones of each arm, then twice as many, and so on.

The new candidates of a layer follow below those before, so that a deeper search does not change the first hits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, TypeAlias

from rag_bm25.documents.chunks import HybridHit
from rag_bm25.hits.fusion import Weighted
from rag_bm25.hits.selection import rank_of
from rag_bm25.index.searching.fusion_explanation import FusedArm
from rag_bm25.query.explanation import Explanation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rag_bm25.hits.fusion import Fusion
    from rag_bm25.store.rows import ChunkRow, Match

ScoredArms: TypeAlias = "tuple[dict[str, float], dict[str, float]]"
"""Key of a row -> its score, in the lexical and the dense arm."""


@dataclass(frozen=True, eq=False)
class Layer:
    """Candidates that are fused at once."""

    arms: ScoredArms
    fused: Mapping[str, float]  # scores of the candidates that are in no earlier layer
    shift: float  # taken from the scores of the fusion, so that they are below the earlier layer

    @classmethod
    def of(cls, arms: ScoredArms, fusion: Fusion, above: Mapping[str, float]) -> Layer:
        """Fuse the candidates of a layer; those that are new to it get scores below the ones `above`."""
        new = {pk: score for pk, score in fusion.fuse(*arms).items() if pk not in above}
        if not (above and new):
            return cls(arms, new, 0.0)
        lowest = min(above.values())
        shift, most = max(max(new.values()) - lowest, 0.0), math.nextafter(lowest, -math.inf)
        return cls(arms, {pk: min(score - shift, most) for pk, score in new.items()}, shift)


@dataclass(frozen=True, eq=False)
class FusedCandidates:
    """The candidates of both arms."""

    rows: Mapping[str, ChunkRow]
    layers: Sequence[Layer]

    @classmethod
    def of(
        cls, found: Sequence[list[Match]], missed: ScoredArms, heads: tuple[int, int], fusion: Fusion
    ) -> FusedCandidates:
        """Fuse the matches of both arms, and in the first layer the scores that one of them missed."""
        layers: list[Layer] = []
        above: dict[str, float] = {}
        for arms in _layers(found, missed, heads):
            layers.append(Layer.of(arms, fusion, above))
            above |= layers[-1].fused
        return cls({match.row.pk: match.row for match in chain(*found)}, layers)

    def hits(self) -> list[HybridHit]:
        """Return the candidates as hits, best first."""
        hits = [
            _to_hit(self.rows[pk], score, [arm.get(pk) for arm in layer.arms])
            for layer in self.layers
            for pk, score in layer.fused.items()
        ]
        return sorted(hits, key=rank_of)

    def explained(self, row: ChunkRow, lexical: Explanation, fusion: Fusion) -> tuple[list[FusedArm], float]:
        """Return what each arm gave to a chunk, and the shift of the layer that the chunk is in."""
        pk = next((found.pk for found in self.rows.values() if found.key == row.key), row.pk)
        layer = next((layer for layer in self.layers if pk in layer.fused), self.layers[0])
        sparse, dense = layer.arms
        if sparse.get(pk) == 0 < lexical.value:
            lexical = Explanation(0.0, "the filter of the arm leaves it out")
        weights = (fusion.sparse, fusion.dense) if isinstance(fusion, Weighted) else (1.0, 1.0)
        similarity = Explanation(dense.get(pk, 0.0), "similarity of the embeddings")
        arms = [
            FusedArm("sparse", sparse, weights[0], pk, lexical if pk in sparse else None),
            FusedArm("dense", dense, weights[1], pk, similarity if pk in dense else None),
        ]
        return arms, layer.shift


def _layers(found: Sequence[list[Match]], missed: ScoredArms, heads: tuple[int, int]) -> Iterator[ScoredArms]:
    """Yield both arms' scores for each layer: of the heads, then of twice as many candidates, until all are in one."""
    sparse, dense = ({match.row.pk: match.score for match in matches} for matches in found)
    first, second = heads
    yield {**_first(sparse, first), **missed[0]}, {**_first(dense, second), **missed[1]}
    while len(sparse) > first or len(dense) > second:
        first, second = 2 * first, 2 * second
        yield _first(sparse, first), _first(dense, second)


def _first(scores: dict[str, float], count: int) -> dict[str, float]:
    return dict(islice(scores.items(), count))


def _to_hit(row: ChunkRow, score: float, arm_scores: Sequence[float | None]) -> HybridHit:
    return HybridHit(row.id, score, row.text, row.metadata, row.namespace, *arm_scores, part=row.part)
