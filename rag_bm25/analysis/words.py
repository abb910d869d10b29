"""The words of runs that are not Chinese, and their terms."""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise
from threading import RLock
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar

from rag_bm25.analysis.acronyms import name_in_capitals
from rag_bm25.analysis.camel_case import has_humps, humps, is_small
from rag_bm25.analysis.names import is_spelt_as_one, pieces_of
from rag_bm25.analysis.runs import (
    COMMAS,
    WIDE_COMMA,
    is_segmented,
    is_sign,
    is_spelt,
    is_syllabic,
    locate_syllables,
)
from rag_bm25.analysis.text import Token
from rag_bm25.checks import as_str, parameter_error, require_extra
from rag_bm25.errors import MissingExtraError
from rag_bm25.scripts import MARKS

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rag_bm25.analysis.camel_case import CamelCase

Compounds = Literal["identifiers", "all"]
_T = TypeVar("_T")

MAX_TOKEN_LENGTH = 64
MAX_PARTS = 5  # of a compound that is also a token as a whole
MAX_PREFIX_LENGTH = 3
MIN_STEMMED_LENGTH = 3
ENGLISH = "english"
MEMO_SIZE = 200_000  # runs, in about 50 MB

_POSSESSIVE = re.compile(r"'[sS](?![^\W_])")
_LIST = re.compile(rf"\d{{3}}(?:,\d{{3}})+|\d+(?:{WIDE_COMMA}\d+)+(?:\.\d+)?")
_MEMBER = re.compile(r"[\d.]+")
_COMMAS = re.compile(f"[{COMMAS}]")
_DOTTED_NUMBER = re.compile(r"[vV]?(\d+(?:\.\d+)+)")
_PART = re.compile(r"[^.\-_]+")
_PART_OR_NUMBER = re.compile(  # 2.5x4, Python3.11, v2.5 and 2.4GHz are no parts between dots
    r"""(?: (?!0[xX])\d+(?:\.\d+)?(?:[xX]\d+(?:\.\d+)?)+[^\W\d_]{0,3}
          | (?:[^\W\d_]{2,}|[vV])?\d+(?:\.\d+)+ | \d+(?:\.\d+)+[^\W\d_]{1,4} )(?![^.\-_])
        | [^.\-_]+""",
    re.VERBOSE,
)
_ACRONYM = re.compile(r"[^\W\d_](?:\.[^\W\d_])+")
_LETTERS_AND_DIGITS = re.compile(  # Python3.11 is also Python3
    r"(?=([^\W\d_]+\d+)\.)?([^\W\d_]{2,}|[^\W\d_](?=\d{1,4}\Z))([\d.]+)|([\d.]+)([^\W\d_]{1,4}|[^\W\d_]{1,2}[23])"
)
_NAME_OF_TWO = re.compile(  # iPhone15 Pro, S24 Ultra, 12V 5A: hashes have more borders
    r"([^\W\d_]+\d+)([^\W\d_]{2,})|(\d+[^\W\d_]{1,4})(\d+[^\W\d_]{1,4})"
)
_JOINED_LETTERS = re.compile(r"[A-Za-z]+(?:[.\-_]+[A-Za-z]+)+")
_STROKES = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "ħ": "h", "ŧ": "t", "ı": "i", "æ": "ae", "œ": "oe"})
_ACCENTS = re.compile(f"(?<=[a-z])[{MARKS}]+")


def without_apostrophes(word: str) -> str:
    """Cut a possessive off and join contractions: ``user's`` becomes ``user``, ``don't`` becomes ``dont``."""
    return _POSSESSIVE.sub("", word).replace("'", "") if "'" in word else word


def without_accents(word: str) -> str:
    """Return a word without the accents and strokes of its small Latin letters: ``lodz`` for ``łódź``."""
    if word.isascii():
        return word
    bare = _ACCENTS.sub("", unicodedata.normalize("NFD", word).translate(_STROKES))
    return unicodedata.normalize("NFC", bare)


