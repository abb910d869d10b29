from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from memory_store import MemoryStore

from rag_bm25 import BM25Index, FieldWeight, IndexConfig, InputError, ParameterError
from rag_bm25 import ingestion as module
from rag_bm25.ingestion import (
    IngestReport,
    Piece,
    SourceFile,
    Splitter,
    find_files,
    ingest,
    read_file,
    sample,
    splitter,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

CONFIG = IndexConfig(chunk_size=40, analyzer=str.split)


def write(path: Path, contents: str | bytes = "some text") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(contents.encode() if isinstance(contents, str) else contents)
    return path


def write_rows(path: Path, *rows: object) -> Path:
    return write(path, "".join(json.dumps(row) + "\n" for row in rows))


def sources(*paths: Path) -> list[str]:
    return [file.source for file in find_files(paths).files]


def pieces(path: Path, config: IndexConfig = CONFIG) -> dict[str, str]:
    file = SourceFile(path, path.name, path.stat().st_size)
    return {piece.id: piece.text for piece in read_file(file, splitter(config))}


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def index(store: MemoryStore) -> BM25Index:
    return BM25Index.from_store(store, config=CONFIG)


def run(index: BM25Index, *paths: Path, prune: bool = False) -> IngestReport:
    return ingest(index, find_files(paths), prune=prune)


def ids(index: BM25Index) -> list[str]:
    return sorted(chunk.id for chunk in index.chunks())


# Finding files


def test_folders_are_walked_in_order_and_named_from_their_parent(tmp_path: Path) -> None:
    for name in ("b.txt", "a.md", *(f"sub{n}/c.jsonl" for n in range(9, 0, -1)), "A.TXT"):
        write(tmp_path / "docs" / name)
    subfolders = [f"docs/sub{n}/c.jsonl" for n in range(1, 10)]
    assert sources(tmp_path / "docs") == ["docs/A.TXT", "docs/a.md", "docs/b.txt", *subfolders]


def test_a_file_is_named_by_its_name(tmp_path: Path) -> None:
    assert sources(write(tmp_path / "docs" / "a.txt")) == ["a.txt"]


def test_the_current_folder_has_its_real_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "docs" / "a.txt")
    monkeypatch.chdir(tmp_path / "docs")
    assert sources(Path()) == ["docs/a.txt"]


def test_hidden_files_and_folders_are_left_out(tmp_path: Path) -> None:
    write(tmp_path / "docs" / ".a.txt")
    write(tmp_path / "docs" / ".git" / "b.txt")
    assert find_files([tmp_path / "docs"]).files == []


def test_other_kinds_are_skipped_and_named(tmp_path: Path) -> None:
    other = write(tmp_path / "docs" / "a.pdf")
    assert find_files([tmp_path / "docs"]).skipped == [other]


def test_broken_links_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "gone.txt").symlink_to(tmp_path / "nothing")
    assert find_files([tmp_path]).skipped == [tmp_path / "gone.txt"]


def test_links_that_go_in_circles_end(tmp_path: Path) -> None:
    write(tmp_path / "docs" / "a.txt")
    (tmp_path / "docs" / "again").symlink_to(tmp_path / "docs")
    assert sources(tmp_path / "docs") == ["docs/a.txt"]


def test_links_that_lead_out_of_the_folder_are_skipped(tmp_path: Path) -> None:
    secret = write(tmp_path / "private" / "key.txt", "secret")
    write(tmp_path / "docs" / "sub" / "a.txt")
    link = tmp_path / "docs" / "b.txt"
    link.symlink_to(secret)
    (tmp_path / "docs" / "c.txt").symlink_to(tmp_path / "docs" / "sub" / "a.txt")
    found = find_files([tmp_path / "docs"])
    assert ([file.source for file in found.files], found.skipped) == (["docs/c.txt"], [link])
    assert sources(link) == ["b.txt"]  # who names the link itself means the file


def test_a_folder_may_be_a_link_itself(tmp_path: Path) -> None:
    write(tmp_path / "real" / "a.txt")
    (tmp_path / "docs").symlink_to(tmp_path / "real")
    assert sources(tmp_path / "docs") == ["docs/a.txt"]


def test_a_file_named_twice_is_taken_once(tmp_path: Path) -> None:
    file = write(tmp_path / "docs" / "a.txt")
    assert sources(tmp_path / "docs", file, file) == ["docs/a.txt"]


