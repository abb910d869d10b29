"""LangChain's own test suites, unmodified."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_tests.integration_tests import RetrieversIntegrationTests, VectorStoreIntegrationTests
from support.langchain_models import DIM

from rag_bm25 import BM25Index
from rag_bm25.langchain import (
    MilvusBM25Retriever,
    MilvusBM25VectorStore,
    MilvusHybridRetriever,
)

MODEL = DeterministicFakeEmbedding(size=DIM)
DOCUMENTS = [Document(f"Milvus stores vectors, part {number}") for number in range(5)]
EXPECT_UNRELATED = [
    "test_add_documents",
    "test_deleting_documents",
    "test_deleting_bulk_documents",
    "test_add_documents_with_ids_is_idempotent",
    "test_add_documents_by_id_with_mutation",
]


class TestRetriever(RetrieversIntegrationTests):
    @pytest.fixture(autouse=True)
    def _index(self, engine_index: BM25Index) -> None:
        self.index = engine_index
        MilvusBM25Retriever.from_documents(DOCUMENTS, index=engine_index)

    @property
    def retriever_constructor(self) -> type[MilvusBM25Retriever]:
        return MilvusBM25Retriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"index": self.index}

    @property
    def retriever_query_example(self) -> str:
        return "vectors"


class TestHybridRetriever(RetrieversIntegrationTests):
    @pytest.fixture(autouse=True, params=["hybrid", "sparse", "dense"])
    def _index(self, dense_engine_index: BM25Index, request: pytest.FixtureRequest) -> None:
        self.params = {"index": dense_engine_index, "embedding": MODEL, "mode": request.param}
        MilvusHybridRetriever.from_documents(DOCUMENTS, **self.params)

    @property
    def retriever_constructor(self) -> type[MilvusHybridRetriever]:
        return MilvusHybridRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return self.params

    @property
    def retriever_query_example(self) -> str:
        return "vectors"


class TestVectorStore(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, engine_index: BM25Index, request: pytest.FixtureRequest) -> MilvusBM25VectorStore:
        if request.node.originalname.removesuffix("_async") in EXPECT_UNRELATED:
            reason = "expects documents that share no term with the query"
            request.node.add_marker(pytest.mark.xfail(reason=reason))
        return MilvusBM25VectorStore(engine_index)


class TestDenseVectorStore(VectorStoreIntegrationTests):
    @pytest.fixture(params=["hybrid", "dense"])  # these find every document
    def vectorstore(self, dense_engine_index: BM25Index, request: pytest.FixtureRequest) -> MilvusBM25VectorStore:
        return MilvusBM25VectorStore(dense_engine_index, embedding=MODEL, mode=request.param)
