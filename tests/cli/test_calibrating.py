"""``rag-bm25 calibrate`` and ``calibrate-answers``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.answers import make_set
from support.command_line import assert_fails, run, run_json, write_module

pytestmark = pytest.mark.usefixtures("databases")


def test_calibrate_measures_files_as_ingest_cuts_them(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("ten chars " * 40)
    proposal = run_json("calibrate", tmp_path / "long.txt", "--split-size", 100, "--chunk-overlap", 0)
    assert (proposal["chunks"], proposal["mean_length"], proposal["length_unit"]) == (4, 160.0, "estimated_characters")
    assert (proposal["chunk_size"], round(proposal["ratio"], 2)) == (224, 1.4)
    run("ingest", "long.txt", "--split-size", 100, "--chunk-overlap", 0, "--chunk-size", 224)
    stats = run_json("stats")
    assert (stats["mean_length"], stats["chunk_size"]) == (160.0, 224)
    assert [stats["effective_k1"], stats["effective_b"]] == [proposal["effective_k1"], proposal["effective_b"]]


def test_calibrate_for_people(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x" * 50)
    lines = run("calibrate", tmp_path / "a.txt", "--ratio", 1).stdout.splitlines()
    assert lines[0] == "chunk size 8 estimated characters"
    assert lines[1].split() == ["measured", "1", "chunk,", "mean", "length", "8.0", "estimated", "characters"]
    assert lines[-1].endswith("rag-bm25 ingest --chunk-size 8 --split-size 500")


def test_calibrate_proposes_for_an_index(docs: Path) -> None:
    stats, proposal = run_json("stats"), run_json("calibrate")
    assert (proposal["chunks"], proposal["mean_length"]) == (3, stats["mean_length"])
    assert proposal["chunk_size"] == round(1.4 * stats["mean_length"])
    assert "ingest" not in run("calibrate").stdout


def test_calibrate_of_nothing_fails(docs: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert_fails(run("calibrate", tmp_path / "empty"), "there is no text to measure in")
    assert_fails(run("calibrate", "--namespace", "nobody"), "has no text to measure")


def test_calibrate_learns_a_k1_for_each_term(docs: Path) -> None:
    assert_fails(run("search", "fig", "--weighting", "k1=bm25t"), "run `rag-bm25 calibrate --k1-of-terms`")
    learned = run_json("calibrate", "--k1-of-terms")
    assert learned["num_chunks"] == 3
    assert run("search", "fig", "--weighting", "k1=adpt,idf=adpt").exit_code == 0
    assert run_json("stats")["k1_growth"] == 1
    assert "N is 1.000 times that of then" in run("stats").stdout
    assert "terms" in run("calibrate", "--k1-of-terms").stdout
    for option, value in {"--dry-run": [], "--judged": [docs]}.items():
        refused = run("calibrate", "--k1-of-terms", option, *value)
        assert (refused.exit_code, option in refused.stderr, refused.stdout) == (2, True, "")
    wrong = run("calibrate", docs, "--k1-of-terms")
    assert (wrong.exit_code, "k1 is learned from an index" in wrong.stderr) == (2, True)


CHUNKS, JUDGED = make_set()


@pytest.fixture
def judged(tmp_path: Path) -> Path:
    """An ingested file of rows, and questions in BEIR form; the judgements are of the rows."""
    rows = [json.dumps({"id": id_, "text": text}) for id_, text in CHUNKS.items()]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows))
    assert run("ingest", "rows.jsonl").exit_code == 0
    (tmp_path / "set" / "qrels").mkdir(parents=True)
    queries = [json.dumps({"_id": f"q{at}", "text": text}) for at, text in enumerate(JUDGED)]
    (tmp_path / "set" / "queries.jsonl").write_text("\n".join(queries))
    grades = [f"q{at}\t{id_}\t1" for at, ids in enumerate(JUDGED.values()) for id_ in sorted(ids)]
    (tmp_path / "set" / "qrels" / "test.tsv").write_text("\n".join(grades))
    return tmp_path / "set"


def test_calibrate_answers_keeps_a_model(judged: Path) -> None:
    question = next(iter(JUDGED))
    assert "confidence" not in run_json("search", question)[0]
    assert_fails(run("search", question, "--min-confidence", 0.5), "fit one with `rag-bm25 calibrate-answers`")
    dry = run_json("calibrate-answers", judged, "--dry-run")
    assert "confidence" not in run_json("search", question)[0]
    assert run_json("calibrate-answers", judged) == dry
    assert (dry["queries"], dry["model"].keys()) == (
        len(JUDGED),
        {"intercept", "share", "margin", "coverage", "specificity", "weighting", "usual"},
    )
    hits = run_json("search", question)
    least = hits[1]["confidence"]
    assert run_json("search", question, "--min-confidence", least) == [
        hit for hit in hits if hit["confidence"] >= least
    ]
    assert run("search", question).stdout.split()[2] == f"{hits[0]['confidence']:.0%}"
    assert "the best confidence is" in run("why", question, "--min-confidence", 1).stdout


def test_calibrate_answers_names_the_judged_ids_that_are_not_there(judged: Path) -> None:
    with (judged / "qrels" / "test.tsv").open("a") as file:
        file.write("\nq0\trows.jsonl\t1\n")
    notes = run("calibrate-answers", judged, "--dry-run").stderr
    assert "ids that are judged relevant are not in the index: 'rows.jsonl' (a source, whose chunks have ids" in notes


@pytest.mark.parametrize(("kept", "doubts"), [(len(JUDGED), []), (29, ["29 queries are too few for a model"])])
def test_calibrate_answers_notes_that_a_model_is_doubtful(judged: Path, kept: int, doubts: list[str]) -> None:
    queries = (judged / "queries.jsonl").read_text().splitlines()[:kept]
    (judged / "queries.jsonl").write_text("\n".join(queries))
    grades = (judged / "qrels" / "test.tsv").read_text().splitlines()
    wanted = {json.loads(query)["_id"] for query in queries}
    (judged / "qrels" / "test.tsv").write_text("\n".join(grade for grade in grades if grade.split("\t")[0] in wanted))
    result = run("calibrate-answers", judged, "--dry-run")
    assert result.exit_code == 0
    assert [note.partition(":")[0] for note in result.stderr.splitlines()] == doubts


def test_calibrate_answers_for_people(judged: Path) -> None:
    figures = run_json("calibrate-answers", judged, "--dry-run")
    lines = run("calibrate-answers", judged).stdout.splitlines()
    assert lines[0] == "confidence in docs"
    assert lines[2].split()[:4] == ["AUC", f"{figures['auc']:.3f},", "and", f"{figures['score_auc']:.3f}"]
    assert_fails(run("calibrate-answers", judged, "--collection", "nothing"), "index not found")


MODEL = """
class Model:
    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text):
        return [text.count(word) + 0.01 for word in ("w1", "w2", "w3")]
