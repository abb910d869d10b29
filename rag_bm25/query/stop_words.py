"""The words of a query that an analyzer leaves out."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from rag_bm25.analysis import Analyzer

if TYPE_CHECKING:
    from rag_bm25.analysis import TextAnalyzer
    from rag_bm25.query.query import Query
    from rag_bm25.query.terms import QueryTerms


def stop_words_in(analyzer: TextAnalyzer, query: Query, terms: QueryTerms | None = None) -> list[str]:
    """Return the words that are dropped from the parts of a query, question words without a weight among them."""
    if not isinstance(analyzer, Analyzer):
        return []
    counted = None if terms is None else terms.question_terms
    of_parts = (analyzer.stop_words_in(part.text, counted) for part in query.parts)
    return list(dict.fromkeys(chain.from_iterable(of_parts)))
