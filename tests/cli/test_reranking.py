"""``--rerank``: rerankers by their names, what they are made of, and what goes wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.command_line import Databases, assert_fails, ingest_texts, run, run_json, write_module

CODE = '''
def by_length(query, hits):
    """Prefer long texts."""
    return [len(hit.text) for hit in hits]

class Encoder:
    def score(self, text_pairs):
        return [len(text) + len(query) for query, text in text_pairs]

class Callable:
    def __call__(self, query, hits):
        return by_length(query, hits)

class Large:
    def __init__(self, size):
        self.size = size

class Embeddings:
    def embed_query(self, text):
        return [1.0, len(text)]

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]

encoder = Encoder()
number = 3

def make():
    return Encoder()

def make_function():
    return by_length

def too_few(query, hits):
    return [1.0]

def none(query, hits):
    pass

def as_text(query, hits):
    return ["1.5" for _ in hits]

def huge(query, hits):
    return [10**400 for _ in hits]

async def later(query, hits):
    return [1.0 for _ in hits]

class Later:
    async def __call__(self, query, hits):
        return [1.0 for _ in hits]

def breaks_off(query, hits):
    yield 1.0
    raise ValueError("halfway")

def takes_all(query, hits):
    hits.clear()
    return []

def fails(query, hits):
    raise RuntimeError("401: key hunter22 of https://kim:pass@host is wrong,\\nsk-abcdefghij0123456789")
'''

TEXTS = {"short": "notice period", "long": "notice period of thirty days for both sides", "none": "nothing else"}


@pytest.fixture
def rows(databases: Databases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An ingested file, and a module of rerankers in the current folder."""
    write_module(tmp_path, "my_reranker", CODE, monkeypatch)
    return ingest_texts(tmp_path, TEXTS)


def found(*arguments: object) -> list[tuple[str, float]]:
    return [(hit["id"], hit["score"]) for hit in run_json("search", "notice period", *arguments)]


@pytest.mark.parametrize("name", ["by_length", "Callable", "make_function", "encoder", "Encoder", "make"])
def test_functions_and_cross_encoders_rerank(rows: Path, name: str) -> None:
    assert [id_ for id_, _ in found()] == ["short", "long"]
    scores = {"by_length": 43.0, "Callable": 43.0, "make_function": 43.0}
    assert found("--rerank", f"my_reranker:{name}")[0] == ("long", scores.get(name, 56.0))


@pytest.mark.usefixtures("rows")
def test_proximity_needs_no_module() -> None:
    reranked = dict(found("--rerank", "proximity"))
    assert all(reranked[id_] > score for id_, score in found())
    explained = run("explain", "notice period", "short", "--rerank", "proximity").stdout
    assert f"reranked: {reranked['short']:.4f} by proximity, in place of the score of the search" in explained
    assert run("why", "notice period", "long", "--rerank", "proximity").stdout.startswith("'long' is found")


def test_hybrid_searches_rerank(rows: Path) -> None:
    embedding = ("--embedding", "my_reranker:Embeddings", "--collection", "hybrid")
    assert run("ingest", rows, "--chunk-size", 80, *embedding).exit_code == 0
    reranked = found(*embedding, "--rerank", "my_reranker:by_length")
    assert reranked == [("long", 43.0), ("short", 13.0), ("none", 12.0)]


def test_explanations_and_reasons_name_the_reranker(rows: Path) -> None:
    rerank = ("--rerank", "my_reranker:by_length")
    explained = run("explain", "notice period", "long", *rerank).stdout
    assert "reranked: 43.0000 by by_length, in place of the score of the search" in explained
    why = run("why", "notice period", "short", *rerank, "-k", 1).stdout
    assert why == "'short' is not found: without rerank, it is a hit\n"


RULE = (
    "must be a function of the query and hits, a cross-encoder with score(text_pairs), or a function without "
    "arguments that returns one of these, got "
)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("my_reranker:number", f" {RULE}int"),
        ("my_reranker:later", f" {RULE}coroutine function of (query, hits)"),
        ("my_reranker:Later", f" {RULE}coroutine function"),
        ("my_reranker:Embeddings", f" {RULE}Embeddings"),
        ("my_reranker:Large", " has failed: TypeError: "),
        ("proximity:2", ": there is no module 'proximity', here or among the installed packages; proximity is given"),
    ],
)
def test_what_is_no_reranker_is_refused_before_the_index_opens(
    rows: Path, databases: Databases, name: str, says: str
) -> None:
    databases.opened.clear()
    assert_fails(run("search", "notice", "--rerank", name), f"--rerank {name}{says}")
    assert databases.opened == []


@pytest.mark.parametrize(
    ("name", "command", "wanted"),
    [
        ("too_few", ("search", "notice"), 2),
        ("huge", ("explain", "notice", "long"), 2),
    ],
)
def test_wrong_scores_are_refused(rows: Path, name: str, command: tuple[str, ...], wanted: int) -> None:
    says = f"--rerank my_reranker:{name} must return a finite score for each of {wanted} hits, got "
    assert_fails(run(*command, "--rerank", f"my_reranker:{name}"), says)


def test_a_name_alone_is_that_of_proximity(rows: Path) -> None:
    result = run("search", "notice", "--rerank", "Proximity")
    assert result.exit_code == 2
    assert "must be proximity or MODULE:NAME, such as " in " ".join(result.stderr.split())


def test_what_a_reranker_raises_is_one_line_without_secrets(rows: Path) -> None:
    broken = run("search", "notice", "--rerank", "my_reranker:breaks_off")
    assert_fails(broken, "--rerank my_reranker:breaks_off has failed: ValueError: halfway")
    result: Any = run("search", "notice", "--rerank", "my_reranker:fails", env={"SOME_KEY": "hunter22"})
    says = "--rerank my_reranker:fails has failed: RuntimeError: 401: key *** of https://***@host is wrong, ***"
    assert_fails(result, says)
    for secret in ("hunter22", "pass@", "abcdefghij"):
        assert secret not in result.output