def is_stop_word(word: str, stop_words: Collection[str]) -> bool:
    """Return whether a word is one of the case-folded stop words; in capitals it is a name: IT, WHO, A."""
    return word.casefold() in stop_words and not word.isupper()


def is_number(word: str) -> bool:
    """Return whether a word is a number, with or without dots."""
    return word.isdecimal() or _match_number(word) is not None


def _match_number(word: str) -> re.Match[str] | None:
    """Match a number with dots, such as a version, without the v before it."""
    return _DOTTED_NUMBER.fullmatch(word) if "." in word else None


class WordRules(NamedTuple):
    """The rules by which a run becomes words."""

    stop_words: Collection[str] = ()  # case-folded
    compounds: Compounds = "identifiers"
    split_camel_case: CamelCase = "words"


def words_of(run: str, rules: WordRules = WordRules()) -> list[Token]:  # noqa: B008
    """Return the words of a run that is not Chinese as they are spelt, the whole before its parts."""
    if is_syllabic(run):
        syllables = locate_syllables(run)
        pairs = pairwise(syllables) if len(syllables) > 1 else [syllables * 2]
        return [_cut(run, first.start(), last.end()) for first, last in pairs]
    if run[-1] in "+#":
        return [Token(run, 0, len(run))]
    if run[0] == ".":  # .NET
        return [Token(run, 0, len(run)), _cut(run, 1, len(run))]
    if is_whole(run, rules):
        return [Token(run, 0, len(run))]
    compound, places = _without_signs(run)
    return [*_in_run(_words_of_compound(compound, rules), places), *_members_of_list(run)]


def _members_of_list(run: str) -> list[Token]:
    """Return the numbers of what may be a list, as ``404,500,502``: numbers seldom begin with three digits.

    A full-width comma may separate thousands, but mostly clauses: 截至8月15，130人受灾.
    """
    return [Token(number[0], *number.span()) for number in _MEMBER.finditer(run)] if _LIST.fullmatch(run) else []


def is_simple(run: str) -> bool:
    """Return whether a run is a word as most are, or a number: nothing of it can be cut off."""
    return run.isascii() and (run.isalpha() or run.isdigit())


def is_whole(run: str, rules: WordRules) -> bool:
    """Return whether a run is a word as most are, without humps that are words, too."""
    return is_simple(run) and (is_small(run) or not humps(run, rules.split_camel_case))


def _words_of_compound(compound: str, rules: WordRules) -> list[Token]:
    if number := _number(compound):
        return _versions(number)
    if acronym := _acronym(compound, rules):
        return [acronym]
    parts = _parts(compound, rules)
    of_parts = [word for part in parts for word in _part_words(part, rules.split_camel_case)]
    return [*_wholes(compound, parts, rules), *of_parts]


class JoinedLetters(NamedTuple):
    """A compound of plain letters, each part of which is a run of its own elsewhere."""

    wholes: list[str]
    parts: list[str]  # after these, what `words_of` has
    phrase: list[str]  # what `phrase_of` has


def joined_letters(run: str, rules: WordRules) -> JoinedLetters | None:
    """Return the words of letters that signs join, or None for any other run."""
    if _JOINED_LETTERS.fullmatch(run) is None or _acronym(run, rules):
        return None
    parts = _parts(run, rules)
    wholes = [word.text for word in _wholes(run, parts, rules)]
    texts = [part.text for part in parts]
    return JoinedLetters(wholes, texts, ["".join(texts)] if _is_one_word(run, parts, rules) else texts)


def phrase_of(run: str, rules: WordRules = WordRules()) -> list[Token]:  # noqa: B008
    """Return the words of a run in their order, each character in one of them: no whole beside its parts."""
    if is_syllabic(run) or run[-1] in "+#" or run[0] == ".":
        return []
    if is_simple(run):
        return [Token(run, 0, len(run))]
    compound, places = _without_signs(run)
    return [] if _number(compound) else _in_run(_spelt_compound(compound, rules), places)


