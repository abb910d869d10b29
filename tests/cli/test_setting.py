"""``rag-bm25 set``, and where what it sets is shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.command_line import assert_fails, run, run_json

pytestmark = pytest.mark.usefixtures("databases", "docs")


def found(query: str) -> list[str]:
    return [hit["id"] for hit in run_json("search", query)]


def test_synonyms_of_a_file_are_kept_and_taken_away(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("scanty, sparse\n")
    assert found("scanty") == []
    assert run_json("set", "--synonyms", "words.txt")["expansion"]["synonyms"]
    assert sorted(found("scanty")) == ["docs/milvus.md#0", "r1"]
    assert run_json("stats")["searches_by"] == {"synonyms": "1 rule"}
    assert "synonym of 'scanti', from the index" in run("explain", "scanty", "r1").stdout
    run("set", "--expansion", "synonyms=none")
    assert found("scanty") == []


def test_what_is_not_given_stays_and_is_shown() -> None:
    run("set", "--weighting", "idf=lucene,k3=none", "--expansion", "fuzzy")
    run("set", "--weighting", "idf=plus")
    shown = run("set").stdout
    assert run_json("set")["idf"] == "plus"
    lines = [line.split() for line in shown.splitlines()]
    assert ["idf", "plus"] in lines
    assert ["k3", "none"] in lines
    assert run_json("stats")["searches_by"] == {"idf": "plus", "k3": "none", "fuzzy": "True"}
    assert "idf plus, k3 none, fuzzy True" in run("stats").stdout


def test_stats_of_the_defaults_name_nothing() -> None:
    assert run_json("stats")["searches_by"] == {}
    assert "searches by" not in run("stats").stdout


def test_wrong_uses_are_refused(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("scanty, sparse\n")
    for options in (["--synonyms", "words.txt", "--expansion", "synonyms=words.txt"], ["--weighting", "idf=best"]):
        assert run("set", *options).exit_code == 2
    assert_fails(run("set", "--synonyms", "none.txt"), "none.txt")
    assert_fails(run("set", "--collection", "other", "--weighting", "idf=plus"), "other")
    assert run_json("stats")["searches_by"] == {}