def test_a_missing_path_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nothing\.txt"):
        find_files([tmp_path / "nothing.txt"])


def test_two_files_of_one_source_are_refused(tmp_path: Path) -> None:
    paths = [write(tmp_path / parent / "docs" / "a.txt").parent for parent in "xy"]
    with pytest.raises(InputError, match=r"x/docs/a\.txt and .*y/docs/a\.txt would both be 'docs/a\.txt'"):
        find_files(paths).require_distinct()


def test_a_link_to_itself_is_skipped(tmp_path: Path) -> None:
    loop = tmp_path / "docs" / "loop.txt"
    write(tmp_path / "docs" / "a.txt")
    loop.symlink_to(loop)
    found = find_files([tmp_path / "docs"])
    assert ([file.source for file in found.files], found.skipped) == (["docs/a.txt"], [loop])
    with pytest.raises(OSError, match="symbolic links"):
        find_files([loop])


def test_a_file_given_by_itself_that_cannot_be_ingested_is_an_error(tmp_path: Path, index: BM25Index) -> None:
    page = write(tmp_path / "a.html")
    report = run(index, page, write(tmp_path / "b.txt"))
    assert report.failed == {
        "a.html": f"{page}: a file to ingest must be a regular one that ends in .txt, .md or .jsonl"
    }
    assert ids(index) == ["b.txt#0"]


# Cutting


def test_short_texts_stay_whole_and_chunks_are_numbered(tmp_path: Path) -> None:
    assert pieces(write(tmp_path / "a.txt", "One. Two.\n")) == {"a.txt#0": "One. Two."}


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


@pytest.mark.parametrize(("chunk_size", "overlap"), [(9, 0), (300, 30), (2_000, 50)])
def test_the_default_overlap_is_a_tenth_and_at_most_50(chunk_size: int, overlap: int) -> None:
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


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    assert pieces(write(tmp_path / "a.txt", b"\xef\xbb\xbftext")) == {"a.txt#0": "text"}


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


def test_a_title_that_is_a_field_is_not_in_the_text_as_well(tmp_path: Path) -> None:
    rows = write_rows(
        tmp_path / "a.jsonl",
        {"id": "row", "title": "Title", "text": " as it is "},
        {"id": "long", "title": "Title", "text": "word " * 12},
        {"id": "same", "title": "Title", "text": "text", "metadata": {"title": "Title"}},
        {"id": "other", "title": "Title", "text": "text", "metadata": {"title": "Other"}},
        {"id": "none", "text": "text", "metadata": {"title": "Other"}},
    )
    file = SourceFile(rows, "a.jsonl", rows.stat().st_size)
    found = [
        (piece.id, piece.text, piece.metadata["title"])
        for piece in read_file(file, splitter(CONFIG, 0), ["tags", "title"])
    ]
    assert found == [
        ("row", " as it is ", "Title"),
        ("long#0", "word word word word word word word word", "Title"),
        ("long#1", "word word word word", "Title"),
        ("same", "text", "Title"),
        ("other", "Title text", "Other"),  # or else the row's own title would be nowhere
        ("none", "text", "Other"),
    ]
    of_another_field = [piece.text for piece in read_file(file, splitter(CONFIG, 0), ["tags"])]
    assert of_another_field[0] == "Title  as it is"


def test_an_ingestion_keeps_titles_apart_where_the_index_has_the_field(tmp_path: Path, store: MemoryStore) -> None:
    rows = write_rows(tmp_path / "a.jsonl", {"id": "a", "title": "Title", "text": "text"})
    for _ in range(2):
        index = BM25Index.from_store(store, config=replace(CONFIG, fields={"title": FieldWeight(chunk_size=5)}))
        run(index, rows)
        assert [(hit.text, hit.metadata["title"]) for hit in index.search("Title")] == [("text", "Title")]


def test_long_rows_are_cut_and_numbered(tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "a.jsonl", {"id": "r", "text": "word " * 20})
    assert list(pieces(rows)) == ["r#0", "r#1", "r#2"]


def test_blank_lines_between_rows_are_left_out(tmp_path: Path) -> None:
    assert pieces(write(tmp_path / "a.jsonl", '\n{"id": "a", "text": "x"}\n\n')) == {"a": "x"}


