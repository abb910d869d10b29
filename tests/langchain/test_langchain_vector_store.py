from __future__ import annotations

import asyncio
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores.utils import maximal_marginal_relevance
from support.langchain_models import DIM, Letters, vector_of
from support.memory_store import MemoryStore
from support.reference import split
from support.strategies import corpora, texts

from rag_bm25 import (
    RRF,
    RSJ,
    BM25Index,
    FieldWeight,
    IndexConfig,
    InputError,
    ParameterError,
    QueryWeighting,
    Weighted,
)
from rag_bm25.langchain import MilvusBM25VectorStore
from rag_bm25.weighting.formulas import WEIGHTING_NAMES, WEIGHTINGS, WeightingName

TEXTS = {
    "a": "apple banana",
    "b": "apple banana grape",
    "c": "apple cherry",
    "d": "fig fig fig",
    "e": "grape",
    "f": "cherry",
}
LUCENE = QueryWeighting(idf="lucene")
BOUNDED = [name for name in WEIGHTING_NAMES if WEIGHTINGS[name].bounds(1.5, 1.0)[1] < math.inf]


@pytest.fixture
def vectorstore(index: BM25Index) -> MilvusBM25VectorStore:
    return MilvusBM25VectorStore.from_texts(
        list(TEXTS.values()), metadatas=[{"n": n} for n in range(6)], ids=list(TEXTS), index=index
    )


def ids(documents: list[Document]) -> list[str | None]:
    return [document.id for document in documents]


def weighted(form: WeightingName) -> MilvusBM25VectorStore:
    """The same texts, with another weighting."""
    config = IndexConfig(chunk_size=4, length_unit="terms", analyzer=split, weighting=form)
    index = BM25Index.from_store(MemoryStore(), config=config)
    return MilvusBM25VectorStore.from_texts(list(TEXTS.values()), ids=list(TEXTS), index=index)


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
    def test_of_relevance_are_shares_of_the_greatest_possible_score(self, vectorstore: MilvusBM25VectorStore) -> None:
        (document, relevance), *_ = vectorstore.similarity_search_with_relevance_scores("fig", k=1)
        assert document.id == "d"
        assert relevance == pytest.approx(3 / (3 + 1.5 * (0.25 + 0.75 * 3 / 4)))

    def test_of_relevance_weigh_as_the_search_does(self, vectorstore: MilvusBM25VectorStore) -> None:
        options: dict[str, Any] = {"weighting": QueryWeighting(idf="lucene", k3=0.5), "filter": {"n": 3}}
        (_, plain), *_ = vectorstore.similarity_search_with_relevance_scores("fig")
        (_, other), *_ = vectorstore.similarity_search_with_relevance_scores("fig fig", **options)
        assert other == pytest.approx(plain)

    @pytest.mark.parametrize("form", BOUNDED)
    def test_of_relevance_are_shares_of_the_upper_bound_of_the_weighting(self, form: WeightingName) -> None:
        store = weighted(form)
        bound = WEIGHTINGS[form].bounds(1.5, WEIGHTINGS[form].delta or 0.0)[1]
        (query,) = store.index.encode_queries(["apple grape"])
        scores = [hit.score / (bound * sum(query.to_dict().values())) for hit in store.index.search("apple grape", 4)]
        relevance = [score for _, score in store.similarity_search_with_relevance_scores("apple grape", k=4)]
        assert relevance == pytest.approx(scores)
        assert relevance[0] < 0.9

    @pytest.mark.parametrize("form", sorted(set(WEIGHTING_NAMES) - set(BOUNDED)))
    @pytest.mark.parametrize("query", ["fig", "nothing"])
    def test_of_relevance_need_a_weighting_with_an_upper_bound(self, form: WeightingName, query: str) -> None:
        store = weighted(form)
        with pytest.raises(ParameterError, match=f"need a weighting with an upper bound, got '{form}'$"):
            store.similarity_search_with_relevance_scores(query)
        with pytest.raises(ParameterError, match=f"need a weighting with an upper bound, got '{form}'$"):
            store.max_marginal_relevance_search(query)
        assert ids(store.similarity_search("fig")) == ["d"]

    @pytest.mark.parametrize("narrowing", [{"filter": {"n": 2}}, {"sparse_filter": {"n": 2}}, {"min_should_match": 2}])
    def test_of_relevance_belong_to_the_query_that_feedback_made(
        self, vectorstore: MilvusBM25VectorStore, narrowing: dict[str, Any]
    ) -> None:
        query = "apple cherry"
        marked: dict[str, Any] = {"feedback": RSJ(["c"], min_df=1, max_df=1.0)}
        ((document, relevance),) = vectorstore.similarity_search_with_relevance_scores(query, **marked, **narrowing)
        hits = {hit.id: hit.score for hit in vectorstore.index.search(query, **marked)}
        (learnt,) = vectorstore.index.encode_queries([query], **marked)
        assert document.id == "c"
        assert relevance == pytest.approx(hits["c"] / sum(learnt.to_dict().values()))

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


