"""A folder that is empty, or has lost too many files, keeps its chunks."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.files import ids, run, write

from rag_bm25 import BM25Index, ParameterError
from rag_bm25.ingestion import find_files, ingest
from rag_bm25.ingestion.ingesting import IngestReport


def prune(index: BM25Index, *paths: Path, **options: Any) -> IngestReport:
    return ingest(index, find_files(paths), prune=True, **options)


def fill(folder: Path, *numbers: int) -> Path:
    """Make a folder with these files, and no others."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for number in numbers:
        write(folder / f"{number}.txt", "word " * 10)
    return folder


def names(index: BM25Index) -> set[int]:
    """Return the numbers of the files that have chunks."""
    return {int(id_.partition("/")[2].partition(".")[0]) for id_ in ids(index)}


@pytest.mark.parametrize(
    ("before", "after", "is_pruned"),
    [
        (3, 2, True),
        (6, 1, True),
        (7, 1, False),
        (1, 0, False),
        (6, 0, False),
        (100, 80, True),
        (100, 79, False),
    ],
)
def test_few_files_and_small_shares_are_pruned(
    before: int, after: int, is_pruned: bool, tmp_path: Path, index: BM25Index
) -> None:
    run(index, fill(tmp_path / "docs", *range(before)))
    report = prune(index, fill(tmp_path / "docs", *range(after)))
    assert (list(report.failed), report.stale) == ([] if is_pruned else ["docs"], 2 * (before - after))
    assert names(index) == set(range(after if is_pruned else before))
    assert index.verify().ok


def test_the_message_of_an_empty_folder_has_the_command_that_deletes(tmp_path: Path, index: BM25Index) -> None:
    run(index, fill(tmp_path / "my docs", 1, 2, 3))
    folder = fill(tmp_path / "my docs")
    reason = (
        f"{folder} has no file to ingest, and the index has chunks (6) of files in it (3). None was deleted. "
        "If all of them are to go: rag-bm25 delete --source 'my docs/'"
    )
    assert prune(index, folder, max_delete=1).failed == {"my docs": reason}
    assert run(index, folder).failed == {}
    ingest(index, find_files([fill(tmp_path / "my docs", 1)]), namespace="team a")
    assert prune(index, fill(folder), namespace="team a").failed["my docs"].endswith("--namespace 'team a'")


def test_new_and_changed_files_of_a_folder_that_is_not_pruned_are_ingested(tmp_path: Path, index: BM25Index) -> None:
    run(index, fill(tmp_path / "docs", *range(10)))
    report = prune(index, fill(tmp_path / "docs", 0, 1, 10))
    assert (report.added, report.deleted) == (2, 0)
    assert report.failed == {
        "docs": f"{tmp_path}/docs: 8 of 11 files are gone, more than 20%. None of their 16 chunks was deleted. "
        "If all of them are to go: --max-delete 100%"
    }
    assert names(index) == set(range(11))
    assert prune(index, tmp_path / "docs", max_delete=0.72).failed != {}
    assert prune(index, tmp_path / "docs", max_delete=0.73).deleted == 16
    assert names(index) == {0, 1, 10}


def test_each_folder_is_judged_by_itself(tmp_path: Path, index: BM25Index) -> None:
    run(index, fill(tmp_path / "a", *range(50)), fill(tmp_path / "b", 100, 101))
    report = prune(index, fill(tmp_path / "a", *range(49)), fill(tmp_path / "b"))
    assert (list(report.failed), report.deleted) == (["b"], 2)
    assert names(index) == {*range(49), 100, 101}


def test_the_roots_within_a_folder_belong_to_it(tmp_path: Path, index: BM25Index) -> None:
    run(index, write(tmp_path / "docs" / "sub" / "x.txt").parent)
    run(index, write(tmp_path / "docs" / "y.txt"))
    shutil.rmtree(tmp_path / "docs" / "sub")
    (tmp_path / "docs" / "y.txt").unlink()
    assert prune(index, tmp_path / "docs").failed["docs"].endswith("--source sub/ --source y.txt")
    assert ids(index) == ["sub/x.txt#0", "y.txt#0"]


def test_a_folder_that_was_emptied_is_told_from_one_whose_files_are_left_out(tmp_path: Path, index: BM25Index) -> None:
    docs = fill(tmp_path / "docs", 1)
    run(index, docs)
    report = ingest(index, find_files([docs], exclude=["*.txt"]), prune=True)
    assert (report.failed, report.stale, names(index)) == ({}, 0, {1})


def test_a_part_of_a_search_is_judged_by_the_whole(tmp_path: Path, index: BM25Index) -> None:
    """As --watch gives it: the files that are gone, by themselves."""
    run(index, fill(tmp_path / "docs", *range(10)))
    given = dict.fromkeys((tmp_path / "docs" / f"{number}.txt" for number in range(6)), False)
    for left in ([], [6]):
        whole = find_files([fill(tmp_path / "docs", *left)])
        assert list(ingest(index, replace(whole, files=[], given=given, whole=whole), prune=True).failed) == ["docs"]
    whole = find_files([fill(tmp_path / "docs", *range(6, 40))])
    assert ingest(index, replace(whole, files=[], given=given, whole=whole), prune=True).deleted == 12


@pytest.mark.parametrize("wrong", [-0.1, 1.1, 20, "20%", None, True])
def test_a_share_is_a_number_up_to_one(wrong: Any, tmp_path: Path, index: BM25Index) -> None:
    with pytest.raises(ParameterError, match=r"max_delete must be a number in 0\.\.1, got "):
        prune(index, fill(tmp_path / "docs", 1), max_delete=wrong)


# Folders that were renamed


def test_a_folder_that_is_gone_is_named_when_another_one_comes(tmp_path: Path, index: BM25Index) -> None:
    run(index, fill(tmp_path / "old", 1))
    (tmp_path / "old").rename(tmp_path / "new")
    note = (
        f"'old' is the folder {tmp_path}/old, which no longer exists here, and the index still has chunks of it. "
        "To go on with this name, delete the chunks of the new one, and ingest with --name old. "
        "If it was renamed, delete them: rag-bm25 delete --source old/"
    )
    assert prune(index, tmp_path / "new").notes == [note]
    assert run(index, tmp_path / "new").notes == []
    index.delete(["old/1.txt#0", "old/1.txt#1"])
    assert run(index, fill(tmp_path / "third", 2)).notes == []


def test_a_folder_that_keeps_its_name_replaces_none(tmp_path: Path, index: BM25Index) -> None:
    run(index, fill(tmp_path / "old", 1), fill(tmp_path / "other", 2))
    for name in ("old", "other"):
        (tmp_path / name).rename(tmp_path / f"{name}_moved")
    assert ingest(index, find_files([tmp_path / "old_moved"], name="old")).notes == []
