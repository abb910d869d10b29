"""Maximal marginal relevance: choose documents that match a query and differ from each other.

LangChain's own routine takes the cosine with the query for the relevance. Here any relevance in 0..1 will do, so that
BM25 and fused scores can be diversified, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rag_bm25.documents.chunks import Hit
    from rag_bm25.index.index import BM25Index
    from rag_bm25.langchain.searching import SearchMode
    from rag_bm25.vectors.sparse import SparseVector


def compare(index: BM25Index, mode: SearchMode, hits: Sequence[Hit]) -> tuple[list[Hit], NDArray[np.float64]]:
    """Return the hits whose vectors can be had, and the similarity of each with each other, in 0..1."""
    if mode == "sparse" and hits:
        lexical = index.encode_documents([hit.text for hit in hits], [hit.metadata for hit in hits])
        return list(hits), _cosine_similarity(_to_matrix(lexical))
    vectors = {}
    for namespace in {hit.namespace for hit in hits}:
        ids = [hit.id for hit in hits if hit.namespace == namespace]
        found = index.get_embeddings(ids, namespace=namespace)
        vectors.update({(namespace, id_): vector for id_, vector in found.items()})
    stored = [hit for hit in hits if (hit.namespace, hit.id) in vectors]  # the others were deleted meanwhile
    if not stored:
        return [], np.empty((0, 0))
    return stored, (1 + _cosine_similarity(np.array([vectors[hit.namespace, hit.id] for hit in stored]))) / 2


def _to_matrix(vectors: Sequence[SparseVector]) -> NDArray[np.float64]:
    """Lay sparse vectors, at least one, into the rows of a matrix; only ids that one of them has get a column."""
    ids, columns = np.unique(np.concatenate([vector.ids for vector in vectors]), return_inverse=True)
    rows = np.repeat(np.arange(len(vectors)), [len(vector) for vector in vectors])
    matrix = np.zeros((len(vectors), len(ids)))
    matrix[rows, columns] = np.concatenate([vector.values for vector in vectors])
    return matrix


def _cosine_similarity(vectors: NDArray[np.floating]) -> NDArray[np.float64]:
    """Compute the cosine of each row with each other; 0 for a row of zeros."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors.astype(np.float64) / np.where(norms, norms, 1)
    return np.asarray(unit @ unit.T)


def diversify(relevance: NDArray[np.float64], similarity: NDArray[np.float64], lambda_mult: float, k: int) -> list[int]:
    """Choose k candidates at most, in the order of choice; of equal ones the first."""
    chosen: list[int] = []
    left = list(range(len(relevance)))
    redundancy = np.zeros(len(relevance))
    for _ in range(min(k, len(left))):
        gains = lambda_mult * relevance[left] - (1 - lambda_mult) * redundancy[left]
        chosen.append(left.pop(int(np.argmax(gains))))
        redundancy = np.maximum(redundancy, similarity[chosen[-1]])
    return chosen