class TestMaximalMarginalRelevance:
    def test_prefers_what_is_not_there_yet(self, vectorstore: MilvusBM25VectorStore) -> None:
        query = "apple banana"
        assert ids(vectorstore.similarity_search(query, k=2, weighting=LUCENE)) == ["a", "b"]
        assert ids(vectorstore.max_marginal_relevance_search(query, k=2, weighting=LUCENE)) == ["a", "c"]

    def test_ranks_by_the_score_alone_at_lambda_1(self, vectorstore: MilvusBM25VectorStore) -> None:
        query = "apple banana"
        assert vectorstore.max_marginal_relevance_search(query, lambda_mult=1) == vectorstore.similarity_search(query)

    def test_chooses_among_the_first_fetch_k(self, vectorstore: MilvusBM25VectorStore) -> None:
        found = vectorstore.max_marginal_relevance_search("apple banana", k=2, fetch_k=2, lambda_mult=0)
        assert set(ids(found)) == {"a", "b"}

    def test_compares_fields_too(self) -> None:
        fields = {"title": FieldWeight(chunk_size=1, weight=5.0)}
        config = IndexConfig(chunk_size=4, length_unit="terms", analyzer=split, fields=fields)
        titles = {"a": "fig", "b": "fig", "c": "grape"}
        store = MilvusBM25VectorStore.from_texts(
            ["apple apple", "apple", "apple"],
            metadatas=[{"title": title} for title in titles.values()],
            ids=list(titles),
            index=BM25Index.from_store(MemoryStore(), config=config),
        )
        # By their texts alone, "b" and "c" would be the same, and "b" would be taken as the first of equals.
        assert ids(store.max_marginal_relevance_search("apple", k=2, weighting=LUCENE)) == ["a", "c"]

    def test_of_an_unknown_query_is_empty(self, vectorstore: MilvusBM25VectorStore) -> None:
        assert vectorstore.max_marginal_relevance_search("nothing") == []

    @pytest.mark.parametrize("wrong", [1.5, float("nan"), "0.5", None])
    def test_refuses_a_lambda_out_of_range(self, vectorstore: MilvusBM25VectorStore, wrong: Any) -> None:
        with pytest.raises(ParameterError, match=r"lambda_mult must be a number in \[0, 1\], got "):
            vectorstore.max_marginal_relevance_search("apple", lambda_mult=wrong)


# Words and letters disagree on purpose, see the tests of the hybrid retriever.
LETTERED = {"a": "fade bead", "b": "bead bead", "c": "gag", "d": "fade gag hedge", "e": "hhh"}
MODES = ["sparse", "dense", "hybrid"]


@pytest.fixture
def model() -> Letters:
    return Letters()


@pytest.fixture
def both(dense_index: BM25Index, model: Letters) -> MilvusBM25VectorStore:
    return MilvusBM25VectorStore.from_texts(
        list(LETTERED.values()), model, [{"n": n} for n in range(5)], ids=list(LETTERED), index=dense_index
    )


