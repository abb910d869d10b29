"""The statistics of one moment, for readers."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rag_bm25.statistics.corpus import CountsByNamespace
from rag_bm25.vectors.terms import TermIds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rag_bm25.statistics.corpus import CountsReader
    from rag_bm25.vectors.terms import Vocabulary
    from rag_bm25.weighting.confidence import AnswerModel
    from rag_bm25.weighting.term_k1 import TermK1


@dataclass(frozen=True, eq=False)
class StatisticsView:
    """Statistics that no write changes: a reader that holds a view sees one moment."""

    statistics: CountsReader = field(default_factory=CountsByNamespace)
    displaced: Mapping[str, int] = field(default_factory=dict)  # terms whose id is not their hash
    answers: AnswerModel | None = None  # of the confidence of hits, once it was fitted
    query_defaults: Mapping[str, Any] | None = None  # parameters of queries, if some were set since the index was made
    term_k1: TermK1 | None = None  # once it was learned
    problems: tuple[str, ...] = ()  # one clause each
    vocabulary: Vocabulary | None = None  # once it is loaded; writers add terms to it, which have no df in this view

    def is_same(self, other: StatisticsView) -> bool:
        """Return whether another view is of the same moment."""
        parts = ("statistics", "displaced", "answers", "query_defaults", "term_k1", "vocabulary")
        return self.problems == other.problems and all(getattr(self, name) is getattr(other, name) for name in parts)

    @cached_property
    def ids(self) -> TermIds:
        """The id of every term."""
        return TermIds(self.displaced)
