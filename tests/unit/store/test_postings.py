"""Searches of the store in memory, against a loop over every row, while rows come and go."""

from __future__ import annotations

import sys
import threading
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.rows import chunk

from rag_bm25.store import MemoryStore
from rag_bm25.store.postings import Postings
from rag_bm25.store.rows import ALL_CHUNKS, ChunkRow, Scope, SearchArm, other_slot
from rag_bm25.vectors.sparse import SparseVector

# Few dimensions and weights, so that rows share them and scores are equal; thirds, so that the order of a sum shows.
WEIGHTS = st.sampled_from([1.0, 1 / 3, 0.1, 3e7])
VECTORS = st.dictionaries(st.integers(1, 6) | st.just(2**32 - 2), WEIGHTS, min_size=1).map(SparseVector.from_dict)
ROWS = st.lists(st.tuples(st.integers(0, 30), st.sampled_from(["", "law"]), VECTORS), max_size=12)
KEYS = st.lists(st.integers(0, 30).map("{:08x}a".format), max_size=8)
CHANGES = st.lists(st.tuples(st.sampled_from(["add", "update", "delete"]), ROWS, KEYS, st.booleans()), max_size=8)
SCOPES = st.sampled_from([ALL_CHUNKS, Scope(namespaces=("law",)), Scope(longer_than=12), Scope(namespaces=())])
ARMS = st.builds(SearchArm, st.integers(1, 9), SCOPES, pks=st.none() | KEYS.map(tuple))


def made() -> MemoryStore:
    store = MemoryStore()
    store.create()
    return store


def change(store: MemoryStore, how: str, rows: list[tuple[int, str, SparseVector]], keys: list[str]) -> None:
    present = store.collections.chunks
    if how == "add":
        new = {row.pk: row for row in (chunk(at, namespace=name, vector=vector) for at, name, vector in rows)}
        store.insert_chunks([row for pk, row in new.items() if pk not in present])
    elif how == "update":
        old = [present[pk] for pk in dict.fromkeys(keys) if pk in present and other_slot(pk) not in present]
        store.insert_chunks([replace(row, pk=other_slot(row.pk), text="new") for row in old])
        store.delete_chunks([row.pk for row in old])
    else:
        store.delete_chunks(keys)


def read_all(rows: list[ChunkRow], query: SparseVector, arm: SearchArm) -> list[tuple[str, float]]:
    """The best rows by (-score, id, pk), from every vector."""
    found = []
    for row in rows:
        weights, scope = row.vector.to_dict(), arm.scope
        shared = [id_ for id_ in query.ids.tolist() if id_ in weights]
        is_meant = (arm.pks is None or row.pk in arm.pks) and row.length > (scope.longer_than or -1)
        if shared and is_meant and (scope.namespaces is None or row.namespace in scope.namespaces):
            score = 0.0
            for id_ in shared:
                score += weights[id_] * query.get(id_)
            found.append((-float(np.float32(score)), row.id, row.pk))
    return [(pk, -score) for score, _, pk in sorted(found)[: arm.limit]]


@given(CHANGES, st.lists(VECTORS, min_size=1, max_size=3), ARMS, st.sampled_from([2, 8]))
def test_a_search_finds_what_a_loop_over_every_vector_finds(
    changes: list[Any], queries: list[SparseVector], arm: SearchArm, factor: int
) -> None:
    store = made()
    with patch("rag_bm25.store.postings.FACTOR", factor):
        for how, rows, keys, is_searched in [*changes, ("delete", [], [], True)]:
            change(store, how, rows, keys)
            if is_searched:
                present = list(store.collections.chunks.values())
                found = [[(match.row.pk, match.score) for match in matches] for matches in store.search(queries, arm)]
                assert found == [read_all(present, query, arm) for query in queries]


def test_a_query_without_dimensions_finds_nothing() -> None:
    store = made()
    store.insert_chunks([chunk(1)])
    assert store.search([SparseVector.from_dict({})], SearchArm(5)) == [[]]


def test_a_view_is_that_of_its_moment() -> None:
    rows = [chunk(at) for at in range(4)]
    postings = Postings(rows)
    view = postings.view()
    postings.remove([rows[0].pk])
    postings.add([chunk(9)])
    assert view.scores(rows[0].vector)[0].tolist() == [0, 1, 2, 3]
    assert [postings.view().rows[at].id for at in postings.view().scores(rows[0].vector)[0]] == [
        "id-1", "id-2", "id-3", "id-9",
    ]  # fmt: skip


@pytest.mark.parametrize("rows", [64, 512])
def test_each_row_is_indexed_a_logarithmic_number_of_times(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    indexed: list[int] = []
    level = sys.modules["rag_bm25.store.postings"]._Level  # type: ignore[attr-defined]
    make = level.of
    monkeypatch.setattr(level, "of", lambda numbers, vectors: (indexed.append(len(numbers)), make(numbers, vectors))[1])
    postings = Postings()
    for at in range(rows):
        postings.add([chunk(at)])
        postings.view()
    assert sum(indexed) < rows * 8 * np.log2(rows)


def test_rows_that_are_deleted_do_not_stay() -> None:
    postings = Postings()
    for at in range(200):
        postings.add([chunk(at)])
        postings.remove([chunk(at).pk])
    assert len(postings.view().rows) < 5


def test_a_chunk_that_is_updated_meanwhile_is_found_once_or_twice_and_never_lost() -> None:
    store, ended = made(), threading.Event()
    store.insert_chunks([chunk(1)])

    def update() -> None:
        for _ in range(300):
            change(store, "update", [], list(store.collections.chunks))
        ended.set()

    writer = threading.Thread(target=update)
    writer.start()
    while not ended.is_set():
        assert {match.row.id for match in store.search([chunk(1).vector], SearchArm(5))[0]} == {"id-1"}
    writer.join()