class TestDenseVectors:
    def test_are_searched_with_the_words_where_there_is_an_embedding(
        self, both: MilvusBM25VectorStore, dense_index: BM25Index
    ) -> None:
        hits = dense_index.search_hybrid("fade", vector_of("fade"), 4)
        assert ids(both.similarity_search("fade")) == [hit.id for hit in hits]
        assert both.embeddings is both.embedding
        assert ids(MilvusBM25VectorStore(dense_index).similarity_search("fade")) == ["a", "d"]

    @pytest.mark.parametrize("mode", MODES)
    def test_are_searched_as_the_constructor_or_the_call_says(
        self, both: MilvusBM25VectorStore, dense_index: BM25Index, model: Letters, mode: Any
    ) -> None:
        expected = {
            "sparse": dense_index.search("fade bead", 3),
            "dense": dense_index.search_dense(vector_of("fade bead"), 3),
            "hybrid": dense_index.search_hybrid("fade bead", vector_of("fade bead"), 3),
        }[mode]
        made = MilvusBM25VectorStore(dense_index, embedding=model, mode=mode)
        for found in (
            made.similarity_search_with_score("fade bead", k=3),
            both.similarity_search_with_score("fade bead", k=3, mode=mode),
            asyncio.run(made.asimilarity_search_with_score("fade bead", k=3)),
        ):
            assert [(document.id, score) for document, score in found] == [(hit.id, hit.score) for hit in expected]

    def test_are_found_by_a_vector(self, both: MilvusBM25VectorStore, model: Letters) -> None:
        model.asked.clear()
        found = both.similarity_search_by_vector(vector_of("gg"), k=2)
        assert ids(found) == ["c", "d"]
        assert asyncio.run(both.asimilarity_search_by_vector(vector_of("gg"), k=2)) == found
        assert both.similarity_search("words", k=2, mode="dense", query_embedding=vector_of("gg")) == found
        assert asyncio.run(both.asimilarity_search("", k=2, mode="dense", query_embedding=vector_of("gg"))) == found
        assert model.asked == []

    def test_of_queries_come_from_the_model_s_coroutine_where_awaited(
        self, both: MilvusBM25VectorStore, model: Letters
    ) -> None:
        model.asked.clear()
        asyncio.run(both.asimilarity_search("fade"))
        asyncio.run(both.asimilarity_search_with_score("fade"))
        asyncio.run(both.asimilarity_search_with_relevance_scores("fade"))
        asyncio.run(both.amax_marginal_relevance_search("fade"))
        asyncio.run(both.asimilarity_search("fade", mode="sparse"))
        assert model.asked == [("aquery", "fade")] * 4

    def test_are_made_for_new_and_changed_texts_alone(self, both: MilvusBM25VectorStore, model: Letters) -> None:
        model.asked.clear()
        both.add_texts(["gag", "egg", "cab"], [{"n": 9}, {}, {}], ids=["c", "d", "f"])
        assert model.asked == [("documents", "egg"), ("documents", "cab")]
        both.add_texts(["gag"], [{"n": 9}], ids=["c"], reembed=True)
        assert model.asked[2:] == [("documents", "gag")]
        both.add_texts(["gag"], [{"n": 9}], ids=["c"], embeddings=[vector_of("hhh")])
        assert len(model.asked) == 3
        assert set(ids(both.similarity_search("h", k=2, mode="dense"))) == {"c", "e"}
        assert both.index.verify().differences == []

    def test_are_of_contexts_too(self, model: Letters) -> None:
        config = IndexConfig(chunk_size=10, fields="default", dense_dim=8)
        with BM25Index.open(":memory:", "docs", config=config) as index:
            store = MilvusBM25VectorStore(index, embedding=model)
            told = Document("egg", id="a", metadata={"chunk_context": "hhh"})
            store.add_documents([told, Document("cab", id="b")])
            assert model.asked == [("documents", "hhh\negg"), ("documents", "cab")]
            for options in ({}, {"reembed": True}):
                model.asked.clear()
                store.add_documents([told], **options)
                assert model.asked == [("documents", "hhh\negg")] * len(options)
            assert ids(store.similarity_search("hhh", k=1, mode="sparse")) == ["a"]
            assert ids(store.similarity_search("hhh", k=1, mode="dense")) == ["a"]

    def test_need_an_embedding(self, dense_index: BM25Index) -> None:
        store = MilvusBM25VectorStore(dense_index)
        with pytest.raises(InputError, match="embeddings must be given: memory has dense_dim=8"):
            store.add_texts(["apple"])
        for mode in ("dense", "hybrid"):
            with pytest.raises(InputError, match=f"mode '{mode}' needs an embedding model, and none was given"):
                store.similarity_search("apple", mode=mode)

    def test_need_an_index_that_has_them(self, index: BM25Index, model: Letters) -> None:
        with pytest.raises(InputError, match="embedding given, but the index has no dense vectors"):
            MilvusBM25VectorStore.from_texts(["apple"], model, index=index)
        with pytest.raises(InputError, match="get_embeddings called, but memory has no dense vectors"):
            index.get_embeddings(["a"])

    def test_are_not_searched_in_other_modes(self, both: MilvusBM25VectorStore, dense_index: BM25Index) -> None:
        with pytest.raises(ParameterError, match="mode must be one of hybrid, sparse, dense, got 'lexical'"):
            both.similarity_search("fade", mode="lexical")
        with pytest.raises(ParameterError, match="mode must be one of hybrid, sparse, dense, got 7"):
            MilvusBM25VectorStore(dense_index, mode=7)  # type: ignore[arg-type]


