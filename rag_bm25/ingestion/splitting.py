"""Split texts into chunks: at headings, and at the best places between them."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, takewhile
from os.path import commonprefix
from typing import TYPE_CHECKING, NamedTuple

from rag_bm25.checks import comparable, parameter_error
from rag_bm25.ingestion.breaks import CLAUSES, Breaks, Rank
from rag_bm25.vectors.terms import num_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rag_bm25.index.config import IndexConfig
    from rag_bm25.ingestion.breaks import Block
    from rag_bm25.ingestion.documents import Heading

DEFAULT_OVERLAP = 150
OVERLAP_SHARE = 0.3  # of the maximum length, if that is less
MAX_TITLE = 200  # characters of a heading in a path
MIN_SHARE = 5  # the minimum length of a chunk is this part of the maximum
_WORD = re.compile(r"\w")
WHOLE = (Rank.ARTICLE, Rank.BLOCK, Rank.LINE, Rank.SENTENCE)  # of places where no sentence is cut
MOST_CHARACTERS = 64  # times the maximum length: a fence that has more is longer than a chunk, whatever a length is
HEADER_SHARE = 3  # a header that is longer than this part of the maximum is not repeated


class Part(NamedTuple):
    """A chunk as a part of a text.

    Parameters
    ----------
    start, end : int
        Its place in the text, in characters.
    headings : tuple of str
        The headings above it, from the highest level.
    header : str
        The label and the header of the table, or the number of the article, that its text begins or goes on with.
    """

    start: int
    end: int
    headings: tuple[str, ...]
    header: str = ""

    def text_of(self, text: str) -> str:
        """Return the text of the chunk."""
        return self.header + text[self.start : self.end]


class _Section(NamedTuple):
    """A heading and the text up to the next one."""

    start: int
    body: int  # start of the text after the heading
    end: int
    level: int
    path: tuple[str, ...]
    has_words: bool  # after the heading

    @property
    def asks(self) -> bool:
        """Whether its heading is a question."""
        return bool(self.path) and self.path[-1].endswith(("?", "？"))


class _Outline:
    """The sections of a text; each question takes time for the sections that it is about, not for all."""

    def __init__(self, text: str, headings: Sequence[Heading]) -> None:
        self.text = text
        self.sections = list(_sections(text, headings))
        self.starts = [section.start for section in self.sections]
        self._bodies = [section.body for section in self.sections]  # or where the next text after headings begins
        for at in range(len(self.sections) - 2, -1, -1):
            if not self.sections[at].has_words:
                self._bodies[at] = self._bodies[at + 1]
        self.breaks = Breaks(text, ((section.start, section.body) for section in self.sections))

    def body(self, start: int) -> int:
        """Return where the text after the headings that `start` is in begins, or `start`, if it is in a text."""
        at = bisect_right(self.starts, start) - 1
        return start if start >= self.sections[at].body else self._bodies[at]

    def path(self, start: int, end: int) -> tuple[str, ...]:
        """Return the headings above all of a chunk: those that its sections with text have in common."""
        sections = self.sections[bisect_right(self.starts, start) - 1 : bisect_left(self.starts, end)]
        own = [each for each in sections if _has_words(self.text, max(start, each.body), min(end, each.end))]
        return tuple(commonprefix([section.path for section in own or sections]))  # noqa: RUF071  # of no file


@dataclass(frozen=True)
class Splitter:
    """Split texts into chunks, none of which is a bare heading or shorter than need be.

    Parameters
    ----------
    longest : int
        Maximum length of a chunk.
    overlap : int
        Maximum overlap of chunks that a cut within a paragraph separates.
    least : int
        Minimum length of a chunk; a text that is shorter as a whole is one chunk.
    length : callable of str to int
        Length of a text.

    Examples
    --------
    >>> Splitter(20, 0, 4)("One is 3.5 m. Two is it! Three?")
    ['One is 3.5 m.', 'Two is it! Three?']
    """

    longest: int
    overlap: int
    least: int
    length: Callable[[str], int] = len

    def __call__(self, text: str) -> list[str]:
        """Split a text without headings; one that is short enough is not changed."""
        if self.length(text) <= self.longest:
            return [text]
        return [part.text_of(text) for part in self.split(text)]

    def split(self, text: str, headings: Sequence[Heading] = ()) -> list[Part]:
        """Split a text at its headings, and sections that are too long within.

        Parameters
        ----------
        text : str
            Text of a document.
        headings : sequence of Heading
            Its headings, in the order of the text.

        Returns
        -------
        list of Part
            The chunks, without white space around them, and without those that have no word. The headings of a chunk
            are those that hold for all of it.
        """
        outline = _Outline(text, headings)
        groups = [group for run in _runs(outline.sections) for group in self._groups(text, run)]
        spans = [span for start, end in groups for span in self._cut(outline, start, end)]
        stripped = [(*_strip(text, start, end), header) for start, end, header in spans]
        return [
            Part(start, end, outline.path(start, end), header)
            for start, end, header in stripped
            if _has_words(text, start, end)
        ]

    # Sections

    def _groups(self, text: str, sections: Sequence[_Section]) -> list[tuple[int, int]]:
        """Join sections that are too short, or bare headings, with a neighbour."""
        groups: list[tuple[int, int]] = []
        start, needs_more, may_grow = 0, False, False
        for section, following in pairwise([*sections, None]):
            assert section is not None
            if not needs_more:
                start = _strip(text, section.start, section.end)[0]
            needs_more = self._is_short(text, start, section)
            if needs_more and may_grow and (following is None or following.level < section.level):
                may_grow = self._fits(text[groups[-1][0] : section.end])
                if may_grow:  # else it would not with more text, either
                    start, needs_more = groups.pop()[0], False
            if following is None or not needs_more:
                groups.append((start, section.end))
                may_grow = True
        if len(groups) > 1 and needs_more:  # the end of the text: cut it together with what is before
            groups[-2:] = [(groups[-2][0], groups[-1][1])]
        return groups

    def _is_short(self, text: str, start: int, section: _Section) -> bool:
        return not section.has_words or self.length(text[start : section.end].strip()) < self.least

    def _fits(self, text: str) -> bool:
        return self.length(text.strip()) <= self.longest

    # Within sections

    def _cut(self, outline: _Outline, start: int, end: int) -> Iterator[tuple[int, int, str]]:
        """Cut a span into spans within the maximum length, and the header of what each goes on with."""
        text, header = outline.text, ""
        start, end = _strip(text, start, end)
        while start < end:
            reach = self._reach(text, start, end, self.longest - self.length(header))
            if reach >= end:
                yield start, end, header
                return
            body = outline.body(start)
            low = self._reach(text, body, reach, self.least) if body < reach else reach
            high = max(low, min(reach, self._leave(text, end)))
            cut, rank = self._find_cut(outline, start, min(body, low), low, high)
            yield start, cut, header
            start = _strip(text, self._step_back(outline, start, cut, rank), end)[0]
            header = outline.breaks.header(start, self.longest // HEADER_SHARE)
            header = header if HEADER_SHARE * self.length(header) <= self.longest else ""

    def _find_cut(self, outline: _Outline, start: int, body: int, low: int, high: int) -> tuple[int, Rank]:
        """Return the best cut in a range, and its rank."""
        at = bisect_right(outline.starts, high) - 1
        if at >= 0 and outline.starts[at] >= max(low, start + 1):
            return outline.starts[at], Rank.BLOCK
        best = partial(outline.breaks.best, fits=self._fits_block(outline.text))
        return (
            best(low, high, WHOLE)
            or self._find_early_cut(outline.text, best, body, low, high)
            or best(low, high, [Rank.WRAP])
            or (_find_clause(outline.text, low, high), Rank.CLAUSE)
        )

    def _find_early_cut(
        self, text: str, best: Callable[..., tuple[int, Rank] | None], body: int, low: int, high: int
    ) -> tuple[int, Rank] | None:
        """Return a cut that makes a chunk shorter than the minimum, if a long sentence or code is whole in the next."""
        found = best(body + 1, low - 1, WHOLE) if body + 1 < low else None
        return found if found and best(high + 1, self._reach(text, found[0], len(text)), WHOLE) else None

    def _fits_block(self, text: str) -> Callable[[Block], bool]:
        def fits(block: Block) -> bool:
            is_near = block.end - block.start <= MOST_CHARACTERS * self.longest
            return is_near and self._fits(text[block.start : block.end])

        return fits

    def _reach(self, text: str, start: int, end: int, length: int | None = None) -> int:
        """Return the end of the longest part from `start` that is not longer than `length`, at least one character."""
        most = self.longest if length is None else length
        if self.length is len:
            return max(start + 1, min(start + most, end))
        width = 4 * most + 16
        while start + width < end and self.length(text[start : start + width]) <= most:
            width *= 2
        low, high = start + 1, min(start + width, end)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.length(text[start:middle]) <= most else (low, middle - 1)
        return low

    def _reach_back(self, text: str, start: int, end: int) -> int:
        """Return the start of the longest part up to `end`, and after `start`, that is not longer than the overlap."""
        if self.length is len:
            return max(start + 1, end - self.overlap)
        width = 4 * self.overlap + 16
        while end - width > start and self.length(text[end - width : end]) <= self.overlap:
            width *= 2
        low, high = max(start + 1, end - width), end
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self.length(text[middle:end]) <= self.overlap else (middle + 1, high)
        return low

    def _leave(self, text: str, end: int) -> int:
        """Return the last cut that leaves the minimum length before `end`."""
        if self.length is len:
            return end - self.least
        at = end
        while at > 0 and self.length(text[at:end]) < self.least and end - at < 64 * self.least:
            at -= max(1, self.least)
        return max(at, 0)

    def _step_back(self, outline: _Outline, start: int, cut: int, rank: Rank) -> int:
        """Return where the chunk after a cut begins: at a sentence within the overlap, or a word if one was cut."""
        text = outline.text
        if rank < Rank.SENTENCE or not self.overlap:
            return cut
        low = self._reach_back(text, start, cut)
        sentences = outline.breaks.sentences(low, cut - 1)
        if (found := next((end for end in sentences if _WORD.search(text, end, cut)), None)) is not None:
            return found
        for pattern in CLAUSES if rank > Rank.SENTENCE else ():
            found = next((match.end() for match in pattern.finditer(text, max(start, low - 1), cut)), cut)
            if low <= found < cut and _WORD.search(text, found, cut):
                return found
        return cut


def splitter(config: IndexConfig, chunk_overlap: int | None = None, split_size: int | None = None) -> Splitter:
    """Return a text splitter for an index: at headings, articles, paragraphs, lines, sentences, words.

    Parameters
    ----------
    config : IndexConfig
        Config of the index; lengths are in its `length_unit`.
    chunk_overlap : int, optional
        Maximum overlap of chunks that a cut within a paragraph separates; by default three tenths of the maximum
        length, at most 150. It is of whole sentences, unless one was cut.
    split_size : int, optional
        Maximum length of a chunk, > 0; by default the config's `chunk_size`. The minimum is a fifth of it.

    Returns
    -------
    Splitter
        The splitter. It does not change a text that is short enough.

    Raises
    ------
    ParameterError
        `split_size` is not > 0, or `chunk_overlap` is not below it.
    """
    longest = default_size(config) if split_size is None else split_size
    if not comparable(longest) >= 1:
        raise parameter_error("split_size", "> 0", longest)
    overlap = min(DEFAULT_OVERLAP, int(OVERLAP_SHARE * longest)) if chunk_overlap is None else chunk_overlap
    if not 0 <= comparable(overlap) < longest:
        raise parameter_error("chunk_overlap", f">= 0 and below the chunk size of {longest}", overlap)
    return Splitter(longest, overlap, longest // MIN_SHARE, _length_function(config))


def default_size(config: IndexConfig) -> int:
    """Return the maximum length of a chunk where none is given."""
    return max(1, int(config.chunk_size))


def _length_function(config: IndexConfig) -> Callable[[str], int]:
    if config.length_unit != "terms":
        return len
    analyzer = config.build_analyzer()
    return lambda text: num_words(analyzer(text))


def _sections(text: str, headings: Sequence[Heading]) -> Iterator[_Section]:
    """Yield the text before the first heading, and each heading with the text up to the next."""
    first = headings[0].start if headings else len(text)
    if first > 0 or not headings:
        yield _Section(0, 0, first, 1, (), _has_words(text, 0, first))
    above: list[Heading] = []
    for at, heading in enumerate(headings):
        end = headings[at + 1].start if at + 1 < len(headings) else len(text)
        above = [*takewhile(lambda other: other.level < heading.level, above), heading]  # noqa: B023  # used at once
        path = tuple(other.title[:MAX_TITLE] for other in above if other.title)
        yield _Section(heading.start, heading.end, end, heading.level, path, _has_words(text, heading.end, end))


def _runs(sections: Sequence[_Section]) -> list[list[_Section]]:
    """Set each question apart, with the sections below it and the bare headings just above it."""
    runs: list[list[_Section]] = [[]]
    level, bare = 0, 0  # of the last question; of the headings at the end of a run
    for section in sections:
        run = runs[-1]
        leaves = section.asks or section.level <= level
        if leaves:
            level = section.level if section.asks else 0
        if leaves and bare < len(run):
            at = len(run) - bare
            runs[-1:] = [run[:at], run[at:]]
        runs[-1].append(section)
        bare = 0 if section.has_words else bare + 1
    return runs


def _has_words(text: str, start: int, end: int) -> bool:
    return _WORD.search(text, start, end) is not None


def _find_clause(text: str, low: int, high: int) -> int:
    """Return the end of the last clause in a range, of the last word if there is none, or the end of the range."""
    for pattern in CLAUSES:
        ends = [match.end() for match in pattern.finditer(text, low - 1, high + 1)]
        if found := max((end for end in ends if low <= end <= high), default=0):
            return found
    return high


def _strip(text: str, start: int, end: int) -> tuple[int, int]:
    """Leave out white space at both ends."""
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end
