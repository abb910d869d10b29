"""Judged sets made of files in other formats are read as scripts/quality reads its sets."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import make_judged_sets
import pytest
from quality.sets import load

if TYPE_CHECKING:
    from pathlib import Path

    from rag_bm25.evaluation import BeirDataset


def make(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, *texts: str) -> BeirDataset:
    files = [tmp_path / f"{at}.txt" for at in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text, encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["make_judged_sets", name, str(tmp_path / "set"), *map(str, files)])
    make_judged_sets.main()
    return load(tmp_path / "set")


@pytest.mark.parametrize("judgments", ["1 0 7 3\n2 0 5 -1\n", "     1      7  0 0.000000\n"])
def test_smart_queries_are_judged_by_their_place(
    judgments: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    documents = ".I 5\n.T\ngas\n.W\nboilers\n.I 7\n.T\noil\nlamps\n.A\nSmith\n.W\nlight\n"
    queries = ".I 001\n.W\nlamps of\noil\n.I 004\n.W\nboilers\n"
    made = make(monkeypatch, tmp_path, "smart", documents, queries, judgments)
    assert made.corpus == {"5": "gas boilers", "7": "oil lamps light"}
    assert made.queries == {"1": "lamps of oil"}
    assert made.qrels == {"1": {"7": 1}}


def squad(**question: Any) -> str:
    questions = [{"question": "谁", **question}, {"question": "无", "is_impossible": True, "answers": []}]
    return json.dumps({"data": [{"title": "书", "paragraphs": [{"context": "作者是张三", "qas": questions}]}]})


def test_squad_questions_find_their_paragraph(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = make(monkeypatch, tmp_path, "squad", squad(), squad())
    assert made.corpus == {"0": "书 作者是张三", "1": "书 作者是张三"}
    assert made.queries == {"0": "谁", "1": "谁"}
    assert made.qrels == {"0": {"0": 1}, "1": {"1": 1}}


def test_answers_in_documents_are_passages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    answered = squad(answers=[{"text": "张三", "answer_start": 3}])
    made = make(monkeypatch, tmp_path, "squad-documents", answered)
    assert (tmp_path / "set" / "spans.tsv").read_text() == "query-id\tdoc-id\tstart\tend\n0\t0\t3\t5\n"
    assert made.qrels == {"0": {"0#0": 1}}


def test_passages_of_rgb_are_one_corpus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rows = [
        {"query": "a", "positive": ["x", "y "], "negative": ["z"]},
        {"query": "b", "positive": [["z"], ["y", ""]], "negative": []},
    ]
    made = make(monkeypatch, tmp_path, "rgb", "\n".join(map(json.dumps, rows)) + "\n")
    assert made.corpus == {"0": "x", "1": "y", "2": "z"}
    assert made.qrels == {"0": {"0": 1, "1": 1}, "1": {"1": 1, "2": 1}}