def spelt_words(run: str, rules: WordRules = WordRules()) -> list[Token]:  # noqa: B008
    """Return the words of a run as :func:`phrase_of` does, with numbers, ``C++``, and each kana, hangul or Thai."""
    if is_syllabic(run):
        return [Token(syllable[0], *syllable.span()) for syllable in locate_syllables(run)]
    if run[-1] in "+#" or run[0] == ".":
        return [Token(run, 0, len(run))]
    if WIDE_COMMA in run:
        return _members_of_list(run)
    compound, places = _without_signs(run)
    whole = [_cut(compound, 0, len(compound))] if _number(compound) else _spelt_compound(compound, rules)
    return _in_run([_without_v(word) for word in whole], places)


def letters_and_digits(word: str) -> list[str]:
    """Return the letters and digits of a spelt word apart, where `words_of` has them apart, too: 3GB is 3 GB."""
    if is_spelt(word) or is_number(word) or not any(map(str.isdigit, word)):
        return [word]
    words = _part_words(_cut(word, 0, len(word)), split_camel_case=False)
    innermost, least = set(), len(word) + 1  # a place that begins no earlier, and ends no later, is within
    for start, end in sorted({(start, end) for _, start, end in words}, key=lambda place: (-place[0], place[1])):
        if end < least:
            innermost.add((start, end))
            least = end
    return [text for text, *place in words if tuple(place) in innermost]


def _without_v(word: Token) -> Token:
    """Return a word or, of a number with dots, what follows the v."""
    number = _number(word.text)
    return _within(word, number.start, number.end) if number else word


def _spelt_compound(compound: str, rules: WordRules) -> list[Token]:
    if acronym := _acronym(compound, rules):
        return [acronym]
    parts = _parts(compound, rules)
    return [_joined(compound, parts)] if _is_one_word(compound, parts, rules) else parts


def _without_signs(run: str) -> tuple[str, Sequence[int]]:
    """Return a run without apostrophes and commas, and the place of each of its characters in the run."""
    if run.isascii() and "'" not in run and "," not in run:
        return run, range(len(run))
    # As STRASSE and straße: letters are counted.
    letters = run.casefold() if len(run.casefold()) != len(run) else run
    compound = _COMMAS.sub("", without_apostrophes(letters))
    if compound == run:
        return run, range(len(run))
    places = [at for at, char in enumerate(run) for _ in (char if letters is run else char.casefold())]
    for possessive in reversed(list(_POSSESSIVE.finditer(letters))):
        letters = letters[: possessive.start()] + letters[possessive.end() :]
        del places[possessive.start() : possessive.end()]
    return compound, [at for char, at in zip(letters, places, strict=True) if char not in f"'{COMMAS}"]


def _in_run(words: list[Token], places: Sequence[int]) -> list[Token]:
    """Return words of a compound with their places in the run."""
    if isinstance(places, range):
        return words
    return [Token(text, places[start], places[end - 1] + 1) for text, start, end in words]


def _cut(compound: str, start: int, end: int) -> Token:
    return Token(compound[start:end], start, end)


def _number(compound: str) -> Token | None:
    match = _match_number(compound)
    return None if match is None else _cut(compound, *match.span(1))


def _versions(number: Token) -> list[Token]:
    """Return a number with dots, and its first two places."""
    major_minor = _within(number, 0, len(".".join(number.text.split(".")[:2])))
    return list(dict.fromkeys((number, major_minor)))


def _parts(compound: str, rules: WordRules) -> list[Token]:
    """Return the parts between the joints, of which a dot within a number is none."""
    pattern = _PART if rules.compounds == "all" or _has_letters_only(compound) else _PART_OR_NUMBER
    return [Token(part[0], *part.span()) for part in pattern.finditer(compound)]


