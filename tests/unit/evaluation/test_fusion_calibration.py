"""Weights of hybrid search by judged questions: who is better is chosen and kept, and chance is not."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from statistics import fmean, stdev

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.reference import split

from rag_bm25 import BM25Index, IndexConfig, InputError, ParameterError, Weighted
from rag_bm25.evaluation import BeirDataset, calibrate_fusion
from rag_bm25.evaluation.fusion import TRIED, best_fusion
from rag_bm25.hits.fusion import DEFAULT_FUSION

pytest.importorskip("ir_measures")

SIZE = 80
CONFIG = IndexConfig(chunk_size=10, analyzer=split, dense_dim=SIZE)
DENSE_ALONE, WORDS_ALONE = Weighted(0, 1), Weighted(1, 0)


def judged(size: int = SIZE, *, misled: bool = True) -> BeirDataset:
    """Questions with the words of their answer, and the embedding of it, or for every second one of another chunk."""
    queries = {f"q{n}": f"about{n} n{n + (misled and n % 2 == 0)}" for n in range(size)}
    return BeirDataset({}, queries, {f"q{n}": {f"d{n}": 1} for n in range(size)})


def embed(text: str) -> list[float]:
    """Return a vector that is near the chunk with the last number of a question, and a little near all others."""
    number = int(text.split()[1][1:])
    return [1.0 if n == number else 0.2 + 0.001 * n for n in range(SIZE)]


@pytest.fixture
def index() -> BM25Index:
    index = BM25Index.open(":memory:", "docs", config=CONFIG)
    texts = [f"about{n} " + "other " * (n % 3) for n in range(SIZE)]
    index.add(texts, ids=[f"d{n}" for n in range(SIZE)], embeddings=np.eye(SIZE))
    return index


def test_the_better_arm_is_found_told_and_kept(index: BM25Index) -> None:
    found = calibrate_fusion(index, judged(), embed)
    assert (found.fusion, found.queries, found.is_enough) == (index.config.fusion, SIZE, True)
    assert found.measured[WORDS_ALONE] == found.measured[found.fusion] == 1
    assert found.difference == pytest.approx(1 - found.measured[DEFAULT_FUSION])
    assert found.low < found.difference < found.high
    assert index.search_hybrid("about0 n1", embed("about0 n1"), 1)[0].id == "d0"
    assert len(found.measured) == len({DEFAULT_FUSION, *TRIED})


def test_the_default_stays_where_nothing_is_better_and_replaces_what_was_set(index: BM25Index) -> None:
    index.set_query_defaults(fusion=DENSE_ALONE)
    found = calibrate_fusion(index, judged(misled=False), embed)
    assert (found.fusion, found.difference) == (DEFAULT_FUSION, 0)
    assert index.config.fusion == DEFAULT_FUSION


@pytest.mark.parametrize("size", [1, 59])
def test_fewer_than_sixty_questions_change_nothing(index: BM25Index, size: int) -> None:
    index.set_query_defaults(fusion=DENSE_ALONE)
    found = calibrate_fusion(index, judged(size), embed)
    assert (found.fusion, found.queries, found.is_enough, found.difference) == (DENSE_ALONE, size, False, 0)
    assert index.config.fusion == DENSE_ALONE
    assert found.measured[WORDS_ALONE] == 1


def test_questions_without_an_answer_do_not_count(index: BM25Index) -> None:
    few = judged(60)
    few.qrels["q3"]["d3"] = 0
    assert calibrate_fusion(index, few, embed).queries == 59
    with pytest.raises(InputError):
        calibrate_fusion(index, BeirDataset({}, {"q": "about0 n1"}, {"q": {"d0": 0}}), embed)


def test_a_dry_run_stores_nothing_and_each_question_is_embedded_once(index: BM25Index) -> None:
    asked: list[str] = []
    found = calibrate_fusion(index, judged(), lambda text: asked.append(text) or embed(text), dry_run=True)  # type: ignore[func-returns-value]
    assert found.fusion != DEFAULT_FUSION == index.config.fusion
    assert sorted(asked) == sorted(judged().queries.values())
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain["queries"] == SIZE
    assert plain["measured"][1] == {"fusion": asdict(WORDS_ALONE), "ndcg@10": 1}
    with pytest.raises(ParameterError, match="embed_query must be a callable"):
        calibrate_fusion(index, judged(), [])  # type: ignore[arg-type]


@given(st.lists(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=4, max_size=4), min_size=2, max_size=30))
def test_best_is_the_highest_mean_of_those_that_gain_more_than_chance(rows: list[list[float]]) -> None:
    columns = [list(column) for column in zip(*rows, strict=True)]
    gains = [[value - usual for value, usual in zip(column, columns[0], strict=True)] for column in columns]
    passing = [n for n in (1, 2, 3) if fmean(gains[n]) > 1.5 * stdev(gains[n]) / math.sqrt(len(rows)) + 1e-12]
    fusions = (DEFAULT_FUSION, *TRIED[:3])
    chosen = best_fusion({fusion: np.array(column) for fusion, column in zip(fusions, columns, strict=True)})
    place = fusions.index(chosen)
    assert (place == 0) == (not passing)
    assert all(fmean(columns[place]) >= fmean(columns[n]) - 1e-12 for n in passing)
