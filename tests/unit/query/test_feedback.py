from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import reference
from support.memory_store import MemoryStore
from support.strategies import corpora, idf_names, texts

from rag_bm25 import RSJ, BM25Index, IndexConfig, QueryExpansion, QueryWeighting, Synonyms
from rag_bm25.documents.encoder import DocumentEncoder
from rag_bm25.errors import ChunkNotFoundError, InputError
from rag_bm25.query.encoder import QueryEncoder
from rag_bm25.query.feedback import Evidence
from rag_bm25.query.terms import QueryTerm, QueryTerms
from rag_bm25.statistics.corpus import Contribution, CorpusCounts
from rag_bm25.vectors.terms import BIGRAM_MARK, TermIds
from rag_bm25.weighting.document import DocumentWeighting
from rag_bm25.weighting.idf import IdfName
from rag_bm25.weighting.query import DEFAULT_WEIGHTING

EVERY_TERM = {"min_df": 1, "max_df": 1.0}


class World:
    """A corpus without an index: vectors, statistics and what weighs queries."""

    def __init__(self, chunks: dict[str, str], idf: IdfName = "lucene", k3: float | None = None) -> None:
        encoder = DocumentEncoder(reference.split, DocumentWeighting(4.0), "terms")
        encoded = encoder.encode(list(chunks.values()))
        self.tokens = {id_: text.split() for id_, text in chunks.items()}
        self.vectors = dict(zip(chunks, encoded.vectors, strict=True))
        self.statistics = CorpusCounts()
        self.statistics.add(Contribution.of(encoded.vectors, encoded.lengths.tolist()))
        self.encoder = QueryEncoder(reference.split, QueryWeighting(idf=idf, k3=k3).over(DEFAULT_WEIGHTING), TermIds())
        self.names = {TermIds()[token]: token for tokens in self.tokens.values() for token in tokens}

    def learn(self, method: RSJ, query: str, relevant: Iterable[str]) -> QueryTerms:
        vectors = [self.vectors[id_] for id_ in relevant]
        return Evidence(method, vectors, self.encoder, self.statistics, self.names.get).weigh(query)


def weights(terms: QueryTerms) -> dict[str, float]:
    return {term: weight for term, weight in zip(terms.terms, terms.weights.tolist(), strict=True) if weight > 0}


FRUIT = {"1": "apple banana banana", "2": "apple cherry", "3": "fig", "4": "grape grape banana", "5": "apple fig"}


# The binary independence model


@given(corpora(min_size=2), texts(), st.data(), idf_names)
def test_rsj_weighs_by_the_counts(chunks: dict[str, str], query: str, data: st.DataObject, name: IdfName) -> None:
    world = World(chunks, name)
    relevant = data.draw(st.lists(st.sampled_from(sorted(chunks)), min_size=1, unique=True))
    terms = world.learn(RSJ([], fb_terms=0), query, relevant)
    corpus = reference.Corpus(world.tokens)
    for term, weight, qtf in zip(terms.terms, terms.weights.tolist(), terms.qtf.tolist(), strict=True):
        df, r = corpus.df(term), sum(term in world.tokens[id_] for id_ in relevant)
        if not df:
            assert weight == 0
            continue
        informed = reference.relevance_weight(df, corpus.n, r, len(relevant))
        if name == "lucene":
            assert weight == pytest.approx(qtf * math.log1p(math.exp(informed)), rel=1e-9)
        elif name in ("epsilon", "zero") and informed > 1e-9:
            assert weight == pytest.approx(qtf * informed, rel=1e-6)
        else:
            assert weight > 0


