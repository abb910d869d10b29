"""The table of fusions is what was measured, by the library's own fusion."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compact import in_lines
from quality import hybrid
from quality.embeddings import sample, vectors_of
from quality.hybrid import Arms, Pair, against_arms, ndcg, stand_in, values_on_others
from quality.report import put

from rag_bm25 import RRF, BM25Index, IndexConfig, Weighted
from rag_bm25.evaluation import BeirDataset, measure_queries
from rag_bm25.hits.fusion import DEFAULT_FUSION

pytest.importorskip("ir_measures")

QUALITY = Path(__file__).parents[1] / "docs" / "quality.json"
RNG = np.random.default_rng(3)
WORDS = ["apple", "fig", "plum", "kiwi", "lime"]
TEXTS = {f"d{n:03}": " ".join(RNG.choice(WORDS, RNG.integers(1, 6))) for n in range(130)}
QUERIES = {f"q{n}": " ".join(RNG.choice(WORDS, 2, replace=False)) for n in range(8)}
QRELS = {
    query: {str(id_): int(grade) for id_, grade in zip(RNG.choice([*TEXTS], 5), RNG.integers(1, 4, 5), strict=True)}
    for query in QUERIES
}
DATASET = BeirDataset(TEXTS, QUERIES, QRELS)
DOCUMENTS, VECTORS = RNG.normal(size=(130, 4)), RNG.normal(size=(8, 4))


def arms() -> Arms:
    similar = VECTORS @ DOCUMENTS.T
    similar /= np.linalg.norm(VECTORS, axis=1)[:, None] * np.linalg.norm(DOCUMENTS, axis=1)
    return Arms(hybrid.lexical_scores(DATASET), similar, hybrid.gains_of(DATASET))


@pytest.mark.parametrize("fusion", [Weighted(), Weighted(0.7, 0.3, "min-max"), RRF(), RRF(1)], ids=str)
def test_a_fusion_has_the_measure_of_a_hybrid_search(fusion: Any) -> None:
    config = IndexConfig(1, dense_dim=4, fields="default")
    with BM25Index.open(":memory:", "docs", config=hybrid.ours.sized(config, DATASET)) as index:
        index.add(list(TEXTS.values()), ids=list(TEXTS), embeddings=DOCUMENTS)
        run = {
            name: {hit.id: hit.score for hit in index.search_hybrid(text, vector, fusion=fusion)}
            for (name, text), vector in zip(QUERIES.items(), VECTORS, strict=True)
        }
    assert arms().values(fusion) == pytest.approx(measure_queries(QRELS, run).values["ndcg@10"], abs=1e-6)


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("distance", [-0.2, 0.2])
def test_a_stand_in_finds_as_much_as_it_is_to(distance: float, kind: int) -> None:
    both = arms()
    both.gains[:, :100] = 0  # so that words alone find little by chance
    both.gains[:, 100:] = RNG.integers(0, 2, (8, 30))
    both = Arms(both.gains + 0.6 * RNG.normal(size=both.gains.shape), both.dense, both.gains)
    alone = hybrid._alone(both.gains, both.sparse).mean()
    made = stand_in(both, distance, kind)
    if made is None:
        assert alone + distance > hybrid.CEILING
        return
    assert hybrid._alone(both.gains, made.dense).mean() == pytest.approx(alone + distance, abs=0.05)


def test_ndcg_counts_what_is_missing() -> None:
    gains = np.array([[0.0, 2.0, 1.0]])
    assert ndcg([gains[0]], gains) == pytest.approx((2 / np.log2(3) + 1 / 2) / (2 + 1 / np.log2(3)))
    assert ndcg([np.zeros(0)], gains) == 0


def test_weights_of_sixty_are_measured_on_the_others() -> None:
    usual, better = np.full(100, 0.2), np.linspace(0.4, 0.6, 100)
    assert values_on_others({Weighted(): usual, Weighted(0, 1): better}) == pytest.approx(better)
    assert (values_on_others({Weighted(): usual[:50], Weighted(0, 1): better[:50]}) == 0.2).all()


def test_pairs_are_worse_or_better_than_the_better_arm() -> None:
    values = {"sparse": np.full(30, 0.5), "dense": np.full(30, 0.4)}
    pairs = [Pair("s", "m", {**values, "f": np.full(30, 0.5 + gain)}) for gain in (0.1, 0.2, -0.3, 0.0)]
    assert against_arms("f", pairs) == {"ndcg@10": 0.5, "gain": 0.0, "worse": 1, "better": 2}


def test_a_sample_keeps_what_is_judged_and_vectors_are_those_that_are_kept(tmp_path: Path) -> None:
    chosen = sample(DATASET)
    assert chosen.texts.keys() == TEXTS.keys()
    assert vectors_of(tmp_path, "m", "set") is None
    (tmp_path / "m").mkdir()
    np.savez(tmp_path / "m" / "set.npz", documents=np.ones((2, 3), np.float16), queries=np.zeros((1, 3)))
    assert [array.shape for array in vectors_of(tmp_path, "m", "set") or ()] == [(2, 3), (1, 3)]


def test_what_is_put_into_a_file_leaves_the_rest(tmp_path: Path) -> None:
    file = tmp_path / "quality.json"
    for one in ({"name": "a", "x": 1}, {"name": "b", "x": 2}, {"name": "a", "x": 3}):
        put(file, [one])
    assert json.loads(file.read_text()) == [{"name": "b", "x": 2}, {"name": "a", "x": 3}]


def test_a_file_has_a_line_for_each_value_at_its_level() -> None:
    value = {"a": {"x": [1, {"y": "\n    }"}], "é": {}}, "b": []}
    assert in_lines(value, 1).splitlines() == ["{", ' "a": {"x": [1,{"y": "\\n    }"}],"é": {}},', ' "b": []', "}"]
    assert all(json.loads(in_lines(value, level)) == value for level in range(4))


@pytest.mark.parametrize("file", [QUALITY, *(QUALITY.parent / "benchmarks").glob("*.json")], ids=lambda file: file.name)
def test_what_was_measured_is_stored_in_lines(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert text == in_lines(json.loads(text), 3 if file == QUALITY else 2)


def test_the_default_is_what_one_half_of_the_sets_has_chosen() -> None:
    (result,) = (one for one in json.loads(QUALITY.read_text(encoding="utf-8")) if one["name"] == "hybrid")
    assert hybrid.FUSIONS[result["chosen"]] == DEFAULT_FUSION
    on, shown = (set(result["sets"][half]) for half in ("chosen on", "shown on"))
    assert not on & shown
    compared = [result["against the former default"], result["with 20 candidates"]]
    gains = {name: sum(of[name]["chosen on"]["difference"] for of in compared) for name in hybrid.NAMES}
    assert max(gains, key=lambda name: gains[name]) == result["chosen"]
