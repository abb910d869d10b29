"""``--embedding``: models by their names, their vectors, and what goes wrong."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from support.command_line import Databases, assert_fails, run, run_json, write_module

from rag_bm25.cli.importing import hide_secrets

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"

MORE = """
class Wide(Pairs):
    def embed_query(self, text):
        return super().embed_query(text) * 2

class Failing(Pairs):
    def embed_documents(self, texts):
        raise RuntimeError("401: key hunter22 of https://kim:pass@host is wrong,\\nsk-abcdefghij0123456789")

class Scalar(Pairs):
    def embed_query(self, text):
        return 3

def make(*_):
    return Pairs()

def refuse():
    raise ValueError("OPENAI_API_KEY is not set")

made = Pairs()
number = 3
"""


@pytest.fixture
def model(databases: Databases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The model of the page, in the current folder."""
    (code,) = re.findall(
        r"^```python\n(# my_model.py.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    write_module(tmp_path, "my_model", code + MORE, monkeypatch)
    monkeypatch.delenv("RAG_BM25_EMBEDDING", raising=False)


@pytest.fixture
def hybrid(model: Any, tmp_path: Path) -> Path:
    """A folder, ingested with the model."""
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "law.txt").write_text("用人单位解除劳动合同，应当出具证明。", encoding="utf-8")
    (folder / "milvus.txt").write_text("Milvus stores sparse vectors.", encoding="utf-8")
    (folder / "kiwi.txt").write_text("kiwis grow on vines", encoding="utf-8")
    assert run("ingest", folder, "--embedding", "my_model:Pairs").exit_code == 0
    return folder


EMBEDDING = ("--embedding", "my_model:Pairs")


@pytest.mark.parametrize("name", ["Pairs", "make", "made"])
def test_a_class_a_function_and_a_model_are_taken(hybrid: Path, name: str) -> None:
    hits = run_json("search", "sparse vectors", "--embedding", f"my_model:{name}")
    assert hits[0]["id"] == "docs/milvus.txt#0"
    assert len(hits) == 3
    assert hits[0]["sparse_score"] > 0
    assert hits[0]["dense_score"] > hits[1]["dense_score"]


def test_the_variable_names_the_model_as_well(hybrid: Path) -> None:
    assert len(run_json("search", "sparse", "--json")) == 1
    env = {"RAG_BM25_EMBEDDING": "my_model:Pairs"}
    assert run("search", "sparse", "--json", env=env).stdout.count('"dense_score"') == 3


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--must", "vines"], "--syntax, --must, --must-not, --phrase and --slop would be ignored"),
        (["--weighting", "k3=2"], "weighting is not supported here: a dense search has no terms"),
        (["--rerank", "my_model:make"], "rerank is not supported here: a dense search has no query text"),
    ],
)
def test_a_dense_search_refuses_options_of_words(
    hybrid: Path, databases: Databases, options: list[str], reason: str
) -> None:
    databases.opened.clear()
    result = run("search", "vines", *EMBEDDING, "--mode", "dense", *options)
    assert (result.exit_code, databases.opened) == (2, [])
    assert reason in " ".join(result.stderr.split())


def test_modes(hybrid: Path) -> None:
    dense = run_json("search", "vines", *EMBEDDING, "--mode", "dense", "--search-params", "ef=200")
    assert [len(dense), dense[0]["id"]] == [3, "docs/kiwi.txt#0"]
    assert dense[0]["score"] <= 1.0001
    assert "kiwis grow" in run("search", "vines", *EMBEDDING, "--mode", "dense").stdout
    sparse = run_json("search", "vines", *EMBEDDING, "--mode", "sparse")
    assert sparse == run_json("search", "vines", "--mode", "sparse")
    assert [hit["id"] for hit in sparse] == ["docs/kiwi.txt#0"]
    explained = run_json("search", "vectors", *EMBEDDING, "--explain", "--group", "source", "-k", "1")
    assert explained[0]["explanation"]["value"] == pytest.approx(explained[0]["score"])
    assert "0.55 = weight" in run("search", "vectors", *EMBEDDING, "--explain").stdout


def test_without_the_model_words_are_searched_for_and_that_is_said(hybrid: Path) -> None:
    result = run("search", "sparse")
    assert "docs/milvus.txt#0" in result.stdout
    assert result.stderr.startswith("searching by words alone: the index has dense vectors, too")
    assert run("search", "sparse", "--mode", "sparse").stderr == ""