def test_rsj_adds_terms_by_their_offer_weight() -> None:
    relevant = {"1": "apple often once", "2": "apple often", "3": "apple"}
    others = {str(at): "often" for at in range(4, 8)} | {str(at): f"filler{at}" for at in range(8, 21)}
    once, often = (reference.relevance_weight(df, 20, r, 3) for df, r in ((1, 1), (6, 2)))
    assert often < once < 2 * often
    terms = World(relevant | others).learn(RSJ([], **EVERY_TERM), "apple", relevant)
    assert terms.terms == ["apple", "often", "once"]
    reasons = ["", "in 2 of 3 relevant chunks", "in 1 of 3 relevant chunks"]
    assert [origin.reason for origin in terms.sources] == reasons


def test_rsj_adds_no_term_that_speaks_against_relevance() -> None:
    chunks = {str(at): "common" for at in range(9)} | {"a": "apple common", "b": "apple"}
    terms = World(chunks).learn(RSJ([], **EVERY_TERM), "apple", ["a", "b"])
    assert terms.terms == ["apple"]


def test_rsj_with_more_marks_than_the_statistics_allow_stays_finite() -> None:
    world = World({"1": "apple", "2": "fig"})
    outside = DocumentEncoder(reference.split, DocumentWeighting(4.0)).encode(["apple"] * 5).vectors
    terms = world.encoder.weigh([QueryTerm("apple"), QueryTerm("fig")], world.statistics, list(outside))
    assert np.isfinite(terms.weights).all()
    assert (terms.weights > 0).all()


def test_rsj_adds_terms_where_the_statistics_are_older_than_the_chunks(recwarn: pytest.WarningsRecorder) -> None:
    world = World({"1": "apple new", **{str(at): "fig" for at in range(2, 7)}})
    now = DocumentEncoder(reference.split, DocumentWeighting(4.0), "terms").encode(["apple new"] * 2).vectors
    evidence = Evidence(RSJ([], **EVERY_TERM), list(now), world.encoder, world.statistics, world.names.get)
    terms = evidence.weigh("apple")
    assert terms.terms == ["apple", "new"]
    counted = reference.relevance_weight(1, 6, 1, 2)  # r = 2 cannot be where df = 1
    assert terms.weights.tolist() == pytest.approx([math.log1p(math.exp(counted))] * 2)
    assert not recwarn.list


@pytest.mark.parametrize(
    ("limits", "added"),
    [
        ({"min_df": 2, "max_df": 1.0}, {"banana", "fig"}),
        ({"min_df": 1, "max_df": 0.05}, {"cherry"}),
        ({"min_df": 1, "max_df": 0.1}, {"banana", "cherry", "fig"}),
        ({"min_df": 2, "max_df": 0.09}, set()),
    ],
)
def test_rare_and_common_terms_are_not_added(limits: dict[str, Any], added: set[str]) -> None:
    world = World(FRUIT | {str(at): f"filler{at}" for at in range(6, 21)})
    terms = world.learn(replace(RSJ([]), **limits), "apple", ["1", "2", "5"])
    assert set(terms.terms) - {"apple"} == added


def test_the_best_terms_alone_are_added() -> None:
    relevant = {"1": "apple often once", "2": "apple often", "3": "apple"}
    world = World(relevant | {str(at): f"filler{at}" for at in range(4, 21)})
    assert world.learn(RSJ([], fb_terms=1, **EVERY_TERM), "apple", relevant).terms == ["apple", "often"]
    assert world.learn(RSJ([], fb_terms=10**30, **EVERY_TERM), "apple", relevant).terms == ["apple", "often", "once"]


def test_terms_without_a_name_and_bigrams_are_not_added() -> None:
    world = World({"1": f"apple banana {BIGRAM_MARK}xy", "2": "apple fig", "3": "grape"})
    world.names = {id_: name for id_, name in world.names.items() if name != "banana"}
    assert world.learn(RSJ([], **EVERY_TERM), "apple", ["1"]).terms == ["apple"]


