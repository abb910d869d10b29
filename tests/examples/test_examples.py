"""The examples do what they say."""

from __future__ import annotations

import importlib.util
import re
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import engines

from rag_bm25 import TLS, BM25Index, StoreError

EXAMPLES = Path(__file__).resolve().parents[2] / "scripts" / "examples"
pytestmark = pytest.mark.skipif(not engines.lite_version(), reason="milvus-lite is not installed")


def main_of(name: str) -> Callable[..., Any]:
    main: Callable[..., Any] = runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"]
    return main


def test_a_rag_pipeline_finds_the_context_of_each_answer(capsys: pytest.CaptureFixture[str]) -> None:
    main_of("rag_pipeline")()
    first, second = capsys.readouterr().out.split("Question: ")[:2]
    assert "in Zurich and London up to 220" in first
    assert "逾期作废" in second
    assert "Answer: Up to 220 euros (travel.md)." in second


def test_an_incremental_ingestion_follows_its_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, uri = tmp_path / "handbook", str(tmp_path / "rag.db")
    folder.mkdir()
    (folder / "a.md").write_text("Apples are red.", encoding="utf-8")
    (folder / "b.md").write_text("香蕉是黄色的。", encoding="utf-8")
    main = main_of("incremental_ingestion")
    assert main([str(folder), "--uri", uri]) == 0
    (folder / "a.md").write_text("Apples are green.", encoding="utf-8")
    (folder / "b.md").unlink()
    (folder / "c.md").write_text("Figs.", encoding="utf-8")
    assert main([str(folder), "--uri", uri]) == 0
    assert main([str(folder), "--uri", uri]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "2 files: 2 chunks added, 0 deleted, 2 in the index",
        "2 files: 1 chunks added, 1 deleted, 2 in the index",
        "2 files: 0 chunks added, 0 deleted, 2 in the index",
    ]
    with BM25Index.open(uri, "docs") as index:
        assert sorted(chunk.text for chunk in index.chunks()) == ["Apples are green.", "Figs."]
        assert index.verify().ok


def test_an_incremental_ingestion_reports_what_it_could_not_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "bad.txt").write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00")
    assert main_of("incremental_ingestion")([str(tmp_path / "docs"), "--uri", str(tmp_path / "rag.db")]) == 1
    assert "docs/bad.txt" in capsys.readouterr().err


def test_an_incremental_ingestion_reports_an_empty_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "docs").mkdir()
    rows, given = tmp_path / "docs" / "a.jsonl", [str(tmp_path / "docs"), "--uri", str(tmp_path / "rag.db")]
    rows.write_text('{"id": "1", "text": "x"}\nbad\n')
    assert main_of("incremental_ingestion")(given) == 1
    rows.unlink()
    assert main_of("incremental_ingestion")(given) == 1
    out, err = capsys.readouterr()
    assert "0 deleted, 1 in the index" in out
    assert ("line 2: not JSON" in err, "has no file to ingest" in err) == (True, True)


def test_an_incremental_ingestion_logs_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: dict[str, Any] = {}

    def refuse(uri: str, _collection: str, **options: Any) -> None:
        opened.update(options, uri=uri)
        raise StoreError("nothing listens")

    (tmp_path / "ca.pem").touch()
    variables = {"URI": "https://milvus:19530", "TOKEN": "kim:open sesame", "TLS_CA": str(tmp_path / "ca.pem")}
    for name, value in variables.items():
        monkeypatch.setenv(f"MILVUS_{name}", value)
    monkeypatch.setattr(BM25Index, "open", refuse)
    assert main_of("incremental_ingestion")([str(tmp_path), "--chunk-size", "400"]) == 1
    assert capsys.readouterr().err == "nothing listens\n"
    assert opened.pop("config").chunk_size == 400
    assert opened == {"uri": variables["URI"], "token": variables["TOKEN"], "tls": TLS(ca_file=variables["TLS_CA"])}
    monkeypatch.setenv("MILVUS_URI", "http://milvus:19530")
    main_of("incremental_ingestion")([str(tmp_path)])
    assert opened["tls"] is None  # certificates are for https


@pytest.mark.parametrize(
    ("name", "arguments"), [("incremental_ingestion", ["missing"]), ("rag_pipeline", []), ("hybrid_search", [])]
)
def test_an_error_of_an_example_is_a_line(
    name: str, arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    find = importlib.util.find_spec
    without_engine = lambda package, *of: None if package == "milvus_lite" else find(package, *of)  # noqa: E731
    monkeypatch.setattr(importlib.util, "find_spec", without_engine)
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    said = capsys.readouterr().err
    line = said if ended.value.code == 1 else f"{said}{ended.value.code}\n"  # a text goes to stderr when Python ends
    assert re.fullmatch(r"\S.+\n", line)


def test_a_hybrid_search_finds_what_either_arm_misses(capsys: pytest.CaptureFixture[str]) -> None:
    main_of("hybrid_search")()
    lines = capsys.readouterr().out.splitlines()
    found = {
        (lines[at], lines[at + by].split()[0]): lines[at + by].split()[1:] for at in (0, 5, 10) for by in range(1, 5)
    }
    notebook = "My notebook won't turn on"
    assert found["E-4711", "sparse"][0] == "e4711"
    assert found[notebook, "sparse"] == []
    assert found[notebook, "dense"][:5] == ["power", "(bm25", "-,", "cosine", "1.00)"]
    for mode in ("hybrid", "weights"):
        assert [found[question, mode][0] for question in (lines[0], lines[5], lines[10])] == ["e4711", "power", "e4712"]
    assert "-" not in " ".join(found["E-4711", "hybrid"])
    assert lines[15] == "the statistics are exact"
