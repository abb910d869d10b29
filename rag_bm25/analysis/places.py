"""The places of tokens in a text, of any analyzer."""

from __future__ import annotations

import re
from functools import cached_property, partial
from operator import itemgetter
from typing import TYPE_CHECKING

from rag_bm25.analysis.runs import is_han, locate_runs
from rag_bm25.analysis.text import Token
from rag_bm25.vectors.terms import BIGRAM_MARK, is_bigram, is_word_bigram

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from collections.abc import Set as AbstractSet

    from rag_bm25.analysis.text import TextAnalyzer


_place_of = itemgetter(1, 2)


class WantedTerms(frozenset[str]):
    """Terms to locate, by the way in which each is looked for."""

    @cached_property
    def pairs(self) -> list[str]:
        """The bigrams of characters, without their mark."""
        return [term[1:] for term in self if is_bigram(term) and not is_word_bigram(term)]

    @cached_property
    def word_bigrams(self) -> frozenset[str]:
        return frozenset(filter(is_word_bigram, self))

    @cached_property
    def others(self) -> frozenset[str]:
        """The words that are not Chinese."""
        return frozenset(term for term in self if not is_bigram(term) and not is_han(term))

    def chinese_places(self, text: str) -> list[tuple[int, str]]:
        """Return where Chinese words are spelt in a text, as words or as parts of others, in text order."""
        places = []
        for word in self._chinese:
            at = text.find(word)
            while at >= 0:
                places.append((at, word))
                at = text.find(word, at + 1)
        return sorted(places)

    @cached_property
    def _chinese(self) -> list[str]:
        return [term for term in self if is_han(term)]


def shift(tokens: Iterable[Token], by: int) -> list[Token]:
    """Return the tokens of a part of a text with their places in the text."""
    return [Token(token, start + by, end + by) for token, start, end in tokens]


def make_locator(analyzer: TextAnalyzer, wanted: AbstractSet[str]) -> Callable[[str], list[Token]]:
    """Return a function that returns the wanted tokens of a text with their places, in text order.

    An analyzer that does not know them is asked for the tokens of each run alone; those that no run has are looked for
    as they are spelt.
    """
    make: Callable[[AbstractSet[str]], Callable[[str], list[Token]]] | None = getattr(analyzer, "locator", None)
    locate = partial(_search_tokens, analyzer, wanted) if make is None else make(wanted)
    return lambda text: sorted(locate(text), key=_place_of)


def _search_tokens(analyzer: TextAnalyzer, wanted: AbstractSet[str], text: str) -> list[Token]:
    present, found = wanted & set(analyzer(text)), []
    for match in locate_runs(text) if present else ():
        if not is_han(match[0]):
            found += [Token(term, *match.span()) for term in present & set(analyzer(match[0]))]
    for term in present - {token.text for token in found}:
        spelling = re.escape(term.removeprefix(BIGRAM_MARK))
        found += [Token(term, *match.span()) for match in re.finditer(spelling, text, re.IGNORECASE) if match[0]]
    return found
