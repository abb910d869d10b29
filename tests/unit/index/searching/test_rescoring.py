"""Exact scores where the engine has rounded ones, by every way to ask."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.memory_store import MemoryStore
from support.reference import BM25, Corpus, split
from support.rounding_store import RoundingStore, rounded

from rag_bm25 import RRF, BM25Index, IndexConfig, ParameterError
from rag_bm25.documents.chunks import Hit
from rag_bm25.events import Events
from rag_bm25.index.searching.rescoring import REACH, Rescorer
from rag_bm25.store.rows import ChunkRow, SearchArm
from rag_bm25.store.storage import FP16_TOLERANCE
from rag_bm25.vectors.sparse import SparseVector

CONFIG = IndexConfig(chunk_size=400, length_unit="terms", analyzer=split)
RNG = random.Random(7)
# Lengths that differ by one term: weights that differ by less than fp16 can tell.
CHUNKS = {f"c{number:03}": f"fig {'plum ' * RNG.randint(1, 3)}{'pad ' * (300 + number)}" for number in range(120)}
QUERY = "fig plum"


def filled(store: MemoryStore, config: IndexConfig = CONFIG) -> BM25Index:
    index = BM25Index.from_store(store, config=config)
    index.add(list(CHUNKS.values()), ids=list(CHUNKS), embeddings=dense(config))
    return index


def dense(config: IndexConfig) -> Any:
    return None if config.dense_dim is None else np.ones((len(CHUNKS), config.dense_dim), np.float32)


@pytest.fixture(scope="module")
def index() -> BM25Index:
    return filled(RoundingStore())


@pytest.fixture(scope="module")
def expected() -> list[tuple[str, float]]:
    """Every chunk, by an independent BM25, with ties by id."""
    scores = BM25(CONFIG.chunk_size).scores(QUERY.split(), Corpus({id_: text.split() for id_, text in CHUNKS.items()}))
    return sorted(((id_, float(np.float32(score))) for id_, score in scores.items()), key=lambda hit: (-hit[1], hit[0]))


def pairs(hits: Sequence[Hit]) -> list[tuple[str, float]]:
    return [(hit.id, hit.score) for hit in hits]


def ids(hits: Sequence[Hit] | Sequence[tuple[str, float]]) -> list[str]:
    return [hit[0] if isinstance(hit, tuple) else hit.id for hit in hits]


def test_without_near_ties_change_places(index: BM25Index, expected: list[tuple[str, float]]) -> None:
    hits = index.search(QUERY, len(CHUNKS))
    assert sorted(ids(hits)) == sorted(ids(expected))
    assert ids(hits) != ids(expected)
    exact = dict(expected)
    errors = [abs(hit.score / exact[hit.id] - 1) for hit in hits]
    assert 1e-5 < max(errors) <= FP16_TOLERANCE


@pytest.mark.parametrize("k", [1, 2, 10, 50, 119, 120, 1000])
def test_with_it_scores_and_order_are_those_of_the_definition(
    index: BM25Index, expected: list[tuple[str, float]], k: int
) -> None:
    hits = index.search(QUERY, k, search_params={"rescore": True})
    assert ids(hits) == ids(expected[:k])
    np.testing.assert_allclose([hit.score for hit in hits], [score for _, score in expected[:k]], rtol=1e-6)


def test_scores_are_to_the_bit_those_of_a_store_that_does_not_round(index: BM25Index) -> None:
    exact = filled(MemoryStore())
    for k in (1, 7, 120):
        assert pairs(index.search(QUERY, k, search_params={"rescore": True})) == pairs(exact.search(QUERY, k))
        assert pairs(exact.search(QUERY, k, search_params={"rescore": True})) == pairs(exact.search(QUERY, k))


def test_every_search_takes_it(index: BM25Index, expected: list[tuple[str, float]]) -> None:
    rescore: Any = {"search_params": {"rescore": True}}
    for hits in (
        index.search_batch(["nothing", QUERY], 9, **rescore)[1],
        index.search(QUERY, 9, min_should_match=2, **rescore),
        index.search(QUERY, 9, namespace=["", "x"], statistics="all", **rescore),
    ):
        assert ids(hits) == ids(expected[:9])


def test_the_lexical_arm_of_a_hybrid_search_is_exact(expected: list[tuple[str, float]]) -> None:
    index = filled(RoundingStore(), replace(CONFIG, dense_dim=4))
    for rescore in (False, True):
        hits = index.search_hybrid(
            QUERY,
            [1.0, 0, 0, 0],
            20,
            fusion=RRF(),
            sparse_k=20,
            dense_k=1,
            search_params={"rescore": rescore},
        )
        lexical = sorted(
            ((hit.id, hit.sparse_score) for hit in hits if hit.sparse_score is not None), key=lambda hit: -hit[1]
        )
        exact = [score for _, score in expected[: len(lexical)]]
        assert np.allclose([score for _, score in lexical], exact, rtol=1e-6, atol=0) == rescore


def rows_with(weights: Sequence[float]) -> MemoryStore:
    store = RoundingStore()
    store.create()
    store.insert_chunks(
        [
            ChunkRow(f"{at:032x}a", f"c{at:05}", "", 1, "b", vector=SparseVector.from_dict({1: weight}))
            for at, weight in enumerate(weights)
        ]
    )
    return store


@pytest.mark.parametrize("limit", [1, 3, 40])
def test_the_best_row_is_found_however_many_rounding_puts_before_it(limit: int) -> None:
    # All of them are 0.5 in fp16: the engine sorts them by id, with the best one last.
    weights = [0.5 + 1e-7 * at for at in range(1500)]
    store = rows_with(weights)
    (found,) = Rescorer(store, Events("rows")).search([SparseVector.from_dict({1: 2.0})], SearchArm(limit))
    best = sorted(range(1500), key=lambda at: (-np.float32(2 * np.float32(weights[at])), at))[:limit]
    assert [match.row.id for match in found] == [f"c{at:05}" for at in best]


def test_rows_out_of_reach_cost_no_second_call() -> None:
    store = rows_with([1 / (1 + at) for at in range(100)])
    store.calls.clear()
    (found,) = Rescorer(store, Events("rows")).search([SparseVector.from_dict({1: 1.0})], SearchArm(5))
    assert (store.calls, len(found)) == (["search"], 5)
    assert not any(len(match.row.vector) for match in found)


def test_reach_covers_what_fp16_does_to_two_weights() -> None:
    weights = SparseVector(
        np.arange(1, 200_001, dtype=np.uint32), np.geomspace(2**-14, 6e4, 200_000).astype(np.float32)
    )
    errors = np.abs(rounded(weights).values.astype(float) / weights.values - 1)
    worst = float(errors.max())
    assert FP16_TOLERANCE / 2.1 < worst <= 2**-11 < FP16_TOLERANCE
    assert (1 - worst) / (1 + worst) > REACH


@pytest.mark.parametrize("value", [None, 1, "yes"])
def test_other_values_are_refused(index: BM25Index, value: Any) -> None:
    with pytest.raises(ParameterError, match=r"search_params\['rescore'\] must be"):
        index.search(QUERY, search_params={"rescore": value})


@pytest.mark.parametrize(
    ("version", "quant_type", "rounds"),
    [
        ("v3.0.1", None, True),
        ("3.1.0-rc1", "fp16", True),
        ("v3.0.1", "fp32", True),  # new rows, until their segment is sealed
        ("v2.6.4", None, False),
        ("master-20261101", None, True),
        ("Zilliz Cloud Vector Database(Compatible with Milvus 2.6)", None, False),
    ],
)
def test_explain_says_where_the_score_of_a_search_may_be_rounded(
    version: str, quant_type: str | None, rounds: bool
) -> None:
    store = RoundingStore()
    store.version, store.quant_type = version, quant_type
    index = filled(store)
    said = "the search gives to within 0.1%" in index.explain(QUERY, "c001").description
    assert said == rounds
    assert "within" not in index.explain(QUERY, "c001", search_params={"rescore": True}).description


def test_verify_counts_vectors_that_are_not_rounded(index: BM25Index) -> None:
    assert index.verify().ok