class TestRelevanceOfDenseVectors:
    @pytest.mark.parametrize("query", ["fade", "gag hhh", "unknown", ""])
    @pytest.mark.parametrize(
        "options",
        [
            {"mode": "sparse"},
            {"mode": "dense"},
            {"fusion": "rrf"},
            {"fusion": RRF(k=0.5)},
            {"fusion": Weighted(3, 1)},
            {"fusion": Weighted(0.2, 0.9, "min-max")},
        ],
        ids=str,
    )
    def test_is_in_0_1_and_ranks_as_scores_do(
        self, both: MilvusBM25VectorStore, options: dict[str, Any], query: str
    ) -> None:
        found = both.similarity_search_with_relevance_scores(query, k=5, **options)
        relevance = [score for _, score in found]
        assert all(0 <= score <= 1 for score in relevance)
        assert relevance == sorted(relevance, reverse=True)
        assert [document for document, _ in found] == both.similarity_search(query, k=5, **options)
        assert asyncio.run(both.asimilarity_search_with_relevance_scores(query, k=5, **options)) == found

    def test_of_a_cosine_is_brought_to_0_1(self, both: MilvusBM25VectorStore) -> None:
        opposite = [-number for number in vector_of("gag")]
        ((_, same),) = both.similarity_search_with_relevance_scores("gag", k=1, mode="dense")
        found = both.similarity_search_with_relevance_scores("", k=5, mode="dense", query_embedding=opposite)
        assert same == pytest.approx(1, abs=1e-6)
        assert found[-1] == (both.get_by_ids(["c"])[0], pytest.approx(0, abs=1e-6))

    @pytest.mark.parametrize("fusion", [RRF(), Weighted(0.2, 2.0, "min-max")], ids=str)
    def test_of_who_is_best_in_both_arms_is_1(self, both: MilvusBM25VectorStore, fusion: Any) -> None:
        (document, relevance), *_ = both.similarity_search_with_relevance_scores("fade bead", fusion=fusion)
        assert (document.id, relevance) == ("a", pytest.approx(1))

    @pytest.mark.parametrize(
        ("fusion", "greatest"),
        [
            (RRF(), 2 / 61),
            (RRF(k=1), 1),
            (Weighted(), 20),  # sqrt(2 * 200)
            (Weighted(0.2, 2, "min-max"), 2.2),
        ],
        ids=str,
    )
    def test_of_fused_scores_is_their_share_of_the_greatest(
        self, both: MilvusBM25VectorStore, fusion: Any, greatest: float
    ) -> None:
        scores = [score for _, score in both.similarity_search_with_score("gag bead", fusion=fusion)]
        found = both.similarity_search_with_relevance_scores("gag bead", fusion=fusion)
        assert [score for _, score in found] == pytest.approx([score / greatest for score in scores])

    def test_of_inner_products_is_cut_off(self) -> None:
        config = IndexConfig(chunk_size=4, analyzer=split, dense_dim=DIM, dense_metric="IP")
        index = BM25Index.from_store(MemoryStore(), config=config)
        store = MilvusBM25VectorStore.from_texts(["aaa", "b"], Letters(), index=index, mode="dense")
        assert store.similarity_search_with_relevance_scores("aaa", k=1)[0][1] == 1
        opposite = [-9.0 * number for number in vector_of("aaa")]
        found = store.similarity_search_with_relevance_scores("", query_embedding=opposite)
        assert found[-1][1] == 0


