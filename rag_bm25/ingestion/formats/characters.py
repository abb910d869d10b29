"""Read the characters of a page of PDF, with their places."""

from __future__ import annotations

import re
from ctypes import addressof, byref, c_double, c_float, c_int, create_string_buffer
from math import atan2, hypot, pi
from typing import TYPE_CHECKING, Any, NamedTuple

from rag_bm25.ingestion.formats.layout import BLANK, CELL, HYPHENS, MIN_ROWS, Page, Span, rows_of
from rag_bm25.ingestion.formats.ruling import THIN, Rules

if TYPE_CHECKING:
    from collections.abc import Iterator

OBLIQUE = 4  # a direction that is none of the four, as that of watermarks
STRAIGHT = 0.05  # quarters of a turn that a line may be off
WIDEST = 1.3  # em of a letter
SHIFT = 0.6  # em that letters of a word may be above others
ALIKE = 0.1  # em that sizes and lines of one style differ
MIN_SIZE, MAX_SIZE = 1.0, 999.0  # points
BOLD_WEIGHT = 600
OUTLINED = 2  # the mode of text that is filled and drawn around: bold, where a font has no bold letters
MAX_OBJECTS = 20_000  # of a page whose lines are read
NAME = 80  # bytes of the name of a font
LEAST = 50  # characters of a page that tell whether it can be read
FILL = " .·…_-–—=*|"  # signs that pages have many of: leaders, lines to be filled in, and rules
NO_SPAN = Span(0, 0, 0, 0, "")
_BOLD = re.compile(rb"bold|black|heavy|demi|[-,]bd|cmbx", re.IGNORECASE)
_HYPHENS = "".join(HYPHENS[:2])
_WORD = re.compile(rf"[^\s\u200b\ufeff{_HYPHENS}]+[{_HYPHENS}]?|[{_HYPHENS}]")
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_CONTROL = re.compile(r"[\0\1\x03-\x08\x0e-\x1f\x7f]")  # a letter whose font does not tell what it is


_Box = tuple[float, float, float, float]  # left, bottom, right, top
_Place = tuple[float, float, float]


class _Style(NamedTuple):
    """How a text object is set: its direction in quarters of a turn, and where its line is."""

    direction: int
    size: float
    is_bold: bool
    x: float
    y: float


def read_page(page: Any) -> Page:
    """Read the lines of a page."""
    textpage = page.get_textpage()
    characters = _Characters(textpage, page.get_bbox())
    spans: dict[int, list[Span]] = {}
    for direction, span in characters.spans():
        spans.setdefault(direction, []).append(span)
    textpage.close()
    left, bottom, right, top = page.get_bbox()
    turned = page.get_rotation() // 90
    size = (right - left, top - bottom) if turned % 2 == 0 else (top - bottom, right - left)
    upright = rows_of(spans.pop(turned, []))
    aside = [row for _, each in sorted(spans.items()) for row in rows_of(each)]
    width = size[0] if characters.is_mirrored else None
    rules = _rules(page, turned, width) if sum(len(row) > 1 for row in upright) >= MIN_ROWS else Rules()
    return Page(*size, upright, aside, rules)


def _rules(page: Any, turned: int, mirrored: float | None) -> Rules:
    """Read the lines and boxes of a page, given its width if it is mirrored; a drawing of very many has no tables."""
    from pypdfium2 import raw

    count = raw.FPDFPage_CountObjects(page.raw)
    objects = (raw.FPDFPage_GetObject(page.raw, at) for at in range(count if count <= MAX_OBJECTS else 0))
    paths = (each for each in objects if raw.FPDFPageObj_GetType(each) == raw.FPDF_PAGEOBJ_PATH)
    edges = [c_float() for _ in range(4)]
    places = [byref(edge) for edge in edges]
    fill, is_drawn = c_int(), c_int()
    found = []
    for path in paths:
        if raw.FPDFPageObj_GetBounds(path, *places):
            x0, y0, x1, y1 = (edge.value for edge in edges)
            is_line = min(x1 - x0, y1 - y0) <= THIN
            if is_line or (raw.FPDFPath_GetDrawMode(path, byref(fill), byref(is_drawn)) and is_drawn.value):
                left, top, right, bottom = _turned((x0, y0, x1, y1), turned, page.get_bbox())
                found.append(
                    (left, top, right, bottom) if mirrored is None else (mirrored - right, top, mirrored - left, bottom)
                )
    return Rules.of(found)


