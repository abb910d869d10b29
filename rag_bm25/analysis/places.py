"""The places of terms in a text, of any analyzer."""

from __future__ import annotations

import re
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING

from rag_bm25.analysis.runs import is_segmented, locate_runs
from rag_bm25.analysis.text import Token
from rag_bm25.vectors.terms import BIGRAM_MARK, term_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from collections.abc import Set as AbstractSet

    from rag_bm25.analysis.text import TextAnalyzer

MAX_PLACES = 10  # that show how a term is written


def written_form(analyzer: TextAnalyzer, texts: Iterable[str], term: str) -> str:
    """Return how most of the first places in some texts write a term, which is a stem; itself if it is in none."""
    places = ((text, token) for text in texts for token in locate_terms(analyzer, {term}, text))
    forms = (" ".join(text[start:end].split()) for text, (_, start, end) in islice(places, MAX_PLACES))
    return next((form for form, _ in Counter(forms).most_common(1)), term_text(term))


def locate_terms(analyzer: TextAnalyzer, terms: AbstractSet[str], text: str) -> list[Token]:
    """Return the places of some terms in a text, in any order.

    An analyzer without a method ``locate`` is asked for the tokens of each run alone; those that no run has are looked
    for as they are spelt.
    """
    locate: Callable[[str], list[Token]] | None = getattr(analyzer, "locate", None)
    if locate is not None:
        return [token for token in locate(text) if token.text in terms]
    present, found = terms & set(analyzer(text)), []
    for match in locate_runs(text) if present else ():
        if not is_segmented(match[0]):
            found += [Token(term, *match.span()) for term in present & set(analyzer(match[0]))]
    for term in present - {token.text for token in found}:
        spelling = re.escape(term.removeprefix(BIGRAM_MARK))
        found += [Token(term, *match.span()) for match in re.finditer(spelling, text, re.IGNORECASE) if match[0]]
    return found
