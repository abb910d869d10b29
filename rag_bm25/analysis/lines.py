"""Lines of a file of words or synonyms."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

from rag_bm25.checks import check_path
from rag_bm25.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def read_lines(path: str | Path, max_bytes: int) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line of a file in UTF-8, with or without a byte order mark."""
    with check_path("path", path).open("rb") as file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise InputError(f"{path} must have at most {max_bytes:,} bytes")
    yield from decode_lines(data.removeprefix(codecs.BOM_UTF8), str(path))


def decode_lines(data: bytes, name: str) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line, without white space around it; `name` is for the message."""
    for number, line in enumerate(data.splitlines(), 1):
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            raise InputError(
                f"{name} line {number}: not UTF-8 at byte {error.start} of the line; `iconv -f gb18030 -t utf-8` "
                "converts a file in GBK"
            ) from None
        yield number, text.strip()
