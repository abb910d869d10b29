"""Dense vectors on every engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support import engines
from support.rows import ONE, SLOW, by_pk, chunk, pks

from rag_bm25.errors import FormatError, StoreError
from rag_bm25.filters import parse_filter
from rag_bm25.store.protocol import Store
from rag_bm25.store.rows import ChunkRow, DenseField, DenseMetric, Scope, SearchArm
from rag_bm25.vectors.sparse import EMPTY, SparseVector

DIM = 16
METRICS: list[DenseMetric] = ["COSINE", "IP"]


def dense_chunk(number: int, dense: Any, **changes: Any) -> ChunkRow:
    return chunk(number, dense=np.asarray(dense, np.float32), **changes)


def similarities(rows: list[ChunkRow], query: NDArray[np.float32], metric: DenseMetric) -> dict[str, float]:
    """Score of every row, in float64."""
    vectors = np.array([dense_of(row) for row in rows], np.float64).reshape(-1, len(query))
    wanted = query.astype(np.float64)
    if metric == "COSINE":
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        wanted /= np.linalg.norm(wanted)
    return dict(zip((row.pk for row in rows), (vectors @ wanted).tolist(), strict=True))


def dense_of(row: ChunkRow) -> NDArray[np.float32]:
    assert row.dense is not None
    return row.dense


def best(scores: dict[str, float], limit: int) -> list[str]:
    return sorted(scores, key=lambda pk: -scores[pk])[:limit]


class TestDenseCollections:
    @pytest.mark.slow
    def test_many_rows_are_read_and_written_in_several_messages(
        self, opened: Callable[..., Store], engine: str
    ) -> None:
        # 73 MB are more than one reply can have; milvus-lite 2.5 is never asked for more than 2.
        width, number = (1_024, 2_560) if engines.dialect_of(engine) == "lite2" and not SLOW else (8_192, 2_240)
        store = opened("wide")
        store.create(DenseField(width, "IP"))
        rows = [dense_chunk(n, np.full(width, n)) for n in range(number)]
        store.insert_chunks(rows)
        found = by_pk(store.get_chunks([row.pk for row in rows], dense=True))
        assert {pk: (dense_of(row) == row.length).all() for pk, row in found.items()} == {row.pk: True for row in rows}
        store.drop()

    @pytest.mark.parametrize("metric", METRICS)
    def test_dense_vectors_are_remembered(self, opened: Callable[..., Store], metric: DenseMetric) -> None:
        store = opened()
        assert store.dense_dim() is None
        store.create(DenseField(DIM, metric))
        again = opened()
        assert (store.dense_dim(), again.dense_dim(), again.exists()) == (DIM, DIM, True)
        again.create(DenseField(DIM, metric))
        again.insert_chunks([dense_chunk(1, np.ones(DIM))])
        assert [pks(found) for found in again.search(np.ones((1, DIM), np.float32), SearchArm(1, metric=metric))] == [
            [chunk(1).pk]
        ]
        again.drop()
        assert again.dense_dim() is None

    def test_an_index_without_them_stays_one(self, store: Store) -> None:
        assert store.dense_dim() is None
        store.insert_chunks([chunk(1)])
        assert [row.dense for row in store.get_chunks([chunk(1).pk], dense=True)] == [None]
        with pytest.raises(StoreError, match="has no dense vectors"):
            store.search(np.ones((1, DIM), np.float32), SearchArm(1, metric="IP"))
        assert pks(store.search([ONE], SearchArm(1))[0]) == [chunk(1).pk]

    @pytest.mark.parametrize("other", [DenseField(DIM + 1, "IP"), DenseField(DIM, "COSINE"), None])
    def test_creating_again_with_others_is_a_format_error(
        self, opened: Callable[..., Store], other: DenseField | None
    ) -> None:
        store = opened()
        store.create(DenseField(DIM, "IP"))
        with pytest.raises(FormatError, match="dense"):
            opened().create(other)
        store.drop()

    def test_a_row_with_one_that_the_collection_cannot_hold_is_refused(self, store: Store) -> None:
        with pytest.raises(StoreError, match="dense"):
            store.insert_chunks([dense_chunk(1, np.ones(DIM))])
        assert store.count_chunks() == 0

    def test_a_collection_without_them_is_not_given_any(self, store: Store) -> None:
        with pytest.raises(FormatError, match="dense"):
            store.create(DenseField(DIM, "IP"))

    def test_dropping_makes_room_for_others(self, opened: Callable[..., Store]) -> None:
        store = opened()
        for dense in (DenseField(2, "IP"), None, DenseField(3, "COSINE")):
            store.create(dense)
            store.insert_chunks([chunk(1, dense=np.ones(dense.dim, np.float32) if dense else None)])
            (row,) = store.get_chunks([chunk(1).pk], dense=True)
            assert (None if row.dense is None else row.dense.tolist()) == ([1.0] * dense.dim if dense else None)
            store.drop()

    def test_two_dimensions_and_32768_work(self, opened: Callable[..., Store], engine: str) -> None:
        # milvus-lite 2.5 makes room for 32,768 rows at the first one: 4 GB, for which it takes up to 10 s.
        for dim in (2, 4096) if engines.dialect_of(engine) == "lite2" and not SLOW else (2, 32768):
            store = opened()
            store.create(DenseField(dim, "IP"))
            store.insert_chunks([dense_chunk(1, np.arange(dim))])
            assert store.search(np.eye(1, dim, dim - 1, np.float32), SearchArm(1, metric="IP"))[0][0].score == dim - 1
            store.drop()


@pytest.fixture(params=METRICS)
def metric(request: pytest.FixtureRequest) -> DenseMetric:
    return "COSINE" if request.param == "COSINE" else "IP"


@pytest.fixture
def dense(opened: Callable[..., Store], metric: DenseMetric) -> Iterator[Store]:
    """A store of dense vectors too, empty."""
    made = opened()
    made.create(DenseField(DIM, metric))
    yield made
    opened().drop()


@pytest.fixture
def dense_corpus(dense: Store) -> list[ChunkRow]:
    """Rows of which no two have the same score for a query."""
    rng = np.random.default_rng(17)
    rows = []
    for number in range(400):
        ids = np.unique(rng.integers(1, 40, 8)).astype(np.uint32)
        weights = SparseVector(ids, rng.random(len(ids)).astype(np.float32))
        names = {"namespace": "even" if number % 2 == 0 else "odd", "metadata": {"n": number % 5}}
        rows.append(dense_chunk(number, rng.normal(size=DIM), vector=weights, **names))
    dense.insert_chunks(rows)
    return rows


@pytest.fixture
def dense_queries() -> NDArray[np.float32]:
    return np.random.default_rng(18).normal(size=(120, DIM)).astype(np.float32)


ONE_METRIC = pytest.mark.parametrize("metric", ["COSINE"])  # for what has nothing to do with scores


class TestDense:
    def test_reads_of_an_empty_store_find_nothing(self, dense: Store, metric: DenseMetric) -> None:
        query = np.ones(DIM, np.float32)
        assert dense.get_chunks(["ab"], vectors=True, dense=True) == []
        assert dense.search(query[None], SearchArm(3, metric=metric)) == [[]]
        assert dense.search(query[None][:0], SearchArm(3, metric=metric)) == []
        assert dense.search([ONE], SearchArm(3)) == [[]]

    def test_vectors_come_back_bit_for_bit(self, dense: Store) -> None:
        rng = np.random.default_rng(2)
        bits = rng.integers(0, 2**32, size=(200, DIM), dtype=np.uint32).view(np.float32)
        vectors = np.where(np.isfinite(bits), bits, np.float32(-0.0))
        vectors[0, :4] = [0.0, -0.0, np.finfo(np.float32).max, np.finfo(np.float32).smallest_subnormal]
        dense.insert_chunks([dense_chunk(number, vector) for number, vector in enumerate(vectors)])
        found = by_pk(dense.get_chunks([chunk(n).pk for n in range(200)], dense=True))
        for number, vector in enumerate(vectors):
            read = dense_of(found[chunk(number).pk])
            assert (read.dtype, read.shape, read.tobytes()) == (np.float32, (DIM,), vector.tobytes())

    def test_they_come_only_where_they_are_asked_for(self, dense: Store, metric: DenseMetric) -> None:
        row = dense_chunk(1, np.ones(DIM), metadata={"a": 1})
        dense.insert_chunks([row])
        (bare,) = dense.get_chunks([row.pk])
        assert (bare.dense, bare.vector) == (None, EMPTY)
        (whole,) = dense.get_chunks([row.pk], contents=False, vectors=True, dense=True)
        assert (dense_of(whole).tolist(), whole.vector, whole.text) == ([1.0] * DIM, ONE, "")
        (found,) = dense.search(dense_of(row)[None], SearchArm(1, metric=metric))[0]
        assert (found.row, found.row.dense) == (chunk(1, metadata={"a": 1}, vector=EMPTY), None)
        assert [(row.pk, row.dense) for batch in dense.scan_chunks(vectors=True) for row in batch] == [(row.pk, None)]

    def test_scores_and_order_equal_numpy(
        self, dense: Store, dense_corpus: list[ChunkRow], dense_queries: NDArray[np.float32], metric: DenseMetric
    ) -> None:
        for query, found in zip(dense_queries, dense.search(dense_queries, SearchArm(20, metric=metric)), strict=True):
            scores = similarities(dense_corpus, query, metric)
            assert pks(found) == best(scores, 20)
            assert [match.score for match in found] == pytest.approx([scores[pk] for pk in pks(found)], rel=1e-5)

    def test_rows_of_negative_score_are_found(
        self, dense: Store, dense_corpus: list[ChunkRow], dense_queries: NDArray[np.float32], metric: DenseMetric
    ) -> None:
        (found,) = dense.search(dense_queries[:1], SearchArm(1000, metric=metric))
        assert pks(found) == best(similarities(dense_corpus, dense_queries[0], metric), 1000)
        assert found[-1].score < 0

    def test_filters_and_namespaces_restrict_the_rows(
        self, dense: Store, dense_corpus: list[ChunkRow], dense_queries: NDArray[np.float32], metric: DenseMetric
    ) -> None:
        where = parse_filter({"n": {"$gte": 3}})
        found = dense.search(dense_queries[:3], SearchArm(30, Scope(where, ("odd",)), metric=metric))
        fitting = [row for row in dense_corpus if row.namespace == "odd" and row.metadata["n"] >= 3]
        expected = [best(similarities(fitting, query, metric), 30) for query in dense_queries[:3]]
        assert [pks(matches_) for matches_ in found] == expected
        assert dense.search(dense_queries[:1], SearchArm(5, Scope(namespaces=()), metric=metric)) == [[]]

    def test_a_vector_of_zeros_is_like_nothing(self, dense: Store, metric: DenseMetric) -> None:
        rows = [dense_chunk(number, np.full(DIM, number)) for number in (-1, 0, 1)]
        dense.insert_chunks(rows)
        (found,) = dense.search(np.eye(1, DIM, dtype=np.float32), SearchArm(5, metric=metric))
        assert pks(found) == [rows[2].pk, rows[1].pk, rows[0].pk]
        assert found[1].score == 0.0

    def test_ties_are_ordered_by_id_whatever_the_limit(self, dense: Store, metric: DenseMetric) -> None:
        near, far = np.eye(2, DIM, dtype=np.float32)
        rows = [dense_chunk(int(n), near, id=f"{n:05}") for n in np.random.default_rng(3).permutation(3000)]
        rows[7] = dense_chunk(7777, near + far, id="00000")
        dense.insert_chunks(rows)
        order = sorted(rows, key=lambda row: (row.pk == rows[7].pk, row.id, row.pk))
        for limit in (1, 10, 2999, 3000, 16384):
            (found,) = dense.search(near[None] - far / 2, SearchArm(limit, metric=metric))
            assert pks(found) == [row.pk for row in order[:limit]]

    def test_replacing_and_deleting_move_both_vectors(self, dense: Store, metric: DenseMetric) -> None:
        first, second = np.eye(2, DIM, dtype=np.float32)
        dense.insert_chunks([dense_chunk(1, first)])
        dense.delete_chunks([chunk(1).pk])
        assert dense.search(first[None], SearchArm(2, metric=metric)) == [[]]
        dense.insert_chunks([dense_chunk(1, second, vector=SparseVector.from_dict({7: 2.0}))])
        (found,) = dense.search(second[None], SearchArm(2, metric=metric))
        assert [match.score for match in found] == [1.0]
        assert dense.search([ONE], SearchArm(2)) == [[]]
        (row,) = dense.get_chunks([chunk(1).pk], vectors=True, dense=True)
        assert (dense_of(row).tolist(), row.vector.to_dict()) == (second.tolist(), {7: 2.0})

    def test_another_metric_is_refused(self, dense: Store, metric: DenseMetric) -> None:
        other: DenseMetric = "IP" if metric == "COSINE" else "COSINE"
        message = f"compares dense vectors by {metric}, not by {other}"
        query = np.ones(DIM, np.float32)
        with pytest.raises(StoreError, match=message):
            dense.search(query[None], SearchArm(1, metric=other))

    @ONE_METRIC
    def test_a_row_without_its_dense_vector_is_refused(self, dense: Store) -> None:
        with pytest.raises(StoreError, match="dense"):
            dense.insert_chunks([chunk(1)])
        assert dense.count_chunks() == 0

    @ONE_METRIC
    def test_a_dense_vector_of_another_width_is_refused(self, dense: Store, metric: DenseMetric) -> None:
        with pytest.raises(StoreError):
            dense.insert_chunks([dense_chunk(1, np.ones(DIM + 1))])
        dense.insert_chunks([dense_chunk(2, np.ones(DIM))])
        with pytest.raises(StoreError):
            dense.search(np.ones((1, DIM + 1), np.float32), SearchArm(3, metric=metric))
        assert dense.count_chunks() == 1

    @ONE_METRIC
    def test_every_write_is_visible_at_once(self, dense: Store, metric: DenseMetric) -> None:
        query = np.ones((1, DIM), np.float32)
        for number in range(5):
            dense.insert_chunks([dense_chunk(number, np.ones(DIM))])
            assert pks(dense.search(query, SearchArm(3, metric=metric))[0]) == [chunk(number).pk]
            dense.delete_chunks([chunk(number).pk])
            assert dense.search(query, SearchArm(3, metric=metric)) == [[]]

    @pytest.mark.slow
    @ONE_METRIC
    def test_replies_larger_than_engines_send_are_split(self, dense: Store, metric: DenseMetric) -> None:
        large = {"text": "x" * 65535, "metadata": {"m": "y" * 30_000}}
        rows = [dense_chunk(number, np.ones(DIM), **large) for number in range(1000)]  # 95 MB
        dense.insert_chunks(rows)
        bare = by_pk([replace(row, vector=EMPTY, dense=None) for row in rows])
        (found,) = dense.search(np.ones((1, DIM), np.float32), SearchArm(1000, metric=metric))
        assert by_pk(match.row for match in found) == bare
        (found,) = dense.search([ONE], SearchArm(1000))
        assert by_pk(match.row for match in found) == bare
