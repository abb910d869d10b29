"""Dense vectors as users give them, checked before anything is written or asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from rag_bm25.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from rag_bm25.store import DenseField

__all__ = ["Embed", "Embeddings", "as_matrix", "calling"]

Vectors: TypeAlias = "Sequence[Sequence[float]] | NDArray[Any]"
Embed: TypeAlias = "Callable[[list[str]], Vectors]"
"""Texts -> their vectors, in the same order."""

Embeddings: TypeAlias = "Vectors | Embed"
"""Dense vectors, one for each text, or what makes them."""


def as_matrix(name: str, vectors: Vectors, count: int, dense: DenseField) -> NDArray[np.float32]:
    """Check dense vectors.

    Parameters
    ----------
    name : str
        What to call them in a message.
    vectors : array_like of float, shape (count, dim)
        The vectors.
    count : int
        How many there must be.
    dense : DenseField
        Dimension and metric.

    Returns
    -------
    ndarray of float32, shape (count, dim)
        A copy in rows.

    Raises
    ------
    InputError
        There are more or fewer, one has another dimension, has a number that is not finite in float32, or is zero where
        the metric is the cosine; the message names the first one.

    Examples
    --------
    >>> from rag_bm25.store import DenseField
    >>> as_matrix("embeddings", [[0.5, 1.0]], 1, DenseField(2, "COSINE"))
    array([[0.5, 1. ]], dtype=float32)
    """
    if len(vectors) != count:
        msg = f"{name} must be as many as the texts, {count}, got {len(vectors)}"
        raise InputError(msg)
    matrix = np.empty((count, dense.dim), np.float32)
    for position, vector in enumerate(vectors):
        matrix[position] = _as_row(f"{name}[{position}]", vector, dense.dim)
    _refuse(name, np.asarray(np.isfinite(matrix).all(axis=1)), "have finite numbers only")
    if dense.metric == "COSINE":
        _refuse(name, np.asarray(matrix.any(axis=1)), "not be zero: it has no direction for the cosine")
    return matrix


def _as_row(name: str, vector: object, dim: int) -> NDArray[np.float32]:
    try:
        with np.errstate(over="ignore"):  # what becomes infinite is refused later
            row = np.asarray(vector, np.float32)
    except (TypeError, ValueError):
        msg = f"{name} must be a sequence of numbers, got {type(vector).__name__}"
        raise InputError(msg) from None
    if row.shape != (dim,):
        msg = f"{name} must have the index's dimension, {dim}, got shape {row.shape}"
        raise InputError(msg)
    return row


def _refuse(name: str, holds: NDArray[np.bool_], rule: str) -> None:
    if not holds.all():
        msg = f"{name}[{int(np.argmin(holds))}] must {rule}"
        raise InputError(msg)


def calling(embed: Embed, dense: DenseField) -> Callable[[list[str]], NDArray[np.float32]]:
    """Return a function that checks what an embedder gives.

    Parameters
    ----------
    embed : callable of list of str to vectors
        The user's.
    dense : DenseField
        Dimension and metric.

    Returns
    -------
    callable of list of str to ndarray of float32, shape (n_texts, dim)
        The same, checked.
    """
    return lambda texts: as_matrix("what the embedder returned", embed(texts), len(texts), dense)
