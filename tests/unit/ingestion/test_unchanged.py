"""A file is not read again as long as neither it nor its chunks have changed, and always when one has."""

from __future__ import annotations

import os
import platform
import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from support.faulty_store import FaultyStore, Moment
from support.files import CONFIG, run, write, write_rows
from support.memory_store import MemoryStore

from rag_bm25 import BM25Index, StoreError
from rag_bm25._version import __version__
from rag_bm25.events import Progress
from rag_bm25.index.maintenance.copying import copy_index
from rag_bm25.ingestion import ReadOptions, checking, find_files, ingest, ingesting, reindex, shapes, unchanged
from rag_bm25.ingestion.source_digests import FOLD_ABOVE, read_digests
from rag_bm25.statistics.log.keys import keys_of

GB = ReadOptions(encoding="gb18030")


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    write(tmp_path / "docs" / "a.txt", "word " * 20)
    write(tmp_path / "docs" / "b.txt", "other")
    write(tmp_path / "docs" / "empty.txt", "")
    return tmp_path / "docs"


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files that were read, cleared by the test."""
    names: list[str] = []
    plain = checking.read_file

    def note(file: checking.SourceFile, *args: object, **options: object) -> object:
        names.append(file.path.name)
        return plain(file, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(checking, "read_file", note)
    return names


def texts(index: BM25Index, namespace: str = "") -> dict[str, str]:
    return {chunk.id: chunk.text for chunk in index.chunks(namespace=namespace)}


def read_by(read: list[str], action: Callable[[], object]) -> list[str]:
    read.clear()
    action()
    return read


# Not read


def test_an_unchanged_folder_is_not_read_nor_are_its_chunks(docs: Path, store: MemoryStore, read: list[str]) -> None:
    with BM25Index.from_store(store, config=CONFIG) as index:
        first = run(index, docs)
        assert "scan_chunks" not in store.calls  # of chunks that it has just written
    with BM25Index.from_store(store := store.reopen(), config=CONFIG) as index:
        store.calls.clear()
        again = run(index, docs, prune=True)
    assert read == ["a.txt", "b.txt", "empty.txt"]
    assert again == replace(first, added=0, unchanged=first.added)
    assert first.notes == ["without text: docs/empty.txt"]
    assert not {"get_chunks", "scan_chunks", "insert_log", "delete_log"} & set(store.calls)


def test_a_changed_file_is_read_alone_and_its_former_chunks_deleted(
    docs: Path, index: BM25Index, read: list[str]
) -> None:
    run(index, docs)
    write(docs / "a.txt", "short")
    (docs / "b.txt").unlink()
    read.clear()
    report = run(index, docs, prune=True)
    assert read == ["a.txt"]
    assert (report.updated, report.deleted, report.stale) == (1, 3, 1)
    assert texts(index) == {"docs/a.txt#0": "short"}
    assert read_by(read, lambda: run(index, docs)) == []


def test_a_file_that_was_there_before_is_read_again(docs: Path, index: BM25Index, read: list[str]) -> None:
    run(index, docs)
    (docs / "b.txt").rename(docs.parent / "b.txt")
    run(index, docs, prune=True)
    assert "docs/b.txt" not in read_digests(index._store, "").by_source
    (docs.parent / "b.txt").rename(docs / "b.txt")
    assert read_by(read, lambda: run(index, docs)) == ["b.txt"]
    assert texts(index)["docs/b.txt#0"] == "other"


@pytest.mark.parametrize("prune", [True, False])
def test_a_file_that_comes_back_is_not_read_again_if_its_chunks_were_kept(
    prune: bool, docs: Path, index: BM25Index, read: list[str]
) -> None:
    (docs / "empty.txt").unlink()
    run(index, docs)
    docs.rename(docs.parent / "away")
    docs.mkdir()
    run(index, docs, prune=prune)  # as of a mount that is missing
    docs.rmdir()
    docs.parent.joinpath("away").rename(docs)
    ingest(index, find_files([docs], exclude=["b.txt"]), prune=prune)
    assert read_by(read, lambda: run(index, docs, prune=prune)) == []


def test_a_file_that_is_gone_is_forgotten_once_its_chunks_are(docs: Path, index: BM25Index) -> None:
    run(index, docs)
    (docs / "b.txt").unlink()
    run(index, docs)
    index.delete(["docs/b.txt#0"])
    run(index, docs)
    assert read_digests(index._store, "").by_source.keys() == {"docs/a.txt", "docs/empty.txt"}


def test_a_new_file_is_digested_just_before_it_is_read(
    docs: Path, index: BM25Index, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = unchanged.open_regular

    def note(path: Path, real: Path) -> object:
        read.append(f"digest of {path.name}")
        return plain(path, real)

    monkeypatch.setattr(unchanged, "open_regular", note)
    run(index, docs)
    assert read == [name for file in ("a.txt", "b.txt", "empty.txt") for name in (f"digest of {file}", file)]


def test_progress_ends_with_all_bytes_and_chunks(docs: Path, index: BM25Index) -> None:
    run(index, docs)
    write(docs / "b.txt", "changed")
    seen: dict[str, tuple[int, int | None]] = {}
    found = find_files([docs])
    report = ingest(index, found, progress=lambda at: seen.update({at.what: (at.done, at.total)}))
    assert seen == {"bytes": (found.size, found.size), "chunks": (report.chunks, None)}
    assert report.chunks == len(texts(index))


@pytest.mark.parametrize("change", ["nothing", "write", "file", "new file", "delete"])
def test_rows_with_ids_of_their_own_are_read_again_if_anything_has_changed(
    change: str, docs: Path, index: BM25Index, read: list[str]
) -> None:
    write_rows(docs / "rows.jsonl", {"id": "r", "text": "x"}, {"id": "s", "text": "y"})
    write(docs / "table.csv", "text\nx\n")  # whose rows have none
    first = run(index, docs)
    changes: dict[str, Callable[[], object]] = {
        "nothing": list,
        "write": lambda: index.add(["own"], ids=["own"]),
        "file": lambda: write(docs / "b.txt", "changed"),
        "new file": lambda: write(docs / "c.txt", "new"),
        "delete": lambda: index.delete(["s"]),
    }
    changes[change]()
    read.clear()
    again = run(index, docs)
    assert ("rows.jsonl" in read) == (change != "nothing")
    assert (again.files, again.rejected, again.notes) == (first.files + (change == "new file"), {}, first.notes)
    assert texts(index)["s"] == "y"
    assert read_by(read, lambda: run(index, docs)) == []


def test_rows_that_were_read_ahead_and_not_written_are_read_again(
    docs: Path, index: BM25Index, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Digests that are stored in the middle of a run tell nothing of what is not written yet."""
    monkeypatch.setattr(unchanged, "REMEMBER_SECONDS", 0.0)
    rows = write_rows(docs / "rows.jsonl", *({"id": f"r{number}", "text": f"x {number}"} for number in range(1_500)))

    def stop(progress: Progress) -> None:
        if progress.what == "chunks":
            raise StoreError("cut short")

    with pytest.raises(StoreError, match="cut short"):
        ingest(index, find_files([rows]), progress=stop, workers=2)
    assert read_by(read, lambda: run(index, rows)) == ["rows.jsonl"]
    assert len(texts(index)) == 1_500


