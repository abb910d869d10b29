"""Groups, boosts, rerankers and contexts, by every class of LangChain."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.langchain_models import Letters, vector_of

from rag_bm25 import BM25Index, FieldWeight, Grouping, Highlighting, IndexConfig, ParameterError, ValueBoost
from rag_bm25.langchain import (
    MilvusBM25Retriever,
    MilvusBM25VectorStore,
    MilvusHybridRetriever,
    cross_encoder_reranker,
)

TEXTS = ["fade bead", "fade fade", "fade", "gag fade", "fade bead cab"]
IDS = ["a#0", "a#1", "a#2", "b#0", "c#0"]
METADATAS = [{"source": id_[0], "chunk": int(id_[2:])} for id_ in IDS]


class Lengths:
    """A cross-encoder that prefers long texts; langchain-core 1.0 has no base class for it."""

    def score(self, text_pairs: list[tuple[str, str]]) -> list[float]:
        assert {query for query, _ in text_pairs} == {"fade"}
        return [float(len(text)) for _, text in text_pairs]


@pytest.fixture
def index(dense_engine_index: BM25Index) -> BM25Index:
    embeddings = [vector_of(text) for text in TEXTS]
    dense_engine_index.add(TEXTS, ids=IDS, metadatas=METADATAS, embeddings=embeddings)
    return dense_engine_index


def test_a_dense_search_groups_by_source(index: BM25Index) -> None:
    options: dict[str, Any] = {"mode": "dense", "k": 3, "group": Grouping("source")}
    for found in (
        MilvusHybridRetriever(index=index, embedding=Letters(), **options).invoke("fade"),
        MilvusBM25VectorStore(index, embedding=Letters()).similarity_search("fade", **options),
    ):
        assert sorted(document.metadata["source"] for document in found) == ["a", "b", "c"]


def test_scores_are_put_under_keys(index: BM25Index) -> None:
    keys = {"score_key": "score", "group_score_key": "group"}
    retriever = MilvusBM25Retriever(index=index, k=2, group=Grouping("source", score="sum"), **keys)
    best = retriever.invoke("fade")[0].metadata
    assert best["source"] == "a"
    assert best["group"] > best["score"] > 0
    assert retriever.invoke("fade", group=None)[0].metadata["group"] is None


def test_a_cross_encoder_reranks(index: BM25Index) -> None:
    rerank = cross_encoder_reranker(Lengths())
    found = MilvusBM25Retriever(index=index, k=2, rerank=rerank, score_key="score").invoke("fade")
    assert [(document.id, document.metadata["score"]) for document in found] == [("c#0", 13.0), ("a#1", 9.0)]
    hybrid = MilvusHybridRetriever(index=index, embedding=Letters(), k=1, rerank=rerank)
    assert [document.id for document in hybrid.invoke("fade")] == ["c#0"]
    for wrong in (len, Lengths):
        with pytest.raises(ParameterError, match=r"model must be a cross-encoder with a method score\(text_pairs\)"):
            cross_encoder_reranker(wrong)  # type: ignore[arg-type]


def test_boosted_relevance_stays_within_its_range(index: BM25Index) -> None:
    store = MilvusBM25VectorStore(index)
    options: dict[str, Any] = {"boosts": [ValueBoost("source", {"b": 5.0})]}
    found = store.similarity_search_with_relevance_scores("fade", 5, **options)
    plain = {document.id: score for document, score in store.similarity_search_with_relevance_scores("fade", 5)}
    assert found[0][0].id == "b#0"
    assert [score for _, score in found] == pytest.approx(
        [plain[document.id] / (1 if document.id == "b#0" else 5) for document, _ in found]
    )
    with pytest.raises(ParameterError, match="rerank replaces them"):
        store.similarity_search_with_relevance_scores("fade", 5, rerank=cross_encoder_reranker(Lengths()))


def test_what_a_dense_search_cannot_follow_is_refused(index: BM25Index) -> None:
    store = MilvusBM25VectorStore(index, embedding=Letters(), mode="dense")
    reranked = {"rerank": cross_encoder_reranker(Lengths())}
    for options in ({"boosts": [ValueBoost("source", {"b": 5.0})]}, reranked, {"highlight": True}):
        with pytest.raises(ParameterError, match="not supported here"):
            store.similarity_search("fade", **options)


def test_highlights_are_in_the_metadata(index: BM25Index) -> None:
    store = MilvusBM25VectorStore(index, embedding=Letters(), mode="sparse")
    hybrid = MilvusHybridRetriever(index=index, embedding=Letters(), k=1, highlight=True)
    lexical = MilvusBM25Retriever(index=index, k=1, highlight=Highlighting(max_fragments=1))
    (found,) = index.search("cab", 1, highlight=True)
    fragment = {"text": "fade bead cab", "start": 0, "end": 13, "marks": [[10, 13]]}
    for retrieve in (lexical.invoke, hybrid.invoke, lambda query: store.similarity_search(query, 1, highlight=True)):
        (document,) = retrieve("cab")
        (given,) = document.metadata["highlights"]
        assert given == {**fragment, "score": found.highlights[0].score}
    assert "highlights" not in MilvusBM25Retriever(index=index, k=1).invoke("cab")[0].metadata
    json.dumps(document.metadata)


def test_marks_are_places_of_the_text_of_the_document(index: BM25Index) -> None:
    retriever = MilvusBM25Retriever(index=index, k=1, highlight=True, context="document")
    (found,) = retriever.invoke("bead", filter={"source": "a"})
    (fragment,) = found.metadata["highlights"]
    assert [found.page_content[start:end] for start, end in fragment["marks"]] == ["bead"]
    assert found.page_content[fragment["start"] : fragment["end"]] == fragment["text"]


def test_highlights_of_fields_have_their_names() -> None:
    config = IndexConfig(chunk_size=10, fields={"title": FieldWeight(chunk_size=5)})
    with BM25Index.open(":memory:", "titled", config=config) as index:
        index.add(["the text"], metadatas=[{"title": "cab rides"}])
        (found,) = MilvusBM25Retriever(index=index, highlight=True).invoke("cab")
    assert found.metadata["highlights"] == []
    assert [one["marks"] for one in found.metadata["field_highlights"]["title"]] == [[[0, 3]]]
