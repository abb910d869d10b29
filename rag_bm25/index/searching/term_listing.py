"""List the terms of an index, of words and of chunks, with N, df and IDF."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from rag_bm25.analysis.contract import MissingAnalyzer
from rag_bm25.analysis.text import AnalysedText
from rag_bm25.index.searching.rows import read_one
from rag_bm25.query.spelling import most_frequent
from rag_bm25.vectors.terms import is_word

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rag_bm25.analysis import TextAnalyzer
    from rag_bm25.index.live_statistics import LiveStatistics
    from rag_bm25.index.searching.weigher import QueryContext, QueryWeigher
    from rag_bm25.store.protocol import Store
    from rag_bm25.store.rows import Scope


@dataclass(frozen=True)
class TermStatistics:
    """Statistics of a term in an index, or in a part of it.

    Parameters
    ----------
    term : str
        The term, as the analyzer makes it of a word.
    df : int
        Number of chunks with the term, in 0..num_chunks.
    idf : float
        Weight of the term in a query that has it once, by the index's own formula; > 0, or 0.0 if no chunk has it.
    num_chunks : int
        N, the number of chunks.
    """

    term: str
    df: int
    idf: float
    num_chunks: int


@dataclass(frozen=True)
class ChunkTerm:
    """A term of a stored chunk.

    Parameters
    ----------
    term : str
        The term, as the analyzer makes it of a word.
    weight : float
        What the term adds to the chunk's score if a query has it once: its stored weight times the IDF.
    stored : float
        The term's weight in the stored vector.
    df : int
        Number of chunks with the term.
    idf : float
        IDF of the term, by the index's own formula.
    """

    term: str
    weight: float
    stored: float
    df: int
    idf: float


class TermLister:
    """List terms with their statistics, by the weighting of the index."""

    def __init__(self, store: Store, live: LiveStatistics, analyzer: TextAnalyzer, weigher: QueryWeigher) -> None:
        self._store = store
        self._live = live
        self._analyzer = analyzer
        self._weigher = weigher

    def of_texts(self, texts: Sequence[str], counted: Scope) -> list[TermStatistics]:
        """Look up the words of some texts, each once."""
        words = chain.from_iterable(AnalysedText.of_query(self._analyzer, text).words for text in texts)
        return self._look_up(list(dict.fromkeys(words)), self._weigher.context_of(counted))

    def beginning_with(self, prefix: str, k: int, counted: Scope) -> list[TermStatistics]:
        """List the words with a prefix, and the term of the prefix as a word, that most chunks have."""
        lookup, context = self._weigher.expanders.look_up(), self._weigher.context_of(counted)
        words = chain(*map(lookup.beginning_with, {prefix, prefix.casefold()}), self._term_of(prefix))
        frequent = most_frequent(list(set(words)), context.encoder.df_lookup(context.corpus), k)
        return self._look_up(frequent, context)

    def _term_of(self, prefix: str) -> tuple[str, ...]:
        """Return the term of a prefix that is one word; none if the analyzer is not given."""
        is_missing = isinstance(self._analyzer, MissingAnalyzer)
        words = () if is_missing else AnalysedText.of_query(self._analyzer, prefix).words
        return words if len(words) == 1 else ()

    def of_chunk(self, id_: str, k: int, scope: Scope) -> list[ChunkTerm]:
        """List the words of a stored chunk that count most."""
        vector = read_one(self._store, self._live.view, id_, scope.namespaces, takes_place=False).vector
        term_of = self._live.vocabulary().term
        stored = {
            term: weight
            for number, weight in zip(vector.ids.tolist(), vector.values.tolist(), strict=True)
            if (term := term_of(number)) is not None and is_word(term)
        }
        found = self._look_up(list(stored), self._weigher.context_of(scope))
        weighed = [ChunkTerm(one.term, stored[one.term] * one.idf, stored[one.term], one.df, one.idf) for one in found]
        return sorted(weighed, key=lambda one: (-one.weight, one.term))[:k]

    @staticmethod
    def _look_up(words: list[str], context: QueryContext) -> list[TermStatistics]:
        corpus, df = context.corpus, context.encoder.df_lookup(context.corpus)(words)
        idf = context.encoder.word_weights(words, df, corpus)
        return [
            TermStatistics(word, each_df, each_idf, corpus.num_chunks)
            for word, each_df, each_idf in zip(words, df.tolist(), idf.tolist(), strict=True)
        ]
