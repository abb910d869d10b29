"""``rag-bm25 stats``, ``verify``, ``repair`` and ``delete``."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from support.command_line import UNCONFIRMED, Databases, assert_fails, run, run_json

from rag_bm25.store.memory import MemoryStore

pytestmark = pytest.mark.usefixtures("databases")


def test_stats_warn_where_the_chunk_size_has_drifted(tmp_path: Path) -> None:
    names = [f"{number:03}".translate(str.maketrans("0123456789", "abcdefghij")) for number in range(100)]
    texts = [f"sparse{name}, rows{name}, of, one{name}, length{name}" for name in names]
    rows = "".join(json.dumps({"id": name, "text": text}) + "\n" for name, text in zip(names, texts, strict=True))
    (tmp_path / "rows.jsonl").write_text(rows)
    run("ingest", "rows.jsonl", "--chunk-size", 35, "--collection", "healthy")
    run("ingest", "rows.jsonl", "--chunk-size", 500, "--collection", "drifted")
    warned = run("stats", "--collection", "drifted")
    assert warned.stderr == (
        "the chunk size is 16 times the mean length: the length of chunks hardly counts; `rag-bm25 reindex "
        "--chunk-size 45` changes it\n"
    )
    run("reindex", "--chunk-size", 45, "--collection", "drifted")
    assert run("stats", "--collection", "drifted").stderr == ""
    assert run("stats", "--collection", "healthy").stderr == ""
    assert run_json("stats", "--collection", "healthy")["drift_warning"] is None


@pytest.mark.parametrize("name", ["中国人民大学", "Acme Robotics"])
def test_stats_and_calibrate_warn_of_a_name_that_most_chunks_have(tmp_path: Path, name: str) -> None:
    (tmp_path / "files").mkdir()
    for number in range(100):
        (tmp_path / "files" / f"{number}.txt").write_text(f"{name * (number % 3 > 0)}: 招生 {number}")
    run("ingest", "files")
    warning = (
        f"more than half of the chunks have {name}: if most queries do, too, idf=lucene weighs their rarer words more"
    )
    for command in (["stats"], ["calibrate"], ["calibrate", "files"]):
        warned = run(*command, "--json")
        assert warning in warned.stderr
        assert json.loads(warned.stdout)["idf_warning"] == warning
    assert json.loads(run("stats", "--json").stdout)["frequent_names"] == [name]
    run("ingest", "files", "--collection", "lucene", "--set", "idf=lucene")
    assert json.loads(run("stats", "--collection", "lucene", "--json").stdout)["idf_warning"] is None


def test_stats_of_a_namespace(docs: Path) -> None:
    run("ingest", docs / "law.txt", "--namespace", "n")
    assert [run_json("stats", *which)["num_chunks"] for which in ([], ["--namespace", "n"])] == [4, 1]
    assert run("stats", "--namespace", "nope").stderr == (
        "the namespace 'nope' has no chunks; namespaces with chunks: the default namespace, the namespace 'n'\n"
    )


def test_verify_names_differences_and_exits_with_1(docs: Path, databases: Databases) -> None:
    chunks = databases["./rag_bm25.db", "docs"].chunks
    del chunks[next(key for key, row in chunks.items() if row.id == "docs/law.txt#0")]
    result = run("verify")
    assert result.exit_code == 1
    assert "chunks: stored 3, counted 2" in result.stdout
    report = json.loads(run("verify", "--json").stdout)
    whats = [difference["what"] for difference in report["differences"]]
    assert (report["ok"], whats[:2]) == (False, ["chunks", "length"])
    assert whats[2:] == sorted(whats[2:]) != []


def test_fast_leaves_the_vectors_out(docs: Path, databases: Databases) -> None:
    chunks = databases["./rag_bm25.db", "docs"].chunks
    key, row = next((key, row) for key, row in chunks.items() if row.id == "docs/law.txt#0")
    chunks[key] = replace(row, text="changed")
    result = run("verify", "--fast")
    assert (result.exit_code, "right; vectors were not compared with their texts" in result.stdout) == (0, True)
    assert run_json("verify", "--fast")["wrong_chunks"] is None
    assert run("verify").exit_code == 1
    assert json.loads(run("verify", "--json").stdout)["wrong_chunks"] == 1
    assert "written again: 1 chunk with" in run("repair").stdout
    assert run("verify").exit_code == 0


def test_many_differences_are_counted_and_the_first_are_shown(docs: Path, databases: Databases) -> None:
    log = databases["./rag_bm25.db", "docs"].log
    for key in [key for key in log if key.startswith("terms")]:
        del log[key]
    result = run("verify")
    found = json.loads(run("verify", "--json").stdout)["differences"]
    assert len(result.stdout.splitlines()) == 1 + 20
    assert f"{len(found) - 20:,} more: --json shows all" in result.stderr


def test_erase_tells_what_it_has_erased(docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("delete", "docs/law.txt#0", "--yes")
    assert run_json("repair")["erased_terms"] == 0
    erased = run("repair", "--erase")
    assert "erased: " in erased.stdout
    assert erased.stderr == ""
    monkeypatch.setattr(MemoryStore, "compact", lambda _: False)
    again = run("repair", "--erase")
    assert again.stdout.endswith("erased: 0 terms without chunks\n")
    assert "may still have deleted texts: copy the index with `rag-bm25 copy`, and remove the old one" in again.stderr


def test_repair_opens_an_index_whose_log_is_damaged(docs: Path, databases: Databases) -> None:
    log = databases["./rag_bm25.db", "docs"].log
    for key in [key for key in log if key.startswith("delta")]:
        log[key] = replace(log[key], meta={})
    assert_fails(run("stats"), "cannot be read")
    assert run("repair").stdout.startswith("the statistics are right: 3 chunks, ")
    assert run_json("stats")["num_chunks"] == 3


def test_repair_of_lost_statistics_needs_the_parameters_of_the_index(docs: Path, databases: Databases) -> None:
    run("ingest", docs, "--collection", "own", "--chunk-size", "40", "--set", "stem=false")
    expected = run_json("stats", "--collection", "own")
    databases["./rag_bm25.db", "own"].log.clear()
    databases["./rag_bm25.db", "own"].log_exists = False
    assert_fails(run("stats", "--collection", "own"), "its statistics are lost, with its config")
    assert_fails(run("repair", "--collection", "own"), "the config does not reproduce the vectors")
    run_json("repair", "--collection", "own", "--set", "chunk_size=40", "--set", "stem=false")
    assert run_json("stats", "--collection", "own") == expected


def test_delete_by_ids(docs: Path) -> None:
    result = run("delete", "r1", "nothing")
    assert (result.exit_code, result.stdout, result.stderr) == (
        0,
        "1 chunk deleted\n",
        "1 of 2 ids not found: nothing\n",
    )
    assert run_json("stats")["num_chunks"] == 2
    result = run("delete", "r1", *"abcde")
    assert (result.exit_code, result.stdout) == (1, "0 chunks deleted\n")
    assert result.stderr == "6 of 6 ids not found: r1, a, b, c, d, ...\n"


FILTER = ("--filter", '{"source": {"$like": "docs/%"}}')


@pytest.mark.parametrize("filter", ["{}", " {} "])
def test_an_empty_filter_deletes_nothing(docs: Path, databases: Databases, filter: str) -> None:
    opened = len(databases.opened)
    result = run("delete", "--filter", filter, "--yes")
    assert result.exit_code == 2
    assert "an empty filter fits every chunk" in " ".join(result.stderr.replace("│", " ").split())
    assert len(databases.opened) == opened
    assert run_json("stats")["num_chunks"] == 3


def test_a_deletion_that_nobody_can_mean_is_wrong_usage(docs: Path) -> None:
    result = run("delete", "r1", *FILTER, "--yes")
    assert result.exit_code == 2
    assert "give the ids of chunks, --source or --filter, one of them" in result.stderr
    assert run_json("stats")["num_chunks"] == 3


@pytest.mark.parametrize(
    "way", [("delete", *FILTER), ("delete", "--source", "docs/"), ("drop-namespace", ""), ("drop",)]
)
@pytest.mark.parametrize(("answer", "left", "code"), [("y", 0, 0), ("n", 3, 1), ("", 3, 1), (None, 3, 2)])
def test_a_deletion_asks(
    docs: Path,
    databases: Databases,
    monkeypatch: pytest.MonkeyPatch,
    way: tuple[str, ...],
    answer: str | None,
    left: int,
    code: int,
) -> None:
    monkeypatch.setattr("rag_bm25.cli.console.is_terminal", lambda: answer is not None)
    result = run(*way, input=f"{answer}\n")
    assert result.exit_code == code
    assert (UNCONFIRMED if answer is None else "3 chunks? [y/N]:") in result.stderr
    assert sum(len(one.chunks) for one in databases.values() if one.exist) == left


def test_a_dry_run_deletes_nothing(docs: Path) -> None:
    result = run("delete", *FILTER, "--dry-run")
    assert result.stdout.splitlines() == [
        "3 chunks would be deleted; nothing was deleted",
        "docs/law.txt#0",
        "docs/milvus.md#0",
        "r1",
    ]
    assert run_json("delete", "r1", "--dry-run") == {"would_delete": ["r1"]}
    assert run_json("stats")["num_chunks"] == 3


def test_delete_by_source(docs: Path) -> None:
    planned = run_json("delete", "--source", "docs/law.txt", "--dry-run")
    assert planned == {"would_delete": ["docs/law.txt#0"]}
    result = run("delete", "--source", "docs/law.txt", "--source", "docs/none.md", "--yes")
    assert result.exit_code == 0
    assert result.stdout == "1 chunk deleted\n"
    assert result.stderr == "1 of 2 sources not found: docs/none.md\n"
    assert run_json("stats")["num_chunks"] == 2
    assert run_json("delete", "--source", "docs/", "--dry-run") == {"would_delete": ["docs/milvus.md#0", "r1"]}
    again = run("delete", "--source", "docs/law.txt", "--yes")
    assert (again.exit_code, again.stderr) == (1, "1 of 1 source not found: docs/law.txt\n")


def test_a_tenant_leaves(docs: Path) -> None:
    assert run("ingest", docs / "law.txt", "--namespace", "tenant-7").exit_code == 0
    assert_fails(run("drop-namespace", "tenant-7"), f"the namespace 'tenant-7' with 1 chunk: {UNCONFIRMED}", 2)
    assert run("drop-namespace", "tenant-7", "--yes").stdout == "dropped the namespace 'tenant-7': 1 chunk\n"
    assert run_json("stats")["namespaces"] == [""]
    again = run("drop-namespace", "tenant-7")  # there is nothing to confirm
    said = "the namespace 'tenant-7' has no chunks; namespaces with chunks: the default namespace\n"
    assert (again.exit_code, again.stdout, again.stderr) == (1, "", said)
