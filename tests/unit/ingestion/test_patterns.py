"""Files are selected by patterns and .gitignore."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.files import ids, write

from rag_bm25 import BM25Index
from rag_bm25.errors import InputError
from rag_bm25.ingestion import find_files, ingest, patterns


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    for name in ("a.txt", "b.md", "README", "build/c.txt", "sub/d.txt", "sub/keep.log.txt", "x.log.txt"):
        write(tmp_path / "docs" / name, f"text of {name}")
    return tmp_path / "docs"


def names(docs: Path, **options: Any) -> list[str]:
    return [file.source.removeprefix("docs/") for file in find_files([docs], **options).files]


def test_patterns_select_files(docs: Path) -> None:
    every = ["a.txt", "b.md", "x.log.txt", "build/c.txt", "sub/d.txt", "sub/keep.log.txt"]
    assert names(docs) == every
    assert names(docs, exclude=["*.log.txt", "build/"]) == ["a.txt", "b.md", "sub/d.txt"]
    assert names(docs, include=["*.md", "sub/*"]) == ["b.md", "sub/d.txt", "sub/keep.log.txt"]
    assert names(docs, include=["sub/*"], exclude=["d.txt"]) == ["sub/keep.log.txt"]
    assert names(docs, include=["sub", "!*.log.txt"]) == ["sub/d.txt"]


def test_files_of_other_kinds_are_read_as_text_where_they_are_included(docs: Path, index: BM25Index) -> None:
    assert names(docs, include=["README"]) == ["README"]
    ingest(index, find_files([docs], include=["README"]))
    assert ids(index) == ["docs/README#0"]


def test_also_adds_files_to_those_that_are_read(docs: Path, index: BM25Index) -> None:
    assert names(docs, also=["README"]) == ["README", *names(docs)]
    assert names(docs, include=["*.md"], also=["README", "sub/d.txt"]) == ["README", "b.md", "sub/d.txt"]
    assert names(docs, also=["README", "sub/"], exclude=["*.txt"]) == ["README", "b.md"]
    with pytest.raises(ValueError, match=r"also must be patterns as in a \.gitignore"):
        names(docs, also=[""])
    ingest(index, find_files([docs], also=["README"]))
    assert "docs/README#0" in ids(index)


def test_a_pattern_that_leaves_no_file_of_a_folder_makes_it_unreadable(docs: Path, tmp_path: Path) -> None:
    other, empty = write(tmp_path / "other" / "a.rst", "a").parent, tmp_path / "empty"
    empty.mkdir()
    found = find_files([docs, other, empty], include=["*.rst", "*.md"], exclude=["b.md"])
    assert found.unreadable == {docs: f"{docs}: *.rst, *.md of --include matches none of its files"}
    assert ([file.source for file in found.files], found.given) == (["other/a.rst"], {other: True, empty: True})


def test_gitignore_is_respected_the_nearest_first(docs: Path) -> None:
    write(docs / ".gitignore", "*.log.txt\n/build/\n# comment\n")
    write(docs / "sub" / ".gitignore", "!keep.log.txt\nd.txt\n")
    assert names(docs) == ["a.txt", "b.md", "sub/keep.log.txt"]
    assert len(names(docs, gitignore=False)) == 6
    found = find_files([docs])
    assert found.excluded == [docs / "build", docs / "x.log.txt", docs / "sub" / "d.txt"]


def test_the_gitignore_of_the_repository_counts_below_it(docs: Path) -> None:
    write(docs.parent / ".gitignore", "docs/sub/\n")
    assert "sub/d.txt" in names(docs)
    (docs.parent / ".git").mkdir()
    assert "sub/d.txt" not in names(docs)
    assert find_files([docs / "sub" / "d.txt"]).files == []


def test_what_is_excluded_now_is_not_gone(docs: Path, index: BM25Index) -> None:
    ingest(index, find_files([docs]))
    report = ingest(index, find_files([docs], exclude=["build"]), prune=True)
    assert (report.stale, report.deleted) == (0, 0)
    (docs / "build" / "c.txt").unlink()
    assert ingest(index, find_files([docs], exclude=["build"]), prune=True).deleted == 1


def test_chunks_of_files_that_are_no_longer_read_are_told(docs: Path, index: BM25Index) -> None:
    ingest(index, find_files([docs], also=["README"]), namespace="n")
    note = (
        "no longer read, so that their chunks ({}) are not brought up to date: {}. To read them: other patterns, such "
        "as --also; to delete their chunks: rag-bm25 delete --source SOURCE --namespace n"
    )
    for options, told in (
        ({}, note.format(1, "docs/README")),
        ({}, note.format(1, "docs/README")),  # though nothing has changed
        (
            {"exclude": ["*.txt", "sub"]},
            note.format(
                6, "docs/README, docs/a.txt, docs/build/c.txt, docs/sub/d.txt, docs/sub/keep.log.txt and 1 more"
            ),
        ),
    ):
        assert told in ingest(index, find_files([docs], **options), namespace="n").notes  # type: ignore[arg-type]
    (docs / "README").unlink()
    assert not any("no longer read" in each for each in ingest(index, find_files([docs]), namespace="n").notes)


def test_excluded_files_cost_the_same_however_many_there_are(
    tmp_path: Path, index: BM25Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(40):
        write(tmp_path / f"{number}.txt", "word")
    ingest(index, find_files([tmp_path]))
    resolved: Counter[str] = Counter()
    plain = os.path.realpath

    def note(path: str | Path, **options: bool) -> str:
        resolved[str(path)] += str(path).endswith(".txt")
        return plain(path, **options)

    monkeypatch.setattr(os.path, "realpath", note)
    ingest(index, find_files([tmp_path], exclude=["*.txt"]))
    assert resolved.total() < 40 * 10


def test_wrong_patterns_are_refused(docs: Path) -> None:
    for wrong in (" ", 5, "!", "[z-a]", "a\\", "[", "*" * 1_025):
        with pytest.raises(ValueError, match=r"exclude must be patterns as in a \.gitignore"):
            find_files([docs], exclude=[wrong])  # type: ignore[list-item]
    with pytest.raises(InputError, match="include must be a sequence of str"):
        find_files([docs], include="*.md")


def test_a_line_that_is_no_pattern_is_told_and_the_others_count(docs: Path) -> None:
    write(docs / ".gitignore", "!\n[z-a]\n*.log.txt\r\n/\n[[:x:]]\n[a\na\\\n\n# comment\n!x.log.txt\nb.md\n")
    found = find_files([docs, docs / "a.txt"])
    assert [file.path.name for file in found.files] == ["a.txt", "x.log.txt", "c.txt", "d.txt"]
    wrong = "line 1, line 2, line 4, line 5, line 6 and 1 more"
    assert found.notes == [f"{docs}/.gitignore: left out, since they are no patterns: {wrong}"]


@pytest.mark.parametrize("pattern", [f"{'*a' * 20}b", f"{'**/a/' * 20}b", f"{'*?' * 40}b"])
def test_no_pattern_makes_the_search_hang(docs: Path, pattern: str) -> None:
    deep = write(docs / "/".join("a" * 99) / f"{'a' * 120}.txt")
    write(docs / ".gitignore", f"{pattern}\n")
    assert deep in [file.path for file in find_files([docs], exclude=[pattern]).files]


def test_the_rest_of_a_long_gitignore_is_told_not_to_count(docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "MAX_GITIGNORE", 5)
    write(docs / ".gitignore", "b.md\n")
    assert ("b.md" in names(docs), find_files([docs]).notes) == (False, [])
    write(docs / ".gitignore", "b.md\na.txt")
    assert "a.txt" in names(docs)
    assert find_files([docs]).notes == [f"{docs}/.gitignore: only its first 5 bytes count"]


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_a_gitignore_that_is_no_file_is_told_and_does_not_count(docs: Path, kind: str) -> None:
    gitignore = docs / ".gitignore"
    if kind == "link":
        gitignore.symlink_to(write(docs.parent / "other", "*.txt"))
    else:
        os.mkfifo(gitignore) if kind == "pipe" else gitignore.mkdir()
    found = find_files([docs])
    assert len(found.files) == 6
    assert [note.partition(":")[0] for note in found.notes] == [str(gitignore)]


def test_nothing_below_an_ignored_folder_is_found_again(docs: Path) -> None:
    (docs / ".git").mkdir()
    write(docs / ".gitignore", "sub/\n!sub/d.txt\n")
    write(docs / "sub" / ".gitignore", "!*\n")
    assert "sub/d.txt" not in names(docs)
    assert find_files([docs / "sub", docs / "sub" / "d.txt"]).files == []


ATOMS = [
    "a", "b", "ab", "*", "**", "?", "/", "/**/", "**/", "/**", "[ab]", "[!a]", "[^b]", "[a-c]", "[]]", "[]a]", "[a-]",
    "[!]]", "[", "]", "\\", "\\a", "\\*", "\\ ", " ", "!", "#", "-", "[[:alpha:]]", "[[:space:]b]", "[a/b]", "[c-a]",
    "[[:x:]]", "[\\]]", "[\\a-c]", "a-b", "^", "1", "\t", "[[]", "[:a]", "d/e",
]  # fmt: skip
NAMES = [
    "b",
    "aab",
    "abb",
    "a-b",
    "a]",
    "[a]",
    "a b",
    "*a",
    "!a",
    "#a",
    "^",
    "a\\b",
    "a1",
    "Ab",
    "a ",
    "a\nb",
    "ba",
    "]",
]
FOLDERS = ["", "a", "ab", "a/d", "a/d/a", "d/a/d", "[a", "d/e/f"]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    for number, below in enumerate(FOLDERS):
        for name in NAMES[number % 2 :: 2]:
            write(folder / below / name)
    return folder


def without_quirk(line: str) -> str:
    """Git takes two stars after a literal beginning for any folders, which its documents deny."""
    return re.sub(r"(?<=[^/])\*\*+|\*\*+(?=[^/])", "*", line)


LINES = st.lists(st.sampled_from(ATOMS), min_size=1, max_size=5).map("".join).map(without_quirk)


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
@given(st.lists(LINES, max_size=3), st.lists(LINES, max_size=2))
def test_gitignore_means_what_git_does(repository: Path, top: list[str], inner: list[str]) -> None:
    write(repository / ".gitignore", "\n".join(top))
    write(repository / "a" / ".gitignore", "\r\n".join(inner))
    listed = subprocess.run(
        ["git", "-C", str(repository), "ls-files", "-o", "-z", "--exclude-standard"], check=True, capture_output=True
    )
    theirs = {name for name in listed.stdout.decode().split("\0") if name and not name.endswith(".gitignore")}
    assert {path.relative_to(repository).as_posix() for path in find_files([repository]).skipped} == theirs
