"""Read the lines of a file of rows, one at a time."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, NamedTuple

from rag_bm25.errors import InputError
from rag_bm25.ingestion.encodings import MARKS, check_encoding, decode, is_mostly_utf8
from rag_bm25.ingestion.rows import MAX_DOCUMENT_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

SAMPLE_BYTES = 1 << 16
WIDE = ("utf-16", "utf-32")  # in which a line does not end with the byte of a newline


class Line(NamedTuple):
    """A line of a file."""

    where: str  # file and line, for messages
    data: bytes | str
    encoding: str
    start: int  # in the file, in bytes
    end: int

    def decode(self, errors: str = "strict") -> str:
        """Return the text of the line."""
        if isinstance(self.data, str):
            return self.data
        try:
            return self.data.decode(self.encoding, errors)
        except UnicodeDecodeError as error:
            at = self.start + error.start
            msg = f"{self.where}: not {self.encoding.upper()} at byte {at} of the file"
            raise InputError(msg) from None


def line_encoding(file: BinaryIO, encoding: str | None = None) -> tuple[str, int]:
    """Return the encoding of a file of lines, and the size of its byte order mark."""
    sample = file.read(SAMPLE_BYTES)
    for mark, name in MARKS.items():
        if sample.startswith(mark):
            return name, len(mark)
    if encoding is not None:
        return check_encoding(encoding), 0
    if is_mostly_utf8(sample):
        return "utf-8", 0
    whole = sample.rpartition(b"\n")[0] if len(sample) == SAMPLE_BYTES else sample
    if b"\0" in sample:  # as UTF-16 has it, in pairs of bytes
        whole = whole[: len(whole) // 2 * 2]
    elif whole.isascii():  # what is in another encoding is in the last line
        whole = sample + file.readline(MAX_DOCUMENT_BYTES)
    return decode(whole, file.name)[1] or "utf-8", 0


def read_lines(file: BinaryIO, encoding: str | None = None) -> Iterator[Line]:
    """Read the lines of a file; one that is too long is not read to its end."""
    name, start = line_encoding(file, encoding)
    file.seek(start)
    if name.startswith(WIDE):
        yield from _read_wide(file, name)
        return
    for number, data in enumerate(iter(lambda: file.readline(MAX_DOCUMENT_BYTES + 2), b""), 1):
        where = f"{file.name} line {number}"
        _check_size(where, len(data.rstrip(b"\r\n")))
        yield Line(where, data, name, start, start + len(data))
        start += len(data)


def _read_wide(file: BinaryIO, name: str) -> Iterator[Line]:
    with io.TextIOWrapper(file, encoding=name, newline="") as texts:
        try:
            for number, text in enumerate(iter(lambda: texts.readline(MAX_DOCUMENT_BYTES + 2), ""), 1):
                where = f"{file.name} line {number}"
                _check_size(where, len(text.rstrip("\r\n")))
                yield Line(where, text, name, 0, file.tell())
        except UnicodeError as error:
            raise InputError(f"{file.name}: not {name.upper()}: {error}") from None


def _check_size(where: str, size: int) -> None:
    if size > MAX_DOCUMENT_BYTES:
        raise InputError(f"{where}: a line must have at most {MAX_DOCUMENT_BYTES:,} bytes")
