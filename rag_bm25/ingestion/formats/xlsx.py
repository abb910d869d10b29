"""Extract the text of XLSX: each sheet under its name, a row a line."""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING, Any

from rag_bm25.ingestion.formats.archives import open_archive
from rag_bm25.ingestion.formats.building import TextBuilder
from rag_bm25.ingestion.formats.properties import core_title

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from rag_bm25.ingestion.documents import Document

_HIDDEN = re.compile(rb'<(?:\w+:)?(?:row|col)\b(?=[^>]*\bhidden="(?:1|true)")([^>]*)>')
_PLACE = re.compile(rb'\b(r|min|max)="(\d{1,7})"')
_LITERAL = re.compile(r'\[\$([^\]-]*)[^\]]*\]|\[[^\]]*\]|[_*].|["\\]')  # in a format; the first is a currency
_NUMBER = re.compile(r"(?!.*E[+-])([^0#?/]*?)(#,##)?(0+)(?:\.(0+))?(%?)([^0#?/]*)")


def extract(file: BinaryIO, *, hidden: bool, **_options: object) -> Document:
    """Extract the text of a file: the values of formulas as they were last computed."""
    import openpyxl

    with open_archive(file) as archive:
        title = core_title(archive)
    book = openpyxl.load_workbook(file, read_only=True, data_only=True)
    builder = TextBuilder()
    for sheet in book.worksheets:
        if hidden or sheet.sheet_state == "visible":
            sheet.reset_dimensions()  # as a program may have written them wrongly
            builder.heading(1, sheet.title)
            width = 0
            for cells in _rows(sheet, hidden=hidden):
                width = width or (len(cells) if len(cells) > 1 else 0)
                builder.row(cells + [""] * (width - len(cells)))
    book.close()
    return builder.build(title)


def _rows(sheet: Any, *, hidden: bool) -> Iterator[list[str]]:
    """Yield the cells of each row as they are shown, up to the last with a text."""
    rows, columns = (set(), set()) if hidden else _hidden(sheet)
    for number, row in enumerate(sheet.iter_rows(), 1):
        if number not in rows:
            cells = [_shown(cell) for column, cell in enumerate(row, 1) if column not in columns]
            while cells and not cells[-1].strip():
                cells.pop()
            yield cells


def _hidden(sheet: Any) -> tuple[set[int], set[int]]:
    """Return the numbers of the rows and columns that are hidden, which the reader of a stream does not tell."""
    rows, columns = set[int](), set[int]()
    with sheet._get_source() as file:  # noqa: SLF001
        for match in _HIDDEN.finditer(file.read()):
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
    positive, _, others = cell.number_format.partition(";")
    own = others.partition(";")[0] if value < 0 else ""  # of negative numbers, with their sign
    number = _NUMBER.fullmatch(_LITERAL.sub(lambda match: match[1] or "", own or positive))
    if number is None:
        return format(value, ".15g") if isinstance(value, float) else str(value)
    before, thousands, digits, decimals, percent, after = number.groups(default="")
    width = "," if thousands else f"0{len(digits) + len(decimals) + bool(decimals)}"
    return before + format(abs(value) if own else value, f"{width}.{len(decimals)}{percent or 'f'}") + after
