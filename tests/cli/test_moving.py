"""``rag-bm25 copy``, ``reindex`` and ``drop`` over in-memory stores: output, what they open, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.answers import give_model
from support.command_line import UNCONFIRMED, Databases, assert_fails, run, run_json
from support.memory_store import Collections

from rag_bm25 import TLS, AnalyzerConfig, BM25Index, IndexConfig

SERVER = "http://milvus:19530"


@pytest.fixture(autouse=True)
def milvus(databases: Databases, monkeypatch: pytest.MonkeyPatch) -> Databases:
    """An index of three chunks in ``rag.db``."""
    monkeypatch.setattr(
        "rag_bm25.store.milvus.address.is_missing_file",
        lambda uri: uri.endswith(".db") and not any(uri == known for known, _ in databases),
    )
    monkeypatch.delenv("MILVUS_TO_TOKEN", raising=False)
    monkeypatch.setenv("MILVUS_URI", "rag.db")
    with BM25Index.from_store(databases.store("rag.db", "docs"), config=IndexConfig(chunk_size=9)) as index:
        index.add(["sparse vectors", "用人单位解除劳动合同", "sparse rows"])
    databases.opened.clear()
    return databases


def test_copy_opens_both_places_and_says_what_it_did(milvus: Databases) -> None:
    options = ("--to-uri", SERVER, "--to-collection", "manuals")
    result = run("copy", *options, env={"MILVUS_TOKEN": "mine", "MILVUS_TO_TOKEN": "theirs"})
    assert (result.exit_code, result.stderr) == (0, "")
    assert "3 chunks and" in result.stdout
    assert "equal to the source; 3 rows written in " in result.stdout
    assert milvus.opened == [
        {"uri": "rag.db", "collection": "docs", "token": "mine", "tls": None, "read_only": True},
        {"uri": SERVER, "collection": "manuals", "token": "theirs", "tls": None, "read_only": False, "storage": None},
    ]
    assert milvus[SERVER, "manuals"].chunks == milvus["rag.db", "docs"].chunks
    assert_fails(run("copy", *options), "manuals already exists. Drop it first or choose another name")


@pytest.mark.parametrize(
    "command",
    [("copy", "--to-uri", "rag.db"), ("copy", "--to-uri", "./rag.db"), ("reindex", "--to-collection", "docs")],
)
def test_no_index_is_written_onto_itself(command: tuple[str, ...]) -> None:
    result = run(*command)
    assert result.exit_code == 2
    assert "Invalid value for --to-collection: this is the index itself" in result.stderr


def test_copy_keeps_the_name_and_never_sends_the_token_of_the_source(milvus: Databases) -> None:
    result = run("copy", "--to-uri", SERVER, "--token", "mine", "--json", "--progress")
    assert "copied" in result.stderr
    assert json.loads(result.stdout).items() >= {"num_chunks": 3, "copied": 3, "removed": 0}.items()
    assert (milvus.opened[1]["collection"], milvus.opened[1]["token"]) == ("docs", None)


@pytest.mark.parametrize(("to", "place"), [(SERVER, "memory"), ("other.db", "a new file, collection 'docs'")])
def test_copy_dry_run_writes_nothing(milvus: Databases, to: str, place: str) -> None:
    result = run("copy", "--to-uri", to, "--dry-run")
    assert result.exit_code == 0
    assert f" of memory to {place}: a new copy; nothing was written" in result.stdout
    assert all(options["read_only"] for options in milvus.opened)
    assert not milvus.get((to, "docs"), Collections()).exist
    assert run_json("copy", "--to-uri", to, "--dry-run")["resumes"] is False


def test_copy_that_was_cut_short_goes_on(milvus: Databases) -> None:
    def interrupt(method: str) -> None:
        if method == "insert_chunks":
            milvus.on_call = None
            raise KeyboardInterrupt

    milvus.on_call = interrupt
    result = run("copy", "--to-uri", SERVER)
    assert result.exit_code == 130
    assert "running the same command again continues" in result.stderr
    assert "going on with a copy that was cut short" in run("copy", "--to-uri", SERVER, "--dry-run").stdout
    assert_fails(run("stats", "--uri", SERVER), "is an unfinished copy of memory. Run the same copy again, or drop it.")
    assert run("copy", "--to-uri", SERVER).exit_code == 0
    assert run("verify", "--uri", SERVER).exit_code == 0


def test_certificates_are_for_encrypted_addresses(milvus: Databases, tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    ca.touch()
    encrypted = SERVER.replace("http", "https")
    assert run("--tls-ca", str(ca), "--tls-server-name", "name", "copy", "--to-uri", encrypted).exit_code == 0
    assert [options["tls"] for options in milvus.opened] == [None, TLS(ca_file=ca, server_name="name")]
    assert run("stats", "--uri", encrypted, env={"MILVUS_TLS_CA": str(ca)}).exit_code == 0
    assert milvus.opened[-1]["tls"] == TLS(ca_file=ca)
    assert run("stats", "--uri", encrypted).exit_code == 0
    assert milvus.opened[-1]["tls"] is None
    assert_fails(run("--tls-ca", "none.pem", "stats"), "ca_file must be a file, got 'none.pem'")


def test_reindex_makes_an_index_with_other_parameters(milvus: Databases) -> None:
    command = ("reindex", "--to-collection", "new", "--set", "chunk_size=400,k1=1.2", "--set", "stem=false")
    assert run(*command, "--token", "mine").stdout == "new has 3 chunks; 0 chunks removed\n"
    assert [(options["collection"], options["token"]) for options in milvus.opened] == [
        ("docs", "mine"),
        ("new", "mine"),
    ]
    with BM25Index.from_store(milvus.store("rag.db", "new")) as index:
        assert (index.config.chunk_size, index.config.k1, index.config.b) == (400, 1.2, 0.75)
        assert index.config.analyzer == AnalyzerConfig(stem=False)
        assert index.verify().num_chunks == 3
    assert run_json(*command) == {"num_chunks": 3, "removed": 0, "model_lost": False}
    run(*command, "--to-uri", SERVER, "--token", "mine", env={"MILVUS_TO_TOKEN": "theirs"})
    assert (milvus.opened[-1]["uri"], milvus.opened[-1]["token"]) == (SERVER, "theirs")
    assert_fails(
        run(*command, "--set", "b=0.1"),
        "'new' already exists, and the index was created with other parameters: b: stored 0.75, given 0.1. Drop it "
        "first, or choose another --to-collection.",
    )


def test_reindex_replaces_an_index_under_its_name(milvus: Databases) -> None:
    command = ("reindex", "--chunk-size", "400", "--set", "stem=false")
    assert run(*command, "--progress").stdout == (
        "memory, generation 2 is in force: 3 chunks; --drop-old drops the former generations\n"
    )
    assert run("search", "rows").stdout
    with BM25Index.from_store(milvus.store("rag.db", "docs")) as index:
        assert (index.config.chunk_size, index.config.analyzer) == (400, AnalyzerConfig(stem=False))
    assert run(*command).stdout == "memory, generation 2 has these settings already: nothing has changed\n"
    assert run("list").stdout.splitlines()[1].split() == [
        *("docs", "(generation", "2,", "generation", "1:", "3", "rows)", "3", "default")
    ]
    assert run("reindex", "--drop-old").stdout == "dropped all of memory but the generation in force: 3 rows\n"
    assert run_json("reindex", "--drop-old") == {"rows": 0}
    for settings in (("--k1", "0.9"), ("--storage", "shards=4")):
        assert run("reindex", "--drop-old", *settings).exit_code == 2
    assert run_json("list") == [
        {"name": "docs", "chunks": 3, "namespaces": [""], "generation": 2, "other_generations": {}},
    ]
    assert run("list").stdout.splitlines()[1].split() == ["docs", "(generation", "2)", "3", "default"]
    assert run("copy", "--to-uri", SERVER).exit_code == 0
    assert "generation" not in run_json("list", "--uri", SERVER)[0]


@pytest.mark.parametrize("options", [(), ("--to-collection", "new")], ids=["in place", "another index"])
def test_reindex_notes_that_the_model_was_not_kept(milvus: Databases, options: tuple[str, ...]) -> None:
    with BM25Index.from_store(milvus.store("rag.db", "docs")) as index:
        give_model(index)
    assert run("reindex", *options, "--k1", "0.9").stderr == (
        "the confidence model was not kept: run `rag-bm25 calibrate-answers` again\n"
    )


def test_drop_needs_yes(milvus: Databases) -> None:
    assert_fails(run("drop"), f"memory with 3 chunks: {UNCONFIRMED}", 2)
    assert milvus["rag.db", "docs"].exist
    assert milvus.opened[0]["read_only"] is True
    assert run("drop", "--yes").stdout == "dropped memory: 3 chunks\n"
    assert not milvus["rag.db", "docs"].exist
    assert_fails(run("drop", "--yes"), "index not found in memory")
    assert_fails(run("drop", "--yes", "--uri", "missing.db"), "database missing.db not found")
