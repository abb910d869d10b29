"""Word bigrams: pairs of neighbouring words, which the second channel of terms holds beside those of ideographs.

Only words that can be a part of a phrase are paired: of two characters or more, with a letter, and none that English
grammar asks for. Nothing but blanks stands between them, or the joint of a compound. That leaves out half of all pairs,
and was measured to find more than all of them.
"""

from __future__ import annotations

from itertools import chain, pairwise
from typing import TYPE_CHECKING, TypeAlias

from rag_bm25.analysis.camel_case import is_small
from rag_bm25.analysis.runs import (
    find_runs_and_signs,
    is_segmented,
    locate_runs_and_signs,
    may_hold_word_bigrams,
    parts_without_segmented,
)
from rag_bm25.analysis.stop_words import ENGLISH_QUESTION_WORDS, LUCENE_33
from rag_bm25.analysis.text import Token, shift
from rag_bm25.analysis.words import (
    MAX_TOKEN_LENGTH,
    RunMemo,
    is_number,
    is_simple,
    is_stop_word,
    joined_letters,
    phrase_of,
)
from rag_bm25.vectors.terms import BIGRAM_MARK

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rag_bm25.analysis.words import JoinedLetters, TermMemo


# A tuple of its own class would be visited by every garbage collection.
Run: TypeAlias = tuple[tuple[str, ...], str, str, tuple[str, ...]]
"""The terms of a run, and what it gives to word bigrams: the term at its start, what a bigram of the term at its end
begins with, "" where nothing can be paired, and its own bigrams."""

_CHINESE: Run = ((), "", "", ())


class WordBigrams(RunMemo[Run]):
    """Finds the words of normalised texts that are not Chinese, and their bigrams."""

    def __init__(self, terms: TermMemo) -> None:
        super().__init__()
        self._terms = terms
        self._rules = terms.rules
        self._apart = frozenset((*LUCENE_33, *ENGLISH_QUESTION_WORDS, *terms.rules.stop_words))

    def of(self, text: str) -> list[str]:
        """Return each two neighbouring words as one term, after the mark of the channel."""
        if not may_hold_word_bigrams(text):
            return []
        parts = filter(may_hold_word_bigrams, parts_without_segmented(text))
        return list(chain.from_iterable([self.channels(part)[1] for part in parts]))

    def channels(self, text: str) -> tuple[list[str], list[str]]:
        """Return the words of a text, and their bigrams, which takes less time than one after the other."""
        words: list[str] = []
        bigrams: list[str] = []
        before = ""
        for terms, first, last, within in map(self.__getitem__, find_runs_and_signs(text)):
            words += terms
            if before and first:
                bigrams.append(before + first)
            if within:
                bigrams += within
            before = last
        return words, bigrams

    def locate(self, text: str) -> Iterator[Token]:
        """Yield the bigrams with their places."""
        if not may_hold_word_bigrams(text):
            return
        last, before = "", None  # the run before
        for match in locate_runs_and_signs(text):
            _, first, end_of_run, within = self[match[0]]
            if last and first and before is not None:
                start, end = self._linked_words(before[0])[-1].start, self._linked_words(match[0])[0].end
                yield Token(last + first, before.start() + start, match.start() + end)
            if within:
                yield from shift(_pairs(self._linked_words(match[0])), match.start())
            last, before = end_of_run, match

    def __missing__(self, run: str) -> Run:
        """Remember no Chinese: its runs are many, and have no links."""
        return _CHINESE if is_segmented(run) else super().__missing__(run)

    def make(self, run: str) -> Run:
        if not run.isalnum() and (compound := joined_letters(run, self._rules)) is not None:
            return self._of_compound(compound)
        terms = self._terms.make(run)
        if not run[0].isalnum():
            return terms, "", "", ()
        if is_simple(run):
            term = self._linked(run, terms if is_small(run) else ())
            return terms, term, _beginning(term), ()
        words = self._linked_words(run)
        if not any(word.text for word in words):
            return terms, "", "", ()
        return terms, words[0].text, _beginning(words[-1].text), tuple([pair.text for pair in _pairs(words)])

    def _of_compound(self, compound: JoinedLetters) -> Run:
        """Make a compound of its parts, which are runs elsewhere, and mostly known."""
        wholes = chain.from_iterable(map(self._terms.terms_of, compound.wholes))
        terms = (*wholes, *chain.from_iterable([self[part][0] for part in compound.parts]))
        linked = [self[word][1] for word in compound.phrase]
        pairs = [_beginning(one) + other for one, other in pairwise(linked) if one and other]
        return terms, linked[0], _beginning(linked[-1]), tuple(pairs)

    def _linked_words(self, run: str) -> list[Token]:
        """Return the words of a run, each as :meth:`_linked`, with their places."""
        return [Token(self._linked(word), start, end) for word, start, end in phrase_of(run, self._rules)]

    def _linked(self, word: str, terms: Sequence[str] = ()) -> str:
        """Return the term of a word that can be a part of a phrase, or "" if it cannot be one; it may be known."""
        if not 1 < len(word) <= MAX_TOKEN_LENGTH or is_number(word) or is_stop_word(word, self._apart):
            return ""
        return terms[0] if len(terms) == 1 else self._terms.stemming.term(word)


def _beginning(term: str) -> str:
    """Return what the bigrams of a term and the next one begin with; "" if there is no term."""
    return f"{BIGRAM_MARK}{term} " if term else ""


def _pairs(words: Sequence[Token]) -> Iterator[Token]:
    """Yield the bigrams of linked words with their places."""
    for one, other in pairwise(words):
        if one.text and other.text:
            yield Token(_beginning(one.text) + other.text, one.start, other.end)
