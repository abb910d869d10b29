"""``rag-bm25 calibrate``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


from support.command_line import assert_fails, run, run_json

pytestmark = pytest.mark.usefixtures("databases")


def test_calibrate_measures_files_as_ingest_cuts_them(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("ten chars " * 40)
    proposal = run_json("calibrate", tmp_path / "long.txt", "--split-size", 100, "--chunk-overlap", 0)
    assert (proposal["chunks"], proposal["mean_length"], proposal["length_unit"]) == (4, 160.0, "estimated_characters")
    assert (proposal["chunk_size"], round(proposal["ratio"], 2)) == (224, 1.4)
    run("ingest", "long.txt", "--split-size", 100, "--chunk-overlap", 0, "--chunk-size", 224)
    stats = run_json("stats")
    assert (stats["mean_length"], stats["chunk_size"]) == (160.0, 224)
    assert [stats["effective_k1"], stats["effective_b"]] == [proposal["effective_k1"], proposal["effective_b"]]


def test_calibrate_for_people(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x" * 50)
    lines = run("calibrate", tmp_path / "a.txt", "--ratio", 1).stdout.splitlines()
    assert lines[0] == "chunk size 8 estimated characters"
    assert lines[1].split() == ["measured", "1", "chunk,", "mean", "length", "8.0", "estimated", "characters"]
    assert lines[-1].endswith("rag-bm25 ingest --chunk-size 8 --split-size 500")


def test_calibrate_proposes_for_an_index(docs: Path) -> None:
    stats, proposal = run_json("stats"), run_json("calibrate")
    assert (proposal["chunks"], proposal["mean_length"]) == (3, stats["mean_length"])
    assert proposal["chunk_size"] == round(1.4 * stats["mean_length"])
    assert "ingest" not in run("calibrate").stdout


def test_calibrate_of_nothing_fails(docs: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert_fails(run("calibrate", tmp_path / "empty"), "there is no text to measure in")
    assert_fails(run("calibrate", "--namespace", "nobody"), "has no text to measure")
