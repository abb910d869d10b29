"""For users of langchain-milvus: its ``Milvus`` store takes the result as a sparse embedding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rag_bm25.adapters.encoder import document_encoding
from rag_bm25.errors import MissingExtraError

if TYPE_CHECKING:
    from langchain_milvus.utils.sparse import (  # type: ignore[import-not-found, unused-ignore]
        BaseSparseEmbedding,
    )

    from rag_bm25.adapters.encoder import TextEncoder

__all__ = ["sparse_embedding"]


def sparse_embedding(encoder: TextEncoder, *, learn: bool = False) -> BaseSparseEmbedding:
    """Return an encoder as langchain-milvus's ``BaseSparseEmbedding``.

    The store tells an embedding what is added, and nothing of what is deleted or replaced. So ``embed_documents``
    changes no statistics by default: tell the encoder yourself, with ``learn``, ``forget`` or ``fit``,
    or count what the store holds, with :func:`~rag_bm25.adapters.adopt`.

    Parameters
    ----------
    encoder : TextEncoder
        A :class:`~rag_bm25.adapters.BM25Encoder` or :class:`~rag_bm25.adapters.AdoptedEncoder`, or a
        :class:`~rag_bm25.BM25Index`.
    learn : bool
        Count every text that is embedded; right where texts are only ever added, each once.

    Returns
    -------
    langchain_milvus.utils.sparse.BaseSparseEmbedding
        For ``Milvus(embedding_function=..., index_params={"metric_type": "IP", "index_type": "SPARSE_INVERTED_INDEX"},
        search_params={"metric_type": "IP"})``. Both are needed: where one is missing, the store asks for
        ``drop_ratio_build=0.2``, which milvus-lite 3 refuses, and which leaves out weights elsewhere.

    Raises
    ------
    MissingExtraError
        langchain-milvus is not installed.
    ParameterError
        `learn` is asked of an index, which counts its own chunks.
    """
    try:
        from langchain_milvus.utils.sparse import BaseSparseEmbedding
    except ImportError:
        msg = "this adapter needs langchain-milvus, which is not installed: pip install langchain-milvus"
        raise MissingExtraError(msg) from None
    encode_documents = document_encoding(encoder, learn=learn)

    class BM25SparseEmbedding(BaseSparseEmbedding):  # type: ignore[misc, unused-ignore]
        """Term weights for documents, IDFs for queries."""

        def embed_query(self, query: str) -> dict[int, float]:
            return encoder.encode_queries([query])[0].to_dict()

        def embed_documents(self, texts: list[str]) -> list[dict[int, float]]:
            return [vector.to_dict() for vector in encode_documents(texts)]

    return BM25SparseEmbedding()
