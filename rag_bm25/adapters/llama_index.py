"""Sparse embedding functions for the ``MilvusVectorStore`` of llama-index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rag_bm25.adapters.encoder import document_encoding
from rag_bm25.checks import require_extra

if TYPE_CHECKING:
    from llama_index.vector_stores.milvus.utils import (  # type: ignore[import-not-found, unused-ignore]
        BaseSparseEmbeddingFunction,
    )

    from rag_bm25.adapters.encoder import TextEncoder

__all__ = ["sparse_embedding_function"]


def sparse_embedding_function(encoder: TextEncoder, *, learn: bool = False) -> BaseSparseEmbeddingFunction:
    """Return an encoder as llama-index's ``BaseSparseEmbeddingFunction``.

    Parameters
    ----------
    encoder, learn
        As for :func:`~rag_bm25.adapters.langchain_milvus.sparse_embedding`.

    Returns
    -------
    llama_index.vector_stores.milvus.utils.BaseSparseEmbeddingFunction
        For ``MilvusVectorStore(enable_sparse=True, sparse_embedding_function=...)`` in the hybrid mode. Its sparse mode
        asks for ``drop_ratio_search=0.2``, which milvus-lite 3 refuses, and which drops weights on other engines.
    """
    package = "llama-index-vector-stores-milvus"
    with require_extra(f"this adapter needs {package}, which is not installed: pip install {package}"):
        from llama_index.vector_stores.milvus.utils import BaseSparseEmbeddingFunction
    encode = document_encoding(encoder, learn=learn)

    class BM25SparseEmbeddingFunction(BaseSparseEmbeddingFunction):  # type: ignore[misc, unused-ignore]
        def encode_queries(self, queries: list[str]) -> list[dict[int, float]]:
            return [vector.to_dict() for vector in encoder.encode_queries(queries)]

        def encode_documents(self, documents: list[str]) -> list[dict[int, float]]:
            return [vector.to_dict() for vector in encode(documents)]

    return BM25SparseEmbeddingFunction()
