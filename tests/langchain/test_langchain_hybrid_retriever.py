from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from pydantic import ValidationError
from support.langchain_models import Letters, vector_of
from support.memory_store import MemoryStore

from rag_bm25 import RRF, BM25Index, InputError, QueryWeighting, Weighted
from rag_bm25.langchain import MilvusHybridRetriever

# The letters decide what is similar: "c" means what "gag" means, though they share no word.
DOCUMENTS = [
    Document("fade bead", metadata={"page": 1, "id": "not the id"}, id="a"),
    Document("bead bead", metadata={"page": 2}, id="b"),
    Document("gag", metadata={"page": 3, "nested": {"tags": ["x"]}}, id="c"),
    Document("fade gag hedge", metadata={"page": 4}, id="d"),
    Document("hhh", metadata={"page": 5}, id="e"),
]
QUERIES = ["fade", "ggga", "nothing known", "bead hedge"]
LUCENE = QueryWeighting(idf="lucene")
FUSIONS = [RRF(), RRF(k=1), Weighted(), Weighted(0.3, 0.7), Weighted(normalization="min-max")]


class FailingAtBead(Letters):
    def embed_query(self, text: str) -> list[float]:
        if text == "bead":
            raise ConnectionError("the key sk-123 is wrong")
        return vector_of(text)

    async def aembed_query(self, text: str) -> list[float]:
        return self.embed_query(text)


def ids(documents: list[Document]) -> list[str | None]:
    return [document.id for document in documents]


@pytest.fixture
def model() -> Letters:
    return Letters()


@pytest.fixture
def retriever(dense_index: BM25Index, model: Letters) -> MilvusHybridRetriever:
    return MilvusHybridRetriever.from_documents(DOCUMENTS, index=dense_index, embedding=model, k=5)


def ways(retriever: MilvusHybridRetriever, query: str, **options: Any) -> list[list[Document]]:
    """The answer by every way to ask."""
    return [
        retriever.invoke(query, **options),
        asyncio.run(retriever.ainvoke(query, **options)),
        *retriever.batch([query], **options),
        *asyncio.run(retriever.abatch([query], **options)),
    ]


class TestModes:
    @pytest.mark.parametrize("query", QUERIES)
    @pytest.mark.parametrize("fusion", FUSIONS, ids=str)
    def test_hybrid_is_the_index_s_hybrid_search(
        self, retriever: MilvusHybridRetriever, dense_index: BM25Index, query: str, fusion: RRF | Weighted
    ) -> None:
        expected = [(hit.id, hit.score) for hit in dense_index.search_hybrid(query, vector_of(query), 5, fusion=fusion)]
        for found in ways(retriever, query, fusion=fusion, score_key="score"):
            assert [(document.id, document.metadata["score"]) for document in found] == expected

    def test_the_fusion_that_the_index_was_set_to_is_the_default(
        self, retriever: MilvusHybridRetriever, dense_index: BM25Index
    ) -> None:
        dense_index.set_query_defaults(fusion=Weighted(0, 1))
        expected = ids(retriever.invoke("fade", mode="dense"))
        assert [ids(found) for found in ways(retriever, "fade")] == [expected] * 4
        assert ids(retriever.invoke("fade", fusion=Weighted(1, 0)))[:2] == ["a", "d"]

    @pytest.mark.parametrize("query", QUERIES)
    def test_one_arm_is_its_own_search(
        self, retriever: MilvusHybridRetriever, dense_index: BM25Index, query: str
    ) -> None:
        hits = {
            "sparse": dense_index.search(query, 5, weighting=LUCENE),
            "dense": dense_index.search_dense(vector_of(query), 5),
        }
        for mode, expected in hits.items():
            for found in ways(retriever, query, mode=mode, weighting=LUCENE):
                assert ids(found) == [hit.id for hit in expected]

    def test_each_finds_what_the_other_does_not(self, retriever: MilvusHybridRetriever) -> None:
        assert ids(retriever.invoke("fade", mode="sparse")) == ["a", "d"]
        assert ids(retriever.invoke("ggga", mode="sparse")) == []
        assert ids(retriever.invoke("ggga", mode="dense", k=1)) == ["c"]

    def test_documents_come_back_as_they_were(self, retriever: MilvusHybridRetriever) -> None:
        for mode in ("hybrid", "sparse", "dense"):
            found = retriever.invoke("fade", mode=mode)
            assert all(document in DOCUMENTS for document in found)


