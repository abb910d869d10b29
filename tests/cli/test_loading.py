"""``rag-bm25 bulk`` over in-memory stores: what the files hold, output, exit codes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.command_line import Databases, assert_fails, run, run_json

from rag_bm25 import bulk, ingestion

if TYPE_CHECKING:
    from support.memory_store import Collections, MemoryStore

    from rag_bm25.bulk import LoadReport

pytest.importorskip("pyarrow")

SETTINGS = "k1=1.2,stem=false"


@pytest.fixture(autouse=True)
def places(databases: Databases) -> Databases:
    """Work in a folder that has documents of both kinds."""
    Path("docs").mkdir()
    Path("docs/guide.md").write_text("劳动合同的解除。\n\n" * 9 + "Apples are red.", encoding="utf-8")
    rows = [{"_id": f"r{number}", "title": "Figs", "text": f"Figs and {number}"} for number in range(30)]
    Path("docs/rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return databases


def rows_of(collections: Collections) -> set[tuple[Any, ...]]:
    return {
        (
            row.pk,
            row.text,
            json.dumps(row.metadata, sort_keys=True),
            row.vector.ids.tobytes(),
            row.vector.values.tobytes(),
        )
        for row in collections.chunks.values()
    }


def test_loading_is_ingesting(places: Databases, monkeypatch: pytest.MonkeyPatch) -> None:
    ingested = run_json("ingest", "docs", "--uri", "one.db", "--set", SETTINGS, "--chunk-size", "40")["chunks"]
    encoded = run_json(
        "bulk", "encode", "docs", "--folder", "parts", "--set", SETTINGS, "--set", "chunk_size=40", "--part-size", "7"
    )
    assert (encoded["parts"], encoded["chunks"]) == (-(-ingested // 7), ingested)
    assert encoded["bytes"] == sum(path.stat().st_size for path in Path("parts").glob("part-??????.parquet"))
    merged = run_json("bulk", "merge", "parts", "--parts", str(encoded["parts"]))
    assert (merged["num_chunks"], merged["rewritten"]) == (ingested, 0)
    monkeypatch.setenv("MILVUS_TOKEN", "psst")
    loaded = run_json("bulk", "load", "parts", "--uri", "two.db")
    assert (loaded["num_chunks"], loaded["loaded"]) == (ingested, ingested)
    assert places.opened[-1] == {"uri": "two.db", "collection": "docs", "token": "psst", "tls": None, "storage": None}
    assert rows_of(places["two.db", "docs"]) == rows_of(places["one.db", "docs"])
    assert run_json("verify", "--uri", "two.db")["ok"]


def test_each_step_says_what_it_did() -> None:
    lines = [
        run("bulk", "encode", "docs", "--folder", "parts", "--part-size", "20").stdout,
        run("bulk", "merge", "parts").stdout,
        run("bulk", "load", "parts").stdout,
    ]
    assert lines[0].startswith("31 chunks in 2 parts, 0.0 MB; ")
    assert lines[0].endswith(" chunks/s\n")
    assert lines[1].startswith("2 parts: 31 chunks, ")
    assert lines[1].endswith(" terms\n")
    assert " in memory; 31 loaded in " in lines[2]


def test_processes_encode_the_same() -> None:
    run("bulk", "encode", "docs", "--folder", "one", "--part-size", "20", "--namespace", "x")
    run("bulk", "encode", "docs", "--folder", "two", "--part-size", "20", "--namespace", "x", "--workers", "2")
    names = sorted(path.name for path in Path("one").iterdir())
    assert len(names) == 4
    assert [Path("one", name).read_bytes() for name in names] == [Path("two", name).read_bytes() for name in names]


def test_parts_of_an_earlier_run_are_not_mixed_with_others() -> None:
    run("bulk", "encode", "docs", "--folder", "parts", "--part-size", "5")
    again = ("bulk", "encode", "docs", "--folder", "parts", "--part-size", "20")
    assert_fails(run(*again), "parts has parts of an earlier run: use another folder, or --overwrite")
    assert len(list(Path("parts").iterdir())) == 14
    assert run_json(*again, "--overwrite")["parts"] == 2
    assert len(list(Path("parts").iterdir())) == 4


@pytest.mark.parametrize("options", [[], ["--overwrite"]])
def test_files_of_others_are_left_alone(options: list[str]) -> None:
    """Spark and its like call their outputs part-00000-..., which may be what is encoded."""
    run("bulk", "encode", "docs", "--folder", "parts", "--part-size", "5")
    folder = Path("parts" if options else "docs")
    theirs = [folder / name for name in ("part-00000-1f.jsonl", "part-00001.parquet", "part-notes.txt")]
    for path in theirs:
        path.write_text('{"_id": "a", "text": "apple"}', encoding="utf-8")
    (folder / "manifest.json").touch()
    assert run_json("bulk", "encode", str(theirs[0]), "--folder", str(folder), *options)["chunks"] == 1
    assert all(path.is_file() for path in theirs)
    assert (folder / "manifest.json").exists() is (not options)


def test_overwriting_leaves_nothing_that_was_begun() -> None:
    run("bulk", "encode", "docs", "--folder", "parts")
    for name in ("part-000009.parquet.0123abcd.tmp", "part-000009.parquet", "part-000009.merged.parquet"):
        Path("parts", name).touch()
    run("bulk", "encode", "docs", "--folder", "parts", "--overwrite")
    assert sorted(path.name for path in Path("parts").iterdir()) == ["part-000000.parquet", "part-000000.terms.parquet"]


def test_a_folder_that_cannot_be_listed_is_not_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(paths: list[Path], **options: Any) -> ingestion.Found:
        return replace(find_files(paths, **options), unreadable={"docs/secret": "docs/secret: Permission denied"})

    find_files = ingestion.find_files
    monkeypatch.setattr(ingestion, "find_files", found)
    assert_fails(run("bulk", "encode", "docs", "--folder", "parts"), "docs/secret: Permission denied")
    assert not Path("parts").exists()


def test_what_cannot_be_done_is_one_line() -> None:
    assert_fails(run("bulk", "merge", "nowhere"), "no parts were found in nowhere: encode some first")
    assert_fails(run("bulk", "load", "nowhere"), "manifest.json is missing: merge the parts first")
    Path("docs/rows.jsonl").write_text('{"_id": "a"}', encoding="utf-8")
    assert_fails(run("bulk", "encode", "docs", "--folder", "parts"), 'docs/rows.jsonl line 1: a row needs a "text"')
    Path("empty").mkdir()
    assert_fails(
        run("bulk", "encode", "empty", "--folder", "parts"),
        "there is no file to encode: those that are read end in",
    )
    assert run("bulk", "encode", "docs", "--folder", "parts", "--set", "k9=1").exit_code == 2


def test_an_interrupted_load_goes_on(places: Databases, monkeypatch: pytest.MonkeyPatch) -> None:
    run("bulk", "encode", "docs", "--folder", "parts", "--part-size", "20")
    run("bulk", "merge", "parts")
    inserted: list[str] = []

    def interrupt(method: str) -> None:
        inserted.extend(["rows"] * (method == "insert_chunks"))
        if len(inserted) > 1:
            raise KeyboardInterrupt

    places.on_call = interrupt
    result = run("bulk", "load", "parts")
    assert result.exit_code == 130
    assert "running the same command again continues" in result.stderr
    places.on_call = None
    assert run_json("bulk", "load", "parts")["loaded"] == 11


def test_a_server_imports_from_its_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, str]] = []

    def imported(folder: Path, target: MemoryStore, prefix: str, **options: Any) -> LoadReport:
        told.append((str(folder), prefix))
        return bulk.LoadReport(3, 2, 1)

    monkeypatch.setattr(bulk, "load_by_import", imported)
    assert run_json("bulk", "load", "parts", "--import-prefix", "uploads/parts")["loaded"] == 1
    assert told == [("parts", "uploads/parts")]
