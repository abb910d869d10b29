"""A search by another k1, b or the mean length has the hits and scores of an index that was made with them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.indexes import check, nodes
from support.memory_store import MemoryStore
from support.reference import BM25, Corpus, Field, split
from support.rounding_store import RoundingStore
from support.strategies import corpora, lengths, shares, texts, tfs, weightings

from rag_bm25 import (
    MMR,
    RSJ,
    BM25Index,
    Fuzzy,
    Grouping,
    Hit,
    IndexConfig,
    Query,
    QueryExpansion,
    QueryWeighting,
    ValueBoost,
)
from rag_bm25.index.searching import rescoring
from rag_bm25.weighting.document import DocumentWeighting, largest_ratio, ratios_of_terms
from rag_bm25.weighting.formulas import WEIGHTINGS
from rag_bm25.weighting.term_k1 import TermK1


@contextmanager
def asking_for_few() -> Iterator[None]:
    """Ask for no more than the limit at first, so that the bound alone decides whether that was enough."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rescoring, "SPARE", 0)
        patch.setattr(rescoring, "OVERFETCH", 0)
        yield


@pytest.fixture
def asks_for_few() -> Iterator[None]:
    with asking_for_few():
        yield


def pairs(hits: Sequence[Hit]) -> list[tuple[str, float]]:
    return [(hit.id, hit.score) for hit in hits]


@st.composite
def others(draw: st.DrawFn, stored: DocumentWeighting) -> QueryWeighting:
    """Draw parameters that the form has."""
    form = WEIGHTINGS[stored.form]
    k1 = st.sampled_from([0, 0.9, 3]) | st.floats(0, 100)
    values: dict[str, st.SearchStrategy[Any]] = {
        "k1": k1.map(lambda value: max(value, form.least_k1)),
        "b": shares,
        "length": st.just("mean"),
    }
    names = draw(st.sets(st.sampled_from(sorted(form.parameters))))
    return QueryWeighting(**{name: draw(values[name]) for name in names})


@st.composite
def both(draw: st.DrawFn, max_fields: int = 2) -> tuple[DocumentWeighting, QueryWeighting]:
    names = tuple(name for name, form in WEIGHTINGS.items() if form.parameters)
    stored = draw(weightings(names, max_fields))
    return stored, draw(others(stored))


def made(config: IndexConfig, chunks: dict[str, str], field: str, store: MemoryStore | None = None) -> BM25Index:
    index = BM25Index.from_store(store or MemoryStore(), config=config)
    metadatas = [dict.fromkeys(config.fields, f"{field} {text[:6]}") for text in chunks.values()]
    index.add(list(chunks.values()), ids=list(chunks), metadatas=metadatas)
    return index


def config_of(document: DocumentWeighting) -> IndexConfig:
    own = {"k1": document.k1, "b": document.b, "weighting": document.form, "delta": document.delta}
    return IndexConfig(document.chunk_size, length_unit="terms", analyzer=split, fields=document.fields, **own)  # type: ignore[arg-type]


@given(corpora(min_size=1, max_size=10), texts(), both(), texts(), st.integers(1, 4))
def test_whatever_the_parameters_hits_and_explanations_are_those_of_loops(
    chunks: dict[str, str], query: str, weights: tuple[DocumentWeighting, QueryWeighting], field: str, k: int
) -> None:
    stored, asked = weights
    index = made(config_of(stored), chunks, field)
    wanted = asked.of_documents(stored, sum(len(text.split()) for text in chunks.values()) / len(chunks))
    other = made(config_of(wanted), chunks, field)
    expected, rows = other.search(query, 100), list(index._store.collections.chunks.values())  # type: ignore[attr-defined]
    anew = [other._store.collections.chunks[row.pk].vector for row in rows]  # type: ignore[attr-defined]
    assert index._searcher.vectors_of(rows, wanted) == anew
    with asking_for_few():
        assert pairs(index.search(query, k, weighting=asked)) == pairs(expected[:k])
    assert pairs(index.search(query, 100, weighting=asked)) == pairs(expected)
    fields = {name: Field(of.chunk_size, of.weight, of.b) for name, of in wanted.fields.items()}
    reference = BM25(
        wanted.chunk_size, wanted.k1, wanted.b, k3=index.config.k3, form=wanted.form, delta=wanted.delta, fields=fields
    )
    contents = {id_: {name: f"{field} {text[:6]}".split() for name in fields} for id_, text in chunks.items()}
    scores = reference.scores(query.split(), Corpus({id_: text.split() for id_, text in chunks.items()}, contents))
    assert {hit.id: hit.score for hit in expected} == pytest.approx(scores, rel=1e-5)
    for hit in expected:
        explained = index.explain(query, hit.id, weighting=asked)
        assert explained.value == pytest.approx(scores[hit.id], rel=1e-5)
        for node in nodes(explained):
            check(node)


