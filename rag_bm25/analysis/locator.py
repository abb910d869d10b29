"""Locate some of the tokens of texts, without those of the rest; what is learnt of a word serves in the next text."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate, chain
from typing import TYPE_CHECKING

from rag_bm25.analysis.places import shift
from rag_bm25.analysis.runs import find_runs, locate_han, locate_runs, may_hold_word_bigrams
from rag_bm25.analysis.segmentation import BORDER
from rag_bm25.analysis.stretches import Holders, find_stretches, match_next, places_of
from rag_bm25.analysis.text import Token
from rag_bm25.analysis.words import RunMemo

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from rag_bm25.analysis.places import WantedTerms
    from rag_bm25.analysis.word_bigrams import WordBigrams
    from rag_bm25.analysis.words import TermMemo


class StretchMemo(RunMemo[tuple[str, ...]]):
    """Memo of the terms of stretches, those of a bigram with a neighbour among them, and of the bigrams within."""

    def __init__(self, terms: TermMemo, word_bigrams: WordBigrams) -> None:
        super().__init__()
        self.terms = terms
        self.word_bigrams = word_bigrams

    def _make(self, run: str) -> tuple[str, ...]:
        terms = chain.from_iterable(map(self.terms.__getitem__, find_runs(run)))
        return (*terms, *[bigram.text for bigram in self.word_bigrams.located(run)])


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

    def __init__(self, wanted: WantedTerms, cut: Callable[[str], list[str]], within: Mapping[str, list[Token]]) -> None:
        self._wanted = wanted
        self._cut = cut
        self._within = within  # the words that a chunk has where it has a word

    def __call__(self, text: str) -> list[Token]:
        """Return the words with their places; only runs in which one is spelt are cut."""
        spelt = self._wanted.chinese_places(text)
        if not spelt:
            return []
        runs, shifts = self._runs_of(spelt, text)
        words = self._cut(BORDER.join(runs))  # twice as fast as one by one
        ends = list(accumulate(map(len, words)))
        tokens: list[Token] = []
        for (start, word), by in zip(spelt, shifts, strict=True):
            at = bisect_right(ends, start - by)
            longer = words[at]
            place = start - by - (ends[at] - len(longer))
            if place + len(word) <= len(longer) and (word == longer or self._is_within(longer, word, place)):
                tokens.append(Token(word, start, start + len(word)))
        return tokens

    @staticmethod
    def _runs_of(spelt: Sequence[tuple[int, str]], text: str) -> tuple[list[str], list[int]]:
        """Return the runs in which words are spelt, and how far those of each one move when they are joined."""
        runs: list[str] = []
        shifts: list[int] = []
        at = length = 0
        for match in locate_han(text):
            until = match.end()
            if spelt[at][0] < until:
                runs.append(match[0])
                first, at = at, bisect_left(spelt, (until,), at)
                shifts += [match.start() - length] * (at - first)
                if at == len(spelt):
                    break
                length += len(match[0]) + len(BORDER)
        return runs, shifts

    def _is_within(self, longer: str, word: str, start: int) -> bool:
        return (word, start, start + len(word)) in self._within[longer]
