"""Locate some of the tokens of texts, without those of the rest; what is learnt of a word serves in the next text."""

from __future__ import annotations

from bisect import bisect_left
from itertools import chain
from typing import TYPE_CHECKING

from rag_bm25.analysis.places import shift
from rag_bm25.analysis.runs import find_runs, locate_han, locate_runs, may_hold_word_bigrams
from rag_bm25.analysis.segmentation import place_words
from rag_bm25.analysis.stretches import Holders, find_stretches, match_next, places_of
from rag_bm25.analysis.text import Token
from rag_bm25.analysis.words import RunMemo

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from collections.abc import Set as AbstractSet

    from rag_bm25.analysis.config import Segmentation
    from rag_bm25.analysis.places import WantedTerms
    from rag_bm25.analysis.word_bigrams import WordBigrams
    from rag_bm25.analysis.words import TermMemo


class StretchMemo(RunMemo[tuple[str, ...]]):
    """Memo of the terms of stretches, of their bigrams, and of the words that bigrams with their neighbours have."""

    def __init__(self, terms: TermMemo, word_bigrams: WordBigrams) -> None:
        super().__init__()
        self.terms = terms
        self.word_bigrams = word_bigrams

    def _make(self, run: str) -> tuple[str, ...]:
        terms = tuple(chain.from_iterable(map(self.terms.__getitem__, find_runs(run))))
        held = tuple(dict.fromkeys((*terms, *self.word_bigrams.links_of(run))))
        return terms if terms == held else held


class StretchLocator:
    """Locates words that are not Chinese, and bigrams of words."""

    def __init__(self, words: AbstractSet[str], bigrams: AbstractSet[str], memo: StretchMemo) -> None:
        pairs = [bigram[1:].split(" ") for bigram in bigrams]
        self._words = words
        self._bigrams = bigrams
        self._begins = {first for first, _ in pairs} | bigrams
        self._ends = frozenset(second for _, second in pairs)
        self._held = memo
        self._holders = Holders(words | self._begins, memo)
        self._in_stretches: dict[str, list[Token]] = {}

    def __call__(self, text: str) -> list[Token]:
        """Return the tokens with their places, in any order."""
        tokens: list[Token] = []
        if not (self._words or self._bigrams):
            return tokens
        has_bigrams = bool(self._bigrams) and may_hold_word_bigrams(text)
        for stretch in self._holders.among(find_stretches(text)):
            words = self._in_stretches.get(stretch)
            if words is None:
                words = self._in_stretches[stretch] = self._words_in(stretch)
            begins = has_bigrams and not self._begins.isdisjoint(self._held[stretch])
            for at in places_of(text, stretch):
                tokens += shift(words, at)
                if begins:
                    tokens += self._bigrams_from(text, at, at + len(stretch))
        return tokens

    def _words_in(self, stretch: str) -> list[Token]:
        return [
            Token(term, match.start() + start, match.start() + end)
            for match in locate_runs(stretch)
            for term, start, end in self._held.terms.places[match[0]]
            if term in self._words
        ]

    def _bigrams_from(self, text: str, start: int, end: int) -> list[Token]:
        """Return the bigrams that begin in a stretch."""
        after = match_next(text, end)
        until = after.end() if after and not self._ends.isdisjoint(self._held[after[1]]) else end
        if until == end and self._bigrams.isdisjoint(self._held[text[start:end]]):
            return []
        found = shift(self._held.word_bigrams.located(text[start:until]), start)
        return [token for token in found if token.text in self._bigrams and token.start < end]


class ChineseLocator:
    """Locates Chinese words."""

    def __init__(
        self, wanted: WantedTerms, cutter: Callable[[Segmentation], Callable[[str], list[str]]], mode: Segmentation
    ) -> None:
        self._wanted = wanted
        self._cutter = cutter  # which loads the dictionary
        self._shortest = min(map(len, wanted.shorter), default=0) if mode == "search" else 0
        self._within: dict[str, list[Token]] = {}

    def __call__(self, text: str) -> list[Token]:
        """Return the words with their places; only runs in which one is spelt are cut."""
        tokens: list[Token] = []
        starts = self._wanted.chinese_starts(text)
        at, last = 0, len(starts)
        for match in locate_han(text) if starts else ():
            start, after = match.span()
            if starts[at] >= after:
                continue
            tokens += self._in_run(match[0], start)
            at = bisect_left(starts, after, at)
            if at == last:
                break
        return tokens

    def _in_run(self, run: str, start: int) -> list[Token]:
        tokens: list[Token] = []
        wanted, within, shortest = self._wanted, self._within, self._shortest
        words = self._cutter("exact")(run)
        for word in words:
            length = len(word)
            if word in wanted:
                tokens.append(Token(word, start, start + length))
            if length > shortest > 0:
                shorter = within.get(word)
                if shorter is None:
                    shorter = within[word] = self._shorter(word, run, words)
                if shorter:
                    tokens += shift(shorter, start)
            start += length
        return tokens

    def _shorter(self, word: str, run: str, words: Sequence[str]) -> list[Token]:
        """Return the words that a search finds within a word of a run, which are the same wherever it stands."""
        if not self._wanted.may_be_within(word):
            return []
        placed = iter(self._cutter("search")(run))
        of_words = {whole: list(place_words(placed, [whole])) for whole in words}
        return [token for token in of_words[word][:-1] if token.text in self._wanted]
