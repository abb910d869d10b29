"""LangChain: an index as a retriever, as a document index and as a vector store.

All of them are thin: a :class:`~rag_bm25.BM25Index` does the work, is opened and closed by its user, and may be shared
by any number of them. The asynchronous methods run the same code in a thread, since Milvus's embedded engines block;
queries are embedded by the model's own coroutine.
"""

from __future__ import annotations

from rag_bm25.langchain.document_index import MilvusBM25DocumentIndex
from rag_bm25.langchain.hybrid_retriever import MilvusHybridRetriever
from rag_bm25.langchain.retriever import MilvusBM25Retriever
from rag_bm25.langchain.vector_store import MilvusBM25VectorStore

__all__ = ["MilvusBM25DocumentIndex", "MilvusBM25Retriever", "MilvusBM25VectorStore", "MilvusHybridRetriever"]
