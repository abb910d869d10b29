"""``rag-bm25 adopt`` over fakes: its options, its output, its exit codes; the engines are in the contract tests."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from support.foreign import Foreign
from support.memory_store import Collections
from typer.testing import CliRunner

from rag_bm25 import IndexConfig
from rag_bm25.adapters import AdoptedEncoder, BM25Encoder
from rag_bm25.cli.app import app

TEXTS = ["Milvus stores sparse vectors.", "用人单位解除劳动合同", "sparse rows"]


@pytest.fixture(autouse=True)
def milvus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Foreign:
    milvus = Foreign(TEXTS, monkeypatch)
    milvus.vectors = [("sparse", BM25Encoder(IndexConfig(chunk_size=500)).encode_documents(["sparse"])[0])]
    monkeypatch.chdir(tmp_path)
    for name in ("MILVUS_URI", "MILVUS_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    return milvus


def run(*arguments: object, env: dict[str, str] | None = None) -> Any:
    return CliRunner().invoke(app, ["adopt", *map(str, arguments)], prog_name="rag-bm25", env=env)


def run_json(*arguments: object) -> Any:
    result = run(*arguments, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    return json.loads(result.stdout)


def test_prints_what_was_counted(milvus: Foreign) -> None:
    result = run("theirs", "--chunk-size", 40, "--progress")
    assert "3/3" in result.stderr
    assert "k1', b'" in result.stdout
    assert result.stdout.endswith(" s, kept in theirs_bm25\n")
    report = run_json("theirs", "--chunk-size", 40)
    assert report.pop("seconds") > 0
    stats = AdoptedEncoder.open("any.db", "theirs").stats()
    assert report["total_length"] == stats.total_length == 60  # 6 words of letters: 48; 7 Chinese ones: 12
    assert {name: report[name] for name in ("name", "num_chunks", "text_field", "filter", "counts")} == {
        "name": "theirs", "num_chunks": 3, "text_field": "text", "filter": "", "counts": "theirs_bm25",
    }  # fmt: skip


@pytest.mark.parametrize(
    "arguments",
    [[], ["theirs", "--idf", "bm42"], ["theirs", "--set", "length_unit=bytes"], ["theirs", "--field", "title:30"]],
)
def test_wrong_usage_exits_with_2_and_opens_nothing(milvus: Foreign, arguments: list[str]) -> None:
    assert run(*arguments).exit_code == 2
    assert milvus.opened == []


def test_the_first_time_needs_the_chunk_size() -> None:
    result = run("theirs")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "error: there are no statistics beside the collection 'theirs'; to adopt it, give --chunk-size and the other "
        "settings that its vectors were made with\n"
    )
    assert run("theirs", "--k1", 1.2).stderr == result.stderr


@pytest.mark.parametrize("arguments", [[], ["--chunk-size", "40"], ["--k1", "1.2"]])
def test_a_collection_that_is_not_there_is_named(arguments: list[str]) -> None:
    result = run("absent", *arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "error: collection 'absent' not found at ./rag_bm25.db\n"


def test_parameters_are_remembered_and_must_stay(milvus: Foreign) -> None:
    options = ("--k1", 1.2, "--b", 0.5, "--set", "length_unit=terms", "--idf", "lucene", "--text-field", "body")
    run_json("theirs", "--chunk-size", 40, *options, "--filter", "n > 1")
    milvus.texts.append("one more")
    report = run_json("theirs")
    assert (report["num_chunks"], report["k1"], report["b"], report["length_unit"]) == (4, 1.2, 0.5, "terms")
    assert milvus.asked[-1] == ("body", "n > 1")
    assert AdoptedEncoder.open("any.db", "theirs").config.idf == "lucene"
    result = run("theirs", "--chunk-size", 41)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "chunk_size: stored 40, given 41" in result.stderr


def test_the_analyzer_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "their_tokens.py").write_text("def tokens(text):\n    return text.split()\n", encoding="utf-8")
    monkeypatch.setattr("sys.path", list(sys.path))
    named = ("--analyzer", "their_tokens:tokens")
    first = run_json("theirs", "--chunk-size", 40, "--set", "length_unit=terms", *named)
    assert run_json("theirs", *named)["num_terms"] == first["num_terms"]
    assert run_json("theirs", "--chunk-size", 40, *named)["num_terms"] == first["num_terms"]
    refused = run("theirs")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "the index was made with the analyzer their_tokens.tokens: pass that callable" in refused.stderr


def test_vectors_are_checked() -> None:
    assert run("theirs", "--chunk-size", 500, "--vector-field", "sparse").exit_code == 0
    result = run("theirs", "--chunk-size", 5, "--vector-field", "sparse", "--output", "file")
    assert result.exit_code == 1
    assert "the vector in field 'sparse' of row 0 was not made with the given parameters" in result.stderr


def test_counts_in_a_file(milvus: Foreign, tmp_path: Path) -> None:
    assert run_json("theirs", "--chunk-size", 40, "--output", "counts.gz")["counts"] == "counts.gz"
    assert milvus.beside == Collections()
    assert BM25Encoder.load(tmp_path / "counts.gz").num_chunks == 3
    result = run("theirs", "--chunk-size", 40, "--output", "nowhere/counts.gz")
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
