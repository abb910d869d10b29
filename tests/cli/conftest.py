"""What the tests of the command line share."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.command_line import Databases, run


@pytest.fixture
def databases(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Databases:
    """Replace Milvus, and work in a folder of one's own."""
    databases = Databases()
    monkeypatch.setattr("rag_bm25.store.milvus.MilvusStore", databases.store)
    monkeypatch.setattr(
        "rag_bm25.store.milvus.address.is_missing_file",
        lambda uri: all(str(uri) != known for known, _ in databases),
    )
    monkeypatch.chdir(tmp_path)
    for name in ("MILVUS_URI", "MILVUS_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    return databases


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """An ingested folder of three files."""
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "law.txt").write_text("用人单位解除劳动合同，应当出具证明。", encoding="utf-8")
    (folder / "milvus.md").write_text("# Milvus\n\nMilvus stores sparse vectors.", encoding="utf-8")
    row = {"id": "r1", "text": "sparse rows", "metadata": {"page": 3}}
    (folder / "rows.jsonl").write_text(json.dumps(row) + "\n")
    assert run("ingest", folder).exit_code == 0
    return folder
