"""The words of runs that are not Chinese, and their terms."""

from __future__ import annotations

import re
import unicodedata
from threading import RLock
from typing import TYPE_CHECKING, Protocol

from rag_bm25.analysis.runs import is_syllabic

if TYPE_CHECKING:
    from collections.abc import Collection

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
    """Cut a possessive off and join contractions: ``user's`` becomes ``user``, ``don't`` becomes ``dont``."""
    return _POSSESSIVE.sub("", word).replace("'", "")


def is_stop_word(word: str, stop_words: Collection[str]) -> bool:
    """Return whether a word is one of the case-folded stop words; in capitals it is a name: IT, WHO, US."""
    return word.casefold() in stop_words and not (len(word) > 1 and word.isupper())


def words_of(run: str, *, split_camel_case: bool = False) -> list[str]:
    """Return the words of a run that is not Chinese as they are spelt, the whole before its parts."""
    if is_syllabic(run):
        return [run[i : i + 2] for i in range(max(len(run) - 1, 1))]
    if run[-1] in "+#":
        return [run]
    if len(folded := run.casefold()) != len(run):
        run = folded  # as STRASSE and straße: letters are counted below
    return _compound_words(without_apostrophes(run).replace(",", ""), split_camel_case)


def _compound_words(compound: str, split_camel_case: bool) -> list[str]:
    """Return a compound and the words of its parts; the first two parts of a dotted number are one word."""
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
    if split_camel_case and len(humps := _CAMEL_HUMPS.split(part)) > 1:
        of_humps = (word for hump in humps for word in _part_words(hump, split_camel_case=False))
        words += [word for word in of_humps if word not in words]
    return words


class _Stemmer(Protocol):
    def stemWord(self, word: str) -> str: ...  # noqa: N802


class TermMemo(dict[str, tuple[str, ...]]):
    """Memo of the terms of every run that is not Chinese; stop words are case-folded."""

    def __init__(self, stop_words: Collection[str], *, stem: bool, split_camel_case: bool = False) -> None:
        super().__init__()
        self._stop_words = stop_words
        self._stem = stem
        self._split_camel_case = split_camel_case
        self._stemmer: _Stemmer | None = None
        self._lock = RLock()  # a Snowball stemmer works in a buffer of its own; a signal handler may search, too

    def __missing__(self, run: str) -> tuple[str, ...]:
        words = words_of(run, split_camel_case=self._split_camel_case)
        kept = (word for word in words if not is_stop_word(word, self._stop_words))
        terms = tuple(term for term in map(self._make_term, kept) if len(term) <= MAX_TOKEN_LENGTH)
        if len(run) <= MAX_TOKEN_LENGTH:  # longer ones are rare, and may be encoded files
            if len(self) >= MEMO_SIZE:
                self.clear()
            self[run] = terms
        return terms

    def _make_term(self, word: str) -> str:
        """Fold the case, and stem English words."""
        folded = word.casefold()
        if not folded.isascii():
            return unicodedata.normalize("NFC", folded)  # folding may take characters apart
        if self._stem and len(folded) >= MIN_STEMMED_LENGTH and folded.isalpha():
            return self._stem_word(folded)
        return folded

    def _stem_word(self, word: str) -> str:
        with self._lock:
            if self._stemmer is None:
                from Stemmer import Stemmer

                self._stemmer = Stemmer("english", 0)
            return self._stemmer.stemWord(word)
