"""The layout of pages: lines, columns, tables, headings and paragraphs, by the places of their text.

Places are in points, from the left and from the top of a page as it is read. Nothing here knows PDF.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from dataclasses import dataclass, field
from itertools import accumulate, chain, dropwhile, groupby, pairwise
from statistics import median
from typing import TYPE_CHECKING, Literal, NamedTuple

from rag_bm25.ingestion.formats.ruling import Rules

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

BLANK = 0.3  # em between words without a blank
CELL = 0.9  # em between cells; a blank of justified lines is seldom wider
MARK = 4  # em between the mark of a list and its text
SAME_LINE = 0.35  # em between the baselines of a line
RAISED = 0.55  # em that small text is above its line
SMALL = 0.8  # times the size of its line: raised or lowered text
MIN_NUMBERED = 8  # lines of a page that has numbers of lines
SHADOWS = 8  # texts of the same words that are compared with a new one
COLUMN = 9  # em: columns of prose are not narrower
MIN_LINES = 4  # of a column
MAX_DEPTH = 4  # columns within columns
MAX_TRIES = 6  # places where columns may be apart
NEXT = 2  # texts written next to each other
STEP = 2  # points between these
MAX_STEPS = 1000
SAME_HEIGHT = 0.12  # em between lines of two columns that are one line
SHARED = 0.4  # of the lines of a column have one beside them, if by chance
EVEN = 0.7  # of the longest lines: most lines of prose
LETTERS = 0.6  # of the characters of prose
MIN_ROWS = 2  # of a table
MAX_CELLS = 100  # of a row
MAX_ROW = 6  # lines of a row between rules
MAX_SINGLE = 2  # lines of a cell that stand alone
LOOK_BACK = 9  # rows
FAR = 2.5  # line distances between rows
NEAR = 0.8  # of the distance of rows: a further line of a cell is nearer
LIKE = 0.2  # sizes of rows differ by this share
GRID = 3  # points that cells may be out of line
WIDEST_CELL = 0.6  # of the width of its table
CROSSING = 6  # one row of so many may cover the place between columns
MAX_HEADER = 3  # rows that are joined to a header
MAX_NAME = 40  # characters of a name in a header
STRETCHED = 4  # em between words of lines that are stretched to the edges
APART = 1.5  # line distances: a line that is farther begins a paragraph
LONG = 0.6  # of the width of a column: a line that goes on is not shorter
INDENT = 1.2  # em
EDGE = 2.5  # em between the ends of full lines
LARGE = 1.15  # times the size of most text: a heading
MAX_HEADING = 100  # characters
MAX_BELOW = 6  # lines below a heading: others, and prose
MAX_LEVELS = 4  # of headings, by their sizes
RARE = 0.3  # of a document at most is bold, if bold lines are headings
USUAL = 0.6  # of a document is of one size, if its sizes tell headings
MAX_TITLE_LINES = 3  # of a title of the outline
STICKING_OUT = 5  # lines at most that are longer than the edge of the others
HYPHENS = ("\ufffe", "\x02", "\xad")  # at the end of a line, where a word goes on

PAGE = "\f"  # where a page begins within a paragraph

CJK = r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]"
_ENDS_IN_CJK, _BEGINS_WITH_CJK = re.compile(rf"{CJK}\Z"), re.compile(CJK)
_BULLET = r"[\ufffd•●○▪■◆·‣∙\uf000-\uf0ff☐☑]"
_END = re.compile(r"[。！？；：.!?:;…][”’」』）》)\"'\]]*$")
_ITEM = re.compile(
    rf"{_BULLET}|[-–—*] |\(?(?:\d{{1,3}}(?:\.\d{{1,3}}){{0,4}}|[A-Za-z]|[ivx]{{1,5}})[.)]\s|[①-⑳]"
    r"|\d{1,3}(?:[、．]|[.)](?!\d))|[（(][一二三四五六七八九十\d]{1,3}[）)]|[一二三四五六七八九十]{1,3}[、．.]"
    r"|第[一二三四五六七八九十百零〇\d]{1,6}[章节条讲部篇]|//"
)
_CHAPTER = re.compile(r"第[一二三四五六七八九十百零〇\d]{1,6}[章节讲部篇]|[一二三四五六七八九十]{1,3}、")
_SIGNS = re.compile(r"[-=_*~.·—─━ ]{4,}")  # a rule

_NO_HEADING = re.compile(rf"[。；，,;:：]$|[a-z)]\.$|@|^(?:{_BULLET}|[a-z）)，。]|(?i:fig(?:\.|ure)|table|图|表) ?\d)")
_SECTION = re.compile(r"\d{1,3}(?:\.\d{1,3})* (?=[^\W\d_])")
_NAME = re.compile(rf"[^\W\d_]{{3}}|{CJK}{{2}}")
_PREFIX = re.compile(r"^[\da-z.]{1,12}?(?=[^\d.])")
_LEADER = re.compile(r"\s*(?:[.·…] ?){5,}\Z")
_NUMBER = re.compile(r"[-+(]?[$€£¥]?\s*\d[\d,.\s]*%?\)?|[-–—]|N/?A", re.IGNORECASE)
_MARK = re.compile(
    rf"{_BULLET}|[–—*-]|\(?(?:\d{{1,2}}(?:\.\d{{1,2}}){{0,4}}\.?|[A-Za-z]|[ivx]{{1,5}})[.)]"
    r"|\d{1,3}(?:\.\d{1,2}){0,4}|[①-⑳]"
)


class Span(NamedTuple):
    """Text on one line without wide gaps; `y` is its baseline."""

    x0: float
    x1: float
    y: float
    size: float
    text: str
    is_bold: bool = False
    follows_blank: bool = False
    order: int = 0  # in which the page is written


Row = list[Span]  # what stands on one line, from left to right


@dataclass
class Page:
    """The lines of a page, and those that are written in another direction."""

    width: float
    height: float
    rows: list[Row]
    aside: list[Row] = field(default_factory=list)
    rules: Rules = field(default_factory=Rules)


def text_of(row: Iterable[Span]) -> str:
    """Return the text of a row."""
    return " ".join(span.text for span in row)


def glue(before: str, after: str) -> str:
    """Return what is between the text of two lines: no blank is between ideographs, or within a word."""
    is_one = before.endswith(HYPHENS) or (_ENDS_IN_CJK.search(before) and _BEGINS_WITH_CJK.match(after))
    return "" if is_one else " "


# Rows


def rows_of(spans: Iterable[Span]) -> list[Row]:
    """Join the spans of lines up to wide gaps, from the top of a page to its bottom."""
    lines = _on_lines(_once(spans))
    numbers = {row[0] for row in numbered(lines)}
    return [[*row[:1], *_joined(row[1:])] if row[0] in numbers else _joined(row) for row in lines]


def numbered(rows: Sequence[Row]) -> list[Row]:
    """Return the rows that begin with the number of their line: it counts all of them, left of all text."""
    places: dict[int, list[Row]] = {}
    for row in rows:
        if row[0].text.isdecimal() and len(row[0].text) < MIN_NUMBERED:
            places.setdefault(round(row[0].x1 / GRID), []).append(row)
    edge, found = max(places.items(), key=lambda place: len(place[1]), default=(0, []))
    is_list = len(found) < MIN_NUMBERED or all(len(row) > 1 for row in found)  # no list numbers empty lines
    counts = all(int(b[0].text) == int(a[0].text) + 1 for a, b in pairwise(found))
    is_apart = sum(span.x0 <= (edge + 1) * GRID for row in rows for span in row) == len(found)
    return found if counts and is_apart and not is_list else []


def _once(spans: Iterable[Span]) -> Iterator[Span]:
    """Leave out text that is set twice at a place, as a shadow or for weight."""
    places: dict[str, deque[Span]] = {}
    for span in spans:
        near = 0.3 * span.size
        others = places.setdefault(span.text, deque(maxlen=SHADOWS))
        if not any(abs(each.x0 - span.x0) < near and abs(each.y - span.y) < near for each in others):
            others.append(span)
            yield span


def _on_lines(spans: Iterable[Span]) -> list[Row]:
    """Group what is on one line: that of the largest text there."""
    rows: list[Row] = []
    height = line = 0.0
    for span in sorted(spans, key=lambda each: (each.y, each.x0)):
        is_raised = height < SMALL * span.size  # what is there is above the line, as marks of notes are
        em = min(max(span.size, height), 2 * min(span.size, height))  # that of a watermark is no measure
        if rows and span.y - line <= (RAISED if is_raised else SAME_LINE) * em:
            rows[-1].append(span)
        else:
            rows.append([span])
            height = 0.0
        if span.size >= height:
            height, line = span.size, span.y
    return [sorted(row, key=lambda each: each.x0) for row in rows]


def _joined(row: Row) -> Row:
    """Join what is not farther apart than words, or than a mark and its item."""
    runs: list[Row] = []
    end = 0.0
    for span in row:
        run = runs[-1] if runs else []
        is_mark = len(run) == 1 and _is_mark_of(run[0], span, is_first=len(runs) == 1)
        if run and span.x0 - end <= (MARK if is_mark else CELL) * max(span.size, run[-1].size):
            run.append(span)
            end = max(end, span.x1)
        else:
            runs.append([span])
            end = span.x1
    return [run[0] if len(run) == 1 else _join(run) for run in runs]


def _is_mark_of(mark: Span, span: Span, *, is_first: bool) -> bool:
    """Whether text is the mark of an item, or the number of a heading; a number within a row may be a cell."""
    if not _MARK.fullmatch(mark.text):
        return False
    is_heading = mark.is_bold and span.is_bold
    return not mark.text[-1].isdigit() or (span.text[0].isalpha() and (is_first or is_heading))


def _join(run: Row) -> Span:
    parts, end = [run[0].text], run[0].x1
    for span in run[1:]:
        touches = not span.follows_blank and -BLANK < (span.x0 - end) / span.size < BLANK
        parts.append(span.text if touches else f" {span.text}")
        end = max(end, span.x1)
    main = max(run, key=lambda each: len(each.text))
    letters = sum(len(each.text) for each in run)
    is_bold = sum(len(each.text) for each in run if each.is_bold) > SMALL * letters
    return Span(run[0].x0, end, main.y, main.size, "".join(parts), is_bold, order=run[-1].order)


# Columns


def regions(rows: Sequence[Row], rules: Rules | None = None) -> Iterator[list[Row]]:
    """Yield the rows of a page in the order of reading: columns, and what is above, between and below them."""
    whole: list[Row] = []
    for is_table, band in _bands(rows, rules or Rules()):
        parts = [band] if is_table else list(_columns(band))
        if len(parts) == 1:
            whole += band
        else:
            yield from filter(None, [whole, *parts])
            whole = []
    if whole:
        yield whole


def _bands(rows: Sequence[Row], rules: Rules) -> Iterator[tuple[bool, list[Row]]]:
    """Set apart rows that no column has: those of many cells, and of tables as wide as the page by their rules."""
    left, right = min(row[0].x0 for row in rows), max(row[-1].x1 for row in rows)
    edges = [edge for table in rules.tables(left, right) for edge in table]
    band: list[Row] = []
    for is_table, group in groupby(rows, lambda row: bisect_left(edges, row[0].y) % 2 or _has_many_cells(row)):
        found = list(group)
        if is_table and len(found) >= MIN_LINES:
            yield from ((False, each) for each in [band] if band)
            yield True, found
            band = []
        else:
            band += found
    if band:
        yield False, band


def _has_many_cells(row: Row) -> bool:
    return len(row) > MAX_DEPTH and all(span.x1 - span.x0 < COLUMN * span.size for span in row)


def _columns(rows: Sequence[Row], depth: int = 0) -> Iterator[list[Row]]:
    """Yield columns one after the other; what crosses them cuts them into bands."""
    gutter = _gutter(rows) if depth < MAX_DEPTH and len(rows) >= MIN_LINES else None
    if gutter is None:
        yield list(rows)
        return
    across: list[Row] = []
    for sides, following in _cut(rows, gutter):
        if any(sides):
            yield from filter(None, [across])
            across = []
        for side in filter(None, sides):
            yield from _columns(_on_lines(side), depth + 1)
        across += [[span] for span in following]
    yield from filter(None, [across])


def _cut(rows: Sequence[Row], gutter: float) -> Iterator[tuple[list[Row], Row]]:
    """Yield what is left and right of a gutter, and the text below that crosses it."""
    spans = [span for row in rows for span in row]
    crossing = [span for span in spans if span.x0 < gutter < span.x1]
    lines = [span.y for span in crossing]
    bands: list[list[Row]] = [[[], []] for _ in range(len(crossing) + 1)]
    for span in spans:
        if not span.x0 < gutter < span.x1:
            bands[bisect_left(lines, span.y - SAME_LINE * span.size)][span.x0 >= gutter].append(span)
    return zip(bands, [*([span] for span in crossing), []], strict=True)


def _gutter(rows: Sequence[Row]) -> float | None:
    """Return the x between two columns of prose, if there are any."""
    spans = [span for row in rows for span in row]
    em = median(span.size for span in spans)
    starts, ends = sorted(span.x0 for span in spans), sorted(span.x1 for span in spans)
    scores: dict[tuple[int, int], tuple[int, float]] = {}
    first, last = int(starts[0] + COLUMN * em), int(ends[-1] - COLUMN * em)
    for x in range(first, last, max(STEP, (last - first) // MAX_STEPS)):
        before, after = bisect_right(ends, x), len(starts) - bisect_left(starts, x)
        smaller = min(before, after)
        score = 2 * smaller - (len(spans) - before - after)
        if smaller >= MIN_LINES and score > 0:
            scores.setdefault((before, after), (score, float(x)))
    tried = sorted(scores.values(), reverse=True)[:MAX_TRIES]
    found = [x for _, x in tried if _are_columns(rows, x, em)]
    return next((x for x in found if _has_even_columns(spans, x, COLUMN * em)), found[0] if found else None)


def _are_columns(rows: Sequence[Row], gutter: float, em: float) -> bool:
    """Whether both sides have long lines, which are prose or at different heights; cells are short, and on one line."""
    spans = [span for row in rows for span in row]
    sides = [span for span in spans if span.x1 <= gutter], [span for span in spans if span.x0 >= gutter]
    if _are_written_across(rows, gutter):
        return False
    if _has_even_columns(spans, gutter, COLUMN * em):
        return True
    usual, most = zip(*(_widths(side) for side in sides), strict=True)
    if min(usual) < COLUMN * em:
        return False
    small, large = sorted(sides, key=len)
    heights = {round(span.y / (SAME_HEIGHT * em)) for span in large}
    places = (round(span.y / (SAME_HEIGHT * em)) for span in small)
    shared = sum(not heights.isdisjoint(range(at - 1, at + 2)) for at in places)
    are_even = all(a >= EVEN * b for a, b in zip(usual, most, strict=True))
    return shared < SHARED * len(small) or (are_even and all(_share_of_letters(side) > LETTERS for side in sides))


def _are_written_across(rows: Sequence[Row], gutter: float) -> bool:
    """Whether most lines that a gutter cuts were written as one, as the rows of a table are."""
    pairs = [(a, b) for row in rows for a, b in pairwise(row) if a.x1 <= gutter <= b.x0]
    return sum(0 < b.order - a.order <= NEXT for a, b in pairs) > len(pairs) / 2


def _has_even_columns(spans: Sequence[Span], gutter: float, width: float) -> bool:
    """Whether lines on both sides begin and end at the same places, as those of columns do and cells seldom."""
    wide = [span for span in spans if span.x1 - span.x0 > width and not span.x0 < gutter < span.x1]
    ends = Counter((span.x0 >= gutter, round(span.x0 / STEP), round(span.x1 / STEP)) for span in wide)
    return len({side for (side, *_), count in ends.items() if count >= MIN_LINES}) > 1


def _widths(spans: Iterable[Span]) -> tuple[float, float]:
    """Return how wide lines are in the middle and nearly at most, each by its letters: labels and cells have few."""
    lines = sorted((span.x1 - span.x0, len(span.text)) for span in spans)
    letters = list(accumulate(size for _, size in lines))
    middle, ninth = (lines[bisect_left(letters, share * letters[-1])][0] for share in (0.5, 0.9))
    return middle, ninth


def _share_of_letters(spans: Iterable[Span]) -> float:
    text = "".join(span.text for span in spans)
    return sum(map(str.isalpha, text)) / max(1, len(text))


# Tables


def _table_end(rows: Sequence[Row], start: int, leading: float) -> int:
    """Return where the table ends that begins with a row, `start` if none does: its rows have gaps above each other."""
    if not 1 < len(rows[start]) <= MAX_CELLS:
        return start
    edges = deque([_edges(rows[start])], maxlen=LOOK_BACK)
    above, full, end = rows[start], 1, start + 1
    left, right = above[0].x0, above[-1].x1
    distances: list[float] = []
    for at in range(start + 1, len(rows)):
        row = rows[at]
        step = row[0].y - rows[at - 1][0].y
        if step > FAR * (1 + (min(len(row), len(above)) > 2)) * max(leading, row[0].size):
            break
        if 1 < len(row) <= MAX_CELLS and _is_row(above, row, edges):
            distances.append(row[0].y - above[0].y)
            above, full, end = row, full + 1, at + 1
            edges.append(_edges(row))
        elif (
            len(row) > 1
            or at - end >= MAX_SINGLE
            or _is_caption(step, distances)
            or not _is_cell(row[0], left, right, above)
        ):
            break
        left, right = min(left, row[0].x0), max(right, row[-1].x1)
    if full < MIN_ROWS:
        return start
    usual = median(distances)
    while end < len(rows) and _is_further_line(rows, end, usual) and _is_cell(rows[end][0], left, right, above):
        end += 1
    return end


def _is_caption(step: float, distances: Sequence[float]) -> bool:
    """Whether text alone on its line is farther from the row before it than rows are."""
    return bool(distances) and step > APART * median(distances[-LOOK_BACK:])


def _edges(row: Row) -> set[int]:
    return {round(x / GRID) for span in row for x in (span.x0, -span.x1)}


def _is_row(above: Row, row: Row, edges: Iterable[set[int]]) -> bool:
    """Whether a row has a gap below one of the row before, or all its cells are below others."""
    if abs(row[0].size - above[0].size) > LIKE * row[0].size:
        return False
    if _share_gap(row, above):
        return True
    known = set[int]().union(*edges)
    return all(not known.isdisjoint(place for x in (span.x0, -span.x1) for place in _near(x)) for span in row)


def _share_gap(row: Row, other: Row) -> bool:
    least = CELL * row[0].size / 2
    return any(min(b, d) - max(a, c) > least for a, b in _gaps(row) for c, d in _gaps(other[:MAX_CELLS]))


def _near(x: float) -> range:
    return range(round(x / GRID) - 1, round(x / GRID) + 2)


def _gaps(row: Row) -> list[tuple[float, float]]:
    return [(before.x1, after.x0) for before, after in pairwise(row)]


def _is_cell(span: Span, left: float, right: float, above: Row) -> bool:
    """Whether text alone on its line may be the next line of a cell, and no prose; names may begin left of theirs."""
    is_below_first = left - COLUMN * span.size < span.x0 and span.x1 < above[1].x0
    is_inside = is_below_first or left - span.size < span.x0
    return is_inside and span.x1 < right + span.size and span.x1 - span.x0 <= WIDEST_CELL * (right - left)


def _is_further_line(rows: Sequence[Row], at: int, usual: float) -> bool:
    """Whether a line is nearer to the one before than rows are."""
    return len(rows[at]) == 1 and rows[at][0].y - rows[at - 1][0].y < NEAR * usual


def _cells_of(rows: Sequence[Row], rules: Rules) -> list[list[str]]:
    """Return the cells of a table's rows, one for each column."""
    full = [row for row in rows if len(row) > 1]
    usual = median(after[0].y - before[0].y for before, after in pairwise(full))
    gutters = _gutters(full)
    bands, single = _ruled_bands(rows, rules)
    table: list[list[list[str]]] = []
    begins = True
    for at, row in enumerate(rows):
        is_same = at > 0 and (bands[at] in single or _is_of_same_cells(rows, at, usual, begins=begins))
        begins = not is_same or bands[at] != bands[at - 1]
        if begins:
            table.append([[] for _ in range(len(gutters) + 1)])
        for span in row:
            middle = (span.x0 + min(span.x1, span.x0 + 2 * span.size)) / 2
            table[-1][bisect_left(gutters, middle)].append(span.text)
    return [[_LEADER.sub("", _joined_text(cell)) for cell in cells] for cells in table]


