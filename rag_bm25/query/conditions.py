"""The conditions of a query, as they are checked against stored chunks."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Generic, TypeVar

from rag_bm25.analysis.compounds import compounds_among, compounds_of
from rag_bm25.analysis.normalization import normalize
from rag_bm25.analysis.phrases import PhraseAnalyzer, PhraseText, terms_of_phrase
from rag_bm25.analysis.runs import LETTER, is_segmented, is_syllabic
from rag_bm25.analysis.text import AnalysedText
from rag_bm25.budget import check_budget
from rag_bm25.query.expansion import spell_numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rag_bm25.analysis import TextAnalyzer
    from rag_bm25.analysis.compounds import Compound
    from rag_bm25.query.query import Query
    from rag_bm25.vectors.sparse import SparseVector

MAX_NUMBERS = 4  # of a condition that are spelt in two ways each


@dataclass(frozen=True, eq=False)
class CheckedChunk:
    """A chunk that is checked; its texts are analysed when a condition needs it."""

    vector: SparseVector
    texts: Sequence[str]  # that of the chunk and those of its fields, each item of a list by itself
    analyzer: TextAnalyzer

    @cached_property
    def ids(self) -> frozenset[int]:
        return frozenset(self.vector.ids.tolist())

    @cached_property
    def phrase_texts(self) -> list[PhraseText]:
        return [PhraseText.of(self.analyzer, text) for text in self.texts]

    @cached_property
    def words(self) -> frozenset[str]:
        """The words of the texts as phrases see them, stop words and single ideographs among them."""
        return frozenset().union(*(text.words for text in self.phrase_texts))

    @cached_property
    def written(self) -> list[str]:
        return list(map(_written_form, self.texts))

    def shows(self, signs: re.Pattern[str]) -> bool:
        """Return whether signs are written in one of the texts."""
        return any(map(signs.search, self.written))


@dataclass(frozen=True)
class WantedName:
    """A name of several terms, and the ways in which a chunk may have it."""

    ways: tuple[tuple[frozenset[int], frozenset[str]], ...]  # ids, and stop words, which are compared as in phrases

    @classmethod
    def of(cls, compound: Compound, ids: Mapping[str, int]) -> WantedName:
        return cls(tuple((frozenset(map(ids.__getitem__, way.terms)), way.dropped) for way in compound.ways))

    def is_in(self, chunk: CheckedChunk) -> bool:
        """Return whether a chunk has the name in any way."""
        return any(ids <= chunk.ids and (not words or words <= chunk.words) for ids, words in self.ways)

    @property
    def ids(self) -> frozenset[int]:
        """The terms that it has in every way."""
        return frozenset.intersection(*(ids for ids, _ in self.ways))


@dataclass(frozen=True)
class WantedWords:
    """A text of which a chunk must have all words, or not all."""

    text: str
    ids: frozenset[int]  # of the words by which chunks are found, each of which every chunk with the text has
    names: tuple[WantedName, ...] = ()
    words: frozenset[str] = frozenset()  # that are compared as those of phrases are
    signs: re.Pattern[str] | None = None  # of a text without words

    @classmethod
    def of(cls, text: str, analyzer: TextAnalyzer, ids: Mapping[str, int]) -> WantedWords:
        """Analyse a text. An ideograph, or all words if the analyzer drops them, are looked for where phrases are."""
        every = Counter(AnalysedText.of_query(analyzer, text).words)
        alone, compounds = compounds_among(every, compounds_of(analyzer, text))
        words = {term for term in alone if _may_be_within_words(term, analyzer)}
        words |= set() if every else set(PhraseText.of(analyzer, text).words)
        signs = None if every or words else _pattern_of(text)
        names = tuple(WantedName.of(compound, ids) for compound in compounds)
        in_all = frozenset(ids[term] for term in alone.keys() - words).union(*(name.ids for name in names))
        return cls(text, in_all, names, frozenset(words), signs)

    def is_in(self, chunk: CheckedChunk, _slop: int = 0) -> bool:
        """Return whether a chunk has all of it."""
        if not self.ids <= chunk.ids or not all(name.is_in(chunk) for name in self.names):
            return False
        if self.words and not self.words <= chunk.words:
            return False
        return self.signs is None or chunk.shows(self.signs)

    @property
    def unit(self) -> str:
        return "sign" if self.signs else "word"


@dataclass(frozen=True)
class Phrase:
    """A phrase that a chunk must have."""

    text: str
    words: PhraseText
    ids: frozenset[int]  # of terms that every chunk with the phrase has
    signs: re.Pattern[str] | None = None  # of a phrase without words

    @classmethod
    def of(cls, text: str, slop: int, analyzer: TextAnalyzer, ids: Mapping[str, int]) -> Phrase:
        """Analyse a phrase."""
        words = PhraseText.of(analyzer, text)
        if not words.words:
            return cls(text, words, frozenset(), _pattern_of(text))
        return cls(text, words, frozenset(ids[term] for term in terms_of_phrase(analyzer, text, slop)))

    def is_in(self, chunk: CheckedChunk, slop: int) -> bool:
        """Return whether a text of a chunk has it."""
        check_budget()
        if self.signs is not None:
            return chunk.shows(self.signs)
        return self.ids <= chunk.ids and any(text.holds(self.words, slop) for text in chunk.phrase_texts)


_Condition = TypeVar("_Condition", WantedWords, Phrase)


@dataclass(frozen=True)
class AnySpelling(Generic[_Condition]):
    """A condition for each spelling of a text, such as 第47条 and 第四十七条; one of them is enough."""

    text: str
    spellings: tuple[_Condition, ...]

    @classmethod
    def of(cls, text: str, make: Callable[[str], _Condition], *, numerals: bool) -> AnySpelling[_Condition]:
        texts = [text]
        for number in islice(spell_numbers(text) if numerals else (), MAX_NUMBERS):
            texts += [one.replace(number.written, number.spelling) for one in texts]
        return cls(text, tuple(map(make, dict.fromkeys(texts))))

    def is_in(self, chunk: CheckedChunk, slop: int = 0) -> bool:
        return any(spelling.is_in(chunk, slop) for spelling in self.spellings)

    @property
    def ids(self) -> frozenset[int]:
        """The terms of every spelling."""
        return frozenset.intersection(*(spelling.ids for spelling in self.spellings))


@dataclass(frozen=True)
class Conditions:
    """The conditions of a query for one analyzer and vocabulary."""

    must: tuple[AnySpelling[WantedWords], ...]
    must_not: tuple[AnySpelling[WantedWords], ...]
    phrases: tuple[AnySpelling[Phrase], ...]
    slop: int

    @classmethod
    def of(
        cls, query: Query, analyzer: TextAnalyzer, ids: Mapping[str, int], *, numerals: bool = True
    ) -> Conditions | None:
        """Analyse the conditions of a query; None if there are none."""
        if not query.has_conditions:
            return None

        def words_of(text: str) -> AnySpelling[WantedWords]:
            return AnySpelling.of(text, lambda one: WantedWords.of(one, analyzer, ids), numerals=numerals)

        def phrase_of(text: str) -> AnySpelling[Phrase]:
            return AnySpelling.of(text, lambda one: Phrase.of(one, query.slop, analyzer, ids), numerals=numerals)

        must, must_not = (tuple(map(words_of, texts)) for texts in (query.must, query.must_not))
        return cls(must, must_not, tuple(map(phrase_of, query.phrases)), query.slop)

    @property
    def needed(self) -> frozenset[int]:
        """The terms that every chunk has that meets the conditions."""
        return frozenset().union(*(wanted.ids for wanted in self.must), *(phrase.ids for phrase in self.phrases))

    @property
    def required_texts(self) -> list[str]:
        """The texts whose words a chunk may have that meets the conditions."""
        of_must = [spelling.text for wanted in self.must for spelling in wanted.spellings]
        return of_must + [spelling.text for phrase in self.phrases for spelling in phrase.spellings]

    def failure(self, chunk: CheckedChunk) -> str:
        """Return which condition a chunk does not meet, as a clause; "" if it meets all."""
        check_budget()
        for wanted in self.must:
            if not wanted.is_in(chunk):
                return f"it lacks a {wanted.spellings[0].unit} of must {wanted.text!r}"
        for wanted in self.must_not:
            if wanted.is_in(chunk):
                return f"it has the {wanted.spellings[0].unit}s of must_not {wanted.text!r}"
        for phrase in self.phrases:
            if not phrase.is_in(chunk, self.slop):
                return f"it lacks the phrase {phrase.text!r}" + (f" with slop {self.slop}" if self.slop else "")
        return ""


def _may_be_within_words(term: str, analyzer: TextAnalyzer) -> bool:
    """Return whether chunks may have a word of one character within a longer word, where no term tells."""
    return len(term) == 1 and isinstance(analyzer, PhraseAnalyzer) and (is_segmented(term) or is_syllabic(term))


def _written_form(text: str) -> str:
    """Return a text in the form in which signs are compared."""
    return " ".join(normalize(text).casefold().split())


def _pattern_of(text: str) -> re.Pattern[str]:
    """Return the pattern of a text without words; where it begins or ends with a letter, so does a word."""
    form = _written_form(text)
    start = f"(?<!{LETTER})" if re.match(LETTER, form[0]) else ""
    end = f"(?!{LETTER})" if re.match(LETTER, form[-1]) else ""
    return re.compile(start + re.escape(form) + end)
