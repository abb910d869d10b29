"""Encoders for vector stores of other libraries.

:class:`BM25Encoder` makes the vectors and keeps the statistics in memory and in a file. :func:`adopt` counts the texts
of a collection that others fill, and keeps the statistics beside it. The modules of this package wrap either, or a
:class:`~rag_bm25.BM25Index`, for langchain-milvus and llama-index. They import the packages that they need when they
are called; a ``MissingExtraError`` names one that is not installed.
"""

from __future__ import annotations

from rag_bm25.adapters.adoption import AdoptedEncoder, adopt
from rag_bm25.adapters.encoder import BM25Encoder

__all__ = ["AdoptedEncoder", "BM25Encoder", "adopt"]
