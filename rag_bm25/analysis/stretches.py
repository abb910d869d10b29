"""Stretches of a text between blanks and Chinese, beyond which no run of another script goes."""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from rag_bm25.analysis.runs import HAN, are_han, borders_of, code_points, find_runs, holds_han

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from rag_bm25.analysis.word_bigrams import WordBigrams
    from rag_bm25.analysis.words import TermMemo

MEMO_CHARACTERS = 1_500_000  # of stretches, in about 50 MB

_BETWEEN_HAN = re.compile(rf"[^\s{HAN}]+")
_BLANKS = np.array([chr(point).isspace() for point in range(0x3002)])  # none comes after these


def locate_stretches(text: str) -> tuple[list[str], NDArray[np.intp]]:
    """Return the stretches in text order, and where each starts."""
    points = code_points(text)
    are_between = _BLANKS.take(points, mode="clip")
    if not holds_han(text):
        return text.split(), borders_of(are_between)[::2]
    return _BETWEEN_HAN.findall(text), borders_of(are_between | are_han(points))[::2]


class Holders:
    """Stretches by the terms that they hold."""

    def __init__(self) -> None:
        self.characters = 0
        self._examined: set[str] = set()
        self._by_term: defaultdict[str, list[str]] = defaultdict(list)

    def missing(self, stretches: set[str]) -> set[str]:
        """Return the stretches that were not added yet."""
        return stretches - self._examined

    def add(self, stretch: str, terms: Iterable[str]) -> None:
        for term in terms:
            self._by_term[term].append(stretch)
        self._examined.add(stretch)  # after its terms, for other threads
        self.characters += len(stretch)

    def among(self, stretches: set[str], terms: Iterable[str]) -> set[str]:
        """Return the stretches that hold one of some terms."""
        by_term = self._by_term
        return stretches.intersection(chain.from_iterable([by_term[term] for term in terms if term in by_term]))


class Stretches:
    """Looks for words and bigrams of words in stretches; what is learnt of one serves in the next text."""

    def __init__(self, terms: TermMemo, word_bigrams: WordBigrams) -> None:
        self.terms = terms
        self.word_bigrams = word_bigrams
        self._holders = Holders()

    def holders(self, stretches: set[str]) -> Holders:
        """Return the holders of each term, these stretches among them."""
        holders = self._holders
        if holders.characters >= MEMO_CHARACTERS:
            self._holders = holders = Holders()  # other threads still read the old ones
        for stretch in holders.missing(stretches):
            holders.add(stretch, self._terms_in(stretch))
        return holders

    def _terms_in(self, stretch: str) -> set[str]:
        """Return the terms in a stretch, those of a bigram with a neighbour among them, and the bigrams within."""
        terms = set(chain.from_iterable(map(self.terms.__getitem__, find_runs(stretch))))
        return terms.union([bigram.text for bigram in self.word_bigrams.located(stretch)])
