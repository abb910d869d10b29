"""Extract the text of XLSX: each sheet under its name, a row a line, each table with a header of its own."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from functools import cached_property
from itertools import chain, pairwise, repeat
from typing import TYPE_CHECKING, Any

from rag_bm25.ingestion.documents import HIDDEN
from rag_bm25.ingestion.formats.archives import open_archive
from rag_bm25.ingestion.formats.building import TextBuilder
from rag_bm25.ingestion.formats.properties import comments, core_title, write_comments

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import BinaryIO

    from rag_bm25.ingestion.documents import Document

_HIDDEN = re.compile(rb'<(?:\w+:)?(?:row|col)\b(?=[^>]*\bhidden="(?:1|true)")([^>]*)>')
_PLACE = re.compile(rb'\b(r|min|max)="(\d{1,7})"')
_LITERAL = re.compile(r'\[\$([^\]-]*)[^\]]*\]|\[[^\]]*\]|[_*].|["\\]')  # in a format; the first is a currency
_NUMBER = re.compile(r"(?!.*E[+-])([^0#?/]*?)(#,##)?(0+)(?:\.(0+))?(,*)(%?)([^0#?/]*)")
_UNCOMPUTED = re.compile(
    rb"(?:</(?:\w+:)?f>|<(?:\w+:)?f\b[^>]*/>)\s*(?:<(?:\w+:)?v\s*/>|<(?:\w+:)?v>\s*</(?:\w+:)?v>)?\s*</(?:\w+:)?c>"
)
_NAME = re.compile(r"[^\d]*|.*[^\W\d_].*|(?:19|20)\d\d", re.DOTALL)  # in a header: a text or a year
MAX_FULL = 1e21  # as in JSON of browsers: whole numbers below are written in full


def extract(file: BinaryIO, *, hidden: bool, **_options: object) -> Document:
    """Extract the text of a file: the values of formulas as they were last computed, or else the formulas."""
    builder = TextBuilder(hidden=hidden)
    with open_archive(file) as archive:
        title, texts = core_title(archive), comments(archive, builder)
    values, formulas = _Book(file, data_only=True), _Book(file, data_only=False)
    for sheet in values.book.worksheets:
        is_read = hidden or sheet.sheet_state == "visible"
        written = builder if is_read else TextBuilder(hidden=True)
        written.heading(1, sheet.title)
        _write_tables(written, _rows(sheet, formulas, written))
        if not is_read:
            builder.left_out[HIDDEN] += written.size
    write_comments(builder, texts, hidden=hidden)
    return builder.build(title)


class _Book:
    """A workbook, which is opened when it is first asked for."""

    def __init__(self, file: BinaryIO, *, data_only: bool) -> None:
        self._file, self._data_only = file, data_only

    @cached_property
    def book(self) -> Any:
        """The workbook."""
        import openpyxl

        return openpyxl.load_workbook(self._file, read_only=True, data_only=self._data_only)


def _write_tables(builder: TextBuilder, rows: Iterable[Sequence[str]]) -> None:
    """Write rows; after a blank one or a title, a header begins a table of its own."""
    width, gap = 0, 2  # newlines before what stands apart; 0 within a table
    for cells, following in pairwise(chain(rows, [()])):
        if not cells:
            gap = 2
        elif gap and _is_title(cells, following):
            builder.new_line(gap)
            builder.row([" ".join(_texts(cells))])
            width, gap = 0, 1
        else:
            if gap and (not width or _is_header(cells)):
                builder.new_line(gap)
                width = 0
            width = width or (len(cells) if len(cells) > 1 else 0)
            builder.row([*cells, *repeat("", width - len(cells))])
            gap = 0


def _is_title(cells: Sequence[str], following: Sequence[str]) -> bool:
    """Return whether a row is a title or a note: a cell that stands alone, or one or two above a wider header."""
    size, wider = len(_texts(cells)), len(_texts(following))
    return (size == 1 and wider <= 1) or (size <= 2 and wider >= 2 * size and _is_header(following))


def _is_header(cells: Sequence[str]) -> bool:
    texts = _texts(cells)
    return len(texts) > 1 and all(map(_NAME.fullmatch, texts))


def _texts(cells: Sequence[str]) -> list[str]:
    return [cell.strip() for cell in cells if cell.strip()]


def _rows(sheet: Any, formulas: _Book, builder: TextBuilder) -> Iterator[list[str]]:
    """Yield the cells of each row as they are shown, up to the last with a text; hidden ones are counted."""
    with sheet._get_source() as file:  # noqa: SLF001
        source = file.read()
    rows, columns = (set(), set()) if builder.hidden else _hidden(source)
    sheet.reset_dimensions()  # as a program may have written them wrongly
    for number, row in enumerate(_computed(sheet, formulas, source), 1):
        is_hidden = number in rows
        hidden = [cell for column, cell in enumerate(row, 1) if is_hidden or column in columns]
        builder.leave_out(HIDDEN, " ".join(hidden))
        if not is_hidden:
            cells = [cell for column, cell in enumerate(row, 1) if column not in columns]
            while cells and not cells[-1].strip():
                cells.pop()
            yield cells


def _computed(sheet: Any, formulas: _Book, source: bytes) -> Iterator[list[str]]:
    """Yield the cells of all rows; a formula that no program has computed is shown itself."""
    if not _UNCOMPUTED.search(source):
        yield from ([_shown(cell) for cell in row] for row in sheet.iter_rows())
        return
    other = formulas.book[sheet.title]
    other.reset_dimensions()
    for row, formulas_of_row in zip(sheet.iter_rows(), other.iter_rows(), strict=True):
        yield [
            str(formula.value) if cell.value is None and isinstance(formula.value, str) else _shown(cell)
            for cell, formula in zip(row, formulas_of_row, strict=True)
        ]


def _hidden(source: bytes) -> tuple[set[int], set[int]]:
    """Return the numbers of the rows and columns that are hidden, which the reader of a stream does not tell."""
    rows, columns = set[int](), set[int]()
    for match in _HIDDEN.finditer(source):
        place = {name: int(number) for name, number in _PLACE.findall(match[1])}
        rows |= {place[b"r"]} if b"r" in place else set()
        columns |= set(range(place.get(b"min", 1), min(place.get(b"max", 0), 1 << 14) + 1))
    return rows, columns


def _shown(cell: Any) -> str:
    value = cell.value
    if value is None:
        return ""
    if isinstance(value, dt.datetime):
        return str(value).removesuffix(" 00:00:00")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return show_number(value, cell.number_format)


def show_number(value: float, form: str) -> str:
    """Return a number as a format of Excel shows it."""
    positive, _, others = form.partition(";")
    own = others.partition(";")[0] if value < 0 else ""  # of negative numbers, with their sign
    number = _NUMBER.fullmatch(_LITERAL.sub(lambda match: match[1] or "", own or positive))
    if number is None:
        return _general(value)
    before, thousands, digits, decimals, scale, percent, after = number.groups(default="")
    if scale:
        value /= 1000 ** len(scale)
    width = "," if thousands else f"0{len(digits) + len(decimals) + bool(decimals)}"
    return before + format(abs(value) if own else value, f"{width}.{len(decimals)}{percent or 'f'}") + after


def _general(value: float) -> str:
    """Return a number without a format; whole ones in full, as those of cards and persons are."""
    if isinstance(value, float) and value.is_integer() and abs(value) < MAX_FULL:
        return format(Decimal(repr(value)), ".0f")
    return format(value, ".15g") if isinstance(value, float) else str(value)
