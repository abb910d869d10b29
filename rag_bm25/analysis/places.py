"""The places of terms in a text, of any analyzer."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rag_bm25.analysis.runs import is_segmented, locate_runs
from rag_bm25.analysis.text import Token
from rag_bm25.vectors.terms import BIGRAM_MARK

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Set as AbstractSet

    from rag_bm25.analysis.text import TextAnalyzer


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
