"""The ruling lines of tables: where they part rows."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

THIN = 3.0  # points: what is higher is a box, with two edges
SHORT = 5.0  # points: shorter lines part nothing
GRID = 2.0  # points that parts of a line may be off
MOST = 0.5  # of a table: a line that parts its rows is not shorter
WHOLE = 0.75  # of the text: lines of a table as wide as the page
FAR = 150.0  # points: lines farther apart are of other tables
MIN_RULES = 3  # of a table as wide as the page


class Rule(NamedTuple):
    """A line across a page; of its parts, `width` is covered."""

    y: float
    x0: float
    x1: float
    width: float

    def covers(self, share: float, left: float, right: float) -> bool:
        """Whether it is at least so much of what is between two edges."""
        return min(self.width, min(self.x1, right) - max(self.x0, left)) > share * (right - left)


class Rules(NamedTuple):
    """The lines across a page, from its top to its bottom."""

    lines: tuple[Rule, ...] = ()

    @classmethod
    def of(cls, boxes: Iterable[tuple[float, float, float, float]]) -> Rules:
        """Take lines, and the edges of boxes, from their left, top, right and bottom."""
        parts = {
            (y, x0, x1)
            for x0, top, x1, bottom in boxes
            for y in ([(top + bottom) / 2] if bottom - top <= THIN else [top, bottom])
            if x1 - x0 > SHORT
        }
        return cls(tuple(_joined(sorted(parts))))

    def between_rows(self, left: float, right: float, top: float, bottom: float) -> list[float]:
        """Return where lines part the rows of a table."""
        place = attrgetter("y")
        inner = self.lines[bisect_right(self.lines, top, key=place) : bisect_left(self.lines, bottom, key=place)]
        return [line.y for line in inner if line.covers(MOST, left, right)]

    def tables(self, left: float, right: float) -> Iterator[tuple[float, float]]:
        """Yield where tables begin and end that are as wide as the text of a page."""
        places = [line.y for line in self.lines if line.covers(WHOLE, left, right)]
        starts = [0, *(at for at, (a, b) in enumerate(pairwise(places), 1) if b - a > FAR), len(places)]
        yield from ((places[a], places[b - 1]) for a, b in pairwise(starts) if b - a >= MIN_RULES)


def _joined(parts: Iterable[tuple[float, float, float]]) -> Iterator[Rule]:
    """Join the parts of lines that are at one height."""
    line: Rule | None = None
    for y, x0, x1 in parts:
        if line is None or y - line.y > GRID:
            yield from [line] if line else ()
            line = Rule(y, x0, x1, x1 - x0)
        else:
            covered = max(0.0, min(x1, line.x1) - max(x0, line.x0))
            line = Rule(line.y, min(x0, line.x0), max(x1, line.x1), line.width + x1 - x0 - covered)
    yield from [line] if line else ()
