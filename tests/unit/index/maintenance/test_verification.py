from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from rag_bm25.documents.chunks import pk_digest
from rag_bm25.index.maintenance.verification import Difference, VerifyReport
from rag_bm25.statistics.corpus import Contribution
from rag_bm25.statistics.log.writes import Delta, DeltaRow
from rag_bm25.vectors.sparse import SparseVector
from rag_bm25.vectors.terms import term_id

if TYPE_CHECKING:
    from support.memory_store import MemoryStore

    from rag_bm25 import BM25Index


def test_new_index_has_nothing_to_report(index: BM25Index) -> None:
    assert index.verify() == VerifyReport(0, 0, [])
    assert index.verify().ok


def test_report_counts_rows_and_terms(index: BM25Index) -> None:
    index.add(["a b", "b c", ""])
    index.add(["b"], namespace="x")
    assert index.verify() == VerifyReport(4, 3, [])


def test_wrong_totals_and_df_are_named(index: BM25Index, store: MemoryStore) -> None:
    index.add(["apple pie"], namespace="x")
    wrong = Contribution(1, 5, np.array([term_id("apple")], np.uint32), np.array([2]))
    store.insert_log(DeltaRow.encode("f" * 24, Delta("x", wrong)))
    report = index.verify()
    assert not report.ok
    assert report.differences == [
        Difference("x", "chunks", 2, 1),
        Difference("x", "length", 7, 2),
        Difference("x", "df of 'apple'", 3, 1),
    ]


def test_row_that_vanished_is_noticed(index: BM25Index, store: MemoryStore) -> None:
    index.add(["apple"], ids=["1"])
    store.collections.chunks.clear()
    assert index.verify().differences == [
        Difference("", "chunks", 1, 0),
        Difference("", "length", 1, 0),
        Difference("", "df of 'apple'", 1, 0),
    ]


def test_row_of_an_unknown_namespace_is_noticed(index: BM25Index, store: MemoryStore) -> None:
    index.add(["apple"], ids=["1"])
    (row,) = store.collections.chunks.values()
    pk = pk_digest("y", "1") + "a"
    store.collections.chunks[pk] = replace(row, pk=pk, namespace="y")
    assert [str(difference) for difference in index.verify().differences] == [
        "namespace 'y': chunks: stored 0, counted 1",
        "namespace 'y': length: stored 0, counted 1",
        "namespace 'y': df of 'apple': stored 0, counted 1",
    ]


def test_two_rows_of_one_chunk_are_noticed(index: BM25Index, store: MemoryStore) -> None:
    index.add(["apple"], ids=["1"])
    kept = dict(store.collections.chunks)
    index.add(["banana"], ids=["1"])
    store.collections.chunks.update(kept)
    assert Difference("", "chunks with two rows", 0, 1) in index.verify().differences


def test_rows_of_other_tools_are_noticed(index: BM25Index, store: MemoryStore) -> None:
    index.add(["apple"], ids=["1"])
    (row,) = store.collections.chunks.values()
    store.collections.chunks["mine"] = replace(row, pk="mine")
    assert Difference("", "rows under keys of other tools", 0, 1) in index.verify().differences


def test_term_that_the_vocabulary_lacks_is_noticed(index: BM25Index, store: MemoryStore) -> None:
    index.add(["apple"], ids=["1"])
    (row,) = store.collections.chunks.values()
    store.collections.chunks[row.pk] = replace(row, vector=SparseVector.from_dict({7: 0.5}))
    assert Difference("", "vocabulary has the term of id 7", 0, 1) in index.verify().differences
    assert Difference("", "df of 7", 0, 1) in index.verify().differences


def test_difference_reads_as_a_line() -> None:
    assert str(Difference("", "chunks", 1234, 1233)) == "chunks: stored 1,234, counted 1,233"


def test_placeholder_is_not_counted_as_a_term(index: BM25Index) -> None:
    index.add(["", "apple"])
    assert index.verify() == VerifyReport(2, 1, [])