GOOD = b'{"id": "a", "text": "x"}\n'


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{bad", "not JSON: Expecting property name"),
        (b'\xef\xbb\xbf{"id": "b", "text": "x"}', "not JSON: Unexpected UTF-8 BOM"),
        (b"[1]", "a row must be a JSON object, got list"),
        (b"[" * 100_000, "not JSON: nested too deeply"),
        (b'{"text": "x"}', 'a row needs an "_id" or an "id"'),
        (b'{"id": true, "text": "x"}', "an id must be text or an integer, got bool"),
        (b'{"id": "b"}', 'a row needs a "text"'),
        (b'{"id": "b", "text": 5}', 'a row needs a "text", got int'),
        (b'{"id": "b", "text": "x", "title": 1}', '"title" must be text, got int'),
        (b'{"id": "b", "text": "x", "metadata": [1]}', '"metadata" must be a JSON object, got list'),
        (b'{"id": "b", "text": "x", "metadata": {"p": NaN}}', "which JSON does not have"),
        (b'{"id": "b", "text": "a \\ud800"}', "has a lone surrogate at character 2"),
        (b'{"id": "b", "text": "a\\u0000"}', "has a NUL at character 1"),
        (b'{"id": "", "text": "x"}', "must not be empty"),
        (b'{"id": "a", "text": "y"}', "the id 'a' was given before, in bad.jsonl"),
        (b'{"id": "b", "text": "\xff"}', "not UTF-8 at byte 46 of the file"),
    ],
)
def test_a_bad_row_is_named_and_nothing_of_its_file_is_written(
    tmp_path: Path, index: BM25Index, line: bytes, reason: str
) -> None:
    bad = write(tmp_path / "bad.jsonl", GOOD + line + b"\n")
    report = run(index, bad, write(tmp_path / "good.txt"))
    assert f"{bad} line 2: " in report.failed["bad.jsonl"]
    assert reason in report.failed["bad.jsonl"]
    assert ids(index) == ["good.txt#0"]


# Writing


def test_a_row_over_the_limit_fails_its_file(tmp_path: Path, store: MemoryStore) -> None:
    index = BM25Index.from_store(store, config=replace(CONFIG, chunk_size=100_000))
    report = run(index, write_rows(tmp_path / "a.jsonl", {"id": "big", "text": "x" * 70_000}))
    assert "line 1: texts[0] (id 'big') has 70,000 bytes" in report.failed["a.jsonl"]
    assert store.collections.chunks == {}


def test_bytes_that_are_no_text_fail_their_file_only(tmp_path: Path, index: BM25Index) -> None:
    write(tmp_path / "docs" / "a.txt", b"\xef\xbb\xbfabc\xff")
    write(tmp_path / "docs" / "b.txt", "text")
    report = run(index, tmp_path / "docs")
    assert list(report.failed) == ["docs/a.txt"]
    assert report.failed["docs/a.txt"].startswith(f"{tmp_path}/docs/a.txt: not UTF-8 at byte 6 of the file: convert it")
    assert ids(index) == ["docs/b.txt#0"]


def test_a_file_that_cannot_be_read_fails(tmp_path: Path, index: BM25Index, monkeypatch: pytest.MonkeyPatch) -> None:
    found = find_files([write(tmp_path / "a.txt")])
    (tmp_path / "a.txt").unlink()
    assert ingest(index, found).failed == {"a.txt": f"{tmp_path}/a.txt: No such file or directory"}


def test_ids_given_by_two_files_fail_the_later_one(tmp_path: Path, index: BM25Index) -> None:
    row = {"id": "r", "text": "x"}
    report = run(index, write_rows(tmp_path / "a.jsonl", row), write_rows(tmp_path / "b.jsonl", row))
    assert report.failed == {"b.jsonl": f"{tmp_path}/b.jsonl line 1: the id 'r' was given before, in a.jsonl"}
    assert report.files == 1


def test_chunks_carry_source_and_number(tmp_path: Path, index: BM25Index) -> None:
    run(index, write(tmp_path / "a.txt", "word " * 10))
    assert index.get(["a.txt#1"])[0].metadata == {"source": "a.txt", "chunk": 1}


