"""The boundary of analysis: the protocol of analyzers, and their tokens by channel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from rag_bm25.vectors.terms import BIGRAM_MARK, term_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


class Token(NamedTuple):
    """A token, and its place in a text."""

    text: str  # may be spelt otherwise in the text
    start: int  # in characters, as `end`
    end: int


def shift(tokens: Iterable[Token], by: int) -> list[Token]:
    """Return the tokens of a part of a text with their places in the text."""
    return [Token(token, start + by, end + by) for token, start, end in tokens]


class TextAnalyzer(Protocol):
    """Any callable that returns the tokens of a text, in order and with repeats.

    A token that begins with a NUL character is a bigram, or, with one more character, a single character: terms of
    further channels. Others are words. An analyzer that cuts queries differently has a method ``query``, too; there, a
    token that begins with two NUL characters is of a question word, which counts by the ``question_word_weight``.
    """

    def __call__(self, text: str, /) -> list[str]:
        """Return the tokens of a text."""
        ...


def query_tokens(analyzer: TextAnalyzer, text: str) -> list[str]:
    """Return the tokens of a query, by the method ``query`` of the analyzer if it has one."""
    analyze: Callable[[str], list[str]] = getattr(analyzer, "query", analyzer)
    return analyze(text)


@dataclass(frozen=True)
class AnalysedText:
    """The tokens of a text by channel, each in text order and with repeats."""

    words: tuple[str, ...]
    bigrams: tuple[str, ...] = ()
    characters: tuple[str, ...] = ()
    question_terms: tuple[str, ...] = ()  # of a query that has other words

    @classmethod
    def of(cls, tokens: Sequence[str]) -> AnalysedText:
        """Sort the tokens of an analyzer by channel."""
        words: list[str] = []
        bigrams: list[str] = []
        characters: list[str] = []
        questions: list[str] = []
        for token in tokens:  # a call of `channel_of` for each took half as long again
            if token[:1] != BIGRAM_MARK:
                words.append(token)
            elif token[1:2] == BIGRAM_MARK:
                questions.append(token[2:])
            else:
                (characters if len(token) == 2 else bigrams).append(token)
        return cls(tuple(words), tuple(bigrams), tuple(characters), tuple(questions))

    @classmethod
    def of_query(cls, analyzer: TextAnalyzer, text: str) -> AnalysedText:
        return cls.of(query_tokens(analyzer, text))

    @property
    def terms(self) -> tuple[str, ...]:
        """The words, then the bigrams, then the characters."""
        return self.words + self.bigrams + self.characters

    @property
    def phrase(self) -> tuple[str, ...]:
        """The distinct bigrams, if those across the words hold all of these together; else none.

        Those within Chinese words are needed, too: of 劳务协议, 服务协议 has the bigram across the words.
        """
        bigrams = dict.fromkeys(self.bigrams)
        across = [bigram for bigram in bigrams if not any(term_text(bigram) in word for word in self.words)]
        return tuple(bigrams) if 1 < len(self.words) <= len(across) + 1 else ()
