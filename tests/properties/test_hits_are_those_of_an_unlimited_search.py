"""Property: groups, boosts, near duplicates and neighbours are those that loops over all hits give.

A search looks at four times k candidates first, here at four of up to thirty chunks, so that most examples refill.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from functools import partial
from itertools import chain
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.memory_store import MemoryStore
from support.reference import split

from rag_bm25 import BM25Index, Decay, FunctionBoost, Grouping, Hit, IndexConfig, NearDuplicates, ValueBoost

CONFIG = IndexConfig(chunk_size=4, analyzer=split, idf="lucene", dense_dim=2)
ORIGIN = date(2026, 1, 31)
Found: TypeAlias = "list[tuple[str, float]]"

texts = st.lists(st.sampled_from(["apple", "fig", "plum", "pear"]), min_size=1, max_size=6).map(" ".join)
metadatas = st.fixed_dictionaries(
    {},
    optional={
        "page": st.sampled_from(["a", "b", "c", 1, 1.0, True, None, ["a"]]),
        "kind": st.sampled_from(["law", "draft", ["law", "draft"], 7]),
        "date": st.integers(0, 90).map(lambda days: str(ORIGIN - timedelta(days))) | st.just("soon"),
        "stars": st.integers(-1, 9),
    },
)
chunks = st.lists(st.tuples(texts, metadatas), min_size=1, max_size=30)
queries = st.sampled_from(["apple", "fig plum", "apple pear apple"])
vectors = st.sampled_from([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [-1.0, 0.5]])
sizes = st.integers(1, 4)


def stored(given: Sequence[tuple[str, dict[str, Any]]]) -> BM25Index:
    index = BM25Index.from_store(MemoryStore(), config=CONFIG)
    ids = [f"{at:02}" for at in range(len(given))]
    embeddings = [[1.0, at % 3 - 1.0] for at in range(len(given))]
    metadatas = [metadata for _, metadata in given]
    index.add([text for text, _ in given], ids=ids, metadatas=metadatas, embeddings=embeddings)
    return index


def pairs(hits: Iterable[Hit]) -> Found:
    return [(hit.id, hit.score) for hit in hits]


def equal(found: Found, expected: Found) -> bool:
    same = [id_ for id_, _ in found] == [id_ for id_, _ in expected]
    return same and [score for _, score in found] == pytest.approx([score for _, score in expected], rel=1e-6)


def page_of(hit: Hit) -> str:
    """A name for the group of a hit."""
    page = hit.metadata.get("page")
    if isinstance(page, str | bool):
        return f"{type(page).__name__} {page}"
    return "one" if page == 1 else f"alone {hit.id}"


def grouped(hits: Sequence[Hit], k: int, size: int) -> Found:
    """Take the hits one by one; the first of a group opens it."""
    groups: dict[str, list[Hit]] = {}
    for hit in hits:
        groups.setdefault(page_of(hit), []).append(hit)
    return [pair for members in list(groups.values())[:k] for pair in pairs(members[:size])]


def summed(hits: Sequence[Hit], k: int, size: int, depth: int) -> Found:
    while len({page_of(hit) for hit in hits[:depth]}) < k and depth < len(hits):
        depth *= 2
    groups: dict[str, list[Hit]] = {}
    for hit in hits[:depth]:
        groups.setdefault(page_of(hit), []).append(hit)
    best = sorted(groups.values(), key=lambda members: -sum(hit.score for hit in members))
    return [pair for members in best[:k] for pair in pairs(members[:size])]


def cosine(one: dict[int, float], other: dict[int, float]) -> float:
    product = sum(weight * other.get(id_, 0.0) for id_, weight in one.items())
    return product / math.sqrt(sum(w * w for w in one.values()) * sum(w * w for w in other.values()))


def distinct(index: BM25Index, hits: Sequence[Hit], threshold: float) -> list[Hit]:
    kept: list[tuple[Hit, dict[int, float]]] = []
    for hit in hits:
        (vector,) = index.encode_documents([hit.text])
        if all(cosine(vector.to_dict(), other) < threshold - 1e-6 for _, other in kept):
            kept.append((hit, vector.to_dict()))
    return [hit for hit, _ in kept]


def factor(metadata: dict[str, Any], boosts: Sequence[Any]) -> float:
    """The product of the factors, by the formulas of the documentation."""
    product = 1.0
    for boost in boosts:
        if isinstance(boost, FunctionBoost):
            product *= min(stars(metadata), 2.0)
            continue
        value = metadata.get(boost.key)
        if isinstance(boost, Decay):
            days = None if value in (None, "soon") else (ORIGIN - date.fromisoformat(value)).days
            product *= boost.missing if days is None else decayed(boost, max(0.0, days - boost.offset) / boost.scale)
        else:
            values = value if isinstance(value, list) else [value]
            known = [boost.factors[one] for one in values if one in boost.factors]
            product *= max(known) if known else boost.default
    return product


def stars(metadata: Mapping[str, Any]) -> float:
    number = metadata.get("stars")
    return 0.5 if number is None else math.log1p(max(number, 0))


def decayed(boost: Decay, x: float) -> float:
    shapes = {"exp": boost.decay**x, "gauss": boost.decay ** (x * x), "linear": max(0.0, 1 - (1 - boost.decay) * x)}
    return boost.floor + (1 - boost.floor) * shapes[boost.shape]


def boosted(hits: Sequence[Hit], boosts: Sequence[Any]) -> list[Hit]:
    scored = [Hit(hit.id, hit.score * factor(hit.metadata, boosts), hit.text, hit.metadata) for hit in hits]
    return sorted((hit for hit in scored if hit.score > 0), key=lambda hit: (-hit.score, hit.id))


decays = st.builds(
    Decay,
    key=st.just("date"),
    scale=st.sampled_from([7, 30]),
    origin=st.just(ORIGIN),
    shape=st.sampled_from(["exp", "gauss", "linear"]),
    offset=st.sampled_from([0, 3]),
    floor=st.sampled_from([0.0, 0.25]),
    missing=st.sampled_from([0.5, 1.0, 2.0]),
)
by_value = st.builds(
    ValueBoost,
    key=st.just("kind"),
    factors=st.just({"law": 3.0, "draft": 0.25}),
    default=st.sampled_from([0.0, 1.0]),
)
by_stars = st.just(FunctionBoost(stars, maximum=2.0))
boosts_of_any_kind = st.lists(decays | by_value | by_stars, min_size=1, max_size=2)


@given(chunks, queries, sizes, sizes)
def test_groups_are_those_of_all_hits(given: Any, query: str, k: int, size: int) -> None:
    index = stored(given)
    every = index.search(query, 1000)
    found = index.search(query, k, group=Grouping("page", size=size))
    assert equal(pairs(found), grouped(every, k, size))
    best = {page_of(hit): hit.score for hit in reversed(every)}
    assert [hit.group_score for hit in found] == [best[page_of(hit)] for hit in found]


@given(chunks, queries, sizes, sizes, st.sampled_from([1, 5, 100]))
def test_sums_are_over_the_best_candidates(given: Any, query: str, k: int, size: int, depth: int) -> None:
    index = stored(given)
    found = index.search(query, k, group=Grouping("page", size=size, score="sum"), candidates=depth)
    assert equal(pairs(found), summed(index.search(query, 1000), k, size, max(k, depth)))


@given(chunks, queries, sizes, boosts_of_any_kind)
def test_boosts_are_those_of_all_hits(given: Any, query: str, k: int, boosts: list[Any]) -> None:
    index = stored(given)
    expected = boosted(index.search(query, 1000), boosts)[:k]
    found = index.search(query, k, boosts=boosts)
    assert equal(pairs(found), pairs(expected))
    for hit in found:
        assert index.explain(query, hit.id, boosts=boosts).value == pytest.approx(hit.score, rel=1e-5)


@given(chunks, queries, sizes, sizes, boosts_of_any_kind, st.sampled_from([0.6, 0.9, 1.0]))
def test_all_of_it_together(given: Any, query: str, k: int, size: int, boosts: list[Any], threshold: float) -> None:
    index = stored(given)
    every = boosted(index.search(query, 1000), boosts)
    assert equal(
        pairs(index.search(query, k, boosts=boosts, group=Grouping("page", size=size))), grouped(every, k, size)
    )
    kept = distinct(index, every, threshold)
    asked: dict[str, Any] = {"boosts": boosts, "diversity": NearDuplicates(threshold)}
    assert equal(pairs(index.search(query, k, **asked)), pairs(kept[:k]))
    assert equal(pairs(index.search(query, k, group=Grouping("page", size=size), **asked)), grouped(kept, k, size))


@given(chunks, queries, vectors, sizes, boosts_of_any_kind, st.floats(0, 3))
def test_a_minimum_score_leaves_out_what_is_below(
    given: Any, query: str, embedding: list[float], k: int, boosts: list[Any], least: float
) -> None:
    index, group = stored(given), Grouping("page")
    every = boosted(index.search(query, 1000), boosts)
    kept = [hit for hit in every if hit.score >= least]
    assert equal(pairs(index.search(query, k, boosts=boosts, min_score=least)), pairs(kept[:k]))
    assert equal(pairs(index.search(query, k, boosts=boosts, min_score=least, group=group)), grouped(kept, k, 1))
    for search in (index.search_dense, partial(index.search_hybrid, query)):
        hits = search(embedding, k)
        assert search(embedding, k, min_score=least) == [hit for hit in hits if hit.score >= least]
    reranked = index.search(query, k, rerank=by_length, min_score=least)
    assert reranked == [hit for hit in index.search(query, k, rerank=by_length) if hit.score >= least]


def by_length(_: str, hits: Sequence[Hit]) -> list[float]:
    return [len(hit.text) / 10 for hit in hits]


@given(chunks, queries, vectors, sizes, sizes)
def test_groups_of_a_hybrid_search_are_those_of_its_candidates(
    given: Any, query: str, embedding: list[float], k: int, size: int
) -> None:
    index = stored(given)
    found = index.search_hybrid(query, embedding, k, sparse_k=40, dense_k=40, group=Grouping("page", size=size))
    assert equal(pairs(found), grouped(index.search_hybrid(query, embedding, 1000, sparse_k=40, dense_k=40), k, size))
    few = index.search_hybrid(query, embedding, k, sparse_k=k, dense_k=k, group=Grouping("page"))
    every = index.search_hybrid(query, embedding, 1000)
    assert len(few) == min(k, len({page_of(hit) for hit in every}))
    dense = index.search_dense(embedding, k, group=Grouping("page", size=size))
    assert {page_of(hit) for hit in dense} == {
        page_of(hit) for hit in index.search_dense(embedding, 1000) if page_of(hit) in {page_of(hit) for hit in dense}
    }
    assert len({page_of(hit) for hit in dense}) == min(
        k, len({page_of(hit) for hit in index.search_dense(embedding, 1000)})
    )


cuts = st.lists(st.tuples(st.integers(1, 12), st.integers(0, 5)), min_size=1, max_size=12)
letters = st.text(st.sampled_from("ab 中。\n"), min_size=160, max_size=200)


@given(letters, cuts, st.data(), st.sampled_from(["numbered", "by start", "by number"]))
def test_neighbours_are_the_text_of_the_document(document: str, cuts: Any, data: Any, kept: str) -> None:
    starts, ends = [0], [cuts[0][0]]
    for length, overlap in cuts[1:]:
        starts.append(max(starts[-1] + 1, ends[-1] - overlap))
        ends.append(max(starts[-1], ends[-1]) + length)
    pieces = [document[start:end] for start, end in zip(starts, ends, strict=True)]
    keys = {"numbered": ("chunk", "start_index"), "by start": ("start_index",), "by number": ("chunk", "start_index")}
    places = [{"chunk": at, "start_index": start} for at, start in enumerate(starts)]
    metadatas = [{"source": "d", **{key: place[key] for key in keys[kept]}} for place in places]
    stem = "d#" if kept == "numbered" else "piece "
    index = BM25Index.from_store(MemoryStore(), config=IndexConfig(chunk_size=4, analyzer=split))
    index.add(pieces, ids=[f"{stem}{at}" for at in range(len(pieces))], metadatas=metadatas)
    index.add(["elsewhere"], ids=["e#0"], metadatas=[{"source": "e", "chunk": 0, "start_index": 0}])
    at = data.draw(st.integers(0, len(pieces) - 1))
    before, after = data.draw(st.integers(0, 3)), data.draw(st.integers(0, 3))
    (own,) = index.get([f"{stem}{at}"])
    passage = index.neighbors(own, before, after)
    first, last = max(0, at - before), min(len(pieces) - 1, at + after)
    assert passage.text == document[starts[first] : ends[last]]
    assert passage.text[passage.start : passage.end] == own.text
    assert passage.start == starts[at] - starts[first]
    assert [chunk.id for chunk in passage.chunks] == [f"{stem}{one}" for one in range(first, last + 1)]
    assert index.neighbors(own, None, None).text == document[: ends[-1]]


PAGED: dict[str, dict[str, Any]] = {
    "plain": {},
    "groups": {"group": Grouping("page", 2)},
    "sums": {"group": Grouping("page", score="sum"), "candidates": 40},
    "boosts": {"boosts": [ValueBoost("kind", {"law": 2.0})]},
    "without near duplicates": {"diversity": NearDuplicates(0.9)},
    "reranked": {"rerank": lambda _, hits: [len(hit.text) for hit in hits]},
}


@pytest.mark.parametrize("options", PAGED.values(), ids=PAGED)
@given(chunks, queries, sizes)
def test_pages_are_parts_of_one_ranking(options: dict[str, Any], given: Any, query: str, size: int) -> None:
    with stored(given) as index:
        searches = {
            "search": partial(index.search, query),
            "like": partial(index.more_like_this, "00"),
            "hybrid": partial(index.search_hybrid, query, [1.0, 0.5]),
        }
        for search in searches.values():
            pages = [search(k=size, offset=start, **options) for start in range(0, 32, size)]
            assert pairs(chain.from_iterable(pages)) == pairs(search(k=40, **options))


@given(chunks, vectors)
def test_pages_of_dense_hits_are_parts_of_one_ranking(given: Any, vector: list[float]) -> None:
    with stored(given) as index:
        pages = [index.search_dense(vector, 3, offset=start) for start in range(0, 32, 3)]
        assert pairs(chain.from_iterable(pages)) == pairs(index.search_dense(vector, 40))
