"""LlamaIndex: an index as a retriever.

It needs llama-index-core, and neither Milvus's vector store for LlamaIndex nor an embedding model:
the extra ``llama-index``.
"""

from __future__ import annotations

from rag_bm25.llama_index.retriever import MilvusBM25Retriever

__all__ = ["MilvusBM25Retriever"]
