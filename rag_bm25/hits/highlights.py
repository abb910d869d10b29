"""Highlight the terms of a query in a text: its best sentences, and the places of the terms in them."""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import asdict, dataclass, replace
from functools import cached_property, reduce
from itertools import accumulate
from operator import itemgetter, or_
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias, TypeVar

from rag_bm25.analysis import Analyzer
from rag_bm25.analysis.places import locate_terms
from rag_bm25.analysis.runs import is_within_word
from rag_bm25.analysis.text import AnalysedText
from rag_bm25.budget import check_budget
from rag_bm25.definitions import Between, check_fields
from rag_bm25.documents.chunks import Fragment, Hit
from rag_bm25.vectors.terms import is_character, is_word, term_text
from rag_bm25.weighting.fields import CONTEXT, field_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from rag_bm25.analysis import TextAnalyzer
    from rag_bm25.analysis.text import Token
    from rag_bm25.query.conditions import Conditions
    from rag_bm25.query.terms import QueryTerms

H = TypeVar("H", bound=Hit)

MAX_FRAGMENTS = 1_000
SIZES = 20, 65_535
HIGHLIGHTS, FIELD_HIGHLIGHTS = "highlights", "field_highlights"
"""Metadata keys of the fragments of a hit, where a framework has no other place for them."""
_MORE = 1 + 1e-9  # times a sum of weights: above it, another one is not the same but for rounding

# Signs that may end a sentence, with the quotes that close it, and white space after them.
# They are one set at the beginning of the pattern, which is found faster than a choice.
_ENDS = re.compile(r"([。！？；…!?.\n](?:(?<!\n)[。！？；…!?.]+)?)[\"'”’»」』）)】》〉\]]*\s*")
_NO_END = re.compile(
    r"(?:(?:^|[.\s(])[A-Za-z]|(?:^|\n)\s*\d{1,3}|\b(?:Mr|Mrs|Ms|Dr|Prof|St|Figs?|Nos?|Eq|vs|al|cf|pp))$"
)
_CLAUSE = re.compile(r"[，、：,;:]\s*")


