"""Searching, reading, and figures."""

from __future__ import annotations

from typing import Any

import pytest
from support.memory_store import MemoryStore
from support.writes import fail_at

from rag_bm25 import BM25Index, Chunk, Hit, IndexConfig
from rag_bm25.documents.chunks import pk_digest
from rag_bm25.errors import (
    FilterError,
    InputError,
    StoreError,
)

# Reading


def test_chunks_come_back_as_they_were_given(filled: BM25Index) -> None:
    assert filled.get(["3", "1", "unknown", "1"]) == [
        Chunk("3", "fig", {}, "", 1),
        Chunk("1", "apple banana", {"page": 1}, "", 2),
    ]


def test_length_is_the_number_of_chunks_and_an_empty_index_is_true(filled: BM25Index) -> None:
    filled.add(["grape"], namespace="law")
    assert len(filled) == 4
    for namespace in ("", "law"):
        filled.drop_namespace(namespace)
    assert (len(filled), bool(filled)) == (0, True)


def test_all_chunks_can_be_streamed(filled: BM25Index) -> None:
    filled.add(["grape"], ids=["4"], namespace="law")
    assert sorted(chunk.id for chunk in filled.chunks()) == ["1", "2", "3"]
    assert sorted(chunk.id for chunk in filled.chunks(namespace=None)) == ["1", "2", "3", "4"]
    assert [chunk.id for chunk in filled.chunks(filter={"page": 2})] == ["2"]


def test_a_stream_of_chunks_is_checked_by_the_call(filled: BM25Index, store: MemoryStore) -> None:
    with pytest.raises(FilterError, match="unknown operator"):
        filled.chunks(filter={"page": {"$above": 1}})
    with pytest.raises(InputError, match="namespace must be a str"):
        filled.chunks(namespace=[])

    def fail(method: str) -> None:
        raise FilterError(f"{method} refused")

    store.on_call = fail
    with pytest.raises(FilterError, match="scan_chunks refused"):
        filled.chunks(filter={"page": 1})


def test_hit_has_all_of_its_chunk(filled: BM25Index) -> None:
    (hit,) = filled.search("banana")
    assert hit == Hit("1", hit.score, "apple banana", {"page": 1}, "")


def test_filter_leaves_the_scores_as_they_are(filled: BM25Index) -> None:
    every = {hit.id: hit.score for hit in filled.search("apple")}
    assert every["2"] == filled.search("apple", filter={"page": 2})[0].score


@pytest.mark.parametrize("query", ["", "  ", "\n", "unknown", "unknown words"])
def test_query_without_known_terms_finds_nothing_and_asks_nobody(
    filled: BM25Index, store: MemoryStore, query: str
) -> None:
    assert filled.search(query) == []
    assert store.calls == []


def test_batch_asks_once_and_only_for_queries_with_known_terms(filled: BM25Index, store: MemoryStore) -> None:
    found = filled.search_batch(["apple", "unknown", "fig", ""])
    assert [[hit.id for hit in hits] for hits in found] == [["1", "2"], [], ["3"], []]
    assert store.calls == ["search"]


@pytest.mark.parametrize("k", [1, 16_384])
def test_k_at_its_limits_is_taken(filled: BM25Index, k: int) -> None:
    assert len(filled.search("apple", k)) == min(k, 2)


# Two rows of one chunk, while an update is under way


@pytest.fixture(params=["b", "a"])
def updating(filled: BM25Index, store: MemoryStore, request: pytest.FixtureRequest) -> BM25Index:
    """The update of chunk 1 to "apple apple" has inserted its row in that slot, and not deleted the old one."""
    if request.param == "a":
        filled.add(["apple"], ids=["1"])
    old = {row.id: row for row in store.collections.chunks.values()}["1"]
    filled.add(["apple apple"], ids=["1"])
    store.insert_chunks([old])
    assert pk_digest("", "1") + request.param in store.collections.chunks
    store.calls.clear()
    return filled


def test_update_under_way_shows_the_newer_row_once(updating: BM25Index) -> None:
    assert [(hit.id, hit.text) for hit in updating.search("apple")] == [("1", "apple apple"), ("2", "apple cherry")]


def test_update_under_way_does_not_cost_a_hit(updating: BM25Index, store: MemoryStore) -> None:
    assert [hit.id for hit in updating.search("apple", 2)] == ["1", "2"]
    assert store.calls == ["search", "search"]


def test_enough_hits_need_no_second_search(updating: BM25Index, store: MemoryStore) -> None:
    assert [hit.id for hit in updating.search("apple", 1)] == ["1"]
    assert len(updating.search("apple", 4)) == 2
    assert store.calls == ["search", "search"]


