"""User words that are not Chinese only, such as 5G网络 or node.js: found before the text is cut into runs."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from rag_bm25.analysis.runs import LETTER

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["UserWords"]

_LETTER = re.compile(LETTER)


class UserWords:
    """Words that are kept whole, in any letter case; the time to find them does not grow with their number.

    Of several words that fit at one place the longest is found. Words that begin or end with a letter or digit are
    not found within a longer run of these.

    Parameters
    ----------
    words : iterable of str
        Normalised words.

    Examples
    --------
    >>> UserWords(["5g", "5g网络"]).split("用5G网络，15G不是5g。")
    ['用', '5G网络', '，15G不是', '5g', '。']
    """

    def __init__(self, words: Iterable[str]) -> None:
        self._words = frozenset(map(_lower, words))
        self._lengths = _lengths_by_first(self._words)
        self._starts = _pattern_of_starts(self._lengths)

    def split(self, text: str) -> list[str]:
        """Split a text at the words.

        Parameters
        ----------
        text : str
            Normalised text.

        Returns
        -------
        list of str
            The words, at the odd places, and the text between them, which may be empty.
        """
        lowered = _lower(text)
        pieces: list[str] = []
        end = 0
        for match in self._starts.finditer(lowered):
            start = match.start()
            length = self._longest_at(lowered, start) if start >= end else 0
            if length:
                pieces += (text[end:start], text[start : start + length])
                end = start + length
        return [*pieces, text[end:]]

    def _longest_at(self, text: str, start: int) -> int:
        """Return the length of the longest word at a place, 0 where there is none."""
        for length in self._lengths[text[start]]:
            end = start + length
            if text[start:end] in self._words and not _is_within_run(text, end):
                return length
        return 0


def _lower(text: str) -> str:
    """Return a text in lower case, of the same length; only the dotted capital would become two characters."""
    return text.replace("İ", "i").lower()


def _lengths_by_first(words: Iterable[str]) -> dict[str, list[int]]:
    """Return how long the words are that begin with a character, longest first."""
    lengths: dict[str, set[int]] = defaultdict(set)
    for word in words:
        lengths[word[0]].add(len(word))
    return {first: sorted(of_first, reverse=True) for first, of_first in lengths.items()}


def _pattern_of_starts(firsts: Iterable[str]) -> re.Pattern[str]:
    """Return the pattern of the characters at which a word may begin."""
    letters = "".join(filter(_LETTER.match, firsts))
    others = re.escape("".join(char for char in firsts if char not in letters))
    choices = ([f"[{others}]"] if others else []) + ([f"(?<!{LETTER})[{letters}]"] if letters else [])
    return re.compile("|".join(choices))


def _is_within_run(text: str, end: int) -> bool:
    """Tell whether letters or digits stand on both sides of a place."""
    return bool(_LETTER.match(text, end - 1) and _LETTER.match(text, end))
