"""Feedback on every engine that can be had in this process: vectors are read back, and searches are made with them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError
from support.memory_store import MemoryStore

from rag_bm25 import BIM, RM3, BM25Index, Rocchio
from rag_bm25.langchain import MilvusBM25Retriever

if TYPE_CHECKING:
    from langchain_core.documents import Document

    from rag_bm25.query.feedback import Feedback

TEXTS = {
    "1": "解除劳动合同，用人单位应当支付经济补偿。",
    "2": "经济补偿按工作年限支付。",
    "3": "Milvus stores sparse vectors.",
    "4": "Sparse vectors find exact words.",
    "5": "年限不满一年的，按一年计算。",
    "6": "The weather is fine.",
}
EVERY_TERM = {"min_df": 1, "max_df": 1.0}
OPTIONS: list[dict[str, Any]] = [
    {"feedback": RM3(**EVERY_TERM)},
    {"feedback": Rocchio(fb_docs=1, **EVERY_TERM)},
    {"relevant": ["2"]},
    {"relevant": ["2", "4"], "irrelevant": ["5"], "feedback": Rocchio(gamma=0.5, **EVERY_TERM)},
    {"relevant": ["2"], "feedback": BIM(fb_terms=0)},
    {"relevant": ["2", "4"], "feedback": BIM(**EVERY_TERM)},
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
    assert "5" in {hit.id for hit in filled.search("解除劳动合同", relevant=["2"], feedback=Rocchio(**EVERY_TERM))}


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_retriever_takes_feedback_when_made_and_when_called(filled: BM25Index, options: dict[str, Any]) -> None:
    expected = [hit.id for hit in filled.search("解除劳动合同", 4, **options)]
    made = MilvusBM25Retriever.from_index(filled, **options)
    plain = MilvusBM25Retriever.from_index(filled)
    assert ids(made.invoke("解除劳动合同")) == expected
    assert ids(plain.invoke("解除劳动合同", **options)) == expected
    assert ids(asyncio.run(plain.ainvoke("解除劳动合同", **options))) == expected
    assert [ids(found) for found in plain.batch(["解除劳动合同"] * 2, **options)] == [expected] * 2


@pytest.mark.parametrize("feedback", ["rm3", 1, [RM3()]])
def test_retriever_refuses_what_is_no_feedback(filled: BM25Index, feedback: Feedback) -> None:
    with pytest.raises(ValidationError, match="feedback"):
        MilvusBM25Retriever.from_index(filled, feedback=feedback)


def ids(documents: list[Document]) -> list[str | None]:
    return [document.id for document in documents]
