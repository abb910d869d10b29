"""Files are found."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path
from typing import Literal

import pytest
from support.files import ids, run, sources, write

from rag_bm25 import BM25Index, InputError, ParameterError
from rag_bm25.ingestion.files import find_files
from rag_bm25.ingestion.ingesting import ingest
from rag_bm25.ingestion.source_names import SourceNames
from rag_bm25.statistics.log.source_roots import SourceRoot

# Finding files


def test_folders_are_walked_in_order_and_named_from_their_parent(tmp_path: Path) -> None:
    for name in ("b.txt", "a.md", *(f"sub{n}/c.jsonl" for n in range(9, 0, -1)), "A.TXT"):
        write(tmp_path / "docs" / name)
    subfolders = [f"docs/sub{n}/c.jsonl" for n in range(1, 10)]
    assert sources(tmp_path / "docs") == ["docs/A.TXT", "docs/a.md", "docs/b.txt", *subfolders]


def test_a_file_is_named_by_its_name(tmp_path: Path) -> None:
    assert sources(write(tmp_path / "docs" / "a.txt")) == ["a.txt"]


def test_paths_may_be_str(tmp_path: Path) -> None:
    docs = write(tmp_path / "docs" / "a.txt").parent
    assert find_files([str(docs)], root=str(tmp_path)) == find_files([docs], root=tmp_path)


def test_what_is_no_list_of_paths_is_refused(index: BM25Index, tmp_path: Path) -> None:
    for paths in ("docs", tmp_path):
        with pytest.raises(InputError, match="paths must be a sequence of str or Path, got"):
            find_files(paths)  # type: ignore[arg-type]
    for path in ("", " ", 5, None, "\ud800"):
        with pytest.raises(ParameterError, match=r"paths\[0\] must be a str or a Path that can name a file"):
            find_files([path])  # type: ignore[list-item]
    for found in ("docs", [tmp_path]):
        with pytest.raises(InputError, match=r"found must be what find_files returns, got (str|list)"):
            ingest(index, found)  # type: ignore[arg-type]


def test_the_current_folder_has_its_real_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "docs" / "a.txt")
    monkeypatch.chdir(tmp_path / "docs")
    assert sources(Path()) == ["docs/a.txt"]


def test_hidden_files_and_folders_are_left_out(tmp_path: Path) -> None:
    write(tmp_path / "docs" / ".a.txt")
    write(tmp_path / "docs" / ".git" / "b.txt")
    assert find_files([tmp_path / "docs"]).files == []


def test_other_kinds_are_skipped_and_named(tmp_path: Path) -> None:
    other = write(tmp_path / "docs" / "a.css")
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


def test_a_link_to_itself_is_skipped(tmp_path: Path) -> None:
    loop = tmp_path / "docs" / "loop.txt"
    write(tmp_path / "docs" / "a.txt")
    loop.symlink_to(loop)
    found = find_files([tmp_path / "docs"])
    assert ([file.source for file in found.files], found.skipped) == (["docs/a.txt"], [loop])
    with pytest.raises(OSError, match="symbolic links"):
        find_files([loop])


def test_a_file_given_by_itself_that_cannot_be_ingested_is_an_error(tmp_path: Path, index: BM25Index) -> None:
    page = write(tmp_path / "a.css")
    report = run(index, page, write(tmp_path / "b.txt"))
    assert report.failed["a.css"].startswith(f"{page}: only files that end in .txt, .md, ")
    assert ids(index) == ["b.txt#0"]


@pytest.mark.parametrize("name", ["pipe", "pipe.txt"])
def test_a_pipe_given_by_itself_is_told_to_be_one(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    found = find_files([tmp_path / name], include=[name])
    assert "no regular file but a pipe" in found.unreadable[tmp_path / name]


def test_temporary_files_are_left_out_unless_a_pattern_names_them(tmp_path: Path) -> None:
    for name in ("~$a.docx", "b.tmp", "c.txt"):
        write(tmp_path / "docs" / name)
    assert (sources(tmp_path / "docs"), find_files([tmp_path]).skipped) == (["docs/c.txt"], [])
    assert [file.source for file in find_files([tmp_path / "docs"], include=["*.tmp"]).files] == ["docs/b.tmp"]


# Names in two forms of Unicode

NAME = "Übersicht"


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_file_has_one_name_in_whatever_form_its_system_writes_it(
    form: Literal["NFC", "NFD"], tmp_path: Path, index: BM25Index
) -> None:
    folder = tmp_path / unicodedata.normalize(form, NAME)
    path = write(folder / unicodedata.normalize(form, f"{NAME}.txt"))
    run(index, folder)
    assert {chunk.metadata["source"] for chunk in index.chunks()} == {f"{NAME}/{NAME}.txt"}
    assert run(index, folder, prune=True).deleted == 0
    path.rename(folder / unicodedata.normalize("NFC", path.name))
    assert (run(index, folder).unchanged, len(ids(index))) == (1, 1)


def test_the_file_of_a_name_is_found_in_the_form_that_it_has(tmp_path: Path) -> None:
    folder, name = tmp_path / NAME, unicodedata.normalize("NFD", f"{NAME}.txt")
    write(folder / name)
    names = SourceNames([SourceRoot(NAME, str(folder), is_folder=True)], lambda _name, _is_folder: True)
    assert names.path_of(f"{NAME}/{NAME}.txt") == folder / name
    assert names.has_file(f"{NAME}/{NAME}.txt")
