"""Dense vectors that users give: what is taken as it is, and what is refused with a reason."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from support.memory_store import MemoryStore
from support.reference import split

from rag_bm25 import BM25Index, IndexConfig, InputError
from rag_bm25.store.embeddings import as_matrix, as_vector
from rag_bm25.store.rows import DenseField

COSINE, IP = DenseField(2, "COSINE"), DenseField(2, "IP")
ROWS = [[1.0, 2.0], [3.0, 4.0]]


class Tensor:
    """Stands for the tensors of other packages, which are no sequences."""

    def __init__(self, values: object, error: Exception | None = None) -> None:
        self.values, self.error = values, error

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        if self.error is not None:
            raise self.error
        return np.array(self.values, dtype)


async def coroutine(texts: list[str]) -> list[list[float]]:
    return [[1.0, 2.0] for _ in texts]


@pytest.mark.parametrize(
    "vectors",
    [
        ROWS,
        tuple(map(tuple, ROWS)),
        deque(ROWS),
        np.array(ROWS),
        np.array(ROWS, np.float16),
        np.array(ROWS, np.int8),
        np.asfortranarray(ROWS),
        np.ma.array(ROWS),
        [np.array(row) for row in ROWS],
        Tensor(ROWS),
        [Tensor(row) for row in ROWS],
        [[Decimal("1.0"), 2], [np.float32(3), np.array(4)]],
    ],
)
def test_sequences_and_arrays_of_numbers_are_taken(vectors: Any) -> None:
    matrix = as_matrix("embeddings", vectors, 2, COSINE)
    assert (matrix.dtype, matrix.tolist()) == (np.float32, ROWS)
    assert as_vector("embedding", vectors[0] if isinstance(vectors, list) else ROWS[0], IP).tolist() == ROWS[0]


@pytest.mark.parametrize(
    ("vectors", "got"),
    [
        (None, "NoneType"),
        (5, "int"),
        (np.float32(5), "float32"),
        ("ab", "str"),
        (b"ab", "bytes"),
        ({1.0, 2.0}, "set"),
        ({0: ROWS[0], 1: ROWS[1]}, "dict"),
        ((row for row in ROWS), "generator"),
        (Tensor(ROWS, TypeError("it is on the GPU")), r"Tensor \(it is on the GPU\)"),
        (Tensor(ROWS, RuntimeError("it requires grad")), r"Tensor \(it requires grad\)"),
    ],
)
def test_what_is_no_sequence_of_vectors_is_refused(vectors: Any, got: str) -> None:
    with pytest.raises(InputError, match=f"^embeddings must be a sequence of vectors, or an array, got {got}$"):
        as_matrix("embeddings", vectors, 2, COSINE)


@pytest.mark.parametrize(
    ("row", "got"),
    [
        (None, "NoneType"),
        ("12", "str"),
        ({1.0, 2.0}, "set"),
        ({0: 1.0, 1: 2.0}, "dict"),
        ((number for number in (1, 2)), "generator"),
        (["1", "2"], "list of str"),
        ([1j, 2], "list of complex128"),
        (np.array([1, 2], complex), "ndarray of complex128"),
        (np.array([1, 2], "M8[s]"), "ndarray of datetime64"),
        ([1.0, None], "list of object"),
        ([[1.0], [2.0, 3.0]], r"list \(.*inhomogeneous.*\)"),
    ],
)
def test_what_is_no_sequence_of_numbers_is_refused(row: Any, got: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # numpy's, that it has thrown something away
        with pytest.raises(InputError, match=rf"(?s)^embeddings\[1\] must be a sequence of numbers, got {got}$"):
            as_matrix("embeddings", [[1.0, 2.0], row], 2, COSINE)
        with pytest.raises(InputError, match=rf"(?s)^embedding must be a sequence of numbers, got {got}$"):
            as_vector("embedding", row, COSINE)


@pytest.mark.parametrize(
    ("row", "shape"),
    [([1.0], r"\(1,\)"), ([[1.0, 2.0]], r"\(1, 2\)"), (5.0, r"\(\)"), ([], r"\(0,\)"), (np.ones((2, 2)), r"\(2, 2\)")],
)
def test_other_shapes_are_refused(row: Any, shape: str) -> None:
    with pytest.raises(InputError, match=rf"^embeddings\[0\] must have the index's dimension, 2, got shape {shape}: "):
        as_matrix("embeddings", [row], 1, COSINE)


@pytest.mark.parametrize("masked", [np.ma.array(ROWS, mask=[[0, 0], [1, 0]]), [ROWS[0], np.ma.array(ROWS[1], mask=1)]])
def test_masked_numbers_are_not_taken_for_numbers(masked: Any) -> None:
    with pytest.raises(InputError, match=r"^embeddings(\[1\])? must not have masked numbers: fill them"):
        as_matrix("embeddings", masked, 2, COSINE)


@pytest.mark.parametrize("row", [[1.0, float("nan")], [1e300, 0.0], [float("-inf"), 0.0], [10**400, 1]])
@pytest.mark.parametrize("dense", [COSINE, IP])
def test_numbers_beyond_float32_are_refused(row: Any, dense: DenseField) -> None:
    with pytest.raises(InputError, match=r"^embeddings\[1\] must have finite numbers only$"):
        as_matrix("embeddings", [[1.0, 2.0], row], 2, dense)


class TestLengths:
    """Engines square and add in float32: beyond these lengths they answer with 0, infinity or nothing."""

    @pytest.mark.parametrize("dense", [COSINE, IP])
    @pytest.mark.parametrize("number", [3e38, 1e20, 8e18])
    def test_too_long_ones_are_refused(self, dense: DenseField, number: float) -> None:
        with pytest.raises(InputError, match=r"^embedding must have a length of at most 1e\+19: "):
            as_vector("embedding", [number, -number], dense)

    @pytest.mark.parametrize("number", [1e-16, 1e-30, 1e-45])
    def test_too_short_ones_are_refused_for_the_cosine(self, number: float) -> None:
        with pytest.raises(InputError, match=r"^embedding must have a length of at least 1e-15: "):
            as_vector("embedding", [number, 0.0], COSINE)
        assert as_vector("embedding", [number, 0.0], IP)[0] == np.float32(number)

    def test_zero_has_no_direction(self) -> None:
        with pytest.raises(InputError, match=r"^embedding must not be zero: it has no direction for the cosine$"):
            as_vector("embedding", [0.0, -0.0], COSINE)
        assert not as_vector("embedding", [0.0, 0.0], IP).any()

    @pytest.mark.parametrize("dense", [COSINE, IP])
    @pytest.mark.parametrize("number", [7e18, 1e-15])
    def test_what_engines_bear_is_taken(self, dense: DenseField, number: float) -> None:
        assert as_vector("embedding", [number, -number], dense)[0] == np.float32(number)


@pytest.fixture
def index() -> BM25Index:
    return BM25Index.from_store(MemoryStore(), config=IndexConfig(chunk_size=4, analyzer=split, dense_dim=2))


@pytest.mark.filterwarnings("error")  # a coroutine that nobody awaits
@pytest.mark.parametrize(
    ("embed", "message"),
    [
        (coroutine, "^the embedder must not be async: it returned a coroutine$"),
        (lambda texts: None, "^the result of the embedder must be a sequence of vectors, or an array, got NoneType$"),
        (lambda texts: ([1.0, 2.0] for _ in texts), "or an array, got generator$"),
        (lambda texts: {text: [1.0, 2.0] for text in texts}, "or an array, got dict$"),
        (lambda texts: [1.0, 2.0], "must be as many as the texts, 1, got 2$"),
    ],
)
def test_what_an_embedder_returns_is_checked(index: BM25Index, embed: Callable[..., Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        index.add(["apple"], embeddings=embed)
    assert index.stats().num_chunks == 0


def test_one_chunk_has_one_vector(index: BM25Index) -> None:
    with pytest.raises(InputError, match=r"^texts\[0\] and texts\[2\] are one chunk: give them one vector, or ids"):
        index.add(["apple", "fig", "apple"], embeddings=[[1, 0], [0, 1], [1, 0.1]])
    assert index.stats().num_chunks == 0
    # A model that works in 16 bits, in batches, does not give the same text the same bits.
    index.add(["apple", "fig", "apple"], embeddings=[[1, 0], [0, 1], [1, 0.001]])
    index.add(["apple", "apple"], embeddings=[[1, 0], [0, 1]], ids=["a", "b"])
    index.add(["apple", "apple"], embeddings=[[1, 0], [0, 1]], metadatas=[{"page": 1}, {"page": 2}])
    assert index.stats().num_chunks == 6
