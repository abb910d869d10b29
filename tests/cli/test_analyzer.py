"""``--analyzer``: an index with an analyzer of its user's own, from every command."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from support.command_line import Databases, assert_fails, ingest_texts, run, run_json, write_module
from support.log_writing import read_config

from rag_bm25 import BM25Index
from rag_bm25.analysis.contract import contract_of, differences
from rag_bm25.statistics.log.settings import write_config

CODE = '''
import re

RUN = re.compile("[぀-ゟ]+|[゠-ヿ]+|[一-鿿]+|[a-z0-9]+")

def tokens(text):
    """Japanese and Latin runs of one script."""
    return RUN.findall(text.lower())

class Tokenizer:
    def __call__(self, text):
        return tokens(text)

def make():
    return tokens

def letters(text):
    return list(text)

def as_text(text):
    return text

async def later(text):
    return [text]

def fails(text):
    raise RuntimeError("401: sk-abcdefghij0123456789")
'''
NAMED = ("--analyzer", "my_tokens:tokens")
MISSING = "the index was made with the analyzer my_tokens.tokens: pass that callable as analyzer"
BY_NAME = "on the command line, name it by --analyzer MODULE:NAME"
TEXTS = {"noodles": "ラーメンを食べる", "notice": "契約の解除は三十日前に通知する", "milvus": "検索は Milvus を使う"}


@pytest.fixture
def rows(databases: Databases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An ingested file, and a module of analyzers in the current folder."""
    write_module(tmp_path, "my_tokens", CODE, monkeypatch)
    monkeypatch.delenv("RAG_BM25_ANALYZER", raising=False)
    return ingest_texts(tmp_path, TEXTS, *NAMED)


def found(*arguments: object) -> list[str]:
    return [hit["id"] for hit in run_json("search", "ラーメン", *arguments)]


@pytest.mark.parametrize("name", ["tokens", "Tokenizer", "make"])
def test_an_index_is_searched_with_its_analyzer(rows: Path, name: str) -> None:
    assert found("--analyzer", f"my_tokens:{name}") == ["noodles"]
    with BM25Index.open("./rag_bm25.db", "docs", analyzer=sys.modules["my_tokens"].tokens) as index:
        assert index.encode_documents(["ラーメンを"])[0].ids.size == 2
        assert index.verify().ok


def test_the_environment_may_name_it(rows: Path) -> None:
    assert run("search", "ラーメン", env={"RAG_BM25_ANALYZER": "my_tokens:tokens"}).stdout.startswith(" 1  ")


@pytest.mark.parametrize(
    "command",
    [
        ["search", "ラーメン"],
        ["explain", "ラーメン", "noodles"],
        ["why", "ラ"],
        ["verify"],
        ["repair"],
        ["ingest", "rows.jsonl"],
        ["reindex", "--to-collection", "other"],
        ["reindex", "--to-collection", "other", "--set", "k1=1.2"],
    ],
)
def test_what_analyses_asks_for_it(rows: Path, command: list[str]) -> None:
    refused = run(*command)
    assert_fails(refused, MISSING)
    assert BY_NAME in refused.stderr
    assert run(*command, *NAMED).exit_code == 0


@pytest.mark.parametrize(
    "command",
    [
        ["stats"],
        ["list"],
        ["list", "sources"],
        ["list", "chunks"],
        ["show", "noodles"],
        ["terms"],
        ["calibrate"],
        ["verify", "--fast"],
        ["delete", "notice"],
        ["copy", "--to-uri", "copy.db"],
        ["drop", "--yes"],
    ],
)
def test_what_analyses_nothing_needs_none(rows: Path, command: list[str]) -> None:
    result = run(*command)
    assert (result.exit_code, "analyzer" in result.output) == (0, False)


def test_a_copy_has_the_analyzer_of_the_index(rows: Path) -> None:
    assert run("copy", "--to-uri", "copy.db").exit_code == 0
    assert found("--uri", "copy.db", *NAMED) == ["noodles"]


