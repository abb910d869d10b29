"""Rows of CSV and Parquet, names of fields, and wrong rows."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from support.files import CONFIG, ids, run, write, write_rows
from support.memory_store import MemoryStore

from rag_bm25 import BM25Index
from rag_bm25.errors import InputError
from rag_bm25.ingestion import ReadOptions, RowFields, find_files, ingest


def stored(index: BM25Index) -> dict[str, tuple[str, dict[str, object]]]:
    return {chunk.id: (chunk.text, chunk.metadata) for chunk in index.chunks()}


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_csv(tmp_path: Path, index: BM25Index, delimiter: str) -> None:
    rows = [["id", "title", "text", "lang"], ["1", "Head", '"two\nlines"', "zh"], ["2", "", "plain", ""]]
    run(index, write(tmp_path / "a.csv", "\n".join(delimiter.join(row) for row in rows)))
    place = {"source": "a.csv", "chunk": 0}
    assert stored(index) == {
        "1": ("Head two\nlines", {**place, "title": "Head", "lang": "zh"}),
        "2": ("plain", place),
    }


def test_rows_without_ids_are_numbered(tmp_path: Path, index: BM25Index) -> None:
    path = write(tmp_path / "a.csv", "text\none\n\ntwo\n" + "word " * 12)
    run(index, path)
    assert ids(index) == ["a.csv#0", "a.csv#1", "a.csv#2#0", "a.csv#2#1"]
    write(path, "text\none\n")
    assert run(index, path).deleted == 3


def test_wrong_rows_are_rejected_and_counted_and_nothing_of_their_file_is_deleted(
    tmp_path: Path, index: BM25Index
) -> None:
    path = write(tmp_path / "a.csv", "id,text\n1,one\n2,two\n3,three\n")
    run(index, path)
    write(path, b"id,text\n1,\xc3\xa9\n2,a,b\n4,\xff\xff\n")
    report = run(index, path)
    assert report.rejected == {"a.csv": 2}
    assert report.reasons[0] == f"{path} line 3: a row must have 2 cells, as the first row has, got 3"
    assert report.reasons[1].startswith(f"{path} line 4: text (id '4') has a lone surrogate")
    assert (report.updated, report.deleted, ids(index)) == (1, 0, ["1", "2", "3"])


def test_blank_lines_before_the_names_are_none(tmp_path: Path, index: BM25Index) -> None:
    run(index, write(tmp_path / "a.csv", "\r\n\nid,text\n7,one\n"))
    assert ids(index) == ["7"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_lines_may_end_with_carriage_returns_alone(tmp_path: Path, index: BM25Index, encoding: str) -> None:
    text = 'sep=;\rid;text\r1;"two\nlines\rand one"\r2;b;c\r3;seal'
    path = write(tmp_path / "a.csv", text.encode(encoding))
    report = run(index, path)
    assert {chunk.id: chunk.text for chunk in index.chunks()} == {"1": "two\nlines\rand one", "3": "seal"}
    assert report.reasons == [f"{path} line 6: a row must have 2 cells, as the first row has, got 3"]


def test_a_row_without_a_word_is_stored_however_long(tmp_path: Path, index: BM25Index) -> None:
    rows = {"short": "😀", "long": "😀" * 999}
    run(index, write(tmp_path / "a.csv", "id,text\n" + "".join(f"{name},{text}\n" for name, text in rows.items())))
    assert {chunk.id: chunk.text for chunk in index.chunks()} == rows


def test_a_quote_that_is_not_closed_names_all_lines_that_it_takes(tmp_path: Path, index: BM25Index) -> None:
    path = write(tmp_path / "a.csv", 'id,text\n1,one\n2,"two\n3,three\n4,four\n')
    where = f"{path} line 5: not CSV: unexpected end of data"
    why = "its row begins in line 3, as where a quote is not closed: 3 lines are not read"
    assert run(index, path).reasons == [f"{where}; {why}"]


def test_a_file_with_equal_names_fails(tmp_path: Path, index: BM25Index) -> None:
    report = run(index, write(tmp_path / "a.csv", "text,text\n1,2\n"))
    assert report.failed == {"a.csv": f"{tmp_path}/a.csv: the names of the first row must differ, got text, text"}


def test_parquet(tmp_path: Path, index: BM25Index) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = {"id": [1, 2], "text": ["one", "二"], "day": [dt.date(2026, 1, 2), None], "score": [float("nan"), 0.5]}
    parquet.write_table(pa.table(rows), tmp_path / "a.parquet")
    run(index, tmp_path / "a.parquet")
    place = {"source": "a.parquet", "chunk": 0}
    assert stored(index) == {
        "1": ("one", {**place, "day": "2026-01-02", "score": None}),
        "2": ("二", {**place, "score": 0.5}),
    }
    report = run(index, write(tmp_path / "b.parquet", "PAR1"))
    assert "damaged, or not Parquet" in report.failed["b.parquet"]


def test_fields_may_have_other_names(tmp_path: Path, index: BM25Index) -> None:
    path = write_rows(tmp_path / "a.jsonl", {"key": "k", "body": "the body", "name": "Name", "text": "other"})
    options = ReadOptions(fields=RowFields("body", "name", "key"))
    ingest(index, find_files([path]), options=options)
    assert stored(index) == {
        "k": ("Name the body", {"source": "a.jsonl", "chunk": 0, "title": "Name", "text": "other"}),
    }
    report = ingest(index, find_files([write_rows(tmp_path / "b.jsonl", {"id": "k"})]), options=options)
    assert report.reasons == [f'{tmp_path}/b.jsonl line 1: a row needs an "key"']


def test_strict_writes_nothing_if_anything_fails(tmp_path: Path, store: MemoryStore) -> None:
    index = BM25Index.from_store(store, config=CONFIG)
    write(tmp_path / "docs" / "a.txt")
    write(tmp_path / "docs" / "b.txt", b"\x89\0\xff")
    write(tmp_path / "docs" / "c.jsonl", "{bad\n")
    found = find_files([tmp_path / "docs"])
    with pytest.raises(InputError, match=r"nothing was written, since files \(1\) or rows \(1\) are invalid: .*b\.txt"):
        ingest(index, found, strict=True)
    assert ids(index) == []
    (tmp_path / "docs" / "b.txt").unlink()
    (tmp_path / "docs" / "c.jsonl").unlink()
    assert ingest(index, find_files([tmp_path / "docs"]), strict=True).added == 1


def make_tables(folder: Path) -> list[str]:
    """Make a CSV and a Parquet file without a column ``text``."""
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    write(folder / "a.csv", "id,part,note,\n1,bolt,brass,\n2,nut,,\n")
    rows = {"id": [1, 2], "part": ["bolt", "nut"], "note": ["brass", None], "vector": [[0.5], [0.5]]}
    parquet.write_table(pa.table(rows), folder / "b.parquet")
    return ["a.csv", "b.parquet"]


@pytest.mark.parametrize("at", [0, 1])
def test_a_table_without_a_column_text_is_stored_by_all_its_columns(at: int, tmp_path: Path, index: BM25Index) -> None:
    path = tmp_path / make_tables(tmp_path)[at]
    assert run(index, path).failed == {}
    assert {id_: text for id_, (text, _) in stored(index).items()} == {
        "1": "id: 1\npart: bolt\nnote: brass",
        "2": "id: 2\npart: nut",
    }
    assert [hit.id for hit in index.search("bolt", filter={"note": "brass"})] == ["1"]


@pytest.mark.parametrize("at", [0, 1])
def test_several_columns_may_be_the_text(at: int, tmp_path: Path, index: BM25Index) -> None:
    path = tmp_path / make_tables(tmp_path)[at]
    ingest(index, find_files([path]), options=ReadOptions(fields=RowFields("note,part", title="part")))
    assert stored(index)["1"] == (
        "bolt note: brass",
        {"source": path.name, "chunk": 0, "title": "bolt", **metadata(at)},
    )


def metadata(at: int) -> dict[str, object]:
    return {"note": "brass", "vector": [0.5]} if at else {"note": "brass"}


def test_several_fields_of_json_lines_may_be_the_text(tmp_path: Path, index: BM25Index) -> None:
    path = write_rows(tmp_path / "a.jsonl", {"id": 1, "part": "bolt", "stock": 5}, {"id": 2, "other": "x"})
    report = ingest(index, find_files([path]), options=ReadOptions(fields=RowFields("part,stock")))
    assert stored(index)["1"][0] == "part: bolt\nstock: 5"
    assert report.reasons == [f'{path} line 2: a row needs a "part,stock", and has only id, other']


@pytest.mark.parametrize("names", ["body", "part,body"])
def test_a_table_without_the_column_that_is_named_fails_as_a_whole(
    names: str, tmp_path: Path, index: BM25Index
) -> None:
    files = make_tables(tmp_path)
    report = ingest(index, find_files([tmp_path]), options=ReadOptions(fields=RowFields(text=names)))
    there = ("id, part, note", "id, part, note, vector")
    assert report.failed == {
        f"{tmp_path.name}/{file}": f'{tmp_path / file}: there is no column "body", only {only}. '
        "Name those of the text (--text-field)"
        for file, only in zip(files, there, strict=True)
    }
    assert (report.rejected, report.files) == ({}, 0)


@pytest.mark.parametrize("first", ["sep=;\n", "SEP=;\r\n"])
def test_the_line_that_declares_the_delimiter_is_no_header(first: str, tmp_path: Path, index: BM25Index) -> None:
    run(index, write(tmp_path / "a.csv", f"{first}id;a,b,c,d;text\n1;x;short row\n"))
    assert stored(index)["1"] == ("short row", {"source": "a.csv", "chunk": 0, "a,b,c,d": "x"})