def _ruled_bands(rows: Sequence[Row], rules: Rules) -> tuple[list[int], set[int]]:
    """Return between which rules each line is, and between which of them there is one row."""
    left, right = min(row[0].x0 for row in rows), max(row[-1].x1 for row in rows)
    lines = rules.between_rows(left, right, rows[0][0].y, rows[-1][0].y)
    bands = [bisect_left(lines, row[0].y) for row in rows]
    most = max(map(len, rows))
    groups = groupby(zip(bands, rows, strict=True), key=lambda each: each[0]) if lines else ()
    return bands, {band for band, group in groups if _is_one_row([row for _, row in group], most)}


def _is_one_row(rows: Sequence[Row], most: int) -> bool:
    """Whether lines are few, and at most one has most cells, one has numbers and one has a label."""
    full = sum(len(row) > 2 / 3 * most for row in rows)
    numbers = sum(any(_NUMBER.fullmatch(span.text) for span in row) for row in rows)
    labels = sum(":" in text_of(row) for row in rows)
    return len(rows) <= MAX_ROW and max(full, numbers, labels) <= 1


def _is_of_same_cells(rows: Sequence[Row], at: int, usual: float, *, begins: bool) -> bool:
    """Whether a line goes on with the row of the line before, which `begins` it; text alone is in the nearer row."""
    step = rows[at][0].y - rows[at - 1][0].y
    if step >= NEAR * usual:
        return False
    if len(rows[at]) > 1:
        return begins and len(rows[at - 1]) == 1
    return at + 1 == len(rows) or step <= rows[at + 1][0].y - rows[at][0].y + BLANK


