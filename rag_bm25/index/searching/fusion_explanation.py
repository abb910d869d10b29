"""Explain a fused score: what each arm gives to a chunk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rag_bm25.hits.fusion import RRF, ScoreScale, reciprocal_rank
from rag_bm25.query.explanation import Explanation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rag_bm25.hits.fusion import ArmScores, Fusion, Weighted

_UNITS = {"z-score": "deviation, their standard deviation", "min-max": "range, from the lowest to the highest"}


@dataclass(frozen=True, eq=False)
class FusedArm:
    """The candidates of an arm, and the score of one chunk in it."""

    name: str
    scores: ArmScores
    weight: float  # of `Weighted`
    chunk: str  # its key among the candidates
    score: Explanation | None  # None if it is none of them


def explain_fusion(fusion: Fusion, id_: str, fused: Sequence[FusedArm], shift: float, unmet: str) -> Explanation:
    """Explain the fused score of a chunk, less the `shift` of its layer; `unmet` is that of `QueryFacts`."""
    arms = tuple(_explain_arm(fusion, arm) for arm in fused)
    what = f"fused score of chunk {id_!r} by {fusion}"
    if unmet:
        return Explanation(0.0, f"{what}: left out, since {unmet}", arms)
    if all(arm.score is None for arm in fused):
        return Explanation(0.0, f"{what}: not found, since it is among the candidates of neither arm", arms)
    if shift:
        arms += (Explanation(-shift, "below the candidates that are fused first"),)
    return Explanation(sum(arm.value for arm in arms), f"{what}, sum of:", arms)


def _explain_arm(fusion: Fusion, arm: FusedArm) -> Explanation:
    count = len(arm.scores)
    if arm.score is None:
        return Explanation(0.0, f"{arm.name}: not among its {count:,} candidates")
    if isinstance(fusion, RRF):
        rank = list(arm.scores).index(arm.chunk) + 1
        parts = (
            Explanation(fusion.k, "k"),
            Explanation(rank, f"rank among {count:,} candidates"),
            arm.score,
        )
        return Explanation(reciprocal_rank(fusion.k, rank), f"{arm.name}, 1 / (k + rank) from:", parts)
    return _explain_weighted(fusion, arm, arm.score)


def _explain_weighted(fusion: Weighted, arm: FusedArm, score: Explanation) -> Explanation:
    scale = ScoreScale.of(fusion.normalization, arm.scores)
    normalized = scale.normalize(arm.scores[arm.chunk])
    count, parts = f"{len(arm.scores):,} candidates", [score]
    if not scale.unit:
        what = f"normalized score: the scores of its {count} are equal; from:"
    else:
        what = f"normalized score, (score - low) / {_UNITS[fusion.normalization].partition(',')[0]} from:"
        parts += [
            Explanation(scale.low, f"low, the lowest of {count}"),
            Explanation(scale.unit, _UNITS[fusion.normalization]),
        ]
    factors = (Explanation(arm.weight, "weight"), Explanation(normalized, what, tuple(parts)))
    return Explanation(arm.weight * normalized, f"{arm.name}, product of:", factors)