@dataclass(frozen=True)
class Highlighting:
    """Number and size of the highlights of a text.

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

    max_fragments: Annotated[int, Between(1, MAX_FRAGMENTS)] = 3
    size: Annotated[int, Between(*SIZES)] = 200

    def __post_init__(self) -> None:
        check_fields(self)


def highlight_metadata(hit: Hit) -> dict[str, Any]:
    """Return the fragments of a hit as JSON values, with their places in the text of its context."""
    if hit.highlights is None:
        return {}
    by = 0 if hit.context is None else hit.context.start
    found: dict[str, Any] = {HIGHLIGHTS: [_to_json(fragment, by) for fragment in hit.highlights]}
    if hit.field_highlights:
        found[FIELD_HIGHLIGHTS] = {name: list(map(_to_json, some)) for name, some in hit.field_highlights.items()}
    return found


def _to_json(fragment: Fragment, by: int = 0) -> dict[str, Any]:
    """Return a fragment as JSON values, its places shifted."""
    marks = [[start + by, end + by] for start, end in fragment.marks]
    return {**asdict(fragment), "start": fragment.start + by, "end": fragment.end + by, "marks": marks}


_Part: TypeAlias = tuple[int, int, int, int]
"""The start and end of a part of a text, its first mark, and the first one after it."""


class Marks(NamedTuple):
    """The start of each mark, its end, and the set of the terms in it, of which each is a bit."""

    starts: list[int]
    ends: list[int]
    terms: list[int]


def merge(tokens: Iterable[Token], bits: Mapping[str, int]) -> Marks:
    """Return the places of terms as marks, those that overlap as one."""
    marks = Marks([], [], [])
    for term, start, end in sorted(tokens, key=itemgetter(1)):
        if marks.ends and start < marks.ends[-1]:
            marks.ends[-1] = max(marks.ends[-1], end)
            marks.terms[-1] |= bits[term]
        else:
            marks.starts.append(start)
            marks.ends.append(end)
            marks.terms.append(bits[term])
    return marks


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
        check_budget()
        tokens = locate_terms(self.analyzer, self.weights.keys(), text)
        marks = merge(list(filter(self._says_much, tokens)) or tokens, self._bits)
        return _MarkedText(text, marks, self._scores, self.highlighting).best_fragments() if marks.starts else ()

    def _says_much(self, token: Token) -> bool:
        """Return whether a token is no single character, or one that is a word of the query."""
        return not is_character(token.text) or term_text(token.text) in self.weights

    @cached_property
    def _bits(self) -> dict[str, int]:
        return {term: 1 << at for at, term in enumerate(self.weights)}

    @cached_property
    def _scores(self) -> _Scores:
        return _Scores(self.weights.values())


class _MarkedText:
    """A text with its marks."""

    def __init__(self, text: str, marks: Marks, scores: Mapping[int, float], highlighting: Highlighting) -> None:
        self._text = text
        self._starts, self._ends, self._terms = marks
        self._places = list(zip(marks.starts, marks.ends, strict=True))
        self._scores = scores
        self._size = highlighting.size
        self._max_fragments = highlighting.max_fragments

    def best_fragments(self) -> tuple[Fragment, ...]:
        parts: list[_Part] = []
        for part in map(self._strip, self._sentences()):
            parts += [part] if part[1] - part[0] <= self._size else self._windows(part)
        best = sorted([(-self._score(first, last), start, end, first, last) for start, end, first, last in parts])
        return tuple([self._fragment(*part) for part in best[: self._max_fragments]])  # no two begin at one place

    def _score(self, first: int, last: int) -> float:
        return self._scores[reduce(or_, self._terms[first:last])]

    def _fragment(self, score: float, start: int, end: int, first: int, last: int) -> Fragment:
        return Fragment(self._text[start:end], start, end, -score, tuple(self._places[first:last]))

    def _sentences(self) -> Iterator[_Part]:
        """Yield the sentences with marks; none ends within a mark, such as a bigram of words on two lines."""
        starts, ends = self._starts, self._ends
        borders = [0, *_ends_of_sentences(self._text), len(self._text)]
        last = 0
        while last < len(starts):
            first, at = last, bisect_right(borders, starts[last], 0, -1)
            start, end = borders[at - 1], borders[at]
            last = bisect_left(starts, end, first)
            while ends[last - 1] > end:
                end = borders[bisect_left(borders, ends[last - 1])]
                last = bisect_left(starts, end, last)
            yield start, end, first, last

    def _windows(self, sentence: _Part) -> Iterator[_Part]:
        """Yield the best windows of a long sentence, as many as there may be fragments."""
        found, rest = [], [sentence]
        for _ in range(self._max_fragments):
            check_budget()
            found += [(*self._best_window(first, last), (start, end, first, last)) for start, end, first, last in rest]
            if not found:
                return
            best = max(found, key=_score_of)
            found.remove(best)
            _, at, until, around = best
            window = self._pad(at, until, around)
            yield window
            before = around[0], window[0], around[2], window[2]
            after = window[1], around[1], window[3], around[3]
            rest = [part for part in (before, after) if part[2] < part[3]]

    def _best_window(self, first: int, last: int) -> tuple[float, int, int]:
        """Return the marks that weigh most among those in a range that fit into a fragment, after their score."""
        best, first_of_best, last_of_best, end = -1.0, first, first, first
        before: list[int] = []  # the terms from each mark on to one in the window, the first mark being at the end
        after = 0  # the terms of the marks after that one
        for at in range(first, last):
            until = bisect_right(self._ends, self._starts[at] + self._size, end, last)
            if until == at:  # the mark alone is longer
                until += 1
            if not before:
                before, after = list(accumulate(reversed(self._terms[at:until]), or_)), 0
            elif until > end:
                after = reduce(or_, self._terms[end:until], after)
            if until > end:  # else it is a part of the one before
                score = self._scores[before[-1] | after]
                if score > best * _MORE:
                    best, first_of_best, last_of_best = score, at, until
            end = until
            if end == last:
                break
            before.pop()
        return best, first_of_best, last_of_best

    def _pad(self, at: int, until: int, part: _Part) -> _Part:
        """Return a window with its marks in the middle; if there is room, with whole clauses or words around."""
        starts, ends, text = self._starts, self._ends, self._text
        part_start, part_end, part_first, part_last = part
        first, last = starts[at], ends[until - 1]
        room = max(self._size - (last - first), 0)
        after = min(room - min(room // 2, first - part_start), part_end - last)
        start, end = first - min(room - after, first - part_start), last + after
        if start > part_start:
            clause = _CLAUSE.search(text, start, first)
            start = clause.end() if clause else _word_border(text, start, first)
        if end < part_end:
            clauses = list(_CLAUSE.finditer(text, last, end))
            end = clauses[-1].end() if clauses else _word_border(text, end, last)
        at = bisect_left(starts, start, part_first, at)  # the first mark that is not cut at the start
        if at > part_first:
            start = max(start, ends[at - 1])
        until = bisect_right(ends, end, until, part_last)
        if until < part_last:
            end = min(end, starts[until])
        return self._strip((start, end, at, until))

    def _strip(self, part: _Part) -> _Part:
        """Return a part without white space at its ends."""
        start, end, first, last = part
        text = self._text[start:end]
        if text[0].isspace() or text[-1].isspace():
            stripped = text.rstrip()
            end = start + len(stripped)
            start = end - len(stripped.lstrip())
        return start, end, first, last


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
    while place != inner and is_within_word(text, place):
        place += step
    return place


def make_highlighter(
    terms: QueryTerms, conditions: Conditions | None, analyzer: TextAnalyzer, highlighting: Highlighting
) -> Highlighter:
    """Return a highlighter of the terms of a query; those that have no weight, as in its conditions, count nothing."""
    weights: defaultdict[str, float] = defaultdict(float)
    ignored, in_words = _ignored_characters(analyzer), _pairs_in_words(terms.terms)
    for term, source, weight in zip(terms.terms, terms.sources, terms.weights.tolist(), strict=True):
        across = not is_word(term) and term_text(term) not in in_words
        # Question words would mark what nobody looks for.
        if not source.is_question and not (across and ignored.intersection(term)):
            weights[term] += weight
    if conditions is not None:
        for text in conditions.required_texts:
            weights |= dict.fromkeys(set(AnalysedText.of_query(analyzer, text).words) - weights.keys(), 0.0)
    return Highlighter(analyzer, dict(weights), highlighting)


def _ignored_characters(analyzer: TextAnalyzer) -> frozenset[str]:
    """Return the words of one ideograph that queries leave out: bigrams across words would mark these."""
    words = analyzer.config.question_words if isinstance(analyzer, Analyzer) else ()
    return frozenset(word for word in words if len(word) == 1 and not word.isascii())


def _pairs_in_words(terms: Iterable[str]) -> set[str]:
    """Return each two characters within a word: of 社会保险, 社会 is what a text may have in common with a query."""
    words = (term for term in terms if is_word(term))
    return {word[at : at + 2] for word in words for at in range(len(word) - 1)}


def highlight_hits(highlighter: Highlighter, hits: Sequence[H], fields: Iterable[str]) -> list[H]:
    """Give each hit the fragments of its text and of its fields, but for its context, which is not shown."""
    names = [name for name in fields if name != CONTEXT]
    highlighted = []
    for hit in hits:
        of_fields = {name: highlighter.highlight(field_text(hit.metadata, name)) for name in names}
        some = {name: fragments for name, fragments in of_fields.items() if fragments} if names else None
        highlighted.append(replace(hit, highlights=highlighter.highlight(hit.text), field_highlights=some))
    return highlighted
