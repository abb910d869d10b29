"""Locate some of the tokens of texts, without those of the rest.

All texts of a call are searched as one, since most of what a search in a short text costs is the call.
"""

from __future__ import annotations

from functools import cached_property
from itertools import accumulate, chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rag_bm25.analysis.marks import NO_MARKS, Marks, as_marks, as_places, as_sets, merge, split_marks
from rag_bm25.analysis.normalization import keeps_places
from rag_bm25.analysis.runs import find_borders, is_han, locate_runs, may_hold_word_bigrams
from rag_bm25.analysis.segmentation import BORDER
from rag_bm25.analysis.stretches import locate_stretches
from rag_bm25.analysis.text import Token
from rag_bm25.vectors.terms import BIGRAM_MARK, is_bigram, is_word_bigram

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from numpy.typing import NDArray

    from rag_bm25.analysis.marks import Places
    from rag_bm25.analysis.normalization import Origins
    from rag_bm25.analysis.stretches import Stretches

MAX_JOINED = 100_000  # characters; the text that exceeds it may be longer
_NO_TERM = -1  # of a spelling that is only a word or only a bigram
_BETWEEN = "\n\0\n"  # texts that are joined: no token spans two blanks and a sign that is a stretch by itself


class WantedTerms:
    """Terms to locate, each with its number, by the way in which it is looked for."""

    def __init__(self, terms: Mapping[str, int]) -> None:
        self.numbers = terms

    @cached_property
    def chinese(self) -> dict[str, int]:
        """The Chinese words."""
        return {term: number for term, number in self.numbers.items() if is_han(term)}

    @cached_property
    def pairs(self) -> dict[str, int]:
        """The bigrams of characters, without their mark."""
        return {
            term[1:]: number for term, number in self.numbers.items() if is_bigram(term) and not is_word_bigram(term)
        }

    @cached_property
    def word_bigrams(self) -> dict[str, int]:
        return {term: number for term, number in self.numbers.items() if is_word_bigram(term)}

    @cached_property
    def others(self) -> dict[str, int]:
        """The words that are not Chinese."""
        return {term: number for term, number in self.numbers.items() if not is_bigram(term) and not is_han(term)}


