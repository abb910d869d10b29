r"""A k1 for each term: that of BM25T and that of BM25-adpt, by the term's frequencies in all chunks that have it.

Both take c, the frequency in a chunk of mean length, :math:`tf / (1 - b + b \cdot len(d) / avgdl)`. The query chooses:
a term then scores :math:`IDF \cdot (k_1 + 1) c / (k_1 + c)`, of which no factor is the same for all terms.

References
----------
.. [1] Y. Lv, C. Zhai, "A Log-Logistic Model-Based Interpretation of TF Normalization of BM25", ECIR 2012.
.. [2] Y. Lv, C. Zhai, "Adaptive Term Frequency Normalization for BM25", CIKM 2011.
.. [3] A. Trotman, A. Puurula, B. Burgess, "Improvements to BM25 and Language Models Examined", ADCS 2014.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__: list[str] = []  # public are the formulas

K1Method = Literal["bm25t", "adpt"]
"""Name of a method that gives each term a k1."""
K1_METHODS: tuple[str, ...] = get_args(K1Method)
COLUMNS = (*K1_METHODS, "gain")
"""What is learned of a term: two k1, and G(1)."""

LEVELS = 32
"""Maximum frequency of BM25-adpt; higher ones count as this one."""
MAX_K1 = 10.0
"""Maximum k1 of BM25-adpt, whose best one may be infinite: the weight hardly saturates any more."""
GRID = np.concatenate(([0.0], np.geomspace(0.001, MAX_K1, 300)))
STEPS = 60  # of a search that halves an interval


@dataclass(frozen=True, eq=False)
class TermK1:
    """What was learned of the terms of two chunks or more."""

    ids: NDArray[np.uint32]  # increasing
    values: NDArray[np.float32]  # a row for each of `COLUMNS`; NaN where k1 is that of the index
    num_chunks: int
    time: float  # seconds since 1970

    def get(self, column: str, ids: NDArray[np.uint32], default: float = np.nan) -> NDArray[np.float64]:
        """Return the values of some terms, the default where there is none."""
        at, values = np.searchsorted(self.ids, ids), np.full(np.shape(ids), np.nan)
        known = at < len(self.ids)
        known[known] = self.ids[at[known]] == ids[known]
        values[known] = self.values[COLUMNS.index(column)][at[known]]
        return np.where(np.isnan(values), default, values)


class K1OfTerms(NamedTuple):
    """The k1 of each term by one of the methods."""

    table: TermK1
    method: str


def log_logistic_k1(mean_log: ArrayLike) -> NDArray[np.float64]:
    r"""Return the k1 of BM25T, by the mean of :math:`\ln(c + 1)` over the chunks with the term [1]_.

    It is the mean of a log-logistic distribution, :math:`g(k_1) = \frac{k_1}{k_1 - 1} \ln k_1`, and 1 at 1.
    """
    wanted = np.asarray(mean_log, np.float64)
    low, high = np.full(wanted.shape, -20.0), np.full(wanted.shape, 20.0)  # of ln k1
    for _ in range(STEPS):
        middle = (low + high) / 2
        # k1 / (k1 - 1) is 1 / (1 - e^-x)
        mean = np.where(np.abs(middle) < 1e-9, 1.0, -middle / np.expm1(-np.where(middle == 0, 1.0, middle)))
        low, high = np.where(mean < wanted, middle, low), np.where(mean < wanted, high, middle)
    return np.asarray(np.exp((low + high) / 2))


def information_gains(df: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""Return G(1), G(2), ... of terms, given a row each with N and the numbers of chunks with c of at least r - 0.5.

    The gain of r + 1 occurrences over r is :math:`G(r) = \log_2 \frac{df_{r+1} + 0.5}{df_r + 1} - \log_2 \frac{df +
    0.5}{N + 1}` [2]_.
    """
    of_first = np.log2((df[:, 1:2] + 0.5) / (df[:, :1] + 1))
    return np.asarray(np.log2((df[:, 2:] + 0.5) / (df[:, 1:-1] + 1)) - of_first)


def nearest_k1(df: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""Return the k1 of BM25-adpt, whose saturation is the nearest to the gain; NaN where nothing tells it.

    It minimises :math:`\sum_r (G(r) / G(1) - (k_1 + 1) r / (k_1 + r))^2` [2]_ over r as far as G does not fall and some
    chunk has the term r times. Any k1 has the value at r = 1.
    """
    gain = information_gains(df)
    first = gain[:, :1]
    share = gain / np.where(first > 0, first, 1)
    rising = np.diff(share, axis=1, prepend=share[:, :1]) >= 0
    counted = np.logical_and.accumulate(rising & (df[:, 1:-1] > 0), axis=1)
    told = (first[:, 0] > 0) & (counted.sum(axis=1) > 1)
    k1 = np.full(len(df), np.nan)
    k1[told] = _least_squares(share[told], counted[told])
    return k1


def _least_squares(share: NDArray[np.float64], counted: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the k1 of the least sum of squares: the best on a grid, then between its neighbours."""
    r = np.arange(1, share.shape[1] + 1)

    def error(k1: NDArray[np.float64]) -> NDArray[np.float64]:
        curve = (k1[:, np.newaxis] + 1) * r / (k1[:, np.newaxis] + r)
        return np.asarray(np.where(counted, (share - curve) ** 2, 0).sum(axis=1))

    curves = (GRID + 1) * r[:, np.newaxis] / (GRID + r[:, np.newaxis])
    best = (counted @ curves**2 - 2 * np.where(counted, share, 0) @ curves).argmin(axis=1)
    low, high = GRID[np.maximum(best - 1, 0)], GRID[np.minimum(best + 1, len(GRID) - 1)]
    for _ in range(STEPS):
        third = (high - low) / 3
        is_left = error(low + third) < error(high - third)
        low, high = np.where(is_left, low, low + third), np.where(is_left, high - third, high)
    return np.asarray((low + high) / 2)