class TestScores:
    @pytest.mark.parametrize("fusion", [RRF(), Weighted()], ids=str)
    def test_of_both_arms_are_those_of_each_search(
        self, retriever: MilvusHybridRetriever, dense_index: BM25Index, fusion: RRF | Weighted
    ) -> None:
        lexical = {hit.id: hit.score for hit in dense_index.search("fade bead")}
        dense = {hit.id: hit.score for hit in dense_index.search_dense(vector_of("fade bead"))}
        keys = {"sparse_score_key": "bm25", "dense_score_key": "cosine"}
        for found in ways(retriever, "fade bead", fusion=fusion, dense_k=4, **keys):
            assert len(found) == 4
            for document in found:
                assert document.metadata["bm25"] == lexical.get(document.id, None if isinstance(fusion, RRF) else 0.0)
                assert document.metadata["cosine"] == dense[document.id]

    def test_of_an_arm_that_did_not_find_a_document_are_none(self, retriever: MilvusHybridRetriever) -> None:
        (found,) = retriever.invoke("fade", sparse_filter={"page": 1}, dense_filter={"page": 1}, dense_score_key="x")
        assert found.metadata == {**DOCUMENTS[0].metadata, "x": pytest.approx(1.0, abs=0.5)}
        other = retriever.invoke(
            "fade", fusion=RRF(), sparse_k=1, dense_filter={"page": 5}, dense_score_key="x", sparse_score_key="y"
        )
        assert {
            document.id: (document.metadata["x"] is None, document.metadata["y"] is None) for document in other
        } == {
            "a": (True, False),
            "e": (False, True),
        }

    def test_of_one_arm_alone_are_its_own(self, retriever: MilvusHybridRetriever) -> None:
        keys = {"sparse_score_key": "bm25", "dense_score_key": "cosine", "score_key": "score", "k": 1}
        (sparse,) = retriever.invoke("fade", mode="sparse", **keys)
        assert sparse.metadata["bm25"] == sparse.metadata["score"]
        assert sparse.metadata["cosine"] is None
        (dense,) = retriever.invoke("fade", mode="dense", **keys)
        assert dense.metadata["cosine"] == dense.metadata["score"]
        assert dense.metadata["bm25"] is None


