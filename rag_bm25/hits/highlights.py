"""Highlight the terms of a query in a text: its best sentences, and the places of the terms in them."""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from rag_bm25.analysis.places import locate_tokens
from rag_bm25.analysis.runs import LETTER
from rag_bm25.checks import check_int
from rag_bm25.documents.chunks import Fragment
from rag_bm25.errors import ParameterError, short_repr

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rag_bm25.analysis import TextAnalyzer, Token

MAX_FRAGMENTS = 1_000
SIZES = 20, 65_535
_ROUNDING = 1e-9  # of sums of weights, relative to the best of them

_CLOSING = "\"'”’»」』）)】》〉\\]"
_ABBREVIATED = "Mr Mrs Ms Dr Prof St Fig Figs No Nos Eq vs al cf pp"
_NOT_ABBREVIATED = "".join(rf"(?<!\b{short})" for short in _ABBREVIATED.split())
_ENDS = re.compile(
    rf"""[。！？；…]+[{_CLOSING}]*\s*
    | [!?]+[{_CLOSING}]*\s+
    | (?<![.\s][A-Za-z]) (?<!^[A-Za-z]) {_NOT_ABBREVIATED} \.+[{_CLOSING}]*\s+ (?=[^\sa-z])
    | \n\s*(?=[^\sa-z])
    | \n\s*\n\s*""",
    re.VERBOSE,
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
    """A part of a text, and the tokens in it by their places, at least one."""

    start: int
    end: int
    tokens: Sequence[Token]


@dataclass(frozen=True, eq=False)
class Highlighter:
    """Find the fragments of texts that hold weighted terms."""

    analyzer: TextAnalyzer
    weights: Mapping[str, float]  # of each term, as the vocabulary has it
    highlighting: Highlighting

    def highlight(self, text: str) -> tuple[Fragment, ...]:
        """Return the best fragments of a text, by falling score, then by place."""
        tokens = locate_tokens(self.analyzer, text, self.weights.keys())
        parts = [part for sentence in _sentences(text, tokens) for part in self._cut(text, sentence)]
        scored = sorted(
            ((-self._score(part.tokens), part) for part in parts), key=lambda pair: (pair[0], pair[1].start)
        )
        return tuple(
            Fragment(text[start:end], start, end, -score, _merge(tokens))
            for score, (start, end, tokens) in scored[: self.highlighting.max_fragments]
        )

    def _score(self, tokens: Iterable[Token]) -> float:
        """Return the weights of the distinct terms."""
        return math.fsum(map(self.weights.__getitem__, {token.text for token in tokens}))

    def _cut(self, text: str, sentence: _Part) -> Iterator[_Part]:
        """Yield a sentence or, if it is too long, its best windows, as many as there may be fragments."""
        if sentence.end - sentence.start <= self.highlighting.size:
            yield sentence
            return
        left = [(self._best_window(sentence), sentence)]
        for _ in range(self.highlighting.max_fragments):
            if not left:
                return
            best = max(left, key=lambda entry: entry[0][0])
            left.remove(best)
            (_, first, last), part = best
            window = _pad(text, part, part.tokens[first:last], self.highlighting.size)
            yield window
            for start, end in ((part.start, window.start), (window.end, part.end)):
                tokens = [token for token in part.tokens if start <= token.start and token.end <= end]
                if tokens:
                    rest = _Part(start, end, tokens)
                    left.append((self._best_window(rest), rest))

    def _best_window(self, part: _Part) -> tuple[float, int, int]:
        """Return the score and the slice of the tokens with the highest weights that fit into a fragment."""
        tokens, size = part.tokens, self.highlighting.size
        held: Counter[str] = Counter()
        score, best, last = 0.0, (-1.0, 0, 0), 0
        for first, token in enumerate(tokens):
            while last < len(tokens) and (last == first or tokens[last].end <= token.start + size):
                score += 0.0 if held[tokens[last].text] else self.weights[tokens[last].text]
                held[tokens[last].text] += 1
                last += 1
            if score > best[0] * (1 + _ROUNDING):
                best = score, first, last
            held[token.text] -= 1
            score -= 0.0 if held[token.text] else self.weights[token.text]
        return best


def _sentences(text: str, tokens: Sequence[Token]) -> Iterator[_Part]:
    """Yield the sentences with tokens; none ends within a token, such as a bigram of words on two lines."""
    ends = [*(match.end() for match in _ENDS.finditer(text)), len(text)] if tokens else []
    start = end = 0
    held: list[Token] = []
    for token in tokens:
        if token.start >= end:
            if held:
                yield _strip(text, _Part(start, end, held))
            at = bisect_right(ends, token.start)
            start, end, held = (ends[at - 1] if at else 0), ends[at], []
        if token.end > end:
            end = ends[bisect_left(ends, token.end)]
        held.append(token)
    if held:
        yield _strip(text, _Part(start, end, held))


def _strip(text: str, part: _Part) -> _Part:
    """Leave out white space at both ends."""
    whole = text[part.start : part.end]
    start = part.end - len(whole.lstrip())
    return part._replace(start=start, end=start + len(whole.strip()))


def _pad(text: str, part: _Part, tokens: Sequence[Token], size: int) -> _Part:
    """Return a window with some tokens in the middle; if there is room, it begins and ends with a clause or a word."""
    first, last = tokens[0].start, max(token.end for token in tokens)
    room = max(size - (last - first), 0)
    before = min(room // 2, first - part.start)
    after = min(room - before, part.end - last)
    before = min(room - after, first - part.start)
    start, end = first - before, last + after
    if start > part.start:
        clause = _CLAUSE.search(text, start, first)
        start = clause.end() if clause else _word_border(text, start, first)
    if end < part.end:
        clauses = list(_CLAUSE.finditer(text, last, end))
        end = clauses[-1].end() if clauses else _word_border(text, end, last)
    inside = [token for token in part.tokens if start <= token.start and token.end <= end]
    return _strip(text, _Part(start, end, inside))


def _word_border(text: str, place: int, inner: int) -> int:
    """Move a place within a word towards another one, as far as the border of the word."""
    step = 1 if place < inner else -1
    while place != inner and _WITHIN_WORD.match(text, place - 1):
        place += step
    return place


def _merge(tokens: Iterable[Token]) -> tuple[tuple[int, int], ...]:
    """Return the places of tokens, those that overlap as one."""
    marks: list[tuple[int, int]] = []
    for _, start, end in tokens:
        if marks and start < marks[-1][1]:
            marks[-1] = marks[-1][0], max(end, marks[-1][1])
        else:
            marks.append((start, end))
    return tuple(marks)
