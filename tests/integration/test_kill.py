"""The short form of scripts/soak/kill_test.py."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

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


@pytest.mark.usefixtures("embedded")
def test_killed_writer_loses_no_acknowledged_chunk_and_no_count(tmp_path: Path) -> None:
    assert_nothing_lost(tmp_path, "writer", 4)


@pytest.mark.usefixtures("lite2")
def test_killed_engine_loses_no_acknowledged_chunk_and_no_count(tmp_path: Path) -> None:
    assert_nothing_lost(tmp_path, "engine", 2)


@pytest.mark.usefixtures("embedded")
def test_killed_repair_can_be_run_again(tmp_path: Path) -> None:
    assert_nothing_lost(tmp_path, "repair", 2)


@pytest.mark.usefixtures("embedded")
def test_killed_process_with_two_index_objects_loses_nothing(tmp_path: Path) -> None:
    assert_nothing_lost(tmp_path, "two", 1)


@pytest.mark.usefixtures("embedded")
@pytest.mark.parametrize("job", ["copy", "bulk", "reindex", "ingest", "drop"])
def test_killed_job_leaves_a_sound_index_and_comes_to_its_end_when_run_again(tmp_path: Path, job: str) -> None:
    if job == "bulk":
        pytest.importorskip("pyarrow")
    assert_nothing_lost(tmp_path, job, 1)
