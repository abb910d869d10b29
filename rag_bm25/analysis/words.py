"""The words of runs that are not Chinese, and their terms."""

from __future__ import annotations

import re
import unicodedata
from threading import RLock
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeVar

from rag_bm25.analysis.runs import is_syllabic

if TYPE_CHECKING:
    from collections.abc import Collection

Compounds = Literal["identifiers", "all"]
_T = TypeVar("_T")

MAX_TOKEN_LENGTH = 64
MAX_PARTS = 5  # of a compound that is also a token as a whole
MAX_PREFIX_LENGTH = 3
MIN_STEMMED_LENGTH = 3
MEMO_SIZE = 200_000  # runs, in about 50 MB

_POSSESSIVE = re.compile(r"'[sS](?![^\W_])")
_DOTTED_NUMBER = re.compile(r"[vV]?(\d+(?:\.\d+)+)")
_JOINTS = re.compile(r"[.\-_]+")
_ACRONYM = re.compile(r"[^\W\d_](?:\.[^\W\d_])+")
_LETTERS_AND_DIGITS = re.compile(r"([^\W\d_]{2,})(\d+)|(\d+)([^\W\d_]{2,4})")
_CAMEL_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def without_apostrophes(word: str) -> str:
    """Cut a possessive off and join contractions: ``user's`` becomes ``user``, ``don't`` becomes ``dont``."""
    return _POSSESSIVE.sub("", word).replace("'", "")


def is_stop_word(word: str, stop_words: Collection[str]) -> bool:
    """Return whether a word is one of the case-folded stop words; in capitals it is a name: IT, WHO, US."""
    return word.casefold() in stop_words and not (len(word) > 1 and word.isupper())


class WordRules(NamedTuple):
    """The rules by which a run becomes words."""

    stop_words: Collection[str] = ()  # case-folded
    compounds: Compounds = "identifiers"
    split_camel_case: bool = False


def words_of(run: str, rules: WordRules = WordRules()) -> list[str]:  # noqa: B008
    """Return the words of a run that is not Chinese as they are spelt, the whole before its parts."""
    if is_syllabic(run):
        return [run[i : i + 2] for i in range(max(len(run) - 1, 1))]
    if run[-1] in "+#":
        return [run]
    compound = _without_signs(run)
    if number := _DOTTED_NUMBER.fullmatch(compound):
        major_minor = ".".join(number[1].split(".")[:2])
        return list(dict.fromkeys((number[1], major_minor)))
    parts = _JOINTS.split(compound)
    if acronym := _acronym(compound, rules):
        return [acronym]
    of_parts = [word for part in parts for word in _part_words(part, rules.split_camel_case)]
    return [*_wholes(compound, parts, rules), *of_parts]


def phrase_of(run: str, rules: WordRules = WordRules()) -> list[str]:  # noqa: B008
    """Return the words of a run in their order, each character in one of them: no whole beside its parts."""
    if is_syllabic(run) or run[-1] in "+#":
        return []
    compound = _without_signs(run)
    if _DOTTED_NUMBER.fullmatch(compound):
        return []
    parts = _JOINTS.split(compound)
    if acronym := _acronym(compound, rules):
        return [acronym]
    return ["".join(parts)] if _is_prefixed(compound, parts, rules) else parts


def spelt_words(run: str, rules: WordRules = WordRules()) -> list[str]:  # noqa: B008
    """Return the words of a run as :func:`phrase_of` does, with numbers, ``C++``, and each kana or hangul."""
    if is_syllabic(run):
        return list(run)
    if run[-1] in "+#":
        return [run]
    if number := _DOTTED_NUMBER.fullmatch(_without_signs(run)):
        return [number[1]]
    return phrase_of(run, rules)


def _without_signs(run: str) -> str:
    if len(folded := run.casefold()) != len(run):
        run = folded  # as STRASSE and straße: letters are counted below
    return without_apostrophes(run).replace(",", "")


def _acronym(compound: str, rules: WordRules) -> str:
    """Join single letters with dots, in capitals, as which they are no stop word: ``u.s`` becomes ``US``."""
    is_one = rules.compounds != "all" and _ACRONYM.fullmatch(compound)
    return compound.replace(".", "").upper() if is_one else ""


def _wholes(compound: str, parts: list[str], rules: WordRules) -> list[str]:
    """Return the words that a compound is as a whole.

    A whole is rare, and its IDF high, so that it must be worth it: beside ``information`` and ``retrieval``,
    ``information-retrieval`` was measured to lose hits.
    """
    if not 1 < len(parts) <= MAX_PARTS:
        return []
    if rules.compounds == "all" or _is_identifier(compound, parts):
        return [compound]
    return ["".join(parts)] if _is_prefixed(compound, parts, rules) else []


def _is_identifier(compound: str, parts: list[str]) -> bool:
    """Return whether a compound is the name of something: by a digit, an underscore, a dot or camel case."""
    named = "_" in compound or "." in compound or not all(map(str.isalpha, parts))
    return named or _CAMEL_HUMPS.search(compound) is not None


def _is_prefixed(compound: str, parts: list[str], rules: WordRules) -> bool:
    """Return whether a compound is also written as one word: ``on-line``, ``e-mail``, ``re-use``."""
    if rules.compounds == "all" or len(parts) != 2 or "-" not in compound or _is_identifier(compound, parts):
        return False
    return len(parts[0]) <= MAX_PREFIX_LENGTH or is_stop_word(parts[0], rules.stop_words)


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


class Stemming:
    """Fold the case of words, and stem English ones."""

    def __init__(self, *, stem: bool) -> None:
        self._stem = stem
        self._stemmer: _Stemmer | None = None
        self._lock = RLock()  # a Snowball stemmer works in a buffer of its own; a signal handler may search, too

    def term(self, word: str) -> str:
        """Return the term of a word."""
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


class RunMemo(dict[str, _T]):
    """Memo by run, of a bounded size."""

    def __missing__(self, run: str) -> _T:
        made = self._make(run)
        if len(run) <= MAX_TOKEN_LENGTH:  # longer ones are rare, and may be encoded files
            if len(self) >= MEMO_SIZE:
                self.clear()
            self[run] = made
        return made

    def _make(self, run: str) -> _T:
        raise NotImplementedError


class TermMemo(RunMemo[tuple[str, ...]]):
    """Memo of the terms of every run that is not Chinese, without those of dropped words, which are case-folded."""

    def __init__(self, rules: WordRules, stemming: Stemming, dropped: Collection[str] | None = None) -> None:
        super().__init__()
        self._rules = rules
        self._stemming = stemming
        self._dropped = rules.stop_words if dropped is None else dropped

    def _make(self, run: str) -> tuple[str, ...]:
        kept = (word for word in words_of(run, self._rules) if not is_stop_word(word, self._dropped))
        return tuple(term for term in map(self._stemming.term, kept) if len(term) <= MAX_TOKEN_LENGTH)