class TestEmbedding:
    def test_is_asked_for_each_query_once_and_natively_where_awaited(
        self, retriever: MilvusHybridRetriever, model: Letters
    ) -> None:
        model.asked.clear()
        retriever.invoke("fade")
        assert model.asked == [("query", "fade")]
        asyncio.run(retriever.ainvoke("gag"))
        asyncio.run(retriever.abatch(["bead", "hedge"]))
        assert model.asked[1:] == [("aquery", "gag"), ("aquery", "bead"), ("aquery", "hedge")]

    def test_is_not_asked_for_a_lexical_search(self, retriever: MilvusHybridRetriever, model: Letters) -> None:
        model.asked.clear()
        ways(retriever, "fade", mode="sparse")
        assert model.asked == []

    def test_missing_is_an_error_where_it_is_needed(self, dense_index: BM25Index) -> None:
        for mode in ("hybrid", "dense"):
            with pytest.raises(ValidationError, match=f"mode '{mode}' needs an embedding"):
                MilvusHybridRetriever(index=dense_index, mode=mode)
        lexical = MilvusHybridRetriever(index=dense_index, mode="sparse")
        assert lexical.invoke("fade") == []
        with pytest.raises(ValidationError, match="mode 'dense' needs an embedding"):
            lexical.invoke("fade", mode="dense")
        with pytest.raises(InputError, match="embeddings must be given: memory has dense_dim=8"):
            MilvusHybridRetriever.from_documents(DOCUMENTS, index=dense_index, mode="sparse")
        assert dense_index.stats().num_chunks == 0

    def test_given_to_an_index_without_dense_vectors_is_an_error(self, index: BM25Index, model: Letters) -> None:
        with pytest.raises(
            ValidationError, match="embedding given, but the index has no dense vectors: it was created"
        ):
            MilvusHybridRetriever.from_documents(DOCUMENTS, index=index, embedding=model)
        assert index.stats().num_chunks == 0

    def test_of_another_dimension_is_an_error(self, retriever: MilvusHybridRetriever, dense_index: BM25Index) -> None:
        class Short(Letters):
            def embed_query(self, text: str) -> list[float]:
                return [1.0]

        with pytest.raises(InputError, match=r"must have the index's dimension, 8, got shape \(1,\)"):
            MilvusHybridRetriever(index=dense_index, embedding=Short()).invoke("fade")

    def test_that_fails_leaves_its_own_query_to_the_words_and_warns(self, retriever: MilvusHybridRetriever) -> None:
        expected = [ids(retriever.invoke("fade")), ids(retriever.invoke("bead", mode="sparse"))]
        failing = MilvusHybridRetriever(index=retriever.index, embedding=FailingAtBead(), k=retriever.k)
        with pytest.warns(UserWarning, match=r"failed with ConnectionError: the hits are those of the words alone$"):
            assert list(map(ids, failing.batch(["fade", "bead"]))) == expected
        with pytest.warns(UserWarning, match="failed with ConnectionError"):
            assert list(map(ids, asyncio.run(failing.abatch(["fade", "bead"])))) == expected

    def test_that_fails_is_an_error_where_nothing_else_is_searched(self, retriever: MilvusHybridRetriever) -> None:
        with pytest.raises(ConnectionError):
            MilvusHybridRetriever(index=retriever.index, embedding=FailingAtBead(), mode="dense").invoke("bead")

    def test_is_not_shown(self, retriever: MilvusHybridRetriever) -> None:
        assert "Letters" not in repr(retriever)
        assert "embedding" not in retriever.model_dump()


class TestBatch:
    def test_of_lexical_queries_is_one_call(self, retriever: MilvusHybridRetriever, dense_store: MemoryStore) -> None:
        before = dense_store.calls.count("search")
        found = retriever.batch(QUERIES, mode="sparse")
        assert dense_store.calls.count("search") == before + 1
        assert found == [retriever.invoke(query, mode="sparse") for query in QUERIES]


class TestTracing:
    def test_names_the_retriever_the_store_and_the_model(self, retriever: MilvusHybridRetriever) -> None:
        told: list[dict[str, Any]] = []

        class Recorder(BaseCallbackHandler):
            def on_retriever_start(self, serialized: Any, query: str, **kwargs: Any) -> None:
                told.append(kwargs["metadata"])

        retriever.invoke("fade", {"callbacks": [Recorder()]})
        expected = {
            "ls_retriever_name": "milvushybrid",
            "ls_vector_store_provider": "Milvus",
            "ls_embedding_provider": "Letters",
        }
        assert told[0].items() >= expected.items()


@pytest.mark.parametrize("mode", ["hybrid", "dense", "sparse"])
def test_32_concurrent_calls_answer_as_one_by_one(dense_engine_index: BM25Index, mode: str) -> None:
    texts = [
        f"{'abcdefgh'[number % 8] * (1 + number % 5)} number {number} of kind {number % 7}" for number in range(200)
    ]
    retriever = MilvusHybridRetriever.from_texts(
        texts, index=dense_engine_index, embedding=Letters(), score_key="score", mode=mode
    )
    queries = [f"number {number} kind {'abcdefgh'[number % 8]}" for number in range(32)]
    one_by_one = [retriever.invoke(query) for query in queries]
    assert len({str(found) for found in one_by_one}) >= 8

    async def all_at_once() -> list[list[Document]]:
        return await asyncio.gather(*map(retriever.ainvoke, queries))

    assert asyncio.run(all_at_once()) == one_by_one
