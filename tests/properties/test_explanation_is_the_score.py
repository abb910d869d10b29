"""Every sum and product of an explanation equals its parts, and its root is the score that was found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.indexes import check, config_of, nodes
from support.memory_store import MemoryStore
from support.reference import in_all_channels, relevance_weight, split
from support.strategies import corpora, query_weightings, texts, weightings, words

from rag_bm25 import (
    MMR,
    BM25Index,
    Decay,
    Explanation,
    Grouping,
    Hit,
    IndexConfig,
    Query,
    QueryExpansion,
    ScoreExplanation,
    Synonyms,
    ValueBoost,
)
from rag_bm25.documents.encoder import LengthUnit
from rag_bm25.hits.options import SearchOptions
from rag_bm25.query.feedback import RSJ
from rag_bm25.weighting.document import DocumentWeighting
from rag_bm25.weighting.query import QueryWeighting


@given(
    corpora(min_size=1),
    texts(),
    weightings(max_fields=2),
    query_weightings,
    st.sampled_from(["characters", "terms"]),
    texts(),
)
def test_explanations_add_up_to_the_scores(
    chunks: dict[str, str],
    query: str,
    document: DocumentWeighting,
    weighting: QueryWeighting,
    unit: LengthUnit,
    field: str,
) -> None:
    config = replace(
        config_of(document, weighting, unit),
        analyzer=in_all_channels,
        bigram_weight=weighting.bigram_weight,
        character_weight=weighting.character_weight,
        latin_weight=weighting.latin_weight,
    )
    index = BM25Index.from_store(MemoryStore(), config=config)
    metadatas = [dict.fromkeys(document.fields, field)] * len(chunks)
    index.add(list(chunks.values()), ids=list(chunks), metadatas=metadatas)
    found = {hit.id: hit.score for hit in index.search(query, 100)}
    for id_ in chunks:
        explanation = index.explain(query, id_)
        assert explanation.value == pytest.approx(found.get(id_, 0.0), rel=1e-5)
        for node in nodes(explanation):
            check(node)


@given(corpora(min_size=1), corpora(min_size=1), texts())
def test_explanation_uses_the_statistics_that_the_search_used(
    one: dict[str, str], other: dict[str, str], query: str
) -> None:
    index = BM25Index.from_store(MemoryStore(), config=IndexConfig(chunk_size=4, analyzer=split))
    index.add(list(one.values()), ids=list(one))
    index.add(list(other.values()), ids=list(other), namespace="x")
    for hit in index.search(query, namespace="x"):
        assert index.explain(query, hit.id, namespace="x").value == pytest.approx(hit.score, rel=1e-5)
    for hit in index.search(query, namespace=None):
        explanation = index.explain(query, hit.id, namespace=hit.namespace, statistics="all")
        assert explanation.value == pytest.approx(hit.score, rel=1e-5)


EVERY_TERM = {"min_df": 1, "max_df": 1.0}
SPACES = ["", "x", "y"]


@given(st.tuples(*[corpora(max_size=4)] * 3), texts(), query_weightings, st.data())
def test_every_search_can_be_explained(
    chunks: tuple[dict[str, str], ...], text: str, weighting: QueryWeighting, data: st.DataObject
) -> None:
    config = IndexConfig(
        4,
        length_unit="terms",
        analyzer=in_all_channels,
        bigram_weight=weighting.bigram_weight,
        character_weight=weighting.character_weight,
        latin_weight=weighting.latin_weight,
    )
    index = BM25Index.from_store(MemoryStore(), config=config)
    for namespace, some in zip(SPACES, chunks, strict=True):
        metadatas = [{"n": number % 2} for number in range(len(some))]
        index.add(list(some.values()), ids=list(some), namespace=namespace, metadatas=metadatas)
    searched: Any = {
        "namespace": data.draw(st.none() | st.sampled_from(SPACES) | st.lists(st.sampled_from(SPACES), min_size=1)),
        "statistics": data.draw(st.sampled_from(["namespace", "all", {"n": 0}, {"n": {"$exists": True}}])),
        "filter": data.draw(st.none() | st.just({"n": 1})),
        "boosts": data.draw(st.sampled_from([None, [ValueBoost("n", {1: 2.5})], [Decay("n", 1, 0), *BOOSTS]])),
        "rerank": data.draw(st.sampled_from([None, by_length_and_place])),
        "group": data.draw(st.sampled_from([None, Grouping("n")])),
        "diversity": data.draw(st.sampled_from([None, MMR(0.5)])),
        "feedback": data.draw(st.sampled_from([None, RSJ([], **EVERY_TERM)])),
        "expansion": data.draw(st.none() | st.just(QueryExpansion(Synonyms.of({"apple": ["fig", "中文"]})))),
        "min_should_match": data.draw(st.none() | st.sampled_from([1, 2, "75%"])),
        "weighting": QueryWeighting(idf=weighting.idf, k3=weighting.k3, epsilon=weighting.epsilon),
        "min_score": data.draw(st.sampled_from([None, 0.5])),
    }
    conditions = (st.lists(words, max_size=1) for _ in ("must", "must_not", "phrases"))
    query = Query(text, *map(data.draw, conditions))
    k = data.draw(st.sampled_from([1, 3, 100]))
    for rank, hit in enumerate(index.search(query, k, **searched), 1):
        explained = index.explain(query, hit.id, chunk_namespace=hit.namespace, k=k, **searched)
        assert explained.value == pytest.approx(hit.score, rel=1e-5)
        assert explained.reason == ""
        check_terms(explained)
        if explained.placement is not None:
            assert (explained.placement.rank, explained.placement.group_score) == (rank, hit.group_score)


BOOSTS = [ValueBoost("n", {0: 0.5}, default=3.0)]


def by_length_and_place(_: str, hits: Sequence[Hit]) -> list[float]:
    """Score a hit by the others, as rerankers of lists do."""
    return [len(hit.text) + place / len(hits) for place, hit in enumerate(hits)]


def check_terms(explained: ScoreExplanation) -> None:
    """Recompute the score from the numbers in fields."""
    for term in explained.terms:
        assert term.contribution == term.query_weight * term.weight
        assert term.query_weight == pytest.approx(term.idf * math.prod(term.factors.values()), rel=1e-6)
        assert (term.tf > 0) == (term.weight > 0) == (term.contribution > 0) or not term.query_weight
        assert term.df <= explained.num_chunks
    total = math.fsum(term.contribution for term in explained.terms)
    assert total == pytest.approx(explained.bm25_score, rel=1e-9)
    if explained.placement is None or not explained.placement.reranker:
        factors = math.prod(factor.value for factor in explained.factors)
        assert total * factors == pytest.approx(explained.value, rel=1e-9)


@given(
    corpora(min_size=1),
    texts(),
    query_weightings,
    st.data(),
)
def test_explanations_with_feedback_add_up_to_the_scores(
    chunks: dict[str, str], query: str, weighting: QueryWeighting, data: st.DataObject
) -> None:
    own = {"epsilon": weighting.epsilon, "idf": weighting.idf, "k3": weighting.k3}
    config = IndexConfig(4, length_unit="terms", analyzer=split, **own)
    index = BM25Index.from_store(MemoryStore(), config=config)
    index.add(list(chunks.values()), ids=list(chunks))
    marks = data.draw(st.permutations(sorted(chunks)))[: data.draw(st.integers(0, 2))]
    options: SearchOptions = {"feedback": RSJ(marks, **EVERY_TERM)}
    found = {hit.id: hit.score for hit in index.search(query, 100, **options)}
    for id_ in chunks:
        explanation = index.explain(query, id_, **options)
        assert explanation.value == pytest.approx(found.get(id_, 0.0), rel=1e-5)
        for node in nodes(explanation):
            check(node)
            check_feedback(node)


def check_feedback(node: Explanation) -> None:
    if node.description.startswith("w, relevance weight"):
        df, n, r, num_relevant = (int(detail.value) for detail in node.details)
        assert node.value == pytest.approx(relevance_weight(df, n, r, num_relevant), rel=1e-9, abs=1e-12)