@given(both(), tfs, lengths, st.floats(1e-6, 1e6))
def test_no_weight_is_above_the_largest_ratio(
    weights: tuple[DocumentWeighting, QueryWeighting], tf: int, length: int, frequency: float
) -> None:
    stored, asked = weights
    wanted = asked.of_documents(stored, 300.0)
    frequencies = [0.0, frequency] if stored.fields else [0.0]
    for of_fields in frequencies:
        of = {"of_fields": of_fields}
        most = largest_ratio(stored, wanted, max(length, 1)) * float(stored.weights(tf, length, **of)) * (1 + 1e-9)
        assert float(wanted.weights(tf, length, **of)) <= most <= np.inf
    if stored.fields:
        in_field = float(stored.combined_weights(frequency)) * largest_ratio(stored, wanted) * (1 + 1e-9)
        assert float(wanted.combined_weights(frequency)) <= in_field


@given(weightings(("bm25",), 1), shares, tfs, lengths, st.floats(1e-6, 1e6), st.lists(st.floats(0, 50), min_size=3))
def test_no_weight_is_outside_the_ratios_of_its_term(
    stored: DocumentWeighting, b: float, tf: int, length: int, frequency: float, k1: list[float]
) -> None:
    ids = np.arange(1, len(k1) + 1, dtype=np.uint32)
    table = TermK1(ids, np.tile(np.array(k1, np.float32), (3, 1)), 9, 0.0)
    wanted = QueryWeighting(k1="adpt", b=b).of_documents(stored, 300.0, table)
    least, most = ratios_of_terms(stored, wanted, ids, max(length, 1))
    for of_fields in [0.0, frequency] if stored.fields else [0.0]:
        before = stored.weights(np.full(len(k1), tf), length, of_fields)
        ratio = wanted.weights(np.full(len(k1), tf), length, of_fields, ids) / before
        assert (ratio <= most * (1 + 1e-9)).all()
        assert (ratio >= least * (1 - 1e-9)).all()


@given(weightings(max_fields=1), tfs, lengths, st.sampled_from([0.0, 0.3]))
def test_a_weight_tells_its_tf_or_that_it_does_not(
    weighting: DocumentWeighting, tf: int, length: int, of_fields: float
) -> None:
    weigh = lambda some: weighting.weights(some, length, of_fields=of_fields).astype(np.float32)  # noqa: E731
    (found,) = weighting.term_frequencies(weigh(np.array([tf])), length, of_fields)
    below, own, above = weigh(np.array([max(tf - 1, 1), tf, tf + 1]))
    assert found == (tf if own < above and (tf == 1 or below < own) else -1)
    if own < above:
        assert weighting.term_frequencies(np.nextafter(own, np.float32(np.inf)), length, of_fields) != tf


# Natural texts, many chunks

ENGLISH = ["the", "contract", "employee", "lawyer", "terminates", "notice", "wages", "court", "appeal", "judge"]
CHINESE = ["劳动", "合同", "解除", "工资", "法院", "判决", "证据", "上诉", "通知", "赔偿"]
WORDS = [*ENGLISH, *CHINESE]
QUERIES = ("contract 解除", "劳动合同 工资 notice", "the court", "appeal judge 赔偿 证据", "employee")
RNG = random.Random(5)
CHUNKS = {
    f"c{at:03}": " ".join(
        RNG.choices(WORDS, [1 / (1 + rank) for rank in range(len(WORDS))], k=RNG.choice((3, 30, 150)))
    )
    for at in range(300)
}
METADATA: list[dict[str, Any]] = [
    {"title": " ".join(RNG.choices(WORDS, k=at % 4)), "part": at % 7, "year": 2000 + at % 20}
    for at in range(len(CHUNKS))
]
OTHERS = (
    QueryWeighting(k1=0.9, b=0.4),
    QueryWeighting(b=0.0),
    QueryWeighting(k1=0.0),
    QueryWeighting(k1=4.0, b=1.0),
    QueryWeighting(length="mean"),
    QueryWeighting(idf="lucene", k1=0.5, length="mean"),
)
CONFIG = IndexConfig(120, weighting="elasticsearch")  # whose upper bound depends on k1


