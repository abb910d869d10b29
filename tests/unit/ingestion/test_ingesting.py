"""Files come into an index, and what is gone leaves it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.files import CONFIG, ids, pieces, run, write, write_rows
from support.memory_store import MemoryStore

from rag_bm25 import BM25Index, Progress
from rag_bm25.ingestion import checking as module
from rag_bm25.ingestion import files
from rag_bm25.ingestion.documents import Piece
from rag_bm25.ingestion.files import SourceFile, find_files
from rag_bm25.ingestion.ingesting import ingest
from rag_bm25.ingestion.reading import read_file

# Writing


def test_a_row_over_the_limit_is_rejected(tmp_path: Path, store: MemoryStore) -> None:
    index = BM25Index.from_store(store, config=replace(CONFIG, chunk_size=100_000))
    report = run(index, write_rows(tmp_path / "a.jsonl", {"id": "big", "text": "x" * 70_000}))
    assert "line 1: text (id 'big') has 70,000 bytes" in report.reasons[0]
    assert store.collections.chunks == {}


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.csv"])
def test_a_byte_order_mark_tells_the_encoding(tmp_path: Path, index: BM25Index, name: str, encoding: str) -> None:
    text = {"a.txt": "劳动合同", "a.jsonl": '{"id": 1, "text": "劳动合同"}', "a.csv": "id,text\n1,劳动合同"}[name]
    report = run(index, write(tmp_path / name, f"\ufeff{text}".encode(encoding)))
    assert (report.failed, report.rejected) == ({}, {})
    assert [chunk.text for chunk in index.chunks()] == ["劳动合同"]


def test_a_file_that_cannot_be_read_fails(tmp_path: Path, index: BM25Index, monkeypatch: pytest.MonkeyPatch) -> None:
    found = find_files([write(tmp_path / "a.txt")])
    (tmp_path / "a.txt").unlink()
    assert ingest(index, found).failed == {"a.txt": f"{tmp_path}/a.txt: No such file or directory"}


def test_a_full_folder_for_temporary_files_fails_the_file_alone(
    tmp_path: Path, index: BM25Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HELD_CHUNKS", 2)
    monkeypatch.setattr(module, "SpooledTemporaryFile", lambda _bytes: Path("/dev/full").open("w+b"))  # noqa: SIM115
    write(tmp_path / "docs" / "a.txt", "word " * 1_000)
    write(tmp_path / "docs" / "b.txt", "text")
    reason = "no room for its chunks in a temporary file: No space left on device"
    assert run(index, tmp_path / "docs").failed == {"docs/a.txt": f"{tmp_path}/docs/a.txt: {reason}"}
    assert ids(index) == ["docs/b.txt#0"]


BAD_NAMES = {
    os.fsdecode(b"b\xff"): "its name, or that of a folder, is not UTF-8, and no id can be made of it",
    "\u5408" * 80: "at most 512 are allowed",
}


@pytest.mark.parametrize("name", BAD_NAMES)
@pytest.mark.parametrize("prune", [False, True])
def test_a_name_that_makes_no_id_fails_its_file_alone_each_time(
    tmp_path: Path, index: BM25Index, name: str, prune: bool
) -> None:
    docs = tmp_path / "docs"
    below, good, reason = docs / name / name, write(docs / "ok.txt"), BAD_NAMES[name]
    bad = [write(below / f"{name}{suffix}") for suffix in (".txt", ".html")]
    for number, paths in enumerate([[docs], [docs], [*bad, good], [below, good]]):
        write(docs / f"new{number}.txt")
        report = ingest(index, find_files([docs / f"new{number}.txt", *paths]), prune=prune)
        assert sorted(report.failed) == [f"docs/{name}/{name}/{name}{suffix}" for suffix in (".html", ".txt")]
        assert all(told.endswith(reason) for told in report.failed.values())
        assert {"docs/ok.txt#0", *(f"docs/new{n}.txt#0" for n in range(1, number + 1))} <= set(ids(index))


def test_chunks_carry_source_and_number(tmp_path: Path, index: BM25Index) -> None:
    run(index, write(tmp_path / "a.txt", "word " * 10))
    place = {"start_index": 30, "end_index": 49, "title": "a"}
    assert index.get(["a.txt#1"])[0].metadata == {"source": "a.txt", "chunk": 1, **place}


def test_files_share_batches_and_progress_reaches_the_end(tmp_path: Path, index: BM25Index, store: MemoryStore) -> None:
    for n in range(5):
        write(tmp_path / "docs" / f"{n}.txt", "word " * 10)
    write_rows(tmp_path / "docs" / "rows.jsonl", *({"id": f"r{n}", "text": "x"} for n in range(1_500)))
    found = find_files([tmp_path / "docs"])
    told: list[Progress] = []
    ingest(index, found, progress=told.append)
    assert store.calls.count("insert_chunks") == 2
    sizes, chunks = ([step for step in told if step.what == what] for what in ("bytes", "chunks"))
    assert sizes == sorted(sizes, key=lambda step: step.done)
    assert chunks == [Progress("chunks", done, None) for done in (1_000, 1_510, 1_510)]
    assert sizes[-1] == Progress("bytes", found.size, found.size)


def test_workers_make_no_difference(tmp_path: Path, index: BM25Index) -> None:
    write_rows(tmp_path / "docs" / "rows.jsonl", *({"id": str(n), "text": f"word w{n % 7}"} for n in range(2_500)))
    found = find_files([tmp_path / "docs"])
    other = BM25Index.from_store(MemoryStore(), config=CONFIG)
    told: list[Progress] = []
    with other:
        assert ingest(other, found, workers=1, progress=told.append) == ingest(index, found)
        assert [step.done for step in told if step.what == "chunks"] == [1_000, 2_000, 2_500, 2_500]
        assert (list(other.chunks()), other.stats()) == (list(index.chunks()), index.stats())


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sources that were read, in order."""
    taken: list[str] = []

    def noted(file: SourceFile, *given: Any, **named: Any) -> Iterator[Piece]:
        taken.append(file.source)
        return read_file(file, *given, **named)

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
    assert (report.rejected, report.failed) == ({"docs/bad.jsonl": 1}, {})
    assert {chunk.id: (chunk.text, chunk.metadata) for chunk in index.chunks() if chunk.id.startswith("r")} == {
        f"r{n}": (f"word w{n}", {"source": "docs/a.jsonl", "chunk": 0, "page": n}) for n in range(30)
    }
    assert [id_ for id_ in ids(index) if id_.startswith("b")] == sorted(f"br{n}" for n in range(30))
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
    told: list[Progress] = []
    ingest(index, find_files([tmp_path / "docs"]), progress=told.append)
    assert [(step.source, step.done) for step in told if step.source] == [
        (f"docs/{name}.jsonl", n * size) for n, name in enumerate("abc")
    ]
    sizes = [step.done for step in told if step.what == "bytes"]
    assert (sizes[0], sizes[-1], sizes) == (0, 3 * size, sorted(sizes))


def test_progress_names_a_file_before_it_is_read(tmp_path: Path, index: BM25Index, reads: list[str]) -> None:
    for name in "ab":
        write(tmp_path / "docs" / f"{name}.txt", name)
    told: list[tuple[str, list[str]]] = []
    ingest(index, find_files([tmp_path / "docs"]), progress=lambda step: told.append((step.source, [*reads])))
    assert told[:2] == [("docs/a.txt", []), ("docs/b.txt", ["docs/a.txt"])]


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
    write(docs / "short.txt", b"\xff\0")
    run(index, docs, prune=True)
    assert "docs/short.txt#2" in ids(index)


def test_prune_leaves_the_chunks_of_a_file_of_which_nobody_knows_whether_it_is_there(
    docs: Path, index: BM25Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(files, "_size", refuse)
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
