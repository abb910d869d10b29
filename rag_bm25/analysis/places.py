"""The places of tokens in a text, of any analyzer."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from rag_bm25.analysis.runs import is_han, locate_runs
from rag_bm25.analysis.text import Token
from rag_bm25.vectors.terms import BIGRAM_MARK

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

    from rag_bm25.analysis.text import TextAnalyzer


@runtime_checkable
class LocatingAnalyzer(Protocol):
    """An analyzer that knows the places of tokens."""

    def __call__(self, text: str, /) -> list[str]:
        """Return the tokens of a text."""
        ...

    def locate(self, text: str, wanted: AbstractSet[str] | None = None) -> list[Token]:
        """Return the tokens of a text, or those that are wanted, with their places."""
        ...


def locate_tokens(analyzer: TextAnalyzer, text: str, wanted: AbstractSet[str]) -> list[Token]:
    """Return the wanted tokens of a text with their places, by text order.

    An analyzer that does not know them is asked for the tokens of each run alone; those that no run has are looked for
    as they are spelt.
    """
    if isinstance(analyzer, LocatingAnalyzer):
        tokens = analyzer.locate(text, wanted)
    else:
        tokens = list(_search_tokens(analyzer, text, wanted & set(analyzer(text))))
    return sorted(tokens, key=_place_of)


def _place_of(token: Token) -> tuple[int, int]:
    return token.start, token.end


def _search_tokens(analyzer: TextAnalyzer, text: str, present: AbstractSet[str]) -> Iterator[Token]:
    found: set[str] = set()
    for match in locate_runs(text) if present else ():
        if not is_han(match[0]):
            in_run = present & set(analyzer(match[0]))
            found |= in_run
            yield from (Token(term, *match.span()) for term in in_run)
    for term in present - found:
        spelling = re.escape(term.removeprefix(BIGRAM_MARK))
        yield from (Token(term, *match.span()) for match in re.finditer(spelling, text, re.IGNORECASE) if match[0])
