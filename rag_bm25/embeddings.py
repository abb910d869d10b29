"""Dense vectors as users give them, checked before anything is written or asked."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from decimal import Decimal
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from rag_bm25.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from rag_bm25.store import DenseField

__all__ = ["Embed", "Embeddings", "as_matrix", "as_vector", "calling", "check_repeated"]

Vectors: TypeAlias = "Sequence[Sequence[float]] | NDArray[Any]"
Embed: TypeAlias = "Callable[[list[str]], Vectors]"
"""Texts -> their vectors, in the same order."""

Embeddings: TypeAlias = "Vectors | Embed"
"""Dense vectors, one for each text, or what makes them."""

SHORTEST, LONGEST = 1e-15, 1e19
"""Lengths between which an engine, which squares and adds in float32, works out a cosine or a product."""


MODEL_NOISE = 0.01
"""By how much of its largest number a text's vector may change with its place in a batch: models work in 16 bits."""


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
        They are something else than a sequence or an array, there are more or fewer, or one breaks a rule of
        :func:`as_vector`; the message names the first one.

    Examples
    --------
    >>> from rag_bm25.store import DenseField
    >>> as_matrix("embeddings", [[0.5, 1.0]], 1, DenseField(2, "COSINE"))
    array([[0.5, 1. ]], dtype=float32)
    """
    rows = _as_rows(name, vectors)
    if len(rows) != count:
        msg = f"{name} must be as many as the texts, {count}, got {len(rows)}"
        raise InputError(msg)
    matrix = np.empty((count, dense.dim), np.float32)
    for position, vector in enumerate(rows):
        matrix[position] = _as_row(f"{name}[{position}]", vector, dense.dim)
    for position, rule in _broken_rules(matrix, dense):
        msg = f"{name}[{position}] must {rule}"
        raise InputError(msg)
    return matrix


def as_vector(name: str, vector: Sequence[float] | NDArray[Any], dense: DenseField) -> NDArray[np.float32]:
    """Check one dense vector.

    Parameters
    ----------
    name : str
        What to call it in a message.
    vector : array_like of float, shape (dim,)
        The vector.
    dense : DenseField
        Dimension and metric.

    Returns
    -------
    ndarray of float32, shape (dim,)
        A copy.

    Raises
    ------
    InputError
        It is no sequence of real numbers, has another dimension, a number that is not finite in float32, or a length
        with which an engine cannot work: 0 or below 1e-15 where the metric is the cosine, or above 1e19.

    Examples
    --------
    >>> from rag_bm25.store import DenseField
    >>> as_vector("embedding", [3e38, 3e38], DenseField(2, "IP"))
    Traceback (most recent call last):
    rag_bm25.errors.InputError: embedding must have a length of at most 1e+19: engines multiply in float32
    """
    matrix = _as_row(name, vector, dense.dim)[np.newaxis]
    for _, rule in _broken_rules(matrix, dense):
        msg = f"{name} must {rule}"
        raise InputError(msg)
    return np.asarray(matrix[0])


def check_repeated(ids: Sequence[str], matrix: NDArray[np.float32]) -> None:
    """Refuse two vectors for one chunk, which is what the same text and metadata twice are without ids.

    Parameters
    ----------
    ids : sequence of str
        The chunks' ids, n of them.
    matrix : ndarray of float32, shape (n, dim)
        Their vectors.

    Raises
    ------
    InputError
        Two vectors of one chunk differ by more than models do that embed a text twice.

    Examples
    --------
    >>> check_repeated(["a", "b", "a"], np.eye(3, dtype=np.float32))
    Traceback (most recent call last):
    rag_bm25.errors.InputError: texts[0] and texts[2] are one chunk: give them one vector, or ids of their own
    """
    first: dict[str, int] = {}
    for position, id_ in enumerate(ids):
        at = first.setdefault(id_, position)
        one, other = matrix[at], matrix[position]
        if at != position and np.abs(one - other).max() > MODEL_NOISE * np.abs(one).max():
            msg = f"texts[{at}] and texts[{position}] are one chunk: give them one vector, or ids of their own"
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

    def checked(texts: list[str]) -> NDArray[np.float32]:
        vectors = embed(texts)
        if inspect.iscoroutine(vectors):
            vectors.close()  # nobody will await it
            msg = "the embedder must not be async: it returned a coroutine"
            raise InputError(msg)
        return as_matrix("what the embedder returned", vectors, len(texts), dense)

    return checked


def _as_rows(name: str, vectors: object) -> Sequence[Any] | NDArray[Any]:
    """Return vectors as something that has a length and an order."""
    if isinstance(vectors, Sequence) and not isinstance(vectors, str | bytes):
        return vectors
    rule = "a sequence of vectors, or an array"
    rows = _as_array(name, rule, vectors)
    if not rows.ndim:
        raise _refusal(name, rule, type(vectors).__name__)
    return rows


def _as_row(name: str, vector: object, dim: int) -> NDArray[np.float32]:
    """Return a vector as a new array that has the right shape."""
    rule = "a sequence of numbers"
    row = _as_array(name, rule, vector)
    if not _is_numeric(row):
        of = f" of {row.dtype.type.__name__.rstrip('_')}" if row.ndim else ""
        raise _refusal(name, rule, type(vector).__name__ + of)
    if row.shape != (dim,):
        msg = f"{name} must have the index's dimension, {dim}, got shape {row.shape}"
        raise InputError(msg)
    try:
        with np.errstate(over="ignore"):  # what becomes infinite is refused later
            return row.astype(np.float32)
    except OverflowError:  # an int of more than 308 digits
        msg = f"{name} must have finite numbers only"
        raise InputError(msg) from None


def _as_array(name: str, rule: str, value: object) -> NDArray[Any]:
    """Return anything as an array, which may have no dimension and may hold anything."""
    if np.ma.is_masked(value):
        msg = f"{name} must not have masked numbers: fill them, or leave the vector out"
        raise InputError(msg)
    try:
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:  # PyTorch raises the last one
        raise _refusal(name, rule, f"{type(value).__name__} ({error})") from None


def _is_numeric(row: NDArray[Any]) -> bool:
    """Tell whether an array has real numbers only."""
    if row.dtype.kind == "O":
        return all(isinstance(number, Real | Decimal) for number in row.flat)
    return row.dtype.kind in "fiub" or "float" in row.dtype.name  # bfloat16 is of no kind that numpy knows


def _broken_rules(matrix: NDArray[np.float32], dense: DenseField) -> Iterator[tuple[int, str]]:
    """Yield the first row that breaks a rule, and the rule."""
    lengths = np.sqrt(np.einsum("ij,ij->i", matrix, matrix, dtype=np.float64))
    rules = [
        (np.isfinite(lengths), "have finite numbers only"),
        (lengths <= LONGEST, f"have a length of at most {LONGEST:g}: engines multiply in float32"),
    ]
    if dense.metric == "COSINE":
        rules += [
            (lengths > 0, "not be zero: it has no direction for the cosine"),
            (lengths >= SHORTEST, f"have a length of at least {SHORTEST:g}: engines divide by it in float32"),
        ]
    for holds, rule in rules:
        if not holds.all():
            yield int(np.argmin(holds)), rule


def _refusal(name: str, rule: str, got: str) -> InputError:
    return InputError(f"{name} must be {rule}, got {got}")
