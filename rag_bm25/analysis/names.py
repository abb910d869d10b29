"""Names that are joined by a sign, or without one: R&D, B-12 and B12, Node.js and nodejs, 10x20mm, .NET."""

from __future__ import annotations

import re

_SPELT_AS_ONE = re.compile(
    r"""[^\W\d_]-\d{1,4} | \d{1,4}-[^\W\d_] | [^\W\d_]\.\d{1,4}  # B-12, 3-D, H.264
    | [A-Z][A-Za-z]{0,4}\.[A-Z] | [A-Z]\.[A-Z][A-Za-z]{1,4}  # Ph.D, B.Sc; a.b is mostly code
    | (?:ph|ed|ll|psy)\.[dbm] | [bmd]\.(?:sc|com|ed|eng|phil|tech)
    | [^\W_]+\.(?:[Jj][Ss]|[Nn][Ee][Tt])""",
    re.VERBOSE,
)
_SIZE = re.compile(r"(?!0[xX]\d)[^\W\d_]{0,2}\d[\d.]*(?:[xX]\d[\d.]*)+[^\W\d_]{0,3}")  # M8x30, but not 0x17
_TIMES = r"(?<=\d)[xX](?=\d)"
_PIECES = re.compile(rf"{_TIMES}|(?:(?!{_TIMES})[^&])+")


def is_spelt_as_one(compound: str) -> bool:
    """Return whether a compound of two parts is a name that is often written as one word."""
    return _SPELT_AS_ONE.fullmatch(compound) is not None


def pieces_of(name: str) -> list[tuple[int, int]]:
    """Return where the numbers and signs of a size are, or the letters that an ampersand joins; else none."""
    if "&" not in name and ("x" not in name.lower() or _SIZE.fullmatch(name) is None):
        return []
    return [piece.span() for piece in _PIECES.finditer(name)]
