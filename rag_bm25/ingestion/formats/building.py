"""Build the text of a document block by block."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from rag_bm25.errors import InputError
from rag_bm25.ingestion.documents import Document, Heading, bounded
from rag_bm25.ingestion.formats.titles import is_title
from rag_bm25.ingestion.markup import BREAK_AFTER, WRAPPED

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_TEXT = 64 << 20  # characters of a document

_SPACE = re.compile(r"[ \t\r\n\f\v\xa0]+")
UNSTORABLE = re.compile("[\0\ud800-\udfff\ufffe\uffff]")


class TextBuilder:
    """Collect lines of text, headings and pages; what is hidden or repeated is left out, unless it is to be kept."""

    def __init__(self, *, hidden: bool = False, repeated: bool = False) -> None:
        self.hidden, self.repeated = hidden, repeated
        self.left_out = Counter[str]()  # kind -> number of characters
        self._parts: list[str] = []
        self._size = 0
        self._held = ""  # a line break after an ideograph: nothing, if another follows
        self._newlines = 2  # at the end of what was collected
        self._line = (0, 0, 2)  # parts, size and newlines where the line begins
        self._headings: list[Heading] = []
        self._pages: list[int] = []
        self.mark = ""  # of a list's item, which stands before its text
        self.headings_above = 0  # levels that the headings of a part are below

    @property
    def size(self) -> int:
        """Number of characters."""
        return self._size

    @property
    def last(self) -> str:
        """The last character."""
        return self._parts[-1][-1] if self._parts else ""

    @property
    def first_heading(self) -> str:
        """The first heading, "" if there is none."""
        return self._headings[0].title if self._headings else ""

    def write(self, text: str) -> None:
        """Append text to the line."""
        text = UNSTORABLE.sub("", text)
        if text:
            self._append(text)
            self._newlines = len(text) - len(text.rstrip("\n"))

    def write_inline(self, text: str) -> None:
        """Append text whose white space has no meaning."""
        last = self.last
        text = WRAPPED.sub("", last + self._held + text)
        held = BREAK_AFTER.search(text)
        text = _SPACE.sub(" ", text[len(last) : held.start() if held else None])
        at_start = self.last in " \n"
        self.write(text.lstrip(" ") if at_start else text)
        self._held = held[0] if held else ""

    def new_line(self, newlines: int = 1) -> None:
        """End the line; with 2, the paragraph."""
        if self._newlines < newlines:
            self._append("\n" * (newlines - self._newlines))
            self._newlines = newlines
        self._line = (len(self._parts), self._size, self._newlines)

    def drop_line(self) -> None:
        """Take back the line, up to where :meth:`new_line` has begun it."""
        parts, self._size, self._newlines = self._line
        del self._parts[parts:]
        self._held = ""

    def leave_out(self, kind: str, text: str) -> None:
        """Count a text that is left out."""
        self.left_out[kind] += len(" ".join(text.split()))

    def row(self, cells: Iterable[str]) -> None:
        """Append a row of a table, if it has a word."""
        texts = [" ".join(cell.split()) for cell in cells]
        if any(texts):
            self.new_line()
            self.write(" | ".join(texts).strip())
            self.new_line()

    def paragraph(self, text: str) -> None:
        """Append a paragraph."""
        self.new_line(2)
        self.write(text.strip())
        self.new_line(2)

    def heading(self, level: int, text: str, title: str = "") -> None:
        """Append a heading, whose title may be without the number that the text has."""
        plain = " ".join(UNSTORABLE.sub("", text).split())
        if plain:
            self.new_line(2)
            start = self._size
            self.write(plain)
            self._headings.append(Heading(start, self._size, self.headings_above + level, title or plain))
            self.new_line(2)

    def page(self) -> None:
        """Begin a page."""
        self.new_line(2)
        self.page_begins()

    def page_begins(self) -> None:
        """Begin a page where the text is now, which may be within a paragraph."""
        self._pages.append(self._size)

    def build(self, *titles: str) -> Document:
        """Return the document, with the first of some texts that is a title."""
        plain = (" ".join(UNSTORABLE.sub("", title).split()) for title in titles)
        title = next(filter(is_title, plain), "")
        left_out = dict(+self.left_out)
        return Document("".join(self._parts), title, bounded(self._headings), tuple(self._pages), left_out=left_out)

    def _append(self, text: str) -> None:
        if self.mark and not text.isspace():
            text, self.mark = self.mark + text, ""
        self._size += len(text)
        if self._size > MAX_TEXT:
            raise InputError(f"a document must have at most {MAX_TEXT:,} characters of text")
        self._held = ""
        self._parts.append(text)
