"""Words of the user: read from files, and found in text before it is cut into runs, such as 5G网络 or node.js."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, TypeVar

from rag_bm25.analysis.config import MAX_WORDS, check_user_word, check_word
from rag_bm25.analysis.lines import read_lines
from rag_bm25.analysis.runs import LETTER, is_within_word
from rag_bm25.errors import InputError, ParameterError
from rag_bm25.scripts import MARKS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path


MAX_FILE_BYTES = 64 << 20  # the largest dictionary of jieba has 9 MB

# jieba's format: the word, its frequency, and its part of speech, of which only the word must be there. Without a
# frequency, only a mark of jieba's own is taken for one: the second word of a product's name is none.
_USER_WORD = re.compile(r"(\S+)(?:\s+(\d+)(?:\s+[a-z]{1,4})?|\s+(?:[a-z]{1,2}|nrt|nrfg|eng))?")

_T = TypeVar("_T")
_LETTER = re.compile(LETTER)


def read_user_words(path: str | Path) -> tuple[tuple[str, int | None], ...]:
    """Read words to keep whole, for `user_words` of an :class:`~rag_bm25.AnalyzerConfig`.

    Parameters
    ----------
    path : str or Path
        A file in UTF-8 with a word a line. A frequency and a part of speech may follow, as in a user dictionary of
        jieba; the latter is not used. Empty lines are skipped, and lines that are ``#``
        or begin with it and a blank.

    Returns
    -------
    tuple of (str, int or None)
        Words with their frequencies, in the order of the file, each once.

    Raises
    ------
    InputError
        A line cannot be read, or a word has two frequencies; the message has file and line.
    OSError
        The file cannot be opened.
    """
    found: dict[str, tuple[int | None, int]] = {}
    for number, (word, frequency) in _read(path, _parse_user_word):
        known, first = found.setdefault(word, (frequency, number))
        if known != frequency:
            raise InputError(f"{path} line {number}: {word!r} has another frequency in line {first}")
    return tuple((word, frequency) for word, (frequency, _) in found.items())


def read_stop_words(path: str | Path) -> tuple[str, ...]:
    """Read words for `stop_words` and `question_words` of an :class:`~rag_bm25.AnalyzerConfig`.

    Parameters
    ----------
    path : str or Path
        A file in UTF-8 with a word a line. Empty lines are skipped, and lines that are ``#`` or begin
        with it and a blank.

    Returns
    -------
    tuple of str
        The words, in the order of the file, each once; none for an empty file.

    Raises
    ------
    InputError
        A line cannot be read; the message has file and line.
    OSError
        The file cannot be opened.
    """
    words = (word for _, word in _read(path, lambda line: check_word("stop_words", line)))
    return tuple(dict.fromkeys(words))


def _parse_user_word(line: str) -> tuple[str, int | None]:
    match = _USER_WORD.fullmatch(line)
    if match is None:
        raise ParameterError(f"user_words must be lines of WORD, or WORD FREQUENCY, got {line!r}")
    return check_user_word((match[1], int(match[2]) if match[2] else None))


def _read(path: str | Path, parse: Callable[[str], _T]) -> Iterator[tuple[int, _T]]:
    """Yield the number and the contents of each line that has any."""
    count = 0
    for number, text in read_lines(path, MAX_FILE_BYTES):
        if not text or re.match(r"#(\s|$)", text):
            continue
        try:
            yield number, parse(text)
        except ParameterError as error:
            raise InputError(f"{path} line {number}: {error}") from None
        count += 1
        if count > MAX_WORDS:
            raise InputError(f"{path} must have at most {MAX_WORDS:,} words")


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
