"""Fuse the scores of a lexical and a dense search into one ranking."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from rag_bm25.checks import check_parameter
from rag_bm25.definitions import FINITE, Between, check_fields

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

ArmScores: TypeAlias = "Mapping[str, float]"
"""Candidate id -> score of one arm; for ranks, best first. Ids that are missing have no score."""

MAX_RRF_K = 16_384

Normalization = Literal["z-score", "min-max"]
ArmWeight: TypeAlias = Annotated[float, Between(0, FINITE.high)]

NOISE = 8 * 2.0**-23
"""Relative difference below which two scores differ by the rounding of float32 alone."""


def reciprocal_rank(k: float, rank: int) -> float:
    """Return the score that an arm gives to the candidate at a rank, which counts from 1."""
    return 1 / (k + rank)


@dataclass(frozen=True)
class ScoreScale:
    """The score of an arm that becomes 0, and the distance from it that becomes 1."""

    low: float
    unit: float

    @classmethod
    def of(cls, normalization: Normalization, arm: ArmScores) -> ScoreScale:
        """Return the scale of an arm's scores."""
        low, high = min(arm.values(), default=0.0), max(arm.values(), default=0.0)
        if high - low <= NOISE * max(abs(low), abs(high)):
            return cls(low, 0.0)
        return cls(low, standard_deviation(arm.values()) if normalization == "z-score" else high - low)

    def normalize(self, score: float) -> float:
        """Scale a score; if all are equal, each becomes 1."""
        return (score - self.low) / self.unit if self.unit else 1.0


def standard_deviation(scores: Collection[float]) -> float:
    """Return the standard deviation of scores that are all there are."""
    mean = fmean(scores)
    return math.sqrt(fmean((score - mean) ** 2 for score in scores))


class FusionMethod(ABC):
    """A method to make one score of those of two arms."""

    @abstractmethod
    def upper_bound(self, candidates: int) -> float:
        """Return an upper bound of the fused scores.

        That of :class:`RRF` is the score of rank 1 in both arms. In :class:`Weighted`, the highest of n z-scores is at
        most sqrt(2n) above the lowest.

        Parameters
        ----------
        candidates : int
            Maximum number of candidates that are fused at once.

        Returns
        -------
        float
            The bound.
        """

    @abstractmethod
    def fuse(self, sparse: ArmScores, dense: ArmScores) -> dict[str, float]:
        """Fuse the scores of the candidates, in no particular order."""


@dataclass(frozen=True)
class RRF(FusionMethod):
    r"""Reciprocal rank fusion: :math:`\sum_{arms} 1 / (k + rank)`, ranks from 1 [1]_.

    It uses ranks alone, so the different scales of BM25 and dense scores do not matter.

    Parameters
    ----------
    k : float
        Rank constant; larger values flatten the top ranks. In (0, 16384), Milvus's limit.

    References
    ----------
    .. [1] G. V. Cormack, C. L. A. Clarke, S. Büttcher, "Reciprocal Rank Fusion outperforms Condorcet and Individual
       Rank Learning Methods", SIGIR 2009.

    Examples
    --------
    >>> RRF(k=1).fuse({"a": 9.0, "b": 8.0}, {"b": 0.9})
    {'a': 0.5, 'b': 0.8333333333333333}
    """

    k: Annotated[float, Between(0, MAX_RRF_K, above=True, below=True)] = 60.0

    def __post_init__(self) -> None:
        check_fields(self)

    def upper_bound(self, candidates: int) -> float:  # noqa: ARG002 - of scores
        return 2 / (self.k + 1)

    def fuse(self, sparse: ArmScores, dense: ArmScores) -> dict[str, float]:
        fused: dict[str, float] = {}
        for arm in (sparse, dense):
            for rank, candidate in enumerate(arm, 1):
                fused[candidate] = fused.get(candidate, 0.0) + reciprocal_rank(self.k, rank)
        return fused


@dataclass(frozen=True)
class Weighted(FusionMethod):
    """Weighted sum of both scores, after each is normalised.

    BM25 scores have no upper limit and differ from query to query; a cosine lies in -1..1. Added without normalisation,
    one of them would decide alone.

    Parameters
    ----------
    sparse : float
        Weight of the BM25 score, >= 0.
    dense : float
        Weight of the dense score, >= 0; not both are 0.
    normalization : {"z-score", "min-max"}
        ``"z-score"`` divides the distance from the lowest score of an arm's candidates by their standard deviation. It
        ranks as z-scores do, whose 0 is the mean, and no score is below 0. ``"min-max"`` divides by the distance
        between the lowest and the highest [1]_. If all scores are equal, but for rounding, each becomes 1 by either.
        A search gives :meth:`fuse` the scores that both arms have for the first candidates of either; a candidate
        without a score in an arm gets 0 from it.

    References
    ----------
    .. [1] S. Bruch, S. Gai, A. Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval", TOIS 2023.

    Examples
    --------
    >>> Weighted(0.5, 0.5).fuse({"a": 9.0, "b": 8.0}, {"b": 0.9, "c": 0.1})
    {'a': 1.0, 'b': 1.0, 'c': 0.0}
    """

    sparse: ArmWeight = 0.45
    dense: ArmWeight = 0.55
    normalization: Normalization = "z-score"

    def __post_init__(self) -> None:
        check_fields(self)
        total = self.sparse + self.dense
        check_parameter("the sum of both weights", total, "> 0", total > 0)

    def upper_bound(self, candidates: int) -> float:
        of_an_arm = math.sqrt(2 * candidates) if self.normalization == "z-score" else 1.0
        return (self.sparse + self.dense) * of_an_arm

    def fuse(self, sparse: ArmScores, dense: ArmScores) -> dict[str, float]:
        fused: dict[str, float] = {}
        for weight, arm in ((self.sparse, sparse), (self.dense, dense)):
            scale = ScoreScale.of(self.normalization, arm)
            for candidate, score in arm.items():
                fused[candidate] = fused.get(candidate, 0.0) + weight * scale.normalize(score)
        return fused


Fusion: TypeAlias = RRF | Weighted

DEFAULT_FUSION: Fusion = Weighted()
