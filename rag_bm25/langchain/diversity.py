"""Maximal marginal relevance: documents that match a query and differ from each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rag_bm25.sparse import SparseVector

__all__ = ["as_rows", "cosines", "diverse"]


def as_rows(vectors: Sequence[SparseVector]) -> NDArray[np.float64]:
    """Write out sparse vectors, in the dimensions that they have together.

    Parameters
    ----------
    vectors : sequence of SparseVector
        At least one.

    Returns
    -------
    ndarray of float64, shape (n_vectors, n_ids)
        A row for each.

    Examples
    --------
    >>> from rag_bm25.sparse import SparseVector
    >>> as_rows([SparseVector.from_dict({7: 0.5}), SparseVector.from_dict({7: 0.25, 9: 1.0})])
    array([[0.5 , 0.  ],
           [0.25, 1.  ]])
    """
    ids, columns = np.unique(np.concatenate([vector.ids for vector in vectors]), return_inverse=True)
    rows = np.repeat(np.arange(len(vectors)), [len(vector) for vector in vectors])
    matrix = np.zeros((len(vectors), len(ids)))
    matrix[rows, columns] = np.concatenate([vector.values for vector in vectors])
    return matrix


def cosines(vectors: NDArray[np.floating]) -> NDArray[np.float64]:
    """Compare vectors with each other.

    Parameters
    ----------
    vectors : ndarray of float, shape (n_vectors, dim)
        One a row.

    Returns
    -------
    ndarray of float64, shape (n_vectors, n_vectors)
        Their cosines, in -1..1; 0 for a vector of zeros.

    Examples
    --------
    >>> cosines(np.array([[3.0, 4.0], [0.0, 2.0]]))
    array([[1. , 0.8],
           [0.8, 1. ]])
    """
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors.astype(np.float64) / np.where(norms, norms, 1)
    return np.asarray(unit @ unit.T)


def diverse(relevance: NDArray[np.float64], similarity: NDArray[np.float64], lambda_mult: float, k: int) -> list[int]:
    """Choose by maximal marginal relevance.

    Parameters
    ----------
    relevance : ndarray of float64, shape (n,)
        Of each candidate, in 0..1.
    similarity : ndarray of float64, shape (n, n)
        Of each candidate with each other, in 0..1.
    lambda_mult : float
        Share of the relevance, in [0, 1].
    k : int
        How many to choose at most.

    Returns
    -------
    list of int
        The chosen ones, in the order of choice; of equals, the first.

    Examples
    --------
    >>> similarity = np.array([[1.0, 0.9, 0.1], [0.9, 1.0, 0.1], [0.1, 0.1, 1.0]])
    >>> diverse(np.array([0.8, 0.7, 0.5]), similarity, 0.5, 2)
    [0, 2]
    """
    chosen: list[int] = []
    left = list(range(len(relevance)))
    redundancy = np.zeros(len(relevance))
    for _ in range(min(k, len(left))):
        gains = lambda_mult * relevance[left] - (1 - lambda_mult) * redundancy[left]
        chosen.append(left.pop(int(np.argmax(gains))))
        redundancy = np.maximum(redundancy, similarity[chosen[-1]])
    return chosen
