"""Similarity of hits with each other, for maximal marginal relevance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rag_bm25.hits.diversity import SparseCosines, cosine_similarity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rag_bm25.documents.chunks import Hit
    from rag_bm25.index.index import BM25Index
    from rag_bm25.langchain.searching import SearchMode


def compare(
    index: BM25Index, mode: SearchMode, hits: Sequence[Hit]
) -> tuple[list[Hit], NDArray[np.float64] | SparseCosines]:
    """Return the hits whose vectors can be had, and the similarity of each with each other, in 0..1."""
    if mode == "sparse" and hits:
        lexical = index.encode_documents([hit.text for hit in hits], [hit.metadata for hit in hits])
        return list(hits), SparseCosines(lexical)
    vectors = {}
    for namespace in {hit.namespace for hit in hits}:
        ids = [hit.id for hit in hits if hit.namespace == namespace]
        found = index.get_embeddings(ids, namespace=namespace)
        vectors.update({(namespace, id_): vector for id_, vector in found.items()})
    stored = [hit for hit in hits if (hit.namespace, hit.id) in vectors]  # the others were deleted meanwhile
    if not stored:
        return [], np.empty((0, 0))
    return stored, (1 + cosine_similarity(np.array([vectors[hit.namespace, hit.id] for hit in stored]))) / 2
