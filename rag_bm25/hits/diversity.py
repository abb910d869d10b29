"""Near duplicates, and maximal marginal relevance: hits that differ from each other.

LangChain's own routine takes the cosine with the query for the relevance. Here any relevance in 0..1 will do, so that
BM25 and fused scores can be diversified, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from rag_bm25.vectors.sparse import SparseVector

T = TypeVar("T")

ROUNDING = 1e-6  # the cosine of a vector with itself is 1 but for this


def to_matrix(vectors: Sequence[SparseVector]) -> NDArray[np.float64]:
    """Lay sparse vectors, at least one, into the rows of a matrix; only ids that one of them has get a column."""
    ids, columns = np.unique(np.concatenate([vector.ids for vector in vectors]), return_inverse=True)
    rows = np.repeat(np.arange(len(vectors)), [len(vector) for vector in vectors])
    matrix = np.zeros((len(vectors), len(ids)))
    matrix[rows, columns] = np.concatenate([vector.values for vector in vectors])
    return matrix


def cosine_similarity(vectors: NDArray[np.floating]) -> NDArray[np.float64]:
    """Compute the cosine of each row with each other; 0 for a row of zeros."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors.astype(np.float64) / np.where(norms, norms, 1)
    return np.asarray(unit @ unit.T)


def diversify(relevance: NDArray[np.float64], similarity: NDArray[np.float64], lambda_mult: float, k: int) -> list[int]:
    """Choose k candidates at most, in the order of choice; of equal ones the first.

    Each is the one with the maximum of ``lambda_mult * relevance - (1 - lambda_mult) * similarity`` to the most similar
    one chosen before (J. Carbonell, J. Goldstein, "The use of MMR, diversity-based reranking for reordering documents
    and producing summaries", SIGIR 1998).
    """
    chosen: list[int] = []
    left = list(range(len(relevance)))
    redundancy = np.zeros(len(relevance))
    for _ in range(min(k, len(left))):
        gains = lambda_mult * relevance[left] - (1 - lambda_mult) * redundancy[left]
        chosen.append(left.pop(int(np.argmax(gains))))
        redundancy = np.maximum(redundancy, similarity[chosen[-1]])
    return chosen


def scale_to_relevance(scores: Sequence[float]) -> NDArray[np.float64]:
    """Scale scores to 0..1: the best one is 1; negative ones, as rerankers give, are shifted to 0 first."""
    values = np.array(scores, np.float64)
    low = min(0.0, float(values.min(initial=0.0)))
    width = float(values.max(initial=0.0)) - low
    return np.asarray((values - low) / width) if width > 0 else np.zeros(len(values))


def without_near_duplicates(items: Iterable[tuple[T, SparseVector]], threshold: float) -> Iterator[T]:
    """Yield the items, best first, whose vectors have a cosine below the threshold with all that came before."""
    kept_ids: list[NDArray[np.uint32]] = []
    kept_values: list[NDArray[np.float64]] = []
    for item, vector in items:
        norm = float(np.linalg.norm(vector.values.astype(np.float64)))
        values = vector.values.astype(np.float64) / (norm or 1.0)
        if kept_ids and _largest_product(kept_ids, kept_values, vector.ids, values) >= threshold - ROUNDING:
            continue
        kept_ids.append(vector.ids)
        kept_values.append(values)
        yield item


def _largest_product(
    ids: Sequence[NDArray[np.uint32]],
    values: Sequence[NDArray[np.float64]],
    asked: NDArray[np.uint32],
    weights: NDArray[np.float64],
) -> float:
    """Return the largest inner product of one vector with any of several."""
    if not len(asked):
        return 0.0
    flat = np.concatenate(ids)
    at = np.searchsorted(asked, flat).clip(max=len(asked) - 1)
    shared = asked[at] == flat
    row = np.repeat(np.arange(len(ids)), [len(each) for each in ids])
    products = np.concatenate(values)[shared] * weights[at[shared]]
    return float(np.bincount(row[shared], products, len(ids)).max())
