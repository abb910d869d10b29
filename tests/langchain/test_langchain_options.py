"""Every option of a search, by every class and every way to ask: as the definitions have them."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.runnables import ConfigurableField
from pydantic import ValidationError
from support.answers import give_model
from support.langchain_models import Letters, vector_of

from rag_bm25 import (
    MMR,
    RRF,
    RSJ,
    BM25Index,
    Grouping,
    Highlighting,
    Hit,
    ParameterError,
    Query,
    QueryExpansion,
    QueryWeighting,
    ValueBoost,
)
from rag_bm25.definitions import options_of
from rag_bm25.hits.options import SearchOptions
from rag_bm25.index.searching.hybrid import FusionOptions, HybridOptions
from rag_bm25.langchain import MilvusBM25Retriever, MilvusBM25VectorStore, MilvusHybridRetriever

TEXTS = {"a": "fade bead", "b": "fade fade gag", "c": "gag bead", "d": "fade", "e": "fade fade gag gag hedge"}
QUERY = "fade gag"


def by_length(query: str, hits: Sequence[Hit]) -> list[float]:
    assert query == QUERY
    return [float(len(hit.text)) for hit in hits]


# What a config says, and the value that it means.
VALUES: dict[str, tuple[Any, Any]] = {
    "weighting": ({"idf": "plain"}, QueryWeighting(idf="plain")),
    "expansion": ({"synonyms": {"gag": ["bead"]}}, QueryExpansion(synonyms={"gag": ["bead"]})),
    "feedback": ({"relevant": ["c"], "min_df": 1}, RSJ(["c"], min_df=1)),
    "min_should_match": ("100%", "100%"),
    "statistics": ({"source": "x"}, {"source": "x"}),
    "min_score": (0.1, 0.1),
    "min_confidence": (0.5, 0.5),
    "boosts": (
        [{"type": "value", "key": "source", "factors": {"y": 9}}],
        [ValueBoost("source", {"y": 9.0})],
    ),
    "rerank": (by_length, by_length),
    "candidates": (50, 50),
    "offset": (1, 1),
    "group": ({"key": "source"}, Grouping("source")),
    "diversity": ("mmr", MMR()),
    "context": ("document", "document"),
    "highlight": ({"max_fragments": 1}, Highlighting(max_fragments=1)),
    "search_params": ({"rescore": True}, {"rescore": True}),
    "fusion": ("rrf", RRF()),
    "sparse_k": (1, 1),
    "dense_k": (1, 1),
    "sparse_filter": ({"source": "y"}, {"source": "y"}),
    "dense_filter": ({"source": "y"}, {"source": "y"}),
    "dense_search_params": ({"ef": 200}, {"ef": 200}),
}
# All that either search finds is a candidate of both: one of them alone leaves none of the few chunks here out.
BESIDE: dict[str, dict[str, Any]] = {"sparse_k": {"dense_k": 1}, "dense_k": {"sparse_k": 1}}
QUIET = {"candidates", "search_params", "dense_search_params"}  # they change no hits here


@pytest.fixture
def filled(dense_index: BM25Index) -> BM25Index:
    sources = ["x", "x", "y", "y", "z"]
    metadatas = [{"source": source, "chunk": at} for at, source in enumerate(sources)]
    embeddings = [vector_of(text) for text in TEXTS.values()]
    dense_index.add(list(TEXTS.values()), ids=list(TEXTS), metadatas=metadatas, embeddings=embeddings)
    give_model(dense_index)
    return dense_index


def lexical(index: BM25Index, **options: Any) -> MilvusBM25Retriever:
    return MilvusBM25Retriever(index=index, score_key="score", **options)


def hybrid(index: BM25Index, **options: Any) -> MilvusHybridRetriever:
    return MilvusHybridRetriever(index=index, embedding=Letters(), score_key="score", **options)


def store(index: BM25Index, **options: Any) -> MilvusBM25VectorStore:
    return MilvusBM25VectorStore(index, embedding=Letters(), **options)


def accepted(ask: Any) -> set[str]:
    """Return the options that a surface knows: a call with another one is a TypeError."""
    known = set()
    for name in [*options_of(HybridOptions), "unheard_of"]:
        with suppress(TypeError):
            with suppress(ParameterError):  # a hybrid search knows an option that it refuses
                ask(**{name: VALUES.get(name, (True, True))[1]})
            known.add(name)
    return known


def test_every_class_takes_what_the_definitions_have(filled: BM25Index) -> None:
    every, of_words = set(options_of(HybridOptions)), set(options_of(SearchOptions))
    assert accepted(lambda **options: lexical(filled, **options)) == of_words
    assert accepted(lambda **options: lexical(filled).invoke(QUERY, **options)) == of_words
    assert accepted(lambda **options: lexical(filled, search_kwargs=options)) == of_words
    assert accepted(lambda **options: hybrid(filled, **options)) == every
    assert accepted(lambda **options: store(filled).similarity_search(QUERY, **options)) == every


def test_no_option_has_the_name_of_a_parameter() -> None:
    assert options_of(HybridOptions).keys().isdisjoint(MilvusHybridRetriever.model_fields)


def shown(documents: list[Document]) -> list[Any]:
    return [(one.id, one.page_content, one.metadata.get("highlights"), one.metadata["score"]) for one in documents]


def answers(retriever: MilvusBM25Retriever, **options: Any) -> Iterator[list[Any]]:
    """Yield the answer by every way to give the options."""
    made = type(retriever)(**dict(retriever), **options)
    yield shown(made.invoke(QUERY))
    yield shown(type(retriever)(**{**dict(retriever), "search_kwargs": options}).invoke(QUERY))
    yield shown(retriever.invoke(QUERY, **options))
    yield shown(retriever.invoke(QUERY, search_kwargs=options))
    yield shown(asyncio.run(retriever.ainvoke(QUERY, **options)))
    yield from map(shown, made.batch([QUERY, QUERY]))
    yield from map(shown, retriever.batch([QUERY], **options))
    yield from map(shown, asyncio.run(retriever.abatch([QUERY], **options)))
    yield shown(retriever.bind(**options).invoke(QUERY))


def expected(hits: Sequence[Hit]) -> list[Any]:
    return [
        (
            hit.id,
            hit.context.text if hit.context else hit.text,
            [one.text for one in hit.highlights] if hit.highlights is not None else None,
            hit.score,
        )
        for hit in hits
    ]


def texts_only(found: list[Any]) -> list[Any]:
    return [(id_, text, marks and [one["text"] for one in marks], score) for id_, text, marks, score in found]


@pytest.mark.parametrize("name", options_of(SearchOptions))
def test_an_option_has_the_effect_that_it_has_on_the_index(filled: BM25Index, name: str) -> None:
    plain, value = VALUES[name]
    hits = expected(filled.search(QUERY, 4, **{name: value}))  # type: ignore[misc]
    assert (hits == expected(filled.search(QUERY, 4))) == (name in QUIET)
    for given in (plain, value):
        for found in answers(lexical(filled), **{name: given}):
            assert texts_only(found) == hits
        scored = store(filled, mode="sparse").similarity_search_with_score(QUERY, **{name: given})
        assert [(document.id, score) for document, score in scored] == [(hit[0], hit[-1]) for hit in hits]


def test_confidence_goes_into_the_metadata_under_a_key(filled: BM25Index) -> None:
    documents = lexical(filled, confidence_key="sure").invoke(QUERY)
    assert [one.metadata["sure"] for one in documents] == [hit.confidence for hit in filled.search(QUERY, 4)]
    with pytest.raises(ParameterError, match="min_confidence is not supported here"):
        hybrid(filled).invoke(QUERY, min_confidence=0.5)


OF_BOTH = [name for name in options_of(HybridOptions) if name != "min_confidence"]


@pytest.mark.parametrize("name", OF_BOTH)
def test_likewise_on_both_arms(filled: BM25Index, name: str) -> None:
    (plain, value), beside = VALUES[name], BESIDE.get(name, {})
    hits = expected(filled.search_hybrid(QUERY, vector_of(QUERY), 4, **beside, **{name: value}))
    if name in options_of(FusionOptions):
        assert (hits == expected(filled.search_hybrid(QUERY, vector_of(QUERY), 4, **beside))) == (name in QUIET)
    for given in (plain, value):
        for found in answers(hybrid(filled), **beside, **{name: given}):
            assert texts_only(found) == hits
        scored = store(filled).similarity_search_with_score(QUERY, **beside, **{name: given})
        assert [(document.id, score) for document, score in scored] == [(hit[0], hit[-1]) for hit in hits]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"group": {"key": "source", "size": 0}}, r"group\.size must be an int in 1\.\.16384, got 0"),
        ({"group": {"field": "source"}}, "group has no 'field'; it has key, size, score"),
        ({"diversity": "cosine"}, r"diversity\.type must be one of mmr, near_duplicates, got 'cosine'"),
        ({"context": "all"}, "context must be one of neighbors, document, got 'all'"),
        ({"rerank": "model"}, "rerank must be a callable"),
        ({"feedback": 1}, "feedback must be an object with relevant, fb_terms"),
        ({"min_should_match": "most"}, "min_should_match must be"),
        ({"candidates": 0}, r"candidates must be an int in 1\.\.16384, got 0"),
        ({"search_kwargs": {"k": 3}}, "k is a parameter of its own, not an option in search_kwargs"),
        ({"search_kwargs": [3]}, "valid dictionary"),
        ({"search_kwargs": None, "candidates": 3}, "valid dictionary"),
        ({"score_threshold": float("nan")}, "finite number"),
        ({"k": 0}, "greater than or equal to 1"),
        ({"k": 16385}, "less than or equal to 16384"),
        ({"filter": {"page": {"$near": 3}}}, "unknown operator '\\$near'"),
    ],
    ids=str,
)
def test_a_wrong_value_is_refused_at_once(filled: BM25Index, wrong: dict[str, Any], message: str) -> None:
    assert_refused((lexical, hybrid), filled, wrong, message)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"fusion": "bordacount"}, r"fusion\.type must be one of weighted, rrf, got 'bordacount'"),
        ({"mode": "both"}, "'hybrid', 'sparse' or 'dense'"),
        ({"sparse_k": 0}, r"sparse_k must be an int in 1\.\.16384, got 0"),
        ({"dense_filter": {"page": {"$near": 3}}}, "unknown operator '\\$near'"),
    ],
    ids=str,
)
def test_a_wrong_value_of_a_hybrid_search_is_refused_at_once(
    filled: BM25Index, wrong: dict[str, Any], message: str
) -> None:
    assert_refused((hybrid,), filled, wrong, message)


def assert_refused(makers: Sequence[Any], filled: BM25Index, wrong: dict[str, Any], message: str) -> None:
    for make in makers:
        with pytest.raises(ValidationError, match=message):
            make(filled, **wrong)
        with pytest.raises(ValidationError, match=message):
            make(filled).invoke(QUERY, **wrong)


def test_none_lifts_an_option_for_one_call(filled: BM25Index) -> None:
    made = lexical(filled, group=Grouping("source"), context="document")
    assert made.search_kwargs == {"group": Grouping("source"), "context": "document"}
    assert shown(made.invoke(QUERY, group=None)) == shown(lexical(filled, context="document").invoke(QUERY))
    assert shown(made.invoke(QUERY, search_kwargs={})) == shown(lexical(filled).invoke(QUERY))


def test_the_higher_minimum_counts(filled: BM25Index) -> None:
    scores = [document.metadata["score"] for document in lexical(filled).invoke(QUERY)]
    low, high = scores[-2], scores[1]
    for options in ({"score_threshold": high}, {"min_score": high}, {"score_threshold": high, "min_score": low}):
        assert len(lexical(filled, **options).invoke(QUERY)) == 2
    assert len(lexical(filled, score_threshold=low, min_score=high).invoke(QUERY)) == 2


def test_a_config_changes_fields(filled: BM25Index) -> None:
    names = ("k", "filter", "search_kwargs")
    fields: Any = {name: ConfigurableField(name) for name in names}
    retriever = lexical(filled, context="document").configurable_fields(**fields)
    config: Any = {"configurable": {"k": 1, "filter": {"source": "y"}, "search_kwargs": {"group": {"key": "source"}}}}
    (found,) = retriever.invoke(QUERY, config)
    assert (found.metadata["source"], found.page_content) == ("y", "gag bead")
    assert retriever.get_config_jsonschema()["$defs"]["Configurable"]["properties"].keys() == set(names)


def test_a_filter_on_a_field_that_no_chunk_has_is_told_once(filled: BM25Index) -> None:
    message = "nothing found: the filter names 'sorce', .*; did you mean 'source'?"
    retriever = lexical(filled, filter={"sorce": "x"})
    with pytest.warns(UserWarning, match=message):
        assert retriever.invoke(QUERY) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert retriever.invoke(QUERY) == lexical(filled, filter={"source": "none"}).invoke(QUERY) == []
    for ask in (lambda: asyncio.run(lexical(filled, filter={"sourc": 1}).ainvoke(QUERY)), lambda: search_store(filled)):
        with pytest.warns(UserWarning, match="did you mean 'source'?"):
            assert ask() == []


def search_store(index: BM25Index) -> list[Document]:
    return MilvusBM25VectorStore(index).similarity_search(QUERY, filter={"ource": 1})


def test_a_query_may_have_conditions(filled: BM25Index) -> None:
    query: Any = Query("fade", must_not=["bead", "hedge"])
    model = Letters()
    retriever = MilvusHybridRetriever(index=filled, embedding=model)
    for made in (lexical(filled), retriever, MilvusBM25VectorStore(filled, embedding=model).as_retriever()):
        for found in (made.invoke(query), asyncio.run(made.ainvoke(query)), made.batch([query])[0]):
            assert {document.id for document in found} == {"b", "d"}
    assert {text for _, text in model.asked} == {"fade"}


def test_a_text_may_have_operators(filled: BM25Index) -> None:
    model = Letters()
    for made in (lexical(filled), MilvusHybridRetriever(index=filled, embedding=model)):
        for found in (made.invoke("fade -bead -hedge", syntax=True), made.batch(["fade -bead -hedge"], syntax=True)[0]):
            assert {document.id for document in found} == {"b", "d"}
    assert {text for _, text in model.asked} == {"fade"}
