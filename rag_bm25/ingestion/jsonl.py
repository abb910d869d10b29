"""Read JSON lines; errors name file and line."""

from __future__ import annotations

import codecs
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rag_bm25.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROW_KEYS = frozenset({"_id", "id", "text", "title", "metadata"})

MAX_DOCUMENT_BYTES = 64 << 20
"""Maximum size of a text to split, and of a JSON line."""

FROM_GBK = "`iconv -f gb18030 -t utf-8`"
MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",  # which begins like the next
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
    codecs.BOM_UTF32_BE: "utf-32",
}
"""The byte order marks of other encodings."""


@dataclass(frozen=True)
class JsonLine:
    """A row of a JSONL file."""

    where: str  # file and line, for messages
    row: dict[str, Any]
    end: int  # of the row in the file, in bytes


def read_json_lines(path: Path) -> Iterator[JsonLine]:
    """Read a file with one JSON object a line; blank lines are skipped."""
    start = 0
    with path.open("rb") as file:
        # A line that is too long is not read to its end.
        for number, line in enumerate(iter(lambda: file.readline(MAX_DOCUMENT_BYTES + 2), b""), 1):
            where = f"{path} line {number}"
            if len(line.rstrip(b"\r\n")) > MAX_DOCUMENT_BYTES:
                raise InputError(f"{where}: a line must have at most {MAX_DOCUMENT_BYTES:,} bytes")
            text = decode_utf8(line, where, start)
            start += len(line)
            if text.strip():
                yield JsonLine(where, _parse_object(text, where), start)


def row_id(line: JsonLine) -> str:
    """Return the id of a row: ``_id``, as in BEIR, or ``id``."""
    value = line.row.get("_id", line.row.get("id"))
    if value is None:
        raise InputError(f'{line.where}: a row needs an "_id" or an "id"')
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise InputError(f"{line.where}: an id must be text or an integer, got {type(value).__name__}")
    return str(value)


def row_parts(line: JsonLine) -> tuple[str, str]:
    """Return the title and the text of a row."""
    text, title = line.row.get("text"), line.row.get("title", "")
    if not isinstance(text, str):
        wrong = "" if text is None else f", got {type(text).__name__}"
        raise InputError(f'{line.where}: a row needs a "text"{wrong}')
    if not isinstance(title, str):
        raise InputError(f'{line.where}: "title" must be text, got {type(title).__name__}')
    return title, text


def row_metadata(line: JsonLine) -> dict[str, Any]:
    """Return the metadata of a row: its title and other keys, overridden by its ``metadata``."""
    metadata = line.row.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise InputError(f'{line.where}: "metadata" must be a JSON object, got {type(metadata).__name__}')
    title = {"title": line.row["title"]} if line.row.get("title") else {}
    others = {key: value for key, value in line.row.items() if key not in ROW_KEYS}
    return {**title, **others, **metadata}


def join_title(title: str, text: str) -> str:
    """Join title and text with a space, as is customary for BEIR; a text without a title is not changed."""
    return f"{title} {text}".strip() if title else text


def decode_utf8(data: bytes, where: str, start: int = 0) -> str:
    """Decode a file, or a part of it that starts at a byte; a byte order mark is skipped."""
    skipped = len(codecs.BOM_UTF8) if start == 0 and data.startswith(codecs.BOM_UTF8) else 0
    try:
        return data[skipped:].decode()
    except UnicodeDecodeError as error:
        at = start + skipped + error.start
        found = "" if start else next((name for mark, name in MARKS.items() if data.startswith(mark)), "")
        if found:
            msg = f"{where}: the file is in {found.upper()}, not UTF-8. Convert it with `iconv -f {found} -t utf-8`."
        else:
            msg = f"{where}: not UTF-8 at byte {at} of the file. Convert it; if it is in GBK, with {FROM_GBK}."
        raise InputError(msg) from None


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
