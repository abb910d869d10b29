"""Stretches of a text between blanks and Chinese, beyond which no run of another script goes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rag_bm25.analysis.runs import HAN, holds_han

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from collections.abc import Set as AbstractSet

_BETWEEN_HAN = re.compile(rf"[^\s{HAN}]+")
_BORDER = re.compile(rf"[\s{HAN}]")
_NEXT = re.compile(rf"\s+([^\s{HAN}]+)")


def find_stretches(text: str) -> set[str]:
    """Return the different stretches."""
    return set(text.split() if text.isascii() or not holds_han(text) else _BETWEEN_HAN.findall(text))


def places_of(text: str, stretch: str) -> Iterator[int]:
    """Yield where a stretch begins in a text; as a part of another one, which is left at once, it is none."""
    at = text.find(stretch)
    while at >= 0:
        border = _BORDER.search(text, at + len(stretch))
        end = border.start() if border else len(text)
        if end == at + len(stretch) and (at == 0 or _BORDER.match(text, at - 1)):
            yield at
        at = text.find(stretch, end)


def match_next(text: str, end: int) -> re.Match[str] | None:
    """Match the blanks at the end of a stretch with the stretch after them, the group."""
    return _NEXT.match(text, end)


class Holders:
    """The stretches of texts that hold something wanted; each is examined once."""

    def __init__(self, wanted: AbstractSet[str], held: Mapping[str, tuple[str, ...]]) -> None:
        self._wanted = wanted
        self._held = held  # by each stretch
        self._examined: set[str] = set()
        self._found: set[str] = set()

    def among(self, stretches: set[str]) -> set[str]:
        held, wanted = self._held, self._wanted
        new = stretches - self._examined
        self._found.update([stretch for stretch in new if not wanted.isdisjoint(held[stretch])])
        self._examined |= new  # after those found, for other threads
        return self._found & stretches
