"""No row replaces a chunk of another file that exists."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from itertools import permutations
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest
from support.files import CONFIG, ids, run, write, write_rows
from support.memory_store import MemoryStore

from rag_bm25 import BM25Index, InputError
from rag_bm25.ingestion import ReadOptions, find_files, ingest, owners
from rag_bm25.ingestion.owners import SAME_NAME, WAY_OUT


def rows(path: Path, *ids: str, **more: object) -> Path:
    """Write a file of rows whose texts have the name of the file."""
    return write_rows(path, *({"id": id_, "text": f"{path.name} {id_}", **more} for id_ in ids))


def texts(index: BM25Index) -> dict[str, str]:
    return {chunk.id: chunk.text for chunk in index.chunks()}


def belongs(file: Path, line: int, id_: str, owner: str) -> str:
    return f"{file} line {line}: the id {id_!r} belongs to {owner}, which exists, too. {WAY_OUT}"


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    return rows(tmp_path / "G" / "fruit.jsonl", "1", "2"), rows(tmp_path / "G" / "veg.jsonl", "1", "2", "3")


def test_a_file_with_the_name_of_another_in_another_form_of_unicode_says_so(tmp_path: Path, index: BM25Index) -> None:
    """Some file systems keep one of the two."""
    files = [tmp_path / "a" / normalize(form, "é.txt") for form in ("NFD", "NFC")]
    for file in files:
        write(file, file.name)
    if len(list((tmp_path / "a").iterdir())) == len(files):
        report = ingest(index, find_files([tmp_path / "a"]))
        assert (report.rejected, report.reasons) == ({"a/é.txt": 1}, [f"{files[1]}: {SAME_NAME}"])


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("workers", [0, 1])
def test_rows_of_two_files_do_not_replace_each_other(
    together: bool, workers: int, two: tuple[Path, Path], index: BM25Index
) -> None:
    fruit, veg = two
    if not together:
        run(index, fruit.parent / "fruit.jsonl")
    owner = "G/fruit.jsonl" if together else "fruit.jsonl"
    for given in (veg.parent, veg, veg.parent):
        report = ingest(index, find_files([given]), workers=workers)
        assert (list(report.rejected.values()), report.failed) == ([2], {})
        assert report.reasons == [belongs(veg, line, str(line), owner) for line in (1, 2)]
        assert texts(index) == {"1": "fruit.jsonl 1", "2": "fruit.jsonl 2", "3": "veg.jsonl 3"}
    assert index.verify().ok


def test_the_earlier_owner_stays_whatever_the_order(tmp_path: Path) -> None:
    files = [rows(tmp_path / name, "1") for name in ("a.jsonl", "b.jsonl", "c.jsonl")]
    for first, *others in permutations(files):
        index = BM25Index.from_store(MemoryStore(), config=CONFIG)
        run(index, first)
        for given in permutations(files):
            assert run(index, *given).rejected == {other.name: 1 for other in others}
            assert texts(index) == {"1": f"{first.name} 1"}


def test_a_long_row_is_refused_as_a_whole(tmp_path: Path, index: BM25Index) -> None:
    run(index, write_rows(tmp_path / "a.jsonl", {"id": "1#1", "text": "x"}, {"id": "2", "text": "word " * 10}))
    long = write_rows(tmp_path / "b.jsonl", *({"id": id_, "text": "word " * 30} for id_ in "12"))
    report = run(index, long)
    assert (report.added, report.rejected) == (0, {"b.jsonl": 2})
    assert ids(index) == ["1#1", "2#0", "2#1"]


def test_a_row_whose_ids_are_those_of_several_files_is_refused(tmp_path: Path, index: BM25Index) -> None:
    """Also if one of the files is read in this run, and has lost its row."""
    others = [rows(tmp_path / f"{number}.jsonl", f"1#{number}") for number in range(2)]
    run(index, *others)
    long = write_rows(tmp_path / "b.jsonl", {"id": "1", "text": "word " * 15})
    for lost in range(2):
        rows(others[lost], "other")
        assert run(index, others[lost], long).rejected == {"b.jsonl": 1}
        rows(others[lost], f"1#{lost}")
        run(index, others[lost])
    for lost in range(2):
        rows(others[lost], f"other {lost}")
    assert run(index, *others, long).rejected == {}


def test_strict_writes_nothing(two: tuple[Path, Path], index: BM25Index) -> None:
    run(index, two[0])
    with pytest.raises(InputError, match=r"rows \(2\) are invalid: .*veg.jsonl line 1: the id '1' belongs to fruit"):
        ingest(index, find_files([two[1]]), strict=True)
    assert ids(index) == ["1", "2"]


def test_namespaces_have_owners_of_their_own(two: tuple[Path, Path], index: BM25Index) -> None:
    run(index, two[0])
    assert ingest(index, find_files([two[1]]), namespace="n").added == 3


@pytest.mark.parametrize("is_split", [False, True])
def test_ids_that_begin_with_their_file_tell_rows_apart(
    two: tuple[Path, Path], is_split: bool, index: BM25Index
) -> None:
    if is_split:
        for file in two:
            rows(file, "1", more="x").write_text(file.read_text().replace('"text": "', '"text": "' + "word " * 20))
    for _ in range(2):
        report = ingest(index, find_files([two[0].parent]), options=ReadOptions(id_prefix="{source}#"))
        assert report.rejected == {}
    assert {id_.rpartition("l#")[0] for id_ in ids(index)} == {"G/fruit.json", "G/veg.json"}
    assert ingest(index, find_files(two[:1]), options=ReadOptions(id_prefix="new-")).rejected == {}
    assert "new-1" in "".join(ids(index))


def test_an_id_of_a_place_takes_no_prefix(tmp_path: Path, index: BM25Index) -> None:
    ingest(index, find_files([write(tmp_path / "a.csv", "text\nfig\n")]), options=ReadOptions(id_prefix="{source}/"))
    assert ids(index) == ["a.csv#0"]


# Chunks of documents


@pytest.mark.parametrize("named", [{}, {"source": "official/policy.md"}, {"source": "official/policy.md", "chunk": 0}])
def test_a_row_cannot_pass_for_a_chunk_of_a_document(
    tmp_path: Path, named: dict[str, object], index: BM25Index
) -> None:
    policy = write(tmp_path / "official" / "policy.md", "thirty days")
    forged = rows(tmp_path / "a" / "u.jsonl", "official/policy.md#0", **named)
    reasons = [belongs(forged, 1, "official/policy.md#0", "official/policy.md")]
    for given in ([forged.parent, policy.parent], [policy.parent], [forged.parent], [policy.parent, forged.parent]):
        report = run(index, *given)
        assert report.failed == {}
        assert report.reasons == (reasons if forged.parent in given else [])
        assert texts(index) == {"official/policy.md#0": "thirty days"}


def test_a_row_cannot_pass_for_a_new_row_of_another_file(tmp_path: Path, index: BM25Index) -> None:
    run(index, rows(tmp_path / "fruit.jsonl", "1"))
    forged = rows(tmp_path / "u.jsonl", "9", source="fruit.jsonl", chunk=0)
    assert run(index, forged).reasons == [belongs(forged, 1, "9", "fruit.jsonl")]


@pytest.mark.parametrize("id_", ["x#1", "#1", "docs#1", "docs/#1", "docs/../secret.txt#1", f"docs/{'x' * 300}#1"])
def test_other_ids_with_a_number_are_free(tmp_path: Path, id_: str, index: BM25Index) -> None:
    write(tmp_path / "secret.txt")
    run(index, write(tmp_path / "docs" / "a.txt").parent)
    assert run(index, write_rows(tmp_path / "r.jsonl", {"id": id_, "text": "x"})).added == 1


def test_a_document_has_the_ids_of_its_name(tmp_path: Path, index: BM25Index) -> None:
    """Also where a row has taken one before the document came."""
    forged = rows(tmp_path / "u.jsonl", "docs/a.txt#0")
    run(index, forged)
    run(index, write(tmp_path / "docs" / "a.txt").parent)
    assert texts(index) == {"docs/a.txt#0": "some text"}
    assert run(index, forged).rejected == {"u.jsonl": 1}


# Sources that are gone, and rows that move


def test_a_file_that_is_gone_hands_its_rows_over(tmp_path: Path, index: BM25Index) -> None:
    exports = [rows(tmp_path / "exports" / f"{day}.jsonl", "1", "2") for day in (25, 26)]
    run(index, exports[0])
    assert run(index, exports[1]).rejected == {"26.jsonl": 2}
    exports[0].unlink()
    report = run(index, exports[1])
    note = "took over chunks whose source is not an existing file: 26.jsonl from 25.jsonl (2)"
    assert (report.updated, report.rejected, report.notes) == (2, {}, [note])
    assert texts(index) == {"1": "26.jsonl 1", "2": "26.jsonl 2"}
    report = run(index, exports[1])
    assert (report.unchanged, report.notes) == (2, [])


def test_a_file_that_cannot_be_looked_for_keeps_its_rows(
    two: tuple[Path, Path], index: BM25Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(index, two[0])
    stat = os.stat

    def refuse(path: Any, **options: Any) -> os.stat_result:
        if os.fspath(path) == os.fspath(two[0]):
            raise PermissionError(13, "Permission denied", str(path))
        return stat(path, **options)

    monkeypatch.setattr(os, "stat", refuse)
    assert run(index, two[1]).rejected == {"veg.jsonl": 2}


def test_a_moved_file_keeps_its_rows(tmp_path: Path, index: BM25Index) -> None:
    run(index, rows(tmp_path / "docs" / "a.jsonl", "1").parent)
    rows(tmp_path / "docs" / "sub" / "a.jsonl", "1")
    (tmp_path / "docs" / "a.jsonl").unlink()
    report = run(index, tmp_path / "docs", prune=True)
    assert (report.updated, report.rejected, report.stale) == (1, {}, 0)


def test_chunks_of_no_source_are_taken_over_and_named(tmp_path: Path, index: BM25Index) -> None:
    index.add(["x", "y"], ids=["1", "2"], metadatas=[None, {"source": "https://a"}])
    (note,) = run(index, rows(tmp_path / "a.jsonl", "1", "2")).notes
    assert note.endswith(": a.jsonl from no source (1), a.jsonl from https://a (1)")


def test_rows_with_sources_of_their_own_are_updated(tmp_path: Path, index: BM25Index) -> None:
    for text in ("old", "new"):
        file = write_rows(tmp_path / "a.jsonl", {"id": "1", "text": text, "source": "https://a", "chunk": 0})
        report = run(index, file)
        assert (report.rejected, report.notes) == ({}, [])
    assert texts(index) == {"1": "new"}


def shards(folder: Path, numbers: Iterable[int], chance: random.Random) -> Path:
    """Spread rows over three files."""
    names = [chance.choice(["a", "b", "c"]) for _ in numbers]
    for name in "abc":
        own = [str(number) for number, other in zip(numbers, names, strict=True) if other == name]
        rows(folder / f"{name}.jsonl", *own, mark=f"{name}{chance.random()}")
    return folder


@pytest.mark.parametrize("seed", range(5))
def test_rows_move_between_the_files_of_one_run(
    tmp_path: Path, seed: int, index: BM25Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owners, "MAX_BATCH_CHUNKS", 50)
    monkeypatch.setattr(owners, "SPOOLED_BYTES", 100)
    chance = random.Random(seed)
    for size in (150, 170, 100):
        report = run(index, shards(tmp_path / "G", range(size), chance))
        assert (report.rejected, report.notes, report.chunks) == ({}, [], size)
        fresh = BM25Index.from_store(MemoryStore(), config=CONFIG)
        run(fresh, tmp_path / "G")
        assert sorted(map(repr, index.chunks())) == sorted(map(repr, fresh.chunks()))


@pytest.mark.parametrize("wrong", ["bad\n", '{"id": "2"}\n'])
def test_rows_stay_with_a_file_that_is_not_read_to_its_end(tmp_path: Path, wrong: str, index: BM25Index) -> None:
    """Nobody knows whether the wrong row is the one that another file has, too."""
    old = rows(tmp_path / "G" / "b.jsonl", "1", "2")
    run(index, old.parent)
    write(old, wrong)
    report = run(index, rows(tmp_path / "G" / "a.jsonl", "2").parent)
    assert report.rejected == {"G/b.jsonl": 1, "G/a.jsonl": 1}
    assert texts(index) == {"1": "b.jsonl 1", "2": "b.jsonl 2"}


def test_rows_with_the_name_of_their_file_are_not_looked_up(
    tmp_path: Path, index: BM25Index, store: MemoryStore
) -> None:
    write(tmp_path / "docs" / "a.txt", "word " * 20)
    write(tmp_path / "docs" / "b.csv", "text\nfig\n")
    rows(tmp_path / "docs" / "c.jsonl", *map(str, range(1_500)))
    run(index, tmp_path / "docs")
    store.calls.clear()
    run(index, write(tmp_path / "docs" / "a.txt", "word " * 30), tmp_path / "docs" / "b.csv")
    assert store.calls.count("get_chunks") == 1  # of the one batch that is written
    store.calls.clear()
    run(index, tmp_path / "docs" / "c.jsonl")
    assert store.calls.count("get_chunks") == 4  # two batches


def test_reasons_stay_with_their_files(tmp_path: Path, index: BM25Index) -> None:
    """Rows are refused after those that cannot be read."""
    run(index, rows(tmp_path / "old.jsonl", "1"))
    files = [rows(tmp_path / name, "1") for name in ("a.jsonl", "b.jsonl")]
    for file in files:
        file.write_text(file.read_text() + "bad\n")
    report = run(index, *files)
    assert report.rejected == {"a.jsonl": 2, "b.jsonl": 2}
    assert [reason.split(":")[0] for reason in report.reasons] == [
        f"{file} line {line}" for file in files for line in (2, 1)
    ]
