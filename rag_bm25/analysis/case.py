"""Settle what capitals mean, so that a stop word in capitals is a name wherever it stands.

``A`` and ``I`` stay in capitals where they are names, and ``May`` and ``Will`` become capitals where they are. A text
keeps its length.
"""

from __future__ import annotations

import re

_AMBIGUOUS = re.compile(
    r"A(?<![\w.'\-]A)(?=\s+[\"'(]?[A-Za-z0-9])|I(?<![\w.'\-]I)(?![\w'\-/&])|(?:May|Will|Can|Must)(?![\w'])"
)
_BEFORE = 40  # characters that are looked at
_IN_SENTENCE = re.compile(r"(?<!\w)[a-z0-9]\w*[,)]?[ \-]$")
_SECOND = re.compile(r"(?:^|[.!?;:\n]\s?)\w+ $")  # word of its sentence, as in "Vitamin A is"
_NUMBERED = re.compile(r"(?<!\w)(?:class|complex|factor|grade|group|level|part|phase|stage|type)s? $", re.IGNORECASE)
_IN_CAPITALS = re.compile(r"[A-Z0-9',\-]+(?: [A-Z0-9',\-]+){2,}[.!?]*")


def settle_case(text: str) -> str:
    """Return a normalised text with names in capitals, and other stop words in small letters.

    >>> settle_case("A lack of vitamin A in May may be what I mean")
    'a lack of vitamin A in MAY may be what i mean'
    """
    return _AMBIGUOUS.sub(_settled, text)


def _settled(match: re.Match[str]) -> str:
    word, at = match[0], match.start()
    before = match.string[max(0, at - _BEFORE) : at]
    if word == "I":
        return word if _NUMBERED.search(before) else "i"
    if _IN_SENTENCE.search(before):
        return word.upper()
    return "a" if word == "A" and not _SECOND.search(before) else word


def settle_capitals(query: str) -> str:
    """Return a query in small letters if all of it is in capitals, which then tell no names."""
    return query.lower() if _IN_CAPITALS.fullmatch(query) else query