def _joined_text(lines: Sequence[str]) -> str:
    return "".join(chain(lines[:1], (glue(before, after) + after for before, after in pairwise(lines))))


def _gutters(rows: Sequence[Row]) -> list[float]:
    """Return where columns are apart: in the middle of what few rows cover, and where one has a gap."""
    covers: Counter[float] = Counter()  # how many rows begin or end to cover a place
    opens: Counter[float] = Counter()  # and to have a gap there
    for row in rows:
        for span in row:
            covers[span.x0] += 1
            covers[span.x1] -= 1
        for start, end in _gaps(row):
            opens[start] += 1
            opens[end] -= 1
    free: list[tuple[float, float]] = []
    covered = opened = 0
    for a, b in pairwise(sorted({*covers, *opens})):
        covered += covers[a]
        opened += opens[a]
        if covered <= len(rows) // CROSSING and opened > 0:
            free[-1:] = [(free[-1][0], b)] if free and free[-1][1] == a else [*free[-1:], (a, b)]
    return [(a + b) / 2 for a, b in free if b - a > CELL * rows[0][0].size / 2][:MAX_CELLS]


def _with_header(table: Sequence[list[str]]) -> list[list[str]]:
    """Join the first rows to one, if they are the lines of a header: names above numbers."""
    first = table[:MAX_HEADER]
    names = next((at for at, row in enumerate(first) if not _is_header(row) or (at and not any(row[1:]))), len(first))
    has_numbers = any(_NUMBER.fullmatch(cell) for row in table[names:] for cell in row)
    if names < 2 or not has_numbers or all(table[0][1:]):
        return list(table)
    header = [_joined_text(list(filter(None, cells))) for cells in zip(*table[:names], strict=True)]
    return [header, *table[names:]]