def is_readable(page: Page) -> bool:
    """Whether the text of a page is letters, and not the signs that a font without names of them leaves."""
    text = "".join(span.text for row in page.rows for span in row)
    signs = len(text) - sum(map(str.isalnum, text)) - sum(map(text.count, FILL))
    return len(text) < LEAST or signs <= len(text) / 2


class _Characters:
    """The characters of a page. Each place costs a call: those of the ends of words are enough."""

    def __init__(self, textpage: Any, box: _Box) -> None:
        from pypdfium2 import raw

        self._pdfium = raw
        self._page = textpage.raw
        self._box = box
        self._rect = raw.FS_RECTF()
        self._rect_place = byref(self._rect)
        self._styles: dict[int, _Style] = {}
        self._fonts: dict[int, bool] = {}
        count = raw.FPDFText_CountChars(self._page)
        text = textpage.get_text_range() if count else ""
        if len(text) != count:  # some have no text, or two units
            text = "".join(chr(raw.FPDFText_GetUnicode(self._page, at)) for at in range(count))
        self._text = _CONTROL.sub("\ufffd", text)
        # What is read from the right to the left is mirrored, so that everything else reads to the right.
        self.is_mirrored = 2 * len(_RIGHT_TO_LEFT.findall(text)) > sum(map(str.isalpha, text))

    def spans(self) -> Iterator[tuple[int, Span]]:
        """Yield the text of one style on a line, with its direction."""
        run: list[str] = []
        first, edge, after, direction, order = NO_SPAN, 0.0, 0, OBLIQUE, 0
        for start, end, turned, span in self._words():
            is_alike = run and turned == direction and _is_of_style(span, first)
            joint = self._between(span.x0 - edge, span, after, start) if is_alike else None
            if joint is None:
                if run:
                    yield direction, first._replace(x1=edge, text=_text_of(run), order=order)
                    order += 1
                run, first, edge = [span.text], span._replace(follows_blank=start > after), span.x1
            else:
                run += [joint, span.text]
                edge = max(edge, span.x1)
            direction, after = turned, end
        if run:
            yield direction, first._replace(x1=edge, text=_text_of(run), order=order)

    def _between(self, gap: float, span: Span, after: int, start: int) -> str | None:
        """Return what is between a word and the one before it, None if they are apart."""
        if gap < -span.size:
            return None
        if gap > CELL * span.size and (start != after + 1 or gap > self._width(after) + BLANK * span.size):
            return None
        return " " if start > after or gap > BLANK * span.size else ""

    def _width(self, at: int) -> float:
        """Return how wide a blank is that the page has: in Chinese, it may be as wide as a gap of cells."""
        box = self._character_box(at, self._style(at))
        return max(box[2] - box[0], box[3] - box[1])

    def _words(self) -> Iterator[tuple[int, int, int, Span]]:
        """Yield the words within the page: start, end, direction and place."""
        left, bottom, right, top = self._box
        for match in _WORD.finditer(self._text):
            for start, end, box, style in self._whole(match.start(), match.end()):
                if box[0] <= right and box[2] >= left and box[1] <= top and box[3] >= bottom:
                    place = self._place(box, style)
                    yield start, end, style.direction, Span(*place, style.size, self._text[start:end], style.is_bold)

    def _place(self, box: _Box, style: _Style) -> _Place:
        x0, x1, y = _TURNS[style.direction](box, style, self._box)
        along = style.direction % 2
        width = self._box[2 + along] - self._box[along]
        return (width - x1, width - x0, y) if self.is_mirrored else (x0, x1, y)

    def _whole(self, start: int, end: int) -> list[tuple[int, int, _Box, _Style]]:
        """Return a word, or its characters, if they do not stand on one line beside each other."""
        style = self._style(start)
        first = self._character_box(start, style)
        if end - start == 1:
            return [(start, end, first, style)]
        last = self._character_box(end - 1, style)
        along = style.direction % 2
        box = (min(first[0], last[0]), min(first[1], last[1]), max(first[2], last[2]), max(first[3], last[3]))
        is_far = box[2 + along] - box[along] > WIDEST * (end - start) * style.size
        if is_far or abs(first[1 - along] - last[1 - along]) > SHIFT * style.size:
            return [part for at in range(start, end) for part in self._whole(at, at + 1)]
        return [(start, end, box, style)]

    def _character_box(self, at: int, style: _Style) -> _Box:
        rect = self._rect
        if not self._pdfium.FPDFText_GetLooseCharBox(self._page, at, self._rect_place):
            return style.x, style.y, style.x, style.y
        return rect.left, rect.bottom, rect.right, rect.top

    def _style(self, at: int) -> _Style:
        """Return the style of a character, which all of its text object have."""
        shown = self._pdfium.FPDFText_GetTextObject(self._page, at)
        key = addressof(shown.contents) if shown else -1 - at
        if key not in self._styles:
            self._styles[key] = self._read_style(at, shown)
        return self._styles[key]

    def _read_style(self, at: int, shown: Any) -> _Style:
        matrix, x, y = self._pdfium.FS_MATRIX(), c_double(), c_double()
        self._pdfium.FPDFText_GetMatrix(self._page, at, byref(matrix))
        self._pdfium.FPDFText_GetCharOrigin(self._page, at, byref(x), byref(y))
        size = self._pdfium.FPDFText_GetFontSize(self._page, at) * hypot(matrix.c, matrix.d)
        turns = atan2(matrix.b, matrix.a) / (pi / 2) + (2 if size < 0 else 0)
        direction = round(turns) % 4 if abs(turns - round(turns)) < STRAIGHT else OBLIQUE
        font = self._pdfium.FPDFTextObj_GetFont(shown) if shown else None
        key = addressof(font.contents) if font else 0
        if key not in self._fonts:
            self._fonts[key] = self._is_bold(at)
        is_bold = self._fonts[key] or (bool(shown) and self._pdfium.FPDFTextObj_GetTextRenderMode(shown) == OUTLINED)
        return _Style(direction, min(max(abs(size), MIN_SIZE), MAX_SIZE), is_bold, x.value, y.value)

    def _is_bold(self, at: int) -> bool:
        name, flags = create_string_buffer(NAME), c_int()
        self._pdfium.FPDFText_GetFontInfo(self._page, at, name, NAME, byref(flags))
        return bool(_BOLD.search(name.value)) or self._pdfium.FPDFText_GetFontWeight(self._page, at) >= BOLD_WEIGHT


