"""Files are selected by patterns and .gitignore."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.files import ids, write

from rag_bm25.errors import InputError, MissingExtraError
from rag_bm25.ingestion import find_files, ingest

if TYPE_CHECKING:
    from pathlib import Path

    from rag_bm25 import BM25Index

pytest.importorskip("pathspec")


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


def test_files_of_other_kinds_are_read_as_text_where_they_are_included(docs: Path, index: BM25Index) -> None:
    assert names(docs, include=["README"]) == ["README"]
    ingest(index, find_files([docs], include=["README"]))
    assert ids(index) == ["docs/README#0"]


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


def test_wrong_patterns_are_refused(docs: Path) -> None:
    for wrong in (" ", 5):
        with pytest.raises(ValueError, match=r"exclude must be patterns as in a \.gitignore"):
            find_files([docs], exclude=[wrong])  # type: ignore[list-item]
    with pytest.raises(InputError, match="include must be a sequence of str"):
        find_files([docs], include="*.md")


def test_without_pathspec_an_error_names_the_extra(docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pathspec", None)
    assert names(docs)
    with pytest.raises(MissingExtraError, match=r"rag-bm25\[cli\]"):
        find_files([docs], exclude=["*.md"])
