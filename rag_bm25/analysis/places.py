"""The places of tokens in a text, of any analyzer."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from rag_bm25.analysis.locator import Locator
from rag_bm25.analysis.marks import NO_MARKS, as_marks, as_sets, merge
from rag_bm25.analysis.runs import is_han, locate_runs
from rag_bm25.analysis.text import Token
from rag_bm25.vectors.terms import BIGRAM_MARK

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from rag_bm25.analysis.marks import Marks
    from rag_bm25.analysis.text import TextAnalyzer


def make_marker(analyzer: TextAnalyzer, terms: Sequence[str]) -> Callable[[Sequence[str]], list[Marks]]:
    """Return a function that returns the marks of different terms, which their order numbers, in each of some texts.

    An analyzer that does not know them is asked for the tokens of each run alone; those that no run has are looked for
    as they are spelt.
    """
    make: Callable[[Sequence[str]], Callable[[str], list[Token]]] | None = getattr(analyzer, "locator", None)
    locate = partial(_search_tokens, analyzer, frozenset(terms)) if make is None else make(terms)
    if isinstance(locate, Locator):
        return locate.mark
    bits = {term: 1 << number for number, term in enumerate(terms)}
    return lambda texts: [_marks(bits, locate(text)) for text in texts]


def _marks(bits: Mapping[str, int], tokens: Sequence[Token]) -> Marks:
    if not tokens:
        return NO_MARKS
    names, starts, ends = zip(*tokens, strict=True)
    return as_marks(merge(np.array(starts), np.array(ends), as_sets([bits[name] for name in names])))


def _search_tokens(analyzer: TextAnalyzer, wanted: AbstractSet[str], text: str) -> list[Token]:
    present, found = wanted & set(analyzer(text)), []
    for match in locate_runs(text) if present else ():
        if not is_han(match[0]):
            found += [Token(term, *match.span()) for term in present & set(analyzer(match[0]))]
    for term in present - {token.text for token in found}:
        spelling = re.escape(term.removeprefix(BIGRAM_MARK))
        found += [Token(term, *match.span()) for match in re.finditer(spelling, text, re.IGNORECASE) if match[0]]
    return found