def test_many_updates_under_way_cost_few_searches(index: BM25Index, store: MemoryStore) -> None:
    ids = [str(number) for number in range(20)]
    index.add(["apple pie"] * 20, ids=ids)
    old = dict(store.collections.chunks)
    index.add(["apple tart"] * 20, ids=ids)
    store.insert_chunks(list(old.values()))
    store.calls.clear()
    assert {hit.text for hit in index.search("apple", 20)} == {"apple tart"}
    assert store.calls == ["search", "search"]


def test_second_search_is_only_for_the_queries_that_lack_hits(updating: BM25Index) -> None:
    found = updating.search_batch(["fig", "apple", "cherry"], 2)
    assert [[hit.id for hit in hits] for hits in found] == [["3"], ["1", "2"], ["2"]]


def test_update_under_way_is_read_as_the_newer_row(updating: BM25Index) -> None:
    assert [chunk.text for chunk in updating.get(["1"])] == ["apple apple"]
    assert updating.explain("apple", "1").value == pytest.approx(updating.search("apple")[0].score)


# Namespaces


def test_row_that_landed_in_a_new_namespace_is_not_seen_by_others(filled: BM25Index, store: MemoryStore) -> None:
    fail_at(store, "delete_log")
    calls = iter(range(9))
    store.on_call = lambda method: fail_second_insert(method, calls)
    with pytest.raises(StoreError):
        filled.add(["apple secret"], ids=["1"], namespace="other")
    store.on_call = None
    assert {hit.namespace for hit in filled.search("apple")} == {""}
    assert [hit.id for hit in filled.search("apple", 2)] == ["1", "2"]


def fail_second_insert(method: str, calls: Any) -> None:
    """Fail when the delta is written."""
    if method == "insert_log" and next(calls) == 1:
        raise StoreError("lost")


def test_only_namespace_is_searched_without_a_filter(filled: BM25Index, store: MemoryStore) -> None:
    asked = []
    search = store.search
    store.search = lambda queries, arm: (asked.append(arm.scope.namespaces), search(queries, arm))[1]  # type: ignore[method-assign]
    filled.search("apple")
    filled.search("apple", namespace=["", "law"])
    filled.add(["apple"], namespace="law")
    filled.search("apple")
    filled.search("apple", namespace=None)
    assert asked == [None, None, ("",), None]


def test_on_a_server_the_namespace_is_always_named(config: IndexConfig) -> None:
    store = MemoryStore(exclusive=False)
    index = BM25Index.from_store(store, config=config)
    index.add(["apple"])
    asked = []
    search = store.search
    store.search = lambda queries, arm: (asked.append(arm.scope.namespaces), search(queries, arm))[1]  # type: ignore[method-assign]
    index.search("apple")
    assert asked == [("",)]


# Figures


def test_stats_have_the_drift_of_the_chunk_size(filled: BM25Index) -> None:
    stats = filled.stats()
    assert (stats.name, stats.namespaces, stats.length_unit) == ("memory", [""], "terms")
    assert (stats.num_chunks, stats.num_terms, stats.total_length) == (3, 4, 5)
    assert (stats.k1, stats.b, stats.chunk_size) == (1.5, 0.75, 4)
    assert stats.mean_length == pytest.approx(5 / 3)
    assert stats.chunk_size_ratio == pytest.approx(2.4)
    assert stats.effective_k1 == pytest.approx(1.5 * (0.25 + 0.75 / 2.4))
    assert stats.effective_b == pytest.approx((0.75 / 2.4) / (0.25 + 0.75 / 2.4))


def test_stats_of_a_namespace(filled: BM25Index) -> None:
    filled.add(["grape fig"], namespace="law")
    assert (filled.stats(namespace="law").num_chunks, filled.stats(namespace="law").num_terms) == (1, 2)
    assert filled.stats(namespace=["law", ""]).num_terms == filled.stats().num_terms == 5
    assert filled.stats(namespace="unknown").num_chunks == 0


def test_stats_of_an_empty_index_have_no_drift(index: BM25Index) -> None:
    stats = index.stats()
    assert (stats.mean_length, stats.average_idf, stats.chunk_size_ratio) == (0.0, 0.0, 1.0)
    assert (stats.effective_k1, stats.effective_b) == (1.5, 0.75)


def test_a_hit_in_place_of_its_id_is_answered(filled: BM25Index) -> None:
    (hit,) = filled.search("fig", k=1)
    with pytest.raises(InputError, match=r"^id must be a str, got Hit: pass its id$"):
        filled.explain("fig", hit)  # type: ignore[arg-type]
