"""Promise 3: the store's score equals an independent BM25 written with loops, to 1e-5 relative.

Where a store rounds its weights to fp16, to 1e-3; and with ``rescore=True`` as everywhere else.
"""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.indexes import CONFIG, config_of, filled
from support.memory_store import MemoryStore
from support.reference import BM25, Corpus, Field, WithQuestions, in_all_channels
from support.rounding_store import RoundingStore
from support.strategies import corpora, document_weightings, idf_names, query_weightings, shares, texts, weightings

from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.definitions import UNSET
from rag_bm25.documents.encoder import LengthUnit
from rag_bm25.store.storage import FP16_TOLERANCE
from rag_bm25.weighting.document import DocumentWeighting
from rag_bm25.weighting.idf import IdfName
from rag_bm25.weighting.query import QueryWeighting


def corpus_of(chunks: dict[str, str]) -> Corpus:
    return Corpus({id_: text.split() for id_, text in chunks.items()})


def scores(index: BM25Index, query: str, k: int = 100, **options: object) -> dict[str, float]:
    return {hit.id: hit.score for hit in index.search(query, k, **options)}  # type: ignore[arg-type]


def reference_of(document: DocumentWeighting, weighting: QueryWeighting) -> BM25:
    return BM25(
        document.chunk_size,
        document.k1,
        document.b,
        weighting.idf,
        weighting.epsilon,
        weighting.k3,
        document.form,
        document.delta,
        {name: Field(of.chunk_size, of.weight, of.b) for name, of in document.fields.items()},
    )


@given(corpora(), texts(), document_weightings, query_weightings, st.sampled_from(["characters", "terms"]))
def test_scores_are_those_of_the_loops(
    chunks: dict[str, str], query: str, document: DocumentWeighting, weighting: QueryWeighting, unit: LengthUnit
) -> None:
    reference = reference_of(document, weighting)
    lengths = {id_: len(text) for id_, text in chunks.items()} if unit == "characters" else None
    expected = reference.scores(query.split(), corpus_of(chunks), lengths)
    assert scores(filled(chunks, config_of(document, weighting, unit)), query) == pytest.approx(expected, rel=1e-5)


@given(corpora(max_size=10), texts(), idf_names, st.floats(1, 100), st.floats(0, 3), shares, st.integers(1, 10))
def test_rescoring_gives_the_scores_of_the_loops_where_weights_are_rounded(
    chunks: dict[str, str], query: str, idf: IdfName, chunk_size: float, k1: float, b: float, k: int
) -> None:
    config = replace(CONFIG, chunk_size=chunk_size, k1=k1, b=b, idf=idf)
    expected = BM25(chunk_size, k1, b, idf, k3=config.k3).scores(query.split(), corpus_of(chunks))
    index, exact = filled(chunks, config, RoundingStore()), filled(chunks, config)
    assert scores(index, query) == pytest.approx(expected, rel=FP16_TOLERANCE)
    assert scores(index, query, search_params={"rescore": True}) == pytest.approx(expected, rel=1e-5)
    assert index.search(query, k, search_params={"rescore": True}) == exact.search(query, k)


@given(corpora(), texts(), weightings(max_fields=3), query_weightings, st.data())
def test_scores_over_fields_are_those_of_the_loops(
    chunks: dict[str, str], query: str, document: DocumentWeighting, weighting: QueryWeighting, data: st.DataObject
) -> None:
    metadata = st.fixed_dictionaries({}, optional={name: texts() for name in document.fields})
    metadatas = {id_: data.draw(metadata) for id_ in chunks}
    index = BM25Index.from_store(MemoryStore(), config=config_of(document, weighting))
    index.add(list(chunks.values()), ids=list(chunks), metadatas=list(metadatas.values()))
    corpus = corpus_of(chunks)
    for id_, fields in metadatas.items():
        corpus.fields[id_] = {name: text.split() for name, text in fields.items()}
    expected = reference_of(document, weighting).scores(query.split(), corpus)
    assert scores(index, query) == pytest.approx(expected, rel=1e-5)
    assert index.verify().ok


@given(corpora(), texts(), query_weightings, st.sampled_from(["characters", "terms"]))
def test_channels_have_weights_and_no_length(
    chunks: dict[str, str], query: str, weighting: QueryWeighting, unit: LengthUnit
) -> None:
    parameters = {name: value for name, value in asdict(weighting).items() if value is not UNSET}
    config = IndexConfig(4, length_unit=unit, analyzer=in_all_channels, **parameters)
    corpus = Corpus({id_: in_all_channels(text) for id_, text in chunks.items()})
    lengths = {id_: len(text) if unit == "characters" else len(text.split()) for id_, text in chunks.items()}
    expected = BM25(4, **parameters).scores(in_all_channels(query), corpus, lengths)
    found = scores(filled(chunks, config), query)
    assert found == pytest.approx({id_: score for id_, score in expected.items() if score}, rel=1e-5)
    asked = filled(chunks, replace(config, bigram_weight=0.5, character_weight=0.3))
    weights = QueryWeighting(bigram_weight=weighting.bigram_weight, character_weight=weighting.character_weight)
    assert scores(asked, query, weighting=weights) == found