def natural(config: IndexConfig, store: MemoryStore | None = None) -> BM25Index:
    index = BM25Index.from_store(store or MemoryStore(), config=config)
    size = config.dense_dim or 1
    dense = np.array([[1 + at % 5, *range(1, size)] for at in range(len(CHUNKS))], np.float32)
    index.add(
        list(CHUNKS.values()), ids=list(CHUNKS), metadatas=METADATA, embeddings=dense if config.dense_dim else None
    )
    return index


@cache
def like(index: BM25Index, weighting: QueryWeighting) -> BM25Index:
    """Make an index with the parameters that a search asks for."""
    stats = index._live.view.statistics.whole
    wanted = weighting.of_documents(index.config.document_weighting(), stats.mean_length)
    own = {"k1": wanted.k1, "b": wanted.b, "chunk_size": wanted.chunk_size}
    return natural(replace(index.config, **own, idf=index.config.idf))


@pytest.fixture(scope="module", params=["default", {}], ids=["fields", "no fields"])
def index(request: pytest.FixtureRequest) -> BM25Index:
    return natural(replace(CONFIG, fields=request.param, dense_dim=4))


@pytest.mark.parametrize("weighting", OTHERS, ids=repr)
@pytest.mark.usefixtures("asks_for_few")
def test_the_first_k_are_those_of_all_chunks(index: BM25Index, weighting: QueryWeighting) -> None:
    other, on_query_side = like(index, weighting), QueryWeighting(idf=weighting.idf)
    for query in QUERIES:
        every = pairs(other.search(query, 1000, weighting=on_query_side))
        assert len(every) > 20
        for k in (1, 3, 10, 299):
            assert pairs(index.search(query, k, weighting=weighting)) == every[:k]


WEIGHTING = OTHERS[0]
SEARCHES: dict[str, Callable[..., Any]] = {
    "batch": lambda index, **more: [pairs(hits) for hits in index.search_batch(QUERIES, 5, **more)],
    "min_score": lambda index, **more: pairs(index.search(QUERIES[1], 200, min_score=0.3, **more)),
    "min_should_match": lambda index, **more: pairs(index.search(QUERIES[1], 9, min_should_match=2, **more)),
    "conditions": lambda index, **more: pairs(
        index.search(Query("合同", must=["judge"], must_not=["wages"]), 9, **more)
    ),
    "phrase": lambda index, **more: pairs(index.search(Query("court", phrases=["appeal judge"]), 3, **more)),
    "filter": lambda index, **more: pairs(index.search(QUERIES[0], 9, filter={"part": 3}, **more)),
    "boosts": lambda index, **more: pairs(index.search(QUERIES[0], 9, boosts=[ValueBoost("part", {3: 4.0})], **more)),
    "groups": lambda index, **more: pairs(index.search(QUERIES[0], 5, group=Grouping("part", size=2), **more)),
    "sums": lambda index, **more: pairs(index.search(QUERIES[0], 5, group=Grouping("part", score="sum"), **more)),
    "feedback": lambda index, **more: pairs(index.search(QUERIES[0], 9, feedback=RSJ(["c001"]), **more)),
    "fuzzy": lambda index, **more: pairs(index.search("contarct", 9, expansion=QueryExpansion(fuzzy=Fuzzy()), **more)),
    "diversity": lambda index, **more: pairs(index.search(QUERIES[0], 1, diversity=MMR(), **more)),
    "similar": lambda index, **more: pairs(index.more_like_this("c002", 9, **more)),
    "bounds": lambda index, **more: index.max_scores(QUERIES, **more),
    "hybrid": lambda index, **more: [
        (hit.id, hit.score, hit.sparse_score)
        for hit in index.search_hybrid(QUERIES[0], [1.0, 0, 0, 1.0], 150, sparse_filter={"part": 2}, **more)
    ],
    "explanation": lambda index, **more: index.explain(QUERIES[0], "c010", **more).to_dict(),
    "diagnosis": lambda index, **more: index.diagnose(QUERIES[0], "c010", k=3, **more),
}


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.usefixtures("asks_for_few")
def test_every_search_is_that_of_the_other_index(index: BM25Index, name: str) -> None:
    search, other = SEARCHES[name], like(index, WEIGHTING)
    assert search(index, weighting=WEIGHTING) == search(other)
    assert search(index, weighting=WEIGHTING) != search(index) or name in ("fuzzy", "diversity")


def test_scores_of_a_server_that_rounds_are_exact(index: BM25Index) -> None:
    rounding = natural(index.config, RoundingStore())
    for query in QUERIES:
        expected = pairs(index.search(query, 10, weighting=WEIGHTING))
        assert pairs(rounding.search(query, 10, weighting=WEIGHTING)) == expected
