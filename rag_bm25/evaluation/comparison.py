"""Is one configuration better than another, or was it luck? Paired tests over the same queries.

References
----------
.. [1] R. A. Fisher, "The Design of Experiments", 1935: the randomisation test.
.. [2] M. D. Smucker, J. Allan, B. Carterette, "A Comparison of Statistical Significance Tests for Information
   Retrieval Evaluation", CIKM 2007: why this test.
.. [3] S. Holm, "A Simple Sequentially Rejective Multiple Test Procedure", Scandinavian Journal of Statistics, 1979.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rag_bm25.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import ArrayLike, NDArray

__all__ = ["PairedTest", "holm", "paired_test", "randomisation_p_value"]

EXACT_PAIRS = 14
"""Up to so many queries that differ, all signs are enumerated."""

PERMUTATIONS = 10_000
BLOCK = 500
ROUNDING = 1e-9
"""Sums this close, relative to the sum of all differences, are equal."""


@dataclass(frozen=True)
class PairedTest:
    """Two configurations, compared query by query.

    Parameters
    ----------
    difference : float
        Mean of the second minus mean of the first.
    p_value : float
        Probability of a difference at least as great, in either direction, if the two were the same; in (0, 1].
    better, worse, equal : int
        Queries on which the second is better, worse, the same.
    """

    difference: float
    p_value: float
    better: int
    worse: int
    equal: int


def paired_test(first: ArrayLike, second: ArrayLike, *, seed: int = 0) -> PairedTest:
    """Compare what two configurations measured on the same queries.

    Parameters
    ----------
    first, second : array_like of float, shape (n_queries,)
        A measure for each query, in the same order.
    seed : int
        Of the random signs, see :func:`randomisation_p_value`.

    Returns
    -------
    PairedTest
        Of the second against the first.

    Raises
    ------
    InputError
        The two do not have the same queries, or there are none.

    Examples
    --------
    >>> paired_test([0.5, 0.0, 1.0, 0.2], [0.6, 0.3, 1.0, 0.4])
    PairedTest(difference=0.15, p_value=0.25, better=3, worse=0, equal=1)
    """
    one, other = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if one.shape != other.shape or one.ndim != 1 or not len(one):
        msg = f"a paired test needs two values for each query, got shapes {one.shape} and {other.shape}"
        raise InputError(msg)
    differences = other - one
    better, worse = int((differences > 0).sum()), int((differences < 0).sum())
    return PairedTest(
        round(float(differences.mean()), 12),
        randomisation_p_value(differences, seed=seed),
        better,
        worse,
        len(one) - better - worse,
    )


def randomisation_p_value(differences: ArrayLike, *, permutations: int = PERMUTATIONS, seed: int = 0) -> float:
    """Two-sided p-value of Fisher's randomisation test [1]_ of paired differences.

    If the two configurations were the same, every difference could as well have had the other sign. Up to 14
    differences other than 0 get all combinations of signs; more get random ones, among which the observed one is
    counted, so that the p-value is never 0.

    Parameters
    ----------
    differences : array_like of float, shape (n_queries,)
        Second minus first, for each query.
    permutations : int
        How many random combinations of signs.
    seed : int
        Of the random signs: the same input gives the same p-value.

    Returns
    -------
    float
        In (0, 1]; 1.0 where nothing differs.

    References
    ----------
    .. [1] R. A. Fisher, "The Design of Experiments", 1935.

    Examples
    --------
    Of the eight combinations of signs, two have a sum as far from 0:

    >>> randomisation_p_value([0.1, 0.3, 0.2, 0.0])
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
    extreme = sum(int((np.abs(signs @ values) >= least).sum()) for signs in _random(len(values), permutations, seed))
    return (extreme + 1) / (permutations + 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust the p-values of several comparisons [1]_, so that the chance of any false alarm stays what it says.

    Parameters
    ----------
    p_values : sequence of float
        One for each comparison, in [0, 1].

    Returns
    -------
    list of float
        The adjusted ones, in the same order.

    References
    ----------
    .. [1] S. Holm, "A Simple Sequentially Rejective Multiple Test Procedure", 1979.

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
    return [float(value) for value in adjusted]


def _signs(codes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return 1.0 for odd numbers and -1.0 for even ones."""
    return np.where(codes & 1, 1.0, -1.0)


def _random(pairs: int, permutations: int, seed: int) -> Iterator[NDArray[np.float64]]:
    """Yield blocks of random signs, a row for each permutation."""
    rng = np.random.default_rng(seed)
    for start in range(0, permutations, BLOCK):
        yield _signs(rng.integers(0, 2, (min(BLOCK, permutations - start), pairs)))
