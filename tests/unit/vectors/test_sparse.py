from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_bm25.errors import InputError
from rag_bm25.vectors.sparse import EMPTY, SparseBatch, SparseVector

vectors = st.dictionaries(st.integers(0, 2**32 - 2), st.floats(0.125, 1024, width=32), max_size=12)


@given(vectors)
def test_dict_comes_back_sorted_by_id(weights: dict[int, float]) -> None:
    back = SparseVector.from_dict(weights).to_dict()
    assert back == weights
    assert list(back) == sorted(weights)


def test_dict_has_plain_numbers() -> None:
    ((id_, weight),) = SparseVector.from_dict({7: 0.5}).to_dict().items()
    assert (type(id_), type(weight)) == (int, float)


def test_arrays_have_the_types_that_milvus_stores() -> None:
    vector = SparseVector.from_dict({2**32 - 2: 0.1})
    assert (vector.ids.dtype, vector.values.dtype) == (np.uint32, np.float32)


@given(st.lists(vectors, max_size=5))
def test_a_batch_comes_back_from_its_keys(rows: list[dict[int, float]]) -> None:
    entries = [(number << 32 | id_, row[id_]) for number, row in enumerate(rows) for id_ in sorted(row)]
    keys = np.array([key for key, _ in entries], np.uint64)
    batch = SparseBatch.from_keys(keys, np.array([value for _, value in entries], np.float32), len(rows))
    assert [row.to_dict() for row in batch] == rows
    assert batch.keys.tolist() == keys.tolist()


@given(vectors, vectors)
def test_dot_sums_over_shared_ids(left: dict[int, float], right: dict[int, float]) -> None:
    expected = sum(weight * right[id_] for id_, weight in left.items() if id_ in right)
    got = SparseVector.from_dict(left).dot(SparseVector.from_dict(right))
    assert got == pytest.approx(expected, rel=1e-12)


def test_dot_is_summed_in_float64() -> None:
    ones = SparseVector.from_dict({1: 1.0, 2: 1.0})
    assert SparseVector.from_dict({1: 2.0**24, 2: 1.0}).dot(ones) == 2**24 + 1


@pytest.mark.parametrize(("id_", "weight"), [(2, 0.0), (3, 1.5), (5, 0.0), (7, 2.5), (8, 0.0)])
def test_get_returns_the_weight_or_zero(id_: int, weight: float) -> None:
    assert SparseVector.from_dict({3: 1.5, 7: 2.5}).get(id_) == weight


def test_empty_vector_has_nothing() -> None:
    assert len(EMPTY) == 0
    assert EMPTY.to_dict() == {}
    assert EMPTY.get(0) == 0.0
    assert EMPTY.dot(SparseVector.from_dict({1: 1.0})) == 0.0


def test_vectors_are_equal_by_ids_and_weights() -> None:
    vector = SparseVector.from_dict({3: 1.5})
    assert vector == SparseVector.from_dict({3: 1.5})
    assert vector != SparseVector.from_dict({3: 1.25})
    assert vector != SparseVector.from_dict({4: 1.5})
    assert vector != {3: 1.5}


def test_vectors_are_not_hashable() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(EMPTY)


def _batch(*rows: dict[int, float]) -> SparseBatch:
    built = [SparseVector.from_dict(row) for row in rows]
    return SparseBatch(
        np.cumsum([0, *map(len, built)]),
        np.concatenate([row.ids for row in built]),
        np.concatenate([row.values for row in built]),
    )


def test_batch_gives_its_rows_back() -> None:
    rows = [{3: 1.0}, {}, {1: 2.0, 9: 3.0}]
    batch = _batch(*rows)
    assert len(batch) == 3
    assert [row.to_dict() for row in batch] == rows
    assert batch[2].to_dict() == rows[2]


def test_batch_whose_arrays_do_not_fit_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        SparseBatch(np.array([0, 3]), np.array([1, 2], np.uint32), np.ones(2, np.float32))
    assert str(caught.value) == "indptr must end at the number of entries, got 3 for 2 ids and 2 values"


def test_batch_with_a_weight_too_few_is_refused() -> None:
    with pytest.raises(InputError, match="for 2 ids and 1 values"):
        SparseBatch(np.array([0, 2]), np.array([1, 2], np.uint32), np.ones(1, np.float32))
