"""``rag-bm25 list`` and ``show``."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from support.command_line import Databases, assert_fails, run, run_json

from rag_bm25 import AnalyzerConfig, BM25Index, IndexConfig
from rag_bm25.cli.listing import render_chunk_line
from rag_bm25.documents.chunks import Chunk

pytestmark = pytest.mark.usefixtures("databases")


def test_indexes_with_their_chunks_and_namespaces(docs: Path) -> None:
    assert run("ingest", docs / "law.txt", "--collection", "manuals", "--namespace", "teamA").exit_code == 0
    assert run_json("list") == [
        {"name": "docs", "chunks": 3, "namespaces": [""]},
        {"name": "manuals", "chunks": 1, "namespaces": ["teamA"]},
    ]
    assert [line.split() for line in run("list").stdout.splitlines()] == [
        ["index", "chunks", "namespaces"],
        ["docs", "3", "default"],
        ["manuals", "1", "teamA"],
    ]


def test_an_index_that_cannot_be_opened_is_listed_with_the_reason(docs: Path, databases: Databases) -> None:
    log = databases["./rag_bm25.db", "docs"].log
    for key in [key for key in log if key.startswith("config")]:
        del log[key]
    (row,) = run_json("list")
    assert "its config is lost" in row["error"]
    assert "docs" in run("list").stdout


def test_a_database_that_is_missing_is_named(databases: Databases) -> None:
    assert_fails(run("list"), "database ./rag_bm25.db not found; `rag-bm25 ingest` creates one")
    assert databases == {}


def test_sources_with_their_chunks(docs: Path) -> None:
    (docs / "long.txt").write_text("\n\n".join("sparse rows " * 40 for _ in range(11)))
    run("ingest", docs)
    run("ingest", docs, "--namespace", "teamA")
    counted = {(row["namespace"], row["source"]): row["chunks"] for row in run_json("list", "sources")}
    assert [source for space, source in counted if not space] == [
        "docs/law.txt", "docs/long.txt", "docs/milvus.md", "docs/rows.jsonl",
    ]  # fmt: skip
    assert counted["", "docs/long.txt"] == counted["teamA", "docs/long.txt"] == 11
    shown = run("list", "sources", "--namespace", "teamA")
    assert shown.stdout.splitlines()[:2] == [
        " 1  docs/law.txt  the namespace 'teamA'", "11  docs/long.txt  the namespace 'teamA'",
    ]  # fmt: skip
    assert shown.stderr == "4 sources, 14 chunks\n"
    some = run_json("list", "sources", "--filter", '{"source": {"$like": "docs/l%"}}', "--namespace", "")
    assert [row["source"] for row in some] == ["docs/law.txt", "docs/long.txt"]


def test_a_source_that_is_no_text_is_none(databases: Databases) -> None:
    with BM25Index.from_store(databases.store("./rag_bm25.db", "docs"), config=IndexConfig(500)) as index:
        index.add(["fig"], metadatas=[{"source": 5}])
    assert [row["source"] for row in run_json("list", "sources")] == [None]


def test_chunks_of_a_source_in_their_order(docs: Path) -> None:
    (docs / "long.txt").write_text("\n\n".join(f"part {n} " + "sparse rows " * 40 for n in range(12)))
    run("ingest", docs)
    assert [row["id"] for row in run_json("list", "chunks", "docs/long.txt")] == [
        f"docs/long.txt#{n}" for n in range(12)
    ]
    lines = run("list", "chunks", "docs/law.txt").stdout.splitlines()
    assert lines == ["docs/law.txt#0  用人单位解除劳动合同，应当出具证明。"]
    limited = run("list", "chunks", "docs/long.txt", "--limit", 5)
    assert (len(limited.stdout.splitlines()), limited.stderr) == (5, "there are more: --limit shows more than 5\n")
    assert len(run_json("list", "chunks", "--limit", 4)) == 4
    assert len(run_json("list", "chunks")) == 15
    both = run_json("list", "chunks", "docs/long.txt", "--filter", '{"chunk": {"$lt": 2}}')
    assert [row["id"] for row in both] == ["docs/long.txt#0", "docs/long.txt#1"]


def test_an_unknown_source_is_an_error(docs: Path) -> None:
    says = "no chunk has the source 'law.txt'; `rag-bm25 list sources` lists the sources"
    assert_fails(run("list", "chunks", "law.txt"), says)


def test_show_has_place_text_neighbours_and_terms(docs: Path) -> None:
    (docs / "guide.md").write_text(
        "# Guide\n\n## Notice\n\n" + "A notice period of two weeks. " * 30 + "\n\n## Cost\n\n" + "Free of charge. " * 40
    )
    run("ingest", docs)
    shown = run_json("show", "docs/guide.md#1", "-k", 3)
    assert (shown["before"], shown["after"]) == ("docs/guide.md#0", "docs/guide.md#2")
    assert len(shown["terms"]) == 3
    printed = run("show", "docs/guide.md#1").stdout
    for part in ("docs/guide.md#1\n", "Guide > Notice", "before      docs/guide.md#0", "notic", shown["text"]):
        assert part in printed
    assert "before" not in run("show", "docs/guide.md#0").stdout
    assert "page" in run("show", "r1").stdout


def test_an_unknown_chunk_is_an_error(docs: Path) -> None:
    assert_fails(run("show", "docs/law.txt"), "no chunk 'docs/law.txt' in the default namespace; `rag-bm25 list chunks")


def test_an_unknown_collection_is_answered_with_those_there_are(docs: Path) -> None:
    says = "(its indexes: docs); `rag-bm25 ingest` creates one"
    assert_fails(run("search", "q", "--collection", "other"), says)


TEXTS = {"a": "apple fig apple", "b": "fig kiwi", "c": "fig plum plum plum", "d": "合同 解除 合同"}


@pytest.mark.parametrize("id_", TEXTS)
def test_the_weight_of_a_term_is_the_score_of_a_query_that_is_the_term(id_: str) -> None:
    plain = AnalyzerConfig(stem=False, bigrams=False, characters=False, word_bigrams=False)
    with BM25Index.open(":memory:", "docs", config=IndexConfig(20, idf="lucene", analyzer=plain)) as index:
        index.add(list(TEXTS.values()), ids=list(TEXTS))
        terms = index.chunk_terms(id_)
        for term in terms:
            (hit,) = [hit for hit in index.search(term.term) if hit.id == id_]
            assert hit.score == pytest.approx(term.weight, rel=1e-6)
            assert term.weight == pytest.approx(term.stored * term.idf)
            assert term.df == sum(any(word == term.term for word in text.split()) for text in TEXTS.values())
            assert term.idf == pytest.approx(math.log(1 + (4 - term.df + 0.5) / (term.df + 0.5)))
        assert {term.term for term in terms} == set(TEXTS[id_].split())
        weights = [term.weight for term in terms]
        assert weights == sorted(weights, reverse=True)
        assert index.chunk_terms(id_, k=1) == terms[:1]


@pytest.mark.parametrize("width", [20, 40, 80])
@pytest.mark.parametrize("text", ["合同的解除" * 40, "a word and 一个词 " * 30, "short", "行\n\n二\t三"])
def test_a_chunk_in_a_list_takes_one_line(text: str, width: int) -> None:
    line = render_chunk_line(Chunk("文件.md#0", text), width)
    assert cell_len(line.plain) <= width
    assert "\n" not in line.plain
    assert line.plain.startswith("文件.md#0  ")


def test_a_long_id_is_never_cut() -> None:
    chunk: Any = Chunk("很长的文件名" * 20 + "#0", "text")
    assert render_chunk_line(chunk, 40).plain.startswith(chunk.id)


def test_the_chunks_of_a_source_come_in_the_order_of_their_places(databases: Databases) -> None:
    with BM25Index.from_store(databases.store("./rag_bm25.db", "docs"), config=IndexConfig(chunk_size=9)) as index:
        places = [{"source": "x.md", "start_index": start} for start in (0, 11, 23)]
        index.add(["first", "second", "third"], ids=["c", "b", "a"], metadatas=places)
    assert [chunk["id"] for chunk in run_json("list", "chunks", "x.md")] == ["c", "b", "a"]


@pytest.mark.parametrize("what", ["indexes", "sources"])
def test_a_source_is_of_chunks(databases: Databases, what: str) -> None:
    result = run("list", what, "guide.md")
    assert result.exit_code == 2
    assert f"not `list {what}`" in result.stderr
    assert databases.opened == []
