"""The benchmark suite runs, and reports what it has measured; how fast anything is, is not looked at."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from bench import command, plots
from bench.corpus import SIZE, DoublePowerLaw, Generator, queries_from, real_chunks
from bench.report import Results, Row, line
from bench.timing import Clock, Spread, each_in_turn, in_turns, latencies
from support import engines

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.skipif(not engines.lite_version(), reason="milvus-lite is not installed")]

QUICK = {"search"}


@pytest.mark.own_engine
@pytest.mark.parametrize(
    "topics",
    [QUICK, pytest.param(command.TOPICS.keys() - QUICK, marks=pytest.mark.slow)],
    ids=["in seconds", "all others"],
)
def test_a_quick_run_measures_its_topics_and_writes_them_down(
    topics: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "results.json"
    assert command.main(["--quick", "--sizes", "20", "--json", str(file), "--only", *sorted(topics)]) == 0
    results = Results.read(file)
    assert {row.topic for row in results.rows} == topics
    assert all(row.skipped or (row.value and row.value.median >= 0) for row in results.rows)
    assert capsys.readouterr().out.splitlines()[2:] == list(map(line, results.rows))
    assert {"command", "machine", "date", "load_before", "load_after", "versions"} <= results.environment.keys()
    assert results.environment["versions"]["pymilvus"]


def test_a_topic_that_fails_leaves_the_others_their_turn_and_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def failing(_bench: object) -> object:
        yield Row("search", "something", value=Spread.of([1.0]))
        raise OSError("no space left")

    monkeypatch.setitem(command.TOPICS, "search", failing)
    monkeypatch.setitem(command.TOPICS, "peers", lambda _bench: iter([Row("peers", "something else")]))
    file = tmp_path / "results.json"
    assert command.main(["--quick", "--only", "search", "peers", "--json", str(file)]) == 1
    assert "no space left" in capsys.readouterr().err
    told = [(row.measure, row.skipped) for row in Results.read(file).rows]
    assert told == [("something", ""), ("the rest", "failed: OSError"), ("something else", "")]


@pytest.mark.parametrize(
    ("comparison", "figure", "met"),
    [("ratio", 0.5, True), ("speedup", 2.0, False), ("difference", -2.0, True), ("value", 2.0, False)],
)
def test_what_a_row_comes_to(comparison: str, figure: float, met: bool) -> None:
    row = Row(
        "t", "m", value=Spread.of([2.0]), against="x", reference=Spread.of([4.0]), comparison=comparison, at_most=1.0
    )
    assert (row.figure, row.is_met) == (figure, met)
    assert Row("t", "m", skipped="no peer", comparison="ratio", at_most=1.0).is_met is None


def test_a_line_has_median_quartiles_and_a_missed_target_in_bold() -> None:
    value = Spread.of([1.0, 2.0, 3.0, 4.0, 500.0], "ms")
    row = Row("t", "search", 12_000, "other", value, "ours", Spread.of([1.0], "ms"), "ratio", at_least=50)
    assert line(row) == "| other: search | 12,000 | 3 ms (2–4) | ours: 1 ms | **3x** | ≥ 50 |"


def test_ways_take_turns() -> None:
    calls: list[str] = []
    ways = {name: lambda name=name: (calls.append(name), Clock(1.0, 2.0))[1] for name in "ab"}
    taken = in_turns(ways, 3)
    assert "".join(calls) == "ababab"
    assert (taken["a"].median, taken["a"].cpu, taken["a"].count) == (1.0, 2.0, 3)


def test_queries_go_forwards_and_backwards_and_each_is_asked_once() -> None:
    calls: list[tuple[str, int]] = []
    each_in_turn({name: lambda at, name=name: calls.append((name, at)) for name in "ab"}, range(2))
    assert calls == [("a", 0), ("b", 0), ("b", 1), ("a", 1)]
    asked: list[int] = []
    assert latencies({"a": asked.append}, 50, 4)["a"].p50.count == 4
    assert asked == list(range(50))


def test_text_is_the_same_for_the_same_seed_and_another_for_each_part() -> None:
    once, generator = list(Generator(3).chunks(4)), Generator(3)
    other = list(generator.chunks(4, part=1))
    assert once == list(generator.chunks(4))
    assert not set(once) & set(other)
    assert not set(once) & set(Generator(4).chunks(4))
    assert {len(text) for text in once} == {SIZE}


def test_ranks_fall_as_the_law_says() -> None:
    law, number = DoublePowerLaw(core=50, gamma=1.77), 400_000
    counts = np.bincount(np.minimum(law.ranks(np.random.default_rng(0), number), 200))
    ranks = np.arange(1, 51)
    assert np.abs(counts[:50] * ranks / counts[0] - 1).max() < 0.1
    assert counts[50:].sum() / number == pytest.approx(1 / (0.77 * (1 / ranks).sum() + 1), rel=0.05)


def test_real_text_is_cut_without_a_gap_and_queries_are_passages_of_it(tmp_path: Path) -> None:
    texts = ["".join(map(chr, range(start, start + 700))) for start in (0x4E00, 0x6000)]
    file = tmp_path / "docs.jsonl"
    file.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    chunks = list(real_chunks([file]))
    assert "".join(chunks) == "".join(texts)[:1000]
    queries = queries_from(chunks, 40, seed=1)
    assert len(set(queries)) == len(queries) == 40
    assert all(any(query in text for text in chunks) for query in queries)


def test_a_plot_is_drawn_the_same_each_time(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    ms = Spread.of([1.0, 2.0], "ms")
    rows = [Row("search", "search, p50", size, value=ms, reference=ms) for size in (10, 100)]
    assert list(plots.panels(rows)["a search, median, ms"]) == ["rag_bm25", "the engine alone"]
    file = tmp_path / "results.json"
    Results({}, rows).write(file)
    for name in ("a.svg", "b.svg"):
        folder = tmp_path / name
        folder.mkdir()
        assert command.main(["--plot", str(folder / "plot.svg"), "--results", str(file)]) == 0
    drawn = [(tmp_path / name / "plot.svg").read_bytes() for name in ("a.svg", "b.svg")]
    assert drawn[0] == drawn[1]
    assert b"the engine alone" in drawn[0]
