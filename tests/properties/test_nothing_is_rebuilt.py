"""Promise 4: the cost of adding a batch does not grow with the corpus: counted, not timed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.memory_store import MemoryStore
from support.reference import split

from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.statistics.log.packing import unpack_page
from rag_bm25.statistics.log.stored_statistics import StoredStatistics
from rag_bm25.weighting.idf import IdfInputs

CONFIG = IndexConfig(chunk_size=4, length_unit="terms", analyzer=split)


class CountingStore(MemoryStore):
    """Counts the rows that go in and out, by method."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: Counter[str] = Counter()

    def insert_chunks(self, rows: Sequence[Any]) -> None:
        self.rows["insert_chunks"] += len(rows)
        super().insert_chunks(rows)

    def delete_chunks(self, pks: Sequence[str]) -> None:
        self.rows["delete_chunks"] += len(pks)
        super().delete_chunks(pks)

    def get_chunks(self, pks: Sequence[str], **options: bool) -> list[Any]:
        self.rows["get_chunks"] += len(pks)
        return super().get_chunks(pks, **options)

    def insert_log(self, rows: Sequence[Any], *, defer: bool = False) -> None:
        self.rows["insert_log"] += len(rows)
        self.rows["counts"] += sum(len(unpack_page(row.packed)) for row in rows if row.kind == "delta")
        super().insert_log(rows, defer=defer)

    def get_log(self, keys: Sequence[str], **options: bool) -> list[Any]:
        self.rows["get_log"] += len(keys)
        return super().get_log(keys, **options)


def corpus(size: int) -> tuple[BM25Index, CountingStore]:
    """Return an index of `size` chunks, of which each has a term of its own."""
    store = CountingStore()
    index = BM25Index.from_store(store, config=CONFIG)
    texts = [f"apple banana w{number}" for number in range(size)]
    index.add(texts, ids=[str(number) for number in range(size)])
    store.calls.clear()
    store.rows.clear()
    return index, store


def levels(statistics: StoredStatistics) -> Any:
    return statistics.whole._df._levels


def add(index: BM25Index) -> None:
    index.add(["apple cherry", "new words"], ids=["x", "y"])


def update(index: BM25Index) -> None:
    index.add(["apple cherry", "new words"], ids=["1", "2"])


def delete(index: BM25Index) -> None:
    index.delete(["1", "2"])


def search(index: BM25Index) -> None:
    index.search("apple w7")


@pytest.mark.parametrize("action", [add, update, delete, search])
def test_store_has_the_same_work_with_twenty_times_the_corpus(action: Callable[[BM25Index], None]) -> None:
    (small, small_store), (large, large_store) = corpus(20), corpus(400)
    action(small)
    action(large)
    assert small_store.calls == large_store.calls
    assert small_store.rows == large_store.rows
    assert "scan_chunks" not in large_store.calls


def test_add_takes_a_fixed_number_of_calls() -> None:
    index, store = corpus(50)
    add(index)
    assert store.calls == ["get_chunks", "insert_log", "insert_chunks", "insert_log"]
    assert store.rows == {"get_chunks": 4, "insert_log": 3, "insert_chunks": 2, "counts": 4}


def test_update_takes_one_call_more() -> None:
    index, store = corpus(50)
    update(index)
    assert store.calls == ["get_chunks", "insert_log", "insert_chunks", "delete_chunks", "insert_log"]


def test_search_is_one_call() -> None:
    index, store = corpus(50)
    search(index)
    assert store.calls == ["search"]


@pytest.mark.parametrize("namespace", ["", "other", ["", "other"], None])
def test_search_lists_no_namespaces(namespace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    index, _ = corpus(50)
    index.add(["apple"], namespace="other")
    monkeypatch.setattr(StoredStatistics, "namespaces", property(lambda _: pytest.fail("they were listed")))
    assert index.search("apple", namespace=namespace)


def test_query_is_weighed_by_one_logarithm_per_df_and_not_per_term(monkeypatch: pytest.MonkeyPatch) -> None:
    index, _ = corpus(400)
    seen: list[int] = []
    from rag_bm25.statistics import corpus as statistics

    def spying(dfs: NDArray[np.int64], terms: NDArray[np.int64], num_chunks: int) -> float:
        seen.append(len(dfs))
        return 1.0

    monkeypatch.setattr(statistics, "average_idf", spying)
    add(index)
    index.search("apple")
    assert seen == [3, 0, 0]  # the df of words are 1, 400 and 401; there are no bigrams and no characters


def test_figures_are_worked_out_once_for_many_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    index, _ = corpus(50)
    made: list[IdfInputs] = []
    from rag_bm25.statistics import corpus as statistics

    def spying(*figures: Any) -> IdfInputs:
        made.append(IdfInputs(*figures))
        return made[-1]

    monkeypatch.setattr(statistics, "IdfInputs", spying)
    add(index)
    for _ in range(5):
        search(index)
    assert len(made) == 1


def test_big_table_is_not_copied_for_a_batch() -> None:
    index, _ = corpus(1000)
    largest = levels(index._live.view.statistics)[0]
    for number in range(20):
        index.add([f"fresh{number}"])
        index.search(f"fresh{number}")
    assert levels(index._live.view.statistics)[0] is largest
    assert index.verify().ok
