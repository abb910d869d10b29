"""Read JSON lines; errors name file and line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rag_bm25.errors import InputError
from rag_bm25.ingestion.lines import read_lines
from rag_bm25.ingestion.rows import Row, raise_error

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from rag_bm25.ingestion.lines import Line
    from rag_bm25.ingestion.rows import Reject


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
    return f"{error.msg} at column {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else str(error)


def _parse_object(text: str, where: str) -> dict[str, Any]:
    try:
        row = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not JSON: {_parse_error(error)}") from None
    if not isinstance(row, dict):
        raise InputError(f"{where}: a row must be a JSON object, got {type(row).__name__}")
    return row
