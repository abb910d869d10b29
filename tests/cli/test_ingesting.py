"""``rag-bm25 ingest``: what it prints, where, and with which exit code."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from support.command_line import Databases, assert_fails, run, run_json
from support.office import make_pdf

from rag_bm25.cli.console import ingest_bar
from rag_bm25.cli.sources import UNREAD_DOCUMENTS
from rag_bm25.errors import install_extra
from rag_bm25.events import Progress
from rag_bm25.ingestion.files import SUFFIXES
from rag_bm25.ingestion.formats import FORMATS

pytestmark = pytest.mark.usefixtures("databases")


@pytest.mark.parametrize("place", [(), ("--collection", "new")])
def test_an_overlap_that_is_no_shorter_than_the_chunks_is_wrong_usage(
    docs: Path, databases: Databases, place: tuple[str, ...]
) -> None:
    for command in (("ingest", docs, *place), ("calibrate", docs)):
        result = run(*command, "--chunk-overlap", 600)
        assert (result.exit_code, result.stdout) == (2, "")
        assert "Invalid value for --chunk-overlap: chunk_overlap must be >= 0 and below" in result.stderr
    assert [collection for (_, collection), stored in databases.items() if stored.exist] == ["docs"]


def test_ingest_json(docs: Path) -> None:
    report = run_json("ingest", docs, "--collection", "new")
    assert {name: value for name, value in report.items() if not name.endswith("second") and name != "seconds"} == {
        "files": 3, "chunks": 3, "added": 3, "updated": 0, "unchanged": 0, "stale": 0, "deleted": 0, "failed": {},
            "notes": [], "rejected": {}, "reasons": [], "left_out": {}, "skipped": [],
    }  # fmt: skip
    assert report["seconds"] > 0


@pytest.mark.parametrize(
    ("option", "value", "difference"),
    [
        ("--chunk-size", 400, "chunk_size: stored 500, given 400"),
        ("--set", "bigrams=false", "bigrams: stored True, given False"),
    ],
)
def test_other_parameters_than_the_stored_ones_are_refused(
    docs: Path, databases: Databases, option: str, value: object, difference: str
) -> None:
    before = dict(databases["./rag_bm25.db", "docs"].log)
    (docs / "new.txt").write_text("new")
    refused = run("ingest", docs, option, value)
    assert_fails(refused, f"the index was created with other settings: {difference}. Leave them out, or make ")
    assert databases["./rag_bm25.db", "docs"].log == before


def test_a_missing_path_is_named_before_anything_is_opened(databases: Databases) -> None:
    assert_fails(run("ingest", "nothing"), "error: nothing: No such file or directory\n")
    assert databases.opened == []


def test_bad_files_are_named_and_the_others_ingested(docs: Path) -> None:
    (docs / "bad.jsonl").write_text('{"id": "a", "text": "x"}\n' * 1 + '{"id": "b", "text": "x"}\n' * 1 + "{bad\n")
    (docs / "bad.txt").write_bytes(b"abc\xff\0")
    (docs / "new.txt").write_text("new")
    result = run("ingest", docs)
    assert result.exit_code == 1
    assert "5 files, 1 failed, 6 chunks: 3 added" in result.stdout
    assert "1 row rejected" in result.stdout
    expected = "Expecting property name enclosed in double quotes at column 2\n"
    assert f"error: {docs / 'bad.jsonl'} line 3: not JSON: {expected}" in result.stderr
    assert "error: " + str(docs / "bad.txt") + ": not UTF-8 at byte 3 of the file, and has NULs" in result.stderr
    assert run_json("stats")["num_chunks"] == 6


def test_skipped_files_are_named(docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (docs / "page.css").write_text("a")
    (docs / "paper.pdf").write_text("%PDF")
    (docs / ".gitignore").write_text("*.log.md\n!\n")
    (docs / "x.log.md").write_text("ignored")
    monkeypatch.setattr("rag_bm25.ingestion.formats.find_spec", lambda _name: None)
    result = run("ingest", docs)
    assert result.exit_code == 0
    assert result.stderr.splitlines() == [
        "skipped 1 file of other kinds: 1 .css (--also '*.KIND' reads those that are plain text)",
        f"skipped 1 file: reading PDF needs pypdfium2: {install_extra('documents')}",
        f"{docs / '.gitignore'}: left out, since they are no patterns: line 2",
        f"1 excluded by patterns or .gitignore: {docs / 'x.log.md'}",
    ]


def test_what_is_read_is_in_the_help_and_not_among_what_is_not() -> None:
    shown = run("ingest", "--help").stdout.upper()
    assert [form.name for form in FORMATS.values() if form.name.upper() not in shown] == []
    assert UNREAD_DOCUMENTS.isdisjoint(SUFFIXES)


def test_an_empty_folder_makes_no_index(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    result = run("ingest", tmp_path / "empty")
    assert result.exit_code == 1
    assert "there is nothing to ingest, so no index was created" in result.stderr
    assert run("stats").exit_code == 1


def test_an_empty_folder_is_no_error_where_there_is_an_index(docs: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    run("ingest", docs)
    result = run("ingest", tmp_path / "empty")
    assert result.exit_code == 0
    assert result.stderr == "there is no file to ingest: those that are read end in " + ", ".join(SUFFIXES) + "\n"
    assert result.stdout.startswith("0 files, 0 chunks")


def test_a_folder_that_is_empty_or_has_lost_many_files_is_not_pruned(docs: Path) -> None:
    for number in range(8):
        (docs / f"{number}.txt").write_text("text")
    run("ingest", docs)
    for number in range(8):
        (docs / f"{number}.txt").unlink()
    result = run("ingest", docs, "--prune")
    assert (result.exit_code, "3 files, 1 failed" in result.stdout) == (1, True)
    assert "8 of 11 files are gone, more than 20%" in result.stderr
    assert run_json("ingest", docs, "--prune", "--max-delete", "100%")["deleted"] == 8
    for file in docs.iterdir():
        file.unlink()
    result = run("ingest", docs, "--prune", "--max-delete", "100%")
    assert (result.exit_code, result.stdout.count("0 deleted")) == (1, 1)
    assert result.stderr.endswith("If all of them are to go: rag-bm25 delete --source docs/\n")
    assert run_json("stats")["num_chunks"] == 3


def test_a_command_in_a_note_names_the_index(docs: Path, tmp_path: Path) -> None:
    place = ("--uri", str(tmp_path / "the other.db"), "--collection", "more")
    run("ingest", docs, *place)
    docs.rename(docs.parent / "renamed")
    result = run("ingest", docs.parent / "renamed", *place)
    command = shlex.split(result.stderr.partition("If it was renamed, delete them: rag-bm25 ")[2])
    assert run_json(*command, "--yes")["deleted"] == 2  # the row has a new source
    assert run_json("stats", *place)["num_chunks"] == 3


def test_empty_standard_input_deletes_nothing(docs: Path) -> None:
    """As after `false | rag-bm25 ingest -`."""
    run("ingest", "-", "--stdin-name", "notes.md", input="palms")
    stored = run_json("list", "chunks")
    for paths in (["-"], [docs, "-"]):
        result = run("ingest", *paths, "--stdin-name", "notes.md", input="")
        assert_fails(
            result, "standard input is empty: nothing was ingested, and what the index has of notes.md is kept"
        )
        assert "delete it (--source notes.md)" in result.stderr
    assert run_json("list", "chunks") == stored
    assert "notes.md#0" in str(stored)


@pytest.mark.parametrize("wrong", ["20", "-1%", "101%", "nan%", "%", ""])
def test_a_share_is_a_percentage(docs: Path, wrong: str) -> None:
    result = run("ingest", docs, "--max-delete", wrong)
    assert (result.exit_code, "must be a percentage such as 20%" in result.stderr) == (2, True)


def test_progress_goes_to_stderr_where_it_is_forced(docs: Path) -> None:
    result = run("ingest", docs, "--progress", "--json")
    assert next(line.split()[:2] for line in result.stderr.splitlines() if "left" in line) == ["ingesting", "0%"]
    assert json.loads(result.stdout)["files"] == 3


def test_lines_come_once_a_second_where_nobody_looks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr("rich.console.monotonic", lambda: now[0])
    with ingest_bar(True, 5_000) as update:
        for number in range(40):
            now[0] += 0.125
            update(Progress("bytes", number * 125, 5_000, f"docs/{number}.md"))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 6  # with how it ended
    assert lines[1] == "ingesting  20% 1.0/5.0 kB 0 chunks, 0:00:04 left docs/8.md"


def test_a_file_that_cannot_be_ingested_is_an_error_where_it_was_named(docs: Path, databases: Databases) -> None:
    page = docs / "page.css"
    page.write_text("a")
    opened = len(databases.opened)
    assert_fails(run("ingest", page), f"{page}: only files that end in .txt, .md, ")
    assert all(options.get("read_only") for options in databases.opened[opened:])
    result = run("ingest", page, docs / "law.txt")
    assert (result.exit_code, result.stderr.count("page.css")) == (1, 1)
    assert "1 file, 1 failed, 1 chunk" in result.stdout


def test_standard_input_is_a_source(docs: Path) -> None:
    result = run("ingest", "-", "--stdin-name", "notes/today.md", input="# Palms\n\ncoconuts grow there")
    assert result.exit_code == 0
    assert "1 file, 1 chunk: 1 added" in result.stdout
    [hit] = run_json("search", "coconuts")
    assert (hit["id"], hit["metadata"]["headings"]) == ("notes/today.md#0", ["Palms"])
    assert "1 updated" in run("ingest", "-", "--stdin-name", "notes/today.md", input="other").stdout
    result = run("ingest", "-", "--stdin-name", "notes", input="x")
    assert (result.exit_code, "--stdin-name" in result.stderr) == (2, True)


def test_wrong_options_of_reading_are_wrong_usage(docs: Path) -> None:
    for wrong in (("--encoding", "klingon"), ("--file-timeout", 0)):
        result = run("ingest", docs, *wrong)
        assert (result.exit_code, wrong[0] in result.stderr) == (2, True)


def test_what_pages_repeat_is_counted_and_kept_if_asked_for(tmp_path: Path) -> None:
    pytest.importorskip("pypdfium2")
    heads = {n: [(30, 770, "Manual")] for n in range(4)}
    path = make_pdf(tmp_path / "a.pdf", ["one", "two", "three", "four"], more=heads)
    assert "left out: running lines 18 characters (kept with --repeated)" in run("ingest", path).stderr
    kept = run("ingest", path, "--repeated")
    assert "left out" not in kept.stderr
    assert "--repeated, no longer the default" in " ".join(kept.stderr.split())


def test_hidden_sheets_are_read_if_asked_for_also_of_a_file_that_has_not_changed(tmp_path: Path) -> None:
    book = pytest.importorskip("openpyxl").Workbook()
    book.active.append(["walnut"])
    secret = book.create_sheet("secret")
    secret.append(["hazelnut"])
    secret.sheet_state = "hidden"
    book.save(tmp_path / "nuts.xlsx")
    for options, found in (((), 0), (("--hidden",), 1), ((), 1), (("--no-hidden",), 0)):
        assert run("ingest", tmp_path / "nuts.xlsx", *options).exit_code == 0
        assert len(run_json("search", "hazelnut")) == found


def test_rejected_rows_are_told_by_their_files(tmp_path: Path) -> None:
    rows = tmp_path / "rows"
    rows.mkdir()
    (rows / "a.jsonl").write_text('{"id": "g", "text": "good"}\n' + "bad\n" * 40)
    (rows / "b.jsonl").write_text('{"id": "h", "text": "good"}\n' + "bad\n" * 2)
    for number in range(25):
        (rows / f"c{number:02}.jsonl").write_text("bad\n")
    result = run("ingest", rows)
    lines = result.stderr.splitlines()
    assert result.exit_code == 1
    assert [line.split(": ")[1] for line in lines[:3]] == [f"{rows}/a.jsonl line {number}" for number in (2, 3, 4)]
    assert lines[3] == "error: rows/a.jsonl: 37 more rows rejected"
    assert [line.split(": ")[1] for line in lines[4:6]] == [f"{rows}/b.jsonl line 2", f"{rows}/b.jsonl line 3"]
    assert len(lines) == 6 + 18 + 1
    assert lines[-1] == "error: 7 more files with rejected rows"


def test_a_new_index_has_the_given_settings(docs: Path) -> None:
    given = ("--chunk-size", 9, "--k1", 1.2, "--b", 0.5, "--set", "length_unit=terms", "--field", "title:30:2.0:0.5")
    result = run("ingest", docs, "--collection", "new", *given)
    assert result.stdout.startswith("3 files, 4 chunks: 4 added, 0 updated, 0 unchanged, 0 deleted; ")
    assert result.stderr == ""
    stats = run_json("stats", "--collection", "new")
    assert [stats[name] for name in ("chunk_size", "k1", "b", "length_unit")] == [9, 1.2, 0.5, "terms"]
    assert run_json("ingest", docs, "--collection", "new")["unchanged"] == 4
    refused = run("ingest", docs, "--collection", "new", "--field", "title:30")
    assert_fails(refused, "given {'title': {'chunk_size': 30, 'weight': 1.0, 'b': 0.75}}")


MANUAL = "# Zeppelin handbook\n\n## Refuelling\n\n{0}\n\n## Anchoring\n\n{0}\n".format("It takes an hour or two. " * 15)


def test_titles_and_headings_count(docs: Path) -> None:
    (docs / "manual.md").write_text(MANUAL)
    for collection, field in (("new", "default"), ("again", None), ("plain", "none")):
        given = ("--field", field) if field else ()
        assert run("ingest", docs, "--collection", collection, *given).exit_code == 0
    assert run_json("search", "zeppelin anchoring", "--collection", "new") == (
        found := run_json("search", "zeppelin anchoring", "--collection", "again")
    )
    assert [hit["metadata"]["headings"][1] for hit in found] == ["Anchoring", "Refuelling"]
    assert len(run_json("search", "zeppelin", "--collection", "new")) == 2
    assert len(run_json("search", "zeppelin", "--collection", "plain")) == 1


def test_an_index_keeps_the_fields_that_it_was_made_with(docs: Path) -> None:
    assert run("ingest", docs, "--collection", "plain", "--field", "none").exit_code == 0
    (docs / "manual.md").write_text(MANUAL)
    assert run_json("ingest", docs, "--collection", "plain")["unchanged"] == 3
    assert len(run_json("search", "zeppelin", "--collection", "plain")) == 1
    assert run("reindex", "--to-collection", "new", "--collection", "plain", "--field", "default").exit_code == 0
    assert len(run_json("search", "zeppelin", "--collection", "new")) == 2


def test_a_weighting_that_cannot_combine_fields_has_none(docs: Path) -> None:
    assert run("ingest", docs, "--collection", "new", "--set", "weighting=sqrt-normalised").exit_code == 0
    assert run("ingest", docs, "--collection", "new", "--field", "none").exit_code == 0


def test_options_of_reading_and_naming_are_given(docs: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("key;body\nk1;palms\nk2\n")
    given = ("rows.csv", "--text-field", "body", "--id-field", "key", "--id-prefix", "{source}#")
    for place in ((), ("--collection", "new")):
        refusal = "nothing was written, since files (0) or rows (1) are invalid"
        assert_fails(run("ingest", *given, "--strict", *place), refusal)
    assert_fails(run("stats", "--collection", "new"), "not found")
    result = run("ingest", *given)
    assert (result.exit_code, "1 row rejected" in result.stdout) == (1, True)
    assert run_json("search", "palms")[0]["id"] == "rows.csv#k1"
    assert_fails(run("ingest", docs, "--root", docs / "law.txt"), "the root must be a folder, got ")
    moved = docs.rename(tmp_path / "moved")
    assert_fails(run("ingest", moved, "--root", moved, "--name", "../docs"), "name")
    assert run_json("ingest", moved, "--name", "docs")["unchanged"] == 3
    (moved / "milvus.md").unlink()
    stale = run("ingest", moved, "--name", "docs")
    assert stale.stderr == "1 chunk is stale (the files are gone). Use --prune to delete such chunks.\n"
    assert "1 deleted" in run("ingest", moved, "--name", "docs", "--prune").stdout


FRENCH = "La mairie de la ville a été construite dans les années qui ont suivi la guerre, et le pont {} date de 1893."


@pytest.fixture
def french(tmp_path: Path) -> Path:
    pytest.importorskip("py3langid", reason="guessing needs rag-bm25[documents]")
    folder = tmp_path / "french"
    folder.mkdir()
    for number in range(10):
        (folder / f"{number}.txt").write_text("\n\n".join(FRENCH.format(at) for at in range(120)))
    return folder


def test_a_new_index_of_texts_in_another_language_has_its_stems(french: Path) -> None:
    told = "nine in ten texts are French: stem=french,idf=lucene hold for the new index"
    assert told in run("ingest", french, "--dry-run").stderr
    first = run("ingest", french)
    assert first.exit_code == 0
    assert told in first.stderr
    assert json.loads(run("stats", "--json").stdout)["searches_by"] == {"idf": "lucene"}
    assert run_json("search", "construite dans les mairies", "--must", "mairies")
    again = run("ingest", french)
    assert again.exit_code == 0
    assert "French" not in again.stderr


@pytest.mark.parametrize("options", [["--set", "stem=true"], ["--set", "stem=german"], ["--idf", "plus"]])
def test_what_is_given_holds_in_any_language(french: Path, options: list[str]) -> None:
    assert run("ingest", french, *options).exit_code == 0
    idf = "plus" if options[0] == "--idf" else "epsilon"
    assert json.loads(run("stats", "--json").stdout)["idf"] == idf
