"""``rag-bm25 tune``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from support.command_line import Databases, assert_fails, run, run_json

from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.cli.evaluating import make_config
from rag_bm25.cli.settings import parse_settings
from rag_bm25.evaluation import SETTING_NAMES, load_beir

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("databases")


@pytest.fixture
def tunable(tmp_path: Path) -> Path:
    """Long answers that only b = 0 puts before short texts with the same word."""
    folder = tmp_path / "set"
    (folder / "qrels").mkdir(parents=True)
    long = {f"long{n}": f"topic{n} topic{n} " + " ".join(f"filler{n}x{m}" for m in range(60)) for n in range(12)}
    texts = {**long, **{f"short{n}": f"topic{n}" for n in range(12)}}
    rows = "".join(json.dumps({"_id": id_, "text": text}) + "\n" for id_, text in texts.items())
    (folder / "corpus.jsonl").write_text(rows)
    (folder / "queries.jsonl").write_text(
        "".join(json.dumps({"_id": f"q{n}", "text": f"topic{n}"}) + "\n" for n in range(12))
    )
    for split, queries in (("test", range(8)), ("dev", range(8, 12))):
        (folder / "qrels" / f"{split}.tsv").write_text("".join(f"q{n}\tlong{n}\t1\n" for n in queries))
    return folder


GRID = ("--search", "k1=1.5,2", "--search", "b=0,0.75")


def test_tune_json(tunable: Path, databases: Databases) -> None:
    result = run_json("tune", tunable, *GRID, "--search", "idf=epsilon,lucene", "--folds", 4)
    assert (result["settings"], result["best"]["b"], result["base"]["b"]) == ({"b": 0}, 0, 0.75)
    assert (result["held_out_mean"], result["best_mean"], result["confirmed"]) == (1.0, 1.0, 1.0)
    assert result["base_mean"] == pytest.approx(0.63093, abs=1e-5)
    assert (len(result["folds"]), result["pays"], result["test"]["better"]) == (4, True, 8)
    assert result["heat_map"]["values"] == [[1.0, pytest.approx(0.63093, abs=1e-5)]] * 2
    size = result["best"]["chunk_size"]
    assert result["python"] == f"IndexConfig(chunk_size={size}, b=0)"
    assert result["commands"] == {"ingest": [f"--chunk-size {size}", "--b 0"], "search": []}
    assert len(databases) == 1  # only for the confirmation
    assert [stored for stored in databases.values() if stored.exist] == []


def test_tune_searches_whether_titles_are_a_field(tmp_path: Path) -> None:
    """Each answer has its topic in the title, and a text that names it more often wins while titles are text."""
    folder = tmp_path / "set"
    (folder / "qrels").mkdir(parents=True)
    filler = " ".join(f"filler{n}" for n in range(30))
    rows = [{"_id": f"answer{n}", "title": f"topic{n}", "text": filler} for n in range(8)]
    rows += [{"_id": f"decoy{n}", "text": f"topic{n} topic{n} {filler}"} for n in range(8)]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    queries = [{"_id": f"q{n}", "text": f"topic{n}"} for n in range(8)]
    (folder / "queries.jsonl").write_text("".join(json.dumps(query) + "\n" for query in queries))
    (folder / "qrels" / "test.tsv").write_text("".join(f"q{n}\tanswer{n}\t1\n" for n in range(8)))
    result = run_json("tune", folder, "--search", "field=none,title:6:5")
    assert result["settings"] == {"field": "title:6:5:0.75"}
    assert (result["base_mean"], result["best_mean"], result["confirmed"]) == (pytest.approx(0.63093, 1e-5), 1, 1)
    assert result["commands"]["ingest"][-1] == "--field title:6:5:0.75"
    back = run_json("tune", folder, "--set", "field=title:6:5", "--search", "field=none", "--no-confirm")
    assert (back["settings"], back["base_mean"]) == ({}, 1.0)


def test_tune_for_people(tunable: Path) -> None:
    printed = run("tune", tunable, *GRID).stdout
    assert printed.startswith("set: ndcg@10, 5 folds\n")
    assert "1.0000  +0.3691, p 0.0078, 8 better, 0 worse" in printed
    assert "tuning pays: the gain on unseen queries is significant" in printed
    assert "1.0000  +0.3691  b=0\n" in printed
    assert "b=0)" in printed
    assert "1.0000 on counts, 1.0000 in Milvus" in printed
    assert "--b 0\n" in printed


def test_tune_says_where_nothing_is_better(tunable: Path) -> None:
    assert "nothing tried is better: keep what there is" in run("tune", tunable, "--search", "k1=1.5").stdout


def test_tune_says_where_the_gain_may_be_luck(tunable: Path) -> None:
    printed = run("tune", tunable, *GRID, "--split", "dev", "--folds", 2).stdout
    assert "no significant gain on unseen queries" in printed  # four queries cannot be significant


def test_tune_on_a_split_of_its_own(tunable: Path) -> None:
    result = run_json("tune", tunable, *GRID, "--tune-split", "dev", "--measure", "mrr@10")
    assert (result["settings"], result["base_mean"], result["held_out_mean"]) == ({"b": 0}, 0.5, 1.0)
    assert [fold["queries"] for fold in result["folds"]] == [8]
    assert "held-out split" in run("tune", tunable, *GRID, "--tune-split", "dev").stdout


def test_tune_begins_where_it_is_told(tunable: Path) -> None:
    result = run_json("tune", tunable, "--set", "idf=lucene,stem=false,chunk-size=77", *GRID, "--no-confirm")
    assert (result["base"]["idf"], result["base"]["chunk_size"], result["best"]["analyzer"]["stem"]) == (
        "lucene",
        77,
        False,
    )
    assert result["commands"]["search"] == ["--idf lucene"]
    assert result["confirmed"] is None


@pytest.mark.parametrize("base", ["weighting=bm25+,delta=0.5", "weighting=saturation-smoothed"])
def test_tune_begins_with_any_weighting(tunable: Path, base: str) -> None:
    found = run_json("tune", tunable, "--set", base, "--search", "k1", "--search", "weighting", "--no-confirm")
    assert "bm25l" in {point["settings"].get("weighting") for point in found["points"]}


def test_the_commands_that_tune_prints_build_and_search_the_winner(
    tunable: Path, docs: Path, databases: Databases
) -> None:
    """Every parameter that may be tuned has another value than its default."""
    winner = {
        "chunk_size": 77,
        "length_unit": "terms",
        "k1": 1.2345678,
        "b": 0.5,
        "epsilon": 0.3,
        "idf": "lucene",
        "k3": 1.5,
        "weighting": "bm25l",
        "delta": 0.7,
        "bigram_weight": 0.2,
        "word_bigram_weight": 0.3,
        "latin_weight": 1.5,
        "field": "title:6:5:0.75",
        "segmentation": "exact",
        "query_segmentation": "search",
        "simplify": "false",
        "stem": "false",
        "split_camel_case": "true",
        "bigrams": "false",
        "word_bigrams": "false",
        "compounds": "all",
        "query_stop_structures": "false",
        "distinct_bigrams": "false",
    }
    assert winner.keys() == set(SETTING_NAMES)
    base = ",".join(f"{name}={value}" for name, value in winner.items())
    found = run_json("tune", tunable, "--set", base, "--search", "k1=1.2345678", "--no-confirm")
    ingest, search = (" ".join(found["commands"][command]).split() for command in ("ingest", "search"))
    assert run("ingest", docs, "--collection", "tuned", *ingest).exit_code == 0
    config = make_config(parse_settings([base], "--set"), load_beir(tunable))
    store = databases.store("./rag_bm25.db", "tuned")
    with BM25Index.from_store(store, config=config) as index:  # whose document side and analyzer must be the same
        for query in ("sparse sparse vectors", "Milvus"):
            scores = [hit["score"] for hit in run_json("search", query, "--collection", "tuned", *search)]
            assert scores == pytest.approx([hit.score for hit in index.search(query)])
            assert scores


def test_a_search_keeps_the_k3_of_the_index_where_none_is_given(docs: Path, databases: Databases) -> None:
    query = "sparse sparse sparse vectors"
    linear, saturated = (run_json("search", query, *options)[0]["score"] for options in ((), ("--set", "k3=0")))
    assert saturated < linear
    store = databases.store("./rag_bm25.db", "saturated")
    with BM25Index.from_store(store, config=IndexConfig(500, k3=0.0)):
        pass
    run("ingest", docs, "--collection", "saturated")
    [found, *_] = run_json("search", query, "--collection", "saturated")
    assert found["score"] == pytest.approx(saturated)
    tree = run_json("explain", query, found["id"], "--set", "k3=0")
    assert tree["value"] == pytest.approx(saturated)


def test_tune_needs_no_index_without_confirmation(tunable: Path, databases: Databases) -> None:
    assert "in Milvus" not in run("tune", tunable, *GRID, "--no-confirm").stdout
    assert databases == {}


def test_tune_draws_a_heat_map(tunable: Path, tmp_path: Path) -> None:
    assert run("tune", tunable, *GRID, "--no-confirm", "--plot", tmp_path / "map.svg").exit_code == 0
    assert "<!-- 1.0000 -->" in (tmp_path / "map.svg").read_text()


def test_tune_reports_what_milvus_answers_otherwise(tunable: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "rag_bm25.evaluation.running.search_queries", lambda _index, queries, *_, **__: {query: {} for query in queries}
    )
    result = run("tune", tunable, *GRID)
    assert result.stderr == "computed on counts, ndcg@10 was 1.0000; through Milvus it is 0.0000\n"


def test_tune_refuses_a_picture_that_cannot_be_drawn_before_the_search(tunable: Path, databases: Databases) -> None:
    assert_fails(run("tune", tunable, "--plot", "map.jpg"), "must end in one of .png, .svg, .pdf")
    assert databases == {}


def test_more_folds_than_queries_are_refused(tunable: Path) -> None:
    assert_fails(run("tune", tunable, *GRID, "--folds", 9), "folds must be in [2, 8]")
