"""JSON lines, with errors that name file and line."""

from __future__ import annotations

import codecs
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rag_bm25.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO

__all__ = [
    "MAX_DOCUMENT_BYTES",
    "JsonLine",
    "join_title",
    "not_utf8",
    "read_json_lines",
    "row_id",
    "row_metadata",
    "row_parts",
]

ROW_KEYS = frozenset({"_id", "id", "text", "title", "metadata"})

MAX_DOCUMENT_BYTES = 64 << 20
"""Of a text to be cut into chunks, and of a line of JSON."""


@dataclass(frozen=True)
class JsonLine:
    """One row of a JSONL file.

    Parameters
    ----------
    where : str
        File and line, for messages.
    row : dict
        The object.
    end : int
        Position in the file after the row, in bytes.
    """

    where: str
    row: dict[str, Any]
    end: int


def read_json_lines(path: Path) -> Iterator[JsonLine]:
    """Read a file with one JSON object a line; blank lines are left out.

    Parameters
    ----------
    path : Path
        A file in UTF-8.

    Yields
    ------
    JsonLine
        In order, one at a time: memory does not grow with the file.

    Raises
    ------
    InputError
        A line is not UTF-8, not JSON, not an object, or has more than 64 MiB.
    """
    start = 0
    with path.open("rb") as file:
        for number, line in enumerate(_lines(file), 1):
            where = f"{path} line {number}"
            if len(line.rstrip(b"\r\n")) > MAX_DOCUMENT_BYTES:
                msg = f"{where}: a line must have at most {MAX_DOCUMENT_BYTES:,} bytes"
                raise InputError(msg)
            text = _decoded(line, where, start)
            start += len(line)
            if text.strip():
                yield JsonLine(where, _object(text, where), start)


def row_id(line: JsonLine) -> str:
    """Return the id of a row: its ``_id``, as BEIR has it, or its ``id``.

    Parameters
    ----------
    line : JsonLine
        The row.

    Returns
    -------
    str
        The id; an integer is written out.

    Raises
    ------
    InputError
        There is none, or it is neither text nor an integer.
    """
    value = line.row.get("_id", line.row.get("id"))
    if value is None:
        msg = f'{line.where}: a row needs an "_id" or an "id"'
        raise InputError(msg)
    if isinstance(value, bool) or not isinstance(value, str | int):
        msg = f"{line.where}: an id must be text or an integer, got {type(value).__name__}"
        raise InputError(msg)
    return str(value)


def row_parts(line: JsonLine) -> tuple[str, str]:
    """Return title and text of a row.

    Parameters
    ----------
    line : JsonLine
        The row.

    Returns
    -------
    title : str
        "" where there is none.
    text : str
        Exactly the row's.

    Raises
    ------
    InputError
        The row has no text, or a title that is none.
    """
    text, title = line.row.get("text"), line.row.get("title", "")
    if not isinstance(text, str):
        wrong = "" if text is None else f", got {type(text).__name__}"
        msg = f'{line.where}: a row needs a "text"{wrong}'
        raise InputError(msg)
    if not isinstance(title, str):
        msg = f'{line.where}: "title" must be text, got {type(title).__name__}'
        raise InputError(msg)
    return title, text


def row_metadata(line: JsonLine) -> dict[str, Any]:
    """Return the metadata of a row: its title, whatever else it has, and what is in its ``metadata``, which wins.

    Parameters
    ----------
    line : JsonLine
        The row.

    Returns
    -------
    dict
        Without a title where that is empty.

    Raises
    ------
    InputError
        ``metadata`` is no JSON object.

    Examples
    --------
    >>> row_metadata(JsonLine("line 1", {"id": "a", "text": "x", "page": 3, "metadata": {"year": 1999}}, 0))
    {'page': 3, 'year': 1999}
    """
    metadata = line.row.get("metadata") or {}
    if not isinstance(metadata, dict):
        msg = f'{line.where}: "metadata" must be a JSON object, got {type(metadata).__name__}'
        raise InputError(msg)
    title = {"title": line.row["title"]} if line.row.get("title") else {}
    others = {key: value for key, value in line.row.items() if key not in ROW_KEYS}
    return {**title, **others, **metadata}


def join_title(title: str, text: str) -> str:
    """Return title and text as one text, with a space between, as is the custom with BEIR.

    Parameters
    ----------
    title, text : str
        As returned by :func:`row_parts`.

    Returns
    -------
    str
        Without whitespace around it where there is a title, else exactly the text.

    Examples
    --------
    >>> join_title("Apples", "grow on trees"), join_title("", " as it is ")
    ('Apples grow on trees', ' as it is ')
    """
    return f"{title} {text}".strip() if title else text


def not_utf8(where: str, at: int) -> str:
    """Return what to tell of a text in another encoding, and how to convert it.

    Parameters
    ----------
    where : str
        File, or file and line.
    at : int
        The byte of the file.

    Returns
    -------
    str
        A message.
    """
    return (
        f"{where}: not UTF-8 at byte {at} of the file: convert it, for instance with `iconv -f gb18030 -t utf-8` if it "
        "is in GBK"
    )


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines with their ends; of one that is too long, only what tells that."""
    return iter(lambda: file.readline(MAX_DOCUMENT_BYTES + 2), b"")


def _decoded(line: bytes, where: str, start: int) -> str:
    skipped = len(codecs.BOM_UTF8) if start == 0 and line.startswith(codecs.BOM_UTF8) else 0
    try:
        return line[skipped:].decode()
    except UnicodeDecodeError as error:
        msg = not_utf8(where, start + skipped + error.start)
        raise InputError(msg) from None


def _reason(error: ValueError | RecursionError) -> str:
    """Say what is wrong with a line, by its column alone: what the error calls a line is no line of the file."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return f"{error.msg} at column {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else str(error)


def _object(text: str, where: str) -> dict[str, Any]:
    try:
        row = json.loads(text)
    except (ValueError, RecursionError) as error:
        msg = f"{where}: not JSON: {_reason(error)}"
        raise InputError(msg) from None
    if not isinstance(row, dict):
        msg = f"{where}: a row must be a JSON object, got {type(row).__name__}"
        raise InputError(msg)
    return row