def test_a_row_that_is_gone_beside_unchanged_files_is_deleted(docs: Path, index: BM25Index) -> None:
    rows = write_rows(docs / "rows.jsonl", {"id": "r", "text": "x"}, {"id": "s", "text": "y"})
    for _ in range(2):
        run(index, docs)
    write_rows(rows, {"id": "r", "text": "x"})
    assert run(index, docs).deleted == 1
    assert "s" not in texts(index)


def test_a_row_does_not_take_the_id_of_an_unchanged_file(docs: Path, index: BM25Index) -> None:
    run(index, docs)
    write_rows(docs / "rows.jsonl", {"id": "docs/b.txt#0", "text": "x"})
    assert run(index, docs).rejected == {"docs/rows.jsonl": 1}
    assert texts(index)["docs/b.txt#0"] == "other"


def test_digests_are_of_a_namespace_and_outlive_many_runs(docs: Path, index: BM25Index, read: list[str]) -> None:
    for number in range(FOLD_ABOVE + 3):
        write(docs / "b.txt", str(number))
        ingest(index, find_files([docs]), namespace="n")
    assert len(keys_of(index._store.log_keys(), "source")) <= FOLD_ABOVE
    assert read_by(read, lambda: ingest(index, find_files([docs]), namespace="n")) == []
    assert read_by(read, lambda: run(index, docs)) == ["a.txt", "b.txt", "empty.txt"]


