"""Runs other than Chinese: the words that they hold, and the terms that these become."""

from __future__ import annotations

import re
import unicodedata
from threading import Lock
from typing import TYPE_CHECKING, Protocol

from rag_bm25.analysis.runs import is_syllabic

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

__all__ = ["MAX_TOKEN_LENGTH", "TermMemo", "is_stop_word", "without_apostrophes", "words_of"]

MAX_TOKEN_LENGTH = 64
MAX_PARTS = 5  # of a compound that is also a token as a whole
MIN_STEMMED_LENGTH = 3
MEMO_SIZE = 200_000  # runs, in about 50 MB

_POSSESSIVE = re.compile(r"'[sS](?![^\W_])")
_DOTTED_NUMBER = re.compile(r"[vV]?(\d+(?:\.\d+)+)")
_JOINTS = re.compile(r"[.\-_]+")
_LETTERS_AND_DIGITS = re.compile(r"([^\W\d_]{2,})(\d+)|(\d+)([^\W\d_]{2,4})")
_CAMEL_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def without_apostrophes(word: str) -> str:
    """Cut a possessive off and join contractions: ``user's`` is ``user``, ``don't`` is ``dont``.

    Parameters
    ----------
    word : str
        A word or compound.

    Returns
    -------
    str
        The same without apostrophes.
    """
    return _POSSESSIVE.sub("", word).replace("'", "")


def is_stop_word(word: str, stop_words: Collection[str]) -> bool:
    """Tell whether a word is dropped; one in capitals never is, it is a name: IT, WHO, US.

    Parameters
    ----------
    word : str
        A word as it is spelt.
    stop_words : collection of str
        Case-folded words.

    Returns
    -------
    bool
        True for a stop word.
    """
    return word.casefold() in stop_words and not (len(word) > 1 and word.isupper())


def words_of(run: str, *, split_camel_case: bool = False) -> list[str]:
    """Return the words of a run that is not Chinese, as they are spelt.

    Parameters
    ----------
    run : str
        One of the results of :func:`~rag_bm25.analysis.runs.find_runs`.
    split_camel_case : bool
        Whether ``getUserName`` holds ``get``, ``User`` and ``Name`` too.

    Returns
    -------
    list of str
        The whole before its parts.

    Examples
    --------
    >>> words_of("GPT-4o"), words_of("v2.5.1"), words_of("iPhone15"), words_of("1,000")
    (['GPT-4o', 'GPT', '4o'], ['2.5.1', '2.5'], ['iPhone15', 'iPhone', '15'], ['1000'])
    """
    if is_syllabic(run):
        return [run[i : i + 2] for i in range(max(len(run) - 1, 1))]
    if run[-1] in "+#":
        return [run]
    if len(folded := run.casefold()) != len(run):
        run = folded  # as STRASSE and straße: letters are counted below
    return _compound_words(without_apostrophes(run).replace(",", ""), split_camel_case)


def _compound_words(compound: str, split_camel_case: bool) -> list[str]:
    """Return a compound and the words of its parts; a dotted number has its first two parts in common with others."""
    if number := _DOTTED_NUMBER.fullmatch(compound):
        major_minor = ".".join(number[1].split(".")[:2])
        return list(dict.fromkeys((number[1], major_minor)))
    parts = _JOINTS.split(compound)
    whole = [compound] if 1 < len(parts) <= MAX_PARTS else []
    return whole + [word for part in parts for word in _part_words(part, split_camel_case)]


def _part_words(part: str, split_camel_case: bool) -> list[str]:
    """Return a part, its letters and digits apart, and its humps."""
    halves = _LETTERS_AND_DIGITS.fullmatch(part)
    words = [part, *filter(None, halves.groups())] if halves else [part]
    if split_camel_case:
        words += [word for word in _hump_words(part) if word not in words]
    return words


def _hump_words(part: str) -> Iterator[str]:
    """Yield the words of the humps of a part that has several."""
    humps = _CAMEL_HUMPS.split(part)
    if len(humps) > 1:
        for hump in humps:
            yield from _part_words(hump, split_camel_case=False)


class _Stemmer(Protocol):
    """What is used of PyStemmer."""

    def stemWord(self, word: str) -> str: ...  # noqa: N802


class TermMemo(dict[str, tuple[str, ...]]):
    """The terms of every run that is not Chinese, worked out at its first occurrence.

    Parameters
    ----------
    stop_words : collection of str
        Case-folded words that are dropped.
    stem : bool
        Whether English words are stemmed.
    split_camel_case : bool
        As for :func:`words_of`.

    Examples
    --------
    >>> TermMemo({"the"}, stem=True)["state-of-the-art"]
    ('state-of-the-art', 'state', 'of', 'art')
    """

    def __init__(self, stop_words: Collection[str], *, stem: bool, split_camel_case: bool = False) -> None:
        super().__init__()
        self._stop_words = stop_words
        self._stem = stem
        self._split_camel_case = split_camel_case
        self._stemmer: _Stemmer | None = None
        self._lock = Lock()  # a Snowball stemmer works in a buffer of its own

    def __missing__(self, run: str) -> tuple[str, ...]:
        """Work out the terms of a new run."""
        words = words_of(run, split_camel_case=self._split_camel_case)
        kept = (word for word in words if not is_stop_word(word, self._stop_words))
        terms = tuple(term for term in map(self._term, kept) if len(term) <= MAX_TOKEN_LENGTH)
        if len(run) <= MAX_TOKEN_LENGTH:  # longer ones are rare, and may be encoded files
            self._remember(run, terms)
        return terms

    def _remember(self, run: str, terms: tuple[str, ...]) -> None:
        """Keep the terms of a run, and begin anew where the memo is full."""
        if len(self) >= MEMO_SIZE:
            self.clear()
        self[run] = terms

    def _term(self, word: str) -> str:
        """Fold the case, and stem what looks English."""
        folded = word.casefold()
        if not folded.isascii():
            return unicodedata.normalize("NFC", folded)  # folding may take characters apart
        if self._stem and len(folded) >= MIN_STEMMED_LENGTH and folded.isalpha():
            return self._stemmed(folded)
        return folded

    def _stemmed(self, word: str) -> str:
        """Stem one word."""
        with self._lock:
            if self._stemmer is None:
                from Stemmer import Stemmer

                self._stemmer = Stemmer("english", 0)
            return self._stemmer.stemWord(word)
