"""Rows of a collection that others fill come into an index, and what is gone leaves it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.files import CONFIG, ids, run, write_rows
from support.foreign_rows import ForeignRows, collection_rows
from support.memory_store import MemoryStore

from rag_bm25 import BM25Index, ConfigMismatchError, IndexConfig, InputError, ParameterError, Progress
from rag_bm25.ingestion import CollectionRows
from rag_bm25.ingestion.ingesting import IngestReport

DENSE = replace(CONFIG, dense_dim=2)


@pytest.fixture
def theirs(monkeypatch: pytest.MonkeyPatch) -> ForeignRows:
    theirs = ForeignRows(monkeypatch)
    theirs.stored = [{"pk": pk, "body": f"text {pk}", "emb": [1.0, pk], "page": pk} for pk in range(1, 9)]
    return theirs


def ingest(index: BM25Index, *, of: dict[str, Any] | None = None, **options: Any) -> IngestReport:
    with collection_rows(**(of or {})) as rows:
        return rows.ingest_into(index, **options)


def counts(report: IngestReport) -> tuple[int, int, int, int, int]:
    return report.added, report.updated, report.unchanged, report.stale, report.deleted


def test_a_row_is_a_chunk(theirs: ForeignRows, index: BM25Index) -> None:
    theirs.stored = [{"pk": 7, "body": "x " * 500, "emb": [1.0, 0.0], "title": "T", "tags": ["a"], "none": None}]
    report = ingest(index)
    assert (report.files, report.chunks, report.notes, report.failed) == (0, 1, [], {})
    (chunk,) = index.chunks()
    assert (chunk.id, chunk.text) == ("7", "x " * 500)
    assert chunk.metadata == {"title": "T", "tags": ["a"], "source": "milvus://mine"}
    assert theirs.closed == 1


def test_ids_are_of_any_field_with_a_prefix(theirs: ForeignRows, index: BM25Index) -> None:
    theirs.stored = [{"pk": 7, "body": "one", "code": "P-1"}, {"pk": 8, "body": "two", "code": "P-2"}]
    ingest(index, of={"id_field": "code", "id_prefix": "{source}#", "name": "shop/parts"})
    assert ids(index) == ["milvus://shop/parts#P-1", "milvus://shop/parts#P-2"]
    (chunk,) = index.get(["milvus://shop/parts#P-1"])
    assert chunk.metadata == {"pk": 7, "source": "milvus://shop/parts"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"metadata": {"page": 1, "source": "a.md"}}, {"page": 1, "original_source": "a.md"}),
        ({"metadata": {"page": 1, "none": None}, "kind": "b"}, {"page": 1, "kind": "b"}),
        ({"metadata": "page 1"}, {"metadata": "page 1"}),
        ({"source": "a.md"}, {"original_source": "a.md"}),
    ],
)
def test_metadata(theirs: ForeignRows, index: BM25Index, given: dict[str, Any], expected: dict[str, Any]) -> None:
    theirs.stored = [{"pk": 1, "body": "one", **given}]
    report = ingest(index)
    (chunk,) = index.chunks()
    assert chunk.metadata == {**expected, "source": "milvus://mine"}
    note = "'source' of the rows is kept as 'original_source': 'source' is milvus://mine"
    assert report.notes == ([note] if "original_source" in expected else [])


def test_an_entry_of_the_metadata_replaces_no_field(theirs: ForeignRows, index: BM25Index) -> None:
    theirs.stored = [{"pk": 1, "body": "one", "page": 5, "kind": "a", "metadata": {"page": 7, "kind": "a", "by": "Li"}}]
    report = ingest(index)
    (chunk,) = index.chunks()
    assert chunk.metadata == {"page": 5, "kind": "a", "by": "Li", "metadata": {"page": 7}, "source": "milvus://mine"}
    assert report.notes == ["'metadata' keeps 'page', since the rows have other values in fields of that name"]


def test_again_only_what_has_changed_is_written(theirs: ForeignRows, store: MemoryStore) -> None:
    index = BM25Index.from_store(store, config=DENSE)
    of = {"vector_field": "emb"}
    assert counts(ingest(index, of=of)) == (8, 0, 0, 0, 0)
    store.calls.clear()
    assert counts(ingest(index, of=of, prune=True)) == (0, 0, 8, 0, 0)
    assert not {"insert_chunks", "delete_chunks", "insert_log"} & set(store.calls)
    theirs.stored[1] |= {"body": "changed"}
    theirs.stored[2] |= {"emb": [9.0, 9.0]}
    theirs.stored[3] |= {"page": 99}
    del theirs.stored[5:]
    theirs.stored.append({"pk": 20, "body": "new", "emb": [1.0, 1.0]})
    assert counts(ingest(index, of=of)) == (1, 3, 2, 3, 0)
    assert index.get_embeddings(["3"])["3"].tolist() == [9.0, 9.0]
    assert counts(ingest(index, of=of, prune=True)) == (0, 0, 6, 3, 3)
    assert ids(index) == ["1", "2", "20", "3", "4", "5"]
    assert index.verify().ok


def test_prune_touches_the_rows_of_the_collection_alone(theirs: ForeignRows, index: BM25Index, tmp_path: Path) -> None:
    ingest(index)
    ingest(index, namespace="x")
    ingest(index, of={"name": "theirs", "id_prefix": "t"})
    run(index, write_rows(tmp_path / "rows.jsonl", {"id": "r", "text": "row"}))
    index.add(["own"], ids=["own"], metadatas=[{"source": "mine"}])
    del theirs.stored[3:]
    assert ingest(index, prune=True).deleted == 5
    assert ids(index) == sorted(["1", "2", "3", "own", "r", *(f"t{pk}" for pk in range(1, 9))])
    assert index.stats(namespace="x").num_chunks == 8


def test_many_that_are_gone_are_kept(theirs: ForeignRows, index: BM25Index) -> None:
    theirs.stored = [{"pk": pk, "body": f"text {pk}"} for pk in range(20)]
    ingest(index)
    del theirs.stored[14:]
    theirs.stored[0] = {"pk": 0, "body": "changed"}
    report = ingest(index, prune=True)
    reason = (
        "mine: 6 of 20 rows are gone, more than 20%. None of their 6 chunks was deleted. If all of them are to go: "
        "--max-delete 100%"
    )
    assert (report.failed, counts(report)) == ({"milvus://mine": reason}, (0, 1, 13, 6, 0))
    assert ingest(index, prune=True, max_delete=0.3).deleted == 6
    with pytest.raises(ParameterError, match=r"max_delete must be a number in 0\.\.1, got 2"):
        ingest(index, max_delete=2)


def test_a_collection_without_rows_is_not_pruned(theirs: ForeignRows, index: BM25Index) -> None:
    ingest(index)
    theirs.stored = []
    reason = (
        "mine has no row with an id, and the index has chunks of it (8). None was deleted. If all of them are to go: "
        "rag-bm25 delete --source milvus://mine"
    )
    assert ingest(index, prune=True, max_delete=1).failed == {"milvus://mine": reason}
    assert index.stats().num_chunks == 8


def test_wrong_rows_are_told_by_their_keys_and_keep_their_chunks(theirs: ForeignRows, store: MemoryStore) -> None:
    index = BM25Index.from_store(store, config=replace(DENSE, chunk_size=100_000))
    of = {"vector_field": "emb", "id_field": "code"}
    for row in theirs.stored:
        row["code"] = f"c{row['pk']}"
    ingest(index, of=of)
    theirs.stored[0] |= {"body": None}
    theirs.stored[1] |= {"body": "x" * 65_536}
    theirs.stored[2] |= {"code": "c4"}
    theirs.stored[4] |= {"code": None}
    theirs.stored[5] |= {"emb": None}
    theirs.stored[6] |= {"emb": [0.0, 0.0]}
    theirs.stored[7] |= {"source": "a", "original_source": "b"}
    report = ingest(index, of=of, prune=True)
    assert report.rejected == {"milvus://mine": 7}
    assert report.reasons == [
        'mine: row 1: a row needs a "body", and has only pk, emb, page, code',
        "mine: row 2: text (id 'c2') has 65,536 bytes of UTF-8, at most 65,535 are allowed",
        "mine: row 4: duplicate id 'c4', already given in milvus://mine",
        'mine: row 5: a row needs an "code"',
        "mine: row 6: its vector must be a sequence of numbers, got NoneType",
        "mine: row 7: its vector must not be zero: it has no direction for the cosine",
        "mine: row 8: it has 'source' and 'original_source', which the former is kept as",
    ]
    assert ids(index) == ["c1", "c2", "c4", "c6", "c7", "c8"]  # nothing has the ids c3 and c5 now
    assert counts(report) == (0, 1, 0, 2, 2)
    with pytest.raises(InputError, match=r"nothing was written, since files \(0\) or rows \(7\) are invalid"):
        ingest(index, of=of, strict=True)


def test_a_dynamic_field_without_a_name_is_metadata(theirs: ForeignRows, index: BM25Index) -> None:
    theirs.stored = [{"pk": 1, "body": "one", "": 5}]
    assert (ingest(index).rejected, next(index.chunks()).metadata) == ({}, {"": 5, "source": "milvus://mine"})


def test_rows_with_an_empty_text_are_stored_and_told(theirs: ForeignRows, index: BM25Index) -> None:
    theirs.stored = [{"pk": pk, "body": text} for pk, text in enumerate(["", " ", "words"])]
    report = ingest(index)
    assert (ids(index), report.notes) == (["0", "1", "2"], ["rows with an empty text: milvus://mine (2)"])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"name": 5}, "name must be a str or None, got 5"),
        ({"text_field": None}, "text_field must be a str, got None"),
        ({"vector_field": 5}, "vector_field must be a str or None, got 5"),
        ({"id_field": 5}, "id_field must be a str or None, got 5"),
        ({"id_prefix": None}, "id_prefix must be a str, got None"),
    ],
)
def test_wrong_names_are_refused(theirs: ForeignRows, given: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        collection_rows(**given)
    assert theirs.opened == []


@pytest.mark.parametrize("wrong", [None, ""])
def test_a_collection_has_a_name(wrong: Any) -> None:
    with pytest.raises(ParameterError, match="collection must be a str that is not empty, got"):
        CollectionRows("any.db", wrong)


def test_strict_writes_what_is_valid(theirs: ForeignRows, index: BM25Index) -> None:
    assert ingest(index, strict=True).added == len(theirs.stored)


def test_an_id_belongs_to_one_source(theirs: ForeignRows, index: BM25Index, tmp_path: Path) -> None:
    file = write_rows(tmp_path / "rows.jsonl", {"id": 1, "text": "of the file"}, {"id": "r", "text": "row"})
    run(index, file)
    report = ingest(index)
    assert report.rejected == {"milvus://mine": 1}
    assert "mine: row 1: the id '1' belongs to rows.jsonl, which exists, too" in report.reasons[0]
    write_rows(file, {"id": 2, "text": "of the file"}, {"id": "r", "text": "row"})
    report = run(index, file)
    assert "the id '2' belongs to milvus://mine, which exists, too" in report.reasons[0]
    assert ingest(index, of={"name": "other"}).rejected == {"milvus://other": 8}
    file.unlink()
    report = ingest(index)
    assert report.notes == ["took over chunks whose source is not an existing file: milvus://mine from rows.jsonl (1)"]
    assert index.get(["1"])[0].text == "text 1"


@pytest.mark.parametrize(
    ("config", "error"),
    [
        (CONFIG, "vector_field given, but the index has no dense vectors"),
        (replace(DENSE, dense_dim=3), "the dimension and the metric of the index, 3 and COSINE, got 2 and COSINE"),
        (replace(DENSE, dense_metric="IP"), "the dimension and the metric of the index, 2 and IP, got 2 and COSINE"),
    ],
)
def test_an_index_for_other_vectors(theirs: ForeignRows, store: MemoryStore, config: IndexConfig, error: str) -> None:
    index = BM25Index.from_store(store, config=config)
    with pytest.raises((InputError, ConfigMismatchError), match=error):
        ingest(index, of={"vector_field": "emb"})
    assert not list(index.chunks())


@pytest.mark.parametrize(("metric", "expected"), [("COSINE", "COSINE"), ("IP", "IP"), ("L2", "COSINE")])
def test_a_new_index_has_dimension_and_metric(theirs: ForeignRows, metric: str, expected: str) -> None:
    theirs.dim, theirs.metric = 7, metric
    with collection_rows(vector_field="other") as rows:
        assert rows.with_dense_field(CONFIG) == replace(CONFIG, dense_dim=7, dense_metric=expected)
    with collection_rows() as rows:
        assert rows.with_dense_field(CONFIG) == CONFIG


def test_l2_is_of_vectors_of_one_length(theirs: ForeignRows, store: MemoryStore) -> None:
    theirs.metric = "L2"
    theirs.stored = [{"pk": 1, "body": "a", "emb": [0.6, 0.8]}, {"pk": 2, "body": "b", "emb": [3.0, 4.0]}]
    index = BM25Index.from_store(store, config=DENSE)
    (reason,) = ingest(index, of={"vector_field": "emb"}).reasons
    assert reason == (
        "mine: row 2: the collection compares by L2, which ranks as the index does only vectors of the length 1, and "
        "that of the row has 5: leave out vector_field (--vector-field), and have a model embed the texts (--embedding)"
    )
    assert ids(index) == ["1"]


def test_texts_are_embedded_if_the_vectors_are_not_taken(theirs: ForeignRows, store: MemoryStore) -> None:
    index = BM25Index.from_store(store, config=DENSE)
    with pytest.raises(InputError, match="embeddings must be given"):
        ingest(index)
    asked: list[str] = []

    def embed(texts: list[str]) -> list[list[float]]:
        asked.extend(texts)
        return [[1.0, len(text)] for text in texts]

    with pytest.raises(InputError, match="embeddings must not be given: the vectors are those of 'emb'"):
        ingest(index, of={"vector_field": "emb"}, embeddings=embed)
    for _ in range(2):
        ingest(index, embeddings=embed)
    assert asked == [row["body"] for row in theirs.stored]


def test_fields_that_are_not_there(theirs: ForeignRows) -> None:
    for given in ({"text_field": "emb"}, {"vector_field": "body"}, {"vector_field": "nothing"}):
        with pytest.raises(ParameterError):
            collection_rows(**given)
    assert theirs.closed == 3
    with pytest.raises(ParameterError, match="name must be a relative path"):
        collection_rows(name="../x")


def test_rows_are_written_while_others_are_read(theirs: ForeignRows, store: MemoryStore) -> None:
    index = BM25Index.from_store(store, config=CONFIG)
    theirs.stored = [{"pk": pk, "body": "text"} for pk in range(8_000)]
    waiting: list[int] = []
    theirs.page, theirs.on_page = 500, lambda start: waiting.append(start - len(store.collections.chunks))
    told: list[Progress] = []
    ingest(index, progress=told.append)
    assert len(store.collections.chunks) == 8_000
    assert max(waiting) <= 5_000
    assert told[-1] == Progress("rows", 8_000, 8_000)
