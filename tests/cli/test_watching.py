"""``rag-bm25 ingest --watch``."""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.clocks import PATIENCE
from support.command_line import Databases, run, run_json

from rag_bm25 import BM25Index
from rag_bm25.cli import ingesting
from rag_bm25.cli.ingesting import stop_by_signals
from rag_bm25.errors import StoreLockedError
from rag_bm25.ingestion import find_files, watching
from rag_bm25.ingestion.opening import open_regular
from rag_bm25.ingestion.watching import RETRY, SETTLING, Pause, Watcher

pytestmark = pytest.mark.usefixtures("databases")
ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "law.txt").write_text("劳动合同", encoding="utf-8")
    (folder / "note.md").write_text("# Note\n\nsparse rows\n")
    return folder


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Do something at each look at the files, one after the other, and then stop; settling takes no look."""

    def script(*actions: Callable[[], object]) -> None:
        waiting = list(actions)

        @contextmanager
        def stop_by_signals() -> Iterator[Pause]:
            def pause(seconds: float) -> bool:
                if seconds == SETTLING:
                    return True
                if not waiting:
                    return False
                waiting.pop(0)()
                return True

            yield pause

        monkeypatch.setattr(ingesting, "stop_by_signals", stop_by_signals)

    return script


def sources() -> dict[str, int]:
    return {row["source"]: row["chunks"] for row in run_json("list", "sources")}


def test_new_changed_and_deleted_files(folder: Path, meanwhile: Any) -> None:
    seen: list[dict[str, int]] = []
    meanwhile(
        lambda: (folder / "new.txt").write_text("new rows"),
        lambda: seen.append(sources()),
        lambda: (folder / "law.txt").write_text("解除劳动合同", encoding="utf-8"),
        (folder / "note.md").unlink,
        lambda: seen.append(sources()),
    )
    result = run("ingest", folder, "--watch", "--prune")
    assert result.exit_code == 0
    first, *rounds = (line.split(";")[0] for line in result.stdout.splitlines())
    assert first == "2 files, 2 chunks: 2 added, 0 updated, 0 unchanged, 0 deleted"
    assert rounds == [
        "1 file, 1 chunk: 1 added, 0 updated, 0 unchanged, 0 deleted",
        "1 file, 1 chunk: 0 added, 1 updated, 0 unchanged, 0 deleted",
        "0 files, 0 chunks: 0 added, 0 updated, 0 unchanged, 1 deleted",
    ]
    assert seen == [
        {"docs/law.txt": 1, "docs/new.txt": 1, "docs/note.md": 1},
        {"docs/law.txt": 1, "docs/new.txt": 1},
    ]
    assert result.stderr == f"watching {folder}: Ctrl-C ends it\n"
    assert run("search", "解除").stdout != ""


def test_without_prune_chunks_of_deleted_files_stay_and_are_named(folder: Path, meanwhile: Any) -> None:
    meanwhile((folder / "note.md").unlink)
    result = run("ingest", folder, "--watch")
    assert "1 chunk is stale (the files are gone). Use --prune to delete such chunks." in result.stderr
    assert sources() == {"docs/law.txt": 1, "docs/note.md": 1}


def test_a_folder_that_is_empty_at_first(tmp_path: Path, meanwhile: Any) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    meanwhile(lambda: (folder / "a.txt").write_text("first"), lambda: (folder / "b.txt").write_text("second"))
    result = run("ingest", folder, "--watch", "--name", "manuals")
    assert result.exit_code == 0
    assert sources() == {"manuals/a.txt": 1, "manuals/b.txt": 1}


def test_an_empty_folder_deletes_nothing_and_the_watch_goes_on(folder: Path, meanwhile: Any) -> None:
    meanwhile(
        lambda: [file.unlink() for file in folder.iterdir()],
        lambda: None,
        lambda: (folder / "law.txt").write_text("解除劳动合同", encoding="utf-8"),
    )
    result = run("ingest", folder, "--watch", "--prune")
    assert (result.exit_code, result.stderr.count("error: ")) == (0, 1)
    assert f"error: {folder} has no file to ingest, and the index has chunks (2) of files in it (2)." in result.stderr
    assert "1 updated, 0 unchanged, 1 deleted" in result.stdout
    assert sources() == {"docs/law.txt": 1}


def test_invalid_files_are_told_once_and_taken_when_they_are_mended(folder: Path, meanwhile: Any) -> None:
    rows = folder / "rows.jsonl"
    meanwhile(
        lambda: rows.write_text('{"id": "r1", "text": "good"}\nbad\n'),
        lambda: None,
        lambda: rows.write_text('{"id": "r1", "text": "good"}\n{"id": "r2", "text": "mended"}\n'),
    )
    result = run("ingest", folder, "--watch")
    assert (result.exit_code, result.stderr.count("error: ")) == (0, 1)
    assert sources()["docs/rows.jsonl"] == 2


def test_a_folder_that_disappears_is_told_once_without_the_number_of_the_error(folder: Path, meanwhile: Any) -> None:
    away = folder.with_name("away")
    meanwhile(lambda: folder.rename(away), lambda: None, lambda: away.rename(folder))
    result = run("ingest", folder, "--watch")
    assert (result.exit_code, result.stderr.count(f"error: {folder}: No such file or directory\n")) == (0, 1)


def test_a_database_that_is_in_use_is_tried_again(folder: Path, meanwhile: Any, databases: Databases) -> None:
    def lock() -> None:
        (folder / "new.txt").write_text("new")
        databases.on_call = refuse

    def refuse(_: str) -> None:
        raise StoreLockedError("rag.db is open in process 7")

    def unlock() -> None:
        databases.on_call = None

    meanwhile(lock, lambda: None, unlock)
    result = run("ingest", folder, "--watch")
    assert (result.exit_code, result.stderr.count("rag.db is open in process 7")) == (0, 1)
    assert "docs/new.txt" in sources()


def test_standard_input_is_refused(databases: Databases) -> None:
    result = run("ingest", "-", "--watch", input="text")
    assert result.exit_code == 2
    assert "standard input ends, and cannot be watched" in result.stderr
    assert databases.opened == []


def fail_to_read(monkeypatch: pytest.MonkeyPatch, *names: str) -> set[str]:
    """Let files of some names fail to be read; return the names, of which one is taken out to mend it."""
    failing = {*names}

    def open_(path: Path, real: Path) -> Any:
        if path.name in failing:
            raise OSError(errno.EACCES, "Permission denied", str(path))
        return open_regular(path, real)

    for module in ("reading", "unchanged"):
        monkeypatch.setattr(f"rag_bm25.ingestion.{module}.open_regular", open_)
    return failing


def test_a_file_of_which_only_the_permission_is_mended_is_read(
    folder: Path, meanwhile: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = fail_to_read(monkeypatch, "law.txt")
    meanwhile(lambda: None, failing.clear, lambda: os.utime(folder / "law.txt", ns=times(folder / "law.txt")))
    result = run("ingest", folder, "--watch")
    assert result.stderr.count("Permission denied") == 1
    assert sources() == {"docs/law.txt": 1, "docs/note.md": 1}


def times(path: Path) -> tuple[int, int]:
    """The times that a file has, so that setting them changes it as chmod does."""
    state = path.stat()
    return state.st_atime_ns, state.st_mtime_ns


def test_a_file_that_failed_is_read_with_the_next_change(
    folder: Path, meanwhile: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = fail_to_read(monkeypatch, "law.txt", "note.md")
    meanwhile(failing.clear, lambda: (folder / "new.txt").write_text("new"))
    assert "3 files" in run("ingest", folder, "--watch").stdout
    assert sources() == {"docs/law.txt": 1, "docs/new.txt": 1, "docs/note.md": 1}


def test_a_file_that_failed_is_read_again_after_a_while(
    folder: Path, meanwhile: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing, now = fail_to_read(monkeypatch, "law.txt"), [0.0]
    monkeypatch.setattr(watching.time, "monotonic", lambda: now[0])

    def wait() -> None:
        now[0] += RETRY

    meanwhile(wait, wait, failing.clear, wait)
    result = run("ingest", folder, "--watch")
    assert result.stderr.count("Permission denied") == 2  # at first, after a minute, and not again after one more
    assert sources() == {"docs/law.txt": 1, "docs/note.md": 1}


def test_a_row_is_taken_when_the_file_that_had_its_id_is_gone(folder: Path, meanwhile: Any) -> None:
    row = '{"id": "k", "text": "pump"}\n'
    (folder / "a.jsonl").write_text(row)
    meanwhile(
        lambda: (folder / "b.jsonl").write_text(row),
        lambda: (folder / "new.txt").write_text("no rows"),
        lambda: (folder / "a.jsonl").unlink(),
    )
    assert run("ingest", folder, "--watch", "--prune").stderr.count("the id 'k' belongs to docs/a.jsonl") == 1
    assert sources() == {"docs/b.jsonl": 1, "docs/law.txt": 1, "docs/new.txt": 1, "docs/note.md": 1}


def test_a_file_that_is_deleted_below_a_folder_that_could_not_be_read_is_pruned(
    folder: Path, meanwhile: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "in").mkdir()
    (folder / "in" / "gone.txt").write_text("gone")
    (folder / "in" / "kept.txt").write_text("kept")
    walk, locked = os.walk, [False]

    def lock(top: Path, onerror: Any) -> Any:
        for inner, folders, names in walk(top, onerror=onerror):
            if locked[0] and "in" in folders:
                folders.remove("in")
                onerror(OSError(errno.EACCES, "Permission denied", str(folder / "in")))
            yield inner, folders, names

    def unlock() -> None:
        seen.append(sources())
        locked[0] = False
        (folder / "in" / "gone.txt").unlink()

    seen: list[dict[str, int]] = []
    monkeypatch.setattr("rag_bm25.ingestion.files.os.walk", lock)
    meanwhile(lambda: locked.insert(0, True), unlock)
    result = run("ingest", folder, "--watch", "--prune")
    assert result.stderr.count("Permission denied") == 1
    assert seen[0] == {"docs/in/gone.txt": 1, "docs/in/kept.txt": 1, "docs/law.txt": 1, "docs/note.md": 1}
    assert sources() == {"docs/in/kept.txt": 1, "docs/law.txt": 1, "docs/note.md": 1}


def test_options_that_another_run_has_stored_hold_from_then_on(folder: Path, meanwhile: Any) -> None:
    (folder / "drafts").mkdir()
    meanwhile(
        lambda: run("ingest", folder, "--exclude", "drafts/", "--split-size", 40),
        lambda: (folder / "drafts" / "secret.md").write_text("secret"),
        lambda: (folder / "long.txt").write_text("many words " * 10),
    )
    assert run("ingest", folder, "--watch").exit_code == 0
    assert sources() == {"docs/law.txt": 1, "docs/long.txt": 4, "docs/note.md": 1}


def drop_file(databases: Databases) -> None:
    """What deleting the database file does."""
    databases.clear()


@pytest.mark.parametrize("drop", [lambda _: run("drop", "--yes"), drop_file], ids=["dropped", "deleted"])
def test_an_index_that_was_dropped_is_made_whole_again(
    folder: Path, meanwhile: Any, databases: Databases, drop: Callable[[Databases], object]
) -> None:
    meanwhile(lambda: drop(databases), lambda: (folder / "law.txt").write_text("new words"))
    result = run("ingest", folder, "--watch")
    assert sources() == {"docs/law.txt": 1, "docs/note.md": 1}
    assert result.stderr.count("as if it was dropped: all of them are ingested again") == 1


def test_a_namespace_that_was_dropped_is_made_whole_again(folder: Path, meanwhile: Any, databases: Databases) -> None:
    def drop() -> None:
        with BM25Index.from_store(databases.store(*next(iter(databases)))) as index:
            index.drop_namespace("team")

    meanwhile(drop, (folder / "law.txt").unlink)
    result = run("ingest", folder, "--watch", "--namespace", "team")
    assert {row["source"] for row in run_json("list", "sources", "--namespace", "team")} == {"docs/note.md"}
    assert result.stderr.count("all of them are ingested again") == 1


def test_what_was_not_pruned_is_counted_with_what_goes_later(folder: Path, meanwhile: Any) -> None:
    for number in range(20):
        (folder / f"{number}.txt").write_text(f"note {number}")

    def delete(*numbers: int) -> None:
        for number in numbers:
            (folder / f"{number}.txt").unlink()

    meanwhile(lambda: delete(*range(8)), lambda: delete(8))
    result = run("ingest", folder, "--watch", "--prune")
    assert "8 of 22 files are gone" in result.stderr
    assert "9 of 22 files are gone" in result.stderr
    assert len(sources()) == 22


@pytest.mark.parametrize("seed", range(6))
def test_any_sequence_of_changes_ends_as_one_ingestion_of_the_result(folder: Path, meanwhile: Any, seed: int) -> None:
    chance = random.Random(seed)
    names = ["a.txt", "b.md", "in/c.txt", "in/deep/d.txt", "rows.jsonl"]

    def change() -> None:
        for name in chance.sample(names, chance.randint(1, 3)):
            path = folder / name
            if path.exists() and chance.random() < 0.4:
                path.unlink()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            words = " ".join(chance.choices(["sparse", "rows", "劳动合同", "证明"], k=chance.choice([3, 200])))
            rows = [json.dumps({"id": f"r{at}", "text": f"{words} {at}"}) for at in range(chance.randint(1, 4))]
            path.write_text("\n".join(rows) if name == "rows.jsonl" else words, encoding="utf-8")

    meanwhile(*[change] * 8)
    assert run("ingest", folder, "--watch", "--prune").exit_code == 0
    kept = {row["id"]: row["text"] for row in run_json("list", "chunks", "--limit", 10_000)}
    assert run("ingest", folder, "--collection", "fresh").exit_code == 0
    fresh = run_json("list", "chunks", "--collection", "fresh", "--limit", 10_000)
    assert kept == {row["id"]: row["text"] for row in fresh}
    assert run_json("verify")["ok"]


def test_a_file_is_read_when_it_is_no_longer_written(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    steps, pauses = [], iter(range(100))

    def pause(seconds: float) -> bool:
        if next(pauses) < 5:
            file.write_text("x" * next(pauses))
        return seconds == SETTLING or not steps

    watcher = Watcher(lambda roots: find_files([tmp_path], roots=roots), print)
    watcher.watch(lambda: steps.append(watcher.take([]).files[0].path.read_text()), pause)
    assert steps == [file.read_text()]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_pause_and_a_second_ctrl_c_interrupts(number: int) -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with stop_by_signals() as pause:
        assert pause(0)
        os.kill(os.getpid(), number)
        assert not pause(3600)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


@pytest.mark.slow
def test_a_signal_ends_it_cleanly_on_the_embedded_engine(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("milvus_lite")
    command = [sys.executable, "-m", "rag_bm25", "ingest", "docs", "--watch", "--prune"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # the tests may run in the background
    ) as watcher:  # fmt: skip
        assert watcher.stdout is not None
        printed = ""
        while "watching" not in printed:
            printed += watcher.stdout.readline()
        (folder / "new.txt").write_text("new rows")
        while "1 added" not in printed:
            printed += watcher.stdout.readline()
        found = subprocess.run([*command[:3], "search", "new"], cwd=tmp_path, env=environment, capture_output=True)
        watcher.send_signal(signal.SIGINT)
        assert watcher.wait(PATIENCE) == 0
    assert b"docs/new.txt#0" in found.stdout