def _text_of(run: list[str]) -> str:
    """Join the words of a line; a character of two units is one again."""
    text = "".join(run)
    return _PAIR.sub(lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), text)


def _is_of_style(span: Span, other: Span) -> bool:
    limit = ALIKE * span.size
    return span.is_bold == other.is_bold and abs(other.size - span.size) <= limit and abs(other.y - span.y) <= limit


def _turned(box: _Box, direction: int, page: _Box) -> _Box:
    """Return left, top, right and bottom of a box, as a page is read."""
    (x0, y0, x1, y1), (left, bottom, right, top) = box, page
    return (
        (x0 - left, top - y1, x1 - left, top - y0),
        (y0 - bottom, x0 - left, y1 - bottom, x1 - left),
        (right - x1, y0 - bottom, right - x0, y1 - bottom),
        (top - y1, right - x1, top - y0, right - x0),
    )[direction]


def _upright(box: _Box, style: _Style, page: _Box) -> _Place:
    return box[0] - page[0], box[2] - page[0], page[3] - style.y


def _upwards(box: _Box, style: _Style, page: _Box) -> _Place:
    return box[1] - page[1], box[3] - page[1], style.x - page[0]


def _upside_down(box: _Box, style: _Style, page: _Box) -> _Place:
    return page[2] - box[2], page[2] - box[0], style.y - page[1]


def _downwards(box: _Box, style: _Style, page: _Box) -> _Place:
    return page[3] - box[3], page[3] - box[1], page[2] - style.x


_TURNS = (_upright, _upwards, _upside_down, _downwards, _upright)
"""Return where text begins and ends, and its baseline, as it is read from left to right, and from the top."""
