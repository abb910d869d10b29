"""Texts as phrases see them: each ideograph and each other word with its position.

No segmentation decides what is adjacent, so that a phrase is found wherever it is written. Stop words have positions,
too. A sign other than a blank or a joint takes a position, and so do blanks between ideographs: no bigram spans either.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from rag_bm25.analysis.runs import find_runs_and_signs, is_han, split_ideographs
from rag_bm25.analysis.text import AnalysedText
from rag_bm25.analysis.words import RunMemo, spelt_words
from rag_bm25.vectors.terms import is_bigram

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rag_bm25.analysis.text import TextAnalyzer
    from rag_bm25.analysis.words import Stemming, WordRules


@dataclass(frozen=True)
class PhraseText:
    """The words of a text and their positions, which rise."""

    words: tuple[str, ...]
    positions: tuple[int, ...]

    @classmethod
    def of(cls, analyzer: TextAnalyzer, text: str) -> PhraseText:
        """Analyse a text; the tokens of a custom analyzer are its words, one after the other."""
        if isinstance(analyzer, PhraseAnalyzer):
            return analyzer.phrase_text(text)
        words = AnalysedText.of(analyzer(text)).words
        return cls(words, tuple(range(len(words))))

    def holds(self, phrase: PhraseText, slop: int) -> bool:
        """Return whether a phrase is in the text, with at most `slop` positions more between its words than it has."""
        if not phrase.words:
            return True
        at = defaultdict(list)
        for word, position in zip(self.words, self.positions, strict=True):
            at[word].append(position)
        if not all(word in at for word in phrase.words):
            return False
        # Of each position: the fewest positions more up to there, if the word is there.
        costs = np.full(self.positions[-1] + 1, _FAR)
        costs[at[phrase.words[0]]] = 0
        for word, (before, own) in zip(phrase.words[1:], pairwise(phrase.positions), strict=True):
            reached = _advance(costs, own - before)[at[word]]
            costs[:] = _FAR
            costs[at[word]] = np.where(reached <= slop, reached, _FAR)
            if reached.min() > slop:
                return False
        return True


_FAR = 1 << 40


def _advance(costs: NDArray[np.int64], distance: int) -> NDArray[np.int64]:
    """Return the costs of each position if the word before is at any position before it.

    It takes as long for every slop and distance: a stranger may ask for both.
    """
    reached = np.full_like(costs, _FAR)  # the least of the `distance` costs before each position
    reached[1:] = costs[:-1]
    width = 1
    while width < min(distance, len(costs)):
        step = min(width, distance - width)
        reached[step:] = np.minimum(reached[step:], reached[:-step].copy())
        width += step
    at = np.arange(len(costs))
    further = np.minimum.accumulate(costs - at)[: len(costs) - distance] if distance < len(costs) else costs[:0]
    reached[distance:] = np.minimum(reached[distance:], further + at[distance:] - distance)
    return reached


@runtime_checkable
class PhraseAnalyzer(Protocol):
    """An analyzer that knows the positions of words."""

    def __call__(self, text: str, /) -> list[str]:
        """Return the tokens of a text."""
        ...

    def phrase_text(self, text: str) -> PhraseText:
        """Return the words of a text with their positions."""
        ...

    def phrase_terms(self, phrase: str) -> list[str]:
        """Return tokens that every text with a phrase has, bigrams only without slop."""
        ...


def terms_of_phrase(analyzer: TextAnalyzer, phrase: str, slop: int = 0) -> tuple[str, ...]:
    """Return terms, as the vocabulary has them, that every chunk with a phrase has."""
    if isinstance(analyzer, PhraseAnalyzer):
        return tuple(term for term in analyzer.phrase_terms(phrase) if not (slop and is_bigram(term)))
    return AnalysedText.of(analyzer(phrase)).words


class PhraseWords(RunMemo[tuple[str, ...]]):
    """Finds the words of normalised texts, and their positions.

    >>> from rag_bm25.analysis.words import Stemming, WordRules
    >>> PhraseWords(WordRules(), Stemming(stem=True)).of("the effects of 合同, tested")
    PhraseText(words=('the', 'effect', 'of', '合', '同', 'test'), positions=(0, 1, 2, 3, 4, 6))
    """

    def __init__(self, rules: WordRules, stemming: Stemming) -> None:
        super().__init__()
        self._rules = rules
        self._stemming = stemming

    def of(self, text: str) -> PhraseText:
        words: list[str] = []
        positions: list[int] = []
        position = 0
        for found in map(self.__getitem__, find_runs_and_signs(split_ideographs(text))):
            words += found
            positions += range(position, position + len(found))
            position += len(found) or 1
        return PhraseText(tuple(words), tuple(positions))

    def __missing__(self, run: str) -> tuple[str, ...]:
        """Remember no Chinese: its runs are many."""
        return tuple(run) if is_han(run) else super().__missing__(run)

    def _make(self, run: str) -> tuple[str, ...]:
        if not run[0].isalnum():
            return ()
        terms = (self._stemming.term(word.text) for word in spelt_words(run, self._rules))
        return tuple(filter(None, terms))
