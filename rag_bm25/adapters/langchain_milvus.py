"""Sparse embeddings for the ``Milvus`` store of langchain-milvus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rag_bm25.adapters.encoder import document_encoding
from rag_bm25.checks import require_extra

if TYPE_CHECKING:
    from langchain_milvus.utils.sparse import BaseSparseEmbedding  # type: ignore[import-not-found, unused-ignore]

    from rag_bm25.adapters.encoder import TextEncoder

__all__ = ["sparse_embedding"]


def sparse_embedding(encoder: TextEncoder, *, learn: bool = False) -> BaseSparseEmbedding:
    """Return an encoder as langchain-milvus's ``BaseSparseEmbedding``.

    The store passes to an embedding the texts that it adds, but not those that it deletes or replaces. So
    ``embed_documents`` counts nothing by default: keep the counts yourself, with ``learn``, ``forget`` or ``fit`` of
    the encoder.

    Parameters
    ----------
    encoder : TextEncoder
        A :class:`~rag_bm25.adapters.BM25Encoder` or a :class:`~rag_bm25.BM25Index`.
    learn : bool
        Count every text that is embedded, by a :class:`~rag_bm25.adapters.BM25Encoder` only (else a ParameterError);
        correct if texts are only ever added, each once.

    Returns
    -------
    langchain_milvus.utils.sparse.BaseSparseEmbedding
        For ``Milvus(embedding_function=..., index_params={"metric_type": "IP", "index_type": "SPARSE_INVERTED_INDEX"},
        search_params={"metric_type": "IP"})``. Both are needed: if one is missing, the store asks for
        ``drop_ratio_build=0.2``, which milvus-lite 3 refuses, and which drops weights on other engines.
    """
    with require_extra("this adapter needs langchain-milvus, which is not installed: pip install langchain-milvus"):
        from langchain_milvus.utils.sparse import BaseSparseEmbedding
    encode_documents = document_encoding(encoder, learn=learn)

    class BM25SparseEmbedding(BaseSparseEmbedding):  # type: ignore[misc, unused-ignore]
        def embed_query(self, query: str) -> dict[int, float]:
            return encoder.encode_queries([query])[0].to_dict()

        def embed_documents(self, texts: list[str]) -> list[dict[int, float]]:
            return [vector.to_dict() for vector in encode_documents(texts)]

    return BM25SparseEmbedding()