"""


@pytest.fixture
def hybrid(judged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """Arguments that name an index with poor embeddings of the judged rows."""
    write_module(tmp_path, "poor_model", MODEL, monkeypatch)
    named = ("--collection", "hybrid", "--embedding", "poor_model:Model")
    assert run("ingest", "rows.jsonl", *named).exit_code == 0
    return named


def test_calibrate_judged_keeps_the_best_fusion_which_set_shows(judged: Path, hybrid: tuple[str, ...]) -> None:
    queries, grades = judged / "queries.jsonl", judged / "qrels" / "test.tsv"
    rows = [json.loads(line) for line in queries.read_text().splitlines()]
    thrice = [{**row, "_id": row["_id"] + copy} for row in rows for copy in ("", "a", "b")]
    queries.write_text("\n".join(map(json.dumps, thrice)))
    lines = [line.split("\t") for line in grades.read_text().splitlines()]
    grades.write_text("\n".join("\t".join([line[0] + copy, *line[1:]]) for line in lines for copy in ("", "a", "b")))
    dry = run_json("calibrate", "--judged", judged, *hybrid, "--dry-run")
    before = run_json("set", *hybrid[:2])["fusion"]
    found = run_json("calibrate", "--judged", judged, *hybrid)
    kept = run_json("set", *hybrid[:2])["fusion"]
    assert (dry, found["queries"]) == (found, len(thrice))
    assert kept == {"type": "weighted", **found["fusion"]}
    assert (kept["sparse"] > before["sparse"], found["low"] > 0) == (True, True)
    shown = run("calibrate", "--judged", judged, *hybrid).stdout
    assert f"{found['difference']:+.4f} ({found['low']:+.4f} to {found['high']:+.4f}) over the default" in shown
    words = "weighted:sparse={sparse},dense={dense},normalization={normalization}".format_map(kept)
    assert shown.count(words) == 2  # measured, and kept
    assert words in run("set", *hybrid[:2]).stdout
    assert run("set", *hybrid[:2], "--fusion", words).exit_code == 0  # what is shown is what is given


def test_calibrate_judged_of_few_questions_says_so_and_changes_nothing(judged: Path, hybrid: tuple[str, ...]) -> None:
    assert run("set", *hybrid[:2], "--fusion", "weighted:sparse=0.7,dense=0.3").exit_code == 0
    result = run("calibrate", "--judged", judged, *hybrid)
    assert (result.exit_code, "60 are needed, so nothing is changed" in result.stderr) == (0, True)
    assert run_json("set", *hybrid[:2])["fusion"]["sparse"] == 0.7


def test_calibrate_judged_needs_a_model_and_an_index(judged: Path, hybrid: tuple[str, ...]) -> None:
    for wrong, said in (
        ((), "needs the model of the embeddings"),
        (("rows.jsonl",), "a fusion is chosen from an index"),
    ):
        result = run("calibrate", *wrong, "--judged", judged, *hybrid[:2])
        assert (result.exit_code, said in " ".join(result.stderr.split())) == (2, True)
    assert_fails(run("calibrate", "--judged", judged, *hybrid[2:]), "the index has no dense vectors")
