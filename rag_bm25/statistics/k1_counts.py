"""Learn a k1 for each term from its frequencies: sums over chunks, whatever the order of these."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rag_bm25.vectors.sparse import group_starts
from rag_bm25.weighting.term_k1 import LEVELS, TermK1, information_gains, log_logistic_k1, nearest_k1

if TYPE_CHECKING:
    from numpy.typing import NDArray

LOG_UNIT = 1e-9
"""Unit in which logarithms are summed as whole numbers, so that the sum does not depend on the order."""
LEAST_DF = 2
MERGE_ABOVE = 2_000_000  # entries
TERMS_AT_ONCE = 10_000

_LEVEL = np.uint64(255)  # bits of a key that have the level


class K1Counts:
    """Count the chunks of each term at each level of its frequency, and sum the logarithms."""

    def __init__(self) -> None:
        self._keys: list[NDArray[np.uint64]] = []  # id and level
        self._sums: list[NDArray[np.int64]] = []  # number of chunks, and sum of logarithms
        self._pending = 0

    def add(self, ids: NDArray[np.uint32], c: NDArray[np.float64]) -> None:
        """Count the normalised frequencies of terms, one for each chunk of each."""
        level = np.floor(c + 0.5).clip(1, LEVELS).astype(np.uint64)
        logs = (np.log1p(c) / LOG_UNIT).round().astype(np.int64)
        self._keys.append((ids.astype(np.uint64) << np.uint64(8)) | level)
        self._sums.append(np.stack([np.ones(len(ids), np.int64), logs], axis=1))
        self._pending += len(ids)
        if self._pending > MERGE_ABOVE:
            self._merge()

    def _merge(self) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        keys = np.concatenate([np.empty(0, np.uint64), *self._keys])
        order = np.argsort(keys)
        keys, sums = keys[order], np.concatenate([np.empty((0, 2), np.int64), *self._sums])[order]
        if len(starts := group_starts(keys)) < len(keys):
            keys, sums = keys[starts], np.add.reduceat(sums, starts)
        self._keys, self._sums, self._pending = [keys], [sums], 0
        return keys, sums

    def learn(self, num_chunks: int, time: float) -> TermK1:
        """Return what the counts tell of the terms of two chunks or more."""
        keys, sums = self._merge()
        ids, row = np.unique(keys >> np.uint64(8), return_inverse=True)
        dfs, logs = np.bincount(row, sums[:, 0], len(ids)), np.bincount(row, sums[:, 1].astype(float), len(ids))
        learned = [np.empty((3, 0))]
        for start in range(0, len(ids), TERMS_AT_ONCE):
            end = min(start + TERMS_AT_ONCE, len(ids))
            span = slice(*np.searchsorted(row, [start, end]))
            df = np.zeros((end - start, LEVELS + 1))
            df[row[span] - start, (keys[span] & _LEVEL).astype(np.intp)] = sums[span, 0]
            df = df[:, ::-1].cumsum(axis=1)[:, ::-1]  # from "exactly r" to "at least r"
            df[:, 0] = num_chunks
            mean_log = logs[start:end] * LOG_UNIT / dfs[start:end]
            learned.append(np.stack([log_logistic_k1(mean_log), nearest_k1(df), information_gains(df)[:, 0]]))
        common = dfs >= LEAST_DF
        values = np.concatenate(learned, axis=1)[:, common]
        return TermK1(ids[common].astype(np.uint32), values.astype(np.float32), num_chunks, time)
