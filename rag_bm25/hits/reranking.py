"""Rerankers: those that cross-encoders are made into, and the scores that they may return."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeGuard

import numpy as np

from rag_bm25.checks import is_iterable, parameter_error
from rag_bm25.errors import InputError, short_repr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rag_bm25.documents.chunks import Hit
    from rag_bm25.hits.options import Rerank


class CrossEncoder(Protocol):
    """A model that scores pairs of texts, such as LangChain's ``BaseCrossEncoder``."""

    def score(self, text_pairs: list[tuple[str, str]]) -> Sequence[float]:
        """Return a score for each pair of a query and a text; higher is better."""


def is_cross_encoder(model: object) -> TypeGuard[CrossEncoder]:
    """Return whether this is a cross-encoder, and no class of them."""
    return callable(getattr(model, "score", None)) and not isinstance(model, type)


def cross_encoder_reranker(model: CrossEncoder) -> Rerank:
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
    if not is_cross_encoder(model):
        raise parameter_error("model", "a cross-encoder with a method score(text_pairs)", model)

    def rerank(query: str, hits: Sequence[Hit]) -> Sequence[float]:
        return model.score([(query, hit.text) for hit in hits])

    return rerank


def check_scores(scores: object, wanted: int, name: str = "rerank") -> list[float]:
    """Check the scores of a reranker; numpy's and torch's numbers are numbers, too."""
    given = list(scores) if is_iterable(scores) else scores  # whatever a generator raises is not of this check
    try:
        is_text = np.array(given).dtype.kind in "SU" or isinstance(scores, bytes)  # numpy would read it as numbers
        values = np.empty(0) if is_text else np.array(given, np.float64)
    except (TypeError, ValueError, OverflowError):
        values = np.empty(0)
    if values.shape != (wanted,) or not np.isfinite(values).all():
        raise InputError(f"{name} must return a finite score for each of {wanted} hits, got {short_repr(scores)}")
    found: list[float] = values.tolist()
    return found