class JoinedTexts:
    """Texts one after the other."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.text = _BETWEEN.join(texts)
        self.starts = list(accumulate([len(text) + len(_BETWEEN) for text in texts[:-1]], initial=0))


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    """Yield the texts, as many at once as may be joined."""
    batch: list[str] = []
    length = 0
    for text in texts:
        batch.append(text)
        length += len(text)
        if length >= MAX_JOINED:
            yield batch
            batch, length = [], 0
    if batch:
        yield batch


class StretchLocator:
    """Locates words that are not Chinese, and bigrams of words."""

    def __init__(self, words: Mapping[str, int], bigrams: Mapping[str, int], stretches: Stretches) -> None:
        pairs = [bigram.removeprefix(BIGRAM_MARK).split(" ") for bigram in bigrams]
        self._words = words
        self._bigrams = bigrams
        self._begins = {first for first, _ in pairs}.union(bigrams)
        self._ends = {second for _, second in pairs}
        self._stretches = stretches

    def __call__(self, text: str) -> Places:
        """Return the places of the tokens."""
        if not (self._words or self._bigrams):
            return as_places([])
        stretches, starts = locate_stretches(text)
        different = set(stretches)
        holders = self._stretches.holders(different)
        words = {stretch: self._words_in(stretch) for stretch in holders.among(different, self._words)}
        begins = ends = within = set[str]()
        if self._bigrams and may_hold_word_bigrams(text):
            begins = holders.among(different, self._begins)
            ends = holders.among(different, self._ends)
            within = holders.among(different, self._bigrams)
        places: list[tuple[int, int, int]] = []
        for at in _places_of(begins.union(words), stretches):
            stretch, start = stretches[at], int(starts[at])
            places += [(start + first, start + last, number) for first, last, number in words.get(stretch, ())]
            if stretch in begins:
                until = end = start + len(stretch)
                if at + 1 < len(stretches) and stretches[at + 1] in ends and text[end : starts[at + 1]].isspace():
                    until = int(starts[at + 1]) + len(stretches[at + 1])
                if until > end or stretch in within:
                    places += self._bigrams_in(text[start:until], start, end)
        return as_places(places)

    def _words_in(self, stretch: str) -> list[tuple[int, int, int]]:
        return [
            (match.start() + start, match.start() + end, self._words[term])
            for match in locate_runs(stretch)
            for term, start, end in self._stretches.terms.places[match[0]]
            if term in self._words
        ]

    def _bigrams_in(self, part: str, start: int, end: int) -> list[tuple[int, int, int]]:
        """Return the bigrams of a part of a text that begin before an end."""
        return [
            (start + first, start + last, self._bigrams[bigram])
            for bigram, first, last in self._stretches.word_bigrams.located(part)
            if bigram in self._bigrams and start + first < end
        ]


def _places_of(wanted: AbstractSet[str], stretches: Sequence[str]) -> list[int]:
    """Return the places of some of the stretches, in a third of the time of a loop."""
    are_wanted = np.fromiter(map(wanted.__contains__, stretches), np.bool_, len(stretches))
    places: list[int] = np.flatnonzero(are_wanted).tolist()
    return places


class SpellingLocator:
    """Locates Chinese words and bigrams of characters as they are spelt, each different spelling once."""

    def __init__(self, words: Mapping[str, int], pairs: Mapping[str, int]) -> None:
        self._spellings = list(dict.fromkeys(chain(words, pairs)))
        self._lengths = np.fromiter(map(len, self._spellings), np.intp)
        self._words, self._pairs = (
            np.array([numbers.get(spelling, _NO_TERM) for spelling in self._spellings], np.intp)
            for numbers in (words, pairs)
        )

    def __call__(self, text: str) -> tuple[Places, Places]:
        """Return the places of words, by their start, and those of bigrams; both may overlap."""
        found: list[int] = []
        counts: list[int] = []
        for spelling in self._spellings:
            before = len(found)
            at = text.find(spelling)
            while at >= 0:
                found.append(at)
                at = text.find(spelling, at + 1)
            counts.append(len(found) - before)
        starts, which = np.array(found, np.intp), np.repeat(np.arange(len(counts)), counts)
        order = starts.argsort(kind="stable")
        starts, which = starts[order], which[order]
        return self._places(starts, which, self._words), self._places(starts, which, self._pairs)

    def _places(self, starts: NDArray[np.intp], which: NDArray[np.intp], numbers: NDArray[np.intp]) -> Places:
        terms = numbers[which]
        at = np.flatnonzero(terms != _NO_TERM)
        places = np.empty((len(at), 3), np.intp)
        places[:, 0] = starts[at]
        places[:, 1] = places[:, 0] + self._lengths[which[at]]
        places[:, 2] = terms[at]
        return places


class ChineseLocator:
    """Locates Chinese words."""

    def __init__(
        self, words: Mapping[str, int], cut: Callable[[str], list[str]], within: Mapping[str, list[Token]]
    ) -> None:
        self._words = {number: word for word, number in words.items()}
        self._cut = cut
        self._within = within  # the words that a chunk has where it has a word

    def __call__(self, text: str, spelt: Places) -> Places:
        """Return those places, by their start, at which a word is a token; only runs in which one is spelt are cut."""
        if not len(spelt):
            return spelt
        runs, shifts = _runs_at(spelt[:, 0], text)
        words = self._cut(BORDER.join(runs))  # twice as fast as one by one
        borders = np.zeros(len(words) + 1, np.intp)
        np.fromiter(map(len, words), np.intp, len(words)).cumsum(out=borders[1:])
        starts, ends = spelt[:, 0] - shifts, spelt[:, 1] - shifts
        at = borders.searchsorted(starts, "right") - 1
        first, last = borders[at], borders[at + 1]
        found = (starts == first) & (ends == last)
        parts = np.flatnonzero((ends <= last) & ~found)  # of longer words
        offsets = (starts - first)[parts].tolist()
        found[parts] = [
            self._is_within(words[longer], number, offset)
            for longer, number, offset in zip(at[parts].tolist(), spelt[parts, 2].tolist(), offsets, strict=True)
        ]
        words_found: Places = spelt[found]
        return words_found

    def _is_within(self, longer: str, number: int, offset: int) -> bool:
        word = self._words[number]
        return (word, offset, offset + len(word)) in self._within[longer]


def _runs_at(places: NDArray[np.intp], text: str) -> tuple[Iterable[str], NDArray[np.intp]]:
    """Return the different runs of Han at rising places, and how far each place moves when these are joined."""
    borders = find_borders(text)
    after = borders.searchsorted(places, "right")
    is_new = np.diff(after, prepend=0) > 0
    new = after[is_new]
    moved: list[int] = []
    joined: dict[str, int] = {}
    length = 0
    for start, end in zip(borders[new - 1].tolist(), borders[new].tolist(), strict=True):
        run = text[start:end]
        at = joined.setdefault(run, length)
        if at == length:
            length += end - start + len(BORDER)
        moved.append(start - at)
    return joined, np.array(moved)[is_new.cumsum() - 1]


class TextForms(NamedTuple):
    """How an analyzer normalises texts, and how it splits a form at user words, which are at the odd places."""

    normalize: Callable[[Sequence[str]], Sequence[str]]
    origins: Callable[[str], Origins]
    split: Callable[[str], list[str]] | None  # None if there are no such words


class Locator:
    """Locates some tokens in texts."""

    def __init__(
        self,
        wanted: WantedTerms,
        forms: TextForms,
        chinese: ChineseLocator,
        others: StretchLocator,
        bigrams: StretchLocator | None = None,  # of words, if not among the others
    ) -> None:
        self._wanted = wanted
        self._forms = forms
        self._spelt = SpellingLocator(wanted.chinese, wanted.pairs)
        self._chinese = chinese
        self._others = others
        self._bigrams = bigrams

    def __call__(self, text: str) -> list[Token]:
        """Return the tokens with their places, in text order."""
        (form,) = self._forms.normalize([text])
        terms = {number: term for term, number in self._wanted.numbers.items()}
        tokens = [Token(terms[number], start, end) for start, end, number in self._places([form])[1].tolist()]
        if not self._keeps_places(text, form):
            origins = self._forms.origins(text)
            tokens = [Token(term, *origins.of(start, end)) for term, start, end in tokens]
        return sorted(tokens, key=lambda token: token[1:])

    def mark(self, texts: Sequence[str]) -> list[Marks]:
        """Return the marks of the tokens in each of some texts."""
        return [marks for some in _batches(texts) for marks in self._mark(some)]

    def _mark(self, texts: Sequence[str]) -> list[Marks]:
        forms = self._forms.normalize(texts)
        borders, places = self._places(forms)
        if not len(places):
            return [NO_MARKS for _ in texts]
        bits = as_sets([1 << number for number in range(max(self._wanted.numbers.values()) + 1)])
        in_forms = split_marks(merge(places[:, 0], places[:, 1], bits[places[:, 2]]), borders)
        return [
            marks if self._keeps_places(text, form) else self._original(text, marks)
            for text, form, marks in zip(texts, forms, in_forms, strict=True)
        ]

    @staticmethod
    def _keeps_places(text: str, form: str) -> bool:
        return form is text or keeps_places(text)

    def _original(self, text: str, marks: Marks) -> Marks:
        """Return the marks of a text by those of its form, of which one cluster may have had several."""
        if not marks.starts:
            return marks
        origins = self._forms.origins(text)
        places = np.array([origins.of(*place) for place in zip(marks.starts, marks.ends, strict=True)])
        return as_marks(merge(places[:, 0], places[:, 1], as_sets(marks.terms)))

    def _places(self, forms: Sequence[str]) -> tuple[list[int], Places]:
        """Return where each form starts when all are joined, and the places in them, in any order."""
        joined = JoinedTexts(forms)
        words, pairs = self._spelt(joined.text)
        found = [pairs]
        if self._forms.split is None:
            found += [self._chinese(joined.text, words), self._others(joined.text)]
        else:
            found += self._beside_user_words(list(map(self._forms.split, forms)), joined.starts)
        if self._bigrams is not None:
            found.append(self._bigrams(joined.text))
        return joined.starts, np.concatenate(found)

    def _beside_user_words(self, forms: Sequence[Sequence[str]], starts: Sequence[int]) -> list[Places]:
        """Return the places of user words, and of words in the pieces between them."""
        user_words: list[tuple[int, int, int]] = []
        between: list[str] = []
        places: list[int] = []  # of the pieces between
        for start, pieces in zip(starts, forms, strict=True):
            at = start
            for number, piece in enumerate(pieces):
                if number % 2 == 0:
                    between.append(piece)
                    places.append(at)
                elif (word := piece.casefold()) in self._wanted.numbers:
                    user_words.append((at, at + len(piece), self._wanted.numbers[word]))
                at += len(piece)
        joined = JoinedTexts(between)
        words, _ = self._spelt(joined.text)
        found = np.concatenate([self._chinese(joined.text, words), self._others(joined.text)])
        moved = np.array(places, np.intp) - joined.starts
        found[:, :2] += moved[np.searchsorted(joined.starts, found[:, 0], "right") - 1, np.newaxis]
        return [found, as_places(user_words)]
