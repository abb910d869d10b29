"""The command line as users run it: processes of their own, on the embedded engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rag_bm25 import BM25Index, VerifyReport

pytest.importorskip("milvus_lite")

ROOT = Path(__file__).parents[2]
ROWS = 3_000
COMMAND = (sys.executable, "-m", "rag_bm25")


@pytest.fixture
def environment() -> dict[str, str]:
    """No terminal, no settings of the user's, and this source tree."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MILVUS", "FORCE_COLOR"))}
    return {**kept, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}


@pytest.fixture
def run(tmp_path: Path, environment: dict[str, str]) -> Any:
    def run(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, *arguments], cwd=tmp_path, env={**environment, **more}, capture_output=True, text=True
        )

    return run


def verified(folder: Path) -> VerifyReport:
    """Verify the index in this process, which need not start first."""
    with BM25Index.open(folder / "rag_bm25.db", "docs", read_only=True) as index:
        return index.verify()


def write_rows(path: Path, number: int) -> None:
    rows = ({"id": f"r{n}", "text": f"row {n} about topic{n % 97} 劳动合同"} for n in range(number))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_from_a_folder_to_an_explained_hit(tmp_path: Path, run: Any) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "law.txt").write_text("用人单位解除劳动合同，应当出具证明。", encoding="utf-8")
    (docs / "note.md").write_text("Milvus stores sparse vectors.")

    first = run("ingest", "docs")
    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout.startswith("2 files, 2 chunks: 2 added")

    found = run("search", "解除勞動合同", "--json", "--explain", MILVUS_URI="./rag_bm25.db")
    assert (found.returncode, found.stderr) == (0, "")
    (hit,) = json.loads(found.stdout)
    place = {"start_index": 0, "end_index": 18, "title": "law"}
    assert (hit["id"], hit["metadata"]) == ("docs/law.txt#0", {"source": "docs/law.txt", "chunk": 0, **place})
    assert hit["explanation"]["value"] == pytest.approx(hit["score"], rel=1e-5)

    (docs / "law.txt").write_text("")
    assert json.loads(run("ingest", "docs", "--prune", "--json").stdout)["deleted"] == 1
    assert verified(tmp_path).num_chunks == 1


def test_what_does_not_exist_is_not_created(tmp_path: Path, run: Any) -> None:
    result = run("search", "q")
    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr == "error: index 'docs' not found at ./rag_bm25.db; `rag-bm25 ingest` creates one\n"
    assert list(tmp_path.iterdir()) == []


# Presses Ctrl-C, for the program and its engine, when the first batch is written.
CTRL_C = """
import logging, os, signal

class CtrlC(logging.Handler):
    def emit(self, record):
        if record.event == "batch":
            logger.removeHandler(self)
            os.killpg(0, signal.SIGINT)

logger = logging.getLogger("rag_bm25")
logger.setLevel(logging.INFO)
logger.addHandler(CtrlC())
"""


@pytest.fixture
def interrupted(tmp_path: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """An ingestion of 3,000 rows that got Ctrl-C after its first batch, engine included."""
    write_rows(tmp_path / "rows.jsonl", ROWS)
    (tmp_path / "sitecustomize.py").write_text(CTRL_C, encoding="utf-8")  # what Python runs at its start
    return subprocess.run(
        [*COMMAND, "ingest", "rows.jsonl", "--progress"],
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        start_new_session=True,
    )


@pytest.mark.slow
def test_ctrl_c_keeps_what_was_acknowledged_and_running_again_continues(
    interrupted: subprocess.CompletedProcess[str], tmp_path: Path, run: Any
) -> None:
    assert interrupted.returncode == 130
    assert "error: interrupted: everything acknowledged is stored" in interrupted.stderr
    assert "Traceback" not in interrupted.stderr
    report = verified(tmp_path)
    assert report.ok
    assert 1_000 <= report.num_chunks < ROWS
    again = json.loads(run("ingest", "rows.jsonl", "--json").stdout)
    assert again["added"] == ROWS - report.num_chunks
    assert verified(tmp_path).ok
