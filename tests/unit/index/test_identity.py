"""An index that is dropped and made again in the middle of a call of another object, on a server."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest
from support.indexes import CONFIG, filled
from support.memory_store import MemoryStore, drop_log

from rag_bm25 import BM25Index, FormatError, IndexGroup, StoreError
from rag_bm25.errors import IndexGoneError
from rag_bm25.index import drop_former_generations, drop_index
from rag_bm25.ingestion import reindex
from rag_bm25.ingestion.source_roots import SourceRoot, read_source_roots, set_source_roots
from rag_bm25.statistics.log.birth import birth_row
from rag_bm25.statistics.log.keys import keys_of

NEW = {"n1": "new contract", "n2": "new rent"}
AGAIN = r"was dropped while it was open, and was made again: open it anew"


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(exclusive=False)


def wait_until(holds: Callable[[], object]) -> None:
    while not holds():
        time.sleep(0.01)


def make_again(store: MemoryStore) -> None:
    drop_index(store.reopen())
    filled(NEW, store=store.reopen())


def at_call(store: MemoryStore, method: str, nth: int) -> None:
    """Have another process make the index again before the nth call of a method from now on."""
    left = [nth]

    def meet(called: str) -> None:
        left[0] -= called == method
        if not left[0]:
            left[0] = -1
            store.on_call = None
            make_again(store)

    store.on_call = meet


@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("method", ["log_keys", "insert_log", "insert_chunks", "get_chunks", "delete_chunks"])
def test_a_batch_that_meets_it_changes_no_count_and_is_named(store: MemoryStore, method: str, nth: int) -> None:
    index = filled({"o1": "old rule", "o2": "old rent"}, store=store)
    at_call(store, method, nth)
    with suppress(IndexGoneError):  # it may have looked for the last time before
        index.add(["old rule changed"], ids=["o1"])
    if store.on_call is not None:  # it makes fewer calls of that method
        make_again(store)
    with pytest.raises(StoreError, match=AGAIN):
        index.refresh()
    for use in (index.search, index.add):
        with pytest.raises(StoreError, match=AGAIN):
            use(["old"])  # type: ignore[arg-type]
    with BM25Index.from_store(store.reopen(), config=CONFIG) as again:
        assert again.stats().num_chunks == 2
        assert {term.term: term.df for term in again.terms()} == {"new": 2, "contract": 1, "rent": 1}
        again.add(["new later"], ids=["n3"])
        named = {each.what for each in again.verify().differences}
        has_strays = any(row.id == "o1" for row in store.collections.chunks.values())
        assert has_strays == ("chunks" in named)
        has_rows = len(keys_of(store.log_keys(), "delta")) > 2  # one of each write of the new index
        assert has_rows <= ("batches of an index that was dropped" in named)
        again.repair()
        assert again.verify().differences == []
        assert again.stats().num_chunks == 3 + has_strays


def test_a_reader_without_a_search_learns_it_in_the_background(store: MemoryStore) -> None:
    filled({"o1": "old rule"}, store=store.reopen())
    reader = BM25Index.from_store(store, config=CONFIG, read_only=True, refresh_interval=0.01)
    assert reader.search("old")
    group = IndexGroup([reader, filled(NEW)])
    make_again(store)
    wait_until(lambda: vars(reader)["_generation"].live._gone)
    for index in (reader, group):
        with pytest.raises(IndexGoneError, match="was dropped while it was open"):  # it may look between the two
            index.search("old")


def test_source_roots_of_the_index_before_are_not_those_of_the_new_one(store: MemoryStore) -> None:
    index = filled(NEW, store=store)
    set_source_roots(index, [SourceRoot("docs", "/old")])
    roots = {key: store.collections.log[key] for key in keys_of(store.log_keys(), "root")}
    make_again(store)
    store.collections.log.update(roots)  # late, by a server that was busy
    with BM25Index.from_store(store.reopen(), config=CONFIG) as again:
        assert read_source_roots(again) == []
        assert [each.what for each in again.verify().differences] == ["batches of an index that was dropped"]


@pytest.mark.parametrize("lost", ["birth", "config"])
def test_a_lost_birth_id_is_repaired(store: MemoryStore, lost: str) -> None:
    index = filled(NEW, store=store)
    for key in keys_of(store.log_keys(), lost):
        del store.collections.log[key]
    if lost == "birth":
        with pytest.raises(FormatError, match="its birth id is lost"):
            index.refresh()
    repaired = BM25Index.from_store(store.reopen(), config=CONFIG, repair=True)
    assert repaired.verify().differences == []
    assert repaired.stats().num_chunks == 2
    index.add(["new later"], ids=["n3"])  # it is the same index
    assert BM25Index.from_store(store.reopen(), config=CONFIG).stats().num_chunks == 3


def test_several_creators_make_one_index(store: MemoryStore) -> None:
    with BM25Index.from_store(store, config=CONFIG) as one:
        one.add(["new contract"], ids=["n1"])
        store.insert_log([birth_row("0" * 12)])  # of another process that began at the same moment
        other = BM25Index.from_store(store.reopen(), config=CONFIG)
        other.add(["new rent"], ids=["n2"])
        one.add(["new"], ids=["n3"])
        assert other.verify().differences == []
        assert other.stats().num_chunks == 3


def test_a_log_that_is_gone_is_repaired_under_a_new_birth_id(store: MemoryStore) -> None:
    index = filled(NEW, store=store)
    drop_log(store)
    repaired = BM25Index.from_store(store.reopen(), config=CONFIG, repair=True)
    assert repaired.verify().differences == []
    with pytest.raises(StoreError, match=AGAIN):
        index.add(["new"], ids=["n4"])


def test_generations_are_told_from_those_of_another_index(store: MemoryStore) -> None:
    index = filled({"o1": "old rule"}, store=store)
    behind = BM25Index.from_store(store.reopen(), config=CONFIG)
    reindex(index, replace(CONFIG, k1=0.5))
    drop_former_generations(store.reopen())
    drop_index(store.reopen())
    again = filled(NEW, store=store.reopen())
    reindex(again, replace(CONFIG, k1=0.6))
    for old in (index, behind):
        with pytest.raises(StoreError, match="was dropped while it was open"):
            old.add(["old"])
    assert again.verify().differences == []
