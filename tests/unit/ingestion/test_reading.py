"""Files are read and cut."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from support.files import CONFIG, ids, pieces, run, write, write_rows
from support.memory_store import MemoryStore

from rag_bm25 import BM25Index, IndexConfig, ParameterError
from rag_bm25.ingestion.files import SourceFile, find_files
from rag_bm25.ingestion.ingesting import ingest
from rag_bm25.ingestion.reading import ReadOptions, read_document, read_file, sample
from rag_bm25.ingestion.rows import RowFields
from rag_bm25.ingestion.splitting import splitter

# Cutting


def test_long_texts_are_cut_within_the_chunk_size(tmp_path: Path) -> None:
    text = " ".join(f"word{n}" for n in range(40))
    found = pieces(write(tmp_path / "a.txt", text))
    assert list(found) == [f"a.txt#{n}" for n in range(len(found))]
    assert max(map(len, found.values())) <= 40
    assert set(" ".join(found.values()).split()) == set(text.split())


@pytest.mark.parametrize(
    ("text", "chunks"),
    [
        (
            "第一句说明情况。第二句很长。”第三句也不短！第四句？",
            ["第一句说明情况。第二句很长。”", "第三句也不短！第四句？"],
        ),
        ("One is 3.5 m. Two is it! Three?", ["One is 3.5 m.", "Two is it! Three?"]),
        ("甲方应当付款，乙方应当交货，丙方应当出庭作证", ["甲方应当付款，乙方应当交货，", "丙方应当出庭作证"]),
        ("first part\r\n\r\nsecond part", ["first part", "second part"]),
        ("abcdefghijklmnopqrstuvwxyz", ["abcdefghijklmnopqrst", "uvwxyz"]),
    ],
)
def test_cuts_fall_behind_sentences_and_clauses(tmp_path: Path, text: str, chunks: list[str]) -> None:
    config = replace(CONFIG, chunk_size=20)
    file = write(tmp_path / "a.txt", text)
    found = [piece.text for piece in read_file(SourceFile(file, "a.txt", 0), splitter(config, 0))]
    assert found == chunks


def test_neighbours_share_the_overlap() -> None:
    cut = splitter(replace(CONFIG, chunk_size=20), 10)
    assert cut("aaaa bbbb cccc dddd eeee ffff") == ["aaaa bbbb cccc dddd", "cccc dddd eeee ffff"]


@pytest.mark.parametrize(("chunk_size", "overlap"), [(9, 2), (300, 90), (2_000, 150)])
def test_the_default_overlap_is_three_tenths_and_at_most_150(chunk_size: int, overlap: int) -> None:
    config = replace(CONFIG, chunk_size=chunk_size)
    words = " ".join("abcdefgh"[n % 8] for n in range(4_000))
    assert splitter(config)(words) == splitter(config, overlap)(words)
    assert splitter(config)(words) != splitter(config, overlap + 4)(words)


@pytest.mark.parametrize("overlap", [-1, 40])
def test_an_overlap_outside_the_chunk_is_refused(overlap: int) -> None:
    with pytest.raises(ParameterError, match=f"below the chunk size of 40, got {overlap}"):
        splitter(CONFIG, overlap)


def test_chunk_size_counts_terms_where_the_index_does() -> None:
    cut = splitter(IndexConfig(chunk_size=3, length_unit="terms", analyzer=str.split))
    assert cut("a b c d e f g") == ["a b c", "d e f", "g"]


@pytest.mark.parametrize("contents", ["", " \n\n ", b"\xef\xbb\xbf"])
def test_files_without_text_have_no_chunks(tmp_path: Path, contents: str | bytes) -> None:
    assert pieces(write(tmp_path / "a.md", contents)) == {}


# Rows


def test_rows_keep_their_ids_and_bring_title_and_metadata(tmp_path: Path) -> None:
    rows = write_rows(
        tmp_path / "a.jsonl",
        {"_id": "d1", "id": "x", "title": "Title", "text": "text"},
        {"id": 7, "text": " as it is ", "metadata": {"chunk": "c", "source": "book.pdf"}},
        {"id": "d3", "text": "x", "lang": "zh", "page": 3, "metadata": {"page": 4}},
    )
    file = SourceFile(rows, "a.jsonl", rows.stat().st_size)
    found = [(piece.id, piece.text, piece.metadata) for piece in read_file(file, splitter(CONFIG))]
    assert found == [
        ("d1", "Title text", {"source": "a.jsonl", "chunk": 0, "title": "Title"}),
        ("7", " as it is ", {"source": "book.pdf", "chunk": "c"}),
        ("d3", "x", {"source": "a.jsonl", "chunk": 0, "lang": "zh", "page": 4}),
    ]


def test_a_row_may_have_anything_under_the_names_of_the_default_fields(tmp_path: Path, store: MemoryStore) -> None:
    odd = {"id": "odd", "text": "text", "headings": [{"level": 1}], "metadata": {"title": 7}}
    rows = write_rows(tmp_path / "a.jsonl", odd, {"id": "a", "title": "Title", "text": "text"})
    with BM25Index.from_store(store, config=replace(CONFIG, fields="default")) as index:
        assert ingest(index, find_files([rows])).rejected == {}
        assert [(hit.id, hit.text) for hit in index.search("Title")] == [("a", "Title text")]


def test_long_rows_are_cut_and_numbered(tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "a.jsonl", {"id": "r", "text": "word " * 20})
    assert list(pieces(rows)) == ["r#0", "r#1", "r#2"]


def test_blank_lines_between_rows_are_left_out(tmp_path: Path) -> None:
    assert pieces(write(tmp_path / "a.jsonl", '\n{"id": "a", "text": "x"}\n\n')) == {"a": "x"}


GOOD = '{"id": "a", "text": "é"}\n'.encode()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{bad", "not JSON: Expecting property name"),
        (b'\xef\xbb\xbf{"id": "b", "text": "x"}', "not JSON: Unexpected UTF-8 BOM"),
        (b"[1]", "a row must be a JSON object, got list"),
        (b"[" * 100_000, "not JSON: nested too deeply"),
        (b'{"text": "x"}', 'a row needs an "_id" or an "id"'),
        (b'{"id": true, "text": "x"}', "an id must be text or an integer, got bool"),
        (b'{"id": "b"}', 'a row needs a "text", and has only id'),
        (b'{"id": "b", "text": null}', 'a row needs a "text", got null'),
        (b'{"id": "b", "text": 5}', 'a row needs a "text", got int'),
        (b'{"id": "b", "text": "x", "title": 1}', '"title" must be text, got int'),
        (b'{"id": "b", "text": "x", "metadata": [1]}', '"metadata" must be a JSON object, got list'),
        (b'{"id": "b", "text": "x", "metadata": {"p": NaN}}', "which JSON does not have"),
        (b'{"id": "b", "text": "a \\ud800"}', "has a lone surrogate at character 2"),
        (b'{"id": "b", "text": "a\\u0000"}', "has a NUL at character 1"),
        (b'{"id": "", "text": "x"}', "must not be empty"),
        (b'{"id": "a", "text": "y"}', "duplicate id 'a', already given in bad.jsonl"),
        (b'{"id": "b", "text": "\xff"}', "not UTF-8 at byte 47 of the file"),
    ],
)
def test_a_bad_row_is_named_and_the_others_are_written(
    tmp_path: Path, index: BM25Index, line: bytes, reason: str
) -> None:
    bad = write(tmp_path / "bad.jsonl", GOOD + line + b"\n")
    report = run(index, bad, write(tmp_path / "good.txt"))
    assert report.reasons[0].startswith(f"{bad} line 2: ")
    assert reason in report.reasons[0]
    assert report.rejected == {"bad.jsonl": 1}
    assert ids(index) == ["a", "good.txt#0"]


def test_rows_with_an_empty_text_are_stored_and_told(tmp_path: Path, index: BM25Index) -> None:
    texts = {"a": "", "b": " \n", "c": "words"}
    report = run(
        index, write_rows(tmp_path / "rows.jsonl", *({"id": id_, "text": text} for id_, text in texts.items()))
    )
    assert (ids(index), report.rejected, report.notes) == (list(texts), {}, ["rows with an empty text: rows.jsonl (2)"])


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (ValueError("no such page"), "the reader that was given has failed: ValueError: no such page"),
        (OSError("gone"), "the reader that was given has failed: OSError: gone"),
        (5, "the reader that was given must return a str or None, got 5"),
    ],
)
def test_a_reader_of_ones_own_that_fails_is_about_its_file(
    result: object, reason: str, tmp_path: Path, index: BM25Index
) -> None:
    def read(path: Path) -> Any:
        if path != bad:
            return "own"
        if isinstance(result, Exception):
            raise result
        return result

    _, bad, _ = (write(tmp_path / "docs" / f"{name}.txt", "text") for name in "abc")
    report = ingest(index, find_files([tmp_path / "docs"]), options=ReadOptions(read=read))
    assert (ids(index), report.failed) == (["docs/a.txt#0", "docs/c.txt#0"], {"docs/b.txt": f"{bad}: {reason}"})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"read": 5}, "read must be a callable or None, got 5"),
        ({"encoding": 5}, "encoding must be a str or None, got 5"),
        ({"id_prefix": 5}, "id_prefix must be a str, got 5"),
        ({"fields": None}, "fields must be a RowFields, got None"),
        ({"hidden": "x"}, "hidden must be True or False, got 'x'"),
        ({"timeout": "1"}, "timeout must be a finite number > 0, got '1'"),
        ({"timeout": 0}, "timeout must be a finite number > 0, got 0"),
    ],
)
def test_wrong_options_are_named_with_their_rule(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=re.escape(message)):
        ReadOptions(**options)


def test_names_of_fields_and_folders_are_texts(tmp_path: Path, index: BM25Index) -> None:
    for wrong in ({"text": None}, {"title": 5}, {"id": 5}):
        with pytest.raises(ParameterError, match=f"{next(iter(wrong))} must be a str"):
            RowFields(**wrong)
    with pytest.raises(ParameterError, match="name must be a relative path such as 'docs' or 'team/docs', got 5"):
        find_files([tmp_path], name=5)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="options must be ReadOptions or None, got 5"):
        ingest(index, find_files([tmp_path]), options=5)  # type: ignore[arg-type]


# Samples and the size of chunks


def test_chunks_may_be_shorter_than_the_chunk_size(index: BM25Index, tmp_path: Path) -> None:
    file = write(tmp_path / "a.txt", "one two three four five six seven")
    ingest(index, find_files([file]), split_size=12, chunk_overlap=0)
    assert [chunk.text for chunk in sorted(index.chunks(), key=lambda chunk: chunk.id)] == [
        "one two",
        "three four",
        "five six",
        "seven",
    ]
    assert index.config.chunk_size == 40


@pytest.mark.parametrize("size", [0, -1])
def test_chunks_have_some_length(size: int) -> None:
    with pytest.raises(ParameterError, match=f"split_size must be > 0, got {size}"):
        splitter(CONFIG, split_size=size)


def test_lengths_are_numbers() -> None:
    with pytest.raises(ParameterError, match="split_size must be > 0, got 'x'"):
        splitter(CONFIG, split_size=cast("int", "x"))
    with pytest.raises(ParameterError, match="chunk_overlap must be >= 0 and below the chunk size of 40, got 'x'"):
        splitter(CONFIG, chunk_overlap=cast("int", "x"))


def test_a_document_may_be_named_by_a_str(tmp_path: Path) -> None:
    file = write(tmp_path / "a.md", "# A\n\nb\n")
    assert read_document(str(file)) == read_document(file)
    with pytest.raises(ParameterError, match="path must be a str or a Path that can name a file, got 5"):
        read_document(cast("Any", 5))


def test_a_sample_is_some_chunks_in_random_order_of_the_files(tmp_path: Path) -> None:
    for n in range(20):
        write(tmp_path / "docs" / f"{n:02}.txt", f"text {n}")
    write(tmp_path / "docs" / "bad.txt", b"\xff\0")
    files = find_files([tmp_path / "docs"]).files
    orders = [[piece.id for piece in sample(files, splitter(CONFIG), 100, seed=seed)] for seed in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == [f"docs/{n:02}.txt#0" for n in range(20)]
    assert [piece.id for piece in sample(files, splitter(CONFIG), 3)] == orders[0][:3]
