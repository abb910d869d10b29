"""Highlight hits by the weighted query that found them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from rag_bm25.analysis import Analyzer
from rag_bm25.analysis.text import AnalysedText
from rag_bm25.documents.chunks import Hit
from rag_bm25.hits.highlights import Highlighter
from rag_bm25.vectors.terms import is_word, term_text
from rag_bm25.weighting.fields import CONTEXT, field_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rag_bm25.analysis import TextAnalyzer
    from rag_bm25.hits.highlights import Highlighting
    from rag_bm25.query.conditions import Conditions
    from rag_bm25.query.terms import QueryTerms

H = TypeVar("H", bound=Hit)


def make_highlighter(
    terms: QueryTerms, conditions: Conditions | None, analyzer: TextAnalyzer, highlighting: Highlighting
) -> Highlighter:
    """Return a highlighter of the terms of a query; those that have no weight, as in its conditions, count nothing."""
    weights: defaultdict[str, float] = defaultdict(float)
    ignored, in_words = _ignored_characters(analyzer), _pairs_in_words(terms.terms)
    for term, source, weight in zip(terms.terms, terms.sources, terms.weights.tolist(), strict=True):
        across = not is_word(term) and term_text(term) not in in_words
        # Question words would mark what nobody looks for.
        if not source.is_question and not (across and ignored.intersection(term)):
            weights[term] += weight
    if conditions is not None:
        for text in conditions.required_texts:
            weights |= dict.fromkeys(set(AnalysedText.of_query(analyzer, text).words) - weights.keys(), 0.0)
    return Highlighter(analyzer, dict(weights), highlighting)


def _ignored_characters(analyzer: TextAnalyzer) -> frozenset[str]:
    """Return the words of one ideograph that queries leave out: bigrams across words would mark these."""
    words = analyzer.config.question_words if isinstance(analyzer, Analyzer) else ()
    return frozenset(word for word in words if len(word) == 1 and not word.isascii())


def _pairs_in_words(terms: Iterable[str]) -> set[str]:
    """Return each two characters within a word: of 社会保险, 社会 is what a text may have in common with a query."""
    words = (term for term in terms if is_word(term))
    return {word[at : at + 2] for word in words for at in range(len(word) - 1)}


def highlight_hits(highlighter: Highlighter, hits: Sequence[H], fields: Iterable[str]) -> list[H]:
    """Give each hit the fragments of its text and of its fields, but for its context, which is not shown."""
    names = [name for name in fields if name != CONTEXT]
    highlighted = []
    for hit in hits:
        of_fields = {name: highlighter.highlight(field_text(hit.metadata, name)) for name in names}
        some = {name: fragments for name, fragments in of_fields.items() if fragments} if names else None
        highlighted.append(replace(hit, highlights=highlighter.highlight(hit.text), field_highlights=some))
    return highlighted