def _is_header(row: Sequence[str]) -> bool:
    return not any(_NUMBER.fullmatch(cell) or len(cell) > MAX_NAME or ":" in cell or "：" in cell for cell in row)


# Paragraphs


class _Edge(NamedTuple):
    """A right edge; one that a single line reaches may be no edge."""

    x: float
    is_sure: bool


def _unstretched(rows: Sequence[Row]) -> list[Row]:
    """Join the parts of lines that are stretched to both edges, as other lines without gaps are; no rows of tables."""
    whole = Counter(_ends(row) for row in rows if len(row) == 1)
    found = []
    for before, row, after in zip([[], *rows], rows, [*rows[1:], []], strict=False):
        is_stretched = 1 < len(row) <= MAX_CELLS and _is_stretched(row, whole)
        if is_stretched and not (_share_gap(row, before) or _share_gap(row, after)):
            found.append([row[0]._replace(x1=row[-1].x1, text=text_of(row))])
        else:
            found.append(row)
    return found


def _is_stretched(row: Row, whole: Counter[tuple[int, int]]) -> bool:
    em = row[0].size
    if row[-1].x1 - row[0].x0 <= COLUMN * em or any(end - start > STRETCHED * em for start, end in _gaps(row)):
        return False
    left, right = _ends(row)
    return sum(whole[left + dx, right + dy] for dx in (-1, 0, 1) for dy in (-1, 0, 1)) >= MIN_LINES


