"""Read JSON lines, and JSON that is an array of objects; errors name the file and the line or item."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from rag_bm25.errors import InputError
from rag_bm25.ingestion.encodings import decode
from rag_bm25.ingestion.lines import read_lines
from rag_bm25.ingestion.rows import DEFAULT_FIELDS, MAX_DOCUMENT_BYTES, Row, raise_error

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from rag_bm25.ingestion.lines import Line
    from rag_bm25.ingestion.rows import Reject

_BEGINNING = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[\s*\{")
LONG = object()  # which no JSON is
MAX_DIGITS = 4_300  # of an integer, by default of Python
TOO_LONG = f"an integer must have at most {MAX_DIGITS:,} digits"
MAX_BLANKS = 1000  # before the first item


def is_array(file: BinaryIO) -> bool:
    """Return whether a file of JSON begins as an array of objects; another one is a text."""
    return _BEGINNING.match(file.read(MAX_BLANKS)) is not None


def read_json_array(
    file: BinaryIO, source: str, text: str, encoding: str | None = None, reject: Reject = raise_error
) -> Iterator[Row]:
    """Read an array of JSON objects; one without the default text is all of its own values."""
    data = file.read(MAX_DOCUMENT_BYTES + 1)
    if len(data) > MAX_DOCUMENT_BYTES:
        raise InputError(f"{file.name}: an array must have at most {MAX_DOCUMENT_BYTES:,} bytes. Make it JSON lines")
    try:
        rows = _parse_items(decode(data, file.name, encoding)[0])
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else error
        raise InputError(f"{file.name}: not JSON: {reason}") from None
    for number, row in enumerate(rows):
        where = f"{file.name} item {number + 1}"
        if isinstance(row, dict):
            columns = tuple(row) if text == DEFAULT_FIELDS.text else ()
            yield Row(where, row, len(data) * (number + 1) // len(rows), f"{source}#{number}", columns)
        elif row is LONG:
            reject(InputError(f"{where}: {TOO_LONG}"))
        else:
            reject(InputError(f"{where}: a row must be a JSON object, got {type(row).__name__}"))


def _parse_items(text: str) -> Any:
    """Parse an array, with LONG in place of an item that has an integer that Python does not read."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except ValueError:  # which does not name the item
        items = json.loads(text, parse_int=lambda digits: int(digits) if len(digits) <= MAX_DIGITS else LONG)
        return [LONG if repr(LONG) in repr(item) else item for item in items]


def read_json_lines(file: BinaryIO, encoding: str | None = None, reject: Reject = raise_error) -> Iterator[Row]:
    """Read a file with one JSON object a line; blank lines are skipped, and lines that are wrong are rejected."""
    for line in read_lines(file, encoding):
        row = _parse_line(line, reject)
        if row is not None:
            yield Row(line.where, row, line.end)


def _parse_line(line: Line, reject: Reject) -> dict[str, Any] | None:
    try:
        text = line.decode()
        return _parse_object(text, line.where) if text.strip() else None
    except InputError as error:
        reject(error)
        return None


def _parse_error(error: ValueError | RecursionError) -> str:
    """Describe an error of the JSON parser, without its line number, which is always 1."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return f"{error.msg} at column {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else TOO_LONG


def _parse_object(text: str, where: str) -> dict[str, Any]:
    try:
        row = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not JSON: {_parse_error(error)}") from None
    if not isinstance(row, dict):
        raise InputError(f"{where}: a row must be a JSON object, got {type(row).__name__}")
    return row
