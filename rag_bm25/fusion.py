"""One ranking from two: the lexical and the dense arm of a hybrid search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from rag_bm25.errors import ParameterError
from rag_bm25.parameters import check_parameter, comparable

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["RRF", "Arm", "Fusion", "Weighted"]

Arm: TypeAlias = "Mapping[str, float]"
"""Scores of one arm's candidates, all of them; who is not in it was not found by it."""

MAX_RRF_K = 16_384

Normalization = Literal["min-max", "bound"]
NORMALIZATIONS: tuple[str, ...] = get_args(Normalization)

NOISE = 8 * 2.0**-23
"""Scores that differ by less, as a share of the greatest, differ by the rounding of float32."""


@dataclass(frozen=True)
class RRF:
    r"""Reciprocal rank fusion: :math:`\sum_{arms} 1 / (k + rank)`, ranks from 1 [1]_.

    It looks at ranks alone, so the two scales of BM25 and of dense scores do not matter.

    Parameters
    ----------
    k : float
        How little the first ranks stand out, in (0, 16384), which is Milvus's rule.

    Raises
    ------
    ParameterError
        `k` is out of its range.

    References
    ----------
    .. [1] G. V. Cormack, C. L. A. Clarke, S. Büttcher, "Reciprocal Rank Fusion outperforms Condorcet and Individual
       Rank Learning Methods", SIGIR 2009.

    Examples
    --------
    >>> RRF(k=1).fuse({"a": 9.0, "b": 8.0}, {"b": 0.9}, bound=10.0)
    {'a': 0.5, 'b': 0.8333333333333333}
    """

    k: float = 60.0

    def __post_init__(self) -> None:
        """Check the range."""
        check_parameter("k of RRF", self.k, f"a number in (0, {MAX_RRF_K})", 0 < comparable(self.k) < MAX_RRF_K)

    @property
    def greatest(self) -> float:
        """The fused score of who is first in both arms; nobody has more."""
        return 2 / (self.k + 1)

    def fuse(self, sparse: Arm, dense: Arm, bound: float) -> dict[str, float]:  # noqa: ARG002 - as Weighted's
        """Fuse two arms.

        Parameters
        ----------
        sparse, dense : mapping of str to float
            Candidate -> score, best first.
        bound : float
            Not used: ranks have no scale.

        Returns
        -------
        dict of str to float
            Candidate -> fused score, in no particular order.
        """
        fused: dict[str, float] = {}
        for arm in (sparse, dense):
            for rank, candidate in enumerate(arm, 1):
                fused[candidate] = fused.get(candidate, 0.0) + 1 / (self.k + rank)
        return fused


@dataclass(frozen=True)
class Weighted:
    """A weighted sum of both scores, each brought to a scale of about 0..1 first.

    BM25 scores have no upper limit and differ from query to query, a cosine lies in -1..1: added as they are, one of
    them would decide alone. ``"min-max"`` gives the best candidate of each arm 1 and its last one 0 [1]_; where all
    have the same score, but for rounding, each gets 1. ``"bound"`` divides the BM25 score by the greatest one that any
    chunk could have for the query (the sum of the query's weights, times the upper bound of the chunks' weighting) and
    takes the dense score as it is, so that weak arms stay weak. What an arm has not found gets 0 from it; with
    ``"bound"``, ask for more candidates, since even the hundredth cosine is far from 0.

    Parameters
    ----------
    sparse, dense : float
        Weights of the arms, >= 0 and not both 0.
    normalization : {"min-max", "bound"}
        How scores are brought to one scale.

    Raises
    ------
    ParameterError
        A parameter is out of its range.

    References
    ----------
    .. [1] S. Bruch, S. Gai, A. Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval", TOIS 2023.

    Examples
    --------
    >>> Weighted(0.5, 0.5).fuse({"a": 9.0, "b": 8.0}, {"b": 0.9, "c": 0.1}, bound=10.0)
    {'a': 0.5, 'b': 0.5, 'c': 0.0}
    """

    sparse: float = 0.5
    dense: float = 0.5
    normalization: Normalization = "min-max"

    def __post_init__(self) -> None:
        """Check the ranges."""
        for name, weight in (("sparse", self.sparse), ("dense", self.dense)):
            check_parameter(f"weight {name!r}", weight, "a finite number >= 0", comparable(weight) >= 0)
        total = self.sparse + self.dense
        check_parameter("the sum of both weights", total, "> 0", total > 0)
        if self.normalization not in NORMALIZATIONS:
            msg = f"normalization must be one of {', '.join(NORMALIZATIONS)}, got {self.normalization!r}"
            raise ParameterError(msg)

    @property
    def greatest(self) -> float:
        """The fused score of who has 1 in both arms; nobody has more, unless dense scores are above 1."""
        return self.sparse + self.dense

    def fuse(self, sparse: Arm, dense: Arm, bound: float) -> dict[str, float]:
        """Fuse two arms.

        Parameters
        ----------
        sparse, dense : mapping of str to float
            Candidate -> score, best first.
        bound : float
            The greatest BM25 score that the query can have, > 0 where `sparse` has candidates.

        Returns
        -------
        dict of str to float
            Candidate -> fused score, in no particular order.
        """
        fused: dict[str, float] = {}
        for weight, arm, greatest in ((self.sparse, sparse, bound), (self.dense, dense, 1.0)):
            for candidate, score in self._scaled(arm, greatest).items():
                fused[candidate] = fused.get(candidate, 0.0) + weight * score
        return fused

    def _scaled(self, arm: Arm, greatest: float) -> Arm:
        if self.normalization == "bound" or not arm:
            return {candidate: score / greatest for candidate, score in arm.items()}
        lowest, greatest = min(arm.values()), max(arm.values())
        width = greatest - lowest
        if width <= NOISE * max(abs(lowest), abs(greatest)):
            return dict.fromkeys(arm, 1.0)
        return {candidate: (score - lowest) / width for candidate, score in arm.items()}


Fusion: TypeAlias = RRF | Weighted
"""What can be asked for."""
