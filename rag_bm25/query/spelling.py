"""Near spellings of the words of a query, from the vocabulary."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias, TypeVar

import numpy as np

from rag_bm25.analysis.text import AnalysedText
from rag_bm25.budget import check_budget
from rag_bm25.definitions import Between, check_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from rag_bm25.analysis import TextAnalyzer
    from rag_bm25.query.lookup import TermLookup

_T = TypeVar("_T")

DfLookup: TypeAlias = "Callable[[Sequence[str]], NDArray[np.int64]]"
"""A function that looks up the df of each word."""

MAX_TERMS = 1024
MAX_LOOKUPS = 64  # of one query in the vocabulary, since they take time; a query of more is a document

_HAN = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
HAN_RUN = re.compile(f"[{_HAN}]+")
LETTERS = re.compile(rf"[^\W\d_{_HAN}]+")
NAME = re.compile(rf"[^\W_{_HAN}]+")
"""Letters and digits: iphone15."""
_NUMERALS = frozenset("〇零一二三四五六七八九十百千万亿两")
_SHORTEST, _LONGEST = 3, 8  # characters of a Chinese word; of two, one right one says too little
_FEWEST_SINGLES = 2
_SHORTEST_STEM, _LONGEST_ENDING = 4, 7  # letters of authent-ication
_MOST_NEAR = 50  # terms near a beginning


def most_frequent(terms: Sequence[str], dfs: DfLookup, limit: int) -> list[str]:
    """Return the most frequent of some terms, by falling df, then by name; none with df = 0."""
    df = dict(zip(terms, dfs(terms).tolist(), strict=True))
    return sorted(filter(df.__getitem__, terms), key=lambda term: (-df[term], term))[:limit]


@dataclass(frozen=True)
class Fuzzy:
    """Fuzzy matching: terms with a near spelling.

    Only words of letters are respelt: numbers and versions one digit apart are different things. A misspelt Chinese
    word is not in the dictionary, so it is cut into characters. Its near spellings are terms of the same length, of 3
    to 8 characters, that differ in one character, where at least two characters stand alone in the query. A Chinese
    word of the dictionary that no chunk has is no error, and its neighbours are other things: 二手房 and 二手车.

    Of one query, at most 64 words and pieces of Chinese are looked up: a query of more is a document.

    Parameters
    ----------
    max_edits : {"auto", 0, 1, 2}
        Maximum number of wrong letters in words that are not Chinese, since more finds other words, not spellings;
        ``"auto"`` is none in words of 1 or 2 letters,
        one in those of 3 to 5, two in longer ones, as in Elasticsearch.
    prefix_length : int
        Number of letters at the beginning that must be right, in 0..8. With 0 all terms are compared, which takes ten
        times as long.
    max_terms : int
        Maximum number of terms to add for one word, in 1..1024: the nearest, and of these the most frequent ones.
    terms : {"unknown", "all"}
        Words to find near spellings of: those that no chunk has, or all.

    Examples
    --------
    >>> Fuzzy().edits("milvus"), Fuzzy().edits("bm"), Fuzzy().edits("4090")
    (2, 0, 0)
    """

    max_edits: Literal["auto", 0, 1, 2] = "auto"
    prefix_length: Annotated[int, Between(0, 8)] = 1
    max_terms: Annotated[int, Between(1, MAX_TERMS)] = 5
    terms: Literal["unknown", "all"] = "unknown"

    def __post_init__(self) -> None:
        check_fields(self)

    def edits(self, word: str) -> int:
        """Return the maximum number of wrong letters in a word.

        Parameters
        ----------
        word : str
            A term.

        Returns
        -------
        int
            0 for a term that has other characters than letters.
        """
        if not LETTERS.fullmatch(word):
            return 0
        return min(len(word) // 3, 2) if self.max_edits == "auto" else self.max_edits


@dataclass(frozen=True)
class Respelling:
    """Near spellings of one word."""

    written: str  # as in the query
    words: tuple[str, ...]  # that the analyzer made of it
    terms: tuple[tuple[str, float], ...]  # the likeliest first, with their similarity: 1 - edits / length, in (0, 1)


@dataclass(frozen=True)
class Speller:
    """Find near spellings of the words of one query, by at most `MAX_LOOKUPS` passes over the vocabulary."""

    fuzzy: Fuzzy
    analyzer: TextAnalyzer  # with a method `chinese_words`, if Chinese is to be respelt
    lookup: TermLookup
    dfs: DfLookup  # only terms with df > 0 are found
    _lookups: Iterator[int] = field(
        default_factory=lambda: iter(range(MAX_LOOKUPS)), init=False, repr=False, compare=False
    )

    def respell(self, text: str, words: Sequence[str]) -> list[Respelling]:
        """Find near spellings of the misspelt words of a text; `words` are its distinct words."""
        return [*self.respell_words(self._misspelt(words)), *self.respell_pieces(text)]

    def respell_words(self, words: Iterable[str]) -> list[Respelling]:
        """Find near spellings of words of letters, for those that have some."""
        return [found for word in self._within_limit(words) if (found := self._respell_word(word)).terms]

    def terms_near(self, word: str, term: str) -> list[str]:
        """Return the terms that may have a form near a word in small letters, whose own term is given, nearest first.

        A misspelt word has another stem than the right one, or none: of ``migrtion``, the beginning ``migrt`` is near
        the term ``migrat``, and the analyzer makes this of ``migrat`` with the ending ``ion``.
        """
        edits: dict[str, int] = {}
        for _ in self._within_limit([term]):
            edits = self._frequent_within(term)
        for end in self._within_limit(range(max(_SHORTEST_STEM, len(word) - _LONGEST_ENDING), len(word) + 1)):
            for near, count in self._frequent_within(word[:end]).items():
                if count < edits.get(near, count + 1) and self._is_form(near + word[end:], near):
                    edits[near] = count
        return sorted(most_frequent(list(edits), self.dfs, len(edits)), key=edits.__getitem__)[: self.fuzzy.max_terms]

    def _frequent_within(self, text: str) -> dict[str, int]:
        """Return the most frequent terms near a text, with their edits."""
        edits = self.lookup.within(text, self.fuzzy.edits(text), self.fuzzy.prefix_length)
        return {term: edits[term] for term in most_frequent(list(edits), self.dfs, _MOST_NEAR)}

    def _is_form(self, word: str, term: str) -> bool:
        return AnalysedText.of_query(self.analyzer, word).words == (term,)

    def respell_pieces(self, text: str) -> list[Respelling]:
        """Find near spellings of the pieces of Chinese in a text, for those that have some."""
        runs: Iterable[list[str]] = getattr(self.analyzer, "chinese_words", lambda _: ())(text)
        pieces = (piece for run in runs for piece in _pieces(run))
        return [found for piece in self._within_limit(pieces) if (found := self._respell_piece(piece)).terms]

    def _misspelt(self, words: Sequence[str]) -> Iterator[str]:
        """Yield the words that may be misspelt."""
        for word, df in zip(words, self.dfs(words).tolist(), strict=True):
            if self.fuzzy.edits(word) and (df == 0 or self.fuzzy.terms == "all"):
                yield word

    def _within_limit(self, asked: Iterable[_T]) -> Iterator[_T]:
        """Yield items while there are lookups left."""
        for one, _ in zip(asked, self._lookups, strict=False):
            check_budget()
            yield one

    def _respell_word(self, word: str) -> Respelling:
        """Find near spellings of a word of letters, the nearest first."""
        edits = self.lookup.within(word, self.fuzzy.edits(word), self.fuzzy.prefix_length)
        frequent = most_frequent(list(edits), self.dfs, len(edits))
        nearest = sorted(frequent, key=edits.__getitem__)[: self.fuzzy.max_terms]
        similar = ((term, 1 - edits[term] / max(len(word), len(term))) for term in nearest)
        return Respelling(word, (word,), tuple(similar))

    def _respell_piece(self, words: Sequence[str]) -> Respelling:
        """Find Chinese terms that differ in one of the characters that stand alone."""
        written = "".join(words)
        alone = _places_alone(words)
        near = [term for term in self.lookup.one_off(written) if _differ_at(written, term) in alone]
        terms = most_frequent(near, self.dfs, self.fuzzy.max_terms) if near and not self.dfs([written])[0] else []
        return Respelling(written, tuple(words), tuple((term, 1 - 1 / len(written)) for term in terms))


def _pieces(words: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the neighbouring words that may be one misspelt word: two of them at least are single characters."""
    for start in range(len(words)):
        length = 0
        for end in range(start, len(words)):
            length += len(words[end])
            if length > _LONGEST:
                break
            if length >= _SHORTEST and len(_places_alone(words[start : end + 1])) >= _FEWEST_SINGLES:
                yield words[start : end + 1]


def _places_alone(words: Sequence[str]) -> frozenset[int]:
    """Return the places of single characters in the text, apart from numerals: those are not misspelt words."""
    starts = np.cumsum([0, *map(len, words)]).tolist()
    singles = zip(starts, words, strict=False)
    return frozenset(start for start, word in singles if len(word) == 1 and word not in _NUMERALS)


def _differ_at(written: str, term: str) -> int | None:
    """Return the first place in which two texts of one length differ, None if the term has a numeral there."""
    at = next(place for place, (one, other) in enumerate(zip(written, term, strict=True)) if one != other)
    return None if term[at] in _NUMERALS else at
