r"""Estimate a k1 for each term, from the distribution of its normalised frequencies over the chunks.

Both methods use the normalised frequency c of every chunk with the term, tf in a chunk of mean length. The vectors
have :math:`f = tf / n(len(d))` with :math:`n(l) = 1 - b + b \cdot l / chunk\_size`, hence :math:`c = f \cdot n(avgdl)`,
and :math:`c / (c + k_1) = f / (f + k_1 / n(avgdl))`: the table has the latter's k1. The incremental statistics do not
have frequencies, so the estimation is a pass over all chunks. Its result is a table that later chunks are encoded with.

References
----------
.. [1] Y. Lv, C. Zhai, "Adaptive Term Frequency Normalization for BM25", CIKM 2011.
.. [2] Y. Lv, C. Zhai, "A Log-Logistic Model-Based Interpretation of TF Normalization of BM25", ECIR 2012.
.. [3] A. Trotman, A. Puurula, B. Burgess, "Improvements to BM25 and Language Models Examined", ADCS 2014.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from rag_bm25.vectors.sparse import SparseVector, sum_by_key
from rag_bm25.weighting.formulas import MAX_TERM_K1, SMALLEST_NORM

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from rag_bm25.weighting.document import DocumentWeighting

GRID = np.concatenate(([0.0], np.unique(np.geomspace(0.001, MAX_TERM_K1, 600).round(4))))
"""The candidate values of k1, about 1.5 % apart."""

LEVELS = 32
"""Maximum frequency; higher ones count as this one."""

LOG_UNIT = 1e-6
"""Unit in which logarithms are summed as integers, so that the sum does not depend on the order of the chunks."""

MERGE_ABOVE = 2_000_000  # entries
TERMS_AT_A_TIME = 10_000


class TermK1Estimator(Protocol):
    """Estimator of the k1 of each term."""

    def add(self, ids: NDArray[np.uint32], frequencies: NDArray[np.float64]) -> None:
        """Count chunks: one normalised frequency for each term of each chunk."""
        ...

    def table(self, num_chunks: int) -> SparseVector:
        """Return term id -> k1 of the terms with enough data."""
        ...


class _Sums:
    """Sums of integers by key; memory grows with the number of keys, not of values."""

    def __init__(self) -> None:
        self._keys: list[NDArray[np.uint64]] = []
        self._values: list[NDArray[np.int64]] = []
        self._pending = 0

    def add(self, keys: NDArray[np.uint64], values: NDArray[np.int64]) -> None:
        """Add a value to each key; keys may repeat."""
        self._keys.append(keys)
        self._values.append(values)
        self._pending += len(keys)
        if self._pending > MERGE_ABOVE:
            self.total()

    def total(self) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Return the sorted keys, and their sums."""
        keys = np.concatenate([np.empty(0, np.uint64), *self._keys])
        values = np.concatenate([np.empty(0, np.int64), *self._values])
        keys, sums = sum_by_key(keys, values)
        self._keys, self._values, self._pending = [keys], [sums], 0
        return keys, sums


class InformationGain:
    r"""The k1 of BM25-adpt: its saturation is the nearest to the information gain of repetition [1]_.

    With :math:`df_0 = N`, :math:`df_1 = df` and :math:`df_r` the number of chunks in which the term has
    :math:`c \ge r - 0.5`, the information gain of r + 1 occurrences over r is

    .. math:: G_r = \log_2 \frac{df_{r+1} + 0.5}{df_r + 1} - \log_2 \frac{df_1 + 0.5}{N + 1}

    and k1 minimises :math:`\sum_{r=0}^{T} (G_r / G_1 - (k_1 + 1) r / (k_1 + r))^2`. T is the last r up to which
    the gain does not fall, and which some chunk has: beyond it, there is too little data.
    """

    def __init__(self, mean_norm: float = 1.0) -> None:
        self._mean_norm = mean_norm
        self._counts = _Sums()

    def add(self, ids: NDArray[np.uint32], frequencies: NDArray[np.float64]) -> None:
        level = np.floor(frequencies * self._mean_norm + 0.5).clip(1, LEVELS).astype(np.uint64)
        self._counts.add((ids.astype(np.uint64) << np.uint64(8)) | level, np.ones(len(ids), np.int64))

    def table(self, num_chunks: int) -> SparseVector:
        keys, counts = self._counts.total()
        ids, row = np.unique(keys >> np.uint64(8), return_inverse=True)
        level = (keys & np.uint64(255)).astype(np.int64)
        k1 = [np.empty(0)]
        for start in range(0, len(ids), TERMS_AT_A_TIME):
            span = slice(*np.searchsorted(row, [start, start + TERMS_AT_A_TIME]))
            df = np.zeros((min(TERMS_AT_A_TIME, len(ids) - start), LEVELS + 1))
            df[row[span] - start, level[span]] = counts[span]
            df = df[:, ::-1].cumsum(axis=1)[:, ::-1]  # from "exactly r" to "at least r"
            df[:, 0] = num_chunks
            k1.append(_nearest_k1(df))
        return _vector(ids, np.concatenate(k1) / self._mean_norm)


