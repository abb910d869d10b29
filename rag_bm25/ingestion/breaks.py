"""Find where a text may be cut: its lines ranked in one pass, its sentences, tables, fences and numbered articles."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from enum import IntEnum
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence


class Rank(IntEnum):
    """Kinds of places to cut at, the best first; a heading is better than all of them."""

    ARTICLE = 0  # a numbered article begins
    BLOCK = 1  # a paragraph, a table or a fence begins
    LINE = 2  # an item or a row begins, or a line that is a paragraph has ended
    SENTENCE = 3  # a sentence has ended
    WRAP = 4  # a line has ended within a sentence
    CLAUSE = 5  # a clause or a word has ended


SHORT = 60  # columns of a line that may name what follows
WIDE = 130  # columns: lines of wrapped prose have fewer
HEADER_ROWS = 3
MAX_HEADER = 10_000  # characters of the header of a table: a longer one would be copied for each chunk of it
NEAR = 32  # characters read around a range to recognise sentence ends at its edges
_HAN = "\u4e00-\u9fff"
_NUMERAL = "一二三四五六七八九十百千零〇"
_WIDE_CHARACTER = re.compile(r"[\u1100-\uffe6]")
_SENTENCE = re.compile(
    r"[。！？…]+[”’」』）》]*"
    r"|(?<![.!?])[.!?]+[\"')\]”’]*(?:\[\d{1,4}\]){0,9}(?=\s+[^\sa-z])"  # the lookbehind keeps a line of dots linear
)
_NO_SENTENCE = re.compile(
    r"(?:\n[ \t]*\d{1,3}"
    r"|(?:^|[^\w.])(?:[A-Zpv]|(?:[A-Za-z]\.){1,3}[A-Za-z]|Mrs?|Ms|Messrs|Drs?|Prof|Jr|Sr|Gen|Col|Capt|Lt|Sgt|Gov|Sen|Rep"
    r"|Hon|Rev|St|Mt|Ft|Inc|Ltd|Co|Corp|Dept|Nos?|Vols?|Chs?|Secs?|Arts?|Figs?|Eqs?|[Ee]ds?|pp|vs|cf|al|approx))\.$"
)
"""The number of an item, an initial or an abbreviation: its point ends no sentence."""
_UNIT = re.compile(r"(?:^|[^\w.])[A-Za-z]{1,4}\.$")
"""A word that may be short for a longer one: before a number its point ends no sentence, as in Jan. 5 and 6 ft. 2."""
CLAUSES = (re.compile(r"；|;\s(?:(?:and|or)\s)?"), re.compile(r"[，、]|,\s"), re.compile(r"\s"))
_FENCE = re.compile(r"^[ >]{0,8}(`{3,}(?=[^`\n]*$)|~{3,})(.*)$", re.MULTILINE)
_ITEM = re.compile(
    r"[`'\"“‘]{0,2}(?:[-*+•·●▪–](?=\s)|\(?(?:\d{1,3}[.)、](?!\d)|(?:[a-zA-Z]|[ivxIVX]{1,4})[.)](?=\s))"
    rf"|[（(][{_NUMERAL}\d]{{1,3}}[）)]|[{_NUMERAL}]{{1,3}}、)\s*\S"
)
_ARTICLE = re.compile(
    rf"[#*_>\s]{{0,8}}(?:第[{_NUMERAL}\d]{{1,9}}条(?:之[{_NUMERAL}]{{1,3}})?(?=[\s*_【（(]|$)"
    r"|(?:Article|ARTICLE|Section|SECTION|Art\.|S[Ee][Cc]\.|§§?)\s?\d{1,4}[.\d]{0,9}\w?\b(?!\s+[a-z]))"
)
_NUMBERED = re.compile(
    r"[#*_>\s]{0,8}(?:\d{1,3}(?:\.\d{1,3}){1,5}\.?(?=\s+[^\W\d])|(?:Q|Question|问题?)\s?\d{0,3}[:：.．、])"
)
"""A number that begins a part, but is not repeated above a continuation: 1.5 may be a price."""
_ENDS = tuple(".。!！;；,，、…")
_NAMES = (":", "：", "--", "—")  # ends of lines that name what follows, however long
_QUESTIONS = ("?", "？")
_CLOSING = "</"
_ROWS = {
    "|": re.compile(r"^(?:[^\n|]*\|[^\n]*(?:\n|\Z)){2,}", re.MULTILINE),
    "\t": re.compile(r"^(?:[^\n\t]+(?:\t[^\n\t]*){2,}(?:\n|\Z)){3,}", re.MULTILINE),
    ",": re.compile(r"^(?:[^\n,]+(?:,(?! )[^\n,]*){2,}(?:\n|\Z)){3,}", re.MULTILINE),
}
"""Lines that may be a table, by what separates their cells."""
_RULE = re.compile(r"[ \t>|:]*-[-|: \t]*")  # below the header, in Markdown
_NAME = re.compile(r"[\s\"']*[^\W\d]")  # of a column


class Block(NamedTuple):
    """A part of a text, and the lines at its start that stand above each of its chunks."""

    start: int
    end: int
    header: str = ""


class _Blocks:
    """Blocks that are apart, in the order of the text."""

    def __init__(self, blocks: Iterable[Block]) -> None:
        self._blocks = list(blocks)
        self._starts = [block.start for block in self._blocks]

    def at(self, place: int) -> Block | None:
        """Return the block that has the place."""
        at = bisect_right(self._starts, place) - 1
        return self._blocks[at] if at >= 0 and place < self._blocks[at].end else None


class _Line(NamedTuple):
    """A line with text."""

    start: int
    text: str
    after_blank: bool = True
    table: Block | None = None
    fence: Block | None = None
    is_heading: bool = False
    is_item: bool = False
    is_article: bool = False
    is_numbered: bool = False

    @property
    def columns(self) -> int:
        """Width, in which an ideograph counts twice."""
        return len(self.text) + (0 if self.text.isascii() else len(_WIDE_CHARACTER.findall(self.text[:WIDE])))

    @property
    def is_within(self) -> bool:
        """Whether it is inside a fence, after its first line."""
        return self.fence is not None and self.start > self.fence.start

    @property
    def stands(self) -> bool:
        """Whether it cannot continue a paragraph."""
        return self.table is not None or self.fence is not None or self.is_heading or self.is_item

    @property
    def closes(self) -> bool:
        """Whether it closes what is before it."""
        return self.text.startswith(_CLOSING)

    @property
    def is_title(self) -> bool:
        """Whether it is as short as a title, and ends no sentence."""
        return not (self.stands or self.closes or self.text.endswith(_ENDS)) and self.columns <= SHORT


class Breaks:
    """The places where a text may be cut, and the header of what a place is within.

    There is none after a label, which names what follows, nor within the header of a table. A line end that ends no
    sentence, as in wrapped prose, is worse than the end of a sentence.
    """

    def __init__(self, text: str, headings: Iterable[tuple[int, int]]) -> None:
        self._text = text
        self._headings = _Blocks(Block(start, end) for start, end in headings if end > start)
        self._tables = _Blocks(sorted(_tables(text)))
        self._fences = _Blocks(_fences(text))

    @cached_property
    def _lines(self) -> list[_Line]:
        return list(self._read_lines())

    @cached_property
    def _places(self) -> dict[Rank, list[int]]:
        places: dict[Rank, list[int]] = {rank: [] for rank in Rank}
        for before, line in zip(chain([_Line(0, "")], self._lines), self._lines, strict=False):
            if not (before.is_heading or _is_named(before, line) or _is_within_header(line) or line.closes):
                places[_rank(before, line)].append(line.start)
        return places

    @cached_property
    def _names(self) -> dict[int, str]:
        """The label of each table, by its start: just above it, or above the paragraph that introduces it."""
        names: dict[int, str] = {}
        above = before = _Line(0, "")
        for line in self._lines:
            if line.table is not None and line.table is not before.table:
                label = above if above.is_title and not (before.is_title or before.stands) else before
                names[line.table.start] = f"{label.text}\n" if label.is_title and label.text else ""
            above, before = before, line
        return names

    @cached_property
    def _articles(self) -> _Blocks:
        begun = [line for line in self._lines if line.is_article or _ends_article(line)]
        ends = [*(line.start for line in begun[1:]), len(self._text)]
        pairs = zip(begun, ends, strict=False)
        return _Blocks(Block(line.start, end, line.text) for line, end in pairs if line.is_article)

    def best(
        self, low: int, high: int, ranks: Iterable[Rank], fits: Callable[[Block], bool]
    ) -> tuple[int, Rank] | None:
        """Return the last place of the best rank in a range; none is within a fence that fits a chunk."""
        for rank in ranks:
            found = self._in_range(rank, low, high)
            places = (place for place in reversed(found) if (fence := self._fence(place)) is None or not fits(fence))
            if (last := next(places, None)) is not None:
                return last, rank
        return None

    def sentences(self, low: int, high: int) -> Iterator[int]:
        """Yield the ends of sentences in a range, without those of code."""
        for match in _SENTENCE.finditer(self._text, max(0, low - NEAR), high + NEAR):
            end = match.end()
            is_end = low <= end <= high and not (match[0] == "." and self._is_abbreviated(end))
            if is_end and self._fence(end) is None:
                yield end

    def _is_abbreviated(self, end: int) -> bool:
        """Tell whether the point that ends here is that of an abbreviation."""
        before = self._text[max(0, end - 12) : end]
        is_before_number = self._text[end : end + 1] == " " and self._text[end + 1 : end + 2].isdigit()
        return bool(_NO_SENTENCE.search(before) or (is_before_number and _UNIT.search(before)))

    def header(self, place: int, longest: int) -> str:
        """Return what stands above a table or the rest of an article: what of its label and header is before the place.

        The label is left out if they have more than `longest` characters together. If the first line of an article has
        more, its number stands for it.
        """
        if table := self._tables.at(place):
            name, end = self._names.get(table.start, ""), min(max(0, place - table.start), len(table.header))
            header = table.header[:end] if end <= MAX_HEADER else ""
            return name + header if len(name) + len(header) <= longest else header
        article = self._articles.at(place)
        number = article and place > article.start and _ARTICLE.match(article.header)
        if not article or not number:
            return ""
        is_line = len(article.header) < min(longest, place - article.start)
        return f"{article.header}\n" if is_line else f"{number[0].strip('#*_> ')} …\n"

    def _fence(self, place: int) -> Block | None:
        fence = self._fences.at(place)
        return fence if fence and place > fence.start else None

    def _in_range(self, rank: Rank, low: int, high: int) -> list[int]:
        if rank is Rank.SENTENCE:
            return list(self.sentences(low, high))
        places = self._places[rank]
        return places[bisect_left(places, low) : bisect_right(places, high)]

    def _read_lines(self) -> Iterator[_Line]:
        at, after_blank = 0, True
        for line in self._text.split("\n"):
            text = line.strip()
            if text:
                start = at + len(line) - len(line.lstrip())
                table, fence = self._tables.at(start), self._fences.at(start)
                is_prose = not (table or fence)
                yield _Line(
                    start, text, after_blank, table, fence,
                    is_heading=self._headings.at(start) is not None,
                    is_item=is_prose and _ITEM.match(text) is not None,
                    is_article=is_prose and _ARTICLE.match(text) is not None,
                    is_numbered=is_prose and _NUMBERED.match(text) is not None,
                )  # fmt: skip
            after_blank = not text or (after_blank and text.startswith(_CLOSING))
            at += len(line) + 1


def _rank(before: _Line, line: _Line) -> Rank:
    """Rank the start of a line."""
    if line.is_within:
        return Rank.LINE if line.after_blank else Rank.WRAP
    if line.is_article or line.is_numbered:
        return Rank.ARTICLE
    if (before.table, before.fence) != (line.table, line.fence):
        return Rank.BLOCK
    if line.after_blank and not _goes_on(before, line):
        return Rank.BLOCK
    return Rank.LINE if line.stands or before.columns > WIDE else Rank.WRAP


def _goes_on(before: _Line, line: _Line) -> bool:
    """Tell whether a sentence goes on after a blank line, as where a page ends."""
    return not line.stands and line.text[0].islower() and before.text[-1:].isalnum()


def _is_named(before: _Line, line: _Line) -> bool:
    """Tell whether a line is what the one before it names: as a title, a caption or a question."""
    if before.stands and not before.text.endswith(_NAMES):
        return False
    if before.text.endswith(_NAMES) and not before.is_within:
        return True
    is_text = line.stands or line.is_article or line.columns > SHORT or line.text.endswith(_ENDS)
    return before.is_title and bool(before.text) and (is_text or before.text.endswith(_QUESTIONS))


def _is_within_header(line: _Line) -> bool:
    return line.table is not None and line.table.start < line.start < line.table.start + len(line.table.header)


def _ends_article(line: _Line) -> bool:
    """Tell whether no article goes on here: at a heading, or what looks like one, as that of an annex does."""
    return line.is_heading or (line.is_title and not line.text.endswith(_NAMES))


def _fences(text: str) -> Iterator[Block]:
    """Yield the fences that are closed."""
    opened: re.Match[str] | None = None
    for match in _FENCE.finditer(text):
        if opened is None:
            opened = match
        elif match[1].startswith(opened[1]) and not match[2].strip():
            yield Block(opened.start(), match.end())
            opened = None


def _tables(text: str) -> Iterator[Block]:
    for separator, pattern in _ROWS.items():
        for match in pattern.finditer(text):
            rows = match[0].removesuffix("\n").split("\n")
            if size := _header_size(rows, separator):
                yield Block(match.start(), match.end(), "".join(f"{row}\n" for row in rows[:size]))


def _header_size(rows: Sequence[str], separator: str) -> int:
    """Return how many rows are the header of a table, all but one at most; 0 if they have the separator by chance."""
    counts = [row.count(separator) for row in rows]
    if separator != "|":
        names = rows[0].split(separator)
        return int(len(set(counts)) == 1 and all(map(_NAME.match, names)) and len(set(names)) == len(names))
    if counts[0] != counts[1]:
        return 0
    full = (at for at, row in enumerate(rows[:-1][:HEADER_ROWS], 1) if all(map(str.strip, _cells(row)[1:])))
    size = next(full, 1)
    return size + bool(_RULE.fullmatch(rows[size]))


def _cells(row: str) -> list[str]:
    """Return the cells of a row; in Markdown, it begins and ends with a separator."""
    cells = row.strip().split("|")
    return cells[1:-1] if len(cells) > 2 and not cells[0] and not cells[-1] else cells