def test_only_new_and_changed_texts_are_embedded(hybrid: Path) -> None:
    assert "3 unchanged" in run("ingest", hybrid, "--embedding", "my_model:Failing").stdout
    (hybrid / "kiwi.txt").write_text("kiwis grow in New Zealand")
    failed = run("ingest", hybrid, "--embedding", "my_model:Failing")
    assert failed.exit_code == 1
    assert "1 updated" in run("ingest", hybrid, *EMBEDDING).stdout


def test_writing_needs_the_model(hybrid: Path) -> None:
    (hybrid / "new.txt").write_text("new")
    expected = (
        "the index has dense vectors of dimension 64: give the model that makes them, as --embedding MODULE:FACTORY"
    )
    assert_fails(run("ingest", hybrid), expected)
    assert len(run_json("list", "sources")) == 3


@pytest.mark.parametrize("command", [("ingest", "docs"), ("search", "sparse")])
def test_another_dimension_is_answered(hybrid: Path, command: tuple[str, str]) -> None:
    expected = "the index has vectors of dimension 64, and those of my_model:Wide have 128: give the model that it was"
    assert_fails(run(*command, "--embedding", "my_model:Wide"), expected)


@pytest.mark.parametrize("command", [("ingest", "docs"), ("search", "sparse")])
def test_an_index_without_dense_vectors_takes_no_model(model: Any, docs: Path, command: tuple[str, str]) -> None:
    assert_fails(run(*command, *EMBEDDING), "the index has no dense vectors, since it was made without --embedding")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("my_model:number", "or a function without arguments that returns it, got int"),
        ("my_model:refuse", "--embedding my_model:refuse has failed: ValueError: OPENAI_API_KEY is not set"),
        ("my_model:Scalar", "embed_query must return a vector, got int"),
        ("broken_model:x", "broken_model cannot be imported: SyntaxError"),
    ],
)
def test_a_model_that_cannot_be_had_is_answered(
    model: Any, databases: Databases, tmp_path: Path, name: str, says: str
) -> None:
    (tmp_path / "broken_model.py").write_text("def\n")
    (tmp_path / "a.txt").write_text("text")
    assert_fails(run("ingest", "a.txt", "--embedding", name), says)
    assert not any(one.exist for one in databases.values())


def test_a_name_without_a_module_is_wrong_usage(model: Any, databases: Databases) -> None:
    result = run("search", "q", "--embedding", "Pairs")
    assert (result.exit_code, "must be MODULE:FACTORY" in result.stderr, databases.opened) == (2, True, [])


def test_what_a_model_raises_is_one_line_without_secrets(model: Any, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    result = run("ingest", "a.txt", "--embedding", "my_model:Failing", env={"SOME_KEY": "hunter22"})
    assert_fails(result, "failed in embed_documents: RuntimeError: 401: key *** of https://***@host is wrong, ***")


def test_secrets_are_hidden_and_the_rest_is_kept() -> None:
    environment = {"API_KEY": "hunter22", "DB_PASSWORD": "abc", "HOME": "/home/kim"}
    assert hide_secrets("hunter22 abc /home/kim Bearer xyz", environment) == "*** abc /home/kim ***"
    plain = "HTTPSConnectionPool(host='api.example.com', port=443): Max retries exceeded with url /v1/embeddings"
    assert hide_secrets(plain, environment) == plain


@pytest.mark.parametrize(
    "name",
    [
        "File 'l2_supercat_tokenizer_config.json' not found",
        "no model sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2",
        "no folder /models/bge-small-zh-v1_5-onnx-int8",
        "text-embedding-3-large-2024-01-25",
    ],
)
def test_names_of_models_are_no_keys(name: str) -> None:
    assert hide_secrets(name, {}) == name


@pytest.mark.parametrize(
    "key",
    [
        "sk-proj-abc123DEF",
        "hf_abcdefgh1",
        "ghp_0123456789abcdef",
        "AKIAIOSFODNN7EXAMPLE",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc",
        "3f9d2c7be01a4458a6c0d5e2b7f81920",
        "3f9d2c7b-e01a-4458-a6c0-d5e2b7f81920",
        "Zq8xW_2kLm9-vB4nR7tY1uJ6hG3fD5sA",
    ],
)
def test_keys_are_hidden_by_their_form(key: str) -> None:
    assert hide_secrets(f"401: {key} is wrong", {}) == "401: *** is wrong"
