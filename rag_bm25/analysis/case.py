"""Settle what capitals mean, so that a stop word in capitals is a name wherever it stands.

``A`` and ``I`` stay in capitals where they are names, and ``May`` and ``Will`` become capitals where they are. A text
keeps its length.
"""

from __future__ import annotations

import re

# A pattern for each word: those that begin with a letter are searched for in a fourth of the time of one for all.
_AMBIGUOUS = (
    re.compile(r"A(?<![\w.'\-]A)(?=\s+[\"'(]?[A-Za-z0-9])"),
    re.compile(r"I(?<![\w.'\-]I)(?![\w'\-/&])"),
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
