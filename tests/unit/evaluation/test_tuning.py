from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.reference import split

from rag_bm25 import IndexConfig, InputError, MissingExtraError, ParameterError, Progress
from rag_bm25.evaluation import (
    Axis,
    BeirDataset,
    HeatMap,
    Tuning,
    axes_for,
    coordinate_descent,
    differing,
    draw_heat_map,
    query_folds,
    refine,
    tune,
)
from rag_bm25.evaluation.heat_map import require_drawable
from rag_bm25.evaluation.tuning import GRIDS

if TYPE_CHECKING:
    from pathlib import Path

BASE = IndexConfig(10, "terms", analyzer=split)
QUERIES = 30


def planted(queries: int = QUERIES, prefix: str = "q") -> BeirDataset:
    """Every answer is long and names its topic twice; a short text that names it once wins while lengths count.

    Only with b = 0 are all answers first.
    """
    corpus: dict[str, str] = {}
    for n in range(QUERIES):
        corpus[f"answer{n}"] = f"topic{n} topic{n} " + " ".join(f"filler{n}x{m}" for m in range(60))
        corpus[f"decoy{n}"] = f"topic{n}"
    topics = {f"{prefix}{n}": f"topic{n}" for n in range(queries)}
    return BeirDataset(corpus, topics, {query: {f"answer{query[len(prefix) :]}": 1} for query in topics})


def lengths_axis() -> list[Axis]:
    return axes_for(BASE, {"k1": [1.5], "b": [0.75, 1.0, 0.0]})


# Axes


def test_k1_and_b_are_searched_together_and_the_chunk_size_only_where_it_is_named() -> None:
    names = [list(axis.grids) for axis in axes_for(IndexConfig(100))]
    assert names[0] == ["k1", "b"]
    assert ["chunk_size"] not in names
    assert names[1] == ["weighting", "delta"]
    assert {"idf", "k3", "stem", "bigrams", "bigram_weight", "segmentation"} <= {name for [name] in names[2:]}


def test_named_parameters_have_named_values_or_their_own() -> None:
    found = axes_for(IndexConfig(100), {"chunk_size": [], "epsilon": [0.1, 0.5], "b": [0.4]})
    assert found == [
        Axis({"b": (0.4,)}),
        Axis({"chunk_size": (50, 70, 100, 140, 200, 280, 400)}, frozenset({"chunk_size"})),
        Axis({"epsilon": (0.1, 0.5)}),
    ]


