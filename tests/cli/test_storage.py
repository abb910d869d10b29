"""``--storage`` of the commands that make an index, and what ``rag-bm25 stats`` says of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.command_line import Databases, run, run_json

from rag_bm25 import StorageOptions
from rag_bm25.cli.rendering import _format_storage
from rag_bm25.store.storage import StorageInfo

pytestmark = pytest.mark.usefixtures("databases")

STORAGE = ("--storage", "shards=4,mmap=true", "--storage", "inverted-index-algo=DAAT_WAND")
OPTIONS = StorageOptions(4, True, inverted_index_algo="DAAT_WAND")


def test_commands_that_make_an_index_hand_them_on(docs: Path, databases: Databases) -> None:
    for command in (
        ("ingest", docs, "--collection", "one"),
        ("copy", "--to-uri", "two.db"),
        ("reindex", "--to-collection", "three", "--k1", "1.2"),
    ):
        for given, options in (((), None), (STORAGE, OPTIONS)):
            databases.opened.clear()
            result = run(*command, *given)
            assert databases.opened[-1]["storage"] == options, result.output


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("shard=4", "storage has no 'shard'; it has shards, mmap, index_type, inverted_index_algo, quant_type"),
        ("shards=many", "storage.shards must be an int in 1..1024 or None, got 'many'"),
    ],
)
def test_wrong_ones_are_wrong_usage(docs: Path, given: str, message: str) -> None:
    result = run("ingest", docs, "--storage", given)
    assert result.exit_code == 2
    assert "--storage" in result.stderr
    assert message in " ".join(result.stderr.split())


def test_stats_show_what_the_engine_says(docs: Path, databases: Databases) -> None:
    assert run("stats").stdout.splitlines()[-1].split() == ["engine", "memory"]
    assert run_json("stats")["storage"] == {
        "engine": "memory",
        **dict.fromkeys(["version", "shards", "mmap", "index_type", "inverted_index_algo", "quant_type"]),
    }


@pytest.mark.parametrize(
    ("storage", "line"),
    [
        (
            StorageInfo("Milvus", "v3.0.1", 4, True, "SPARSE_INVERTED_INDEX", None, "fp16"),
            "Milvus, version v3.0.1: shards 4, mmap true, index_type SPARSE_INVERTED_INDEX, quant_type fp16",
        ),
        (StorageInfo("milvus-lite 2.5", "2.5.1", index_type="X"), "milvus-lite 2.5, version 2.5.1: index_type X"),
    ],
)
def test_the_line_names_what_is_known(storage: StorageInfo, line: str) -> None:
    assert _format_storage(storage) == line
