"""The page on moving from milvus-lite 2.5 to 3: its commands run as printed."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from support import engines

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "moving.md").read_text(encoding="utf-8")
LAWS = ["第三十六条 协商一致，可以解除劳动合同。", "第三条 劳动合同的订立", "The notice period is thirty days."]


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def environment(folder: Path, python: str) -> None:
    """Write the programs of an environment, as pip would."""
    folder.mkdir()
    command = folder / "rag-bm25"
    command.write_text(f'#!/bin/sh\nexec "{python}" -m rag_bm25 "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    (folder / "milvus-lite").symlink_to(Path(python).with_name("milvus-lite"))


@pytest.mark.timeout(300)
def test_the_commands_move_an_index_through_a_server_and_back(tmp_path: Path) -> None:
    if not engines.lite_version().startswith("2.") or not engines.lite3_python:
        pytest.skip("needs milvus-lite 2.5, and a Python with milvus-lite 3 named by RAG_BM25_LITE3_PYTHON")
    for name, python in {"old": sys.executable, "new": str(Path(engines.lite3_python).absolute())}.items():
        (tmp_path / name).mkdir()
        environment(tmp_path / name / "bin", python)
    rows = [json.dumps({"id": str(number), "text": text}) for number, text in enumerate(LAWS)]
    (tmp_path / "laws.jsonl").write_text("\n".join(rows), encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if "pip install" not in line]
    script = "\n".join(["set -e", *lines]).replace("19531", str(free_port())).replace("&& wait", "; wait || true")
    paths = {"PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env={**os.environ, **paths}, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    said = re.sub(r"[\d,]+ (chunks|terms|rows)", r"\1", re.sub(r"in \d+\.\d s", "in s", run.stdout))
    printed = re.sub(r"[\d,]+ (chunks|terms|rows)", r"\1", re.sub(r"in \d+\.\d s", "in s", PAGE))
    for line in re.findall(r"^```text\n(.*?)^```$", printed, re.MULTILINE | re.DOTALL):
        for expected in line.splitlines():
            assert expected.split(" in milvus-lite")[0] in said
    assert "解除劳动合同" in (tmp_path / "after.txt").read_text(encoding="utf-8")
