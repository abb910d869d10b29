"""Weighted query terms, and the source of each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from rag_bm25.vectors.sparse import EMPTY, SparseVector
from rag_bm25.weighting.idf import equivalent_df, relevance_weight

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True)
class TermOrigin:
    """The reason why a term is in a query, and the factors of its weight that follow from it."""

    reason: str = ""  # as `explain` shows it, such as "synonym of 'contract'"; empty for a term of the query itself
    factors: tuple[tuple[str, float], ...] = ()  # by name, all > 0
    of_phrase: bool = False  # whether bigrams stand for words, and so have the weight of words
    within_chinese: bool = False  # whether it is a number within a Chinese word, and so has the weight of Chinese
    is_question: bool = False  # whether it is of a question word

    @cached_property
    def boost(self) -> float:
        """Product of all factors."""
        return math.prod(value for _, value in self.factors)


PLAIN_SOURCE = TermOrigin()

ZERO_AS_FLOAT32 = 2.0**-150
"""The largest number that is rounded to 0."""


class QueryTerm(NamedTuple):
    """A term that a query asks for."""

    term: str
    qtf: int = 1  # occurrences in the query, > 0
    source: TermOrigin = PLAIN_SOURCE


class TermGroup(NamedTuple):
    """Terms that stand for words of the query in a chunk that has all of them."""

    ids: frozenset[int]
    stands_for: frozenset[str]


GroupWords: TypeAlias = "Callable[[], Iterable[TermGroup]]"


@dataclass(frozen=True, eq=False)
class RelevanceCounts:
    """Counts of relevant chunks."""

    r: NDArray[np.int64]  # relevant chunks with each term
    num_relevant: int  # R

    @classmethod
    def of(
        cls, relevant: Sequence[SparseVector], ids: NDArray[np.uint32], df: NDArray[np.int64], num_chunks: int
    ) -> RelevanceCounts:
        """Count the relevant chunks with each term, within ``R <= N`` and ``max(0, R - (N - df)) <= r <= min(df, R)``.

        Statistics that are damaged, or older than the chunks, may have other bounds than the chunks.
        """
        held, counts = np.unique(np.concatenate([vector.ids for vector in relevant]), return_counts=True)
        at = np.searchsorted(held, ids).clip(max=len(held) - 1)
        r = np.where(held[at] == ids, counts[at], 0)
        num_relevant = min(len(relevant), num_chunks)
        least, most = np.maximum(0, num_relevant - (num_chunks - df)), np.minimum(df, num_relevant)
        return cls(np.clip(r, least, most), num_relevant)

    def weights(self, df: NDArray[np.int64], num_chunks: int) -> NDArray[np.float64]:
        """Return the :func:`~rag_bm25.weighting.idf.relevance_weight` of each term, which may be negative."""
        return relevance_weight(df, num_chunks, self.r, self.num_relevant)

    def equivalent_df(self, df: NDArray[np.int64], num_chunks: int) -> NDArray[np.float64]:
        """Return the :func:`~rag_bm25.weighting.idf.equivalent_df` of each term, in (-0.5, N + 0.5)."""
        return equivalent_df(self.weights(df, num_chunks), num_chunks)


@dataclass(frozen=True, eq=False)
class QueryTerms:
    """The distinct terms of a query with their weights, unknown terms included; arrays have shape (n_terms,)."""

    terms: list[str]  # as the vocabulary has them; those of the query in the order of their first occurrence
    ids: NDArray[np.uint32]
    qtf: NDArray[np.int64]
    df: NDArray[np.int64]  # 0 for unknown terms
    boost: NDArray[np.float64]  # of the source, > 0
    weights: NDArray[np.float64]  # boost included; 0 for unknown terms, otherwise > 0
    sources: list[TermOrigin]
    group_words: GroupWords = tuple  # most searches need no groups
    relevance: RelevanceCounts | None = None  # that the IDF was computed with

    @cached_property
    def groups(self) -> tuple[TermGroup, ...]:
        """The words of the query, and the additions that stand for them."""
        return tuple(self.group_words())

    @property
    def words(self) -> frozenset[str]:
        """The distinct words of the query, unknown ones included, bigrams and additions not."""
        return frozenset().union(*(group.stands_for for group in self.groups))

    @property
    def question_terms(self) -> frozenset[str]:
        """The terms of question words, which count beside the others."""
        return frozenset(term for term, source in zip(self.terms, self.sources, strict=True) if source.is_question)

    def words_had_by(self, chunk: SparseVector) -> frozenset[str]:
        """Return the words of the query that a chunk has, itself or by an addition that stands for them."""
        return self._words_of(set(chunk.ids.tolist()))

    def are_unknown(self) -> NDArray[np.bool_]:
        """Return which terms are words that no chunk has, and that no addition with known terms stands for."""
        if (self.df > 0).all():
            return np.zeros(len(self.terms), np.bool_)
        unknown = self.words - self._words_of(set(self.ids[self.df > 0].tolist()))
        return np.array([term in unknown for term in self.terms], np.bool_)

    def _words_of(self, ids: set[int]) -> frozenset[str]:
        """Return the words of the query that terms stand for."""
        return frozenset().union(*(group.stands_for for group in self.groups if group.ids <= ids))

    def vector(self) -> SparseVector:
        """Return the weights as a vector; all are > 0, and terms that no chunk has are left out."""
        weights: dict[int, float] = {}
        for id_, weight in zip(self.ids.tolist(), self.weights.tolist(), strict=True):
            if weight > ZERO_AS_FLOAT32:  # boosts may leave less
                weights[id_] = weights.get(id_, 0.0) + weight
        return SparseVector.from_dict(weights) if weights else EMPTY
