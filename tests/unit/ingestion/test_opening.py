"""Files are read where they were found, and never through links that were put there later."""

from __future__ import annotations

import os
import runpy
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from support.files import ids, write

from rag_bm25 import BM25Index
from rag_bm25.ingestion import find_files, ingest, opening
from rag_bm25.ingestion.files import SUFFIXES, needs_package
from rag_bm25.ingestion.formats.extraction import answer

REASON = "not read: a link, a pipe or the like is in its place, or in that of its folder"
SECRET = '{"_id": "1", "text": "secret"}'


def put_link(file: Path, secret: Path) -> None:
    file.unlink()
    file.symlink_to(secret)


def put_link_to_folder(file: Path, secret: Path) -> None:
    file.parent.rename(file.parent.with_name("old"))
    file.parent.symlink_to(secret.parent)


def put_pipe(file: Path, _secret: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def put_socket(file: Path, _secret: Path) -> None:
    file.unlink()
    os.chdir(file.parent)  # such an address has at most 108 bytes
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(file.name)


def put_folder(file: Path, _secret: Path) -> None:
    file.unlink()
    file.mkdir()


SWAPS = [put_link, put_link_to_folder, put_pipe, put_socket, put_folder]


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("swap", SWAPS)
def test_a_file_that_is_replaced_after_it_was_found_is_told_and_the_others_are_read(
    tmp_path: Path,
    index: BM25Index,
    monkeypatch: pytest.MonkeyPatch,
    swap: Callable[[Path, Path], None],
    suffix: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    secret = write(tmp_path / "private" / f"a{suffix}", SECRET)
    file = write(tmp_path / "docs" / "sub" / f"a{suffix}")
    if needs_package(file):
        pytest.skip("needs the extra documents")
    write(tmp_path / "docs" / "b.txt")
    found = find_files([tmp_path / "docs"])
    swap(file, secret)
    report = ingest(index, found)
    assert report.failed == {f"docs/sub/a{suffix}": f"{file}: {REASON}"}
    assert ids(index) == ["docs/b.txt#0"]


@pytest.mark.parametrize("suffix", [".txt", ".jsonl", ".html"])
def test_a_file_that_another_one_replaces_is_read(tmp_path: Path, index: BM25Index, suffix: str) -> None:
    file = write(tmp_path / "docs" / f"a{suffix}", "old")
    found = find_files([tmp_path / "docs"])
    write(tmp_path / "new", SECRET).replace(file)
    assert ingest(index, found).failed == {}
    assert ["secret" in chunk.text for chunk in index.chunks()] == [True]


@pytest.mark.parametrize("suffix", [".txt", ".jsonl", ".html"])
def test_links_within_the_folder_and_those_that_are_named_are_read(
    tmp_path: Path, index: BM25Index, suffix: str
) -> None:
    write(tmp_path / "docs" / ".hidden" / f"a{suffix}", SECRET)
    (tmp_path / "docs" / f"b{suffix}").symlink_to(f".hidden/a{suffix}")
    named = tmp_path / f"c{suffix}"
    named.symlink_to(write(tmp_path / "elsewhere" / "of-any-kind", SECRET.replace("1", "2")))
    report = ingest(index, find_files([tmp_path / "docs", named]))
    assert (report.failed, report.files, report.added) == ({}, 2, 2)


def test_the_process_that_extracts_follows_no_link_either(tmp_path: Path) -> None:
    page = tmp_path / "a.html"
    page.symlink_to(write(tmp_path / "private" / "a.html", "secret"))
    assert answer(str(page), str(page), encoding=None) == {"error": f"{page}: {REASON}"}
    assert answer(str(page), os.path.realpath(page), encoding=None, hidden=False, repeated=False)["text"] == "secret"


def test_a_platform_that_opens_nothing_relative_to_a_folder_follows_no_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_DIRECTORY", "O_PATH"):
        monkeypatch.delattr(os, flag, raising=False)
    monkeypatch.setattr(os, "supports_dir_fd", set())
    open_regular = runpy.run_path(opening.__file__)["open_regular"]
    file = write(tmp_path / "a.txt")
    with open_regular(file, file) as opened:
        assert (opened.name, opened.read()) == (str(file), b"some text")
    put_link(file, write(tmp_path / "private" / "a.txt", SECRET))
    with pytest.raises(ValueError, match=REASON):
        open_regular(file, file)
