"""The conditions of a query, as they are checked against stored chunks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rag_bm25.analysis.phrases import PhraseText, terms_of_phrase
from rag_bm25.analysis.text import AnalysedText
from rag_bm25.budget import check_budget

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rag_bm25.analysis import TextAnalyzer
    from rag_bm25.query.query import Query
    from rag_bm25.vectors.sparse import SparseVector


@dataclass(frozen=True)
class WantedWords:
    """A text of which a chunk must have all words, or not all."""

    text: str
    ids: frozenset[int]


@dataclass(frozen=True)
class Phrase:
    """A phrase that a chunk must have."""

    text: str
    words: PhraseText
    ids: frozenset[int]  # of terms that every chunk with the phrase has


@dataclass(frozen=True)
class Conditions:
    """The conditions of a query for one analyzer and vocabulary."""

    must: tuple[WantedWords, ...]
    must_not: tuple[WantedWords, ...]
    phrases: tuple[Phrase, ...]
    slop: int

    @classmethod
    def of(cls, query: Query, analyzer: TextAnalyzer, ids: Mapping[str, int]) -> Conditions | None:
        """Analyse the conditions of a query; None if there are none. Texts without words are left out."""
        if not query.has_conditions:
            return None

        def wanted(texts: Sequence[str]) -> tuple[WantedWords, ...]:
            words = [(text, AnalysedText.of_query(analyzer, text).words) for text in texts]
            return tuple(WantedWords(text, frozenset(ids[word] for word in some)) for text, some in words if some)

        phrases = []
        for text in query.phrases:
            needed = terms_of_phrase(analyzer, text, query.slop)
            words = PhraseText.of(analyzer, text)
            if words.words:
                phrases.append(Phrase(text, words, frozenset(ids[term] for term in needed)))
        return cls(wanted(query.must), wanted(query.must_not), tuple(phrases), query.slop)

    @property
    def needed(self) -> frozenset[int]:
        """The terms that every chunk has that meets the conditions."""
        of_must = (wanted.ids for wanted in self.must)
        return frozenset().union(*of_must, *(phrase.ids for phrase in self.phrases))

    @property
    def required_texts(self) -> list[str]:
        """The texts whose words every chunk has that meets the conditions."""
        return [condition.text for condition in self.must] + [phrase.text for phrase in self.phrases]

    def failure(self, vector: SparseVector, texts: Sequence[str], analyzer: TextAnalyzer) -> str:
        """Return which condition a chunk does not meet, as a clause; "" if it meets all.

        `texts` are that of the chunk and those of its fields, each item of a list by itself.
        """
        check_budget()
        ids = set(vector.ids.tolist())
        for wanted in self.must:
            if not wanted.ids <= ids:
                return f"it lacks a word of must {wanted.text!r}"
        for wanted in self.must_not:
            if wanted.ids <= ids:
                return f"it has the words of must_not {wanted.text!r}"
        analysed: list[PhraseText] = []
        for phrase in self.phrases:
            check_budget()
            if phrase.ids <= ids:
                analysed = analysed or [PhraseText.of(analyzer, text) for text in texts]
                if any(text.holds(phrase.words, self.slop) for text in analysed):
                    continue
            return f"it lacks the phrase {phrase.text!r}" + (f" with slop {self.slop}" if self.slop else "")
        return ""
