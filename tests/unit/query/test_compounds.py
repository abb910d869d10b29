"""Names of several words, which count in a query as a whole and by their parts."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.memory_store import MemoryStore

from rag_bm25 import BM25Index, IndexConfig, Query, QueryExpansion, QueryWeighting

TEXTS = {
    "code": "错误码 0x17：重新烧录固件",
    "sale": "S5-D2 销售合同，S5-D2 的交货",
    "other": "S5-D1 返厂维修",
    "parts": "S5 电机，D2 传感器",
    "volts": "电压 220 V，电流 16 A",
}


@pytest.fixture(scope="module")
def products() -> BM25Index:
    made = BM25Index.from_store(MemoryStore(), config=IndexConfig(10))
    made.add(list(TEXTS.values()), ids=list(TEXTS))
    return made


def terms_of(index: BM25Index, query: Any, **options: Any) -> dict[str, Any]:
    return {term.term: term for term in index.explain(query, "sale", **options).terms}


def test_each_term_of_a_name_counts(products: BM25Index) -> None:
    terms = terms_of(products, "S5-D2 firmware")
    assert {"s5-d2", "s5", "d2"} <= terms.keys()
    assert all(terms[term].query_weight == pytest.approx(terms[term].idf) for term in ("s5-d2", "s5", "d2"))


def test_a_part_counts_beside_the_name(products: BM25Index) -> None:
    alone, beside = (
        terms_of(products, text, weighting=QueryWeighting(k3=None))["d2"] for text in ("S5-D2", "S5-D2 D2")
    )
    assert beside.query_weight == pytest.approx(alone.query_weight + alone.idf)


def test_a_synonym_of_a_name_weighs_no_more_than_the_name(products: BM25Index) -> None:
    expansion = QueryExpansion({"S5-D2": ["电机"]})
    terms = terms_of(products, "S5-D2", expansion=expansion)
    name = math.fsum(terms[term].query_weight for term in ("s5-d2", "s5", "d2"))
    assert terms["电机"].query_weight <= name * (1 + 1e-9)


@given(
    st.lists(st.sampled_from(["S5-D2", "d2", "S5-D1^2", "固件", "220V", "S5-S5", "unknown1-x"]), min_size=1, max_size=5)
)
def test_the_score_is_the_sum_of_what_is_explained(products: BM25Index, words: list[str]) -> None:
    query = Query.parse(" ".join(words))
    for hit in products.search(query):
        explained = products.explain(query, hit.id)
        assert explained.value == pytest.approx(hit.score)
        assert math.fsum(term.contribution for term in explained.terms) == pytest.approx(hit.score)
