"""The benchmark suite runs, and reports what it has measured; how fast anything is, is not looked at."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from random import Random
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from bench import command, overview, plots
from bench.corpus import SIZE, DoublePowerLaw, Generator, queries_from, real_chunks
from bench.report import BEGIN, END, TOP, Results, Row, line, quantity, table, update_page
from bench.timing import Clock, Spread, each_in_turn, in_turns, latencies
from support import engines

DOCS = Path(__file__).resolve().parents[1] / "docs"
embedded = pytest.mark.skipif(not engines.lite_version(), reason="milvus-lite is not installed")

MEASURED = {
    "ingestion": [
        "analysis alone",
        "MilvusClient.insert alone",
        "our insertion alone",
        "add",
        "add, assume_new, workers=1",
        "encoding",
    ],
    "search": ["search with text, k = 10, p50", "search with text, k = 10, p95", "5 queries in one call"],
    "hits": [
        "search grouped by document",
        "search grouped, 3 hits of each",
        "search grouped by sums of 100",
        "search boosted by recency",
        "search without near duplicates",
        "search chosen from 100 by MMR",
        "search with neighbours",
    ],
    "opening": ["opening and the first answer", "memory of a reader", "memory of a writer"],
    "sizes": [
        "ingestion",
        "opening and the first search",
        "search with text, k = 10, p95",
        "get of two chunks",
        "update of 1 chunk",
        "delete of 7 chunks",
        "verify",
    ],
    "growth": ["our own CPU time in adding", "the engine's wall time in adding"],
    "small": ["add of one chunk", "update of one chunk", "delete of one chunk"],
    "tenants": [
        "adding 4 chunks to a new namespace",
        "opening an index of 12 namespaces",
        "first search of a namespace",
    ],
    "scale": [
        "a batch of 1,000 chunks stored",
        "the mean IDF after a batch",
        "memory of the statistics, kept",
        "bytes of the log written in all",
        "memory of a writer",
    ],
}

TWO_SIZES = {"search", "hits", "growth"}


# The suite


@pytest.fixture
def results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Results:
    """A run of all topics: two sizes where both are looked at, and one where a size takes seconds."""
    runs = []
    for sizes, topics in ((["30", "60"], TWO_SIZES), (["30"], MEASURED.keys() - TWO_SIZES)):
        file = tmp_path / "results.json"
        assert command.main(["--quick", "--sizes", *sizes, "--json", str(file), "--only", *sorted(topics)]) == 0
        runs.append(Results.read(file))
        assert capsys.readouterr().out.splitlines() == list(table(runs[-1].rows))
    return Results(runs[0].environment, [row for run in runs for row in run.rows])


@embedded
@pytest.mark.own_engine
@pytest.mark.timeout(1200)  # of seconds on a machine with nothing else to do
def test_a_quick_run_measures_every_topic_and_writes_it_down(results: Results) -> None:
    for topic, measures in MEASURED.items():
        rows = [row for row in results.rows if row.topic == topic and not row.skipped]
        for measure in measures:
            found = [row for row in rows if row.measure.startswith(measure)]
            assert found, measure
            assert all(row.value and row.value.median > 0 for row in found), measure
        if topic in TWO_SIZES:
            assert Counter(row.chunks for row in rows).keys() == {30, 60}
    assert {"command", "machine", "date", "load_before", "load_after", "versions"} <= results.environment.keys()
    assert results.environment["versions"]["pymilvus"]


@embedded
@pytest.mark.own_engine
def test_the_largest_sizes_stand_beside_a_smaller_one_of_such_chunks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("bench.sizes.TEXTS_UP_TO", 30)
    monkeypatch.setattr("bench.sizes.COMPARED", 20)
    assert command.main(["--quick", "--sizes", "40", "--only", "sizes"]) == 0
    printed = capsys.readouterr().out
    for size in (20, 40):
        assert f"| get of two chunks, chunks of 100 terms | {size} |" in printed


@embedded
@pytest.mark.own_engine
def test_a_peer_that_is_missing_is_a_row_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("bench.environment.missing", lambda _module, package: f"{package} is not installed")
    assert command.main(["--quick", "--sizes", "20", "--only", "peers", "engines"]) == 0
    printed = capsys.readouterr().out
    assert "| rank-bm25: search and adding | 20 | skipped: rank-bm25 is not installed |" in printed
    assert "| langchain-milvus: search and adding | 20 | skipped: --peers-python names no interpreter |" in printed


def test_a_topic_that_fails_leaves_the_others_their_turn_and_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def failing(_bench: object) -> object:
        yield Row("search", "something", value=Spread.of([1.0]))
        raise OSError("no space left")

    monkeypatch.setitem(command.TOPICS, "search", failing)
    monkeypatch.setitem(command.TOPICS, "growth", lambda _bench: iter([Row("growth", "something else")]))
    file = tmp_path / "results.json"
    assert command.main(["--quick", "--only", "search", "growth", "--json", str(file)]) == 1
    assert "no space left" in capsys.readouterr().err
    told = [(row.measure, row.skipped) for row in Results.read(file).rows]
    assert told == [("something", ""), ("the rest", "failed: OSError"), ("something else", "")]


# Rows


@pytest.mark.parametrize(
    ("comparison", "figure", "met"),
    [("ratio", 0.5, True), ("speedup", 2.0, False), ("difference", -2.0, True), ("value", 2.0, False)],
)
def test_what_a_row_comes_to(comparison: str, figure: float, met: bool) -> None:
    row = Row(
        "t", "m", value=Spread.of([2.0]), against="x", reference=Spread.of([4.0]), comparison=comparison, at_most=1.0
    )
    assert (row.figure, row.is_met) == (figure, met)


def test_a_row_without_a_target_is_neither_met_nor_missed() -> None:
    assert Row("t", "m", value=Spread.of([2.0])).is_met is None
    assert Row("t", "m", skipped="no peer", comparison="ratio", at_most=1.0).is_met is None


def test_a_line_has_median_quartiles_and_a_missed_target_in_bold() -> None:
    value = Spread.of([1.0, 2.0, 3.0, 4.0, 500.0], "ms")
    row = Row("t", "search", 12_000, "other", value, "ours", Spread.of([1.0], "ms"), "ratio", at_least=50)
    assert line(row) == "| other: search | 12,000 | 3 ms (2–4) | ours: 1 ms | **3x** | ≥ 50 |"


def test_results_come_back_from_json_as_they_were(tmp_path: Path) -> None:
    rows = [
        Row("t", "m", 5, "peer", Spread.of_clocks([Clock(1.0, 0.5)]), "x", Spread.of([2.0]), "speedup", at_least=3),
        Row("t", "m", skipped="why"),
    ]
    Results({"machine": "here"}, rows).write(tmp_path / "r.json")
    assert Results.read(tmp_path / "r.json") == Results({"machine": "here"}, rows)
    stored = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))["rows"]
    assert [(row["figure"], row["met"]) for row in stored] == [(2.0, False), (None, None)]


# Timing


def test_ways_take_turns() -> None:
    calls: list[str] = []
    ways = {name: lambda name=name: (calls.append(name), Clock(1.0, 2.0))[1] for name in "ab"}
    taken = in_turns(ways, 3)
    assert "".join(calls) == "ababab"
    assert (taken["a"].median, taken["a"].cpu, taken["a"].count) == (1.0, 2.0, 3)


def test_queries_go_forwards_and_backwards() -> None:
    calls: list[tuple[str, int]] = []
    each_in_turn({name: lambda at, name=name: calls.append((name, at)) for name in "ab"}, range(2))
    assert calls == [("a", 0), ("b", 0), ("b", 1), ("a", 1)]


def test_every_query_is_asked_once() -> None:
    asked: list[int] = []
    taken = latencies({"a": asked.append}, 50, 4)
    assert asked == list(range(50))
    assert taken["a"].p50.count == 4


# Text


def test_text_is_the_same_for_the_same_seed_and_another_for_each_part() -> None:
    once, generator = list(Generator(3).chunks(4)), Generator(3)
    other = list(generator.chunks(4, part=1))
    assert once == list(generator.chunks(4))
    assert not set(once) & set(other)
    assert not set(once) & set(Generator(4).chunks(4))
    assert {len(text) for text in once} == {SIZE}


def test_ranks_are_as_frequent_as_the_law_says() -> None:
    law, number = DoublePowerLaw(core=50, gamma=1.77), 400_000
    ranks = law.ranks(np.random.default_rng(0), number)
    expected = number * law.probabilities(0, 200)
    observed = np.bincount(ranks[ranks < 200], minlength=200)
    assert np.abs(observed - expected).max() < 5 * np.sqrt(expected.max())
    assert abs(observed[50:].sum() - expected[50:].sum()) < 0.03 * expected[50:].sum()
    random = Random(0)
    one_by_one = [law.rank(random) for _ in range(20_000)]
    assert abs(one_by_one.count(0) - 20_000 * expected[0] / number) < 200


def test_the_vocabulary_grows_by_heaps_law() -> None:
    law, number = DoublePowerLaw(core=100, gamma=1.6), 1_000_000
    ranks = law.ranks(np.random.default_rng(1), number)
    for tokens in (number // 10, number):
        assert abs(len(np.unique(ranks[:tokens])) / law.vocabulary(tokens) - 1) < 0.1


def test_real_text_is_cut_without_a_gap(tmp_path: Path) -> None:
    texts = ["一" * 700, "二" * 900, "三" * 50]
    file = tmp_path / "docs.jsonl"
    file.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    chunks = list(real_chunks([file]))
    assert "".join(chunks) == "".join(texts)[:1500]
    assert {len(chunk) for chunk in chunks} == {SIZE}


def test_queries_are_passages_and_differ() -> None:
    texts = list(Generator(1).chunks(3))
    queries = queries_from(texts, 40, seed=1)
    assert len(set(queries)) == len(queries) == 40
    assert all(any(query in text for text in texts) for query in queries)


# The page


def test_the_section_of_a_page_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", encoding="utf-8")
    for section in (r"new \1", r"newer \1"):
        update_page(page, section)
    assert page.read_text(encoding="utf-8") == f"before\n{BEGIN}\n\nnewer \\1\n\n{END}\nafter\n"
    page.write_text("without marks", encoding="utf-8")
    with pytest.raises(ValueError, match="must have the marks"):
        update_page(page, "new")


def test_the_command_puts_results_and_pictures_into_a_page(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    file, page = tmp_path / "results.json", tmp_path / "page.md"
    environment = {"command": "c", "machine": "m", "date": "d", "load_before": "1", "data": "text", "versions": {}}
    rows = [Row("growth", "our own CPU time in adding", size, value=Spread.of([1.5])) for size in (100, 10)]
    Results({**environment, "peers_versions": {}}, rows).write(file)
    page.write_text("# Performance\n{}\n{}\n{}\n{}\n".format(*TOP, BEGIN, END), encoding="utf-8")
    assert command.main(["--page", str(page), "--results", str(file)]) == 0
    written = page.read_text(encoding="utf-8")
    assert written.index(line(rows[1])) < written.index(line(rows[0]))
    assert "![growth](images/growth.svg)" in written
    assert (tmp_path / "images" / "growth.svg").exists()


def test_the_page_on_performance_begins_with_what_the_results_say(tmp_path: Path) -> None:
    results = [Results.read(file) for file in sorted((DOCS / "benchmarks").glob("*.json"))]
    rows = [row for each in results for row in each.rows]
    section = overview.section(rows)
    page = (DOCS / "performance.md").read_text(encoding="utf-8")
    assert page.partition(TOP[0])[2].partition(TOP[1])[0].strip() == section
    assert len(section.splitlines()) == 5
    assert overview.draw(rows, tmp_path)
    drawn = (tmp_path / "overview.svg").read_bytes()
    assert drawn == (DOCS / "images" / "overview.svg").read_bytes()
    ET.fromstring(drawn)


def test_the_tables_of_the_page_on_performance_have_what_was_measured() -> None:
    rows = [row for file in (DOCS / "benchmarks").glob("*.json") for row in Results.read(file).rows]
    measured = {quantity(spread) for row in rows for spread in (row.value, row.reference) if spread}
    measured |= {time for row in rows for time in re.findall(r", ([\d.]+ s) in all", row.measure)}
    tables = re.findall(r"^\|.*", (DOCS / "performance.md").read_text(encoding="utf-8"), re.MULTILINE)
    times = re.findall(r"[\d.,]+ (?:ms|s|MiB)\b", "\n".join(tables))
    assert len(times) > 40
    assert [time for time in times if time not in measured] == []


def ms(median: float) -> Spread:
    return Spread.of([median], "ms")


def test_what_was_not_measured_is_not_told(tmp_path: Path) -> None:
    assert overview.section([]) == ""
    assert not overview.draw([], tmp_path)
    searched = Row("search", "search with text, k = 10, p50", 1_000, value=ms(2), reference=ms(1.5))
    skipped = Row("peers", "search, k = 10, p50", 1_000, "bm25s", skipped="bm25s is not installed")
    adding = Row("peers", "adding 1,000 chunks", 1_000, value=Spread.of([0.5]))
    section = overview.section([searched, skipped, adding])
    assert section.replace("\xa0", " ") == (
        "- **A search** takes 2 ms at 1,000 chunks (median, k = 10, milvus-lite 2.5). The engine alone takes 1.5 ms."
    )


def test_libraries_are_compared_at_the_largest_size_of_each_kind() -> None:
    p50 = "search, k = 10, p50"
    rows = [Row("peers", p50, size, name, ms(size / 100)) for size in (100, 1_000) for name in ("tantivy", "bm25s")]
    rows += [Row("peers", "adding 1,000 chunks", size, value=Spread.of([size / 100])) for size in (100, 1_000)]
    rows += [Row("peers", "rebuilt for 1,000 more chunks", 100, "bm25s", Spread.of([7.0]))]
    beside, adding = overview.section(rows).splitlines()
    assert beside.endswith("take, at 1,000 chunks: tantivy 10\xa0ms and bm25s 10\xa0ms.")
    assert adding == "- **1,000 more chunks** in an index of 100 take 1\xa0s; bm25s is built again, in 7\xa0s."


def test_the_overview_places_points_on_logarithmic_axes() -> None:
    axis = overview.Axis(0.1, 1000, start=400, end=0)
    assert axis.ticks() == pytest.approx([0.1, 1, 10, 100, 1000])
    assert [axis.at(value) for value in (0.1, 1, 1000)] == pytest.approx([400, 300, 0])
    svg = overview.svg([("times & sizes", {"bm25s": {1_000: ms(95)}, "rag_bm25": {10: ms(1), 1_000: ms(100)}})])
    labels = {name: float(y) for y, name in re.findall(r'y="([\d.]+)">(\w+ \d+ ms)', svg)}
    assert labels["bm25s 95 ms"] - labels["rag_bm25 100 ms"] == pytest.approx(overview.LINE)
    assert "times &amp; sizes" in svg


def test_pictures_are_drawn_the_same_each_time(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows = [Row("growth", "our own CPU time in adding", size, value=Spread.of([1.0, 2.0])) for size in (10, 100)]
    drawn = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        assert plots.draw(rows, folder) == ["growth"]
        drawn.append((folder / "growth.svg").read_bytes())
    assert drawn[0] == drawn[1]
    assert b"our own CPU time" in drawn[0]
    assert len(drawn[0]) < 60_000