def _nearest_k1(df: NDArray[np.float64]) -> NDArray[np.float64]:
    """Estimate the k1 of terms from their df at each frequency; NaN without enough data."""
    gain = np.log2((df[:, 1:] + 0.5) / (df[:, :-1] + 1)) - np.log2((df[:, 1:2] + 0.5) / (df[:, :1] + 1))
    first = gain[:, 1:2]
    share = gain[:, 1:] / np.where(first > 0, first, 1)  # of r = 1, 2, ...; that of r = 0 is 0 by definition
    rising = np.diff(share, axis=1, prepend=share[:, :1]) >= 0
    counted = np.logical_and.accumulate(rising & (df[:, 1:-1] > 0), axis=1)
    r = np.arange(1, LEVELS)[:, np.newaxis]
    curve = (GRID + 1) * r / (GRID + r)
    # The squared differences without the squares of the shares, which are the same for every k1.
    error = counted @ curve**2 - 2 * np.where(counted, share, 0) @ curve
    known = (first[:, 0] > 0) & (counted.sum(axis=1) > 1)
    return np.where(known, GRID[error.argmin(axis=1)], np.nan)


class LogLogistic:
    r"""The k1 of BM25T: that of the log-logistic distribution with the term's mean of ln(1 + c) [2]_.

    .. math:: \frac{k_1}{k_1 - 1} \ln k_1 = \frac{1}{df} \sum_{d \ni t} \ln(1 + c), \quad 1 \text{ at } k_1 = 1
    """

    def __init__(self, mean_norm: float = 1.0) -> None:
        self._mean_norm = mean_norm
        self._sums = _Sums()

    def add(self, ids: NDArray[np.uint32], frequencies: NDArray[np.float64]) -> None:
        keys = ids.astype(np.uint64) << np.uint64(1)
        logs = (np.log1p(frequencies * self._mean_norm) / LOG_UNIT).round().astype(np.int64)
        self._sums.add(keys, np.ones(len(ids), np.int64))
        self._sums.add(keys | np.uint64(1), logs)

    def table(self, num_chunks: int) -> SparseVector:  # noqa: ARG002 - as the other estimator's
        keys, sums = self._sums.total()
        df, logs = sums[::2], sums[1::2]
        tried = np.where(GRID == 1, 2.0, GRID)[1:]
        mean_log = np.concatenate(([0.0], np.where(GRID[1:] == 1, 1.0, tried / (tried - 1) * np.log(tried))))
        return _vector(keys[::2] >> np.uint64(1), np.interp(logs * LOG_UNIT / df, mean_log, GRID) / self._mean_norm)


def _vector(ids: NDArray[np.uint64], k1: NDArray[np.float64]) -> SparseVector:
    known = ~np.isnan(k1)
    return SparseVector(ids[known].astype(np.uint32), k1[known].clip(max=MAX_TERM_K1).round(4).astype(np.float32))


def term_k1_estimator(weighting: DocumentWeighting, mean_length: float) -> TermK1Estimator | None:
    """Return the estimator of a weighting for chunks of a mean length; None if its terms have one k1."""
    estimators: dict[str, Callable[[float], TermK1Estimator]] = {"bm25-adpt": InformationGain, "bm25t": LogLogistic}
    if weighting.form not in estimators:
        return None
    return estimators[weighting.form](max(float(weighting.norm(mean_length)), SMALLEST_NORM))
