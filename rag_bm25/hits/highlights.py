"""Highlight the terms of a query in a text: its best sentences, and the places of the terms in them."""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from rag_bm25.analysis.places import make_locator
from rag_bm25.analysis.runs import LETTER
from rag_bm25.checks import check_int
from rag_bm25.documents.chunks import Fragment
from rag_bm25.errors import ParameterError, short_repr

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from rag_bm25.analysis import TextAnalyzer, Token

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


class _Mark(NamedTuple):
    """A place with terms: one token, or several that overlap."""

    start: int
    end: int
    terms: list[str]


class _Part(NamedTuple):
    """A part of a text, and the marks in it in text order, at least one."""

    start: int
    end: int
    marks: Sequence[_Mark]


class _Window(NamedTuple):
    """The consecutive marks of a part that weigh most among those that fit into a fragment."""

    score: float
    first: int
    last: int  # the first one after them
    part: _Part


@dataclass(frozen=True, eq=False)
class Highlighter:
    """Find the fragments of texts that hold weighted terms."""

    analyzer: TextAnalyzer
    weights: Mapping[str, float]  # of each term, as the vocabulary has it
    highlighting: Highlighting

    def highlight(self, text: str) -> tuple[Fragment, ...]:
        """Return the best fragments of a text, by falling score, then by place."""
        parts = [
            (-self._score(part.marks), part.start, part)
            for sentence in _sentences(text, _merge(self._locate(text)))
            for part in self._cut(text, sentence)
        ]
        best = sorted(parts)[: self.highlighting.max_fragments]  # no two begin at one place
        return tuple([_fragment(text, -score, _strip(text, part)) for score, _, part in best])

    @cached_property
    def _locate(self) -> Callable[[str], list[Token]]:
        return make_locator(self.analyzer, frozenset(self.weights))

    def _score(self, marks: Iterable[_Mark]) -> float:
        """Return the sum of the weights of the distinct terms."""
        terms = set[str]().union(*[mark.terms for mark in marks])
        return math.fsum(map(self.weights.__getitem__, terms))

    def _cut(self, text: str, sentence: _Part) -> Iterator[_Part]:
        """Yield a sentence or, if it is too long, its best windows, as many as there may be fragments."""
        if sentence.end - sentence.start > self.highlighting.size:
            sentence = _strip(text, sentence)
        if sentence.end - sentence.start <= self.highlighting.size:
            yield sentence
            return
        windows = [self._best_window(sentence)]
        for _ in range(self.highlighting.max_fragments):
            if not windows:
                return
            best = max(windows, key=_score_of)
            windows.remove(best)
            part = _pad(text, best, self.highlighting.size)
            yield part
            marks = best.part.marks
            before = _Part(best.part.start, part.start, [mark for mark in marks if mark.end <= part.start])
            after = _Part(part.end, best.part.end, [mark for mark in marks if mark.start >= part.end])
            windows += [self._best_window(rest) for rest in (before, after) if rest.marks]

    def _best_window(self, part: _Part) -> _Window:
        marks, size, weights = part.marks, self.highlighting.size, self.weights
        held: dict[str, int] = defaultdict(int)
        score, best, last = 0.0, _Window(-1.0, 0, 0, part), 0
        for first, mark in enumerate(marks):
            while last < len(marks) and (last == first or marks[last].end <= mark.start + size):
                for term in marks[last].terms:
                    score += 0.0 if held[term] else weights[term]
                    held[term] += 1
                last += 1
            if score > best.score * (1 + _ROUNDING):
                best = _Window(score, first, last, part)
            if last == len(marks):
                break
            for term in mark.terms:
                held[term] -= 1
                score -= 0.0 if held[term] else weights[term]
        return best


_score_of = itemgetter(0)


def _merge(tokens: Iterable[Token]) -> list[_Mark]:
    """Return the places of tokens in text order, those that overlap as one."""
    marks: list[_Mark] = []
    first = until = 0
    terms: list[str] = []
    for term, start, end in tokens:
        if start < until:
            terms.append(term)
            if end > until:
                until = end
        else:
            if terms:
                marks.append(_Mark(first, until, terms))
            first, until, terms = start, end, [term]
    if terms:
        marks.append(_Mark(first, until, terms))
    return marks


def _fragment(text: str, score: float, part: _Part) -> Fragment:
    start, end, marks = part
    return Fragment(text[start:end], start, end, score, tuple([mark[:2] for mark in marks]))


def _sentences(text: str, marks: Sequence[_Mark]) -> Iterator[_Part]:
    """Yield the sentences with marks; none ends within a mark, such as a bigram of words on two lines."""
    ends = [match.end() for match in _ENDS.finditer(text) if _is_end(text, match)] if marks else []
    ends.append(len(text))
    start = end = 0
    held: list[_Mark] = []
    for mark in marks:
        if mark.start >= end:
            if held:
                yield _Part(start, end, held)
            at = bisect_right(ends, mark.start)
            start, end, held = (ends[at - 1] if at else 0), ends[at], []
        if mark.end > end:
            end = ends[bisect_left(ends, mark.end)]
        held.append(mark)
    if held:
        yield _Part(start, end, held)


def _is_end(text: str, match: re.Match[str]) -> bool:
    """Return whether a sign ends a sentence: ``e.g. this``, ``Dr. No``, ``3.5`` and a line that goes on do not."""
    signs, end = match[1], match.end()
    if not signs.isascii():
        return True
    goes_on = end < len(text) and text[end].islower() and text[end].isascii()
    if signs == "\n" or "\n" in match[0]:
        return not goes_on or match[0].count("\n") > 1
    if not match[0][-1].isspace() or goes_on:
        return False
    return signs != "." or _NO_END.search(text, max(0, match.start() - 5), match.start()) is None


def _strip(text: str, part: _Part) -> _Part:
    """Return a part without white space at its ends."""
    start, end, marks = part
    stripped = text[start:end].rstrip()
    end = start + len(stripped)
    return _Part(end - len(stripped.lstrip()), end, marks)


def _pad(text: str, window: _Window, size: int) -> _Part:
    """Return a window with its marks in the middle; if there is room, it begins and ends with a clause or a word."""
    marks, part = window.part.marks[window.first : window.last], window.part
    first, last = marks[0].start, marks[-1].end
    room = max(size - (last - first), 0)
    after = min(room - min(room // 2, first - part.start), part.end - last)
    start, end = first - min(room - after, first - part.start), last + after
    if start > part.start:
        clause = _CLAUSE.search(text, start, first)
        start = clause.end() if clause else _word_border(text, start, first)
    if end < part.end:
        clauses = list(_CLAUSE.finditer(text, last, end))
        end = clauses[-1].end() if clauses else _word_border(text, end, last)
    start = max([start, *(mark.end for mark in part.marks[: window.first] if mark.start < start)])
    end = min([end, *(mark.start for mark in part.marks[window.last :] if mark.end > end)])
    inside = [mark for mark in part.marks if start <= mark.start and mark.end <= end]
    return _strip(text, _Part(start, end, inside))


def _word_border(text: str, place: int, inner: int) -> int:
    """Move a place within a word towards another one, as far as the border of the word."""
    step = 1 if place < inner else -1
    while place != inner and _WITHIN_WORD.match(text, place - 1):
        place += step
    return place
