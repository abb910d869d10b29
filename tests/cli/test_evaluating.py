"""``rag-bm25 evaluate``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from support.command_line import Databases, assert_fails, run, run_json

from rag_bm25 import StoreError

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("databases")


@pytest.fixture
def beir(tmp_path: Path) -> Path:
    folder = tmp_path / "set"
    (folder / "qrels").mkdir(parents=True)
    corpus = [{"_id": "d1", "title": "Apples", "text": "grow"}, {"_id": "d2", "title": "", "text": "pears"}]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in corpus))
    (folder / "queries.jsonl").write_text('{"_id": "q1", "text": "apple"}\n{"_id": "q2", "text": "plums"}\n')
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td2\t1\n")
    return folder


def test_evaluate_json(beir: Path) -> None:
    result = run_json("evaluate", beir, "--idf", "lucene", "--set", "k3=8,simplify=false")
    assert [result[name] for name in ("ndcg@10", "recall@100", "mrr@10")] == [0.5, 0.5, 0.5]
    assert (result["queries"], result["chunks"], result["chunk_size"]) == (2, 2, 12.0)
    assert result["config"].items() >= {"idf": "lucene", "k1": 1.5, "b": 0.75, "k3": 8.0, "bigram_weight": 0.5}.items()
    words = run_json("evaluate", beir, "--set", "bigrams=false,bigram_weight=0.2")["config"]
    assert (words["analyzer"]["bigrams"], words["bigram_weight"]) == (False, 0.2)
    assert (result["config"]["analyzer"]["simplify"], result["config"]["analyzer"]["stem"]) == (False, True)
    assert result["queries_per_second"] > 0 < result["chunks_per_second"]


def test_evaluate_takes_titles_as_a_field(beir: Path) -> None:
    result = run_json("evaluate", beir, "--field", "title:6:2.0")
    assert result["config"]["fields"] == {"title": {"chunk_size": 6, "weight": 2, "b": 0.75}}
    assert (result["ndcg@10"], result["chunk_size"]) == (0.5, 8.0)
    lines = run("evaluate", beir, "--field", "title:6:2.0").stdout.splitlines()
    assert lines[0].endswith(", chunk size 8.0 estimated characters, fields title:6:2:0.75")


@pytest.mark.parametrize(
    "arguments", [("--field", "tags:6"), ("--chunk-size", "20", "--compare", "fields=title:6+tags:6")]
)
def test_evaluate_says_which_field_there_is(beir: Path, databases: Databases, arguments: tuple[str, ...]) -> None:
    message = "a field must be 'title', the only one in BEIR format, got 'tags'"
    assert_fails(run("evaluate", beir, *arguments), message)
    assert databases.opened == []


def test_evaluate_for_people(beir: Path) -> None:
    lines = run("evaluate", beir).stdout.splitlines()
    assert lines[0] == "set: bm25, idf epsilon, k1 1.5, b 0.75, chunk size 12.0 estimated characters"
    assert lines[1].split() == ["nDCG@10", "0.5000"]


def test_evaluate_leaves_nothing_on_the_named_server(beir: Path, databases: Databases) -> None:
    run("evaluate", beir, "--uri", "http://host:1", "--token", "key")
    assert [(opened["uri"], opened["token"]) for opened in databases.opened] == [("http://host:1", "key")]
    assert [stored for stored in databases.values() if stored.exist or stored.chunks] == []


def test_evaluate_drops_its_index_where_it_fails(beir: Path, databases: Databases) -> None:
    def fail(method: str) -> None:
        if method == "search":
            raise StoreError("gone")

    databases.on_call = fail
    assert_fails(run("evaluate", beir, "--uri", "http://host:1"), "error: gone\n")
    assert [stored for stored in databases.values() if stored.exist] == []


def test_evaluate_opens_nothing_but_the_named_server(beir: Path, databases: Databases) -> None:
    assert run("evaluate", beir, env={"MILVUS_URI": "http://host:1"}).exit_code == 0
    assert databases.opened == []


def test_evaluate_compares_configurations(beir: Path, databases: Databases) -> None:
    given = ("--idf", "lucene", "--uri", "http://host:1", "--compare", "stem=false", "--compare", "idf=plus,k3=8")
    result = run_json("evaluate", beir, *given)
    first, second = result["compared"]
    assert (result["ndcg@10"], first["ndcg@10"], second["ndcg@10"]) == (0.5, 0.0, 0.5)
    assert (first["compare"], first["config"]["analyzer"]["stem"], first["config"]["idf"]) == (
        "stem=false",
        False,
        "lucene",
    )
    assert (second["config"]["idf"], second["config"]["k3"]) == ("plus", 8)
    test = first["tests"]["ndcg@10"]
    assert (test["difference"], test["p_value"], test["worse"], test["equal"]) == (-0.5, 1.0, 1, 1)
    assert len(databases) == 2  # the query side needs no index of its own


def test_compared_configurations_stand_side_by_side(beir: Path) -> None:
    lines = run("evaluate", beir, "--compare", "stem=false").stdout.splitlines()
    assert lines[-3].split()[:4] == ["configuration", "nDCG@10", "Recall@100", "MRR@10"]
    assert lines[-3].split()[4:] == ["difference", "p", "better", "worse"]
    assert lines[-2].split() == ["as", "given", "0.5000", "0.5000", "0.5000"]
    assert lines[-1].split() == ["stem=false", "0.0000", "0.0000", "0.0000", "-0.5000", "1.0000", "0", "1"]


def test_an_automatic_chunk_size_follows_the_length_unit_of_each_configuration(beir: Path) -> None:
    result = run_json("evaluate", beir, "--compare", "length-unit=terms", "--compare", "chunk_size=20")
    assert [one["chunk_size"] for one in (result, *result["compared"])] == [12.0, 1.5, 20]


def test_evaluate_writes_trec_runs(beir: Path, tmp_path: Path) -> None:
    assert run("evaluate", beir, "--run", tmp_path / "one.run").exit_code == 0
    [line] = (tmp_path / "one.run").read_text().splitlines()
    assert line.split()[:4] == ["q1", "Q0", "d1", "1"]
    assert line.split()[5] == "rag_bm25"
    run("evaluate", beir, "--compare", "idf=lucene, k1=0.9", "--run", tmp_path / "two.run")
    assert (tmp_path / "two-1.run").read_text() == (tmp_path / "one.run").read_text()
    assert (tmp_path / "two-2.run").read_text().split()[5] == "idf=lucene,k1=0.9"


def test_a_run_in_no_folder_is_refused_before_the_work(beir: Path, databases: Databases) -> None:
    assert_fails(run("evaluate", beir, "--run", "missing/one.run"), "there is no folder missing to put one.run in")
    assert databases == {}
