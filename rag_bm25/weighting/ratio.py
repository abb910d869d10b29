"""Bound the weights of one document weighting by those of another, whatever the chunk."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from rag_bm25.weighting.formulas import SMALLEST_NORM

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from rag_bm25.weighting.document import DocumentWeighting

    _Cells: TypeAlias = tuple[NDArray[np.float64], NDArray[np.float64]]  # from, to

LARGEST_LENGTH = 2**40
LARGEST_TF = 2**20
STEP = 1.05
"""Factor from one cell of the grid to the next, by about which a bound may be too high."""


@lru_cache(maxsize=64)
def largest_ratio(stored: DocumentWeighting, wanted: DocumentWeighting, longest: int = LARGEST_LENGTH) -> float:
    """Return an upper bound of a weight by `wanted` over that by `stored`, in chunks up to a length.

    Weights increase in tf and decrease in length, so that the corners of a cell of the grid bound them within it.
    """
    lengths, tf = _whole(0, longest), _whole(1, LARGEST_TF)
    if not stored.fields:
        return _ratio(stored, wanted, tf, lengths, np.ones(1))
    # A tf that stands for the fields, too, is any number. By another norm, it gains at most as if all were in the text,
    # and loses at most as if all were in fields, whose norms stay. Of a term in fields alone, the norm is 1.
    gain = np.maximum(1, np.maximum(*(_norm(wanted, at) / _norm(stored, at) for at in lengths)))
    in_text = _ratio(stored, wanted, _cells(_steps(1, LARGEST_TF)), lengths, gain)
    frequencies = _steps(1e-9, 1e9)
    in_fields = wanted.combined_weights(frequencies[1:]) / stored.combined_weights(frequencies[:-1])
    return max(in_text, float(in_fields.max()))


def _ratio(
    stored: DocumentWeighting, wanted: DocumentWeighting, tf: _Cells, lengths: _Cells, gain: NDArray[np.float64]
) -> float:
    """Return the largest ratio over all cells of tf and length."""
    least, most = (edges[:, np.newaxis] for edges in tf)
    largest = wanted.weights(most * gain, lengths[0]) / stored.weights(least, lengths[1])
    return float(largest.max())


def _steps(first: float, last: float) -> NDArray[np.float64]:
    return np.geomspace(first, last, int(np.log(last / first) / np.log(STEP)) + 2)


def _cells(edges: NDArray[np.float64]) -> _Cells:
    return edges[:-1], edges[1:]


def _whole(first: int, last: int) -> _Cells:
    """Return the first and the last whole number of each cell; the small ones have cells of their own."""
    edges = np.unique(np.concatenate(([first], _steps(1, last + 1).round())))
    return edges[:-1], edges[1:] - 1


def _norm(weighting: DocumentWeighting, length: ArrayLike) -> NDArray[np.float64]:
    return np.maximum(weighting.norm(length), SMALLEST_NORM)
