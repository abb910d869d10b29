"""Extract the text of HTML, without navigation, scripts and styles."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from functools import cached_property, partial
from html.parser import HTMLParser
from typing import TYPE_CHECKING

from rag_bm25.ingestion.documents import BESIDE, CONTENTS, HIDDEN, MENUS
from rag_bm25.ingestion.encodings import decode
from rag_bm25.ingestion.formats.building import TextBuilder
from rag_bm25.ingestion.formats.mathml import Formula
from rag_bm25.ingestion.formats.menus import Boxes
from rag_bm25.ingestion.formats.numbering import spell

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from typing import BinaryIO

    from rag_bm25.ingestion.documents import Document


MAX_ROWS, MAX_COLUMNS = 65_534, 1_000  # that cells span, as in browsers
FORMS = {"a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}
UNREAD = {"script", "style", "template", "noscript", "svg", "annotation", "annotation-xml", "iframe", "object"}
REPEATED = {**dict.fromkeys(("nav", "footer", "select", "button", "textarea"), MENUS), "contents": CONTENTS}
PARAGRAPHS = {
    "p", "div", "section", "article", "main", "header", "aside", "table", "ul", "ol", "dl", "pre", "blockquote",
    "figure", "figcaption", "form", "fieldset", "address", "details", "hr", "body",
}  # fmt: skip
LINES = {"li", "dt", "dd", "br", "caption", "summary", "option"}
VOID = {
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr",
}  # fmt: skip
HEADINGS = {f"h{level}": level for level in range(1, 7)}
CELLS, ROWS = {"td", "th"}, {"tr", "thead", "tbody", "tfoot"}
PARTS = {"main", "article", "section", *HEADINGS}  # of a page: no cell of data has them, nor a table with a text
READINGS = {"rt", "rp", "rtc"}  # of ruby characters
PERMALINKS = {"headerlink", "anchor", "anchorjs-link", "header-anchor", "hash-link"}  # classes of a link to its heading
BREAKOUT = {*PARAGRAPHS, *HEADINGS, *CELLS, *ROWS, *LINES}  # which end a formula that was never closed
PANELS = {"tabpanel", "tab-panel", "sphinx-tabs-panel"}  # roles and classes of what a click on a tab shows
MIN_MAIN = 200  # characters: a main part with less is not the text
SIGNS = {"before": re.compile(r"\(?(?:[A-Z]{1,3}|RMB)?[$€£¥￥]\(?|\("), "after": re.compile(r"[)%]{1,3}")}  # of a value
_EXPONENT = re.compile(r"(?!(?:st|nd|rd|th|er|e|o|a)\b)[\w+\u2212-]", re.IGNORECASE)
_HIDDEN = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)\b", re.IGNORECASE)
_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_:-]{1,40})", re.IGNORECASE)


def _number(given: Mapping[str, str], name: str, default: int) -> int:
    match = re.match(r"\s*([+-]?[0-9]{1,9})", given.get(name, ""))
    return int(match[1]) if match else default


class Table:
    """A table of data, row by row; or of the parts of a page, whose cells are paragraphs."""

    def __init__(self, known: Table | None = None) -> None:
        self.is_data = known is None or known.has_data
        self._known = known
        self._kinds: dict[int, set[str]] = {}  # by column: those of its cells with a text
        self.has_text = False
        self.cell: TextBuilder | None = None  # the one that is open
        self._blocks = self._most_blocks = 0  # of the cell, and of any cell
        self._rows = self._columns = 0
        self._span = 1, 1
        self._row: list[tuple[str, int, int]] = []
        self._below: dict[int, tuple[str, int, int]] = {}  # by column: a cell that goes on, and for how many rows

    @property
    def has_data(self) -> bool:
        """Whether a row is a line: a box around paragraphs is none, a row of cells with a paragraph each is one."""
        is_grid = self._columns > 1 and (self._rows > 1 or self._most_blocks == 1)
        return self.is_data and (is_grid or not self._most_blocks)

    def hold(self, tag: str, *, is_part: bool = False) -> None:
        """Learn of an element within the table."""
        if self.cell is not None and (is_part or tag in PARAGRAPHS - {"table"}):
            self._blocks += 1 if tag == "p" else 2  # anything else may hold several
            self._most_blocks = max(self._most_blocks, self._blocks)
        if is_part:
            self.is_data, self.cell = False, None

    def begin_cell(self, given: Mapping[str, str]) -> None:
        """Begin a cell."""
        self.end_cell()
        rows, columns = _number(given, "rowspan", 1) or MAX_ROWS, _number(given, "colspan", 1)
        self._blocks = 0
        self.cell, self._span = TextBuilder(), (min(rows, MAX_ROWS), min(max(1, columns), MAX_COLUMNS))

    def end_cell(self) -> None:
        """End the cell that is open."""
        if self.cell is not None:
            self._row.append((self.cell.build().text, *self._span))
        self.cell = None

    def end_row(self) -> list[str]:
        """Return the cells of the row: one of several rows is in each, one of several columns in the first."""
        self.end_cell()
        row, self._row = self._row[::-1], []
        if not row:
            return []
        below, self._below = self._below, {}
        cells: list[str] = []
        while row or len(cells) <= max(below, default=-1):
            at = len(cells)
            text, rows, columns = below.get(at) or (row.pop() if row else ("", 1, 1))
            self._learn(at, text, columns)
            cells += [text, *[""] * (columns - 1 if at < MAX_COLUMNS else 0)]
            if rows > 1:
                last = min(len(cells), MAX_COLUMNS)
                self._below |= {column: (cells[column], rows - 1, 1) for column in range(at, last)}
        self._rows += 1
        self._columns = max(self._columns, len(cells))
        return self._known.joined(cells) if self._known else cells

    def _learn(self, at: int, text: str, columns: int) -> None:
        if text := text.strip():
            is_sign = next((kind for kind, sign in SIGNS.items() if sign.fullmatch(text)), "text")
            self._kinds.setdefault(at, set()).add("wide" if columns > 1 else is_sign)

    @cached_property
    def _groups(self) -> list[list[int]]:
        """The columns that are one: a column of signs and that of its values; those that only space others are none."""
        groups, goes_on = list[list[int]](), False
        for column in range(self._columns):
            kinds = self._kinds.get(column, set())
            if groups and (goes_on or kinds == {"after"}):
                groups[-1].append(column)
            elif kinds:
                groups.append([column])
            goes_on = bool(kinds) and kinds <= {"before", "wide"}
        return groups

    def joined(self, cells: Sequence[str]) -> list[str]:
        """Return the cells of a row by the columns that are one."""
        if self._rows == 1:
            return list(cells)
        return ["".join(cells[group[0] : group[-1] + 1]) for group in self._groups if group[0] < len(cells)]


class List:
    """A list, and the number of its next item."""

    def __init__(self, given: Mapping[str, str], items: int, *, is_ordered: bool) -> None:
        self.items = 0
        self._form = FORMS.get(given.get("type", ""), "decimal") if is_ordered else ""
        self._step = -1 if "reversed" in given else 1
        self._next = _number(given, "start", items if self._step < 0 else 1)

    def next_mark(self, given: Mapping[str, str]) -> str:
        """Return what stands before the next item."""
        number = _number(given, "value", self._next)
        self._next = number + self._step
        return f"{spell(number, self._form)}. " if self._form else "- "


def extract(file: BinaryIO, *, encoding: str | None, hidden: bool, repeated: bool) -> Document:
    """Extract the text of a file."""
    data = file.read()
    declared = _CHARSET.search(data[:4_096])
    text, used = decode(data, file.name, encoding, declared[1].decode() if declared else None)
    builder = TextBuilder(hidden=hidden, repeated=repeated)
    title = write_html(text, builder)
    found = builder.build(title, builder.first_heading)
    return replace(found, encoding=used)


def write_html(html: str, builder: TextBuilder) -> str:
    """Write the text of a page, and return its title."""
    html = html.replace("\r\n", "\n").replace("\r", "\n")
    parser = _read(html, builder, partial(_Parser, hidden=builder.hidden, repeated=builder.repeated))
    if not parser.size:  # a tag such as <nav> that was never closed
        parser = _read(html, builder, partial(_Parser, unread={"script", "style"}, hidden=True, repeated=True))
    builder.left_out += parser.left_out
    return " ".join("".join(parser.title).split())


def _read(html: str, builder: TextBuilder, parse: Callable[..., _Parser]) -> _Parser:
    """Read a page twice: what its main part, menus and tables are is only known at its end."""
    scout = parse(TextBuilder(), main_only=True)
    scout.read(html)
    main_only = scout.size >= MIN_MAIN and not builder.repeated
    scout.boxes.finish(main_only=main_only)
    parser = parse(builder, main_only=main_only, known=scout)
    parser.read(html)
    return parser


def _letters(title: str) -> str:
    return "".join(filter(str.isalpha, title)).casefold()


def _is_hidden(given: Mapping[str, str]) -> bool:
    """Return whether an element says that it is not shown, or not read aloud, and is no panel of tabs."""
    is_hidden = "hidden" in given or given.get("aria-hidden") == "true" or _HIDDEN.search(given.get("style", ""))
    return bool(is_hidden) and PANELS.isdisjoint([*given.get("class", "").split(), given.get("role")])


class _Parser(HTMLParser):
    """Write text to a builder; what another parser has seen of the whole page is known."""

    def __init__(
        self,
        builder: TextBuilder,
        *,
        main_only: bool,
        unread: AbstractSet[str] = UNREAD,
        hidden: bool = False,
        repeated: bool = False,
        known: _Parser | None = None,
    ) -> None:
        super().__init__(convert_charrefs=True)
        self.title: list[str] = []
        self.headings: set[str] = set()
        self.tables: list[Table] = []
        self.lists: list[List] = []
        self.boxes = Boxes()
        self._known = known
        self._page = builder
        self._first = builder.size
        self._main_only = main_only
        self._unread, self._hidden, self._repeated = unread, hidden, repeated
        self.left_out = Counter[str]()  # kind -> number of characters
        self._skipping: list[str] = []  # the skipped element that is open, and those of its name within it
        self._skipped_as = ""  # its kind
        self._main: list[str] = []  # likewise the main part
        self._open_tables: list[Table] = []
        self._open_lists = [List({}, 0, is_ordered=False)]  # the first for items without a list
        self._formula: Formula | None = None
        self._in_paragraph = self._in_anchor = False
        self._in_link = False  # to a place of a page, which may be this one by its name
        self._linked: str | None = ""  # text of such links in the line, None if it has other words
        self._pre = 0
        self._sup = False
        self._reading = False  # of ruby characters; its end tag may be left out
        self._in_title = False
        self._heading: list[str] | None = None
        self._level = 0

    @property
    def size(self) -> int:
        """Number of characters that were written."""
        return self._page.size - self._first

    def read(self, html: str) -> None:
        self.feed(html)
        self.close()
        self._end_formula()
        self._new_line(0)
        self._end_heading()
        while self._open_tables:
            self._close("table")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        number = self._open(tag, given)
        if self._skipping:
            if tag == self._skipping[0]:
                self._skipping.append(tag)
            return
        if tag == "math" and given.get("alttext"):
            self.handle_data(given["alttext"])
            self._skip(tag, "")
            return
        kind = None if tag in VOID else self._kind_skipped(tag, given, number)
        if kind is not None:
            self._skip(tag, kind)
            return
        if self._formula and tag not in BREAKOUT:
            self._formula.start(tag, given)
            return
        if tag in (self._main[:1] or ["main"]) or (not self._main and given.get("role") == "main"):
            self._main.append(tag)
        self._sup = self._sup or tag == "sup"
        self._reading = tag in READINGS or (self._reading and tag not in PARAGRAPHS)
        self._in_title = self._in_title or (tag == "title" and not self.title)
        self._in_link = self._in_link or (tag == "a" and "#" in given.get("href", ""))
        self._start_anchor(tag, given)
        self._start(tag, given)

    def _start_anchor(self, tag: str, given: Mapping[str, str]) -> None:
        """Count the links outside of paragraphs."""
        if tag in PARAGRAPHS:
            self._in_paragraph = tag == "p"
        if tag == "a" and "href" in given and not self._in_paragraph:
            self._in_anchor = True
            self.boxes.link()

    def _open(self, tag: str, given: Mapping[str, str]) -> int:
        """Count tables, lists and boxes, those that are skipped as well, and return the number of a box."""
        if self._open_tables:
            self._open_tables[-1].hold(tag, is_part=tag in PARTS)
        if tag == "table":
            self.tables.append(Table(self._known.tables[len(self.tables)] if self._known else None))
            self._open_tables.append(self.tables[-1])
        elif tag in ("ol", "ul"):
            items = self._known.lists[len(self.lists)].items if self._known else 0
            self.lists.append(List(given, items, is_ordered=tag == "ol"))
            self._open_lists.append(self.lists[-1])
        elif tag == "li":
            self._open_lists[-1].items += 1
        return self.boxes.start(tag)

    def _skip(self, tag: str, kind: str) -> None:
        self._skipping.append(tag)
        self._skipped_as = kind

    def _kind_skipped(self, tag: str, given: Mapping[str, str], number: int) -> str | None:
        """Return the kind of an element that is left out, "" for one without a text of its own; None for others."""
        is_permalink = tag == "a" and not PERMALINKS.isdisjoint(given.get("class", "").split())
        if tag in self._unread or is_permalink:  # some themes name headings like a permalink
            return ""
        if not self._hidden and _is_hidden(given):
            return HIDDEN
        if self._repeated:
            return None
        is_menu = self._known is not None and number in self._known.boxes.menus
        return MENUS if is_menu or given.get("role") == "navigation" else REPEATED.get(tag)

    def _leave_out(self, kind: str, text: str) -> None:
        if kind:
            self.left_out[kind] += len(" ".join(text.split()))

    def _start(self, tag: str, given: Mapping[str, str]) -> None:
        self._end_formula()
        if tag == "math":
            self._formula = Formula()
        elif tag in HEADINGS:
            self._new_line()
            self._end_heading()
            self._heading, self._level = [], HEADINGS[tag]
        elif tag in ROWS:
            self._end_row()
        elif tag in CELLS:
            self._start_cell(given)
        elif self._writes():
            self._start_block(tag, given)

    def _start_cell(self, given: Mapping[str, str]) -> None:
        if self._open_tables and self._open_tables[-1].is_data:
            self._open_tables[-1].begin_cell(given)
        elif self._writes():
            self._new_line(2)

    def _start_block(self, tag: str, given: Mapping[str, str]) -> None:
        if tag in PARAGRAPHS:
            if tag != "div":
                self._end_heading()
            self._new_line(2)
            self._pre += tag == "pre"
        elif tag in LINES:
            self._new_line()
            self._builder.mark = self._open_lists[-1].next_mark(given) if tag == "li" else ""
        elif tag == "input" and given.get("type") in ("checkbox", "radio") and not {"role", "hidden"} & given.keys():
            self._builder.write_inline("☒ " if "checked" in given else "☐ ")

    def handle_endtag(self, tag: str) -> None:
        self._close(tag)
        if self._skipping:
            if tag == self._skipping[0]:
                self._skipping.pop()
            return
        if self._formula and tag not in BREAKOUT:
            self._formula.end(tag)
            if tag == "math":
                self._end_formula()
            return
        self._end_formula()
        self._sup = self._sup and tag != "sup"
        self._reading = self._reading and tag not in {"ruby", *READINGS, *PARAGRAPHS}
        self._in_link = self._in_link and tag != "a"
        self._in_anchor = self._in_anchor and tag != "a"
        self._in_paragraph = self._in_paragraph and tag not in PARAGRAPHS
        self._in_title = self._in_title and tag != "title"
        if tag in HEADINGS:
            self._end_heading()
        elif self._writes():
            self._end_block(tag)
        if self._main and tag == self._main[0]:
            self._main.pop()

    def _close(self, tag: str) -> None:
        self.boxes.end(tag)
        if tag in ROWS or tag == "table":
            self._end_row()
        if tag == "table" and self._open_tables:
            has_text = self._open_tables.pop().has_text
            if self._open_tables and has_text:
                self._open_tables[-1].hold("table", is_part=True)
        elif tag in ("ol", "ul"):
            del self._open_lists[max(1, len(self._open_lists) - 1) :]

    def _end_block(self, tag: str) -> None:
        if tag in PARAGRAPHS:
            self._new_line(2)
            self._pre -= tag == "pre" and self._pre > 0
        elif tag in LINES:
            self._new_line()
        if tag in ("li", "ol", "ul"):
            self._builder.mark = ""

    def _end_row(self) -> None:
        cells = self._open_tables[-1].end_row() if self._open_tables else []
        if self._writes():
            self._page.row(cells)
        else:
            self._leave_out(BESIDE, " ".join(cells))

    def _end_formula(self) -> None:
        formula, self._formula = self._formula, None
        if formula is not None:
            self.handle_data(formula.build())

    def handle_data(self, data: str) -> None:
        if self._skipping or self._reading:
            self._leave_out(self._skipped_as if self._skipping else "", data)
            return
        if self._formula:
            self._formula.write(data)
            return
        if self._open_tables and not data.isspace():
            self._open_tables[-1].has_text = True
        if self._sup and self._last.isdigit() and _EXPONENT.match(data):
            data = "^" + data
        self._sup = False
        if self._in_title:
            self.title.append(data)
            return
        self.boxes.write(
            data,
            is_linked=self._in_anchor and not self._open_tables,
            is_main=bool(self._main),
            heading=0 if self._heading is None else self._level,
        )
        if self._heading is not None:
            self._heading.append(data)
        elif self._writes() or self._builder is not self._page:
            self._write(data)
        else:
            self._leave_out(BESIDE, data)

    def _write(self, data: str) -> None:
        if self._linked is not None and any(map(str.isalpha, data)):  # which ends at the first letter
            self._linked = self._linked + _letters(data) if self._in_link else None
        if self._pre:
            self._builder.write(data)
        else:
            self._builder.write_inline(data)

    @property
    def _builder(self) -> TextBuilder:
        """What text is written to: the cell of a table of data, which may hold an empty table, or else the page."""
        cells = [each.cell for each in self._open_tables[-2:] if each.cell is not None]
        return cells[-1] if cells else self._page

    @property
    def _last(self) -> str:
        """The last character that was written."""
        return self._builder.last if self._heading is None else "".join(self._heading[-1:])[-1:]

    def _writes(self) -> bool:
        return self._heading is None and (bool(self._main) or not self._main_only)

    def _new_line(self, newlines: int = 1) -> None:
        """End a line; one of links to headings of the page repeats them."""
        if self._known and not self._repeated and self._linked and self._linked in self._known.headings:
            before = self._builder.size
            self._builder.drop_line()
            self.left_out[CONTENTS] += before - self._builder.size
        self._linked = ""
        self._builder.new_line(newlines)

    def _end_heading(self) -> None:
        title, self._heading = "".join(self._heading or ()), None
        self.headings.add(_letters(title))
        if self._main or not self._main_only:
            self._page.heading(self._level, title)
        else:
            self._leave_out(BESIDE, title)
