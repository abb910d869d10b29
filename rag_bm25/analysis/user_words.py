"""User words with other than Chinese characters, such as 5G网络 or node.js: found before text is cut into runs."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from rag_bm25.analysis.runs import LETTER, is_within_word
from rag_bm25.scripts import MARKS

if TYPE_CHECKING:
    from collections.abc import Iterable

_LETTER = re.compile(LETTER)


class UserWords:
    """Normalised words that are kept whole, in any letter case; the time to find them does not grow with their number.

    Of several words that fit at one place the longest is found. Words that begin or end with a letter or digit are
    not found within a longer run of these.
    """

    def __init__(self, words: Iterable[str]) -> None:
        self._words = frozenset(map(_lower, words))
        lengths: dict[str, set[int]] = defaultdict(set)  # of the words that begin with each character
        for word in self._words:
            lengths[word[0]].add(len(word))
        self._lengths = {first: sorted(of_first, reverse=True) for first, of_first in lengths.items()}
        self._starts = _pattern_of_starts(self._lengths)

    def split(self, text: str) -> list[str]:
        """Split a normalised text at the words, which are at the odd places; text between them may be empty."""
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
        """Return the length of the longest word at a place, 0 if there is none."""
        for length in self._lengths[text[start]]:
            end = start + length
            if text[start:end] in self._words and not is_within_word(text, end):
                return length
        return 0


def _lower(text: str) -> str:
    # In lower case and of the same length: only the dotted capital would become two characters.
    return text.replace("İ", "i").lower()


def _pattern_of_starts(firsts: Iterable[str]) -> re.Pattern[str]:
    """Return the pattern of the places at which a word may begin."""
    letters = "".join(filter(_LETTER.match, firsts))
    others = re.escape("".join(char for char in firsts if char not in letters))
    choices = ([f"[{others}]"] if others else []) + ([f"(?<!{LETTER})(?<![{MARKS}])[{letters}]"] if letters else [])
    return re.compile("|".join(choices))
