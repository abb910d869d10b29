"""The short form of scripts/soak/kill_test.py."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="finds the engine's process in /proc"),
]


def assert_nothing_lost(folder: Path, what: str, rounds: int) -> None:
    from soak.kill_test import KillTest

    test = KillTest(folder, what, seed=1)
    totals = test.run(rounds)
    assert test.faults == []
    assert totals.kills >= rounds
    assert totals.acknowledged_operations
    assert totals.checked_chunks


@pytest.mark.usefixtures("lite2")
def test_killed_engine_loses_no_acknowledged_chunk_and_no_count(tmp_path: Path) -> None:
    assert_nothing_lost(tmp_path, "engine", 2)


@pytest.mark.usefixtures("embedded")
@pytest.mark.parametrize(
    ("what", "rounds"),
    [
        ("writer", 4),
        ("repair", 2),
        ("two", 1),
        ("copy", 1),
        ("reindex", 1),
        ("ingest", 1),
        ("drop", 1),
        ("generation", 1),
    ],
)
def test_what_is_killed_loses_no_acknowledged_chunk_and_no_count_and_comes_to_its_end_when_run_again(
    tmp_path: Path, what: str, rounds: int
) -> None:
    assert_nothing_lost(tmp_path, what, rounds)


@pytest.mark.usefixtures("embedded")
def test_killed_beside_a_full_disk_and_a_clock_that_steps_loses_nothing() -> None:
    if shutil.which("cc") is None or subprocess.run(["unshare", "-rm", "true"], check=False).returncode:
        pytest.skip("no C compiler, or no leave to mount a disk of its own")
    program = Path(__file__).parents[2] / "scripts" / "soak" / "kill_test.py"
    command = [sys.executable, str(program), "--kill", "faults", "--rounds", "3"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = {name.strip(): number for name, _, number in (line.rpartition(" ") for line in done.stdout.splitlines())}
    assert min(int(found[name]) for name in ("full disks", "clock steps", "refused calls", "kills")) > 0, done.stdout
