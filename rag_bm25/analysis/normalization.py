"""Normalise text: compatibility forms, invisible characters, script variants, and the case of what may be a name.

A stop word in capitals is a name wherever it stands: ``A`` and ``I`` stay in capitals where they are names, and ``May``
and ``Will`` become capitals where they are. Settling the case keeps the length of a text.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from functools import cache
from importlib.resources import files
from itertools import islice
from typing import TYPE_CHECKING

from rag_bm25.analysis.runs import WIDE_COMMA, points_in
from rag_bm25.scripts import IDEOGRAPHS, KANA, MARKS

if TYPE_CHECKING:
    from collections.abc import Mapping

# Soft hyphen, grapheme joiner, Arabic letter mark, Mongolian separators, zero-width and bidi marks, invisible
# operators, variation selectors, byte order mark: invisible, and common in text copied from PDF and web pages.
_IGNORED = (
    "\u00ad\u034f\u061c\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufe00-\ufe0f\ufeff"
    "\U000e0100-\U000e01ef"
)
# Points of Hebrew and Arabic, which are seldom written, and the line that only makes an Arabic word longer.
_POINTS = (
    "\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8"
    "\u06ea-\u06ed\u0898-\u089f\u08ca-\u08e1\u08e3-\u08ff"
)
_QUOTES = "\u2018\u2019\u201b\u02bb\u02bc"
_HYPHENS = "\u2010\u2011\u2012\u2013\u2212"

# Characters that normalising keeps, or turns from one separator into another: most Chinese texts have no others.
_PLAIN = (
    "\x00-\x7f\u00a0\u00b7\u00c0-\u00d6\u00d8-\u00ff\u2002-\u200a\u2014\u201c\u201d\u2026\u3000-\u3003\u3007-\u3011\u3014\u3015"
    "\u3041-\u3096\u30a1-\u30fe\uac00-\ud7a3\uff01\uff05\uff08\uff09\uff0c\uff1a\uff1b\uff1f"
)
# Circled numbers, and after a digit those above and below the line, and fractions, are none of its number.
_CIRCLED = "\u2460-\u2473\u24ea-\u24ff\u2776-\u2793\u3251-\u325f\u32b1-\u32bf"
_SMALL = "\u00aa\u00ba\u00b2\u00b3\u00b9\u00bc-\u00be\u2070\u2074-\u2079\u2080-\u2089\u2150-\u215e\u2189"
_APART = re.compile(rf"[{_CIRCLED}{_SMALL}](?:(?<=[{_CIRCLED}])|(?<=\d.)[{_SMALL}]*)")
# Letters of their own by NFKC: signs of trade marks, which are none, abbreviations, and what stands in a circle or box.
_LETTERLIKE = "\u2100\u2101\u2105\u2106\u2116\u2121\u213b\u33c2\u33c7\u33d8\u249c-\u24e9\U0001f110-\U0001f14f\U0001f190"
_BORDERS = re.compile(f"[{_LETTERLIKE}]+")
_NO_NFKC = {  # signs whose NFKC form would be a part of the word beside them
    **dict.fromkeys(map(ord, "\u2122\u2120\U0001f16a\U0001f16b\U0001f16c"), " "),
    ord("\u00d7"): " x ",
}
_ELLIPSIS = "\u2026"  # the only one that becomes several
MANY_PARTS = 30  # to be normalised: all at once takes less time
_SEGMENTED = range(0x4E00, 0xA000)

# Characters that may join the one before them: marks, vowels and finals of hangul, half-width signs, and what goes.
_JOINING = (
    f"{MARKS}{_IGNORED}{_POINTS}\u1161-\u11ff\u3131-\u318f\uff9e-\uffdc\U00010000-\U0001d3ff\U0001d800-\U0001efff"
)
_OF_LENGTH_1 = (  # starters that become one character
    "\x00-\x7f\u00c0-\u00d6\u00d8-\u00ff\u0400-\u0482\u2018-\u201f\u3000-\u3029\u3041-\u3096\u30a1-\u30fe\u4e00-\u9fff"
    "\uac00-\ud7a3\uff01-\uff5e"
)
# A line break within a paragraph, with the blanks around it.
_UNSPACED = IDEOGRAPHS + KANA.chars.replace("\u3099\u309a", "")
_BREAK = re.compile(rf"(?<=[{_UNSPACED}])[^\S\n]*\n[^\S\n]*(?=[{_UNSPACED}])")
_MAY_JOIN = re.compile(rf"\n(?<=[\s{_UNSPACED}]\n)(?<!\n\n)[^\S\n]*[{_UNSPACED}]")  # is found ten times as fast
_SAME_PLACES = re.compile(f"[{_OF_LENGTH_1}]*")
_JOINS = rf"(?:[{_JOINING}]|(?<=\d)[{_SMALL}]+)"
_CLUSTERS = re.compile(f"(?P<same>[{_OF_LENGTH_1}]+(?!{_JOINS}))|[{_LETTERLIKE}]+|.{_JOINS}*", re.DOTALL)

# A pattern for each word: those that begin with a letter are searched for in a fourth of the time of one for all.
_AMBIGUOUS = (
    re.compile(r"A(?<![\w.'\-&]A)(?=\s+[\"'(]?[A-Za-z0-9])"),
    re.compile(r"I(?<![\w.'\-&]I)(?![\w'\-/&])"),
    re.compile(r"May(?![\w'])"),
    re.compile(r"Will(?![\w'])"),
)
_WITHIN_SENTENCE = re.compile(r"(?<!\w)[a-z]\w*[,)]?[ \-]$")
_SECOND = re.compile(r"(?:^|[.!?;:\n])\s?\w+ $")  # word of its sentence, as in "Vitamin A is"
_AT_START = re.compile(r"(?:^|[.!?;:\n])\s?$")
_NUMBERED = re.compile(r"(?<!\w)(?:class|complex|factor|grade|group|level|part|phase|stage|type)s? $", re.IGNORECASE)
_SURNAME = re.compile(r" [A-Z][a-z]")
_IN_CAPITALS = re.compile(r"[A-Z0-9',\-]+(?: [A-Z0-9',\-]+){2,}[.!?]*")
_BEFORE = 40  # characters that are looked at


def is_plain(text: str, *, simplify: bool = True) -> bool:
    """Return whether normalising cannot change the tokens, in a tenth of the time that it takes."""
    return text.isascii() or _not_plain(simplify).search(text) is None


def plain_form(text: str, *, simplify: bool = True) -> str:
    """Return a text with the tokens, and the length, of the normalised one; plain parts stay as they are."""
    if is_plain(text, simplify=simplify):
        return text
    others = list(islice(_not_plain(simplify).finditer(text), MANY_PARTS))
    if len(others) == MANY_PARTS:
        return normalize(text, simplify=simplify)
    pieces: list[str] = []
    at = 0
    for part in others:
        start = max(at, part.start() - 1)  # with the character that it may join
        pieces += text[at:start], normalize(text[start : part.end()], simplify=simplify)
        at = part.end()
    return "".join([*pieces, text[at:]]).replace(_ELLIPSIS, "...")


def normalize(text: str, *, simplify: bool = True) -> str:
    """Convert a text to NFKC without invisible characters, with one apostrophe and one hyphen.

    Letter case stays, and so do full-width commas, which seldom separate thousands.
    """
    if text.isascii():
        return text
    apart = _BORDERS.sub(r" \g<0> ", _APART.sub(r" \g<0> ", text.translate(_NO_NFKC)))
    clauses = [unicodedata.normalize("NFKC", clause) for clause in apart.split(WIDE_COMMA)]
    replaced = WIDE_COMMA.join(clauses).translate(_replacements(simplify))
    return unicodedata.normalize("NFC", replaced)  # an invisible character may have stood before an accent


def join_lines(text: str) -> str:
    """Leave out each line break between two ideographs or kana of a normalised text: no space would be there."""
    if text.isascii() or _MAY_JOIN.search(text) is None:
        return text
    return _BREAK.sub("", text)


def settle_case(text: str) -> str:
    """Return a normalised text with names in capitals, and other stop words in small letters."""
    for word in _AMBIGUOUS:
        text = word.sub(_settled, text)
    return text


def _settled(match: re.Match[str]) -> str:
    word = match[0]
    if word == "I":
        return word if _follows(_NUMBERED, match) else "i"
    if _follows(_WITHIN_SENTENCE, match):
        return word.upper()
    if word == "A":
        return word if _follows(_SECOND, match) else "a"
    is_first_name = _SURNAME.match(match.string, match.end()) and _follows(_AT_START, match)
    return word.upper() if is_first_name else word


def _follows(before: re.Pattern[str], match: re.Match[str]) -> bool:
    return before.search(match.string, max(0, match.start() - _BEFORE), match.start()) is not None


def settle_capitals(query: str) -> str:
    """Return a query in small letters if all of it is in capitals, which then tell no names."""
    return query.lower() if _IN_CAPITALS.fullmatch(query) else query


def keeps_places(text: str) -> bool:
    """Return whether each character of a text becomes one character, and none is left out."""
    return _SAME_PLACES.fullmatch(text) is not None and join_lines(text) is text


class Origins:
    """The places of a text that its normalised form, of which lines are joined, comes from.

    Normalising maps each character alone, with the accents and syllable parts after it: such a cluster is the origin of
    all that it becomes.
    """

    def __init__(self, text: str, *, simplify: bool = True) -> None:
        self._starts: list[int] = []  # of each cluster, or of clusters that keep their length
        self._origins: list[int] = []
        self._keeps_length: list[bool] = []
        forms: list[str] = []
        at = 0
        for match in _CLUSTERS.finditer(text):
            self._starts.append(at)
            self._origins.append(match.start())
            self._keeps_length.append(match.lastgroup is not None)
            forms.append(normalize(match[0], simplify=simplify))
            at += len(forms[-1])
        self._origins.append(len(text))
        gone = {place for match in _BREAK.finditer("".join(forms)) for place in range(*match.span())}
        self._unjoined = [place for place in range(at) if place not in gone]  # before lines are joined

    def of(self, start: int, end: int) -> tuple[int, int]:
        """Return the place that a place of that form comes from."""
        start, end = self._unjoined[start], self._unjoined[end - 1] + 1
        first, last = bisect_right(self._starts, start) - 1, bisect_right(self._starts, end - 1) - 1
        origin, until = self._origins[first], self._origins[last + 1]
        if self._keeps_length[first]:
            origin += start - self._starts[first]
        if self._keeps_length[last]:
            until = self._origins[last] + end - self._starts[last]
        return origin, until


@cache
def _replacements(simplify: bool) -> Mapping[int, str | None]:
    """Return the replacement of each character, for ``str.translate``."""
    simplified = _table("t2s.txt") if simplify else {}
    radicals = {old: simplified.get(ord(new), new) for old, new in _table("radicals.txt").items()}
    table: dict[int, str | None] = {**simplified, **radicals}
    table |= dict.fromkeys(map(ord, _QUOTES), "'")
    table |= dict.fromkeys(map(ord, _HYPHENS), "-")
    table |= dict.fromkeys(points_in(_IGNORED + _POINTS))
    table |= {point: f"{unicodedata.numeric(chr(point)):.0f}" for point in points_in(_CIRCLED)}  # NFKC keeps black ones
    return table


@cache
def _not_plain(simplify: bool) -> re.Pattern[str]:
    """Return the pattern of characters that need normalising."""
    kept = "".join(map(chr, _kept_ideographs(simplify)))
    return re.compile(f"[^{_PLAIN}{kept}]+")


def _kept_ideographs(simplify: bool) -> list[int]:
    return [point for point in _SEGMENTED if point not in _replacements(simplify)]


def _table(name: str) -> dict[int, str]:
    """Read a table of characters that a script writes: scripts/make_t2s_table.py or scripts/make_radicals_table.py."""
    data = files("rag_bm25.analysis").joinpath("data").joinpath(name).read_text(encoding="utf-8")
    old, new = data.splitlines()
    return dict(zip(map(ord, old), new, strict=True))
