from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from memory_store import MemoryStore
from reference import split
from strategies import corpora, texts

from rag_bm25 import BM25Index, IndexConfig, InputError, ParameterError
from rag_bm25.langchain import MilvusBM25VectorStore
from rag_bm25.langchain.diversity import diverse

TEXTS = {
    "a": "apple banana",
    "b": "apple banana grape",
    "c": "apple cherry",
    "d": "fig fig fig",
    "e": "grape",
    "f": "cherry",
}


@pytest.fixture
def vectorstore(index: BM25Index) -> MilvusBM25VectorStore:
    return MilvusBM25VectorStore.from_texts(
        list(TEXTS.values()), metadatas=[{"n": n} for n in range(6)], ids=list(TEXTS), index=index
    )


def ids(documents: list[Document]) -> list[str | None]:
    return [document.id for document in documents]


class TestWriting:
    def test_from_documents_keeps_ids_and_metadata(self, index: BM25Index) -> None:
        documents = [Document("apple", metadata={"id": 1}, id="x"), Document("fig", metadata={"id": 2}, id="y")]
        store = MilvusBM25VectorStore.from_documents(documents, None, index=index)
        assert store.get_by_ids(["x", "y", "z"]) == documents

    def test_goes_into_the_namespace_of_the_store(self, index: BM25Index) -> None:
        store = MilvusBM25VectorStore(index, namespace="tenant")
        store.add_texts(["apple"], ids=["x"])
        assert (ids(store.get_by_ids(["x"])), index.get(["x"])) == (["x"], [])
        assert ids(store.similarity_search("apple")) == ["x"]

    def test_takes_ids_for_some(self, index: BM25Index) -> None:
        store = MilvusBM25VectorStore(index)
        first, second = store.add_documents([Document("apple", id="x"), Document("fig")])
        assert first == "x"
        assert store.get_by_ids([second])[0].page_content == "fig"

    def test_refuses_too_few_ids(self, vectorstore: MilvusBM25VectorStore) -> None:
        with pytest.raises(InputError, match="ids and texts must have the same length"):
            vectorstore.add_texts(["a", "b"], ids=["1"])

    def test_refuses_keywords_that_it_does_not_know(self, vectorstore: MilvusBM25VectorStore) -> None:
        with pytest.raises(TypeError, match="partition"):
            vectorstore.add_texts(["a"], partition="p")

    def test_takes_any_iterable(self, index: BM25Index) -> None:
        MilvusBM25VectorStore(index).add_texts(iter(["apple", "fig"]), batch_size=1)
        assert index.stats().num_chunks == 2


class TestDeleting:
    def test_by_ids_ignores_missing_ones(self, vectorstore: MilvusBM25VectorStore, index: BM25Index) -> None:
        assert vectorstore.delete(["a", "nobody"]) is True
        assert index.stats().num_chunks == 5

    def test_by_filter(self, vectorstore: MilvusBM25VectorStore, index: BM25Index) -> None:
        vectorstore.delete(filter={"n": {"$lt": 4}})
        assert index.stats().num_chunks == 2

    def test_without_either_empties_its_namespace_alone(
        self, vectorstore: MilvusBM25VectorStore, index: BM25Index
    ) -> None:
        index.add(["apple"], namespace="other")
        vectorstore.delete()
        assert [chunk.namespace for chunk in index.chunks(namespace=None)] == ["other"]
        assert index.verify().ok

    def test_no_ids_deletes_nothing(self, vectorstore: MilvusBM25VectorStore, index: BM25Index) -> None:
        vectorstore.delete([])
        assert index.stats().num_chunks == 6


class TestScores:
    def test_are_those_of_the_index(self, vectorstore: MilvusBM25VectorStore, index: BM25Index) -> None:
        found = vectorstore.similarity_search_with_score("apple grape", k=3)
        assert [(document.id, score) for document, score in found] == [
            (hit.id, hit.score) for hit in index.search("apple grape", 3)
        ]

    def test_of_relevance_are_shares_of_the_greatest_possible_score(self, vectorstore: MilvusBM25VectorStore) -> None:
        (document, relevance), *_ = vectorstore.similarity_search_with_relevance_scores("fig", k=1)
        assert document.id == "d"
        assert relevance == pytest.approx(3 / (3 + 1.5 * (0.25 + 0.75 * 3 / 4)))

    def test_of_relevance_weigh_as_the_search_does(self, vectorstore: MilvusBM25VectorStore) -> None:
        options: dict[str, Any] = {"idf": "lucene", "k3": 0.5, "filter": {"n": 3}}
        (_, plain), *_ = vectorstore.similarity_search_with_relevance_scores("fig")
        (_, other), *_ = vectorstore.similarity_search_with_relevance_scores("fig fig", **options)
        assert other == pytest.approx(plain)

    @given(corpora(min_size=1), texts())
    def test_of_relevance_are_in_0_1_and_rank_as_scores_do(self, corpus: dict[str, str], query: str) -> None:
        config = IndexConfig(chunk_size=4, length_unit="terms", analyzer=split)
        index = BM25Index.from_store(MemoryStore(), config=config)
        store = MilvusBM25VectorStore.from_texts(list(corpus.values()), ids=list(corpus), index=index)
        found = store.similarity_search_with_relevance_scores(query)
        relevance = [score for _, score in found]
        assert all(0 < score <= 1 for score in relevance)
        assert relevance == sorted(relevance, reverse=True)
        assert [document for document, _ in found] == store.similarity_search(query)

    def test_below_the_threshold_are_left_out(self, vectorstore: MilvusBM25VectorStore) -> None:
        found = vectorstore.similarity_search_with_relevance_scores("apple grape")
        lowest = found[1][1]
        retriever = vectorstore.as_retriever(
            search_type="similarity_score_threshold", search_kwargs={"score_threshold": lowest}
        )
        assert retriever.invoke("apple grape") == [document for document, _ in found[:2]]

    def test_of_relevance_are_the_same_when_awaited(self, vectorstore: MilvusBM25VectorStore) -> None:
        awaited = asyncio.run(vectorstore.asimilarity_search_with_relevance_scores("apple grape", k=2))
        assert awaited == vectorstore.similarity_search_with_relevance_scores("apple grape", k=2)