@given(corpora(), texts(), query_weightings)
def test_question_words_weigh_less_beside_known_words(
    chunks: dict[str, str], query: str, weighting: QueryWeighting
) -> None:
    reference = replace(reference_of(CONFIG.document_weighting(), weighting), latin_weight=1)
    reference.question_word_weight = weighting.question_word_weight
    words = [word for word in query.split() if len(word) % 2]
    questions = [word for word in query.split() if len(word) % 2 == 0]
    expected = reference.scores(words, corpus_of(chunks), question_words=questions)
    index = filled(chunks, replace(CONFIG, analyzer=WithQuestions()))
    assert scores(index, query, weighting=weighting) == pytest.approx(expected, rel=1e-5)


@given(corpora(min_size=1), texts(), idf_names)
def test_words_alone_are_searched_where_others_weigh_nothing(chunks: dict[str, str], query: str, idf: IdfName) -> None:
    assume(idf != "epsilon")  # its floor is a mean over all terms
    index = filled(chunks, replace(CONFIG, analyzer=in_all_channels, idf=idf))
    assert scores(index, query, weighting=QueryWeighting(bigram_weight=0, character_weight=0)) == scores(
        filled(chunks, replace(CONFIG, idf=idf)), query
    )


@given(corpora(min_size=2), texts(), st.integers(1, 4))
def test_hits_are_the_best_k_by_score_then_id(chunks: dict[str, str], query: str, k: int) -> None:
    hits = filled(chunks).search(query, k)
    every = filled(chunks).search(query, 100)
    assert hits == every[:k]
    assert every == sorted(every, key=lambda hit: (-hit.score, hit.id))
    assert [hit.text for hit in hits] == [chunks[hit.id] for hit in hits]


@given(corpora(min_size=1), texts(), idf_names, st.floats(0.01, 5), st.floats(0, 100))
def test_query_side_may_change_without_touching_the_chunks(
    chunks: dict[str, str], query: str, idf: IdfName, epsilon: float, k3: float
) -> None:
    asked = scores(filled(chunks), query, weighting=QueryWeighting(idf=idf, epsilon=epsilon, k3=k3))
    made = scores(filled(chunks, replace(CONFIG, idf=idf, epsilon=epsilon, k3=k3)), query)
    assert asked == made


@given(corpora(min_size=1), texts())
def test_known_terms_always_score_above_zero(chunks: dict[str, str], query: str) -> None:
    sharing = {id_ for id_, text in chunks.items() if set(text.split()) & set(query.split())}
    found = scores(filled(chunks), query)
    assert found.keys() == sharing
    assert all(score > 0 for score in found.values())


@given(corpora(), corpora(), texts())
def test_namespace_is_a_corpus_of_its_own(one: dict[str, str], other: dict[str, str], query: str) -> None:
    index = filled(one)
    index.add(list(other.values()), ids=list(other), namespace="x")
    assert scores(index, query, namespace="") == scores(filled(one), query)
    assert scores(index, query, namespace="x") == scores(filled(other), query)


@given(corpora(), corpora(), texts())
def test_all_namespaces_are_one_corpus(one: dict[str, str], other: dict[str, str], query: str) -> None:
    index = filled(one)
    index.add(list(other.values()), ids=[f"x{id_}" for id_ in other], namespace="x")
    together = {**one, **{f"x{id_}": text for id_, text in other.items()}}
    expected = scores(filled(together), query)
    assert scores(index, query, namespace=None) == pytest.approx(expected, rel=1e-6)
    assert scores(index, query, namespace=["", "x"]) == pytest.approx(expected, rel=1e-6)


@given(st.lists(corpora(), min_size=3, max_size=3), texts())
def test_some_namespaces_are_one_corpus(parts: list[dict[str, str]], query: str) -> None:
    index = BM25Index.from_store(MemoryStore(), config=CONFIG)
    for name, part in zip("xyz", parts, strict=True):
        index.add(list(part.values()), ids=[f"{name}{id_}" for id_ in part], namespace=name)
    together = {f"x{id_}": text for id_, text in parts[0].items()}
    together |= {f"z{id_}": text for id_, text in parts[2].items()}
    expected = scores(filled(together), query)
    assert scores(index, query, namespace=["x", "z"]) == pytest.approx(expected, rel=1e-6)


@given(corpora(min_size=1), corpora(), texts())
def test_chunks_of_one_namespace_can_be_weighed_by_all(one: dict[str, str], other: dict[str, str], query: str) -> None:
    index = filled(one)
    index.add(list(other.values()), ids=list(other), namespace="x")
    together = {**{f"x{id_}": text for id_, text in other.items()}, **one}
    expected = {id_: score for id_, score in scores(filled(together), query).items() if id_ in one}
    assert scores(index, query, statistics="all") == pytest.approx(expected, rel=1e-6)


@given(corpora(min_size=1), st.lists(texts(), max_size=4))
def test_batch_of_queries_is_each_query(chunks: dict[str, str], queries: list[str]) -> None:
    index = filled(chunks)
    assert index.search_batch(queries, 5) == [index.search(query, 5) for query in queries]
