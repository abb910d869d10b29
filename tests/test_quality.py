"""The table of quality is what was measured; how good anything is, is not looked at."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from quality import command
from quality.ours import CHOICES, DEFAULT
from quality.report import Column, against_peers, interval, table
from quality.sets import CHUNK_SIZE, language, load

from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.cli.settings import new_config
from rag_bm25.evaluation import measure_queries

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("ir_measures")


def write_rows(file: Path, rows: list[dict[str, str]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture
def beir(tmp_path: Path) -> Path:
    folder = tmp_path / "tiny"
    texts = ["gas boilers in the home", "oil boilers", "劳动合同的解除", "合同期满"]
    write_rows(folder / "corpus.jsonl", [{"_id": f"d{n}", "text": text} for n, text in enumerate(texts)])
    write_rows(folder / "queries.jsonl", [{"_id": "q1", "text": "what is oil"}, {"_id": "q2", "text": "gas boilers"}])
    (folder / "qrels").mkdir()
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td0\t1\n")
    return folder


def test_every_choice_is_measured_kept_and_read_again(
    beir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "kept"
    arguments = [str(beir), "--kept", str(kept), "--no-peers", "--json", str(tmp_path / "m.json")]
    command.main(arguments)
    text = capsys.readouterr().out
    assert all(f"| {name} | 1.000 |" in text for name in CHOICES)
    values = json.loads((kept / "tiny.json").read_text())
    values[DEFAULT]["ndcg@10"] = [0.25, 0.75]
    (kept / "tiny.json").write_text(json.dumps(values))
    command.main(arguments)
    assert f"| {DEFAULT} | .500 |" in capsys.readouterr().out
    command.main([*arguments, "--again", "ours"])
    assert capsys.readouterr().out == text


def test_passages_are_relevant_where_a_chunk_has_half_of_them(tmp_path: Path) -> None:
    write_rows(tmp_path / "docs.jsonl", [{"_id": "d", "text": "x" * 1000}])
    write_rows(tmp_path / "queries.jsonl", [{"_id": "q", "text": "谁"}])
    (tmp_path / "spans.tsv").write_text("query-id\tdoc-id\tstart\tend\nq\td\t430\t490\n")
    dataset = load(tmp_path)
    assert {name: len(text) for name, text in dataset.corpus.items()} == {"d#0": CHUNK_SIZE, "d#400": 500, "d#800": 200}
    assert dataset.qrels == {"q": {"d#0": 1, "d#400": 1}}
    assert language(dataset) == "Chinese"


def test_the_default_is_compared_with_the_best_peer_that_got_every_query() -> None:
    def measured(values: list[float]) -> dict[str, list[float]]:
        return {"ndcg@10": values, "recall@100": values}

    systems = dict.fromkeys(CHOICES, measured([0.5] * 20))
    peers = {"weak": measured([0.1] * 20), "strong": measured([0.4] * 20), "sampled": measured([0.9] * 5)}
    column = Column("set", "English", systems | peers)
    (row,) = list(against_peers([column]))[2:]
    assert row == "| set | 20 | strong | .400 | .500 | +0.1000 (+0.1000 to +0.1000) | 20 / 0 | < .001 |"
    rows = list(table([column], "ndcg@10"))
    assert f"| {DEFAULT} | .500 | .500 |  |" in rows
    assert "| weak | .100* | .100 |  |" in rows


def test_the_interval_is_that_of_the_mean() -> None:
    values = np.random.default_rng(1).normal(0.1, 0.2, 400)
    low, high = interval(values)
    assert low < values.mean() < high
    assert high - low == pytest.approx(2 * 1.96 * 0.2 / 20, rel=0.15)


def test_the_default_is_that_of_a_new_index() -> None:
    assert CHOICES[DEFAULT] == new_config(1, None, {})


def test_runs_are_those_of_an_index(beir: Path) -> None:
    from quality.ours import runs

    dataset = load(beir)
    ((_, run),) = runs(dataset, [DEFAULT])
    size = sum(map(len, dataset.corpus.values())) / len(dataset.corpus)
    with BM25Index.open(":memory:", "docs", config=IndexConfig(size)) as index:
        index.add(list(dataset.corpus.values()), ids=list(dataset.corpus))
        for query, text in dataset.queries.items():
            assert {hit.id: hit.score for hit in index.search(text)} == pytest.approx(run[query], rel=1e-5)
    assert measure_queries(dataset.qrels, run).mean().ndcg_10 == 1.0
