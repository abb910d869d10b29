"""The conditions of a query, as they are checked against stored chunks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from rag_bm25.analysis.normalization import normalize
from rag_bm25.analysis.phrases import PhraseAnalyzer, PhraseText, terms_of_phrase
from rag_bm25.analysis.runs import LETTER, is_segmented, is_syllabic
from rag_bm25.analysis.text import AnalysedText
from rag_bm25.budget import check_budget

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rag_bm25.analysis import TextAnalyzer
    from rag_bm25.query.query import Query
    from rag_bm25.vectors.sparse import SparseVector


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
class WantedWords:
    """A text of which a chunk must have all words, or not all."""

    text: str
    ids: frozenset[int]  # of the words by which chunks are found
    words: frozenset[str] = frozenset()  # that are compared as those of phrases are
    signs: re.Pattern[str] | None = None  # of a text without words

    @classmethod
    def of(cls, text: str, analyzer: TextAnalyzer, ids: Mapping[str, int]) -> WantedWords:
        """Analyse a text. An ideograph, or all words if the analyzer drops them, are looked for where phrases are."""
        terms = frozenset(AnalysedText.of_query(analyzer, text).words)
        words = {term for term in terms if _may_be_within_words(term, analyzer)}
        words |= set() if terms else set(PhraseText.of(analyzer, text).words)
        signs = None if terms or words else _pattern_of(text)
        return cls(text, frozenset(ids[term] for term in terms - words), frozenset(words), signs)

    def is_in(self, chunk: CheckedChunk) -> bool:
        """Return whether a chunk has all of it."""
        if not self.ids <= chunk.ids or (self.words and not self.words <= chunk.words):
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


@dataclass(frozen=True)
class Conditions:
    """The conditions of a query for one analyzer and vocabulary."""

    must: tuple[WantedWords, ...]
    must_not: tuple[WantedWords, ...]
    phrases: tuple[Phrase, ...]
    slop: int

    @classmethod
    def of(cls, query: Query, analyzer: TextAnalyzer, ids: Mapping[str, int]) -> Conditions | None:
        """Analyse the conditions of a query; None if there are none."""
        if not query.has_conditions:
            return None
        must, must_not = (
            tuple(WantedWords.of(text, analyzer, ids) for text in texts) for texts in (query.must, query.must_not)
        )
        phrases = tuple(Phrase.of(text, query.slop, analyzer, ids) for text in query.phrases)
        return cls(must, must_not, phrases, query.slop)

    @property
    def needed(self) -> frozenset[int]:
        """The terms that every chunk has that meets the conditions."""
        of_must = (wanted.ids for wanted in self.must)
        return frozenset().union(*of_must, *(phrase.ids for phrase in self.phrases))

    @property
    def required_texts(self) -> list[str]:
        """The texts whose words every chunk has that meets the conditions."""
        return [condition.text for condition in self.must] + [phrase.text for phrase in self.phrases]

    def failure(self, chunk: CheckedChunk) -> str:
        """Return which condition a chunk does not meet, as a clause; "" if it meets all."""
        check_budget()
        for wanted in self.must:
            if not wanted.is_in(chunk):
                return f"it lacks a {wanted.unit} of must {wanted.text!r}"
        for wanted in self.must_not:
            if wanted.is_in(chunk):
                return f"it has the {wanted.unit}s of must_not {wanted.text!r}"
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