def _has_letters_only(compound: str) -> bool:
    """Return whether there are only letters between hyphens."""
    return is_spelt(compound.replace("-", ""))


def _joined(compound: str, parts: list[Token]) -> Token:
    return Token("".join(part.text for part in parts), 0, len(compound))


def _acronym(compound: str, rules: WordRules) -> Token | None:
    """Join single letters with dots, in capitals, as which they are no stop word: ``u.s`` becomes ``US``."""
    is_one = rules.compounds != "all" and "." in compound and _ACRONYM.fullmatch(compound)
    return Token(compound.replace(".", "").upper(), 0, len(compound)) if is_one else None


def _wholes(compound: str, parts: list[Token], rules: WordRules) -> list[Token]:
    """Return the words that a compound is as a whole.

    A whole is rare, and its IDF high, so that it must be worth it: beside ``information`` and ``retrieval``,
    ``information-retrieval`` was measured to lose hits.
    """
    if not 1 < len(parts) <= MAX_PARTS:
        return []
    if _is_one_word(compound, parts, rules):
        return [_joined(compound, parts)]
    is_whole = rules.compounds == "all" or _is_identifier(compound)
    return [Token(compound, 0, len(compound))] if is_whole else []


def _is_identifier(compound: str) -> bool:
    """Return whether a compound is the name of something: by a digit, an underscore, a dot or camel case."""
    if not _has_letters_only(compound):
        return True
    return has_humps(compound)


def _is_one_word(compound: str, parts: list[Token], rules: WordRules) -> bool:
    """Return whether a compound is also written as one word: ``on-line``, ``e-mail``, ``re-use``, ``Node.js``."""
    if rules.compounds == "all" or len(parts) != 2 or "_" in compound:
        return False
    if is_spelt_as_one(compound):
        return True
    if "-" not in compound or _is_identifier(compound):
        return False
    return len(parts[0].text) <= MAX_PREFIX_LENGTH or is_stop_word(parts[0].text, rules.stop_words)


def _part_words(part: Token, split_camel_case: CamelCase) -> list[Token]:
    """Return a part, its letters and digits apart, and its humps."""
    if _number(part.text):
        return _versions(_without_v(part))
    of_humps = [_within(part, *hump) for hump in humps(part.text, split_camel_case)]
    if is_spelt(part.text) and not of_humps:
        return [part]
    if pieces := [_within(part, *piece) for piece in pieces_of(part.text)]:
        return [part, *(word for piece in pieces for word in _part_words(piece, split_camel_case=False))]
    words = [part, *_letters_and_digits(part)]
    words += [word for name in _groups(_NAME_OF_TWO, part) for word in _part_words(name, split_camel_case=False)]
    known = {word.text for word in words}
    in_humps = [word for hump in of_humps for word in _part_words(hump, split_camel_case=False)]
    return [*words, *(word for word in in_humps if word.text not in known)]


def _letters_and_digits(part: Token) -> list[Token]:
    """Return the letters and the digits of a part; of 50m2, m2 has both again."""
    groups = _groups(_LETTERS_AND_DIGITS, part)
    return [*groups, *(_groups(_LETTERS_AND_DIGITS, groups[-1]) if groups else ())]


def _within(part: Token, start: int, end: int) -> Token:
    return Token(part.text[start:end], part.start + start, part.start + end)


def _groups(pattern: re.Pattern[str], part: Token) -> list[Token]:
    """Return the groups of a part that a pattern matches."""
    match = pattern.fullmatch(part.text)
    if match is None:
        return []
    return [_within(part, *match.span(group)) for group in range(1, pattern.groups + 1) if match[group]]


def check_stem(name: str, stem: object) -> bool | str:
    """Return whether to stem English, or the name of another language of Snowball."""
    if isinstance(stem, bool):
        return stem
    languages = stemmed_languages()
    if not isinstance(stem, str) or stem not in languages:
        raise parameter_error(name, f"True, False or one of {', '.join(languages)}", stem)
    return stem == ENGLISH or as_str(stem)


