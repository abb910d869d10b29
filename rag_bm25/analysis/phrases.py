"""Texts as phrases see them: each ideograph and each other word with its position.

No segmentation decides what is adjacent, so that a phrase is found wherever it is written. Stop words have positions,
too. A sign other than a blank or a joint takes a position, and so do blanks between ideographs: no bigram spans either.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from rag_bm25.analysis.runs import find_runs_and_signs, is_segmented, is_sign, split_ideographs
from rag_bm25.analysis.text import AnalysedText
from rag_bm25.analysis.words import RunMemo, letters_and_digits, spelt_words
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
        """Return whether a phrase is in the text, with at most `slop` positions more between its words than it has.

        Signs of the phrase may be others in the text, or be missing, but no word stands in the place of one.
        """
        if not phrase.words:
            return True
        at = defaultdict(list)
        for number, word in enumerate(self.words):
            at[word].append(number)
        if not all(word in at for word in phrase.words):
            return False
        signs = np.array(self.positions) - np.arange(len(self.positions))  # before each word
        before = np.array(at[phrase.words[0]])
        costs = np.zeros_like(before)
        for word, distance in zip(phrase.words[1:], np.diff(phrase.positions).tolist(), strict=True):
            after = np.array(at[word])
            reached = _advance(before, costs, after, signs, distance - 1)
            before, costs = after[reached <= slop], reached[reached <= slop]
            if not len(before):
                return False
        return True


_FAR = 1 << 40


def _advance(
    before: NDArray[np.intp],
    costs: NDArray[np.intp],
    after: NDArray[np.intp],
    signs: NDArray[np.intp],
    allowed: int,  # signs between
) -> NDArray[np.intp]:
    """Return the fewest positions more up to each place of a word, if the word before is at any place before it.

    It takes as long for every slop and distance: a stranger may ask for both.
    """
    until = before.searchsorted(after)
    near = np.minimum(signs[before].searchsorted(signs[after] - allowed), until)  # from here on, signs cost nothing
    words = costs - before  # with the place after, less one: the words between
    least = np.concatenate([[_FAR], np.minimum.accumulate(words - signs[before])])[near] + signs[after] - allowed
    return np.minimum(least, _range_minimum(words, near, until)) + after - 1


def _range_minimum(values: NDArray[np.intp], starts: NDArray[np.intp], ends: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the least of the values of each range; those of ranges of 1, 2, 4, 8, ... cover any other one twice."""
    least = np.full(len(starts), _FAR)
    sizes, width = ends - starts, 1
    while len(values):
        some = np.flatnonzero((width <= sizes) & (sizes < 2 * width))
        least[some] = np.minimum(values[starts[some]], values[ends[some] - width])
        values = np.minimum(values[:-width], values[width:])
        width *= 2
    return least


@runtime_checkable
class PhraseAnalyzer(Protocol):
    """An analyzer that knows the positions of words."""

    def __call__(self, text: str, /) -> list[str]:
        """Return the tokens of a text."""
        ...

    def phrase_text(self, text: str) -> PhraseText:
        """Return each ideograph and each other word of a text, stop words included, with their positions."""
        ...

    def phrase_terms(self, phrase: str) -> list[str]:
        """Return tokens that every text with a phrase has, bigrams only without slop.

        Words that a stop word can be mistaken for are not among them.
        """
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
        for found in map(self.__getitem__, find_runs_and_signs(split_ideographs(text.replace("&", " & ")))):
            words += found
            positions += range(position, position + len(found))
            position += len(found) or 1
        return PhraseText(tuple(words), tuple(positions))

    def __missing__(self, run: str) -> tuple[str, ...]:
        """Remember no Chinese: its runs are many."""
        return tuple(run) if is_segmented(run) else super().__missing__(run)

    def make(self, run: str) -> tuple[str, ...]:
        if is_sign(run):
            return ()
        spelt = (letters_and_digits(word.text) for word in spelt_words(run, self._rules))
        terms = map(self._stemming.term, chain.from_iterable(spelt))
        return tuple(filter(None, terms))
