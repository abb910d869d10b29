"""What only repeats the text of a PDF: its running headers and footers, and its contents."""

from __future__ import annotations

import re
from collections import Counter
from itertools import chain, pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

EDGE = 2  # lines at the top and at the bottom of a page, where running lines are
MIN_PAGES = 3  # that have a running line
_NUMBER = re.compile(r"\d{1,6}")
_DOTS = re.compile(r" ?(?:(?:[.\u00b7\u2024\uff0e] ?){5,}|(?:[\u2025\u2026] ?){3,})")  # two are an ellipsis
_LEADERS = re.compile(rf"(?:{_DOTS.pattern})\s*(?:(\d{{1,6}})(?!\.?\d)|[ivxlc]+\b)")


def drop_repeated(pages: Sequence[Sequence[str]]) -> list[list[str]]:
    """Leave out the lines of pages that repeat what others say."""
    return _drop_contents(_drop_running_lines(pages))


def _drop_running_lines(pages: Sequence[Sequence[str]]) -> list[list[str]]:
    """Leave out what a third of the pages begin or end with, and what comes with the number of the page on a few."""
    keys = [_edge_keys(lines, page) for page, lines in enumerate(pages)]
    seen = Counter(key for found in keys for key in set(chain.from_iterable(found.values())))
    running = {key for key, count in seen.items() if count >= max(MIN_PAGES, len(pages) / 3 if len(key) == 2 else 0)}
    for at, found in keys[0].items() if keys else ():  # the title may run on top of the pages after the first
        keys[0][at] = [key for key in found if key != ("top", pages[0][at])]
    kept = [
        [line for at, line in enumerate(lines) if running.isdisjoint(found.get(at, ()))]
        for lines, found in zip(pages, keys, strict=True)
    ]
    return [new if any(new) else list(old) for new, old in zip(kept, pages, strict=True)]


def _edge_keys(lines: Sequence[str], page: int) -> dict[int, list[tuple[str | int, ...]]]:
    """Return what tells the lines at the top and at the bottom, by their places."""
    filled = [at for at, line in enumerate(lines) if line]
    keys: dict[int, list[tuple[str | int, ...]]] = {}
    for side, places in (("top", filled[:EDGE]), ("bottom", filled[-EDGE:])):
        for at in places:
            keys.setdefault(at, []).extend(_keys(side, lines[at], page))
    return keys


def _keys(side: str, line: str, page: int) -> Iterator[tuple[str | int, ...]]:
    """Yield a line, and the line with each of its numbers in turn as its distance from that of the page."""
    yield side, line
    for match in _NUMBER.finditer(line):
        yield side, line[: match.start()], int(match[0]) - page, line[match.end() :]


def _drop_contents(pages: Sequence[Sequence[str]]) -> list[list[str]]:
    """Leave out lines with dot leaders to a page, all of whose words are elsewhere; shorten the dots of others."""
    lines = list(chain.from_iterable(pages))
    dotted = {line for line in lines if _LEADERS.search(line)}
    words = set(_units("\n".join(line for line in lines if line not in dotted))) if dotted else set()
    shown = {line: _DOTS.sub(" … ", line).strip() for line in dotted if not _repeats(line, words, len(pages))}
    return [[shown.get(line, line) for line in lines if line in shown or line not in dotted] for lines in pages]


def _repeats(line: str, words: set[str], pages: int) -> bool:
    labels = [int(label or 0) for label in _LEADERS.findall(line)]
    return max(labels) <= pages and words.issuperset(_units(_LEADERS.sub(" ", line)))


def _units(text: str) -> Iterator[str]:
    """Yield numbers and words; of words that are not ASCII, pairs of characters."""
    for word in re.findall(r"\d+|[^\W\d_]+", text.casefold()):
        yield from [word] if word.isascii() else map("".join, pairwise(word))
