"""Highlight the terms of a query in a text: its best sentences, and the places of the terms in them."""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate
from operator import itemgetter, or_
from typing import TYPE_CHECKING, NamedTuple

from rag_bm25.analysis.places import make_marker
from rag_bm25.analysis.runs import LETTER
from rag_bm25.checks import check_int
from rag_bm25.documents.chunks import Fragment
from rag_bm25.errors import ParameterError, short_repr

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from rag_bm25.analysis import TextAnalyzer
    from rag_bm25.analysis.marks import Marks

MAX_FRAGMENTS = 1_000
SIZES = 20, 65_535
_ROUNDING = 1e-9  # of sums of weights, relative to the best of them

# Signs that may end a sentence, with the quotes that close it, and white space after them.
# They are one set at the beginning of the pattern, which is found faster than a choice.
_ENDS = re.compile(r"([。！？；…!?.\n](?:(?<!\n)[。！？；…!?.]+)?)[\"'”’»」』）)】》〉\]]*\s*")
_NO_END = re.compile(
    r"(?:(?:^|[.\s(])[A-Za-z]|(?:^|\n)\s*\d{1,3}|\b(?:Mr|Mrs|Ms|Dr|Prof|St|Figs?|Nos?|Eq|vs|al|cf|pp))$"
)
_CLAUSE = re.compile(r"[，、：,;:]\s*")
_WITHIN_WORD = re.compile(LETTER * 2)


@dataclass(frozen=True)
class Highlighting:
    """What is highlighted of a text.

    Parameters
    ----------
    max_fragments : int
        Maximum number of fragments of a text, in 1..1000: the best ones.
    size : int
        Maximum length of a fragment in characters, in 20..65535. A longer sentence is cut around its marks; a mark is
        never cut.

    Raises
    ------
    ParameterError
        A parameter is out of its range.

    Examples
    --------
    >>> Highlighting(size=80)
    Highlighting(max_fragments=3, size=80)
    """

    max_fragments: int = 3
    size: int = 200

    def __post_init__(self) -> None:
        check_int("max_fragments", self.max_fragments, 1, MAX_FRAGMENTS)
        check_int("size", self.size, *SIZES)


def check_highlight(highlight: object) -> Highlighting | None:
    """Check the option `highlight`: True for the default highlighting."""
    if isinstance(highlight, Highlighting):
        return highlight
    if not isinstance(highlight, bool | None):
        raise ParameterError(f"highlight must be True, False or a Highlighting, got {short_repr(highlight)}")
    return Highlighting() if highlight else None


class _Part(NamedTuple):
    """A part of a text, and the range of the marks in it, at least one."""

    start: int
    end: int
    first: int
    last: int  # the first one after them


class _Window(NamedTuple):
    """The consecutive marks of a part that weigh most among those that fit into a fragment."""

    score: float
    first: int
    last: int
    part: _Part


class _Scores(dict[int, float]):
    """The sum of the weights of terms, by the number whose bits say which they are."""

    def __init__(self, weights: Collection[float]) -> None:
        super().__init__()
        self._weights = [(1 << at, weight) for at, weight in enumerate(weights)]

    def __missing__(self, terms: int) -> float:
        score = self[terms] = math.fsum([weight for bit, weight in self._weights if bit & terms])
        return score


@dataclass(frozen=True, eq=False)
class Highlighter:
    """Find the fragments of texts that hold weighted terms."""

    analyzer: TextAnalyzer
    weights: Mapping[str, float]  # of each term, as the vocabulary has it
    highlighting: Highlighting

    def highlight(self, text: str) -> tuple[Fragment, ...]:
        """Return the best fragments of a text, by falling score, then by place."""
        return self.highlight_all([text])[0]

    def highlight_all(self, texts: Sequence[str]) -> list[tuple[Fragment, ...]]:
        """Return the best fragments of each of some texts, which takes less time than one after the other."""
        mark = make_marker(self.analyzer, list(self.weights))
        scores = _Scores(self.weights.values())
        return [
            _MarkedText(text, marks, scores, self.highlighting).best_fragments() if marks.starts else ()
            for text, marks in zip(texts, mark(texts), strict=True)
        ]


