"""Word bigrams: pairs of neighbouring words, which the second channel of terms holds beside those of ideographs.

Only words that can be a part of a phrase are paired: of two characters or more, with a letter, and none that English
grammar asks for. Nothing but blanks stands between them, or the joint of a compound. That leaves out half of all pairs,
and was measured to find more than all of them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from rag_bm25.analysis.runs import find_runs_and_signs, is_han, may_hold_word_bigrams
from rag_bm25.analysis.stop_words import ENGLISH_QUESTION_WORDS, LUCENE_33
from rag_bm25.analysis.words import MAX_TOKEN_LENGTH, RunMemo, is_stop_word, phrase_of
from rag_bm25.vectors.terms import BIGRAM_MARK

if TYPE_CHECKING:
    from rag_bm25.analysis.words import Stemming, WordRules


class _Links(NamedTuple):
    """What a run gives to word bigrams: the terms at its ends, "" where nothing can be paired, and its own bigrams."""

    first: str = ""
    last: str = ""
    within: tuple[str, ...] = ()


_NO_LINKS = _Links()


class WordBigrams(RunMemo[_Links]):
    r"""Finds the word bigrams of normalised texts.

    >>> from rag_bm25.analysis.words import Stemming, WordRules
    >>> WordBigrams(WordRules(), Stemming(stem=True)).of("the effects of information-retrieval systems, tested")
    ['\x00inform retriev', '\x00retriev system']
    """

    def __init__(self, rules: WordRules, stemming: Stemming) -> None:
        super().__init__()
        self._rules = rules
        self._stemming = stemming
        self._apart = frozenset((*LUCENE_33, *ENGLISH_QUESTION_WORDS, *rules.stop_words))

    def of(self, text: str) -> list[str]:
        """Return each two neighbouring words as one term, after the mark of the channel."""
        if not may_hold_word_bigrams(text):
            return []
        bigrams: list[str] = []
        before = ""
        for first, last, within in map(self.__getitem__, find_runs_and_signs(text)):
            if before and first:
                bigrams.append(f"{BIGRAM_MARK}{before} {first}")
            if within:
                bigrams += within
            before = last
        return bigrams

    def __missing__(self, run: str) -> _Links:
        """Remember no Chinese: its runs are many, and have no links."""
        return _NO_LINKS if is_han(run) else super().__missing__(run)

    def _make(self, run: str) -> _Links:
        if not run[0].isalnum():
            return _NO_LINKS
        terms = [self._linked(word) for word in phrase_of(run, self._rules)]
        if not any(terms):
            return _NO_LINKS
        within = tuple(f"{BIGRAM_MARK}{one} {other}" for one, other in pairwise(terms) if one and other)
        return _Links(terms[0], terms[-1], within)

    def _linked(self, word: str) -> str:
        """Return the term of a word that can be a part of a phrase, or "" if it cannot be one."""
        if not 1 < len(word) <= MAX_TOKEN_LENGTH or word.isdecimal() or is_stop_word(word, self._apart):
            return ""
        return self._stemming.term(word)
