"""What `make demo` runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("milvus_lite")

ROOT = Path(__file__).parents[1]


def demo(*arguments: str) -> str:
    result = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "demo" / "demo.py"), *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


@pytest.mark.slow
def test_the_demo_answers_explains_and_measures(tmp_path: Path) -> None:
    printed = demo("--keep", str(tmp_path / "demo.db"))
    assert (tmp_path / "demo.db").exists()
    assert len(printed.splitlines()) < 60
    assert "300 chunks in " in printed
    first_hits = re.findall(r"\n\n.+\((?:Chinese|Traditional|English).*\)\n *[0-9.]+  (\S+)", printed)
    assert first_hits == ["app-faq.zh#4", "dormitory-lease.zh#8", "battery-sds.en#11"]
    assert "query weight, product of:" in printed
    measured = re.findall(r"(?:nDCG@10 |        ) ([0-9.]+)(?=\n|  )", printed.partition("Measured on 40")[2])
    assert len(measured) == 4
    assert min(map(float, measured)) > 0.75
