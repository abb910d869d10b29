"""Check the dense vectors that users give, before anything is written or searched."""

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

    from rag_bm25.store.rows import DenseField

Vectors: TypeAlias = "Sequence[Sequence[float]] | NDArray[Any]"
Embed: TypeAlias = "Callable[[list[str]], Vectors]"  # texts -> their vectors, in the same order
Embeddings: TypeAlias = "Vectors | Embed"  # one vector for each text, or the function that makes them

# Engines square and add in float32: outside of these lengths they cannot compute a cosine or a product.
SHORTEST, LONGEST = 1e-15, 1e19
# A text's vector may change with its place in a batch, by this part of its largest number: models work in 16 bits.
MODEL_NOISE = 0.01


def as_matrix(name: str, vectors: Vectors, count: int, dense: DenseField) -> NDArray[np.float32]:
    """Check one vector for each of `count` texts, and copy them to a matrix of shape (count, dim)."""
    rows = _as_rows(name, vectors)
    if len(rows) != count:
        raise InputError(f"{name} must be as many as the texts, {count}, got {len(rows)}")
    matrix = np.empty((count, dense.dim), np.float32)
    for position, vector in enumerate(rows):
        matrix[position] = _as_row(f"{name}[{position}]", vector, dense.dim)
    for position, rule in _broken_rules(matrix, dense):
        raise InputError(f"{name}[{position}] must {rule}")
    return matrix


def as_vector(name: str, vector: Sequence[float] | NDArray[Any], dense: DenseField) -> NDArray[np.float32]:
    """Check one dense vector and copy it; `name` is for the message."""
    matrix = _as_row(name, vector, dense.dim)[np.newaxis]
    for _, rule in _broken_rules(matrix, dense):
        raise InputError(f"{name} must {rule}")
    return np.asarray(matrix[0])


def check_repeated(ids: Sequence[str], matrix: NDArray[np.float32]) -> None:
    """Refuse two vectors for one chunk: the same text and metadata twice, without ids of their own."""
    first: dict[str, int] = {}
    for position, id_ in enumerate(ids):
        at = first.setdefault(id_, position)
        one, other = matrix[at], matrix[position]
        if at != position and np.abs(one - other).max() > MODEL_NOISE * np.abs(one).max():
            msg = f"texts[{at}] and texts[{position}] are one chunk: give them one vector, or ids of their own"
            raise InputError(msg)


def wrap_embedder(embed: Embed, dense: DenseField) -> Callable[[list[str]], NDArray[np.float32]]:
    """Return the user's embedder with a check of the vectors that it returns."""

    def checked(texts: list[str]) -> NDArray[np.float32]:
        vectors = embed(texts)
        if inspect.iscoroutine(vectors):
            vectors.close()  # else Python warns that it was never awaited
            raise InputError("the embedder must not be async: it returned a coroutine")
        return as_matrix("the result of the embedder", vectors, len(texts), dense)

    return checked


def _as_rows(name: str, vectors: object) -> Sequence[Any] | NDArray[Any]:
    if isinstance(vectors, Sequence) and not isinstance(vectors, str | bytes):
        return vectors
    rule = "a sequence of vectors, or an array"
    rows = _as_array(name, rule, vectors)
    if not rows.ndim:
        raise _refusal(name, rule, type(vectors).__name__)
    return rows


def _as_row(name: str, vector: object, dim: int) -> NDArray[np.float32]:
    """Copy a vector to a float32 array of shape (dim,)."""
    rule = "a sequence of numbers"
    row = _as_array(name, rule, vector)
    if not _is_numeric(row):
        of = f" of {row.dtype.type.__name__.rstrip('_')}" if row.ndim else ""
        raise _refusal(name, rule, type(vector).__name__ + of)
    if row.shape != (dim,):
        msg = f"{name} must have the index's dimension, {dim}, got shape {row.shape}: embed by the model that it was"
        raise InputError(f"{msg} made with, or make another index")
    try:
        with np.errstate(over="ignore"):  # infinite numbers are refused later
            return row.astype(np.float32)
    except OverflowError:  # an int of more than 308 digits
        raise InputError(f"{name} must have finite numbers only") from None


def _as_array(name: str, rule: str, value: object) -> NDArray[Any]:
    """Convert any value to an array of any shape and type."""
    if np.ma.is_masked(value):
        raise InputError(f"{name} must not have masked numbers: fill them, or leave the vector out")
    try:
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:  # PyTorch raises the last one
        raise _refusal(name, rule, f"{type(value).__name__} ({error})") from None


def _is_numeric(row: NDArray[Any]) -> bool:
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
