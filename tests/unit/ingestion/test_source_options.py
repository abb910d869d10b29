"""A folder is ingested with the options that it was ingested with before, unless others are given."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.faulty_store import FaultyStore, Moment
from support.files import CONFIG, ids, run, write, write_rows
from support.memory_store import MemoryStore

from rag_bm25 import BM25Index, InputError, ParameterError, StoreError
from rag_bm25.index.maintenance.copying import copy_index
from rag_bm25.ingestion import ReadOptions, RowFields, find_files, ingest, read_source_roots, reindex
from rag_bm25.ingestion.ingesting import IngestReport
from rag_bm25.ingestion.source_roots import set_source_roots

WORDS = "walnut hazelnut. almond, cashew pecan\n" * 3
PATTERNS = ("include", "also", "exclude", "gitignore")
READING = ReadOptions(fields=RowFields(text="body"), id_prefix="{source}#")
CHOICES: dict[str, list[Any]] = {
    "include": [[], ["*.txt"], ["/a/*", "rows.jsonl"]],
    "also": [[], ["*.cfg"], ["a/deep/"]],
    "exclude": [[], ["/b.txt"], ["a/"], ["*.jsonl", "deep/"]],
    "gitignore": [True, False],
    "split_size": [20, 30, 40],
    "chunk_overlap": [0, 5, 15],
    "options": [ReadOptions(), READING, replace(READING, encoding="utf-8")],
}


class Another(MemoryStore):
    """A store with another name."""

    name = "another"  # type: ignore[assignment]


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "docs")


def make_folder(folder: Path) -> Path:
    write(folder / ".gitignore", "c.txt\n")
    for name in ("b.txt", "c.txt", "a/n.cfg", "a/x.txt", "a/y.md", "a/deep/z.txt", "a/deep/n.cfg"):
        write(folder / name, f"{name} {WORDS}")
    write_rows(folder / "rows.jsonl", {"id": folder.name, "text": "fig", "body": "date"})
    return folder


def ingest_with(index: BM25Index, *paths: Path, **given: Any) -> IngestReport:
    patterns = {name: given.pop(name) for name in PATTERNS if name in given}
    return ingest(index, find_files(paths, roots=read_source_roots(index), **patterns), **given)


def options(index: BM25Index) -> dict[str, dict[str, Any]]:
    return {root.name: root.options for root in read_source_roots(index)}


def texts(index: BM25Index) -> dict[str, str]:
    return {chunk.id: chunk.text for chunk in index.chunks()}


@pytest.mark.parametrize("seed", range(8))
def test_any_runs_end_as_one_run_with_the_last_value_of_each_option(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    folders = [make_folder(tmp_path / name) for name in ("docs", "laws")]
    last: dict[str, dict[str, Any]] = {folder.name: {} for folder in folders}
    store = MemoryStore()
    for _ in range(6):
        chosen = chance.sample(folders, chance.randint(1, 2))
        given = {name: chance.choice(CHOICES[name]) for name in chance.sample(sorted(CHOICES), chance.randint(0, 3))}
        ingest_with(BM25Index.from_store(store.reopen(), config=CONFIG), *chosen, **given)
        for folder in chosen:
            last[folder.name] |= given
    index = BM25Index.from_store(store.reopen(), config=CONFIG)
    for folder in folders:
        write(folder / "b.txt", f"changed {WORDS}")
        ingest_with(index, folder)
        fresh = BM25Index.from_store(MemoryStore(), config=CONFIG)
        ingest_with(fresh, folder, **last[folder.name])
        found = {chunk.metadata["source"] for chunk in fresh.chunks()}
        kept = {chunk.id: chunk.text for chunk in index.chunks() if chunk.metadata["source"] in found}
        assert kept == texts(fresh)
        notes = ingest_with(index, folder, **last[folder.name]).notes
        assert [note for note in notes if not note.startswith("no longer read")] == []


def test_each_folder_has_its_own_and_later_runs_need_none(docs: Path, index: BM25Index, store: MemoryStore) -> None:
    laws = write(docs.parent / "laws" / "law.txt", WORDS).parent
    ingest_with(index, docs, exclude=["a/", "*.jsonl"], split_size=20)
    ingest_with(index, laws, chunk_overlap=0)
    assert options(index) == {"docs": {"split_size": 20, "exclude": ["a/", "*.jsonl"]}, "laws": {"chunk_overlap": 0}}
    before = texts(index)
    again = BM25Index.from_store(store.reopen(), config=CONFIG)
    report = ingest_with(again, docs, laws)
    assert (report.unchanged, report.notes) == (len(before), [])
    assert texts(again) == before


def test_another_value_is_noted_and_one_that_shapes_chunks_cuts_them_anew(docs: Path, index: BM25Index) -> None:
    assert ingest_with(index, docs, split_size=30).notes == []
    left_out = ingest_with(index, docs, exclude=["a/"]).notes
    assert left_out[0] == "options of docs: --exclude a/, no longer the default"
    report = ingest_with(index, docs, exclude=[], split_size=20, options=ReadOptions(hidden=True))
    change = "--split-size 20 --hidden, no longer --split-size 30 --exclude a/"
    assert report.notes == [f"options of docs: {change}; the files are cut anew"]
    assert report.updated > 0
    assert ingest_with(index, docs, split_size=20).notes == []


def test_a_search_without_the_roots_is_one_without_patterns(docs: Path, index: BM25Index) -> None:
    ingest_with(index, docs, include=["*.txt"], split_size=20)
    assert run(index, docs).notes == ["options of docs: the default, no longer --include '*.txt'"]
    assert options(index) == {"docs": {"split_size": 20}}


def test_a_timeout_and_a_reader_are_not_remembered(docs: Path, index: BM25Index) -> None:
    ingest_with(index, docs, options=ReadOptions(timeout=9.0, read=lambda _path: "own"))
    assert options(index) == {"docs": {}}


def test_those_given_with_a_part_of_a_folder_hold_once(docs: Path, index: BM25Index) -> None:
    ingest_with(index, docs, split_size=30)
    before = texts(index)
    report = ingest_with(index, docs / "a", docs / "b.txt", split_size=20)
    [note] = report.notes
    assert note.startswith("part of docs: docs/a, docs/b.txt. The options given hold for this run alone")
    assert texts(index) != before
    ingest_with(index, docs)
    assert texts(index) == before
    assert ingest_with(index, docs / "a", split_size=30).notes == []


def test_a_part_of_a_folder_has_the_patterns_of_the_folder(docs: Path) -> None:
    store = MemoryStore()
    index = BM25Index.from_store(store, config=CONFIG)
    ingest_with(index, docs, exclude=["/a/deep/", "a/*.md"])
    found = find_files([docs / "a", docs / "b.txt"], roots=read_source_roots(index))
    assert [file.path.name for file in found.files] == ["x.txt", "b.txt"]
    assert len(find_files([docs / "a"], roots=[]).files) == 3


def test_lengths_are_those_of_the_folders_within_too_but_patterns_are_not(docs: Path, index: BM25Index) -> None:
    ingest_with(index, docs / "a", split_size=30)
    ingest_with(index, docs, split_size=20, exclude=["/b.txt"])
    assert options(index) == {"a": {"split_size": 20}, "docs": {"split_size": 20, "exclude": ["/b.txt"]}}
    before = texts(index)
    ingest_with(index, docs)
    assert texts(index) == before


def test_a_folder_that_was_moved_keeps_them(docs: Path, index: BM25Index) -> None:
    ingest_with(index, docs, split_size=20, exclude=["/b.txt"])
    before = texts(index)
    moved = docs.rename(docs.parent / "elsewhere")
    found = find_files([moved], name="docs", roots=read_source_roots(index))
    assert ingest(index, found).unchanged == len(before)
    assert texts(index) == before
    assert options(index) == {"docs": {"split_size": 20, "exclude": ["/b.txt"]}}


def test_another_folder_in_the_place_of_one_without_chunks_has_none(docs: Path, index: BM25Index) -> None:
    ingest_with(index, docs, split_size=20)
    index.delete(ids(index))
    docs.rename(docs.parent / "old")
    ingest_with(index, make_folder(docs.parent / "new" / "docs"))
    assert options(index) == {"docs": {}}


@pytest.mark.parametrize("in_place", [True, False])
def test_another_chunk_size_cuts_no_folder_anew(docs: Path, index: BM25Index, in_place: bool) -> None:
    ingest_with(index, docs)
    config = replace(CONFIG, chunk_size=CONFIG.chunk_size / 2)
    target = index if in_place else BM25Index.from_store(Another(), config=config)
    reindex(index, config if in_place else target)
    report = ingest_with(target, docs)
    assert (report.added, report.updated, report.deleted) == (0, 0, 0)
    assert options(target) == {"docs": {"split_size": CONFIG.chunk_size}}
    assert ingest_with(target, docs, split_size=int(config.chunk_size)).notes
    assert options(target) == {"docs": {}}


def test_repair_copy_and_reindex_keep_them(docs: Path, index: BM25Index, store: MemoryStore) -> None:
    ingest_with(index, docs, split_size=20)
    index.repair()
    target = MemoryStore()
    copy_index(store, target)
    other = BM25Index.from_store(Another(), config=replace(CONFIG, k1=1.2))
    reindex(index, other)
    copy = BM25Index.from_store(target, config=CONFIG)
    assert options(index) == options(copy) == options(other) == {"docs": {"split_size": 20}}
    assert ingest_with(copy, docs).updated == ingest_with(other, docs).updated == 0
    ingest_with(index, docs, split_size=30)
    reindex(index, other)
    assert options(other) == {"docs": {"split_size": 30}}


def test_nothing_is_remembered_of_a_run_that_writes_nothing(docs: Path, index: BM25Index) -> None:
    ingest_with(index, docs, split_size=20)
    write(docs / "rows.jsonl", "bad\n")
    with pytest.raises(InputError, match="nothing was written"):
        ingest_with(index, docs, split_size=30, strict=True)
    with pytest.raises(ParameterError, match="below the chunk size of 20, got 30"):
        ingest_with(index, docs, chunk_overlap=30)
    assert options(index) == {"docs": {"split_size": 20}}


@pytest.mark.parametrize("moment", ["before", "halfway", "after"])
def test_a_run_that_is_cut_short_anywhere_never_leaves_chunks_of_other_options(docs: Path, moment: Moment) -> None:
    for calls in range(1_000):
        store = FaultyStore()
        store.fail_at(calls, moment)
        is_cut = False
        try:
            ingest_with(BM25Index.from_store(store, config=CONFIG), docs, split_size=20, exclude=["a/"])
        except StoreError:
            is_cut = True
        index = BM25Index.from_store(store.reopen(), config=CONFIG)
        if written := texts(index):
            assert options(index) == {"docs": {"split_size": 20, "exclude": ["a/"]}}
            ingest_with(index, docs)
            assert written.items() <= texts(index).items()
        if not is_cut:
            break
    assert calls > 5


def test_of_two_runs_at_once_both_are_remembered(docs: Path) -> None:
    store = MemoryStore(exclusive=False)
    index = BM25Index.from_store(store, config=CONFIG)
    ingest_with(index, docs)
    other = BM25Index.from_store(store.reopen(), config=CONFIG)

    def meanwhile(method: str) -> None:
        if method == "insert_log":
            store.on_call = None
            [root] = read_source_roots(other)
            set_source_roots(other, [replace(root, options={"exclude": ["a/"]})])

    store.on_call = meanwhile  # after the roots were read, and before they are replaced
    ingest_with(index, docs, split_size=20)
    assert options(index) == {"docs": {"split_size": 20, "exclude": ["a/"]}}


def test_options_that_others_always_replace_are_an_error(
    docs: Path, index: BM25Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(index, docs)
    monkeypatch.setattr("rag_bm25.ingestion.source_options.set_source_roots", lambda *_, **__: [])
    with pytest.raises(StoreError, match="other processes stored others 10 times meanwhile"):
        ingest_with(index, docs, split_size=20)
