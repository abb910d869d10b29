"""Extract the text of HTML, without navigation, scripts and styles."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import TYPE_CHECKING

from rag_bm25.ingestion.encodings import decode
from rag_bm25.ingestion.formats.building import TextBuilder

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet
    from typing import BinaryIO

    from rag_bm25.ingestion.documents import Document

SKIPPED = {
    "script", "style", "template", "noscript", "svg", "annotation", "annotation-xml", "nav", "footer", "select",
    "button", "iframe", "object", "textarea",
}  # fmt: skip
PARAGRAPHS = {
    "p", "div", "section", "article", "main", "header", "aside", "table", "ul", "ol", "dl", "pre", "blockquote",
    "figure", "figcaption", "form", "fieldset", "address", "details", "hr", "body",
}  # fmt: skip
LINES = {"li", "dt", "dd", "tr", "br", "caption", "summary", "option"}
VOID = {
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr",
}  # fmt: skip
HEADINGS = {f"h{level}": level for level in range(1, 7)}
READINGS = {"rt", "rp", "rtc"}  # of ruby characters
FORMULA = {"mi", "mn", "mo", "ms", "mtext"}
PERMALINKS = {"headerlink", "anchor", "anchorjs-link", "header-anchor"}
MIN_MAIN = 200  # characters: a main part with less is not the text
_EXPONENT = re.compile(r"(?!(?:st|nd|rd|th|er|e|o|a)\b)[\w+\u2212-]", re.IGNORECASE)
_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_:-]{1,40})", re.IGNORECASE)


def extract(file: BinaryIO, encoding: str | None) -> Document:
    """Extract the text of a file."""
    data = file.read()
    declared = _CHARSET.search(data[:4_096])
    text, used = decode(data, file.name, encoding, declared[1].decode() if declared else None)
    builder = TextBuilder()
    title = write_html(text, builder)
    found = builder.build(title or builder.first_heading)
    return replace(found, encoding=used)


def write_html(html: str, builder: TextBuilder) -> str:
    """Write the text of a page, and return its title."""
    html = html.replace("\r\n", "\n").replace("\r", "\n")
    scout = _Parser(TextBuilder(), main_only=True)
    scout.read(html)
    parser = _Parser(builder, main_only=scout.size >= MIN_MAIN, skipped=SKIPPED)
    parser.read(html)
    if not scout.size and not parser.size:  # a tag such as <nav> that was never closed
        parser = _Parser(builder, main_only=False, skipped={"script", "style"})
        parser.read(html)
    return " ".join("".join(parser.title).split())


class _Parser(HTMLParser):
    """Write text to a builder."""

    def __init__(self, builder: TextBuilder, *, main_only: bool, skipped: AbstractSet[str] = SKIPPED) -> None:
        super().__init__(convert_charrefs=True)
        self.title: list[str] = []
        self._builder = builder
        self._first = builder.size
        self._main_only = main_only
        self._skipped = skipped
        self._skipping: list[str] = []  # the skipped element that is open, and those of its name within it
        self._main: list[str] = []  # likewise the main part
        self._pre = 0
        self._sup = False
        self._reading = False  # of ruby characters; its end tag may be left out
        self._in_title = False
        self._heading: list[str] | None = None
        self._level = 0

    @property
    def size(self) -> int:
        """Number of characters that were written."""
        return self._builder.size - self._first

    def read(self, html: str) -> None:
        self.feed(html)
        self.close()
        self._end_heading()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._skipping:
            if tag == self._skipping[0]:
                self._skipping.append(tag)
            return
        given = {name: value or "" for name, value in attrs}
        if tag == "math" and given.get("alttext"):
            self.handle_data(given["alttext"])
            self._skipping.append(tag)
            return
        if tag not in VOID and self._is_skipped(tag, given):
            self._skipping.append(tag)
            return
        if tag in (self._main[:1] or ["main"]) or (not self._main and given.get("role") == "main"):
            self._main.append(tag)
        self._sup = self._sup or tag == "sup"
        self._reading = tag in READINGS or (self._reading and tag not in PARAGRAPHS)
        self._in_title = self._in_title or (tag == "title" and not self.title)
        self._start(tag)

    def _is_skipped(self, tag: str, given: dict[str, str]) -> bool:
        classes = set(given.get("class", "").split())
        is_hidden = "hidden" in given or given.get("aria-hidden") == "true" or given.get("role") == "navigation"
        return tag in self._skipped or (bool(self._skipped & {"nav"}) and is_hidden) or bool(classes & PERMALINKS)

    def _start(self, tag: str) -> None:
        if tag in HEADINGS:
            self._end_heading()
            self._heading, self._level = [], HEADINGS[tag]
        elif not self._writes():
            return
        elif tag in PARAGRAPHS:
            if tag != "div":
                self._end_heading()
            self._builder.new_line(2)
            self._pre += tag == "pre"
        elif tag in LINES:
            self._builder.new_line()
            self._builder.write("- " if tag == "li" else "")
        elif tag in ("td", "th") or tag in FORMULA:
            self._builder.write_inline(" ")

    def handle_endtag(self, tag: str) -> None:
        if self._skipping:
            if tag == self._skipping[0]:
                self._skipping.pop()
            return
        self._sup = self._sup and tag != "sup"
        self._reading = self._reading and tag not in {"ruby", *READINGS, *PARAGRAPHS}
        if tag == "title":
            self._in_title = False
        elif tag in HEADINGS:
            self._end_heading()
        elif self._writes():
            self._end(tag)
        if self._main and tag == self._main[0]:
            self._main.pop()

    def _end(self, tag: str) -> None:
        if tag in PARAGRAPHS:
            self._builder.new_line(2)
            self._pre -= tag == "pre" and self._pre > 0
        elif tag in LINES:
            self._builder.new_line()
        elif tag in ("td", "th"):
            self._builder.write_inline(" | ")

    def handle_data(self, data: str) -> None:
        if self._skipping or self._reading:
            return
        if self._sup and self._last.isdigit() and _EXPONENT.match(data):
            data = "^" + data
        self._sup = False
        if self._in_title:
            self.title.append(data)
        elif self._heading is not None:
            self._heading.append(data)
        elif self._writes() and self._pre:
            self._builder.write(data)
        elif self._writes():
            self._builder.write_inline(data)

    @property
    def _last(self) -> str:
        """The last character that was written."""
        return self._builder.last if self._heading is None else "".join(self._heading[-1:])[-1:]

    def _writes(self) -> bool:
        return self._heading is None and (bool(self._main) or not self._main_only)

    def _end_heading(self) -> None:
        title, self._heading = "".join(self._heading or ()), None
        if self._main or not self._main_only:
            self._builder.heading(self._level, title)
