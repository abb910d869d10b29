"""Property: a group of indexes answers as one index of the same chunks, however they are cut, whatever is asked."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.clocks import PATIENCE
from support.indexes import CONFIG
from support.memory_store import MemoryStore

from rag_bm25 import (
    MMR,
    RRF,
    RSJ,
    BM25Index,
    Decay,
    FieldWeight,
    Fuzzy,
    Grouping,
    Hit,
    IndexConfig,
    IndexGroup,
    NearDuplicates,
    Query,
    QueryExpansion,
    QueryWeighting,
    ValueBoost,
)

CHINESE = ["合同", "解除", "劳动", "赔偿", "法院", "判决", "公司", "员工", "租金"]
WORDS = [*CHINESE, "notice", "period", "contract", "lease", "wages", "court", "employee"]
BILINGUAL = IndexConfig(chunk_size=12, dense_dim=3, fields={"title": FieldWeight(chunk_size=5, weight=2.0)})
NUMBER = 150  # chunks
PER_SOURCE = 3
QUERIES = ["劳动合同 解除", "notice period", "租金 contract lease", "公司 员工 判决 wages", "unseen 词语"]


def made(seed: int = 7) -> list[dict[str, Any]]:
    """Chunks in two languages, of which neighbours have a source and a subject in common."""
    random_ = random.Random(seed)
    chunks = []
    for at in range(NUMBER):
        subject = WORDS[at * len(WORDS) // NUMBER :][:5]
        words = random_.choices(subject * 3 + WORDS + [f"rare{at % 40}"], k=random_.randint(3, 14))
        source, order = divmod(at, PER_SOURCE)
        metadata = {
            "title": random_.choice(WORDS),
            "source": f"s{source}",
            "chunk": order,
            "year": 2000 + at % 7,
            "date": f"2026-01-{1 + at % 28:02}",
        }
        text = ("" if at % 2 else " ").join(words)
        chunks.append({"id": f"s{source}#{order}", "text": text, "metadata": metadata, "namespace": "ab"[at % 5 == 0]})
    return chunks


def stored(chunks: Sequence[dict[str, Any]], config: IndexConfig = BILINGUAL) -> BM25Index:
    index = BM25Index.from_store(MemoryStore(), config=config)
    for namespace in sorted({chunk["namespace"] for chunk in chunks}):
        own = [chunk for chunk in chunks if chunk["namespace"] == namespace]
        index.add(
            [chunk["text"] for chunk in own],
            ids=[chunk["id"] for chunk in own],
            metadatas=[chunk["metadata"] for chunk in own],
            embeddings=np.array([embedding(chunk["text"]) for chunk in own], np.float32) if config.dense_dim else None,
            namespace=namespace,
        )
    return index


def embedding(text: str) -> list[float]:
    return [1.0, len(text) % 5 - 2.0, text.count("解") - 1.0]


def cut(chunks: list[dict[str, Any]], number: int, how: str) -> list[list[dict[str, Any]]]:
    """Cut chunks by chance, or by their subjects, so that no document is in two parts."""
    if how == "random":
        shuffled = random.Random(number).sample(chunks, len(chunks))
        return [shuffled[at::number] for at in range(number)]
    at = {id(chunk): int(chunk["metadata"]["source"][1:]) * number * PER_SOURCE // NUMBER for chunk in chunks}
    return [[chunk for chunk in chunks if at[id(chunk)] == part] for part in range(number)]


def by_length(_: str, hits: Sequence[Hit]) -> list[float]:
    return [float(len(hit.text)) for hit in hits]


SEARCHES: dict[str, dict[str, Any]] = {
    "plain": {},
    "all namespaces": {"namespace": None},
    "one namespace": {"namespace": "a"},
    "both namespaces": {"namespace": ["a", "b"], "k": 40},
    "filter": {"filter": {"year": {"$gte": 2003}}},
    "statistics of a filter": {"statistics": {"year": 2001}, "filter": {"year": 2001}},
    "statistics of all": {"namespace": "b", "statistics": "all"},
    "weighting": {"weighting": QueryWeighting(idf="lucene", k3=8)},
    "min_score": {"min_score": 1.0},
    "min_should_match": {"min_should_match": 2},
    "group": {"group": Grouping("source", size=2)},
    "group by sum": {"group": Grouping("year", size=2, score="sum"), "candidates": 30},
    "mmr": {"diversity": MMR()},
    "near duplicates": {"diversity": NearDuplicates(0.8)},
    "boosts": {"boosts": [ValueBoost("year", {2003: 2.0}), Decay("date", 10, origin="2026-01-20")]},
    "rerank": {"rerank": by_length, "candidates": 20},
    "highlight": {"highlight": True},
    "fuzzy": {"expansion": QueryExpansion(fuzzy=Fuzzy())},
    "rsj": {"feedback": RSJ(relevant=["s1#1", "s20#2"]), "namespace": None},
    "rescore": {"search_params": {"rescore": True}},
}


def alike(found: Sequence[Hit], expected: Sequence[Hit], *, exact: bool) -> None:
    if exact:
        assert [replace(hit, part=None) for hit in found] == list(expected)
        return
    assert [hit.score for hit in found] == pytest.approx([hit.score for hit in expected], rel=1e-6)
    assert {hit.key[:2] for hit in found} == {hit.key[:2] for hit in expected}


@pytest.fixture(scope="module")
def one() -> BM25Index:
    return stored(made())


@pytest.fixture(scope="module", params=[(2, "random"), (2, "topical"), (10, "random"), (10, "topical"), (40, "random")])
def group(request: pytest.FixtureRequest) -> IndexGroup:
    return IndexGroup([stored(chunks) for chunks in cut(made(), *request.param)])


@pytest.mark.parametrize("name", SEARCHES)
def test_every_search_is_that_of_one_index_to_the_last_bit(one: BM25Index, group: IndexGroup, name: str) -> None:
    assert not group._live.view.displaced
    asked = {"namespace": None, **SEARCHES[name]}
    for expected, found in zip(one.search_batch(QUERIES, **asked), group.search_batch(QUERIES, **asked), strict=True):
        alike(found, expected, exact=True)
    assert any(one.search_batch(QUERIES, **asked))


def test_conditions_are_met(one: BM25Index, group: IndexGroup) -> None:
    for query in (
        Query("合同", must=["解除"], must_not=["租金"]),
        Query("contract", phrases=["notice period"], slop=4),
    ):
        expected = one.search(query, 20, namespace=None)
        assert expected
        alike(group.search(query, 20, namespace=None), expected, exact=True)


def test_hybrid_searches_fuse_the_union_of_both_arms(one: BM25Index, group: IndexGroup) -> None:
    for options in ({}, {"fusion": RRF()}, {"sparse_k": 4, "dense_k": 6}, {"k": 120}):
        for query in QUERIES:
            asked = {"namespace": None, **options}
            expected = one.search_hybrid(query, embedding(query), **asked)
            alike(group.search_hybrid(query, embedding(query), **asked), expected, exact=True)
    alike(
        group.search_dense(embedding(""), namespace=None), one.search_dense(embedding(""), namespace=None), exact=True
    )


def test_explanations_are_those_of_one_index(one: BM25Index, group: IndexGroup) -> None:
    for hit in group.search(QUERIES[0], 5, namespace=None):
        place = {"namespace": None, "chunk_namespace": hit.namespace}
        explained = group.explain(QUERIES[0], hit.id, part=hit.part, **place)
        assert explained.to_dict(tree=True) == one.explain(QUERIES[0], hit.id, **place).to_dict(tree=True)
        assert explained.value == pytest.approx(hit.score, rel=1e-5)
        vector = embedding(QUERIES[0])
        hybrid = group.explain_hybrid(QUERIES[0], vector, hit.id, **place)
        assert hybrid == one.explain_hybrid(QUERIES[0], vector, hit.id, **place)


def test_statistics_and_terms_are_those_of_one_index(one: BM25Index, group: IndexGroup) -> None:
    for namespace in (None, "a", ["a", "b"]):
        expected = replace(one.stats(namespace=namespace), name=group.stats().name)
        assert group.stats(namespace=namespace) == expected
        assert group.terms(k=500, namespace=namespace) == one.terms(k=500, namespace=namespace)
    assert group.suggest("contarct", namespace=None) == one.suggest("contarct", namespace=None) == "contract"
    (like,) = one.more_like_this("s1#1", 1, namespace=None)
    assert group.more_like_this("s1#1", 1, namespace=None)[0].key[:2] == like.key[:2]


def test_context_is_that_of_the_index_of_the_hit(one: BM25Index) -> None:
    group = IndexGroup([stored(chunks) for chunks in cut(made(), 10, "topical")])
    for context in ("neighbors", "document"):
        found, expected = (each.search(QUERIES[0], 5, namespace=None, context=context) for each in (group, one))
        assert [hit.context.text for hit in found] == [hit.context.text for hit in expected]
    assert group.neighbors(found[0]).text == one.neighbors(expected[0]).text


@pytest.fixture
def few_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_bm25.vectors.terms.ID_SPACE", 1009)


@pytest.mark.usefixtures("few_ids")
@pytest.mark.parametrize("parts", [(2, "random"), (10, "topical")])
def test_terms_with_other_ids_in_each_index_count_as_one(parts: tuple[int, str]) -> None:
    one, group = stored(made()), IndexGroup([stored(chunks) for chunks in cut(made(), *parts)])
    assert len(group._live.view.displaced) > 20
    assert sum(bool(each.moved) for each in group._live._terms.renumberings) >= parts[0] // 2
    assert replace(group.stats(), name="") == replace(one.stats(), name="")
    assert group.terms(k=500, namespace=None) == one.terms(k=500, namespace=None)
    queries = [chunk["text"] for chunk in made()[::25]]  # of words that are known: another may have the id of one
    for asked in SEARCHES.values():
        of_all = {"namespace": None, **asked}
        for expected, found in zip(
            one.search_batch(queries, **of_all), group.search_batch(queries, **of_all), strict=True
        ):
            alike(found, expected, exact=False)
    for query in queries:
        hybrid = {"namespace": None, "k": 120}
        alike(
            group.search_hybrid(query, embedding(query), **hybrid),
            one.search_hybrid(query, embedding(query), **hybrid),
            exact=False,
        )
    hit = group.search(queries[0], 1, namespace=None)[0]
    assert group.explain(queries[0], hit.id, namespace=None).value == pytest.approx(hit.score, rel=1e-5)


texts = st.lists(st.sampled_from([f"w{at}" for at in range(30)]), min_size=1, max_size=8).map(" ".join)
steps = st.lists(
    st.tuples(
        st.integers(0, 2), st.sampled_from("ab"), st.dictionaries(st.integers(0, 20), texts | st.none(), max_size=6)
    ),
    min_size=1,
    max_size=8,
)


@given(steps, texts, st.sampled_from([61, 0xFFFFFFFF]))
def test_whatever_is_written_the_next_search_is_that_of_one_index(
    written: list[tuple[int, str, dict[int, str | None]]], query: str, space: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rag_bm25.vectors.terms.ID_SPACE", space)
        one = BM25Index.from_store(MemoryStore(), config=CONFIG)
        parts = [BM25Index.from_store(MemoryStore(), config=CONFIG) for _ in range(3)]
        group = IndexGroup(parts)
        for part, namespace, chunks in written:
            for number, text in chunks.items():
                id_ = f"{part}-{number}"
                for index in (one, parts[part]):
                    if text is None:
                        index.delete([id_], namespace=namespace)
                    else:
                        index.add([text], ids=[id_], namespace=namespace)
            known = " ".join(word for word in query.split() if word in one._live.vocabulary())
            for names in ("a", None):
                found, expected = (each.search(known, 200, namespace=names) for each in (group, one))
                alike(found, expected, exact=space > 61)


def of_one_moment(scores: dict[str, float], states: Sequence[dict[str, float]]) -> bool:
    return any(all(state[id_] == pytest.approx(score, rel=1e-6) for id_, score in scores.items()) for state in states)


def test_every_search_while_writers_write_is_of_one_moment() -> None:
    """The weights of a search are those of all chunks written up to some moment, in the order of the writes."""
    random_ = random.Random(5)
    batches = [
        {f"{at}-{number}": " ".join(random_.choices("abcdefgh", k=5)) for number in range(4)} for at in range(40)
    ]
    one, query = BM25Index.from_store(MemoryStore(), config=CONFIG), "a b c"
    vectors = dict(
        zip(
            every := {k: v for b in batches for k, v in b.items()},
            one.encode_documents(list(every.values())),
            strict=True,
        )
    )
    states = []
    for batch in batches:
        one.add(list(batch.values()), ids=list(batch))
        (weights,) = one.encode_queries([query])
        states.append({id_: weights.dot(vector) for id_, vector in vectors.items()})
    parts = [BM25Index.from_store(MemoryStore(), config=CONFIG) for _ in range(3)]
    group, seen, searched = IndexGroup(parts), [], threading.Event()

    def write() -> None:
        for at, batch in enumerate(batches):
            parts[at % 3].add(list(batch.values()), ids=list(batch))
            searched.clear()
            searched.wait(PATIENCE)  # or a busy machine writes all before the second search

    writer = threading.Thread(target=write)
    writer.start()
    while writer.is_alive():
        seen.append({hit.id: hit.score for hit in group.search(query, 500)})
        searched.set()
    writer.join()
    assert len(list(filter(None, seen))) >= len(batches) - 1  # the first may have begun before the first batch
    assert all(of_one_moment(scores, states) for scores in seen)
    alike(group.search(query, 500), one.search(query, 500), exact=True)
