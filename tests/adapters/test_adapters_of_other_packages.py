"""The adapters whose packages are in no extra: they run where those are installed, see ``make test-adapters``."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from support import engines

from rag_bm25 import BM25Index, IndexConfig, MissingExtraError
from rag_bm25.adapters import BM25Encoder
from rag_bm25.adapters.langchain_milvus import sparse_embedding
from rag_bm25.adapters.llama_index import sparse_embedding_function

TEXTS = ["apple banana", "fig fig"]
GUIDE = Path(__file__).resolve().parents[2] / "docs" / "adapters.md"

embedded = pytest.mark.skipif(not engines.lite_version(), reason="milvus-lite is not installed")


@pytest.fixture
def encoder(config: IndexConfig) -> BM25Encoder:
    return BM25Encoder(config).fit(TEXTS)


def run_the_guide(heading: str) -> None:
    """Run the code below a heading, which searches through the other package's store, and asserts what it finds."""
    section = GUIDE.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    blocks = re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, GUIDE.name, "exec"), {})


def dicts(vectors: Any) -> list[dict[int, float]]:
    return [vector.to_dict() for vector in vectors]


class TestLangChainMilvus:
    @pytest.fixture(autouse=True)
    def _installed(self) -> None:
        pytest.importorskip("langchain_milvus")

    def test_is_what_its_store_takes(self, encoder: BM25Encoder) -> None:
        from langchain_milvus.utils.sparse import BaseSparseEmbedding

        assert isinstance(sparse_embedding(encoder), BaseSparseEmbedding)

    def test_embeds_without_counting(self, encoder: BM25Encoder) -> None:
        embedding = sparse_embedding(encoder)
        assert embedding.embed_documents(TEXTS) == dicts(encoder.encode_documents(TEXTS))
        assert embedding.embed_query("fig") == encoder.encode_queries(["fig"])[0].to_dict()
        assert asyncio.run(embedding.aembed_query("fig")) == embedding.embed_query("fig")
        assert encoder.num_chunks == 2

    def test_counts_where_told_to(self, encoder: BM25Encoder) -> None:
        sparse_embedding(encoder, learn=True).embed_documents(["grape"])
        assert encoder.num_chunks == 3

    @embedded
    @pytest.mark.filterwarnings("default")  # of other packages
    def test_is_searched_through_its_store(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        run_the_guide("langchain-milvus")

    def test_takes_an_index(self, index: BM25Index) -> None:
        index.add(TEXTS)
        embedding = sparse_embedding(index)
        assert embedding.embed_query("fig") == index.encode_queries(["fig"])[0].to_dict()


class TestLlamaIndex:
    @pytest.fixture(autouse=True)
    def _installed(self) -> None:
        pytest.importorskip("llama_index.vector_stores.milvus")

    def test_is_what_its_store_takes(self, encoder: BM25Encoder) -> None:
        from llama_index.vector_stores.milvus.utils import BaseSparseEmbeddingFunction

        assert isinstance(sparse_embedding_function(encoder), BaseSparseEmbeddingFunction)

    def test_encodes_without_counting(self, encoder: BM25Encoder) -> None:
        function = sparse_embedding_function(encoder)
        assert function.encode_documents(TEXTS) == dicts(encoder.encode_documents(TEXTS))
        assert function.encode_queries(["fig"]) == dicts(encoder.encode_queries(["fig"]))
        assert asyncio.run(function.async_encode_queries(["fig"])) == function.encode_queries(["fig"])
        assert encoder.num_chunks == 2

    def test_counts_where_told_to(self, encoder: BM25Encoder) -> None:
        sparse_embedding_function(encoder, learn=True).encode_documents(["grape"])
        assert encoder.num_chunks == 3

    @embedded
    @pytest.mark.filterwarnings("default")  # of other packages
    def test_is_searched_through_its_store(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        run_the_guide("llama-index")


@embedded
@pytest.mark.filterwarnings("default")  # of other packages
def test_the_component_for_haystack_is_part_of_a_pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("haystack", reason="haystack-ai is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HAYSTACK_TELEMETRY_ENABLED", "False")
    run_the_guide("Haystack")


@pytest.mark.parametrize(
    ("adapter", "module", "package"),
    [
        (sparse_embedding, "langchain_milvus.utils.sparse", "langchain-milvus"),
        (sparse_embedding_function, "llama_index.vector_stores.milvus.utils", "llama-index-vector-stores-milvus"),
    ],
)
def test_a_missing_package_is_named(
    encoder: BM25Encoder, monkeypatch: pytest.MonkeyPatch, adapter: Any, module: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=f"needs {package}, which is not installed: pip install {package}"):
        adapter(encoder)