class TestMaximalMarginalRelevance:
    def test_prefers_what_is_not_there_yet(self, vectorstore: MilvusBM25VectorStore) -> None:
        query = "apple banana"
        assert ids(vectorstore.similarity_search(query, k=2, idf="lucene")) == ["a", "b"]
        assert ids(vectorstore.max_marginal_relevance_search(query, k=2, idf="lucene")) == ["a", "c"]

    def test_ranks_by_the_score_alone_at_lambda_1(self, vectorstore: MilvusBM25VectorStore) -> None:
        query = "apple banana"
        assert vectorstore.max_marginal_relevance_search(query, lambda_mult=1) == vectorstore.similarity_search(query)

    def test_chooses_among_the_first_fetch_k(self, vectorstore: MilvusBM25VectorStore) -> None:
        found = vectorstore.max_marginal_relevance_search("apple banana", k=2, fetch_k=2, lambda_mult=0)
        assert set(ids(found)) == {"a", "b"}

    def test_of_an_unknown_query_is_empty(self, vectorstore: MilvusBM25VectorStore) -> None:
        assert vectorstore.max_marginal_relevance_search("nothing") == []

    def test_refuses_a_lambda_out_of_range(self, vectorstore: MilvusBM25VectorStore) -> None:
        with pytest.raises(ParameterError, match=r"lambda_mult must be in \[0, 1\], got 1.5"):
            vectorstore.max_marginal_relevance_search("apple", lambda_mult=1.5)

    @given(st.data())
    def test_chooses_each_candidate_once(self, data: st.DataObject) -> None:
        n, k = data.draw(st.integers(0, 6)), data.draw(st.integers(1, 8))
        numbers = st.floats(0, 1)
        relevance = np.array(data.draw(st.lists(numbers, min_size=n, max_size=n)), float)
        similarity = np.array(data.draw(st.lists(numbers, min_size=n * n, max_size=n * n)), float).reshape(n, n)
        chosen = diverse(relevance, similarity, data.draw(numbers), k)
        assert len(chosen) == len(set(chosen)) == min(n, k)


class TestRetriever:
    @pytest.mark.parametrize(
        ("search_type", "options"),
        [("similarity", {}), ("mmr", {"lambda_mult": 0.5}), ("similarity_score_threshold", {"score_threshold": 0.01})],
    )
    def test_takes_filter_k_and_weighing_in_every_search_type(
        self, vectorstore: MilvusBM25VectorStore, search_type: str, options: dict[str, Any]
    ) -> None:
        retriever = vectorstore.as_retriever(
            search_type=search_type, search_kwargs={"k": 2, "filter": {"n": {"$gt": 0}}, "idf": "lucene", **options}
        )
        found = retriever.invoke("apple banana grape")
        assert ids(found)[0] == "b"
        assert len(found) == 2
        assert asyncio.run(retriever.ainvoke("apple banana grape")) == found
        assert len(retriever.invoke("apple banana grape", k=1)) == 1


class TestPadding:
    def test_fills_up_with_others_at_score_0(self, vectorstore: MilvusBM25VectorStore, index: BM25Index) -> None:
        padded = MilvusBM25VectorStore(index, pad_results=True)
        found = padded.similarity_search_with_score("fig", k=3)
        assert [score > 0 for _, score in found] == [True, False, False]
        assert len({document.id for document, _ in found}) == 3

    def test_fits_the_filter_and_stops_where_there_are_no_more(
        self, vectorstore: MilvusBM25VectorStore, index: BM25Index
    ) -> None:
        padded = MilvusBM25VectorStore(index, pad_results=True)
        assert sorted(map(str, ids(padded.similarity_search("fig", k=9, filter={"n": {"$gte": 3}})))) == ["d", "e", "f"]

    def test_has_relevance_0(self, vectorstore: MilvusBM25VectorStore, index: BM25Index) -> None:
        padded = MilvusBM25VectorStore(index, pad_results=True)
        assert [score for _, score in padded.similarity_search_with_relevance_scores("nothing", k=2)] == [0, 0]
