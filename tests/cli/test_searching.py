"""``rag-bm25 search`` and ``explain``."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


from support.command_line import Databases, assert_fails, run, run_json

from rag_bm25 import BM25Index

pytestmark = pytest.mark.usefixtures("databases")


def test_search_shows_rank_score_id_and_text(docs: Path) -> None:
    lines = run("search", "劳动合同").stdout.splitlines()
    assert lines[0].split()[0] == "1"
    assert float(lines[0].split()[1]) > 0
    assert lines[0].split()[2:] == ["docs/law.txt#0"]
    assert lines[1] == "    用人单位解除劳动合同，应当出具证明。"


def test_the_words_of_a_query_need_no_quotes(docs: Path) -> None:
    assert run("search", "劳动合同", "解除").stdout == run("search", "劳动合同 解除").stdout != ""


def test_search_json(docs: Path) -> None:
    hits = run_json("search", "sparse")
    assert {hit["id"] for hit in hits} == {"docs/milvus.md#0", "r1"}
    assert list(hits[0]) == ["id", "score", "text", "metadata", "namespace"]
    assert hits[0]["score"] >= hits[1]["score"] > 0


def test_search_takes_k_filter_and_idf(docs: Path) -> None:
    assert len(run_json("search", "sparse", "-k", 1)) == 1
    found = run_json("search", "sparse", "--filter", '{"page": {"$gte": 3}}')
    assert [hit["id"] for hit in found] == ["r1"]
    lucene = run_json("search", "sparse", "--filter", '{"page": 3}', "--idf", "lucene")
    assert lucene[0]["score"] != found[0]["score"]


def test_search_explains_each_hit(docs: Path) -> None:
    hits = run_json("search", "sparse vectors", "--explain", "--idf", "lucene")
    assert [hit["explanation"]["value"] for hit in hits] == pytest.approx([hit["score"] for hit in hits])
    printed = run("search", "sparse vectors", "--explain").stdout
    assert printed.count("\n    term") == len(hits) == 2
    assert printed.count("\n    N = 3 chunks") == 2


def test_search_learns_from_chunks_that_are_marked(docs: Path) -> None:
    marked = run_json("search", "sparse", "--relevant", "docs/law.txt#0", "--explain")
    assert {hit["id"] for hit in marked} == {"docs/milvus.md#0", "r1"}  # no term of three chunks is rare and common
    assert "alpha" in run("explain", "sparse", marked[0]["id"], "--relevant", "docs/law.txt#0", "--tree").stdout
    apart = run_json("search", "sparse", "--relevant", "r1", "--irrelevant", "docs/milvus.md#0")
    assert [hit["id"] for hit in apart] == ["r1", "docs/milvus.md#0"]
    swapped = run_json("search", "sparse", "--relevant", "docs/milvus.md#0", "--irrelevant", "r1")
    assert swapped[0]["score"] != apart[0]["score"]


@pytest.mark.parametrize("method", ["rm3", "rocchio"])
def test_search_with_feedback_explains_each_hit(docs: Path, method: str) -> None:
    arguments = ("sparse vectors", "--feedback", method, "--filter", '{"page": 3}')
    (hit,) = run_json("search", *arguments, "--explain")
    assert hit["explanation"]["value"] == pytest.approx(hit["score"])
    tree = run_json("explain", "sparse vectors", "r1", *arguments[1:])
    assert tree == hit["explanation"]
    plain = run_json("explain", "sparse vectors", "r1")
    assert tree != plain


def test_the_binary_independence_model_needs_marked_chunks(docs: Path) -> None:
    assert_fails(run("search", "sparse", "--feedback", "bim"), "feedback=BIM() needs chunks that are marked")
    assert run_json("search", "sparse", "--feedback", "bim", "--relevant", "r1")


@pytest.mark.parametrize(
    ("query", "options", "reason"),
    [
        ("", (), "the query is empty"),
        ("unheard quagmire", (), "no chunk has a word of the query"),
        ("sparse", ("--namespace", "team"), "no chunk is in the namespace 'team'; other namespaces have some"),
        ("sparse", ("--filter", '{"page": 4}'), "without the filter, the search has hits; 'page' has 3"),
    ],
)
def test_nothing_found_is_no_error_and_has_a_reason(
    docs: Path, query: str, options: tuple[str, ...], reason: str
) -> None:
    result = run("search", query, *options)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", f"nothing found: {reason}\n")
    assert run("search", query, *options, "--json").stdout == "[]\n"


def test_why_says_what_a_search_lacks(docs: Path) -> None:
    found = run_json("why", "unheard", "--filter", '{"year": 3}')
    assert [reason["code"] for reason in found["reasons"]] == ["unknown_words"]
    assert (
        run("why", "unheard", "--filter", '{"year": 3}').stdout == "nothing found: no chunk has a word of the query\n"
    )
    assert run("why", "sparse").stdout == "the search has 2 hits\n"
    assert "below the minimum of 50" in run("why", "sparse", "--min-score", 50).stdout


def test_why_says_why_a_chunk_is_no_hit(docs: Path) -> None:
    best, other = run_json("search", "sparse")
    second = run_json("why", "sparse", other["id"], "-k", 1)
    assert (second["rank"], second["score"], second["last_score"]) == (2, other["score"], best["score"])
    assert "it is hit 2 by score, beyond k = 1" in run("why", "sparse", other["id"], "-k", 1).stdout
    assert run("why", "sparse", "docs/law.txt").stdout == "'docs/law.txt' is not found: no chunk has this id\n"


def test_nothing_is_found_in_an_empty_index(docs: Path) -> None:
    run("delete", "--filter", '{"source": {"$like": "docs/%"}}', "--yes")
    assert run("search", "sparse").stderr == "nothing found: the index has no chunks\n"


def test_search_takes_synonyms_of_a_file(docs: Path, tmp_path: Path) -> None:
    rules = tmp_path / "synonyms.txt"
    rules.write_text("劳务协议, 劳动合同\n", encoding="utf-8")
    assert run_json("search", "劳务") == []
    (hit,) = run_json("search", "劳务协议", "--synonyms", rules, "--explain")
    assert (hit["id"], "synonym of" in json.dumps(hit["explanation"])) == ("docs/law.txt#0", True)
    assert "synonym of" in run("explain", "劳务协议", "docs/law.txt#0", "--synonyms", rules).stdout
    rules.write_text("劳动合同\n", encoding="utf-8")
    assert_fails(run("search", "劳务", "--synonyms", rules), f"{rules} line 1: a line must have two words")
    assert_fails(run("search", "劳务", "--synonyms", tmp_path / "none.txt"), "none.txt: No such file or directory")


def test_search_takes_near_spellings_boosts_prefixes_and_min_should_match(docs: Path) -> None:
    pytest.importorskip("rapidfuzz")
    expected = run_json("search", "sparse")
    assert [hit["id"] for hit in run_json("search", "spasre", "--fuzzy")] == [hit["id"] for hit in expected]
    boosted = run_json("search", "spar*^2", "--syntax")
    assert [hit["score"] for hit in boosted] == pytest.approx([2 * hit["score"] for hit in expected])
    assert run_json("search", "sparse 劳动") != []
    assert run_json("search", "sparse 劳动", "--min-should-match", "100%") == []
    result = run("search", "sparse", "--min-should-match", "2x")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Invalid value for --min-should-match: min_should_match must be an int or a str" in result.stderr


def test_nothing_found_says_what_may_have_been_meant(docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rapidfuzz")
    result = run("search", "spasre")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "nothing found: no chunk has a word of the query; did you mean 'sparse'?\n"
    assert run_json("search", "spasre") == []
    monkeypatch.setitem(sys.modules, "rapidfuzz.distance", None)
    assert run("search", "spasre").stderr == "nothing found: no chunk has a word of the query\n"
    assert_fails(run("search", "spasre", "--fuzzy"), 'pip install "rag-bm25[fuzzy]"')


def test_text_is_not_taken_for_markup(docs: Path) -> None:
    (docs / "markup.txt").write_text("[bold]markup[/bold] :smile: [/x]")
    run("ingest", docs)
    assert "    [bold]markup[/bold] :smile: [/x]\n" in run("search", "markup").stdout


def test_namespaces_are_searched_apart(docs: Path) -> None:
    run("ingest", docs, "--namespace", "n")
    assert [hit["namespace"] for hit in run_json("search", "劳动合同", "--namespace", "n")] == ["n"]


def test_a_bad_filter_says_why(docs: Path) -> None:
    assert_fails(run("search", "sparse", "--filter", '{"page": {"$near": 3}}'), "$near")


def test_explain_prints_what_python_does(docs: Path) -> None:
    with BM25Index.open("./rag_bm25.db", "docs", read_only=True) as index:
        explained = index.explain("劳动合同", "docs/law.txt#0")
    asked = "explain", "劳动合同", "docs/law.txt#0"
    assert run(*asked).stdout == f"{explained}\n"
    assert run(*asked, "--tree").stdout == f"{explained.tree}\n"
    assert run_json(*asked) == explained.to_dict()
    assert run_json(*asked, "--tree") == explained.to_dict(tree=True)


def test_explain_takes_words_without_quotes(docs: Path) -> None:
    quoted = run_json("explain", "sparse vectors", "r1")
    assert run_json("explain", "sparse", "vectors", "r1") == quoted
    alone = run("explain", "r1")
    assert (alone.exit_code, alone.stdout) == (2, "")
    assert "must be a query, and then the id of a chunk" in alone.stderr


def test_why_tells_a_query_from_an_id(docs: Path) -> None:
    lost = run("why", "sparse", "vectors")
    assert "'vectors' is not found" in lost.stdout
    assert lost.stderr == "put a query of several words into quotes: the id is what follows the query, here 'vectors'\n"
    assert run("why", "sparse vectors", "r1").stderr == ""


def test_explain_says_why_a_chunk_is_not_found(docs: Path) -> None:
    printed = run("explain", "the Milvus 飞机", "docs/law.txt#0").stdout
    assert "stop words, which the analyzer leaves out: the\n" in printed
    assert "\nnot found: no term of the query is in the chunk\n" in printed
    assert [line.split()[-1] for line in printed.splitlines() if line.startswith("飞机 ")] == ["unknown", "unknown"]


def test_explain_of_an_unknown_chunk_fails(docs: Path) -> None:
    assert_fails(run("explain", "q", "nothing"), "no chunk 'nothing' in the default namespace of")


@pytest.mark.parametrize(
    "arguments", [["search", "sparse"], ["explain", "sparse", "r1"], ["stats"]], ids=lambda arguments: arguments[0]
)
def test_reading_commands_open_read_only(docs: Path, databases: Databases, arguments: list[str]) -> None:
    assert run(*arguments).exit_code == 0
    assert databases.opened[-1]["read_only"] is True