class _MarkedText:
    """A text with its marks."""

    def __init__(self, text: str, marks: Marks, scores: Mapping[int, float], highlighting: Highlighting) -> None:
        self._text = text
        self._starts, self._ends, self._terms = marks
        self._scores = scores
        self._size = highlighting.size
        self._max_fragments = highlighting.max_fragments

    def best_fragments(self) -> tuple[Fragment, ...]:
        parts = [
            (-self._scores[reduce(or_, self._terms[part.first : part.last])], part)
            for sentence in self._sentences()
            for part in self._cut(sentence)
        ]
        parts.sort()  # no two begin at one place
        return tuple([self._fragment(-score, part) for score, part in parts[: self._max_fragments]])

    def _sentences(self) -> Iterator[_Part]:
        """Yield the sentences with marks; none ends within a mark, such as a bigram of words on two lines."""
        borders = [0, *_ends_of_sentences(self._text), len(self._text)]
        last = 0
        while last < len(self._starts):
            first, at = last, bisect_right(borders, self._starts[last], 0, -1)
            start, end = borders[at - 1], borders[at]
            last = bisect_left(self._starts, end, first)
            while self._ends[last - 1] > end:
                end = borders[bisect_left(borders, self._ends[last - 1])]
                last = bisect_left(self._starts, end, last)
            yield _Part(start, end, first, last)

    def _cut(self, sentence: _Part) -> Iterator[_Part]:
        """Yield a sentence or, if it is too long, its best windows, as many as there may be fragments."""
        if sentence.end - sentence.start > self._size:
            sentence = self._strip(sentence)
        if sentence.end - sentence.start <= self._size:
            yield sentence
            return
        windows, rest = [], [sentence]
        for _ in range(self._max_fragments):
            windows += [self._best_window(part) for part in rest if part.first < part.last]
            if not windows:
                return
            best = max(windows, key=_score_of)
            windows.remove(best)
            part = self._pad(best)
            yield part
            around = best.part
            rest = [
                _Part(around.start, part.start, around.first, part.first),
                _Part(part.end, around.end, part.last, around.last),
            ]

    def _best_window(self, part: _Part) -> _Window:
        best, last = _Window(-1.0, 0, 0, part), part.first
        before: list[int] = []  # the terms from each mark on to one in the window, the first mark being at the end
        after = 0  # the terms of the marks after that one
        for first in range(part.first, part.last):
            until = max(bisect_right(self._ends, self._starts[first] + self._size, last, part.last), first + 1)
            if not before:
                before, after = list(accumulate(reversed(self._terms[first:until]), or_)), 0
            elif until > last:
                after = reduce(or_, self._terms[last:until], after)
            if until > last:  # else it is a part of the one before
                score = self._scores[before[-1] | after]
                if score > best.score * (1 + _ROUNDING):
                    best = _Window(score, first, until, part)
            last = until
            if last == part.last:
                break
            before.pop()
        return best

    def _pad(self, window: _Window) -> _Part:
        """Return a window with its marks in the middle; if there is room, with whole clauses or words around."""
        _, at, until, part = window
        first, last = self._starts[at], self._ends[until - 1]
        room = max(self._size - (last - first), 0)
        after = min(room - min(room // 2, first - part.start), part.end - last)
        start, end = first - min(room - after, first - part.start), last + after
        if start > part.start:
            clause = _CLAUSE.search(self._text, start, first)
            start = clause.end() if clause else _word_border(self._text, start, first)
        if end < part.end:
            clauses = list(_CLAUSE.finditer(self._text, last, end))
            end = clauses[-1].end() if clauses else _word_border(self._text, end, last)
        cut = bisect_left(self._starts, start, part.first, at)  # the first mark that is not cut at the start
        if cut > part.first:
            start = max(start, self._ends[cut - 1])
        cut = bisect_right(self._ends, end, until, part.last)
        if cut < part.last:
            end = min(end, self._starts[cut])
        inside = bisect_left(self._starts, start, part.first, at), bisect_right(self._ends, end, until, part.last)
        return self._strip(_Part(start, end, *inside))

    def _strip(self, part: _Part) -> _Part:
        """Return a part without white space at its ends."""
        start, end, first, last = part
        stripped = self._text[start:end].rstrip()
        end = start + len(stripped)
        return _Part(end - len(stripped.lstrip()), end, first, last)

    def _fragment(self, score: float, part: _Part) -> Fragment:
        start, end, first, last = self._strip(part)
        marks = tuple(zip(self._starts[first:last], self._ends[first:last], strict=True))
        return Fragment(self._text[start:end], start, end, score, marks)


_score_of = itemgetter(0)


def _ends_of_sentences(text: str) -> list[int]:
    return [match.end() for match in _ENDS.finditer(text) if not match[1].isascii() or _ends_sentence(text, match)]


def _ends_sentence(text: str, match: re.Match[str]) -> bool:
    """Return whether ASCII signs end a sentence: ``e.g. this``, ``Dr. No``, ``3.5`` and a line that goes on do not."""
    signs, end = match[1], match.end()
    goes_on = end < len(text) and text[end].islower() and text[end].isascii()
    if signs == "\n" or "\n" in match[0]:
        return not goes_on or match[0].count("\n") > 1
    if not match[0][-1].isspace() or goes_on:
        return False
    return signs != "." or _NO_END.search(text, max(0, match.start() - 5), match.start()) is None


def _word_border(text: str, place: int, inner: int) -> int:
    """Move a place within a word towards another one, as far as the border of the word."""
    step = 1 if place < inner else -1
    while place != inner and _WITHIN_WORD.match(text, place - 1):
        place += step
    return place