def _ends(row: Row) -> tuple[int, int]:
    return round(row[0].x0 / row[0].size), round(row[-1].x1 / row[0].size)


def _leading(rows: Sequence[Row]) -> float:
    """Return the usual distance of lines."""
    steps = [after[0].y - before[0].y for before, after in pairwise(rows)]
    near = [step for step, row in zip(steps, rows, strict=False) if 0 < step < MAX_HEADER * row[0].size]
    return median(near) if near else INDENT * rows[0][0].size


def _right_edges(rows: Sequence[Row], leading: float) -> list[_Edge]:
    """Return the right edge for each line: that of the lines around it, if they are many and long, or of all."""
    found: list[_Edge] = []
    whole = _right_edge(rows)
    for block in _near_each_other(rows, leading):
        edge = _right_edge(block)
        width = edge.x - min(row[0].x0 for row in block)
        is_long = len(block) >= MIN_LINES - 1 and width > 2 * COLUMN * block[0][0].size
        found += [edge if is_long else whole] * len(block)
    return found


def _near_each_other(rows: Sequence[Row], leading: float) -> Iterator[list[Row]]:
    block = [rows[0]]
    for before, row in pairwise(rows):
        if row[0].y - before[0].y > APART * leading or abs(row[0].size - before[0].size) > BLANK:
            yield block
            block = []
        block.append(row)
    yield block


