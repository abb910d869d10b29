"""``rag-bm25 ingest --from-collection`` over fakes: its options, its output, its exit codes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.command_line import Databases, assert_fails, run, run_json
from support.foreign_rows import ForeignRows

TEXTS = ["Milvus stores sparse vectors.", "用人单位解除劳动合同", "sparse rows"]
OPTIONS = ("ingest", "--from-collection", "mine", "--text-field", "body")


@pytest.fixture(autouse=True)
def theirs(databases: Databases, monkeypatch: pytest.MonkeyPatch) -> ForeignRows:
    theirs = ForeignRows(monkeypatch)
    theirs.stored = [{"pk": pk, "body": text, "emb": [1.0, pk]} for pk, text in enumerate(TEXTS)]
    return theirs


def test_prints_what_was_ingested(theirs: ForeignRows) -> None:
    result = run(*OPTIONS, "--vector-field", "emb", "--id-field", "pk", "--progress", "--embedding", "no:model")
    assert result.exit_code == 0
    assert "3/3" in result.stderr
    assert result.stdout.startswith("milvus://mine, 3 chunks: 3 added, 0 updated, 0 unchanged, 0 deleted; ")
    del theirs.stored[0]
    report = run_json(*OPTIONS, "--vector-field", "emb")
    assert {name: report[name] for name in ("files", "chunks", "unchanged", "stale", "deleted")} == {
        "files": 0, "chunks": 2, "unchanged": 2, "stale": 1, "deleted": 0,
    }  # fmt: skip
    result = run(*OPTIONS, "--vector-field", "emb")
    assert result.stderr == "1 chunk is stale (the rows are gone). Use --prune to delete such chunks.\n"
    assert run_json(*OPTIONS, "--vector-field", "emb", "--prune")["deleted"] == 1
    assert [hit["id"] for hit in run_json("search", "sparse", "--mode", "sparse")] == ["2"]


def test_a_wrong_row_is_told_and_the_exit_code_is_1(theirs: ForeignRows) -> None:
    theirs.stored[1]["body"] = None
    result = run(*OPTIONS)
    assert result.exit_code == 1
    assert result.stderr == 'error: mine: row 1: a row needs a "body", and has only pk\n'
    assert "milvus://mine, 2 chunks: 2 added, 0 updated, 0 unchanged, 0 deleted; 1 row rejected; " in result.stdout
    assert_fails(run(*OPTIONS, "--strict"), "nothing was written")


@pytest.mark.parametrize(
    ("stored", "options", "message"),
    [
        ([], (), "no index was created, since mine has no row to ingest"),
        (
            [{"pk": 1, "body": None}],
            (),
            "no index was created, since mine has no row that is valid: mine: row 1: ",
        ),
        ([{"pk": 1, "body": "x"}], ("--text-field", "nope"), 'row 1: a row needs a "nope", and has only pk, body'),
        ([{"pk": 1, "body": "x"}], ("--id-field", "nope"), 'row 1: a row needs an "nope"'),
        ([{"pk": 1, "body": "x"}, {"pk": 2}], ("--strict",), "nothing was written, since files (0) or rows (1)"),
    ],
)
def test_no_index_is_created_for_nothing(
    stored: list[dict[str, Any]], options: tuple[str, ...], message: str, theirs: ForeignRows, databases: Databases
) -> None:
    theirs.stored = stored
    assert_fails(run(*OPTIONS, *options), message)
    assert not any(collections.exist for collections in databases.values())


def test_a_collection_that_has_lost_too_much_is_an_error(theirs: ForeignRows) -> None:
    theirs.stored = [{"pk": pk, "body": "text"} for pk in range(9)]
    run_json(*OPTIONS)
    del theirs.stored[2:]
    result = run(*OPTIONS, "--prune", "--max-delete", "50%")
    assert result.exit_code == 1
    assert "error: mine: 7 of 9 rows are gone, more than 50%" in result.stderr
    assert run_json(*OPTIONS, "--prune", "--max-delete", "80%")["deleted"] == 7


def test_the_command_that_deletes_all_rows_names_the_index(theirs: ForeignRows) -> None:
    run_json(*OPTIONS, "--collection", "words")
    theirs.stored = []
    result = run(*OPTIONS, "--collection", "words", "--prune")
    assert result.exit_code == 1
    assert result.stderr.endswith(": rag-bm25 delete --collection words --source milvus://mine\n")


def test_the_place_of_the_collection(theirs: ForeignRows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILVUS_FROM_TOKEN", "kim:pass")
    monkeypatch.setenv("MILVUS_TOKEN", "root:own")
    run_json(*OPTIONS, "--uri", "http://one:19530")
    other = ("--from-uri", "http://two:19530", "--name", "two", "--id-prefix", "{source}#")
    run_json(*OPTIONS, "--uri", "http://one:19530", *other)
    monkeypatch.delenv("MILVUS_FROM_TOKEN")
    assert run_json(*OPTIONS, "--uri", "http://one:19530", *other)["unchanged"] == 3
    ours, two = ("http://one:19530", "mine", "root:own"), ("http://two:19530", "mine")
    assert theirs.opened == [ours, (*two, "kim:pass"), (*two, None)]
    assert theirs.closed == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ingest"], "give files and folders, or --from-collection"),
        ([*OPTIONS, "docs", "--split-size", "9"], "are taken as they are, without PATH, --split-size"),
        ([*OPTIONS, "--no-gitignore"], "without --gitignore"),
        (
            [*OPTIONS, "--hidden", "--encoding", "big5", "--exclude", "a", "--include", "b"],
            "without --include, --exclude, --encoding, --hidden",
        ),
        ([*OPTIONS, "--watch"], "without --watch"),
        (["ingest", "docs", "--vector-field", "emb"], "for --from-collection: is missing"),
    ],
)
def test_wrong_usage(theirs: ForeignRows, arguments: list[str], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert theirs.opened == []


def test_what_is_not_there(databases: Databases, tmp_path: Path) -> None:
    assert_fails(run("ingest", "--from-collection", "absent"), "collection 'absent' not found at ./rag_bm25.db")
    assert not databases
