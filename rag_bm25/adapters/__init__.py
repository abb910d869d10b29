"""An encoder for vector stores of other libraries.

:class:`BM25Encoder` makes the vectors and keeps the statistics in memory and in a file. The modules of this package
wrap it, or a :class:`~rag_bm25.BM25Index`, for langchain-milvus and llama-index. They import the packages that they
need when they are called; a ``MissingExtraError`` names one that is not installed.
"""

from __future__ import annotations

from rag_bm25.adapters.encoder import BM25Encoder

__all__ = ["BM25Encoder"]