def test_files_share_batches_and_progress_reaches_the_end(tmp_path: Path, index: BM25Index, store: MemoryStore) -> None:
    for n in range(5):
        write(tmp_path / "docs" / f"{n}.txt", "word " * 10)
    write_rows(tmp_path / "docs" / "rows.jsonl", *({"id": f"r{n}", "text": "x"} for n in range(1_500)))
    found = find_files([tmp_path / "docs"])
    seen: list[tuple[int, int]] = []
    ingest(index, found, progress=lambda size, chunks: seen.append((size, chunks)))
    assert store.calls.count("insert_chunks") == 2
    assert seen == sorted(seen)
    assert [chunks for _, chunks in seen] == [1_000, 1_510, 1_510]
    assert seen[-1][0] == found.size


def test_workers_make_no_difference(tmp_path: Path, index: BM25Index) -> None:
    write_rows(tmp_path / "docs" / "rows.jsonl", *({"id": str(n), "text": f"word w{n % 7}"} for n in range(2_500)))
    found = find_files([tmp_path / "docs"])
    other = BM25Index.from_store(MemoryStore(), config=CONFIG)
    seen: list[int] = []
    with other:
        assert ingest(other, found, workers=1, progress=lambda _, chunks: seen.append(chunks)) == ingest(index, found)
        assert seen == [1_000, 2_000, 2_500, 2_500]
        assert (list(other.chunks()), other.stats()) == (list(index.chunks()), index.stats())


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sources that were read, in order."""
    taken: list[str] = []

    def noted(file: SourceFile, split: Splitter, fields: Collection[str] = ()) -> Iterator[Piece]:
        taken.append(file.source)
        return read_file(file, split, fields)

    monkeypatch.setattr(module, "read_file", noted)
    return taken


@pytest.mark.parametrize("held", [0, 3, 1_000])
def test_files_are_read_once_however_large(
    held: int, tmp_path: Path, index: BM25Index, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HELD_CHUNKS", held)
    monkeypatch.setattr(module, "SPOOLED_BYTES", 100)
    rows = [{"id": f"r{n}", "text": f"word w{n}", "metadata": {"page": n}} for n in range(30)]
    write_rows(tmp_path / "docs" / "a.jsonl", *rows)
    write_rows(tmp_path / "docs" / "bad.jsonl", *({**row, "id": f"b{row['id']}"} for row in rows), {"id": "x"})
    write(tmp_path / "docs" / "c.txt", "word " * 30)
    report = run(index, tmp_path / "docs")
    assert reads == ["docs/a.jsonl", "docs/bad.jsonl", "docs/c.txt"]
    assert list(report.failed) == ["docs/bad.jsonl"]
    assert {chunk.id: (chunk.text, chunk.metadata) for chunk in index.chunks() if chunk.id.startswith("r")} == {
        f"r{n}": (f"word w{n}", {"source": "docs/a.jsonl", "chunk": 0, "page": n}) for n in range(30)
    }
    assert not [id_ for id_ in ids(index) if id_.startswith("b")]
    assert report.chunks == report.added == index.stats().num_chunks > 30


def test_report_tells_what_became_of_the_chunks(tmp_path: Path, index: BM25Index) -> None:
    write_rows(tmp_path / "docs" / "a.jsonl", *({"id": f"r{n}", "text": f"w{n}"} for n in range(5)))
    assert run(index, tmp_path / "docs").added == 5
    write_rows(tmp_path / "docs" / "a.jsonl", *({"id": f"r{n}", "text": f"w{max(n, 3)}"} for n in range(1, 9)))
    report = run(index, tmp_path / "docs", prune=True)
    assert (report.added, report.updated, report.unchanged, report.stale, report.deleted) == (4, 2, 2, 0, 1)
    assert report.chunks == 8


def test_progress_counts_the_bytes_of_all_files(tmp_path: Path, index: BM25Index) -> None:
    for name in "abc":
        rows = ({"id": f"{name}{n:04}", "text": "x"} for n in range(1_000))
        size = write_rows(tmp_path / "docs" / f"{name}.jsonl", *rows).stat().st_size
    seen: list[int] = []
    ingest(index, find_files([tmp_path / "docs"]), progress=lambda size, _: seen.append(size))
    assert seen == [size, 2 * size, 3 * size, 3 * size]


def test_ingesting_again_writes_nothing(tmp_path: Path, index: BM25Index, store: MemoryStore) -> None:
    write(tmp_path / "docs" / "a.txt", "word " * 30)
    write_rows(tmp_path / "docs" / "b.jsonl", {"id": "r", "text": "x", "metadata": {"page": 1.0}})
    run(index, tmp_path / "docs")
    before, log = index.stats(), set(store.collections.log)
    store.calls.clear()
    report = run(index, tmp_path / "docs", prune=True)
    assert not {"insert_chunks", "delete_chunks", "insert_log", "delete_log"} & set(store.calls)
    assert (index.stats(), set(store.collections.log)) == (before, log)
    assert (report.added, report.stale, report.deleted) == (0, 0, 0)


def test_changed_files_are_updated_and_counted(tmp_path: Path, index: BM25Index) -> None:
    run(index, write(tmp_path / "a.txt", "old words"))
    report = run(index, write(tmp_path / "a.txt", "new words"), write(tmp_path / "b.txt"))
    assert (report.files, report.chunks, report.added) == (2, 2, 1)
    assert index.get(["a.txt#0"])[0].text == "new words"


def test_namespaces_are_apart(tmp_path: Path, index: BM25Index) -> None:
    file = write(tmp_path / "a.txt")
    run(index, file)
    assert ingest(index, find_files([file]), namespace="n").added == 1
    assert index.stats().namespaces == ["", "n"]


def test_line_ends_are_those_of_unix(tmp_path: Path) -> None:
    assert pieces(write(tmp_path / "a.txt", b"one\r\ntwo\rthree")) == {"a.txt#0": "one\ntwo\nthree"}


# What is gone


@pytest.fixture
def docs(tmp_path: Path, index: BM25Index) -> Path:
    """A folder that was ingested and has changed since: a file is shorter, a row and a file are gone."""
    folder = tmp_path / "docs"
    write(folder / "short.txt", "word " * 20)
    write(folder / "gone.txt")
    write_rows(folder / "rows.jsonl", {"id": "r1", "text": "x"}, {"id": "r2", "text": "y"})
    run(index, folder)
    write(folder / "short.txt", "word")
    (folder / "gone.txt").unlink()
    write_rows(folder / "rows.jsonl", {"id": "r1", "text": "x"})
    return folder


STALE = ["docs/gone.txt#0"]
REMOVED = ["docs/short.txt#1", "docs/short.txt#2", "r2"]


def test_what_a_file_has_no_more_is_deleted_and_a_file_that_is_gone_counted(docs: Path, index: BM25Index) -> None:
    report = run(index, docs)
    assert (report.stale, report.deleted) == (len(STALE), len(REMOVED))
    assert ids(index) == [*STALE, "docs/short.txt#0", "r1"]
    assert index.verify().ok


def test_prune_deletes_exactly_the_stale_chunks(docs: Path, index: BM25Index) -> None:
    report = run(index, docs, prune=True)
    assert (report.stale, report.deleted) == (len(STALE), len(REMOVED) + len(STALE))
    assert ids(index) == ["docs/short.txt#0", "r1"]
    assert index.verify().ok


def test_a_file_that_is_empty_now_loses_its_chunks(docs: Path, index: BM25Index) -> None:
    write(docs / "short.txt", "")
    assert run(index, docs / "short.txt").deleted == 3
    assert "docs/gone.txt#0" in ids(index)


def test_prune_of_one_file_leaves_the_others(docs: Path, index: BM25Index) -> None:
    report = run(index, docs / "short.txt", prune=True)
    assert (report.deleted, report.stale) == (2, 0)
    assert ids(index) == ["docs/gone.txt#0", "docs/short.txt#0", "r1", "r2"]


def test_a_row_that_names_another_file_of_rows_is_no_part_of_that(docs: Path, index: BM25Index) -> None:
    run(index, write_rows(docs.parent / "all.jsonl", {"id": "r3", "text": "z", "source": "docs/rows.jsonl"}))
    run(index, docs, prune=True)
    assert index.get(["r3"])[0].metadata == {"source": "docs/rows.jsonl"}


def test_a_row_that_names_another_text_is_no_part_of_that(docs: Path, index: BM25Index) -> None:
    """Also where it is long, so that its chunks have ids like those of a text."""
    rows = {"id": "docs/guide.md", "text": "a text " * 30, "source": "docs/guide.md"}
    run(
        index,
        write_rows(docs.parent / "all.jsonl", rows, {"id": "r3", "text": "z", "source": "docs/rows.jsonl", "chunk": 3}),
    )
    before = ids(index)
    assert {"docs/guide.md#1", "r3"} <= set(before)
    run(index, docs, prune=True)
    assert set(before) - set(ids(index)) == {*STALE, *REMOVED}


@pytest.mark.parametrize(
    ("id_", "metadata"),
    [
        ("plain", {}),
        ("elsewhere", {"source": "other/a.txt", "chunk": 0}),
        ("similar", {"source": "docs2/a.txt", "chunk": 0}),
        ("row with a source of its own", {"source": "docs/book.txt", "chunk": 0}),
        ("source that is no text", {"source": 5}),
    ],
)
def test_prune_leaves_what_is_not_from_the_given_paths(
    docs: Path, index: BM25Index, id_: str, metadata: dict[str, object]
) -> None:
    index.add(["text"], ids=[id_], metadatas=[metadata])
    run(index, docs, prune=True)
    assert id_ in ids(index)


@pytest.mark.parametrize(("folder", "other"), [("do_s", "docs"), ("a%", "abc"), ("a\\b", "acb")])
def test_prune_takes_folder_names_literally(tmp_path: Path, index: BM25Index, folder: str, other: str) -> None:
    run(index, write(tmp_path / other / "a.txt").parent)
    run(index, write(tmp_path / folder / "b.txt").parent, prune=True)
    assert ids(index) == sorted([f"{other}/a.txt#0", f"{folder}/b.txt#0"])


def test_prune_of_a_file_leaves_rows_that_name_it_as_their_source(tmp_path: Path, index: BM25Index) -> None:
    index.add(["text"], ids=["row"], metadatas=[{"source": "a.txt", "chunk": 0}])
    run(index, write(tmp_path / "a.txt"), prune=True)
    assert ids(index) == ["a.txt#0", "row"]


def test_prune_keeps_to_its_namespace(docs: Path, index: BM25Index) -> None:
    index.add(["word"], ids=["docs/gone.txt#0"], metadatas=[{"source": "docs/gone.txt", "chunk": 0}], namespace="n")
    report = ingest(index, find_files([docs]), namespace="n", prune=True)
    assert (report.stale, report.deleted) == (1, 1)
    assert {*STALE, *REMOVED} <= set(ids(index))


def test_prune_leaves_the_chunks_of_a_file_that_fails(docs: Path, index: BM25Index) -> None:
    write(docs / "short.txt", b"\xff")
    run(index, docs, prune=True)
    assert "docs/short.txt#2" in ids(index)


def test_prune_leaves_the_chunks_of_a_file_of_which_nobody_knows_whether_it_is_there(
    docs: Path, index: BM25Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(module, "_size", refuse)
    report = run(index, docs, prune=True)
    assert set(report.failed) == {"docs/short.txt", "docs/rows.jsonl"}
    assert set(ids(index)) == {"docs/short.txt#0", *REMOVED, "r1"}


def test_prune_leaves_what_is_below_a_folder_that_cannot_be_listed(
    tmp_path: Path, index: BM25Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "docs" / "sub" / "a.txt")
    run(index, tmp_path / "docs")
    scandir = os.scandir

    def refusing(path: str) -> object:
        if str(path).endswith("sub"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    report = run(index, tmp_path / "docs", prune=True)
    assert report.failed == {"docs/sub": f"{tmp_path}/docs/sub: Permission denied"}
    assert ids(index) == ["docs/sub/a.txt#0"]


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


def test_the_overlap_is_below_the_split_size() -> None:
    with pytest.raises(ParameterError, match="below the chunk size of 10, got 10"):
        splitter(CONFIG, chunk_overlap=10, split_size=10)


def test_a_sample_is_some_chunks_in_random_order_of_the_files(tmp_path: Path) -> None:
    for n in range(20):
        write(tmp_path / "docs" / f"{n:02}.txt", f"text {n}")
    write(tmp_path / "docs" / "bad.txt", b"\xff")
    files = find_files([tmp_path / "docs"]).files
    orders = [[piece.id for piece in sample(files, splitter(CONFIG), 100, seed=seed)] for seed in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == [f"docs/{n:02}.txt#0" for n in range(20)]
    assert [piece.id for piece in sample(files, splitter(CONFIG), 3)] == orders[0][:3]
