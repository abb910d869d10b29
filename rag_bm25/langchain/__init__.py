"""LangChain: an index as a retriever and as a vector store.

All of them are thin: a :class:`~rag_bm25.BM25Index` does the work. Its user opens and closes it, and any number of them
may share it. The asynchronous methods run the same code in a thread, since Milvus's engines block, those that write in
the index's own; the model's own coroutine embeds queries.
"""

from __future__ import annotations

from rag_bm25.hits.reranking import cross_encoder_reranker
from rag_bm25.langchain.hybrid_retriever import MilvusHybridRetriever
from rag_bm25.langchain.retriever import MilvusBM25Retriever
from rag_bm25.langchain.tools import create_search_tool
from rag_bm25.langchain.vector_store import MilvusBM25VectorStore

__all__ = [
    "MilvusBM25Retriever",
    "MilvusBM25VectorStore",
    "MilvusHybridRetriever",
    "create_search_tool",
    "cross_encoder_reranker",
]