def _right_edge(rows: Sequence[Row]) -> _Edge:
    """Return the right edge: the farthest that lines share, as some may stick out; or that of the longest."""
    ends = sorted(row[-1].x1 for row in rows)
    em = rows[0][0].size
    for at in range(len(ends) - 1, max(-1, len(ends) - 1 - STICKING_OUT), -1):
        is_justified = at > 0 and ends[at] - ends[at - 1] < BLANK * em
        if is_justified and ends[at] > ends[-1] - COLUMN * em:
            return _Edge(ends[at], is_sure=True)
    near = len(ends) - bisect_left(ends, ends[-1] - EDGE * em)
    return _Edge(ends[-1], is_sure=near > max(2, SHARED * len(ends)))


def _begins(last: Row, row: Row, leading: float, right: _Edge) -> bool:
    """Whether a line begins something new, and does not go on with the line before it."""
    a, b = last[-1], row[0]
    step = b.y - last[0].y
    if a.text.endswith(HYPHENS) and 0 < step < 2 * leading:
        return False
    if step > APART * max(leading, b.size) or abs(last[0].size - b.size) > LIKE * b.size:
        return True
    differs = (a.is_bold != b.is_bold or _is_indented(last, row)) and not b.text[:1].islower()
    is_apart = any(d - c > STRETCHED * b.size for c, d in chain(_gaps(row), _gaps(last)))
    is_rule = _SIGNS.fullmatch(a.text) or _SIGNS.fullmatch(b.text)
    return differs or is_apart or bool(is_rule or _ITEM.match(b.text)) or not _is_full(last, b, right)


def _is_indented(last: Row, row: Row) -> bool:
    return row[0].x0 > last[0].x0 + INDENT * row[0].size and not _ITEM.match(last[0].text)


def _is_full(last: Row, following: Span, right: _Edge) -> bool:
    """Whether the first word of the next line had no place in a line."""
    a = last[-1]
    if a.x1 - last[0].x0 <= COLUMN * a.size:
        return False
    if _END.search(a.text):  # where the next sentence begins a line, a line end does no harm
        return right.is_sure and a.x1 > right.x - CELL * a.size and not following.text[0].isdigit()
    if following.text[:1].islower():
        return a.x1 - last[0].x0 > LONG * (right.x - last[0].x0)
    wide = (a.x1 - a.x0) / len(a.text)
    first = 1 if _BEGINS_WITH_CJK.match(following.text) else len(following.text.split(" ", 1)[0])
    is_full = a.x1 + first * wide + BLANK * a.size > right.x - a.size / 2
    return is_full and (right.is_sure or not following.text[:1].isupper())


