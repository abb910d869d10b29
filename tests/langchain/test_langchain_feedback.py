"""Feedback on every engine that can be had in this process: vectors are read back, and searches are made with them."""

from __future__ import annotations

from typing import Any

import pytest
from support.memory_store import MemoryStore

from rag_bm25 import RM3, RSJ, BM25Index, Rocchio

TEXTS = {
    "1": "解除劳动合同，用人单位应当支付经济补偿。",
    "2": "经济补偿按工作年限支付。",
    "3": "Milvus stores sparse vectors.",
    "4": "Sparse vectors find exact words.",
    "5": "年限不满一年的，按一年计算。",
    "6": "The weather is fine.",
}
EVERY_TERM: dict[str, Any] = {"min_df": 1, "max_df": 1.0}
OPTIONS: list[dict[str, Any]] = [
    {"feedback": RM3(**EVERY_TERM)},
    {"feedback": Rocchio(fb_docs=1, **EVERY_TERM)},
    {"feedback": Rocchio(["2"])},
    {"feedback": Rocchio(["2", "4"], ["5"], gamma=0.5, **EVERY_TERM)},
    {"feedback": RSJ(["2"], fb_terms=0)},
    {"feedback": RSJ(["2", "4"], **EVERY_TERM)},
]


@pytest.fixture
def filled(engine_index: BM25Index) -> BM25Index:
    engine_index.add(list(TEXTS.values()), ids=list(TEXTS))
    return engine_index


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_every_engine_learns_the_same(filled: BM25Index, options: dict[str, Any]) -> None:
    reference = BM25Index.from_store(MemoryStore(), config=filled.config)
    reference.add(list(TEXTS.values()), ids=list(TEXTS))
    for query in ("解除劳动合同", "sparse", "nothing of it"):
        expected = {hit.id: hit.score for hit in reference.search(query, **options)}
        assert {hit.id: hit.score for hit in filled.search(query, **options)} == pytest.approx(expected, rel=1e-5)
        for id_ in TEXTS:
            assert filled.explain(query, id_, **options).value == pytest.approx(expected.get(id_, 0.0), rel=1e-5)


def test_feedback_finds_what_the_query_does_not_say(filled: BM25Index) -> None:
    assert "5" not in {hit.id for hit in filled.search("解除劳动合同")}
    assert "5" in {hit.id for hit in filled.search("解除劳动合同", feedback=Rocchio(["2"], **EVERY_TERM))}
