"""``rag-bm25 ingest --dry-run``: nothing is written, and judged queries give what they would give afterwards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.command_line import Databases, run
from support.memory_store import copied

WORDS = ["apple", "banana", "cherry", "damson", "elderberry", "grape", "lemon", "mango"]


@pytest.fixture
def judged(tmp_path: Path) -> Path:
    """Return a set without a corpus, whose documents are files."""
    folder = tmp_path / "golden"
    (folder / "qrels").mkdir(parents=True)
    (folder / "queries.jsonl").write_text("".join(json.dumps({"_id": word, "text": word}) + "\n" for word in WORDS))
    (folder / "qrels" / "test.tsv").write_text("".join(f"{word}\tdocs/of-{word[0]}.txt\t1\n" for word in WORDS))
    return folder


@pytest.fixture
def docs(tmp_path: Path, databases: Databases) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    for word in WORDS:
        (folder / f"of-{word[0]}.txt").write_text(f"The {word} tree grows slowly.")
    assert run("ingest", folder, "--chunk-size", 60).exit_code == 0
    assert len(databases) == 1
    return folder


def change(folder: Path) -> None:
    """Update a file, remove one, and add some."""
    (folder / "of-a.txt").write_text("Something else grows slowly.")
    (folder / "of-b.txt").unlink()
    (folder / "list.txt").write_text("cherry cherry damson damson")


def stored(databases: Databases) -> Any:
    return {name: copied(one) for name, one in databases.items()}


def test_what_is_predicted_is_what_comes(docs: Path, judged: Path, databases: Databases, tmp_path: Path) -> None:
    run("evaluate", judged, "--collection", "docs", "--save", tmp_path / "base.json")
    change(docs)
    before = stored(databases)
    result = run("ingest", docs, "--prune", "--dry-run", "--judged", judged, "--json")
    assert stored(databases) == before
    predicted = json.loads(result.stdout)
    assert predicted["dry_run"]
    ingested = json.loads(run("ingest", docs, "--prune", "--json").stdout)
    counts = ("added", "updated", "unchanged", "deleted", "stale")
    assert [predicted[name] for name in counts] == [ingested[name] for name in counts] == [1, 1, 6, 1, 1]
    compared = run("evaluate", judged, "--collection", "docs", "--baseline", tmp_path / "base.json", "--json")
    actual = json.loads(compared.stdout)["changes"]
    assert predicted["changes"] == actual
    reasons = {query["id"]: query["falls"][0]["reasons"] for query in actual["worse"]}
    assert reasons["apple"][0].startswith("'appl' is not in the chunk any more: it gave ")
    assert reasons["banana"] == ["the chunk 'docs/of-b.txt#0' is not in the index any more"]
    assert set(reasons) == {"apple", "banana", "cherry", "damson"}
    assert {query["falls"][0]["displaced_by"] for query in actual["worse"]} == {"", "docs/list.txt"}


def test_it_says_that_nothing_was_written_and_ends_with_1_if_it_would_be_worse(docs: Path, judged: Path) -> None:
    for word in WORDS:
        (docs / f"of-{word[0]}.txt").write_text("Nothing.")
    result = run("ingest", docs, "--dry-run", "--judged", judged)
    assert result.exit_code == 1
    assert result.stdout.startswith("8 files, 8 chunks: 0 added, 8 updated, 0 unchanged, 0 deleted; ")
    assert "8 queries: 8 worse, 0 better, 0 only reordered\n" in result.stdout
    first, *errors = result.stderr.splitlines()
    assert first == "dry run: nothing was written"
    assert errors[0] == "error: ndcg@10 is significantly worse than before: 1.0000 -> 0.0000, p = 0.0078 < 0.05"
    assert len(errors) == 3


def test_a_dry_run_that_compares_nothing_does_not_pass(docs: Path, judged: Path) -> None:
    (judged / "qrels" / "test.tsv").write_text("".join(f"{word}\tother/{word}.txt\t1\n" for word in WORDS))
    result = run("ingest", docs, "--dry-run", "--judged", judged)
    assert result.exit_code == 1
    assert "error: no hit of any query is judged relevant, before or after: " in result.stderr


def test_a_dry_run_names_the_judged_ids_that_would_not_be_there(docs: Path, judged: Path) -> None:
    judgements = [f"mango\tdocs/{name}.txt\t1\n" for name in ("of-a", "new", "nwe")]
    (judged / "qrels" / "test.tsv").write_text("".join(judgements))
    (docs / "new.txt").write_text("mango")
    result = run("ingest", docs, "--dry-run", "--judged", judged)
    named = "1 of 3 ids that are judged relevant are not in the index: 'docs/nwe.txt' (did you mean 'docs/new.txt'?). "
    assert named in result.stderr


@pytest.mark.parametrize(("bound", "code"), [("ndcg@10=0.9", 1), ("ndcg@10=0.8", 0), ("P@1=0.9", 1), ("P@1=0.8", 0)])
def test_a_dry_run_has_a_minimum(docs: Path, judged: Path, bound: str, code: int) -> None:
    (docs / "of-a.txt").write_text("Something else grows slowly.")
    result = run("ingest", docs, "--dry-run", "--judged", judged, "--min", bound)
    assert result.exit_code == code
    measure, minimum = bound.split("=")
    failure = f"error: {measure} is 0.875, below the minimum of {minimum}"
    assert result.stderr.splitlines() == ["dry run: nothing was written", *[failure] * code]


def test_a_dry_run_needs_no_judged_set(docs: Path, databases: Databases) -> None:
    change(docs)
    before = stored(databases)
    result = run("ingest", docs, "--dry-run")
    assert (result.exit_code, stored(databases)) == (0, before)
    assert result.stdout.startswith("8 files, 8 chunks: 1 added, 1 updated, 6 unchanged, 0 deleted; ")
    assert (
        result.stderr
        == "1 chunk is stale (the files are gone). Use --prune to delete such chunks.\ndry run: nothing was written\n"
    )


def test_an_index_that_does_not_exist_is_not_created(docs: Path, judged: Path, databases: Databases) -> None:
    result = run("ingest", docs, "--dry-run", "--judged", judged, "--collection", "other")
    assert (result.exit_code, list(databases)) == (0, [("./rag_bm25.db", "docs"), ("./rag_bm25.db", "other")])
    assert not databases["./rag_bm25.db", "other"].exist
    assert result.stdout.startswith("8 files, 8 chunks: 8 added, ")
    assert "ndcg@10     0.0000  1.0000" in result.stdout


def test_the_namespace_is_the_one_that_is_written_to(docs: Path, judged: Path) -> None:
    result = run("ingest", docs, "--dry-run", "--judged", judged, "--namespace", "law", "--json")
    measures = json.loads(result.stdout)["changes"]["measures"]["mrr@10"]
    assert (measures["before"], measures["after"]) == (0, 1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--judged", "golden"], "--judged: it compares what would be written: add --dry-run"),
        (["--dry-run", "--min", "ndcg@10=0.8"], "--min: it is of judged queries: add --judged"),
        (["--dry-run", "--watch"], "--watch: a dry run writes nothing: leave one of the two out"),
    ],
)
def test_options_that_do_not_go_together_are_wrong_usage(docs: Path, given: list[str], message: str) -> None:
    result = run("ingest", docs, *given)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_a_set_that_is_none_is_refused_before_the_work(docs: Path, tmp_path: Path) -> None:
    result = run("ingest", docs, "--dry-run", "--judged", tmp_path)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "is not a judged set in BEIR format" in result.stderr
