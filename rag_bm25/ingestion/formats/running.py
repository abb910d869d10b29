"""Find what pages repeat: running heads and feet, numbers of pages and lines, and contents."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from rag_bm25.ingestion.documents import CONTENTS, NUMBERS, RUNNING
from rag_bm25.ingestion.formats.layout import Span, numbered, text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rag_bm25.ingestion.formats.layout import Page, Row

MARGIN = 0.12  # of the height of a page, where running lines are
MIN_PAGES = 3  # that have a running line
APART = 1.8  # em between a running line and the body
SAME_PLACE = 4  # points between running lines of pages
LARGE = 1.3  # times the size of most text: a title, and no running line
FIFTH = 5  # one row of so many may stick out of the body
MOST = 0.7  # of the pages count in the numbers of a line
_NUMBER = re.compile(r"\d{1,6}")
_LABEL = re.compile(r"[\W\d_]*(?:(?:page|seite|p|of|von|第|共|页|頁|[ivxl])[\W\d_]*)*", re.IGNORECASE)
_DOTS = re.compile(r" ?(?:(?:[.\u00b7\u2024\uff0e] ?){5,}|(?:[\u2025\u2026] ?){3,})")  # two are an ellipsis
_LEADERS = re.compile(rf"(?:{_DOTS.pattern})\s*(?:(\d{{1,6}})(?!\.?\d)|[ivxlc]+\b)")


class _Line(NamedTuple):
    """Text in the margin of a page."""

    page: int
    span: Span


def drop_running(pages: Sequence[Page]) -> Counter[str]:
    """Leave out what many pages have at one place in their margins, but for the first; return how much of each kind."""
    unwanted: list[set[Span]] = [set() for _ in pages]
    sizes = [sum(map(len, page.rows)) for page in pages]
    left_out: Counter[str] = Counter()
    for page in pages:
        for row in numbered(page.rows):
            left_out["line numbers"] += len(row.pop(0).text)
        page.rows = [row for row in page.rows if row]
    for kind, lines in _running(pages):
        for line in lines:
            if sizes[line.page] > len(unwanted[line.page]) + 1:  # else nothing would be left
                unwanted[line.page].add(line.span)
                left_out[kind] += len(line.span.text)
    for page, spans in zip(pages, unwanted, strict=True):
        if spans:
            page.rows, page.aside = _without(page.rows, spans), _without(page.aside, spans)
    return left_out


def _running(pages: Sequence[Page]) -> Iterator[tuple[str, list[_Line]]]:
    """Yield the lines to be left out, and of which kind they are."""
    places: dict[tuple[str, str], list[_Line]] = {}
    largest = LARGE * _median_size(pages)
    for number, page in enumerate(pages):
        for place, span in _in_margins(page):
            if span.size <= largest or place == "side":
                words = _NUMBER.sub("0", "".join(span.text.split()))
                places.setdefault((place, words), []).append(_Line(number, span))
    for (place, words), found in places.items():
        lines = _at_one_place(found)
        is_label = bool(_LABEL.fullmatch(words))
        least = MIN_PAGES if is_label else max(MIN_PAGES, len(pages) / 3)
        is_cell = is_label and "0" in words and place in {"top", "bottom"}  # a number that does not count
        if len({line.page for line in lines}) >= least and (_counts(lines) or (_are_same(lines) and not is_cell)):
            yield (NUMBERS, lines) if is_label else (RUNNING, lines[1:])


def _median_size(pages: Sequence[Page]) -> float:
    return median([span.size for page in pages for row in page.rows for span in row] or [1.0])


def _without(rows: Iterable[Row], unwanted: set[Span]) -> list[Row]:
    kept = ([span for span in row if span not in unwanted] for row in rows)
    return [row for row in kept if row]


def _in_margins(page: Page) -> Iterator[tuple[str, Span]]:
    """Yield the text in the margins that is apart from the body, and no title; and in which margin it is."""
    yield from (("aside", span) for row in page.aside for span in row)
    if not page.rows:
        return
    heads = [row for row in page.rows if row[0].y < MARGIN * page.height]
    feet = [row for row in page.rows if row[0].y > (1 - MARGIN) * page.height]
    heads = heads[: _num_apart(heads, page.rows[len(heads) :])]
    feet = feet[len(feet) - _num_apart(feet[::-1], page.rows[: len(page.rows) - len(feet)][::-1]) :]
    for place, rows in (("top", heads), ("bottom", feet)):
        yield from ((place, span) for row in rows for span in row)
    left, right = _sides(page.rows)
    body = page.rows[len(heads) : len(page.rows) - len(feet)]
    for row in body:
        yield from (("side", span) for span in row if (span.x1 < left or span.x0 > right) and _is_off_line(span, row))


def _is_off_line(span: Span, row: Row) -> bool:
    """Whether text is on no line of the others, as a cell of a table is."""
    return all(each is span or abs(each.y - span.y) > 1 for each in row)


def _sides(rows: Sequence[Row]) -> tuple[float, float]:
    """Return the left and the right edge of most rows."""
    starts, ends = sorted(row[0].x0 for row in rows), sorted(row[-1].x1 for row in rows)
    return starts[len(rows) // FIFTH], ends[-1 - len(rows) // FIFTH]


def _num_apart(rows: Sequence[Row], body: Sequence[Row]) -> int:
    """Return how many rows are between the edge of a page and the last gap before the body."""
    if not body:
        return len(rows)
    steps = enumerate(pairwise([*rows, body[0]]), 1)
    return max((at for at, (row, after) in steps if _are_apart(row[0], after[0])), default=0)


def _are_apart(a: Span, b: Span) -> bool:
    return abs(a.y - b.y) > APART * max(a.size, b.size)


def _at_one_place(lines: Sequence[_Line]) -> list[_Line]:
    place = median(line.span.y for line in lines)
    return [line for line in lines if abs(line.span.y - place) <= SAME_PLACE]


def _counts(lines: Sequence[_Line]) -> bool:
    """Whether a number in the lines counts with their pages."""
    steps: Counter[tuple[int, int]] = Counter()
    for line in lines:
        steps.update((at, int(each) - line.page) for at, each in enumerate(_NUMBER.findall(line.span.text)))
    return bool(steps) and steps.most_common(1)[0][1] > MOST * len(lines)


def _are_same(lines: Sequence[_Line]) -> bool:
    return len({line.span.text for line in lines}) < len(lines) / 2


def drop_contents(pages: Sequence[Page]) -> Counter[str]:
    """Leave out lines with dot leaders to a page, all of whose words are elsewhere; shorten the dots of others."""
    lines = [text_of(row) for page in pages for row in page.rows]
    dotted = {line for line in lines if _LEADERS.search(line)}
    if not dotted:
        return Counter()
    words = set(_units("\n".join(line for line in lines if line not in dotted)))
    repeated = {line for line in dotted if _repeats(line, words, len(pages))}
    for page in pages:
        rows = ((row, text_of(row)) for row in page.rows)
        page.rows = [_shortened(row) if text in dotted else row for row, text in rows if text not in repeated]
    return Counter({CONTENTS: sum(len(line) for line in lines if line in repeated)} if repeated else {})


def _shortened(row: Row) -> Row:
    return [row[0]._replace(x1=row[-1].x1, text=_DOTS.sub(" … ", text_of(row)).strip())]


def _repeats(line: str, words: set[str], pages: int) -> bool:
    labels = [int(label or 0) for label in _LEADERS.findall(line)]
    return max(labels) <= pages and words.issuperset(_units(_LEADERS.sub(" ", line)))


def _units(text: str) -> Iterator[str]:
    """Yield numbers and words; of words that are not ASCII, pairs of characters."""
    for word in re.findall(r"\d+|[^\W\d_]+", text.casefold()):
        yield from [word] if word.isascii() else map("".join, pairwise(word))