def test_an_unknown_name_creates_no_index(rows: Path, databases: Databases) -> None:
    assert_fails(run("ingest", rows, "--collection", "other", "--analyzer", "my_tokens:fails"), "--analyzer")
    assert not databases["./rag_bm25.db", "other"].exist


def test_a_new_index_may_have_another_analyzer(rows: Path) -> None:
    letters = ("--analyzer", "my_tokens:letters")
    assert run("reindex", "--to-collection", "letters", *letters).exit_code == 0
    assert found("--collection", "letters", *letters) == ["noodles"]
    built_in = ("--analyzer", "rag_bm25.analysis:Analyzer", "--set", "stem=false")
    assert run("reindex", "--to-collection", "built_in", *built_in).exit_code == 0
    assert found("--collection", "built_in") == ["noodles"]
    with BM25Index.open("./rag_bm25.db", "built_in") as index:
        assert index.config.analyzer.stem is False  # type: ignore[union-attr]
        assert index.verify().ok


def test_an_index_of_an_earlier_format_keeps_no_analyzer_by_itself(rows: Path, databases: Databases) -> None:
    store = databases.store("./rag_bm25.db", "docs")
    stored = read_config(store)
    with pytest.MonkeyPatch.context() as before:
        before.setattr("rag_bm25.statistics.log.settings.FORMAT", 2)
        write_config(store, stored)
    assert_fails(run("reindex", "--to-collection", "other"), MISSING)
    assert run("reindex", "--to-collection", "other", *NAMED).exit_code == 0
    assert found("--collection", "other", *NAMED) == ["noodles"]


def test_another_analyzer_is_refused_in_a_short_message(rows: Path) -> None:
    refused = run("stats", "--analyzer", "my_tokens:letters")
    assert_fails(refused, "the index was created with other parameters: tokens of ")
    assert refused.stderr.count("differ") == 8
    stored, given = (contract_of(getattr(sys.modules["my_tokens"], name)) for name in ("tokens", "letters"))
    assert f"; and {len(differences(stored, given)) - 8} more" in refused.stderr


RULE = "must be a function of a text, or a function without arguments that returns one, got "


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("none_such:x", ": there is no module 'none_such', here or among the installed packages"),
        ("my_tokens:Nothing", ": my_tokens has no 'Nothing'"),
        ("my_tokens:RUN", f" {RULE}Pattern"),
        ("my_tokens:later", f" {RULE}coroutine function of (text)"),
        ("my_tokens:as_text", " has failed: ParameterError: analyzer must return a list of str"),
        ("my_tokens:fails", " has failed: RuntimeError: 401: ***"),
    ],
)
def test_what_is_no_analyzer_is_refused_before_the_index_opens(
    rows: Path, databases: Databases, name: str, says: str
) -> None:
    databases.opened.clear()
    assert_fails(run("search", "ラーメン", "--analyzer", name), f"--analyzer {name}{says}")
    assert databases.opened == []


def test_settings_of_the_built_in_analyzer_are_refused_beside_it(rows: Path) -> None:
    refused = run("ingest", rows, "--collection", "other", "--set", "stem=false", *NAMED)
    assert_fails(refused, "stem must be settings of the built-in analyzer")


def test_serve_asks_for_it_before_anybody_can(databases: Databases, rows: Path) -> None:
    pytest.importorskip("mcp", reason='serving needs rag-bm25[serve]: pip install ".[serve]"')
    run("delete", *TEXTS)  # a server of an empty index searches for nothing at its start
    assert_fails(run("serve", "--http", "127.0.0.1:0"), MISSING)


def test_a_judged_set_is_measured_with_it(rows: Path, tmp_path: Path) -> None:
    folder = tmp_path / "judged"
    (folder / "qrels").mkdir(parents=True)
    documents = [{"_id": id_, "title": "", "text": text} for id_, text in TEXTS.items()]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, documents)))
    (folder / "queries.jsonl").write_text(json.dumps({"_id": "q", "text": "ラーメン"}))
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\tnoodles\t1\n")
    measured: Any = run("evaluate", folder, "--json", *NAMED)
    assert json.loads(measured.stdout)["config"]["analyzer"] is None  # as of any callable
