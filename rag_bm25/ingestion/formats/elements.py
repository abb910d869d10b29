"""The tables and lists of HTML."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rag_bm25.ingestion.formats.building import TextBuilder
from rag_bm25.ingestion.formats.numbering import spell

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_ROWS, MAX_COLUMNS = 65_534, 1_000  # that cells span, as in browsers
FORMS = {"a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}


def _number(given: Mapping[str, str], name: str, default: int) -> int:
    match = re.match(r"\s*([+-]?[0-9]{1,9})", given.get(name, ""))
    return int(match[1]) if match else default


class Table:
    """A table of data, row by row; or of the parts of a page, whose cells are paragraphs."""

    def __init__(self, *, is_data: bool = True) -> None:
        self.is_data = is_data
        self.has_text = False
        self.cell: TextBuilder | None = None  # the one that is open
        self._has_blocks = False
        self._rows = self._columns = 0
        self._span = 1, 1
        self._row: list[tuple[str, int, int]] = []
        self._below: dict[int, tuple[str, int, int]] = {}  # by column: a cell that goes on, and for how many rows

    @property
    def has_data(self) -> bool:
        """Whether a row is a line: a box around paragraphs is none."""
        return self.is_data and (not self._has_blocks or (self._rows > 1 and self._columns > 1))

    def hold(self, *, is_part: bool, is_block: bool) -> None:
        """Learn of an element within the table."""
        self._has_blocks |= is_block and self.cell is not None
        if is_part:
            self.is_data, self.cell = False, None

    def begin_cell(self, given: Mapping[str, str]) -> None:
        """Begin a cell."""
        self.end_cell()
        rows, columns = _number(given, "rowspan", 1) or MAX_ROWS, _number(given, "colspan", 1)
        self.cell, self._span = TextBuilder(), (min(rows, MAX_ROWS), min(max(1, columns), MAX_COLUMNS))

    def end_cell(self) -> None:
        """End the cell that is open."""
        if self.cell is not None:
            self._row.append((self.cell.build().text, *self._span))
        self.cell = None

    def end_row(self) -> list[str]:
        """Return the cells of the row: one of several rows is in each, one of several columns in the first."""
        self.end_cell()
        row, self._row = self._row[::-1], []
        if not row:
            return []
        below, self._below = self._below, {}
        cells: list[str] = []
        while row or len(cells) <= max(below, default=-1):
            at = len(cells)
            text, rows, columns = below.get(at) or (row.pop() if row else ("", 1, 1))
            cells += [text, *[""] * (columns - 1 if at < MAX_COLUMNS else 0)]
            if rows > 1:
                last = min(len(cells), MAX_COLUMNS)
                self._below |= {column: (cells[column], rows - 1, 1) for column in range(at, last)}
        self._rows += 1
        self._columns = max(self._columns, len(cells))
        return cells


class List:
    """A list, and the number of its next item."""

    def __init__(self, given: Mapping[str, str], items: int, *, is_ordered: bool) -> None:
        self.items = 0
        self._form = FORMS.get(given.get("type", ""), "decimal") if is_ordered else ""
        self._step = -1 if "reversed" in given else 1
        self._next = _number(given, "start", items if self._step < 0 else 1)

    def next_mark(self, given: Mapping[str, str]) -> str:
        """Return what stands before the next item."""
        number = _number(given, "value", self._next)
        self._next = number + self._step
        return f"{spell(number, self._form)}. " if self._form else "- "
