"""Expanders of queries: the vocabulary is put in order once, and the synonyms of the last searches are kept."""

from __future__ import annotations

from threading import RLock
from typing import TYPE_CHECKING

from rag_bm25.definitions import UNSET
from rag_bm25.query.expansion import DEFAULT_EXPANSION, Expander
from rag_bm25.query.lookup import TermLookup
from rag_bm25.query.synonyms import SynonymTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from rag_bm25.analysis import TextAnalyzer
    from rag_bm25.query.expansion import QueryExpansion
    from rag_bm25.query.synonyms import Synonyms
    from rag_bm25.vectors.terms import Vocabulary


MAX_TABLES = 3


class Expanders:
    """Make the expanders of queries, by a vocabulary that grows."""

    def __init__(self, analyzer: TextAnalyzer, read_vocabulary: Callable[[], Vocabulary]) -> None:
        self.plain = Expander(analyzer, look_up=self.look_up)
        self._analyzer = analyzer
        self._read_vocabulary = read_vocabulary
        self._vocabulary: Vocabulary | None = None  # that of `_lookup`
        self._lookup = TermLookup()
        self._looking_up = RLock()
        self._tables: list[tuple[Synonyms, SynonymTable]] = []  # the last ones, those of the index among them

    def make(self, asked: QueryExpansion | None, base: QueryExpansion = DEFAULT_EXPANSION) -> Expander:
        """Return an expander, which reads the vocabulary only where a query asks for it; `base` is of the index."""
        expansion = base if asked is None else asked.over(base)
        if expansion == DEFAULT_EXPANSION:
            return self.plain
        is_own = asked is not None and asked.synonyms is not UNSET
        return Expander(self._analyzer, expansion, self._synonym_table(expansion.rules), self.look_up, is_own)

    def look_up(self) -> TermLookup:
        """Return all terms in the order of the alphabet; those that are new since the last call are added."""
        vocabulary = self._read_vocabulary()
        with self._looking_up:
            if vocabulary is not self._vocabulary:
                self._vocabulary, self._lookup = vocabulary, TermLookup()
            self._lookup = self._lookup.plus(vocabulary.after(self._lookup.seen))
            return self._lookup

    def _synonym_table(self, synonyms: Synonyms | None) -> SynonymTable | None:
        """Return synonyms as tokens; those of the last searches are kept."""
        if synonyms is None:
            return None
        tables = self._tables
        found = next((pair for pair in tables if pair[0] is synonyms), None)
        pair = found or (synonyms, SynonymTable(synonyms, self._analyzer))
        self._tables = [pair, *(other for other in tables if other is not pair)][:MAX_TABLES]
        return pair[1]
