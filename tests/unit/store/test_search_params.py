from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.memory_store import MemoryStore

from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.errors import ParameterError
from rag_bm25.query.feedback import RSJ
from rag_bm25.store.search_params import check_search_params

GIVEN = {"drop_ratio_search": 0.1, "dim_max_score_ratio": 1.0, "hints": "iterative_filter", "ignore_growing": True}


def test_what_is_given_is_copied() -> None:
    checked = check_search_params(GIVEN)
    assert checked == GIVEN
    assert checked is not GIVEN
    assert check_search_params(None) == {}


@pytest.mark.parametrize("given", ["ef", [("ef", 1)], {1: 2}, 0])
def test_other_types_are_refused(given: Any) -> None:
    with pytest.raises(
        ParameterError, match=r"^search_params must be a mapping of str to str, bool, int or float, got"
    ):
        check_search_params(given)


@pytest.mark.parametrize("name", ["metric_type", "offset", "topk", "params", "anns_field", "round_decimal"])
def test_what_the_search_decides_is_refused(name: str) -> None:
    with pytest.raises(ParameterError, match=f"^of_mine must not have '{name}', which the search itself decides$"):
        check_search_params({"ef": 1, name: "IP"}, "of_mine")


@pytest.mark.parametrize("value", [None, [1], {"a": 1}, float("nan"), float("inf"), b"x"])
def test_other_values_are_refused(value: Any) -> None:
    with pytest.raises(ParameterError, match=r"^search_params\['ef'\] must be a str, bool, int or finite float, got"):
        check_search_params({"ef": value})


@pytest.fixture
def index(store: MemoryStore) -> BM25Index:
    index = BM25Index.from_store(store, config=IndexConfig(chunk_size=5, dense_dim=2))
    index.add(["apple pie", "apple fig", "pear"], ids=["1", "2", "3"], embeddings=np.ones((3, 2), np.float32))
    store.params.clear()
    return index


def test_every_search_hands_them_on(index: BM25Index, store: MemoryStore) -> None:
    for search_params, passed in ((GIVEN, GIVEN), (None, None)):
        index.search("apple", search_params=search_params)
        index.search_batch(["apple", "pear"], feedback=RSJ([]), search_params=search_params)
        assert store.params == [passed] * 2
        store.params.clear()
    index.search("apple")
    index.search_dense([1.0, 0.0], search_params={"ef": 9})
    index.search_dense([1.0, 0.0])
    assert store.params == [None, {"ef": 9}, {}]


def test_each_arm_of_a_hybrid_search_has_its_own(index: BM25Index, store: MemoryStore) -> None:
    index.search_hybrid("apple", [1.0, 0.0], search_params={"drop_ratio_search": 0.1}, dense_search_params={"ef": 9})
    assert store.params == [{"drop_ratio_search": 0.1}, {"ef": 9}]


@pytest.mark.parametrize("name", ["drop_ratio", "Drop_ratio_search", "ef", "nprobe", ""])
def test_unknown_ones_of_a_lexical_search_are_answered(index: BM25Index, store: MemoryStore, name: str) -> None:
    for search in (
        lambda: index.search("apple", search_params={name: 0.1}),
        lambda: index.search_hybrid("apple", [1.0, 0.0], search_params={name: 0.1}),
        lambda: index.encode_queries(["apple"], search_params={name: 0.1}),
    ):
        with pytest.raises(ParameterError, match=f"drop_ratio_search, .*got '{name}', which Milvus would ignore"):
            search()
    assert store.params == []


def test_bad_ones_are_refused_before_the_search(index: BM25Index, store: MemoryStore) -> None:
    bad = {"offset": 1}
    for search in (
        lambda: index.search("apple", search_params=bad),
        lambda: index.search_dense([1.0, 0.0], search_params=bad),
        lambda: index.search_hybrid("apple", [1.0, 0.0], search_params=bad),
    ):
        with pytest.raises(ParameterError, match="search_params must not have 'offset'"):
            search()
    with pytest.raises(ParameterError, match=r"^dense_search_params must not have 'offset'"):
        index.search_hybrid("apple", [1.0, 0.0], dense_search_params=bad)
    assert store.params == []


def test_vectors_and_explanations_are_what_they_are_without(index: BM25Index) -> None:
    assert index.encode_queries(["apple"], search_params=GIVEN) == index.encode_queries(["apple"])
    assert index.explain("apple", "1", search_params=GIVEN) == index.explain("apple", "1")