def _goes_on(last: Span, first: Span) -> bool:
    """Whether a line goes on in the next column, or on the next page."""
    is_alike = abs(last.size - first.size) <= LIKE / 2 * first.size and last.is_bold == first.is_bold
    if not is_alike or last.x1 - last.x0 < COLUMN * last.size or _END.search(last.text):
        return False
    is_item = _ITEM.match(first.text)
    return (
        first.text[:1].islower()
        or last.text.endswith(HYPHENS)
        or bool(_BEGINS_WITH_CJK.match(first.text) and not is_item)
    )


# Documents


@dataclass
class Block:
    r"""A part of a document; a page that begins within a paragraph is `\f` in its text."""

    kind: Literal["page", "turn", "heading", "paragraph", "line", "row"]  # "turn" is a page within a table
    parts: list[str] = field(default_factory=list)
    level: int = 0  # of a heading

    @property
    def text(self) -> str:
        """The text of all lines."""
        return "".join(self.parts)


class _Document:
    """Collects the blocks of pages, which may go on with those of the page before."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self._begun = 0  # pages without a block
        self._header: list[str] = []
        self.last: Span | None = None  # line of a column, which may go on in the next

    def page(self) -> None:
        self._begun += 1

    def add(self, kind: Literal["heading", "paragraph", "line"], text: str, level: int = 0) -> None:
        self._turn("page")
        self.blocks.append(Block(kind, [text], level))

    def go_on(self, text: str) -> None:
        parts = self.blocks[-1].parts
        parts.append(glue(parts[-1], text) + PAGE * self._begun + text)
        self._begun = 0

    def table(self, rows: Sequence[list[str]]) -> None:
        """Add a table, which goes on with that of the page before, if it has as many columns."""
        is_more = bool(
            self._begun and self.blocks and self.blocks[-1].kind == "row" and len(rows[0]) == len(self._header)
        )
        is_again = is_more and rows[0] == self._header
        self._header = self._header if is_more else rows[0]
        self._turn("turn" if is_more else "page")
        self.blocks += [Block("row", cells) for cells in rows[is_again:]]

    def finish(self) -> list[Block]:
        self._turn("page")
        return self.blocks

    def _turn(self, kind: Literal["page", "turn"]) -> None:
        self.blocks += [Block(kind) for _ in range(self._begun)]
        self._begun = 0


def blocks(pages: Sequence[Page], outline: Sequence[Mapping[str, int]]) -> list[Block]:
    """Return the parts of a document; `outline` has the levels of the headings of each page by their :func:`key`."""
    document = _Document()
    parts = [
        [
            list(_apart_from_titles(_unstretched(region), titles))
            for region in [*(regions(page.rows, page.rules) if page.rows else ()), page.aside]
            if region
        ]
        for page, titles in zip(pages, outline, strict=True)
    ]
    is_known = _has_titles(parts, outline)
    sizes = _sizes(pages)
    if is_known and sizes:
        sizes = sizes._replace(has_bold=False)  # bold lines that the outline leaves out are seldom headings
    for page, found, titles in zip(pages, parts, outline, strict=True):
        document.page()
        headings = _Headings(dict(titles) if is_known else {}, sizes)
        for region in found:
            _add_region(document, region, headings, page.rules)
    return document.finish()


def _apart_from_titles(rows: Iterable[Row], titles: Mapping[str, int]) -> Iterator[Row]:
    """Set a title of the outline apart from what else is on its line."""
    for row in rows:
        if titles and len(row) > 1 and _title([row[:1]], titles):
            yield from (row[:1], row[1:])
        else:
            yield row


def _add_region(document: _Document, rows: Sequence[Row], headings: _Headings, rules: Rules) -> None:
    leading = _leading(rows)
    edges = _right_edges(rows, leading)
    before, last, at = document.last, None, 0
    while at < len(rows):
        row, start = rows[at], at
        at = _table_end(rows, start, leading)
        if at > start:
            document.table(_with_header(_cells_of(rows[start:at], rules)))
            last = None
            continue
        at, level = headings.find(rows, start, leading)
        text = _joined_text([text_of(each) for each in rows[start:at]])
        if level:
            document.add("heading", text, level)
        elif (start == 0 and before and _goes_on(before, row[0])) or (
            last and not _begins(last, row, leading, edges[start])
        ):
            document.go_on(text)
        else:
            is_far = last is None or row[0].y - last[0].y > APART * leading or _is_indented(last, row)
            document.add("paragraph" if is_far else "line", text)
        last = None if level else row
    document.last = last[-1] if last else None


def key(title: str) -> str:
    """Return what tells a title: it may be spaced and cut into lines otherwise than in the outline."""
    return "".join(title.split()).casefold()


class _Headings:
    """Finds the headings of a page: those of the outline, or lines in larger type above prose."""

    def __init__(self, titles: dict[str, int], sizes: _Sizes | None) -> None:
        self._titles = titles
        self._sizes = sizes

    def find(self, rows: Sequence[Row], at: int, leading: float) -> tuple[int, int]:
        """Return where the heading ends that begins with a row, and its level; the next row and 0 if it is none."""
        if self._titles:
            for end in range(at + 1, min(at + MAX_TITLE_LINES, len(rows)) + 1):
                found = _title(rows[at:end], self._titles)
                if found:
                    return end, self._titles.pop(found)
        end, level = self._sizes.find(rows, at, leading) if self._sizes else (at + 1, 0)
        is_title = self._titles and any(_title([row], self._titles) for row in rows[at + 1 : end])
        return (at + 1, 0) if is_title else (end, level)


def _title(rows: Sequence[Row], titles: Mapping[str, int]) -> str:
    """Return the title that lines are, with a number or without; "" if they are none."""
    text = key("".join(map(text_of, rows)))
    return next((each for each in (text, without_number(text)) if each in titles), "")


def without_number(text: str) -> str:
    """Return the key of a title without the number before it."""
    return _PREFIX.sub("", text)


def _has_titles(parts: Sequence[Sequence[Sequence[Row]]], outline: Sequence[Mapping[str, int]]) -> bool:
    """Whether most titles of an outline are lines of their pages."""
    found = 0
    for regions_, titles in zip(parts, outline, strict=True):
        sizes = range(1, MAX_TITLE_LINES + 1) if titles else ()
        places = ((rows, at, at + size) for size in sizes for rows in regions_ for at in range(len(rows)))
        found += len({_title(rows[start:end], titles) for rows, start, end in places} - {""})
    return 2 * found > sum(map(len, outline))


class _Sizes(NamedTuple):
    """The size of most text, and those of headings, as negative numbers; bold text is below them."""

    body: float
    headings: tuple[float, ...]
    has_bold: bool  # text of that size here and there, which may be a heading

    def find(self, rows: Sequence[Row], at: int, leading: float) -> tuple[int, int]:
        """Return where a heading ends, and its level, or the next row and 0."""
        end = at
        while (
            end < min(at + MAX_TITLE_LINES, len(rows))
            and self._is_marked(rows[end])
            and (end == at or _goes_on_as_heading(rows[at][0], rows[end][0]))
        ):
            end += 1
        text = text_of(span for row in rows[at:end] for span in row)
        is_apart = at == 0 or rows[at][0].y - rows[at - 1][0].y > INDENT * leading
        is_above = _CHAPTER.match(text) or self._is_above_prose(rows[end : end + MAX_BELOW])
        if end == at or not is_apart or not is_above:
            return at + 1, 0
        if len(text) > MAX_HEADING or _NO_HEADING.search(text) or not _NAME.search(text):
            return at + 1, 0
        return end, 1 + min(bisect_left(self.headings, -rows[at][0].size + BLANK), MAX_LEVELS - 1)

    def _is_above_prose(self, rows: Sequence[Row]) -> bool:
        """Whether the rows begin with prose, or with other headings and then prose."""
        prose = list(dropwhile(self._is_marked, rows))[:2]
        return (
            len(prose) > 1
            and self._is_prose(prose[0])
            and any(is_(prose[1]) for is_ in (self._is_prose, self._is_marked))
        )

    def _is_marked(self, row: Row) -> bool:
        size = row[0].size
        is_bold = self.has_bold and row[0].is_bold and size > (1 - LIKE / 2) * self.body
        return len(row) == 1 and (is_bold or size >= LARGE * self.body)

    def _is_prose(self, row: Row) -> bool:
        span = row[0]
        is_body = abs(span.size - self.body) < LIKE / 2 * self.body and not (span.is_bold and self.has_bold)
        return len(row) == 1 and is_body and span.x1 - span.x0 > COLUMN * span.size and _share_of_letters(row) > LETTERS


def _goes_on_as_heading(first: Span, span: Span) -> bool:
    is_alike = abs(first.size - span.size) < BLANK and first.is_bold == span.is_bold
    return is_alike and not (_ITEM.match(span.text) or _SECTION.match(span.text) or span.text.endswith((":", "：")))


def _sizes(pages: Sequence[Page]) -> _Sizes | None:
    """Return the sizes of headings; None where most text is not of one size, as on slides, receipts and scans."""
    sizes: Counter[float] = Counter()
    bold = 0
    for span in (span for page in pages for row in page.rows for span in row):
        sizes[round(2 * span.size) / 2] += len(span.text)
        bold += len(span.text) * span.is_bold
    if not sizes:
        return None
    body = sizes.most_common(1)[0][0]
    near = sum(sizes[body + each] for each in (-0.5, 0, 0.5))
    large = tuple(sorted(-size for size in sizes if size >= LARGE * body))
    return _Sizes(body, large, bold < RARE * sizes.total()) if near > USUAL * sizes.total() else None