def test_a_run_that_is_cut_short_is_continued(
    docs: Path, index: BM25Index, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unchanged, "REMEMBER_SECONDS", 0.0)
    for name in ("c.txt", "d.txt"):
        write(docs / name, f"some words of {name}\n\n" * 800)

    def stop(progress: Progress) -> None:
        if progress.what == "chunks":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ingest(index, find_files([docs]), progress=stop)
    assert 0 < len(texts(index)) < 1_600
    assert read_by(read, lambda: run(index, docs)) == ["d.txt"]
    fresh = BM25Index.from_store(MemoryStore(), config=CONFIG)
    run(fresh, docs)
    assert texts(index) == texts(fresh)


# Read again


CHANGES: dict[str, Callable[[BM25Index], object]] = {
    "deleted": lambda index: index.delete(["docs/a.txt#1"]),
    "deleted by a filter": lambda index: index.delete(filter={"source": "docs/a.txt"}),
    "replaced": lambda index: index.add(["x"], ids=["docs/a.txt#0"]),
    "added": lambda index: index.add(["x"], ids=["docs/a.txt#9"], metadatas=[{"source": "docs/a.txt", "chunk": 9}]),
    "with other metadata": lambda index: index.add([texts(index)["docs/a.txt#0"]], ids=["docs/a.txt#0"]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_whose_chunks_have_changed_is_read_again(
    change: str, docs: Path, store: MemoryStore, read: list[str]
) -> None:
    index, other = (BM25Index.from_store(each, config=CONFIG) for each in (store, store.reopen()))
    run(index, docs)
    before = {chunk.id: (chunk.text, chunk.metadata) for chunk in index.chunks()}
    CHANGES[change](other)
    assert read_by(read, lambda: run(index, docs)) == ["a.txt"]
    assert {chunk.id: (chunk.text, chunk.metadata) for chunk in index.chunks()} == before
    assert index.verify().ok


class OtherStore(MemoryStore):
    name = "other"


@pytest.mark.parametrize("way", ["copied", "encoded"])
def test_another_index_has_no_digests(way: str, docs: Path, index: BM25Index, read: list[str]) -> None:
    run(index, docs)
    store = OtherStore()
    if way == "copied":
        copy_index(index._store, store)
    other = BM25Index.from_store(store, config=CONFIG)
    reindex(index, other)
    assert read_by(read, lambda: run(other, docs)) == ["a.txt", "b.txt", "empty.txt"]
    assert texts(other) == texts(index)


@pytest.mark.parametrize("lose", [lambda index: index.drop_namespace(""), lambda index: index.repair()])
def test_nothing_is_remembered_after(
    lose: Callable[[BM25Index], object], docs: Path, index: BM25Index, read: list[str]
) -> None:
    run(index, docs)
    before = texts(index)
    lose(index)
    assert keys_of(index._store.log_keys(), "source") == []
    assert read_by(read, lambda: run(index, docs)) == ["a.txt", "b.txt", "empty.txt"]
    assert texts(index) == before


def test_other_options_and_readers_read_all_again(
    docs: Path, index: BM25Index, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    everything = ["a.txt", "b.txt", "empty.txt"]
    run(index, docs)
    options = ReadOptions(encoding="gb18030")
    assert read_by(read, lambda: ingest(index, find_files([docs]), options=options)) == everything
    assert read_by(read, lambda: ingest(index, find_files([docs]), options=options)) == []
    assert read_by(read, lambda: ingest(index, find_files([docs]), options=replace(options, timeout=9.0))) == []
    assert read_by(read, lambda: ingest(index, find_files([docs]), options=replace(options, hidden=True))) == everything
    assert read_by(read, lambda: ingest(index, find_files([docs]), split_size=20)) == everything
    assert read_by(read, lambda: ingest(index, find_files([docs]), split_size=20, chunk_overlap=1)) == everything
    run(index, docs)
    monkeypatch.setattr(shapes, "__version__", "later")
    assert read_by(read, lambda: run(index, docs)) == everything


@pytest.mark.parametrize(
    ("upgrade", "reason"),
    [
        (lambda patch: patch.setattr(shapes, "__version__", "9.0"), f"rag-bm25 9.0 (was {__version__})"),
        (lambda patch: patch.setattr(platform, "python_version", lambda: "9"), "python 9 (was "),
        (lambda patch: patch.setattr(ingesting, "ingest", partial(ingest, split_size=20)), "split_size 20 (was 40)"),
        (lambda patch: patch.setattr(ingesting, "ingest", partial(ingest, options=GB)), ": encoding. Chunks"),
    ],
)
def test_a_run_tells_what_it_cuts_anew_and_why_before_it_writes(
    upgrade: Callable[[pytest.MonkeyPatch], None],
    reason: str,
    docs: Path,
    store: MemoryStore,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    told: list[tuple[dict[str, int], list[str]]] = []
    index = BM25Index.from_store(
        store,
        config=CONFIG,
        on_event=lambda event: told.append((dict(event.counts), store.calls[:])) if event.name == "recut" else None,
    )
    run(index, docs)
    write(docs / "b.txt", "changed, and read anyway")
    store.calls.clear()
    upgrade(monkeypatch)
    ingesting.ingest(index, find_files([docs]))
    [(counts, calls)] = told
    assert counts == {"files": 2, "chunks": 3}
    assert not {"insert_chunks", "insert_log", "delete_chunks"} & {*calls}
    assert "insert_log" in store.calls
    [message] = [record.getMessage() for record in caplog.records if vars(record).get("event") == "recut"]
    assert message.startswith("up to 3 chunks of files that have not changed (2) are cut anew: ")
    assert reason in message
    ingesting.ingest(index, find_files([docs]))
    assert len(told) == 1


def test_a_reader_of_ones_own_reads_all_each_time(docs: Path, index: BM25Index, read: list[str]) -> None:
    for text in ("first", "second"):
        options = ReadOptions(read=lambda _path, text=text: text)  # type: ignore[misc]
        assert read_by(read, lambda: ingest(index, find_files([docs]), options=options)) == [  # noqa: B023
            "a.txt",
            "b.txt",
            "empty.txt",
        ]
        assert set(texts(index).values()) == {text}
    assert read_by(read, lambda: run(index, docs)) == ["a.txt", "b.txt", "empty.txt"]


def test_damaged_digests_count_for_nothing(docs: Path, index: BM25Index, store: MemoryStore, read: list[str]) -> None:
    run(index, docs)
    for key in keys_of(store.log_keys(), "source"):
        store.collections.log[key] = replace(store.collections.log[key], packed="?")
    assert read_by(read, lambda: run(index, docs)) == ["a.txt", "b.txt", "empty.txt"]
    assert read_by(read, lambda: run(index, docs)) == []


def test_a_file_that_changes_while_it_is_read_is_read_again(
    docs: Path, index: BM25Index, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = checking.read_file

    def change(file: checking.SourceFile, *args: object, **options: object) -> object:
        old = file.path.read_bytes()
        write(file.path, "between")
        pieces = list(plain(file, *args, **options))  # type: ignore[arg-type]
        write(file.path, old)  # as a switch of branches and back
        os.utime(file.path, ns=(0, 0))
        return pieces

    with monkeypatch.context() as patch:
        patch.setattr(checking, "read_file", change)
        run(index, docs / "b.txt")
    assert texts(index) == {"b.txt#0": "between"}
    assert read_by(read, lambda: run(index, docs / "b.txt")) == ["b.txt"]
    assert texts(index) == {"b.txt#0": "other"}


def test_a_file_that_fails_or_lost_rows_is_read_each_time(docs: Path, index: BM25Index, read: list[str]) -> None:
    write(docs / "bad.txt", b"\x00\xff\x00\xfe\xff\xff\x81")
    write(docs / "table.csv", "text,more\nx,y\nz\n")
    options = ReadOptions(encoding="utf-8")
    for _ in range(2):
        read.clear()
        report = ingest(index, find_files([docs]), options=options)
        assert (list(report.failed), report.rejected) == (["docs/bad.txt"], {"docs/table.csv": 1})
    assert read == ["bad.txt", "table.csv"]


@pytest.mark.parametrize("exclusive", [True, False])
def test_a_chunk_that_another_process_deletes_meanwhile_is_missed_by_the_next_run(
    exclusive: bool, docs: Path, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore(exclusive=exclusive)
    index, other = (BM25Index.from_store(each, config=CONFIG) for each in (store, store.reopen()))
    run(index, docs)
    write(docs / "b.txt", "changed")
    plain = checking.read_file

    def delete(*args: object, **options: object) -> object:
        other.delete(["docs/a.txt#0"])
        return plain(*args, **options)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(checking, "read_file", delete)
        run(index, docs)
    assert read_by(read, lambda: run(index, docs)) == ["a.txt"]
    assert read_by(read, lambda: run(index, docs)) == []
    assert index.verify().ok


def test_a_write_that_nobody_has_finished_is_seen(docs: Path, read: list[str]) -> None:
    store = MemoryStore(exclusive=False)
    index, dying = BM25Index.from_store(store, config=CONFIG), store.reopen()
    run(index, docs)
    logged: list[str] = []

    def die(method: str) -> None:
        logged.extend([method] * (method == "insert_log"))
        if len(logged) == 2:  # its intent is stored, and its chunk deleted, but not counted
            raise StoreError("killed")

    other = BM25Index.from_store(dying, config=CONFIG)
    dying.on_call = die
    with pytest.raises(StoreError, match="killed"):
        other.delete(["docs/a.txt#0"])
    assert read_by(read, lambda: run(index, docs)) == ["a.txt"]
    assert "docs/a.txt#0" in texts(index)


def test_files_that_were_ingested_by_themselves_say_nothing_about_their_folder(docs: Path, index: BM25Index) -> None:
    write(docs / "gone.txt")
    run(index, docs)
    (docs / "gone.txt").unlink()
    for _ in range(2):
        run(index, *sorted(docs.iterdir()))
    assert run(index, docs).stale == 1


# Whatever happens


def change_something(rng: random.Random, docs: Path, index: BM25Index) -> None:
    """Change a file, or chunks."""
    name = rng.choice("abc")
    some = rng.sample(sorted(texts(index)), min(2, len(texts(index))))
    change: Callable[[], object] = rng.choice(
        [
            lambda: None,
            lambda: write(docs / f"{name}.txt", rng.choice(["one", "two " * 20, ""])),
            lambda: (docs / f"{name}.txt").unlink(missing_ok=True),
            lambda: index.delete(some),
            lambda: index.add(["mine"] * len(some), ids=some),
            lambda: index.add(["mine"], ids=["elsewhere"]),
            index.repair,
        ]
    )
    change()


@pytest.mark.parametrize("moment", ["before", "halfway", "after"])
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_run_leaves_the_chunks_of_the_files_whatever_happened_before_it(
    seed: int, moment: Moment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unchanged, "REMEMBER_SECONDS", 0.0)
    rng, docs, store = random.Random(seed), tmp_path / "docs", FaultyStore()
    docs.mkdir()
    for _ in range(40):
        index = BM25Index.from_store(store.reopen(), config=CONFIG)
        change_something(rng, docs, index)
        store = FaultyStore(collections=store.collections)
        write(docs / "kept.txt", "kept")
        failing = BM25Index.from_store(store, config=CONFIG)
        store.fail_at(rng.randrange(25), moment)
        try:
            run(failing, docs, prune=True)
        except StoreError:  # as if it had been killed
            store = FaultyStore(collections=store.collections)
            run(BM25Index.from_store(store, config=CONFIG), docs, prune=True)
        fresh = BM25Index.from_store(MemoryStore(), config=CONFIG)
        run(fresh, docs)
        found = texts(BM25Index.from_store(store.reopen(), config=CONFIG))
        assert {id_: text for id_, text in found.items() if id_ != "elsewhere"} == texts(fresh)
