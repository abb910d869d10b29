"""The options of how an engine stores chunks, and what it says of it."""

from __future__ import annotations

import pytest

from rag_bm25 import BM25Index, ConfigMismatchError, IndexConfig, ParameterError, StorageOptions
from rag_bm25.store.milvus.collection import _collection_options, _sparse_index
from rag_bm25.store.milvus.server import Lite3Server, Server
from rag_bm25.store.storage import StorageInfo, check_storage, parse_version, require_effective, require_same_storage

ALL = StorageOptions(4, True, "SPARSE_WAND", "DAAT_WAND", "fp32")


def test_only_a_storage_options_is_taken() -> None:
    assert check_storage(None) == StorageOptions()
    assert check_storage(ALL) is ALL
    with pytest.raises(ParameterError, match="storage must be a StorageOptions or None"):
        check_storage({"shards": 2})
    with pytest.raises(ParameterError, match="storage must be a StorageOptions or None"):
        BM25Index.open("./never.db", "docs", config=IndexConfig(500), storage={"shards": 2})  # type: ignore[arg-type]


def test_an_index_in_memory_takes_none() -> None:
    with pytest.raises(ParameterError, match="storage must be left out with ':memory:'"):
        BM25Index.open(":memory:", "docs", config=IndexConfig(500), storage=ALL)
    with BM25Index.open(":memory:", "docs", config=IndexConfig(500)) as index:
        assert index.stats().storage == StorageInfo("memory")


def test_options_become_those_of_milvus() -> None:
    assert _collection_options(ALL) == {"num_shards": 4, "properties": {"mmap.enabled": "true"}}
    assert _sparse_index(ALL) == {
        "index_type": "SPARSE_WAND",
        "metric_type": "IP",
        "params": {"inverted_index_algo": "DAAT_WAND", "quant_type": "fp32", "mmap.enabled": "true"},
    }
    assert _sparse_index(StorageOptions(quant_type="fp32"))["params"] == {
        "inverted_index_algo": "DAAT_MAXSCORE",  # a server of index version 10 would build SINDI, which is fp16
        "quant_type": "fp32",
    }
    assert _collection_options(StorageOptions()) == {"num_shards": 1}
    assert _sparse_index(StorageOptions()) == {"index_type": "SPARSE_INVERTED_INDEX", "metric_type": "IP"}
    assert _sparse_index(StorageOptions(mmap=False))["params"] == {"mmap.enabled": "false"}


def test_what_an_engine_would_ignore_is_refused() -> None:
    require_effective(StorageOptions(), {}, "an engine")
    require_effective(ALL, dict.fromkeys(ALL.given(), ()), "an engine")
    with pytest.raises(ParameterError, match=r"^shards must be left out: an engine has no such option, got 2$"):
        require_effective(StorageOptions(shards=2), {"mmap": ()}, "an engine")
    with pytest.raises(
        ParameterError, match=r"^inverted_index_algo must be one of A, B with an engine, got 'TAAT_NAIVE'$"
    ):
        require_effective(
            StorageOptions(inverted_index_algo="TAAT_NAIVE"), {"inverted_index_algo": ("A", "B")}, "an engine"
        )


def test_differences_from_what_was_built_are_listed() -> None:
    built = StorageInfo("Milvus", "v3.0.1", 1, index_type="SPARSE_INVERTED_INDEX", quant_type="fp16")
    require_same_storage("x", built, StorageOptions(shards=1, quant_type="fp16"))
    with pytest.raises(ConfigMismatchError) as caught:
        require_same_storage("x", built, StorageOptions(shards=4, mmap=True, quant_type="fp16"))
    assert str(caught.value) == (
        "x was created with other storage options: shards: built 1, given 4; mmap: built as the server does by "
        "default, given True. Leave them out, or copy the index to a collection that has them: `rag-bm25 copy "
        "--storage NAME=VALUE`"
    )


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("v2.6.4", (2, 6, 4)),
        ("3.0.0-beta", (3, 0, 0)),
        ("milvus_lite-3.2.2", (3, 2, 2)),
        ("Zilliz Cloud Vector Database(Compatible with Milvus 2.5)", (2, 5)),
        ("master-20261101-abc", ()),
        ("", ()),
        (None, ()),
    ],
)
def test_versions(text: str | None, numbers: tuple[int, ...]) -> None:
    assert parse_version(text) == numbers


@pytest.mark.parametrize(
    ("version", "is_new"), [("v2.5.27", False), ("v2.6.25", False), ("v3.0.2", True), ("master-20261101", True)]
)
def test_a_server_has_what_its_version_has(version: str, is_new: bool) -> None:
    server = Server.__new__(Server)
    server.version = version
    choices = server.storage_choices()
    assert ("quant_type" in choices, "BLOCK_MAX_WAND" in choices["inverted_index_algo"]) == (is_new, is_new)
    require_effective(StorageOptions(4, True, "SPARSE_WAND", "TAAT_NAIVE"), choices, "Milvus")


def test_milvus_lite_behind_an_address_has_none() -> None:
    assert Lite3Server.__new__(Lite3Server).storage_choices() == {}