class TestMaximalMarginalRelevanceOfDenseVectors:
    @given(
        st.lists(st.text("abcdefgh", max_size=4), min_size=1, max_size=12, unique=True),
        st.text("xyz", min_size=1),  # another text than any stored one: that would make all choices equal
        st.integers(1, 6),
        st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]),
    )
    def test_is_that_of_langchain(self, texts: list[str], query: str, k: int, lambda_mult: float) -> None:
        model = DeterministicFakeEmbedding(size=DIM)  # random directions, so that there are no ties to break
        config = IndexConfig(chunk_size=4, analyzer=split, dense_dim=DIM)
        store = MilvusBM25VectorStore.from_texts(
            texts, model, index=BM25Index.from_store(MemoryStore(), config=config), mode="dense"
        )
        candidates = store.similarity_search(query, k=20)
        vectors = model.embed_documents([document.page_content for document in candidates])
        chosen = maximal_marginal_relevance(np.array(model.embed_query(query)), vectors, lambda_mult, k)
        found = store.max_marginal_relevance_search(query, k, lambda_mult=lambda_mult)
        assert found == [candidates[at] for at in chosen]

    @pytest.mark.parametrize("mode", ["dense", "hybrid"])
    def test_prefers_what_is_not_there_yet(self, both: MilvusBM25VectorStore, mode: str) -> None:
        both.add_texts(["fade bead bead", "fad bead"], ids=["f", "g"])
        options: dict[str, Any] = {"mode": mode, "k": 3}
        assert set(ids(both.similarity_search("fade bead", **options))) <= {"a", "b", "f", "g"}
        diverse = both.max_marginal_relevance_search("fade bead", **options, lambda_mult=0.3)
        assert {"c", "d", "e"} & set(ids(diverse))
        assert both.max_marginal_relevance_search("fade bead", **options, lambda_mult=1) == both.similarity_search(
            "fade bead", **options
        )
        assert asyncio.run(both.amax_marginal_relevance_search("fade bead", **options, lambda_mult=0.3)) == diverse

    def test_takes_a_vector(self, both: MilvusBM25VectorStore) -> None:
        expected = both.max_marginal_relevance_search("gag", k=3, mode="dense")
        assert both.max_marginal_relevance_search_by_vector(vector_of("gag"), k=3) == expected
        assert asyncio.run(both.amax_marginal_relevance_search_by_vector(vector_of("gag"), k=3)) == expected

    def test_looks_into_every_namespace(self, both: MilvusBM25VectorStore) -> None:
        both.add_texts(["gag"], ids=["c"], namespace="other")
        found = both.max_marginal_relevance_search("gag", k=9, mode="dense", namespace=None)
        assert sorted(map(str, ids(found))) == ["a", "b", "c", "c", "d", "e"]

    @pytest.mark.parametrize("deleted", ["c", "abcde"])
    def test_leaves_out_what_was_deleted_meanwhile(
        self, both: MilvusBM25VectorStore, dense_index: BM25Index, dense_store: MemoryStore, deleted: str
    ) -> None:
        def delete(method: str) -> None:
            if method == "get_chunks":
                dense_store.on_call = None
                dense_index.delete(list(deleted))

        dense_store.on_call = delete
        found = ids(both.max_marginal_relevance_search("gag", k=9, mode="dense"))
        assert sorted(map(str, found)) == sorted(set("abcde") - set(deleted))

    def test_of_an_empty_store_is_empty(self, dense_index: BM25Index, model: Letters) -> None:
        store = MilvusBM25VectorStore(dense_index, embedding=model)
        assert store.max_marginal_relevance_search("gag") == []


def test_a_filter_of_an_arm_holds_in_every_mode_that_has_the_arm(both: MilvusBM25VectorStore) -> None:
    only: dict[str, Any] = {"sparse_filter": {"n": {"$lt": 2}}, "dense_filter": {"n": 4}}
    for mode, expected in {"sparse": ["a"], "dense": ["e"], "hybrid": ["a", "e"]}.items():
        assert sorted(map(str, ids(both.similarity_search("fade", k=4, mode=mode, **only)))) == expected


@pytest.mark.parametrize("search_type", ["similarity", "mmr", "similarity_score_threshold"])
def test_a_retriever_takes_modes_in_every_search_type(both: MilvusBM25VectorStore, search_type: str) -> None:
    options = {"k": 1, "mode": "dense", "score_threshold": 0.01, "filter": {"n": {"$gt": 0}}}
    if search_type != "similarity_score_threshold":
        del options["score_threshold"]
    retriever = both.as_retriever(search_type=search_type, search_kwargs=options)
    assert "Letters" in retriever.tags
    assert ids(retriever.invoke("ggga")) == ["c"]
    assert ids(asyncio.run(retriever.ainvoke("ggga"))) == ["c"]
    assert ids(retriever.invoke("fade", mode="sparse", weighting={"idf": "lucene"})) == ["d"]
