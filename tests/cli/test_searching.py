"""``rag-bm25 search``, ``why`` and ``explain``: what they show; their options are in test_options.py."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support.command_line import Databases, assert_fails, run, run_json

from rag_bm25 import BM25Index
from rag_bm25.errors import install_extra

pytestmark = pytest.mark.usefixtures("databases")


def test_search_shows_rank_score_id_and_text(docs: Path) -> None:
    lines = run("search", "劳动合同").stdout.splitlines()
    assert lines[0].split()[0] == "1"
    assert float(lines[0].split()[1]) > 0
    assert lines[0].split()[2:] == ["docs/law.txt#0"]
    assert lines[1] == "    用人单位解除劳动合同，应当出具证明。"
    assert run("search", "劳动合同", "解除").stdout == run("search", "劳动合同 解除").stdout != ""


def test_search_json(docs: Path) -> None:
    hits = run_json("search", "sparse")
    assert {hit["id"] for hit in hits} == {"docs/milvus.md#0", "r1"}
    assert list(hits[0]) == ["id", "score", "text", "metadata", "namespace", "score_share"]
    assert hits[0]["score"] >= hits[1]["score"] > 0
    assert run_json("search", "sparse", "-k", 1) == run_json("search", "sparse", "--top-k", 1) == hits[:1]
    assert [hit["id"] for hit in run_json("search", "sparse", "--filter", '{"page": {"$gte": 3}}')] == ["r1"]


@pytest.mark.parametrize("options", [("--weighting", "idf=lucene"), ("--feedback", "r1"), ("--group", "page")])
def test_search_explains_each_hit(docs: Path, options: tuple[str, ...]) -> None:
    hits = run_json("search", "sparse vectors", "--explain", *options)
    assert [hit["explanation"]["value"] for hit in hits] == pytest.approx([hit["score"] for hit in hits])
    assert hits[0]["explanation"] == run_json("explain", "sparse vectors", hits[0]["id"], *options)
    printed = run("search", "sparse vectors", "--explain", *options).stdout
    assert printed.count("\n    term") == printed.count("\n    N = 3 chunks") == len(hits)


def test_a_context_is_printed_whole(docs: Path) -> None:
    whole = "".join(f"合同的第{number}条：双方应当在{number}个月之内通知对方。\n\n" for number in range(1, 40))
    (docs / "long.md").write_text(whole, encoding="utf-8")
    run("ingest", docs)
    assert whole.split()[-1] in run("search", "第5条", "-k", 1, "--context", "document").stdout
    assert whole.split()[-1] not in run("search", "第5条", "-k", 1).stdout


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


@pytest.mark.usefixtures("databases", "docs")
def test_nothing_is_logged_beside_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    assert "the filter names 'pages'" in run("search", "sparse", "--filter", "pages=3").stderr
    assert caplog.messages == []


@pytest.mark.parametrize(
    "filter",
    [
        *("page=3", "page=3,source=docs/rows.jsonl", 'source="docs/rows.jsonl"'),
        *("$id=r1", '$id="r1",page=3', '{"$id": {"$in": ["r1"]}}'),
    ],
)
def test_a_filter_is_written_as_over_http(docs: Path, filter: str) -> None:
    assert [hit["id"] for hit in run_json("search", "sparse", "--filter", filter)] == ["r1"]


@pytest.mark.parametrize("filter", ['metadata["page"] == 3', 'metadata["of"] like "a=b%"', "page >= 2", "page"])
def test_what_is_no_condition_is_refused_with_an_example(docs: Path, filter: str) -> None:
    refused = run("search", "sparse", "--filter", filter)
    assert refused.exit_code == 2
    assert (
        'a filter must be a mapping, such as {"page": {"$gte": 3}}, and no Milvus expression; the command line'
        in refused.stderr
    )


def test_why_names_the_words_that_no_chunk_has(docs: Path) -> None:
    found = "the search has 2 hits\n  also: no chunk has the word"
    assert run("why", "Unheard sparse").stdout == f"{found} 'Unheard'\n"
    assert run("why", "spaarse unheard sparse").stdout.startswith(
        f"{found}s 'spaarse', 'unheard'; did you mean 'sparse "
    )


def test_why_shows_what_a_search_lacks_and_why_a_chunk_is_no_hit(docs: Path) -> None:
    nothing = run("why", "unheard", "--filter", '{"year": 3}')
    assert nothing.stdout == "nothing found: no chunk has a word of the query\n"
    assert run("why", "sparse").stdout == "the search has 2 hits\n"
    assert "below the minimum of 50" in run("why", "sparse", "--min-score", 50).stdout
    best, other = run_json("search", "sparse")
    second = run_json("why", "sparse", other["id"], "-k", 1)
    assert (second["rank"], second["score"], second["last_score"]) == (2, other["score"], best["score"])
    assert "it is hit 2 by score, beyond k = 1" in run("why", "sparse", other["id"], "-k", 1).stdout


def test_why_tells_a_query_from_an_id(docs: Path) -> None:
    lost = run("why", "sparse", "vectors")
    assert lost.stdout == "'vectors' is not found: no chunk has this id\n"
    assert lost.stderr == "put a query of several words into quotes: the id is what follows the query, here 'vectors'\n"
    assert run("why", "sparse vectors", "r1").stderr == ""


def test_a_file_of_synonyms_that_cannot_be_read_is_named(docs: Path, tmp_path: Path) -> None:
    (tmp_path / "rules.txt").write_text("劳动合同\n", encoding="utf-8")
    search = ("search", "劳务", "--expansion")
    assert_fails(run(*search, "synonyms=rules.txt"), "rules.txt line 1: a line must have two words")
    assert_fails(run(*search, "fuzzy,synonyms=none.txt"), "none.txt: No such file or directory")


def test_nothing_found_says_what_may_have_been_meant(docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rapidfuzz")
    result = run("search", "spasre")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "nothing found: no chunk has a word of the query; did you mean 'sparse'?\n"
    monkeypatch.setitem(sys.modules, "rapidfuzz.distance", None)
    assert run("search", "spasre").stderr == "nothing found: no chunk has a word of the query\n"
    assert_fails(run("search", "spasre", "--expansion", "fuzzy"), install_extra("fuzzy"))


def test_text_is_not_taken_for_markup(docs: Path) -> None:
    (docs / "markup.txt").write_text("[bold]markup[/bold] :smile: [/x]")
    run("ingest", docs)
    assert "    [bold]markup[/bold] :smile: [/x]\n" in run("search", "markup").stdout


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


def test_explain_of_what_is_not_found(docs: Path) -> None:
    assert "\nnot found: no term of the query is in the chunk\n" in run("explain", "飞机", "docs/law.txt#0").stdout
    assert_fails(run("explain", "q", "nothing"), "no chunk 'nothing' in the default namespace of")


def test_several_collections_are_searched_as_one(docs: Path, tmp_path: Path) -> None:
    more = tmp_path / "more"
    more.mkdir()
    (more / "sparse.txt").write_text("sparse sparse words")
    (more / "rows.jsonl").write_text('{"id": "r1", "text": "sparse"}\n')
    assert run("ingest", more, "--collection", "more").exit_code == 0
    both = ("--collection", "docs", "--collection", "more")
    hits = run_json("search", "sparse", "--explain", *both)
    assert {(hit["id"], hit["part"]) for hit in hits} == {
        ("r1", 0),
        ("docs/milvus.md#0", 0),
        ("r1", 1),
        ("more/sparse.txt#0", 1),
    }
    assert [hit["explanation"]["value"] for hit in hits] == pytest.approx([hit["score"] for hit in hits])
    assert run_json("explain", "sparse", "r1", *both, "--part", 1) in [hit["explanation"] for hit in hits]
    assert run_json("why", "sparse", "r1", *both, "--part", 1)["rank"] is not None
    assert "r1  more/rows.jsonl  collection more" in run("search", "sparse", *both).stdout
    assert_fails(run("explain", "sparse", "r1", *both), "2 indexes of the group have a chunk 'r1', 0, 1: give part")
    assert run_json("terms", *both)[0] == {
        "term": "spars",
        "df": 4,
        "idf": hits[0]["explanation"]["terms"][0]["idf"],
    } | {"num_chunks": 5}


@pytest.mark.parametrize(
    "arguments", [["search", "sparse"], ["explain", "sparse", "r1"], ["stats"]], ids=lambda arguments: arguments[0]
)
def test_reading_commands_open_read_only(docs: Path, databases: Databases, arguments: list[str]) -> None:
    assert run(*arguments).exit_code == 0
    assert databases.opened[-1]["read_only"] is True
