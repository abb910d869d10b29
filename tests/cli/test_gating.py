"""``rag-bm25 evaluate --save``, ``--baseline`` and ``--min``: exit code 1 where a run is worse, or too bad."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.command_line import assert_fails, run, run_json

pytestmark = pytest.mark.usefixtures("databases")

SIZE_NOTE = "to measure as `rag-bm25 ingest` would: --chunk-size 500\n"
WORDS = ["apple", "banana", "cherry", "damson", "elderberry", "grape", "lemon", "mango"]


def write_set(folder: Path, texts: dict[str, str], queries: dict[str, str]) -> Path:
    """Write a set in which each query has one relevant document, of its own id."""
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    rows = {"corpus": texts, "queries": queries}
    for name, of in rows.items():
        lines = (json.dumps({"_id": id_, "text": text}) + "\n" for id_, text in of.items())
        (folder / f"{name}.jsonl").write_text("".join(lines))
    (folder / "qrels" / "test.tsv").write_text("".join(f"{id_}\t{id_}\t1\n" for id_ in queries))
    return folder


@pytest.fixture
def judged(tmp_path: Path) -> Path:
    words = {f"{at}": word for at, word in enumerate(WORDS)}
    return write_set(tmp_path / "set", {id_: f"{word} tree" for id_, word in words.items()}, words)


@pytest.fixture
def worse(judged: Path, tmp_path: Path) -> Path:
    """Return the same queries on a corpus in which other documents have their words twice."""
    words = {f"{at}": word for at, word in enumerate(WORDS)}
    texts = {id_: f"{word} tree" for id_, word in words.items()} | {
        f"x{id_}": f"{word} {word}" for id_, word in words.items()
    }
    assert judged.is_dir()
    return write_set(tmp_path / "worse", texts, words)


@pytest.fixture
def saved(judged: Path, tmp_path: Path) -> Path:
    assert run("evaluate", judged, "--save", tmp_path / "base.json").exit_code == 0
    return tmp_path / "base.json"


def test_the_same_run_passes(judged: Path, saved: Path) -> None:
    result = run("evaluate", judged, "--baseline", saved, "--min", "ndcg@10=1")
    assert (result.exit_code, result.stderr) == (0, SIZE_NOTE)
    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["ndcg@10", "1.0000", "1.0000", "+0.0000", "1.0000", "0", "0"] in lines
    assert result.stdout.splitlines()[-1] == "8 queries: 0 worse, 0 better, 0 only reordered"


def test_a_worse_run_fails_and_says_what_fell_and_why(worse: Path, saved: Path) -> None:
    result = run("evaluate", worse, "--baseline", saved, "--k1", "0.9")
    assert result.exit_code == 1
    errors = result.stderr.removeprefix(SIZE_NOTE).splitlines()
    assert errors[0] == f"error: ndcg@10 is significantly worse than in {saved}: 1.0000 -> 0.6309, p = 0.0078 < 0.05"
    assert errors[1] == f"error: mrr@10 is significantly worse than in {saved}: 1.0000 -> 0.5000, p = 0.0078 < 0.05"
    assert len(errors) == 2
    lines = result.stdout.splitlines()
    at = lines.index("0  apple  ndcg@10 1.0000 -> 0.6309, mrr@10 1.0000 -> 0.5000")
    assert lines[at - 1] == "8 queries: 8 worse, 0 better, 0 only reordered"
    assert lines[at + 1] == "  0: place 1 -> 2, above it now x0"
    assert "'appl' gives " in lines[at + 2] + lines[at + 3]
    assert lines[-1] == "other settings: k1: stored 1.5, given 0.9"


@pytest.mark.parametrize(("number", "is_cut"), [(10, False), (11, True)])
def test_a_long_list_is_said_to_be_cut(tmp_path: Path, number: int, is_cut: bool) -> None:
    words = {f"{at}": f"word{at}" for at in range(number)}
    first = write_set(tmp_path / "first", words, words)
    second = write_set(tmp_path / "second", words | {f"x{at}": f"{words[at]} {words[at]}" for at in words}, words)
    run("evaluate", first, "--save", tmp_path / "base.json")
    lines = run("evaluate", second, "--baseline", tmp_path / "base.json").stdout.splitlines()
    assert f"{number} queries: {number} worse, 0 better, 0 only reordered" in lines
    assert sum(" ndcg@10 " in line for line in lines) == 10
    assert ("of the worse and of the better queries, 10 each are shown at most; --json has all" in lines) == is_cut


def test_json_has_the_same_and_nothing_else_is_printed_there(worse: Path, saved: Path) -> None:
    result = run("evaluate", worse, "--baseline", saved, "--min", "recall@100=0.9", "--min", "MRR@10=.75", "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert [line.removeprefix("error: ") for line in result.stderr.splitlines()] == found["failures"]
    assert found["failures"][2:] == ["mrr@10 is 0.5, below the minimum of 0.75"]
    changes = found["changes"]
    assert changes["measures"]["mrr@10"]["test"]["worse"] == changes["num_queries"] == len(changes["worse"]) == 8
    assert changes["worse"][0]["falls"][0].items() >= {"id": "0", "before": 1, "after": 2, "displaced_by": "x0"}.items()
    plain = run_json("evaluate", worse)
    assert not {"changes", "failures"} & plain.keys()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--min", "ndcg@10=0.64"], "error: ndcg@10 is 0.63093, below the minimum of 0.64\n"),
        (["--min", "ndcg@10=0.63", "--min", "P@1=.5"], "error: P@1 is 0, below the minimum of 0.5\n"),
        (["--min", "ndcg@10=0.63"], ""),
    ],
)
def test_a_measure_that_is_too_low_is_named_with_its_bound(worse: Path, given: list[str], message: str) -> None:
    result = run("evaluate", worse, *given)
    assert (result.exit_code, result.stderr) == (int(bool(message)), SIZE_NOTE + message)


def test_usual_measures_have_their_names_at_other_depths(worse: Path) -> None:
    given = ("ndcg@5=.7", "recall@2=1", "mrr@1=.1", "recall@1=.1")
    failures = json.loads(run("evaluate", worse, *(word for one in given for word in ("--min", one)), "--json").stdout)
    assert failures["failures"] == [
        "ndcg@5 is 0.63093, below the minimum of 0.7",
        "mrr@1 is 0, below the minimum of 0.1",
        "recall@1 is 0, below the minimum of 0.1",
    ]


@pytest.mark.parametrize("text", ["ndcg@10=1.5", "NDCG@5=1.01", "mrr@3=2", "R@7=80", "P(rel=2)@5=5"])
def test_a_minimum_that_no_run_can_reach_is_wrong_usage(judged: Path, text: str) -> None:
    result = run("evaluate", judged, "--min", text)
    assert result.exit_code == 2
    name = text.rpartition("=")[0]
    assert f"--min: {name} is 1 at most, got {text!r}" in " ".join(result.stderr.split())
    assert run("evaluate", judged, "--min", "NumRet=1").exit_code == 0


def test_a_measure_has_one_minimum(judged: Path) -> None:
    twice = run("evaluate", judged, "--min", "mrr@10=1", "--min", "MRR@10=0")
    assert (twice.exit_code, "'mrr@10' must be given once" in twice.stderr) == (2, True)


@pytest.mark.parametrize("before", ["0", "x"])
def test_a_run_without_judged_hits_does_not_pass(tmp_path: Path, before: str) -> None:
    few = write_set(tmp_path / "few", {before: "apple"}, {"0": "apple"})
    run("evaluate", few, "--save", tmp_path / "few.json")
    write_set(few, {"x": "apple"}, {"0": "apple"})
    result = run("evaluate", few, "--baseline", tmp_path / "few.json")
    assert result.exit_code == 1
    when = " any more" if before == "0" else ", before or after"
    assert f"error: no hit of any query is judged relevant{when}: chunks or their documents must have" in result.stderr


@pytest.mark.parametrize("text", ["ndcg@10", "ndcg@10=", "ndcg@10=high", "=0.5", "ndcg@10=nan"])
def test_a_minimum_that_is_none_is_wrong_usage(judged: Path, text: str) -> None:
    result = run("evaluate", judged, "--min", text)
    assert result.exit_code == 2
    assert f"--min: must be MEASURE=VALUE, such as ndcg@10=0.8, got {text!r}" in " ".join(result.stderr.split())


def test_measures_of_the_baseline_are_measured_again(judged: Path, worse: Path, tmp_path: Path) -> None:
    file = tmp_path / "more.json"
    run("evaluate", judged, "--save", file, "--measure", "P@1")
    result = run("evaluate", worse, "--baseline", file)
    assert f"error: P@1 is significantly worse than in {file}: 1.0000 -> 0.0000" in result.stderr


def test_a_measure_that_the_baseline_lacks_is_named(judged: Path, saved: Path) -> None:
    message = f"{saved} does not have P@1: save a new one with --measure P@1"
    assert_fails(run("evaluate", judged, "--baseline", saved, "--measure", "P@1"), message)
    assert run("evaluate", judged, "--baseline", saved, "--min", "P@1=1").exit_code == 0  # it needs no baseline


def test_a_run_that_fails_is_not_saved(worse: Path, saved: Path, tmp_path: Path) -> None:
    before = saved.read_bytes()
    assert run("evaluate", worse, "--baseline", saved, "--save", saved).exit_code == 1
    assert saved.read_bytes() == before
    result = run("evaluate", worse, "--min", "ndcg@10=1", "--save", tmp_path / "other.json")
    told = f"error: {tmp_path / 'other.json'} was not written, since a run that fails is not saved\n"
    assert (result.exit_code, result.stderr.endswith(told)) == (1, True)
    assert not (tmp_path / "other.json").exists()
    assert run("evaluate", worse, "--save", saved).exit_code == 0
    assert saved.read_bytes() != before


def test_a_file_does_not_depend_on_the_baseline_of_its_run(judged: Path, saved: Path, tmp_path: Path) -> None:
    rows = [line for line in (judged / "corpus.jsonl").read_text().splitlines() if '"_id": "3"' not in line]
    (judged / "corpus.jsonl").write_text("\n".join(rows))
    assert run("evaluate", judged, "--baseline", saved, "--save", tmp_path / "one.json").exit_code == 0
    assert run("evaluate", judged, "--save", tmp_path / "two.json").exit_code == 0
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()


def test_what_cannot_be_compared_is_named(judged: Path, saved: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.json").write_text("{}")
    other = write_set(tmp_path / "other", {"0": "apple"}, {"0": "apple"})
    assert_fails(run("evaluate", judged, "--baseline", tmp_path / "none.json"), "none.json: No such file")
    assert_fails(run("evaluate", judged, "--baseline", tmp_path / "empty.json"), "empty.json is not a file of")
    assert_fails(run("evaluate", other, "--baseline", saved), f"{saved} is of other queries than this set, such as 1")
    assert_fails(run("evaluate", judged, "--save", tmp_path / "none" / "b.json"), "to put b.json in")


def test_an_existing_index_is_compared_by_documents(judged: Path, tmp_path: Path) -> None:
    rows = judged / "corpus.jsonl"
    run("ingest", rows, "--chunk-size", 80)
    given = ("evaluate", judged, "--collection", "docs")
    assert run(*given, "--save", tmp_path / "base.json").exit_code == 0
    run("delete", "3")
    found = json.loads(run(*given, "--baseline", tmp_path / "base.json", "--json").stdout)["changes"]
    [query] = found["worse"]
    assert (query["id"], query["falls"][0]["reasons"]) == ("3", ["the chunk '3' is not in the index any more"])


def test_few_queries_are_remarked_upon(tmp_path: Path) -> None:
    few = write_set(tmp_path / "few", {"0": "apple"}, {"0": "apple"})
    run("evaluate", few, "--save", tmp_path / "few.json")
    result = run("evaluate", few, "--baseline", tmp_path / "few.json")
    assert (result.exit_code, result.stderr) == (0, SIZE_NOTE + "no fall of fewer than 6 queries is significant\n")


def test_a_search_by_vectors_has_no_reasons_of_words(
    judged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = "class Model:\n    def embed_query(self, text):\n        return [1.0, float(len(text))]\n"
    model += "    def embed_documents(self, texts):\n        return [self.embed_query(text) for text in texts]\n"
    (tmp_path / "gated_model.py").write_text(model)
    monkeypatch.syspath_prepend(tmp_path)
    given = ("--embedding", "gated_model:Model", "--mode", "dense", "--save", tmp_path / "dense.json")
    assert run("evaluate", judged, *given).exit_code == 0
    query = json.loads((tmp_path / "dense.json").read_text())["queries"]["0"]
    assert (query["weights"], query["df"], query["hits"]["0"]["weights"]) == ({}, {}, {})
