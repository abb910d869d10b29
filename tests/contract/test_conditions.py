"""Conditions of queries: the same answers on every engine, however few chunks meet them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.reference import split

from rag_bm25 import BM25Index, IndexConfig, Query
from rag_bm25.store.milvus import searching
from rag_bm25.store.milvus.found_rows import Hits, read_found_rows
from rag_bm25.store.protocol import Store
from rag_bm25.store.rows import SearchArm

CONFIG = IndexConfig(chunk_size=12, analyzer=split, idf="lucene")
NUM_CHUNKS = 120
IDS = [f"{at:03}" for at in range(NUM_CHUNKS)]


@pytest.fixture
def index(new_index: Callable[[IndexConfig], BM25Index]) -> BM25Index:
    """Chunks of which every third has a phrase, the longest ones last, and one chunk a rare word."""
    index = new_index(CONFIG)
    texts = ["fig plum" if at % 3 else "plum fig" + " pear" * (at // 3) for at in range(NUM_CHUNKS)]
    texts[-1] += " rare"
    index.add(texts, ids=IDS, metadatas=[{"half": at % 2} for at in range(NUM_CHUNKS)])
    index.add(["plum fig rare"], ids=["elsewhere"], namespace="other")
    return index


@pytest.mark.parametrize(
    ("query", "passes"),
    [
        (Query("fig", phrases=["plum fig"]), lambda words: words[0] == "plum"),
        (Query("fig", phrases=["plum pear"], slop=1), lambda words: "pear" in words),
        (Query("fig", must=["rare"]), lambda words: "rare" in words),
        (Query("pear", must=["rare"]), lambda words: {"pear", "rare"} <= set(words)),
        (Query("fig", must=["pear"], must_not=["plum fig"]), lambda words: False),
        (Query("fig", must=["never"]), lambda words: False),
    ],
)
@pytest.mark.parametrize("k", [1, 10, 200])
def test_hits_are_those_of_a_search_for_all_that_meet_them(
    index: BM25Index, query: Query, passes: Callable[[list[str]], bool], k: int
) -> None:
    for options in ({}, {"filter": {"half": 1}}, {"namespace": None}):
        every = index.search(str(query), 1000, **options)
        expected = [hit for hit in every if passes(hit.text.split())][:k]
        found = index.search(query, k, **options)
        assert [hit.id for hit in found] == [hit.id for hit in expected]
        assert [hit.score for hit in found] == pytest.approx([hit.score for hit in expected], rel=1e-5)


@pytest.mark.parametrize("condition", ["税", "😀", "not"])
@pytest.mark.parametrize("k", [1, 200])
def test_a_condition_for_which_no_term_is_searched_is_met_however_late(
    new_index: Callable[[IndexConfig], BM25Index], condition: str, k: int
) -> None:
    index = new_index(IndexConfig(chunk_size=12))
    late = "plum" + " pear" * 60 + " 增值税 😀 not"
    index.add(["plum fig", *["plum tree"] * NUM_CHUNKS, late, late], ids=["fig", *IDS, "late", "later"])
    with_it = [hit.id for hit in index.search(Query("plum", must=[condition]), k)]
    without = [hit.id for hit in index.search(Query("plum", must_not=[condition]), k)]
    assert with_it == ["late", "later"][:k]
    assert without == [*IDS, "fig"][:k]


@pytest.mark.parametrize("limit", [9, 121])
def test_rows_have_their_vectors_however_many(index: BM25Index, opened: Callable[..., Store], limit: int) -> None:
    store, (query,) = opened(), index.encode_queries(["fig"])
    many, few = store.search([query, query], SearchArm(limit, vectors=True))
    assert many == few
    assert len(many) == limit
    stored = {row.pk: row for row in store.get_chunks([match.row.pk for match in many], vectors=True)}
    assert [match.row for match in many] == [stored[match.row.pk] for match in many]
    assert [match.score for match in many] == pytest.approx([query.dot(match.row.vector) for match in many], rel=1e-3)


MEANWHILE: dict[str, Callable[[BM25Index], object]] = {
    "all are updated": lambda index: index.add(["fig plum new"] * NUM_CHUNKS, ids=IDS, metadatas=[{"half": 1}] * 120),
    "some are updated, twice": lambda index: [index.add([f"fig {at}"] * 50, ids=IDS[:50]) for at in range(2)],
    "some do not fit any more": lambda index: index.add(["fig"] * 60, ids=IDS[:60], metadatas=[{"half": 2}] * 60),
    "some have no term of the query": lambda index: index.add(["apple"] * 60, ids=IDS[60:]),
    "some are deleted": lambda index: index.delete(IDS[:60]),
}


@pytest.mark.parametrize("act", MEANWHILE)
@pytest.mark.parametrize("options", [{}, {"filter": {"half": 1}}, {"namespace": None}])
def test_chunks_that_change_between_a_search_and_the_reading_of_its_rows_are_found_as_they_are_now(
    index: BM25Index, engine: str, act: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    acts = [MEANWHILE[act]]

    def read(*arguments: Any) -> list[Hits]:
        while acts:
            acts.pop()(index)
        return read_found_rows(*arguments)

    monkeypatch.setattr(searching, "read_found_rows", read)
    monkeypatch.setattr(searching, "VECTORS_OF_A_SEARCH", 10)
    query = Query("fig plum", must=["fig"])
    found = index.search(query, 50, **options)
    assert acts == [] or engine == "memory"
    if engine == "memory":  # it searches and reads at once
        return
    now = {hit.id: hit for hit in index.search(query, 200, **options)}  # with other IDFs, so that scores differ
    assert len(found) == len({hit.id for hit in found}) == min(50, len(now))
    assert [(hit.text, hit.metadata) for hit in found] == [(now[hit.id].text, now[hit.id].metadata) for hit in found]
    assert [hit.score for hit in found] == sorted([hit.score for hit in found], reverse=True)
