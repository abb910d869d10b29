"""Read the rows of CSV and Parquet."""

from __future__ import annotations

import csv
import datetime as dt
import decimal
import math
import re
from itertools import chain
from typing import TYPE_CHECKING, Any

from rag_bm25.checks import require_extra
from rag_bm25.errors import InputError, install_extra
from rag_bm25.ingestion.lines import read_lines
from rag_bm25.ingestion.rows import DEFAULT_FIELDS, MAX_DOCUMENT_BYTES, Row, raise_error

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import BinaryIO

    from rag_bm25.ingestion.lines import Line
    from rag_bm25.ingestion.rows import Reject

DELIMITERS = ",;\t|"
BATCH_ROWS = 500
_LINE = re.compile(r"[^\r\n]+(?:\r\n?|\n)?|\r\n?|\n")
_DECLARED = re.compile(r"sep=(.)(?:\r\n?|\n)", re.IGNORECASE)  # the delimiter, in the first line that Excel writes


def read_csv(
    file: BinaryIO, source: str, text: str, encoding: str | None = None, reject: Reject = raise_error
) -> Iterator[Row]:
    """Read a CSV file whose first row has the names; the delimiter is the most frequent one there, or declared."""
    lines = _Lines(read_lines(file, encoding))
    first = _next_line(lines)
    declared = _DECLARED.fullmatch(first)
    first = _next_line(lines) if declared else first
    if not first:
        return
    delimiter = declared[1] if declared else max(DELIMITERS, key=first.count)
    csv.field_size_limit(max(csv.field_size_limit(), MAX_DOCUMENT_BYTES))  # of the process: there is no other
    reader = csv.reader(chain([first], lines), delimiter=delimiter, strict=True)
    names = _names(_next_cells(reader, lines, raise_error), file.name)
    columns = _columns(text, names, file.name)
    number = -1
    while (cells := _next_cells(reader, lines, reject)) is not None:
        if not any(cells):
            continue
        number += 1
        if len(cells) == len(names):
            row = {name: cell for name, cell in zip(names, cells, strict=True) if cell and name}
            yield Row(lines.where, row, lines.end, f"{source}#{number}", columns)
        else:
            needed = f"a row must have {len(names)} cells, as the first row has"
            reject(InputError(f"{lines.where}: {needed}, got {len(cells)}"))


def _next_line(lines: _Lines) -> str:
    """Return the next line with a text, "" at the end."""
    return next(filter(str.strip, lines), "")


def _next_cells(reader: Iterator[list[str]], lines: _Lines, reject: Reject) -> list[str] | None:
    """Return the next row, an empty one if it is wrong, None at the end."""
    before = lines.number
    try:
        return next(reader, None)
    except csv.Error as error:
        num_lines = lines.number - before
        begun = f"its row begins in line {before + 1:,}, as where a quote is not closed"
        rest = f"; {begun}: {num_lines:,} lines are not read" if num_lines > 1 else ""
        reject(InputError(f"{lines.where}: not CSV: {error}{rest}"))
        return []


class _Lines:
    """The lines of a file as text; bytes that are no text become lone surrogates, which checks of texts refuse."""

    def __init__(self, lines: Iterator[Line]) -> None:
        self._texts = self._split(lines)
        self.where, self.end, self.number = "", 0, 0

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        return next(self._texts)

    def _split(self, lines: Iterator[Line]) -> Iterator[str]:
        """Yield the lines, also those that end with a carriage return alone."""
        for line in lines:
            file, _, _ = line.where.rpartition(" ")
            for match in _LINE.finditer(line.decode("surrogateescape")):
                self.number += 1
                self.where, self.end = f"{file} {self.number}", line.end
                yield match[0]


def _names(cells: list[str] | None, where: str) -> list[str]:
    names = [cell.strip() for cell in cells or ()]
    if len(set(filter(None, names))) < len(list(filter(None, names))):
        raise InputError(f"{where}: the names of the first row must differ, got {', '.join(names)[:200]}")
    return names


def _columns(text: str, names: Sequence[str], where: str) -> tuple[str, ...]:
    """Return the columns that are the text together, none if one has its name; or refuse the table as a whole."""
    if text in names:
        return ()
    if text == DEFAULT_FIELDS.text:
        return tuple(filter(None, names))
    wanted = tuple(text.split(","))
    if missing := [name for name in wanted if name not in names]:
        there = ", ".join(filter(None, names))[:200]
        raise InputError(
            f'{where}: there is no column "{missing[0]}", only {there}. Name those of the text (--text-field)'
        )
    return wanted


def read_parquet(file: BinaryIO, source: str, text: str, size: int) -> Iterator[Row]:
    """Read a Parquet file, some rows at a time."""
    with require_extra(f"{file.name}: reading Parquet needs pyarrow: {install_extra('parquet')}"):
        import pyarrow as pa
        from pyarrow import parquet
    try:
        with parquet.ParquetFile(file) as table:
            columns = _columns(text, table.schema_arrow.names, file.name)
            total = max(1, table.metadata.num_rows)
            number = 0
            for batch in table.iter_batches(BATCH_ROWS):
                for row in batch.to_pylist():
                    plain = {name: _plain(value) for name, value in row.items() if value is not None}
                    number += 1
                    end = size * number // total
                    yield Row(f"{file.name} row {number}", plain, end, f"{source}#{number - 1}", columns)
    except pa.ArrowException as error:
        raise InputError(f"{file.name}: damaged, or not Parquet: {str(error)[:200]}") from None


def _plain(value: Any) -> Any:
    """Return a JSON value for dates, decimals and numbers that JSON does not have."""
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
