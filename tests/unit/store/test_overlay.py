"""A store that keeps writes in memory above another one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.memory_store import MemoryStore, copied
from support.rows import chunk, scanned

from rag_bm25.store.overlay import overlay
from rag_bm25.store.protocol import Store
from rag_bm25.store.rows import LogRow, SearchArm
from rag_bm25.vectors.sparse import SparseVector

QUERY = SparseVector.from_dict({7: 1.0})
NUM_ROWS = 300


@pytest.fixture
def below() -> MemoryStore:
    store = MemoryStore()
    store.create()
    store.insert_chunks([chunk(at, vector=SparseVector.from_dict({7: 1.0 + at})) for at in range(NUM_ROWS)])
    store.insert_log([LogRow(key, "delta", {"n": 1}, "packed") for key in ("a", "b", "c")])
    return store


def found(store: Store, limit: int, *pks: str) -> list[tuple[str, float]]:
    (matches,) = store.search([QUERY], SearchArm(limit, pks=pks or None))
    return [(match.row.id, match.score) for match in matches]


def test_rows_of_the_log_are_written_and_deleted_above(below: MemoryStore) -> None:
    before, store = copied(below.collections), overlay(below, None)
    store.delete_log(["b"])
    store.insert_log([LogRow("c", "delta", {"n": 2}), LogRow("d", "delta")])
    assert sorted(store.log_keys()) == ["a", "c", "d"]
    assert sorted(store.log_keys([("a", "d")])) == ["c"]
    assert {row.key: row.meta for row in store.get_log(["a", "b", "c", "d"])} == {"a": {"n": 1}, "c": {"n": 2}, "d": {}}
    store.delete_log(["c", "d"])
    assert sorted(store.log_keys()) == ["a"]
    assert copied(below.collections) == before


def test_a_search_asks_for_as_many_rows_as_were_deleted(below: MemoryStore) -> None:
    store = overlay(below, None)
    store.delete_chunks([chunk(at).pk for at in (299, 297, 1000)])
    store.insert_chunks([chunk(500, vector=SparseVector.from_dict({7: 298.0}))])
    assert found(store, 4) == [("id-298", 299.0), ("id-500", 298.0), ("id-296", 297.0), ("id-295", 296.0)]
    assert below.calls.count("search") == 1
    assert found(store, 4, chunk(299).pk, chunk(298).pk) == [("id-298", 299.0)]
    assert store.count_chunks() == store.count_unloaded() == NUM_ROWS - 1
    assert len(scanned(store)) == NUM_ROWS - 1


@pytest.mark.parametrize("deleted", [10, 250])
def test_where_nearly_all_best_rows_were_deleted_the_others_are_found(below: MemoryStore, deleted: int) -> None:
    store = overlay(below, None)
    gone = range(NUM_ROWS - deleted, NUM_ROWS)
    store.delete_chunks([chunk(at).pk for at in gone])
    left = [(f"id-{at}", 1.0 + at) for at in reversed(range(NUM_ROWS - deleted))]
    assert [found(store, limit) for limit in (2, 2, 5)] == [left[:2], left[:2], left[:5]]
    assert list(scanned(store)) == [chunk(at).pk for at in range(NUM_ROWS - deleted)]
    assert store.count_chunks() == NUM_ROWS - deleted
    store.insert_chunks([replace(chunk(gone[-1]), vector=QUERY)])  # a key that was free again
    assert store.count_chunks() == NUM_ROWS - deleted + 1
    assert below.count_chunks() == NUM_ROWS


def test_closing_it_leaves_the_other_store_open(below: MemoryStore) -> None:
    overlay(below, None).close()
    assert below.count_chunks() == NUM_ROWS