@pytest.mark.parametrize(
    ("wanted", "message"),
    [({"epsilon": []}, "epsilon has no default values"), ({"k1": [1, -1]}, "k1 must be"), ({"x": [1]}, "got 'x'")],
)
def test_an_axis_that_cannot_be_searched_is_refused(wanted: dict[str, list[float]], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        axes_for(BASE, wanted)  # type: ignore[arg-type]


def test_candidates_are_all_combinations() -> None:
    found = [(config.k1, config.b) for config in Axis({"k1": (1.0, 2.0), "b": (0.1, 0.2)}).candidates(BASE)]
    assert found == [(1.0, 0.1), (1.0, 0.2), (2.0, 0.1), (2.0, 0.2)]


def test_candidates_that_the_other_parameters_do_not_allow_are_skipped() -> None:
    weightings = Axis({"weighting": ("bm25", "bm25l", "bm25+")})
    with_delta = IndexConfig(100, weighting="bm25+", delta=0.5)
    assert [config.weighting for config in weightings.candidates(with_delta)] == ["bm25l", "bm25+"]
    assert list(Axis({"delta": (0.1, 2.0)}).candidates(BASE)) == []


def test_an_axis_of_no_parameter_is_refused() -> None:
    with pytest.raises(ParameterError, match="got 'k2'"):
        Axis({"k2": (1.0,)})


def test_values_are_refused_where_the_base_does_not_allow_them_and_they_were_named() -> None:
    base = IndexConfig(100, weighting="saturation-smoothed")
    assert Axis({"k1": GRIDS["k1"], "b": GRIDS["b"]}, frozenset({"k1", "b"})) in axes_for(base)
    assert axes_for(base, {"k1": []}) == [Axis({"k1": GRIDS["k1"]}, frozenset({"k1"}))]
    with pytest.raises(ParameterError, match=r"k1 must be .* got 0\.3"):
        axes_for(base, {"k1": [0.3]})


def test_refined_values_lie_between_those_of_the_grid_next_to_the_best() -> None:
    def objective(config: IndexConfig) -> float:
        tried.append((config.k1, config.b))
        return -abs(config.k1 - 1.13) - abs(config.b - 0.42)

    tried: list[tuple[float, float]] = []
    axes = axes_for(BASE, {"k1": [], "b": []})
    coarse = coordinate_descent(BASE, axes, objective)
    assert (coarse.k1, coarse.b) == (1.2, 0.4)
    tried.clear()
    fine = refine(coarse, axes, objective)
    assert (fine.k1, fine.b) == (1.125, 0.4)
    assert {(1.05, 0.5), (1.35, 0.3), (1.125, 0.45), (1.275, 0.35)} <= set(tried)
    assert max(k1 for k1, _ in tried) == 1.35
    assert refine(coarse, axes_for(BASE, {"k1": [0.9, 1.2, 1.5]}), objective) == coarse, "named values are all"
    assert refine(coarse, axes, lambda _: 0.5) == coarse


def test_every_delta_is_tried_with_every_weighting_that_has_one() -> None:
    tried = {(each.weighting, each.delta) for axis in axes_for(BASE) for each in axis.candidates(BASE)}
    assert {("bm25l", 0.25), ("bm25+", 0.25), ("tfldp", 1.5), ("tfldp", None), ("bm25t", None)} <= tried
    assert not {("bm25", 0.5), ("tfldp", 0.5), ("bm25t", 1.0)} & tried


# Folds


@given(st.integers(2, 60), st.integers(2, 60), st.integers(0, 5))
def test_folds_are_disjoint_complete_and_even(queries: int, folds: int, seed: int) -> None:
    if folds > queries:
        with pytest.raises(ParameterError, match=rf"folds must be in \[2, {queries}\]"):
            query_folds(queries, folds, seed)
        return
    found = query_folds(queries, folds, seed)
    assert sorted(np.concatenate(found).tolist()) == list(range(queries))
    assert len(found) == folds
    assert {len(fold) for fold in found} <= {queries // folds, -(-queries // folds)}


def test_the_seed_deals_the_folds() -> None:
    one, same, other = (query_folds(100, 5, seed)[0].tolist() for seed in (1, 1, 2))
    assert one == same
    assert one != other


# Search


@given(st.permutations(["k1", "b", "idf"]), st.sampled_from([0.5, 1.0, 2.0]), st.sampled_from([0.0, 0.5, 1.0]))
def test_the_descent_finds_the_best_point_where_axes_do_not_interact(order: list[str], k1: float, b: float) -> None:
    grids = {"k1": (0.5, 1.0, 2.0), "b": (0.0, 0.5, 1.0), "idf": ("lucene", "epsilon")}
    axes = [Axis({name: grids[name]}) for name in order]  # type: ignore[dict-item]

    def objective(config: IndexConfig) -> float:
        return (config.idf == "lucene") - abs(config.k1 - k1) - abs(config.b - b)

    assert differing(BASE, coordinate_descent(BASE, axes, objective)).items() >= {"idf": "lucene"}.items()
    best = coordinate_descent(BASE, axes, objective)
    assert (best.k1, best.b) == (k1, b)


def test_the_descent_comes_back_to_an_axis_that_others_have_changed() -> None:
    values = {("epsilon", None): 0.0, ("lucene", None): 0.1, ("epsilon", 1.0): -1.0, ("lucene", 1.0): 0.3}
    axes = [Axis({"k3": (None, 1.0)}), Axis({"idf": ("epsilon", "lucene")})]
    best = coordinate_descent(BASE, axes, lambda config: values[config.idf, config.k3])
    assert (best.idf, best.k3) == ("lucene", 1.0)


def test_the_descent_passes_over_what_has_become_impossible() -> None:
    """The first round finds a delta; a weighting that has none is then no candidate, though it would be the best."""
    base = IndexConfig(10, weighting="bm25l")
    axes = axes_for(base, {"delta": [0.0, 0.2, 2.0], "weighting": ["bm25l", "bm25"]})
    best = coordinate_descent(base, axes, lambda config: (config.delta or 0.0) + 9 * (config.weighting == "bm25"))
    assert (best.weighting, best.delta) == ("bm25l", 2.0)


def test_the_descent_passes_over_an_axis_without_candidates() -> None:
    axes = [Axis({"delta": (0.1, 2.0)}), Axis({"k1": (1.0,)})]
    assert coordinate_descent(BASE, axes, lambda config: -config.k1).k1 == 1.0


def test_the_base_is_kept_where_nothing_gains_more_than_a_hair() -> None:
    axes = [Axis({"k1": (0.5, 1.0)})]
    assert coordinate_descent(BASE, axes, lambda config: 0.00005 * (config.k1 == 0.5)) == BASE


# Tuning


def test_a_planted_optimum_is_found_on_queries_that_were_not_searched() -> None:
    steps: list[Progress] = []
    found = tune(planted(), BASE, axes=lengths_axis(), progress=steps.append)
    assert found.settings == {"b": 0.0}
    assert [fold.settings for fold in found.folds] == [{"b": 0.0}] * 5
    assert sum(fold.queries for fold in found.folds) == QUERIES
    assert (found.base_mean, found.held_out_mean, found.best_mean) == (pytest.approx(0.63093, abs=1e-5), 1.0, 1.0)
    assert (found.test.better, found.test.worse) == (QUERIES, 0)
    assert found.pays
    assert steps == [
        Progress("documents", 2 * QUERIES, 2 * QUERIES),
        *(Progress("configurations", done, None) for done in (1, 2, 3)),
    ]
    assert found.points == [({}, found.base_mean), ({"b": 1.0}, found.base_mean), ({"b": 0.0}, 1.0)]


def test_what_helps_one_query_alone_does_not_help_the_others() -> None:
    """The winner of each fold is judged by queries that had no say in it."""
    dataset = planted(queries=2)
    upside_down = BeirDataset(dataset.corpus, dataset.queries, {"q0": {"answer0": 1}, "q1": {"decoy1": 1}})
    found = tune(upside_down, BASE, axes=lengths_axis(), folds=2)
    assert found.held_out_mean < found.base_mean
    assert sorted(fold.tuned for fold in found.folds) == pytest.approx([0.63093, 0.63093], abs=1e-5)
    assert not found.pays


def test_a_training_split_is_searched_and_the_other_one_judged() -> None:
    training = planted(queries=12, prefix="t")
    found = tune(planted(queries=8), BASE, training=training, axes=lengths_axis())
    [fold] = found.folds
    assert (fold.settings, fold.queries, fold.tuned) == ({"b": 0.0}, 8, 1.0)
    assert (found.held_out_mean, found.best_mean) == (1.0, 1.0)


def test_the_split_to_judge_by_has_no_say_in_the_winner() -> None:
    training = planted(queries=4, prefix="t")
    upside_down = {query: {f"decoy{query[1:]}": 1} for query in training.qrels}
    misled = tune(
        planted(queries=8), BASE, training=dataclasses.replace(training, qrels=upside_down), axes=lengths_axis()
    )
    assert misled.settings == {}
    assert misled.best_mean == misled.base_mean == pytest.approx(0.63093, abs=1e-5)


def test_queries_of_both_splits_are_a_leak() -> None:
    with pytest.raises(InputError, match=r"tuning needs other queries than those of the result, got 8 in both: 'q0'"):
        tune(planted(queries=8), BASE, training=planted(), axes=lengths_axis())


def test_another_measure_is_tuned_for() -> None:
    found = tune(planted(), BASE, axes=lengths_axis(), measure="mrr@10")
    assert (found.measure, found.base_mean, found.held_out_mean) == ("mrr@10", 0.5, 1.0)


def test_the_heat_map_is_the_grid_of_k1_and_b() -> None:
    heat_map = tune(planted(), BASE, axes=axes_for(BASE, {"b": [0.0, 0.75], "k1": [1.0, 2.0, 3.0]})).heat_map
    assert heat_map is not None
    assert (heat_map.measure, heat_map.k1, heat_map.b) == ("ndcg@10", (1.0, 2.0, 3.0), (0.0, 0.75))
    assert heat_map.values == [[1.0, pytest.approx(0.63093, abs=1e-5)]] * 3


def test_the_heat_map_leaves_out_what_the_weighting_does_not_allow() -> None:
    base = dataclasses.replace(BASE, weighting="saturation-smoothed")
    heat_map = tune(planted(queries=5), base, axes=[Axis({"k1": (0.3, 1.2, 2.0), "b": (0.0, 1.0, 0.0)})]).heat_map
    assert heat_map is not None
    assert (heat_map.k1, heat_map.b, np.shape(heat_map.values)) == ((1.2, 2.0), (0.0, 1.0), (2, 2))
    assert tune(planted(queries=5), base, axes=[Axis({"k1": (0.3,), "b": (0.0,)})]).heat_map is None


@pytest.mark.parametrize("wanted", [{"b": [0.0]}, {"idf": ["lucene"]}])
def test_there_is_no_heat_map_of_anything_else(wanted: dict[str, list[float | str]]) -> None:
    assert tune(planted(), BASE, axes=axes_for(BASE, wanted)).heat_map is None  # type: ignore[arg-type]


def test_the_extra_is_asked_for_before_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ir_measures", None)
    with pytest.raises(MissingExtraError, match=r'pip install "rag-bm25\[eval\]"'):
        tune(planted(), BASE, progress=lambda _: pytest.fail("too late"))


@pytest.mark.parametrize(("difference", "p_value", "pays"), [(0.1, 0.01, True), (0.1, 0.2, False), (-0.1, 0.01, False)])
def test_tuning_pays_where_the_gain_is_significant(difference: float, p_value: float, pays: bool) -> None:
    found = tune(planted(), BASE, axes=lengths_axis())
    test = dataclasses.replace(found.test, difference=difference, p_value=p_value)
    assert dataclasses.replace(found, test=test).pays is pays
    assert isinstance(found, Tuning)


# Picture

MAP = HeatMap("ndcg@10", (0.9, 1.2), (0.0, 0.4, 0.75), [[0.1, 0.2, 0.3], [0.4, 0.9, 0.5]])


@pytest.mark.parametrize(("name", "start"), [("map.png", b"\x89PNG"), ("map.SVG", b"<?xml"), ("map.pdf", b"%PDF")])
def test_a_heat_map_is_drawn(tmp_path: Path, name: str, start: bytes) -> None:
    draw_heat_map(MAP, tmp_path / name, "scifact: ndcg@10")
    assert (tmp_path / name).read_bytes().startswith(start)


def test_a_flat_heat_map_is_drawn(tmp_path: Path) -> None:
    draw_heat_map(HeatMap("ndcg@10", (1.2,), (0.75,), [[0.5]]), tmp_path / "map.png", "flat")
    assert (tmp_path / "map.png").exists()


def test_a_picture_of_another_kind_or_in_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"must end in one of \.png, \.svg, \.pdf, got .*map\.jpg"):
        require_drawable(tmp_path / "map.jpg")
    with pytest.raises(InputError, match=r"the folder .*missing for map\.png was not found"):
        require_drawable(tmp_path / "missing" / "map.png")


def test_the_extra_for_pictures_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r'drawing needs matplotlib: pip install "rag-bm25\[plot\]"'):
        draw_heat_map(MAP, tmp_path / "map.png", "title")
