"""Whatever is added to a query: scores, explanations and min_should_match are those of a loop over the chunks."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.indexes import check, filled, nodes
from support.strategies import corpora, idf_names, texts

from rag_bm25 import Fuzzy, Query, QueryExpansion, QueryWeighting, Synonyms
from rag_bm25.query.min_should_match import required_words
from rag_bm25.store.rows import Scope
from rag_bm25.weighting.idf import IdfName

pytest.importorskip("rapidfuzz")

WORDS = ["apple", "banana", "cherry", "中文", "检索", "fig", "grape", "ü", "aple", "chery", "kiwi"]
phrases = st.lists(st.sampled_from(WORDS), min_size=1, max_size=2).map(" ".join)
weights = st.sampled_from([1.0, 0.5, 0.01])
rules = st.dictionaries(phrases, st.dictionaries(phrases, weights, min_size=1, max_size=2), max_size=3).map(Synonyms.of)
replacing = st.lists(st.tuples(phrases, phrases), max_size=2).map(
    lambda pairs: Synonyms.parse("\n".join(f"{source} => {target}" for source, target in pairs))
)
expansions = st.builds(
    QueryExpansion,
    synonyms=st.none() | rules | replacing,
    fuzzy=st.none() | st.builds(Fuzzy, terms=st.sampled_from(["unknown", "all"]), prefix_length=st.integers(0, 1)),
)
queries = st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join) | st.dictionaries(
    phrases, st.sampled_from([0.5, 1, 3.25]), max_size=3
)


@given(corpora(min_size=1), queries, expansions, idf_names, st.none() | st.sampled_from([0.0, 1.0]))
def test_scores_are_sums_over_the_terms_that_explain_shows(
    chunks: dict[str, str], query: Any, expansion: QueryExpansion, idf: IdfName, k3: float | None
) -> None:
    index = filled(chunks)
    found = {
        hit.id: hit.score
        for hit in index.search(query, 100, expansion=expansion, weighting=QueryWeighting(idf=idf, k3=k3))
    }
    for id_ in chunks:
        tree = index.explain(query, id_, expansion=expansion, weighting=QueryWeighting(idf=idf, k3=k3))
        assert tree.value == pytest.approx(found.get(id_, 0.0), rel=1e-5)
        for node in nodes(tree):
            check(node)


@given(corpora(min_size=1), queries, expansions)
def test_each_term_counts_for_one_reason(chunks: dict[str, str], query: Any, expansion: QueryExpansion) -> None:
    index = filled(chunks)
    terms = index._searcher.prepare([query], Scope(namespaces=("",)), {"expansion": expansion}).queries[0].terms
    assert len(set(terms.terms)) == len(terms.terms)
    assert (terms.boost > 0).all()
    assert ((terms.weights > 0) == (terms.df > 0)).all()


@given(corpora(min_size=1), queries, rules)
def test_synonyms_that_replace_nothing_leave_the_weights_of_the_query(
    chunks: dict[str, str], query: Any, synonyms: Synonyms
) -> None:
    index = filled(chunks)
    (plain,) = index.encode_queries([query])
    (expanded,) = index.encode_queries([query], expansion=QueryExpansion(synonyms))
    assert {id_: expanded.get(id_) for id_ in plain.to_dict()} == plain.to_dict()


@given(corpora(min_size=1), texts(), st.sampled_from([1.0, 0.5]), st.sampled_from(WORDS), st.sampled_from(WORDS))
def test_an_addition_weighs_no_more_than_what_it_stands_for(
    chunks: dict[str, str], query: str, weight: float, word: str, other: str
) -> None:
    index = filled(chunks)
    expansion = QueryExpansion(Synonyms.of({word: {other: weight}}))
    terms = (
        index._searcher.prepare([f"{query} {word}"], Scope(namespaces=("",)), {"expansion": expansion}).queries[0].terms
    )
    table = dict(zip(terms.terms, zip(terms.df, terms.weights, strict=True), strict=True))
    if word != other and other not in query.split() and table[word][0]:
        assert table[other][1] <= table[word][1] * weight * (1 + 1e-9)


@given(
    st.dictionaries(st.integers(0, 40).map(str), texts(), min_size=1, max_size=40),
    queries,
    expansions,
    st.sampled_from([1, 2, -1, "50%", "-34%", "1<75%", "100%"]),
    st.integers(1, 6),
)
def test_min_should_match_is_that_of_a_loop_over_all_chunks(
    chunks: dict[str, str], query: Any, expansion: QueryExpansion, wanted: int | str, k: int
) -> None:
    index = filled(chunks)
    terms = index._searcher.prepare([query], Scope(namespaces=("",)), {"expansion": expansion}).queries[0].terms
    ids = {id_: set(index.encode_documents([text])[0].to_dict()) for id_, text in chunks.items()}
    expected = []
    for hit in index.search(query, 100, expansion=expansion):
        had = set()
        for alternative in terms.groups:
            if all(id_ in ids[hit.id] for id_ in alternative.ids):
                had |= alternative.stands_for
        if len(had) >= required_words(wanted, len(terms.words)):
            expected.append(hit)
    assert index.search(query, k, expansion=expansion, min_should_match=wanted) == expected[:k]
    for id_ in chunks:
        tree = index.explain(query, id_, expansion=expansion, min_should_match=wanted)
        assert (tree.value > 0) == (id_ in {hit.id for hit in expected})


@given(corpora(min_size=1), texts())
def test_all_words_of_a_plain_query_are_in_every_hit(chunks: dict[str, str], query: str) -> None:
    found = filled(chunks).search(query, 100, min_should_match="100%")
    expected = {id_ for id_, text in chunks.items() if query.split() and set(query.split()) <= set(text.split())}
    assert {hit.id for hit in found} == expected


@given(corpora(min_size=1), st.text(max_size=20))
def test_query_without_operators_is_the_same_with_syntax(chunks: dict[str, str], query: str) -> None:
    if not set('^*+-"') & set(query):
        index = filled(chunks)
        assert index.encode_queries([Query.parse(query)]) == index.encode_queries([query])
