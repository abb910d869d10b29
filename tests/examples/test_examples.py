"""The example does what it says."""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import engines

from rag_bm25 import TLS, BM25Index, StoreError

EXAMPLE = Path(__file__).resolve().parents[2] / "scripts" / "examples" / "incremental_ingestion.py"
main: Callable[..., int] = runpy.run_path(str(EXAMPLE))["main"]
pytestmark = pytest.mark.skipif(not engines.lite_version(), reason="milvus-lite is not installed")


def test_an_incremental_ingestion_follows_its_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, uri = tmp_path / "handbook", str(tmp_path / "rag.db")
    folder.mkdir()
    (folder / "a.md").write_text("Apples are red.", encoding="utf-8")
    (folder / "b.md").write_text("香蕉是黄色的。", encoding="utf-8")
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
    assert main([str(tmp_path / "docs"), "--uri", str(tmp_path / "rag.db")]) == 1
    assert "docs/bad.txt" in capsys.readouterr().err


def test_an_incremental_ingestion_reports_an_empty_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "docs").mkdir()
    rows, given = tmp_path / "docs" / "a.jsonl", [str(tmp_path / "docs"), "--uri", str(tmp_path / "rag.db")]
    rows.write_text('{"id": "1", "text": "x"}\nbad\n')
    assert main(given) == 1
    rows.unlink()
    assert main(given) == 1
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
    assert main([str(tmp_path), "--chunk-size", "400"]) == 1
    assert capsys.readouterr().err == "nothing listens\n"
    assert opened.pop("config").chunk_size == 400
    assert opened == {"uri": variables["URI"], "token": variables["TOKEN"], "tls": TLS(ca_file=variables["TLS_CA"])}
    monkeypatch.setenv("MILVUS_URI", "http://milvus:19530")
    main([str(tmp_path)])
    assert opened["tls"] is None  # certificates are for https


def test_an_error_of_an_incremental_ingestion_is_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "missing"), "--uri", str(tmp_path / "rag.db")]) == 1
    assert re.fullmatch(r"\S.+\n", capsys.readouterr().err)
