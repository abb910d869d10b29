"""Near duplicates, and maximal marginal relevance: hits that differ from each other.

LangChain's own routine takes the cosine with the query for the relevance. Here any relevance in 0..1 will do, so that
BM25 and fused scores can be diversified, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypeVar

import numpy as np

from rag_bm25.budget import check_budget
from rag_bm25.definitions import Between, check_fields
from rag_bm25.vectors.sparse import EMPTY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from rag_bm25.vectors.sparse import SparseVector

T = TypeVar("T")

ROUNDING = 1e-6  # the cosine of a vector with itself is 1 but for this


@dataclass(frozen=True)
class MMR:
    """Hits, or groups, that differ from each other, by maximal marginal relevance, chosen from the candidates.

    Parameters
    ----------
    trade_off : float
        Lambda, in [0, 1]: 1 is the order of the scores, 0 looks at differences only.
    """

    trade_off: Annotated[float, Between(0, 1)] = 0.5

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class NearDuplicates:
    """Hits without those that resemble a better one; others take their places.

    Parameters
    ----------
    cosine : float
        Leave out hits whose stored vectors have at least this cosine with that of a better hit, in (0, 1].
    """

    cosine: Annotated[float, Between(0, 1, above=True)] = 0.9

    def __post_init__(self) -> None:
        check_fields(self)


class SparseCosines:
    """The cosine of each of some sparse vectors with each other, a row at a time; 0 for an empty one."""

    def __init__(self, vectors: Sequence[SparseVector]) -> None:
        ids, self._column = np.unique(np.concatenate([vector.ids for vector in vectors]), return_inverse=True)
        self._row = np.repeat(np.arange(len(vectors)), [len(vector) for vector in vectors])
        self._value = np.concatenate([_unit(vector) for vector in vectors])
        self._shape = len(vectors), len(ids)

    def __getitem__(self, at: int) -> NDArray[np.float64]:
        """Compute the cosines of one vector with all of them."""
        own = np.zeros(self._shape[1])
        own[self._column[self._row == at]] = self._value[self._row == at]
        return np.bincount(self._row, self._value * own[self._column], self._shape[0]).astype(np.float64)


def cosine_similarity(vectors: NDArray[np.floating]) -> NDArray[np.float64]:
    """Compute the cosine of each row with each other; 0 for a row of zeros."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors.astype(np.float64) / np.where(norms, norms, 1)
    return np.asarray(unit @ unit.T)


def diversify(
    relevance: NDArray[np.float64], similarity: NDArray[np.float64] | SparseCosines, lambda_mult: float, k: int
) -> list[int]:
    """Choose k candidates at most, in the order of choice; of equal ones the first.

    Each is the one with the maximum of ``lambda_mult * relevance - (1 - lambda_mult) * similarity`` to the most similar
    one chosen before (J. Carbonell, J. Goldstein, "The use of MMR, diversity-based reranking for reordering documents
    and producing summaries", SIGIR 1998).
    """
    chosen: list[int] = []
    left = list(range(len(relevance)))
    redundancy = np.zeros(len(relevance))
    for _ in range(min(k, len(left))):
        check_budget()
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


def without_near_duplicates(items: Sequence[tuple[T, SparseVector]], threshold: float) -> Iterator[T]:
    """Yield the items, best first, whose vectors have a cosine below the threshold with all that came before.

    Each is only compared with those that share a dimension with it, by the postings of its dimensions.
    """
    vectors = [vector for _, vector in items]
    ends = np.cumsum([0, *map(len, vectors)])
    _, column = np.unique(np.concatenate([vector.ids for vector in vectors] or [EMPTY.ids]), return_inverse=True)
    first = np.cumsum([0, *np.bincount(column)])[:-1]  # the place of each column's first posting
    postings = np.zeros_like(first)  # of each column, so far
    posting_row, posting_value = np.empty_like(column), np.empty(len(column))
    rows = 0
    for at, (item, vector) in enumerate(items):
        check_budget()
        columns, values = column[ends[at] : ends[at + 1]], _unit(vector)
        lengths = postings[columns]
        before = np.cumsum(lengths) - lengths
        places = np.repeat(first[columns] - before, lengths) + np.arange(lengths.sum())
        products = posting_value[places] * np.repeat(values, lengths)
        if rows and np.bincount(posting_row[places], products, rows).max() >= threshold - ROUNDING:
            continue
        free = first[columns] + lengths
        posting_row[free], posting_value[free] = rows, values
        postings[columns] += 1
        rows += 1
        yield item


def _unit(vector: SparseVector) -> NDArray[np.float64]:
    """Return the weights of a vector of length 1; those of an empty one stay empty."""
    values = vector.values.astype(np.float64)
    return np.asarray(values / (np.linalg.norm(values) or 1.0))
