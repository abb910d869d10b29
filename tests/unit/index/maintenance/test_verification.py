from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from support.memory_store import MemoryStore

from rag_bm25 import BM25Index, FieldWeight, IndexConfig
from rag_bm25.documents.chunks import pk_digest
from rag_bm25.index.maintenance.verification import Difference, VerifyReport
from rag_bm25.statistics.corpus import Contribution
from rag_bm25.statistics.log.terms import TermsRow
from rag_bm25.statistics.log.writes import Delta, DeltaRow
from rag_bm25.vectors.sparse import SparseVector
from rag_bm25.vectors.terms import term_id


def test_report_counts_rows_and_terms(index: BM25Index) -> None:
    index.add(["a b", "b c", ""])
    index.add(["b"], namespace="x")
    assert index.verify() == VerifyReport(4, 3, [])


def test_wrong_totals_and_df_are_named(index: BM25Index, store: MemoryStore) -> None:
    index.add(["apple pie"], namespace="x")
    wrong = Contribution(1, 5, np.array([term_id("apple")], np.uint32), np.array([2]))
    store.insert_log(DeltaRow.encode("f" * 24 + index._live.log.birth, Delta("x", wrong)))
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


def test_term_that_the_vocabulary_lacks_is_noticed(index: BM25Index, store: MemoryStore) -> None:
    index.add(["apple"], ids=["1"])
    (row,) = store.collections.chunks.values()
    store.collections.chunks[row.pk] = replace(row, vector=SparseVector.from_dict({7: 0.5}))
    assert Difference("", "vocabulary has the term of id 7", 0, 1) in index.verify().differences
    assert Difference("", "df of 7", 0, 1) in index.verify().differences


def test_difference_reads_as_a_line() -> None:
    assert str(Difference("", "chunks", 1234, 1233)) == "chunks: stored 1,234, counted 1,233"


@pytest.fixture
def changed(index: BM25Index, store: MemoryStore) -> Callable[..., BM25Index]:
    """Change the stored row of a chunk, as a flipped bit of the file does."""
    index.add(["apple pie", "apple tart"], ids=["1", "2"], metadatas=[{"page": 1}, {}])

    def change(**values: object) -> BM25Index:
        pk, row = next((pk, row) for pk, row in store.collections.chunks.items() if row.id == "1")
        store.collections.chunks[pk] = replace(row, **values)
        return index

    return change


@pytest.mark.parametrize(
    ("text", "line", "wrong"),
    [
        ("apple pis", "wrong weights of chunk '1': stored 2, counted 0", 1),
        ("apple pie pie", "length of chunk '1': stored 2, counted 3", 1),
        ("pie apple", "", 0),
    ],
)
def test_a_text_that_changed_is_found(changed: Callable[..., BM25Index], text: str, line: str, wrong: int) -> None:
    index = changed(text=text)
    report = index.verify()
    assert (report.wrong_chunks, report.ok) == (wrong, not wrong)
    assert line in [str(difference) for difference in report.differences] or not wrong
    assert index.verify(vectors=False) == VerifyReport(2, 3, [], None)


def test_a_weight_that_changed_is_found(index: BM25Index, store: MemoryStore) -> None:
    index.add(["apple pie"], ids=["1"])
    ((pk, row),) = store.collections.chunks.items()
    for factor, is_right in (1.0000001, True), (1.0001, False):
        values = row.vector.values * np.float32(factor)
        store.collections.chunks[pk] = replace(row, vector=SparseVector(row.vector.ids, values))
        assert index.verify().ok == is_right
    assert index.verify().differences == [Difference("", "wrong weights of chunk '1'", 2, 0)]


def test_metadata_that_changed_are_found_where_they_are_a_field(store: MemoryStore, config: IndexConfig) -> None:
    index = BM25Index.from_store(store, config=replace(config, fields={"title": FieldWeight(chunk_size=4)}))
    index.add(["apple pie"], ids=["1"], metadatas=[{"title": "dessert", "page": 1}])
    ((pk, row),) = store.collections.chunks.items()
    for metadata, is_right in ({"title": "dessert", "page": 2}, True), ({"title": "desserts"}, False):
        store.collections.chunks[pk] = replace(row, metadata=metadata)
        assert index.verify().ok == is_right


def test_two_ids_of_one_term_are_right(
    index: BM25Index, store: MemoryStore, reopened: Callable[..., BM25Index]
) -> None:
    """Two writers that meet a term first, and at once, may displace it differently."""
    index.add(["apple", "pie apple"], ids=["1", "2"])
    store.insert_log(TermsRow.encode(index._live.log.new_batch(), {"apple": 77}))
    pk, row = next((pk, row) for pk, row in store.collections.chunks.items() if row.id == "1")
    store.collections.chunks[pk] = replace(row, vector=SparseVector(np.array([77], np.uint32), row.vector.values))
    assert reopened().verify().wrong_chunks == 0


def test_rows_of_other_tools_are_not_compared(index: BM25Index, store: MemoryStore) -> None:
    index.add(["apple"], ids=["1"])
    (row,) = store.collections.chunks.values()
    store.collections.chunks["mine"] = replace(row, pk="mine", text="banana")
    assert index.verify().wrong_chunks == 0


def test_of_many_wrong_chunks_the_first_are_named(
    index: BM25Index, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rag_bm25.index.maintenance.verification.MAX_NAMED", 2)
    index.add(["apple"] * 5, ids=list("12345"))
    for pk, row in store.collections.chunks.items():
        store.collections.chunks[pk] = replace(row, text="apples")
    report = index.verify()
    assert (report.wrong_chunks, len(report.differences)) == (5, 2)
