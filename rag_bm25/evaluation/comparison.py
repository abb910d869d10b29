"""Tests of significance: paired comparisons of configurations over the same queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rag_bm25.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

EXACT_PAIRS = 14  # maximum number of differences for which all combinations of signs are enumerated
PERMUTATIONS = 10_000
BLOCK = 500  # permutations drawn at once
ROUNDING = 1e-9  # relative to the sum of all absolute differences: sums this close are equal


@dataclass(frozen=True)
class PairedTest:
    """Comparison of two configurations, query by query.

    Parameters
    ----------
    difference : float
        Mean of the second minus mean of the first.
    p_value : float
        Probability of a difference at least as great, in either direction, if the two were the same; in (0, 1].
    better, worse, equal : int
        Number of queries for which the second is better, worse, equal.
    """

    difference: float
    p_value: float
    better: int
    worse: int
    equal: int


def paired_test(first: ArrayLike, second: ArrayLike) -> PairedTest:
    """Compare the values of a measure for two configurations.

    Parameters
    ----------
    first, second : array_like of float, shape (n_queries,)
        The value for each query, in the same order.

    Returns
    -------
    PairedTest
        The second against the first.

    Raises
    ------
    InputError
        The shapes differ, there are no queries, or a value is not finite.

    Examples
    --------
    >>> paired_test([0.5, 0.0, 1.0, 0.2], [0.6, 0.3, 1.0, 0.4])
    PairedTest(difference=0.15, p_value=0.25, better=3, worse=0, equal=1)
    """
    one, other = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if one.shape != other.shape or one.ndim != 1 or not len(one):
        raise InputError(f"a paired test needs two values for each query, got shapes {one.shape} and {other.shape}")
    if not (np.isfinite(one) & np.isfinite(other)).all():
        raise InputError("a paired test needs finite values")
    differences = other - one
    better, worse, equal = (int((np.sign(differences) == sign).sum()) for sign in (1, -1, 0))
    p_value = randomisation_p_value(differences)
    return PairedTest(round(float(differences.mean()), 12), p_value, better, worse, equal)


def randomisation_p_value(differences: ArrayLike, *, permutations: int = PERMUTATIONS, seed: int = 0) -> float:
    """Compute the two-sided p-value of Fisher's randomisation test [1]_ of paired differences, as [2]_ advises.

    If the two configurations were the same, every difference might as well have the opposite sign. For up to 14
    differences other than 0, all combinations of signs are enumerated; for more, they are drawn at random, and the
    observed one is counted among them, so that the p-value is never 0.

    References
    ----------
    .. [1] R. A. Fisher, "The Design of Experiments", 1935.
    .. [2] M. D. Smucker, J. Allan, B. Carterette, "A Comparison of Statistical Significance Tests for Information
       Retrieval Evaluation", CIKM 2007.

    Examples
    --------
    >>> randomisation_p_value([0.1, 0.3, 0.2, 0.0])  # of 8 combinations of signs, 2 have a sum as far from 0
    0.25
    """
    values = np.asarray(differences, np.float64)
    values = values[values != 0]
    if not len(values):
        return 1.0
    least = abs(values.sum()) - ROUNDING * np.abs(values).sum()
    if len(values) <= EXACT_PAIRS:
        codes = np.arange(2 ** len(values))[:, None] >> np.arange(len(values))
        return float((np.abs(_signs(codes) @ values) >= least).mean())
    rng = np.random.default_rng(seed)
    extreme = 0
    for start in range(0, permutations, BLOCK):
        signs = _signs(rng.integers(0, 2, (min(BLOCK, permutations - start), len(values))))
        extreme += int((np.abs(signs @ values) >= least).sum())
    return (extreme + 1) / (permutations + 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust the p-values of several comparisons by Holm's method [1]_, which bounds the family-wise error rate.

    Parameters
    ----------
    p_values : sequence of float
        One for each comparison, in [0, 1].

    Returns
    -------
    list of float
        The adjusted p-values, in the same order.

    References
    ----------
    .. [1] S. Holm, "A Simple Sequentially Rejective Multiple Test Procedure", Scandinavian Journal of Statistics, 1979.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values, kind="stable")
    factors = np.arange(len(p_values), 0, -1)
    rising = np.maximum.accumulate(np.minimum(1.0, np.asarray(p_values, np.float64)[order] * factors))
    adjusted = np.empty(len(p_values))
    adjusted[order] = rising
    return list(map(float, adjusted))


def _signs(codes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return 1.0 for odd numbers and -1.0 for even ones."""
    return np.where(codes & 1, 1.0, -1.0)
