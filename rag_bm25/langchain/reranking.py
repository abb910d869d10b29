"""Rerank hits by LangChain's cross-encoders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rag_bm25.checks import parameter_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.cross_encoders import BaseCrossEncoder

    from rag_bm25.documents.chunks import Hit
    from rag_bm25.hits.options import Rerank


def cross_encoder_reranker(model: BaseCrossEncoder) -> Rerank:
    """Return a reranker for the option `rerank`, which scores pairs of the query and the text of a hit.

    Parameters
    ----------
    model : BaseCrossEncoder
        Any object with LangChain's method ``score(text_pairs)``, such as a ``HuggingFaceCrossEncoder``.

    Returns
    -------
    callable of (str, sequence of Hit) to list of float
        The reranker.

    Raises
    ------
    ParameterError
        `model` has no such method.

    Examples
    --------
    ::

        retriever = MilvusBM25Retriever(index=index, rerank=cross_encoder_reranker(model), candidates=50)
    """
    if not callable(getattr(model, "score", None)):
        raise parameter_error("model", "a cross-encoder with a method score(text_pairs)", model)

    def rerank(query: str, hits: Sequence[Hit]) -> Sequence[float]:
        return model.score([(query, hit.text) for hit in hits])

    return rerank
