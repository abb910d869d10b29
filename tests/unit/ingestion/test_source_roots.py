"""One name for each file, whatever path leads to it, and no name for two."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from support.faulty_store import FaultyStore, Moment
from support.files import CONFIG, run, write
from support.memory_store import MemoryStore

from rag_bm25 import BM25Index, FormatError, InputError, ParameterError, StoreError
from rag_bm25.ingestion.files import find_files
from rag_bm25.ingestion.ingesting import ingest
from rag_bm25.ingestion.reindexing import reindex
from rag_bm25.ingestion.source_roots import read_source_roots, set_source_roots
from rag_bm25.statistics.log import source_roots as module
from rag_bm25.statistics.log.source_roots import SourceRoot


def texts(index: BM25Index) -> dict[str, str]:
    return {chunk.id: chunk.text for chunk in sorted(index.chunks(), key=lambda chunk: chunk.id)}


def roots(index: BM25Index, namespace: str = "") -> dict[str, str]:
    return {root.name: root.path for root in read_source_roots(index, namespace=namespace)}


@pytest.fixture
def small(tmp_path: Path) -> Path:
    write(tmp_path / "small" / "a.txt", "first")
    write(tmp_path / "small" / "sub" / "x.txt", "second")
    return tmp_path / "small"


# One name for each file


def test_a_folder_a_subfolder_and_a_file_of_it_store_each_chunk_once(small: Path, index: BM25Index) -> None:
    stored = {"small/a.txt#0": "first", "small/sub/x.txt#0": "second"}
    for path in (small, small / "sub", small / "sub" / "x.txt"):
        run(index, path)
        assert texts(index) == stored
    write(small / "sub" / "x.txt", "third")
    assert run(index, small / "sub" / "x.txt").updated == 1
    assert texts(index) == {**stored, "small/sub/x.txt#0": "third"}


def test_the_order_makes_no_difference_to_how_often_a_chunk_is_stored(small: Path, index: BM25Index) -> None:
    for path in (small / "sub" / "x.txt", small / "sub", small, small / "a.txt"):
        run(index, path)
    assert texts(index) == {"small/a.txt#0": "first", "x.txt#0": "second"}
    assert sorted(roots(index)) == ["small", "sub", "x.txt"] or sorted(roots(index)) == ["small", "x.txt"]


def test_another_way_to_the_same_folder_is_the_same_folder(
    small: Path, index: BM25Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(index, small)
    (small.parent / "link").symlink_to(small)
    monkeypatch.chdir(small / "sub")
    for path in (small.parent / "link", small.parent / "link" / "sub" / "x.txt", small / "sub" / "..", type(small)()):
        assert run(index, path).added == 0
    assert list(roots(index)) == ["small"]


def test_a_link_to_changing_folders_keeps_its_name(tmp_path: Path, index: BM25Index) -> None:
    for number in (1, 2):
        write(tmp_path / str(number) / "a.txt", f"release {number}")
        (tmp_path / "current").unlink(missing_ok=True)
        (tmp_path / "current").symlink_to(tmp_path / str(number))
        run(index, tmp_path / "current")
    assert texts(index) == {"current/a.txt#0": "release 2"}


def test_namespaces_have_roots_of_their_own(small: Path, index: BM25Index, tmp_path: Path) -> None:
    other = write(tmp_path / "other" / "small" / "a.txt").parent
    run(index, small)
    ingest(index, find_files([other]), namespace="n")
    assert [roots(index, name) for name in ("", "n")] == [{"small": str(small)}, {"small": str(other)}]
    index.drop_namespace("n")
    assert [roots(index, name) for name in ("", "n")] == [{"small": str(small)}, {}]


def test_a_folder_without_files_takes_no_name(tmp_path: Path, index: BM25Index, store: MemoryStore) -> None:
    (tmp_path / "empty" / "docs").mkdir(parents=True)
    store.calls.clear()
    run(index, tmp_path / "empty" / "docs", prune=True)
    assert "insert_log" not in store.calls
    run(index, write(tmp_path / "docs" / "a.txt").parent)
    assert list(texts(index)) == ["docs/a.txt#0"]


# Folders of one name


@pytest.fixture
def twins(tmp_path: Path) -> list[Path]:
    """Two folders of one name, with a file of one name in each."""
    return [write(tmp_path / parent / "docs" / "a.txt", f"text of {parent}").parent for parent in "xy"]


TWINS = {"docs/a.txt#0": "text of x", "y/docs/a.txt#0": "text of y"}


@pytest.mark.parametrize("together", [False, True])
def test_folders_of_one_name_are_both_kept(twins: list[Path], index: BM25Index, together: bool) -> None:
    notes = [
        note for paths in ([twins] if together else [[path] for path in twins]) for note in run(index, *paths).notes
    ]
    assert notes == [f"{twins[1]} is named 'y/docs', since 'docs' is {twins[0]}"]
    assert texts(index) == TWINS
    for paths in (twins, twins[::-1], twins[:1], twins[1:]):
        report = run(index, *paths, prune=True)
        assert (report.added, report.updated, report.stale, report.notes) == (0, 0, 0, [])
    assert texts(index) == TWINS


def test_prune_stays_within_the_folder_that_is_given(twins: list[Path], index: BM25Index) -> None:
    run(index, *twins)
    for folder in twins:
        write(folder / "b.txt", "more")
    run(index, *twins)
    for folder in twins:
        (folder / "a.txt").unlink()
    report = run(index, twins[1], prune=True)
    assert (report.stale, report.deleted) == (1, 1)
    assert list(texts(index)) == ["docs/a.txt#0", "docs/b.txt#0", "y/docs/b.txt#0"]


def test_names_of_files_by_themselves_are_told_apart(tmp_path: Path, index: BM25Index) -> None:
    files = [write(tmp_path / parent / "a.txt", parent) for parent in "xyz"]
    for file in files:
        run(index, file, prune=True)
    assert texts(index) == {"a.txt#0": "x", "y/a.txt#0": "y", "z/a.txt#0": "z"}
    write(files[1], "")
    run(index, files[1])
    assert list(texts(index)) == ["a.txt#0", "z/a.txt#0"]


def test_no_name_begins_with_another(tmp_path: Path, index: BM25Index) -> None:
    run(index, *(write(tmp_path / parent / "docs" / "a.txt", parent).parent for parent in "xy"))
    third = write(tmp_path / "z" / "y" / "docs" / "a.txt", "z")
    run(index, third.parents[1])  # "y" would make "y/docs/a.txt" again
    assert texts(index) == {"docs/a.txt#0": "x", "y/docs/a.txt#0": "y", "z/y/docs/a.txt#0": "z"}
    with pytest.raises(InputError, match=r"the name 'docs/b' overlaps with 'docs', the name of .*x/docs\."):
        run(index, write(tmp_path / "b" / "a.txt").parent, name="docs/b")


def test_similar_names_are_not_taken_for_each_other(tmp_path: Path, index: BM25Index) -> None:
    folders = [write(tmp_path / name / "a.txt", name).parent for name in ("docs", "docs2", "do_s")]
    run(index, *folders)
    for folder in folders:
        write(folder / "b.txt")
        (folder / "a.txt").unlink()
    run(index, folders[0], prune=True)
    assert list(texts(index)) == ["do_s/a.txt#0", "docs/b.txt#0", "docs2/a.txt#0"]


def test_prune_reaches_roots_within_the_folder(small: Path, index: BM25Index) -> None:
    write(small / "other" / "y.txt")
    run(index, small / "sub")
    run(index, small / "other" / "y.txt")
    run(index, small)
    assert list(texts(index)) == ["small/a.txt#0", "sub/x.txt#0", "y.txt#0"]
    shutil.rmtree(small / "sub")
    (small / "other" / "y.txt").unlink()
    assert run(index, small).stale == 2
    assert run(index, small, prune=True).deleted == 2
    assert list(texts(index)) == ["small/a.txt#0"]


@pytest.mark.parametrize("is_named_by_the_folder", [False, True])
@pytest.mark.parametrize("place", ["link", ".hidden", "link.txt", ".hidden.txt"])
def test_prune_leaves_files_that_are_there_and_not_looked_for(
    place: str, is_named_by_the_folder: bool, small: Path, tmp_path: Path, index: BM25Index
) -> None:
    """Links and hidden files are taken only where they are given by themselves."""
    file = write(tmp_path / "elsewhere" / "x.txt")
    given = small / place
    if place.startswith("link"):
        given.symlink_to(file if given.suffix else file.parent)
    else:
        file = write(given if given.suffix else given / "x.txt")
    if is_named_by_the_folder:
        run(index, small)
    run(index, given)
    (before,) = (chunk.metadata["source"] for chunk in index.chunks() if place in chunk.id)
    report = run(index, small, prune=True)
    assert (report.stale, report.deleted) == (0, 0)
    assert f"{before}#0" in texts(index)
    file.unlink()
    assert run(index, small, prune=True).deleted == 1


# Folders that have moved


def test_a_folder_that_is_gone_is_asked_for(twins: list[Path], index: BM25Index) -> None:
    run(index, twins[0])
    before = texts(index)
    shutil.rmtree(twins[0])
    with pytest.raises(
        InputError,
        match=r"would be named 'docs', but that is the name of .*x/docs, which no longer exists here. .*--name docs",
    ):
        run(index, twins[1], prune=True)
    assert texts(index) == before


def test_the_same_folder_moved_keeps_its_name(twins: list[Path], index: BM25Index) -> None:
    run(index, twins[0])
    shutil.rmtree(twins[0])
    report = run(index, twins[1], name="docs", prune=True)
    assert (report.updated, roots(index)) == (1, {"docs": str(twins[1])})
    assert run(index, twins[1]).unchanged == 1
    assert texts(index) == {"docs/a.txt#0": "text of y"}


def test_another_folder_gets_another_name(twins: list[Path], index: BM25Index) -> None:
    run(index, twins[0])
    shutil.rmtree(twins[0])
    run(index, twins[1], name="new/docs/")
    assert texts(index) == {"docs/a.txt#0": "text of x", "new/docs/a.txt#0": "text of y"}


def test_a_name_of_which_nothing_is_left_is_free(twins: list[Path], index: BM25Index) -> None:
    run(index, twins[0])
    index.delete(["docs/a.txt#0"])
    shutil.rmtree(twins[0])
    run(index, twins[1])
    assert (roots(index), texts(index)) == ({"docs": str(twins[1])}, {"docs/a.txt#0": "text of y"})


def test_the_name_of_a_folder_that_is_there_cannot_be_taken(twins: list[Path], index: BM25Index) -> None:
    run(index, twins[0])
    with pytest.raises(
        InputError, match=r"the name 'docs' is in use by .*x/docs, which still exists\. Choose another name"
    ):
        run(index, twins[1], name="docs")
    with pytest.raises(InputError, match=r"is already named 'docs' in this index\. Omit the name"):
        run(index, twins[0], name="other")


@pytest.mark.parametrize("name", ["docs", "team/notes"])
def test_a_folder_that_was_ingested_under_a_new_name_gets_another_one_once_its_chunks_are_deleted(
    name: str, tmp_path: Path, index: BM25Index
) -> None:
    """The new name is given up, also where it comes first, and also for later runs."""
    write(tmp_path / "docs" / "a.txt", "text")
    run(index, tmp_path / "docs")
    moved = (tmp_path / "docs").rename(tmp_path / "archive")
    assert "To go on with this name, delete the chunks of the new one, and ingest with --name docs" in str(
        run(index, moved).notes
    )
    with pytest.raises(InputError, match=r"already named 'archive' .* delete its chunks, those of --source archive/$"):
        run(index, moved, name=name)
    index.delete(["archive/a.txt#0"])
    for given in ({"name": name}, {}):
        run(index, moved, **given)
        assert sorted(texts(index)) == sorted({"docs/a.txt#0", f"{name}/a.txt#0"})
    run(index, write(tmp_path / "other" / "archive" / "b.txt").parent)
    assert "archive/b.txt#0" in texts(index)


def test_a_file_that_was_ingested_under_a_new_name_gets_its_old_one(tmp_path: Path, index: BM25Index) -> None:
    run(index, write(tmp_path / "old.txt", "text"))
    moved = (tmp_path / "old.txt").rename(tmp_path / "new.txt")
    run(index, moved)
    with pytest.raises(InputError, match=r"delete its chunks, those of --source new\.txt$"):
        run(index, moved, name="old.txt")
    index.delete(["new.txt#0"])
    run(index, moved, name="old.txt")
    assert (list(texts(index)), run(index, moved).unchanged) == (["old.txt#0"], 1)


def test_a_folder_that_gets_its_old_name_is_read_with_the_options_of_that(tmp_path: Path, index: BM25Index) -> None:
    for name in ("a.txt", "b.txt"):
        write(tmp_path / "docs" / name)
    ingest(index, find_files([tmp_path / "docs"], exclude=["b.txt"]))
    moved = (tmp_path / "docs").rename(tmp_path / "archive")
    ingest(index, find_files([moved], exclude=["a.txt"], roots=read_source_roots(index)))
    index.delete(["archive/b.txt#0"])
    ingest(index, find_files([moved], name="docs", roots=read_source_roots(index)))
    assert list(texts(index)) == ["docs/a.txt#0"]


# A root that is given


def test_a_root_names_what_is_below_it(small: Path, index: BM25Index) -> None:
    run(index, small / "sub", root=small)
    run(index, small / "a.txt")
    assert (list(texts(index)), roots(index)) == (["small/a.txt#0", "small/sub/x.txt#0"], {"small": str(small)})


def test_a_root_that_is_given_limits_no_prune_to_less_than_the_paths(small: Path, index: BM25Index) -> None:
    run(index, small)
    (small / "a.txt").unlink()
    (small / "sub" / "x.txt").unlink()
    write(small / "sub" / "y.txt")
    run(index, small / "sub", root=small, prune=True)
    assert list(texts(index)) == ["small/a.txt#0", "small/sub/y.txt#0"]


def test_a_root_may_have_a_name(small: Path, index: BM25Index) -> None:
    run(index, small / "sub", small / "a.txt", root=small, name="team/notes")
    assert list(texts(index)) == ["team/notes/a.txt#0", "team/notes/sub/x.txt#0"]


def test_a_root_must_contain_the_paths_and_no_other_may_name_it(small: Path, index: BM25Index) -> None:
    with pytest.raises(InputError, match=r"a\.txt is not within the root .*sub"):
        find_files([small / "a.txt"], root=small / "sub")
    with pytest.raises(InputError, match=r"the root must be a folder, got .*a\.txt"):
        find_files([small / "a.txt"], root=small / "a.txt")
    run(index, small)
    with pytest.raises(InputError, match=r"sub lies in .*small, whose files are named small/"):
        run(index, small / "sub", root=small / "sub")


@pytest.mark.parametrize("name", ["", ".", "a/../b", "/a", "a//b", "a\\b", "a\nb"])
def test_a_name_is_a_relative_path(small: Path, name: str) -> None:
    with pytest.raises(ParameterError, match="name must be a relative path such as 'docs'"):
        find_files([small], name=name)


def test_a_name_is_for_one_path(small: Path) -> None:
    with pytest.raises(
        ParameterError, match="name needs a single path, or a root that contains all paths, got 2 paths"
    ):
        find_files([small, small / "sub"], name="a")


# Indexes from before there were roots


def forget(store: MemoryStore) -> None:
    for key in [key for key in store.collections.log if key.startswith("root:")]:
        del store.collections.log[key]


@pytest.mark.parametrize("path", [".", "sub", "sub/x.txt"])
def test_sources_of_an_older_version_keep_their_names(
    small: Path, index: BM25Index, store: MemoryStore, path: str
) -> None:
    run(index, small)
    forget(store)
    before = texts(index)
    assert run(index, small / path).added == 0
    assert run(index, small).added == 0
    assert (texts(index), roots(index)) == (before, {"small": str(small)})


def test_a_subfolder_that_an_older_version_named_by_itself_keeps_that_name(
    small: Path, index: BM25Index, store: MemoryStore
) -> None:
    run(index, small / "sub")
    forget(store)
    assert run(index, small / "sub").added == 0
    run(index, small)
    assert list(texts(index)) == ["small/a.txt#0", "sub/x.txt#0"]


# What is stored


class Another(MemoryStore):
    name = "another"  # type: ignore[assignment]


def test_the_first_of_two_processes_has_the_name(twins: list[Path]) -> None:
    first = MemoryStore(exclusive=False)
    one = BM25Index.from_store(first, config=CONFIG)
    second = first.reopen()
    other = BM25Index.from_store(second, config=CONFIG)

    def meanwhile(method: str) -> None:
        if method == "insert_log":
            second.on_call = None
            run(one, twins[0])

    second.on_call = meanwhile  # after the other has read the roots, and before it stores its own
    run(other, twins[1])
    assert texts(one) == texts(other) == TWINS


def test_a_name_that_is_taken_again_and_again_is_an_error(
    twins: list[Path], index: BM25Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rag_bm25.ingestion.ingesting.set_source_roots", lambda *_, **__: [])
    with pytest.raises(StoreError, match="other processes named folders 10 times meanwhile"):
        run(index, twins[0])


def test_many_roots_take_few_rows(
    tmp_path: Path, index: BM25Index, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PACKED_CHARACTERS", 300)
    for n in range(30):
        set_source_roots(index, [SourceRoot(f"文{n}", f"/docs/{n}")], namespace="n" if n % 2 else "")
    rows = [row for row in store.collections.log.values() if row.kind == "root"]
    assert len({row.key.split(":")[1] for row in rows}) <= module.FOLD_ABOVE
    assert max(int(row.key.split(":")[3]) for row in rows) > 1
    assert roots(index) == {f"文{n}": f"/docs/{n}" for n in range(0, 30, 2)}
    assert roots(BM25Index.from_store(store.reopen(), config=CONFIG), "n") == {
        f"文{n}": f"/docs/{n}" for n in range(1, 30, 2)
    }


def test_of_two_moves_of_one_root_the_first_counts(index: BM25Index, store: MemoryStore) -> None:
    [root] = set_source_roots(index, [SourceRoot("docs", "/a")])
    assert [moved.path for moved in set_source_roots(index, [replace(root, path="/b")])] == ["/b"]
    stored = set(store.collections.log)
    for late in (replace(root, path="/c"), SourceRoot("docs", "/d")):
        assert [moved.path for moved in set_source_roots(index, [late])] == ["/b"]
    assert set(store.collections.log) == stored


def test_a_claim_that_its_writer_could_not_withdraw_does_not_count(index: BM25Index, store: MemoryStore) -> None:
    set_source_roots(index, [SourceRoot("docs", "/a")])
    later = index._live.log.new_batch()
    store.insert_log(module.RootRow.encode(later, [module._Claim("", "docs", "/b", True, later, "")]))
    assert roots(index) == {"docs": "/a"}


def test_reading_goes_on_while_roots_are_folded(index: BM25Index, store: MemoryStore) -> None:
    [root] = set_source_roots(index, [SourceRoot("docs", "/a")])
    reader = BM25Index.from_store(store.reopen(), config=CONFIG, read_only=True)
    other: MemoryStore = reader._store  # type: ignore[assignment]

    def fold(method: str) -> None:
        if method == "get_log":
            other.on_call = None
            module._replace(store, list(store.collections.log), module._read(store)[1], index._live.log.new_batch)

    other.on_call = fold
    assert read_source_roots(reader) == [root]


@pytest.mark.parametrize("packed", ["", "[]", "{", "[1]", '[["", "a"]]', '[["", "a", 5, true, "1", ""]]'])
def test_damaged_roots_are_told_and_repaired(small: Path, index: BM25Index, store: MemoryStore, packed: str) -> None:
    run(index, small)
    set_source_roots(index, [SourceRoot("sound", "/a")])
    [key] = [key for key, row in store.collections.log.items() if "small" in row.packed and row.kind == "root"]
    store.collections.log[key] = replace(store.collections.log[key], packed=packed)
    with pytest.raises(FormatError, match=f"its log row '{key}' holds no source roots. Run repair"):
        read_source_roots(index)
    store.collections.log["root:nonsense"] = replace(store.collections.log[key], key="root:nonsense")
    index.repair()
    assert roots(index) == {"sound": "/a"}
    assert run(index, small).unchanged == 2


def test_an_index_with_other_parameters_has_the_roots(twins: list[Path], index: BM25Index) -> None:
    for path in twins:
        run(index, path)
    target = BM25Index.from_store(Another(), config=replace(CONFIG, k1=1.2))
    set_source_roots(target, [SourceRoot("docs", "/elsewhere/docs")])
    for _ in range(2):
        reindex(index, target)
        assert roots(target) == roots(index)
    assert run(target, *twins[::-1]).unchanged == 2


# Faults


def first_state(folder: Path) -> Path:
    write(folder / "sub" / "x.txt", "second")
    write(folder / "long.txt", "word " * 30)
    write(folder / "rows.jsonl", '{"id": "r1", "text": "x"}\n{"id": "r2", "text": "y"}\n')
    write(folder / "gone.txt")
    return folder


def second_state(folder: Path) -> None:
    write(folder / "long.txt", "word")
    write(folder / "rows.jsonl", '{"id": "r1", "text": "z"}\n')
    write(folder / "new" / "a.txt", "first")
    (folder / "gone.txt").unlink()


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before", "halfway", "after"])
def test_an_ingestion_that_is_cut_short_anywhere_is_finished_by_the_next(tmp_path: Path, moment: Moment) -> None:
    for calls in range(1_000):
        folder, store = first_state(tmp_path / str(calls) / "docs"), FaultyStore()
        run(BM25Index.from_store(store, config=CONFIG), folder / "sub", write(folder.parent / "new" / "a.txt").parent)
        index = BM25Index.from_store(store.reopen(), config=CONFIG)
        run(index, folder)
        second_state(folder)
        given = (folder / "new", folder, write(folder.parent / "x" / "new" / "a.txt", "third").parent)
        faulty = FaultyStore(collections=store.collections)
        cut = BM25Index.from_store(faulty, config=CONFIG)
        faulty.fail_at(calls, moment)
        is_cut = False
        try:
            run(cut, *given, prune=True)
        except StoreError:
            is_cut = True
        again = BM25Index.from_store(store.reopen(), config=CONFIG)
        run(again, *given, prune=True)
        assert texts(again) == {
            "docs/long.txt#0": "word", "docs/new/a.txt#0": "first", "new/a.txt#0": "some text", "r1": "z",
            "sub/x.txt#0": "second", "x/new/a.txt#0": "third",
        }  # fmt: skip
        assert again.verify().ok
        if not is_cut:
            break
    assert calls > 20
