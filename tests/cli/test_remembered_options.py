"""The second `rag-bm25 ingest` of a folder needs none of the options of the first."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.command_line import Databases, run, run_json

from rag_bm25 import BM25Index
from rag_bm25.errors import InputError
from rag_bm25.ingestion import read_source_roots
from rag_bm25.ingestion.files import FileSelection
from rag_bm25.ingestion.watching import Watcher

pytestmark = pytest.mark.usefixtures("databases")
ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "nuts")


def make_folder(folder: Path) -> Path:
    folder.mkdir()
    (folder / ".gitignore").write_text("ignored.txt\n")
    for name in ("a.txt", "b.txt", "ignored.txt"):
        (folder / name).write_text(f"{name} holds walnuts, hazelnuts, almonds. " * 40)
    (folder / "chinese.txt").write_bytes("用人单位解除劳动合同，应当出具证明。".encode("gb18030"))
    row = {"id": folder.name, "key": 2, "text": "fig", "body": "date", "title": "title", "name": "other"}
    (folder / "rows.jsonl").write_text(json.dumps(row) + "\n")
    return folder


def ingest(*arguments: object) -> str:
    """Ingest, and return the notes."""
    result = run("ingest", *arguments, "--prune", "--max-delete", "100%")
    assert result.exit_code in (0, 1), result.output  # files in another encoding are told
    return result.stderr


def report(*arguments: object) -> Any:
    return json.loads(run("ingest", *arguments, "--json").stdout)


def chunks(collection: str = "docs") -> list[tuple[str, str, Any]]:
    rows = run_json("list", "chunks", "--collection", collection, "--limit", 10_000)
    return sorted((row["id"], row["text"], row["metadata"].get("title")) for row in rows)


@pytest.mark.parametrize(
    ("given", "reset"),
    [
        (("--split-size", 100), ("--split-size", 500)),
        (("--chunk-overlap", 0), ("--chunk-overlap", 150)),
        (("--encoding", "big5"), ("--encoding", "")),
        (("--text-field", "body"), ("--text-field", "text")),
        (("--title-field", "name"), ("--title-field", "")),
        (("--id-field", "key"), ("--id-field", "")),
        (("--id-prefix", "{source}#"), ("--id-prefix", "")),
    ],
)
def test_each_option_is_remembered_until_it_is_reset(
    folder: Path, given: tuple[object, ...], reset: tuple[object, ...]
) -> None:
    ingest(folder, "--collection", "plain")
    ingest(folder, *given)
    before = chunks()
    assert before != chunks("plain")
    ingest(folder)
    assert chunks() == before
    assert ", no longer " in ingest(folder, *reset)
    assert chunks() == chunks("plain")
    ingest(folder)
    assert chunks() == chunks("plain")


def test_headings_as_context_are_remembered_until_they_are_reset(folder: Path) -> None:
    def contexts() -> set[Any]:
        return {row["metadata"].get("contextualized_by") for row in run_json("list", "chunks", "--limit", 10_000)}

    found = []
    for options in ((), ("--contextualize", "headings"), (), ("--contextualize", ""), ()):
        ingest(folder, *options)
        found.append(contexts())
    assert found == [{None}, {"headings"}, {"headings"}, {None}, {None}]
    assert run("ingest", folder, "--contextualize", "titles").exit_code == 2


def test_headings_as_context_are_said_to_add_nothing_without_a_model(folder: Path) -> None:
    note = "--contextualize headings adds nothing without --embedding: headings count as words anyway\n"
    assert ingest(folder, "--contextualize", "headings").startswith(note)
    assert "contextualize" not in ingest(folder)


def test_the_chunk_size_of_the_index_resets_the_size_of_chunks(folder: Path) -> None:
    ingest(folder, "--split-size", 100)
    assert "the default, no longer --split-size 100" in ingest(folder, "--split-size", 500)
    assert "is ingested with" not in run("list", "sources").stderr
    assert "options of" not in ingest(folder, "--split-size", 500)


@pytest.mark.parametrize(
    ("given", "reset", "found"),
    [
        (("--include", "a.*", "--include", "*.jsonl"), ("--include", ""), ["a.txt", "rows.jsonl"]),
        (("--also", "*.py"), ("--also", ""), ["a.txt", "b.txt", "chinese.txt", "code.py", "rows.jsonl"]),
        (("--exclude", "*.txt"), ("--exclude", ""), ["rows.jsonl"]),
        (("--no-gitignore",), ("--gitignore",), ["a.txt", "b.txt", "chinese.txt", "ignored.txt", "rows.jsonl"]),
    ],
)
def test_patterns_are_remembered_until_they_are_reset(
    folder: Path, given: tuple[object, ...], reset: tuple[object, ...], found: list[str]
) -> None:
    (folder / "code.py").write_text("def code(): pass")
    for options in (given, (), ("--split-size", 100)):
        assert report(folder, *options)["files"] == len(found)
    assert [row["source"].removeprefix("nuts/") for row in run_json("list", "sources")] == found
    assert report(folder, *reset)["files"] == report(folder)["files"] == 4


def test_an_include_that_leaves_no_file_is_an_error_and_not_remembered(folder: Path) -> None:
    ingest(folder)
    result = run("ingest", folder, "--include", "*.pyx")
    told = f"error: {folder}: *.pyx of --include matches none of its files\n"
    assert (result.exit_code, result.stdout, result.stderr.endswith(told)) == (1, "", True)
    assert "is ingested with" not in run("list", "sources").stderr
    assert report(folder)["files"] == 4


def test_what_excludes_files_though_it_is_not_given_is_named(folder: Path) -> None:
    given = run("ingest", folder, "--include", "a.*", "--exclude", "b.txt").stderr
    assert "4 excluded by patterns or .gitignore" in given
    assert "remembered" not in given
    again = "; remembered: --include 'a.*' --exclude b.txt (to take it back: --include '' --exclude '')\n"
    assert again in run("ingest", folder).stderr
    assert (
        "; remembered: --exclude b.txt (to take it back: --exclude '')\n"
        in run("ingest", folder, "--include", "").stderr
    )


def test_which_files_are_read_is_said_where_there_is_none(folder: Path) -> None:
    ingest(folder, "--include", "a.txt")
    (folder / "a.txt").unlink()
    note = "there is no file to ingest: those that are read match --include a.txt\n"
    assert note in run("ingest", folder).stderr
    both = "there is no file to ingest: those that are read match --include a.txt --also '*.py'\n"
    assert both in run("ingest", folder, "--also", "*.py").stderr


def test_each_folder_has_its_own_and_the_list_of_sources_shows_them(folder: Path, tmp_path: Path) -> None:
    law = make_folder(tmp_path / "law")
    ingest(folder, "--exclude", "a.txt", "--exclude", "old drafts/", "--split-size", 200)
    ingest(law, "--encoding", "gb18030", "--no-gitignore")
    before = chunks()
    again = report(folder, law)
    assert (again["unchanged"], again["files"], chunks()) == (len(before), 8, before)
    assert run("list", "sources").stderr.splitlines()[1:] == [
        "law is ingested with --no-gitignore --encoding gb18030",
        "nuts is ingested with --split-size 200 --exclude a.txt --exclude 'old drafts/'",
    ]


def test_namespaces_have_their_own(folder: Path) -> None:
    for namespace, size in (("a", 100), ("b", 200)):
        ingest(folder, "--namespace", namespace, "--split-size", size)
    assert run("list", "sources", "--namespace", "b").stderr.splitlines()[1:] == [
        "nuts is ingested with --split-size 200"
    ]
    assert report(folder, "--namespace", "a")["updated"] == 0


def test_a_change_is_told_once(folder: Path) -> None:
    ingest(folder, "--split-size", 100)
    note = "options of nuts: --split-size 200, no longer --split-size 100; the files are cut anew\n"
    assert note in ingest(folder, "--split-size", 200)
    assert "options of" not in ingest(folder, "--split-size", 200)


def test_an_overlap_must_be_below_the_remembered_size(folder: Path) -> None:
    ingest(folder, "--split-size", 1000)
    ingest(folder, "--chunk-overlap", 600)
    result = run("ingest", folder, "--split-size", 500)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Invalid value for --chunk-overlap: chunk_overlap must be >= 0 and below the chunk size of 500, got 600" in (
        result.stderr
    )


def test_what_does_not_ingest_remembers_nothing(folder: Path, databases: Databases) -> None:
    ingest(folder, "--split-size", 100)
    (folder / "bad.jsonl").write_text("bad\n")
    before = dict(databases["./rag_bm25.db", "docs"].log)
    assert run("ingest", folder, "--strict", "--split-size", 200).exit_code == 1
    assert run("calibrate", folder, "--split-size", 200, "--exclude", "a.txt").exit_code == 0
    assert databases["./rag_bm25.db", "docs"].log == before


def test_standard_input_is_read_before_the_database_is_opened(databases: Databases) -> None:
    assert run("ingest", "-", "--split-size", 20, input="word " * 20).exit_code == 0
    assert [options for options in databases.opened if options.get("read_only")] == []
    assert len(chunks()) > 1


def test_they_are_those_of_the_generation_in_force(folder: Path) -> None:
    ingest(folder, "--exclude", "*.txt")
    before = chunks()
    assert run("reindex", "--k1", "0.9").exit_code == 0
    assert run("reindex", "--drop-old").exit_code == 0
    ingest(folder)
    assert chunks() == before


def test_a_watch_goes_by_them(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ingest(folder, "--exclude", "new.txt", "--split-size", 100)
    before = chunks()
    seen: list[FileSelection] = []

    def watch(watcher: Watcher, step: Callable[[], object], _: object) -> None:
        (folder / "new.txt").write_text("new")
        seen.append(watcher._look())
        step()

    monkeypatch.setattr(Watcher, "watch", watch)
    ingest(folder, "--watch")
    assert "new.txt" not in [file.path.name for file in seen[0].files]
    assert chunks() == before


def test_a_server_goes_by_them(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mcp", reason='serving needs rag-bm25[serve]: pip install "rag-bm25[serve]"')
    ingest(folder, "--include", "a.txt", "--also", "b.txt")

    def served(index: BM25Index, *arguments: Any) -> None:
        found = arguments[-1].find(read_source_roots(index))
        raise InputError(f"found {[file.path.name for file in found.files]}")

    monkeypatch.setattr("rag_bm25.serving.served.Served", served)
    assert "found ['a.txt', 'b.txt']" in run("serve", "--mcp", "--ingest", folder).stderr


@pytest.mark.slow
def test_another_process_goes_by_them_on_the_embedded_engine(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("milvus_lite")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}

    def ingest_apart(*options: str) -> dict[str, Any]:
        command = [sys.executable, "-m", "rag_bm25", "ingest", folder.name, "--json", *options]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=True, text=True)
        return dict(json.loads(done.stdout))

    first = ingest_apart("--exclude", "*.txt", "--text-field", "body", "--id-field", "key")
    again = ingest_apart()
    assert (first["files"], first["added"]) == (1, 1)
    assert (again["files"], again["unchanged"], again["notes"]) == (1, 1, [])