def test_bigrams_of_the_query_learn_as_its_words_do() -> None:
    bigram = f"{BIGRAM_MARK}xy"
    world = World({"1": f"apple {bigram}", "2": "fig", "3": f"grape {bigram}"})
    terms = world.learn(RSJ([], **EVERY_TERM), f"apple {bigram}", ["1"])
    informed = reference.relevance_weight(2, 3, 1, 1)
    learnt = math.log1p(math.exp(informed)) * DEFAULT_WEIGHTING.bigram_weight
    assert weights(terms)[bigram] == pytest.approx(learnt)


def test_chunk_without_terms_teaches_nothing() -> None:
    terms = World({**FRUIT, "6": ""}).learn(RSJ([], **EVERY_TERM), "apple", ["6"])
    assert weights(terms).keys() == {"apple"}
    assert np.isfinite(terms.weights).all()


def test_weight_that_float32_cannot_tell_from_zero_is_left_out() -> None:
    bigram = f"{BIGRAM_MARK}xy"
    world = World({"1": f"apple {bigram}", "2": "fig"})
    encoder = replace(world.encoder, weighting=replace(DEFAULT_WEIGHTING, bigram_weight=1e-300))
    terms = encoder.terms(f"apple {bigram}", world.statistics)
    assert weights(terms).keys() == {"apple", bigram}
    assert len(terms.vector()) == 1


# Through an index


@pytest.fixture
def filled(index: BM25Index, store: MemoryStore) -> BM25Index:
    index.add(
        ["apple banana", "apple cherry", "banana date", "date elder", "fig"],
        ids=["1", "2", "3", "4", "5"],
        metadatas=[{"page": page} for page in range(1, 6)],
    )
    index.add(["apple quince", "quince"], ids=["1", "9"], namespace="other")
    store.calls.clear()
    return index


def found(index: BM25Index, query: str, **options: Any) -> list[str]:
    return [hit.id for hit in index.search(query, **options)]


def test_feedback_finds_what_shares_no_term_with_the_query(filled: BM25Index) -> None:
    assert set(found(filled, "apple")) == {"1", "2"}
    assert set(found(filled, "apple", feedback=RSJ(["1"], **EVERY_TERM))) == {"1", "2", "3"}


def test_each_query_of_a_batch_learns(filled: BM25Index) -> None:
    queries, method = ["apple", "nothing", "date", ""], RSJ(["1"], **EVERY_TERM)
    batch = filled.search_batch(queries, feedback=method)
    assert batch == [filled.search(query, feedback=method) for query in queries]
    assert filled.search_batch([], feedback=method) == []


def test_feedback_reads_the_marked_chunks_and_searches_once(filled: BM25Index, store: MemoryStore) -> None:
    filled.search("apple", feedback=RSJ(["1"]))  # reads the vocabulary
    store.calls.clear()
    filled.search("apple", feedback=RSJ(["1"], **EVERY_TERM), weighting=QueryWeighting(idf="lucene"))
    assert [call for call in store.calls if call in ("search", "get_chunks")] == ["get_chunks", "search"]


def test_marked_chunks_are_found_again_and_better(filled: BM25Index) -> None:
    assert set(found(filled, "apple", feedback=RSJ(["4"], **EVERY_TERM))) == {"1", "2", "3", "4"}
    plain = filled.search("apple")
    marked = filled.search("apple", feedback=RSJ(["2"], **EVERY_TERM))
    assert marked[0].id == "2"
    assert marked[0].score > max(hit.score for hit in plain)


def test_marked_chunks_alone_are_a_query(filled: BM25Index) -> None:
    assert found(filled, "", feedback=RSJ(["3"], **EVERY_TERM))[0] == "3"


def test_mark_is_an_id_in_any_of_the_namespaces(filled: BM25Index) -> None:
    options: dict[str, Any] = {"feedback": RSJ(["1"], **EVERY_TERM)}
    assert set(found(filled, "fig", **options)) == {"5", "1", "2", "3"}
    assert set(found(filled, "fig", namespace=None, **options)) == {"5", "1", "2", "3", "9"}
    assert set(found(filled, "fig", namespace=["other"], **options)) == {"1"}