def stemmed_languages() -> list[str]:
    """Return the names of the languages of Snowball."""
    languages: list[str] = _snowball().algorithms()
    return languages


def _snowball() -> Any:
    with require_extra("stemming needs PyStemmer: pip install PyStemmer"):
        import Stemmer
    return Stemmer


def stemmer_version() -> str | None:
    """Return the version of PyStemmer; None where it is not installed."""
    try:
        return str(_snowball().version())
    except MissingExtraError:
        return None


class _Stemmer(Protocol):
    def stemWord(self, word: str) -> str: ...  # noqa: N802


class Stemming:
    """Fold the case of words, and stem those of a language."""

    def __init__(self, *, stem: bool | str) -> None:
        self._language = ENGLISH if stem is True else stem
        self._stemmer: _Stemmer | None = None
        self._lock = RLock()  # a Snowball stemmer works in a buffer of its own; a signal handler may search, too

    def term(self, word: str) -> str:
        """Return the term of a word."""
        folded = word.casefold()
        if folded.isascii():
            return self._stem(folded)
        if self._language != ENGLISH:  # others know the accents of their letters
            return without_accents(self._stem(unicodedata.normalize("NFC", folded)))
        plain = without_accents(folded)
        return self._stem(plain) if plain.isascii() else plain

    def terms(self, word: str) -> tuple[str, ...]:
        """Return the term of a word; before it, that of the name in capitals that it is, which is not stemmed."""
        term = self.term(word)
        if is_small(word) or not self._language or not (name := name_in_capitals(word)):
            return (term,)
        return tuple(dict.fromkeys((without_accents(name.casefold()), term)))

    def _stem(self, word: str) -> str:
        if not self._language or len(word) < MIN_STEMMED_LENGTH or not is_spelt(word):
            return word
        with self._lock:
            if self._stemmer is None:
                self._stemmer = _snowball().Stemmer(self._language, 0)
            return self._stemmer.stemWord(word)


class RunMemo(dict[str, _T]):
    """Memo by run, of a bounded size."""

    def __missing__(self, run: str) -> _T:
        made = self.make(run)
        if len(run) <= MAX_TOKEN_LENGTH:  # longer ones are rare, and may be encoded files
            if len(self) >= MEMO_SIZE:
                self.clear()
            self[run] = made
        return made

    def make(self, run: str) -> _T:
        """Work out what is to be remembered."""
        raise NotImplementedError


class TermMemo(RunMemo[tuple[str, ...]]):
    """Memo of the terms of every run that is not Chinese, without those of dropped words, which are case-folded.

    Signs, as they stand between runs, have none.
    """

    def __init__(self, rules: WordRules, stemming: Stemming, dropped: Collection[str] | None = None) -> None:
        super().__init__()
        self.rules = rules
        self.stemming = stemming
        self._dropped = rules.stop_words if dropped is None else dropped

    def __missing__(self, run: str) -> tuple[str, ...]:
        """Return no terms of Chinese, which the segmenter cuts."""
        return () if is_segmented(run) else super().__missing__(run)

    def make(self, run: str) -> tuple[str, ...]:
        if is_sign(run):
            return ()
        if is_whole(run, self.rules):
            return self.terms_of(run)
        return tuple([term for word in words_of(run, self.rules) for term in self.terms_of(word.text)])

    def locate(self, run: str) -> list[Token]:
        """Return the terms of a run with their places."""
        words = words_of(run, self.rules)
        return [Token(term, start, end) for word, start, end in words for term in self.terms_of(word)]

    def terms_of(self, word: str) -> tuple[str, ...]:
        """Return the terms of a word, of which a name in capitals may have two; none if it is dropped or too long."""
        if is_stop_word(word, self._dropped):
            return ()
        terms = self.stemming.terms(word)
        return terms if len(terms[0]) <= MAX_TOKEN_LENGTH else ()
