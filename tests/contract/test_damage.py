"""An index that other tools have damaged says so on every engine, and a repair mends it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.memory_store import drop_chunks, drop_log

from rag_bm25 import BM25Index, FormatError, IndexConfig, IndexNotFoundError
from rag_bm25.index.maintenance.copying import drop_index
from rag_bm25.store.memory import MemoryStore
from rag_bm25.store.protocol import Store

CONFIG = IndexConfig(chunk_size=4, length_unit="terms")


@pytest.fixture
def filled(store: Store) -> Store:
    index = BM25Index.from_store(store, config=CONFIG)
    index.add(["apple fig", "fig", ""], ids=["1", "2", "3"])
    index.add(["apple pie"], ids=["1"])
    return store


def answers(index: BM25Index) -> list[tuple[str, float]]:
    return [(hit.id, pytest.approx(hit.score, rel=1e-6)) for hit in index.search("apple fig pie")]


def test_dropped_statistics_are_told_and_counted_anew(filled: Store, opened: Callable[..., Store]) -> None:
    expected = answers(BM25Index.from_store(opened()))
    drop_one(filled, "_log")
    for options in ({}, {"config": CONFIG}, {"repair": True}):
        with pytest.raises(FormatError, match="its statistics are lost, with its config; open it with repair=True"):
            BM25Index.from_store(opened(), **options)
    index = BM25Index.from_store(opened(), config=CONFIG, repair=True)
    assert answers(index) == expected
    again = BM25Index.from_store(opened())
    assert (again.problems, again.verify().differences) == ([], [])
    again.add(["cherry"])
    assert BM25Index.from_store(opened()).verify().ok


@pytest.mark.parametrize("dropped", ["_log", "_chunks"])
def test_a_drop_that_was_cut_short_is_finished_by_the_next(
    filled: Store, opened: Callable[..., Store], dropped: str
) -> None:
    drop_one(filled, dropped)
    assert drop_index(opened(), dry_run=True) == (3 if dropped == "_log" else 0)
    assert drop_index(opened()) == (3 if dropped == "_log" else 0)
    with pytest.raises(IndexNotFoundError):
        drop_index(opened())
    assert BM25Index.from_store(opened(), config=CONFIG).stats().num_chunks == 0


@pytest.mark.parametrize(
    ("kind", "damage"),
    [
        ("terms", ["terms missing from the vocabulary: 5"]),
        ("delta", ["changes missing from the statistics: 1", "the statistics count 0 chunks, but 3 are stored"]),
    ],
)
def test_rows_of_the_log_that_are_gone_are_told(
    filled: Store, opened: Callable[..., Store], kind: str, damage: list[str]
) -> None:
    expected = answers(BM25Index.from_store(opened()))
    keys = sorted(key for key in filled.log_keys() if key.startswith(kind))
    filled.delete_log(keys[:1] if kind == "delta" else keys)  # without the last delta, its batch is unfinished
    for read_only in (True, False):
        assert BM25Index.from_store(opened(), read_only=read_only).problems == damage
    index = BM25Index.from_store(opened(), repair=True)
    assert (index.problems, answers(index)) == ([], expected)


def test_chunks_that_another_tool_deleted_are_told(filled: Store, opened: Callable[..., Store]) -> None:
    filled.delete_chunks([row.pk for rows in filled.scan_chunks() for row in rows if row.id == "2"])
    assert BM25Index.from_store(opened()).problems == ["the statistics count 3 chunks, but 2 are stored"]


def drop_one(store: Store, attribute: str) -> None:
    """Drop one of the two collections, as any client can."""
    if not isinstance(store, MemoryStore):
        getattr(store, attribute).drop()
    elif attribute == "_log":
        drop_log(store)
    else:
        drop_chunks(store)