def test_added_terms_are_no_words_that_a_chunk_should_have(filled: BM25Index) -> None:
    options: dict[str, Any] = {"feedback": RSJ(["1", "2"], **EVERY_TERM), "min_should_match": "100%"}
    assert set(found(filled, "apple", **options)) == {"1", "2"}
    assert found(filled, "apple banana", **options) == ["1"]
    assert filled.explain("apple", "3", **options).value == 0
    scores = {hit.id: hit.score for hit in filled.search("apple", **options)}
    assert filled.explain("apple", "1", **options).value == pytest.approx(scores["1"], rel=1e-6)


def test_synonyms_of_the_query_learn_like_its_own_words(filled: BM25Index) -> None:
    options: dict[str, Any] = {"expansion": QueryExpansion(synonyms=Synonyms.of({"pome": ["apple"]}))}
    learnt = filled.encode_queries(["pome"], feedback=RSJ(["1", "2"], **EVERY_TERM), **options)[0]
    plain = filled.encode_queries(["pome"], **options)[0]
    apple = TermIds()["apple"]
    assert len(plain) == 1
    assert learnt.get(TermIds()["banana"]) > 0
    assert 0 < plain.get(apple) < learnt.get(apple)


def test_boosts_of_the_query_are_kept(filled: BM25Index) -> None:
    method, apple = RSJ(["2"], **EVERY_TERM), TermIds()["apple"]
    once, twice = (filled.encode_queries([{"apple": boost}], feedback=method)[0] for boost in (1.0, 2.0))
    assert twice.get(apple) == pytest.approx(2 * once.get(apple))


def test_marks_of_nothing_leave_the_query_as_it_is(filled: BM25Index) -> None:
    assert filled.search("apple", feedback=RSJ([])) == filled.search("apple")


def test_statistics_may_be_those_of_the_whole_index(filled: BM25Index) -> None:
    method = RSJ(["2"], **EVERY_TERM)
    by_namespace = filled.search("apple", feedback=method)
    by_all = filled.search("apple", feedback=method, statistics="all")
    assert [hit.score for hit in by_namespace] != [hit.score for hit in by_all]


def test_feedback_that_cannot_be_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        RSJ(["1", ""])
    assert "relevant[1] must not be empty" in str(caught.value)


def test_marked_chunk_that_is_not_there_is_an_error(filled: BM25Index) -> None:
    with pytest.raises(ChunkNotFoundError) as caught:
        filled.search("apple", feedback=RSJ(["1", "9"]))
    assert "no chunk '9', which is given as relevant" in str(caught.value)


def test_explanation_shows_the_counts_of_the_binary_independence_model(filled: BM25Index) -> None:
    text = filled.explain("apple", "1", feedback=RSJ(**EVERY_TERM, relevant=["1", "3"])).tree
    expected = reference.relevance_weight(2, 5, 1, 2)
    assert f"{expected:.6g} = w, relevance weight, ln(((r + 0.5) / (R - r + 0.5))" in text
    assert "1 = r, relevant chunks with the term" in text
    assert "2 = R, relevant chunks" in text
    assert "'banana' (in 2 of 2 relevant chunks), product of:" in text


def test_hybrid_search_learns(store: MemoryStore) -> None:
    index = BM25Index.from_store(store, config=IndexConfig(4, analyzer=reference.split, dense_dim=2))
    index.add(["apple banana", "banana", "fig"], ids=["1", "2", "3"], embeddings=[[1, 0], [0, 1], [1, 1]])
    lexical = {hit.id for hit in index.search_hybrid("apple", [1, 1], dense_k=1) if hit.sparse_score}
    assert lexical == {"1"}
    learnt = index.search_hybrid("apple", [1, 1], dense_k=1, feedback=RSJ(["1"], **EVERY_TERM))
    assert {hit.id for hit in learnt if hit.sparse_score} == {"1", "2"}
