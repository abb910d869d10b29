"""Term counts of feedback chunks."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rag_bm25.query.terms import ChunkShare, FeedbackFactor, QueryTerm, TermSource
from rag_bm25.vectors.terms import is_word

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from rag_bm25.query.encoder import QueryEncoder
    from rag_bm25.statistics.corpus import CorpusCounts
    from rag_bm25.vectors.sparse import SparseVector


@dataclass(frozen=True)
class FeedbackChunk:
    """A chunk that a query learns from."""

    id: str
    vector: SparseVector  # as it is stored
    score: float = 1.0  # of the first search, > 0; 1.0 for a marked chunk


@dataclass(frozen=True, eq=False)
class Evidence:
    """The chunks that a query learns from, and the corpus that they are in."""

    relevant: Sequence[FeedbackChunk]
    irrelevant: Sequence[FeedbackChunk]
    encoder: QueryEncoder
    statistics: CorpusCounts
    term_of: Callable[[int], str | None]  # the term of an id, as the vocabulary has it; ids without one are ignored

    def idf(self, df: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the weight of words that occur once in a query, 0 for those that no chunk has."""
        return self.encoder.word_weights(df, self.statistics)


@dataclass(frozen=True, eq=False)
class AskedTerms:
    """The terms of a query as arrays."""

    ids: NDArray[np.uint32]
    df: NDArray[np.int64]
    own: NDArray[np.float64]  # weights in the query, before feedback and IDF
    is_word: NDArray[np.bool_]  # question words aside

    @classmethod
    def of(cls, wanted: Sequence[QueryTerm], evidence: Evidence) -> AskedTerms:
        ids = np.array([evidence.encoder.ids[asked.term] for asked in wanted], np.uint32)
        boost = np.array([asked.source.boost for asked in wanted], np.float64)
        qtf = np.array([asked.qtf for asked in wanted], np.int64)
        own = boost * evidence.encoder.weighting.term_weights(qtf)
        are_words = np.array([is_word(asked.term) and not asked.source.is_question for asked in wanted], np.bool_)
        return cls(ids, evidence.statistics.df(ids), own, are_words)


@dataclass(frozen=True, eq=False)
class FeedbackTable:
    """The known words of some chunks: a row for each chunk, a column for each word, an entry for each stored weight."""

    words: list[str]
    ids: NDArray[np.uint32]
    df: NDArray[np.int64]
    idf: NDArray[np.float64]
    queried: NDArray[np.bool_]  # the words of the query among them
    num_chunks: int  # N
    rows: int
    row: NDArray[np.int64]
    column: NDArray[np.int64]
    stored: NDArray[np.float64]

    @classmethod
    def of(cls, chunks: Sequence[FeedbackChunk], asked: AskedTerms, evidence: Evidence) -> FeedbackTable:
        """Lay out the vectors of the chunks, without bigrams, and terms that have no name or no df."""
        flat = np.concatenate([chunk.vector.ids for chunk in chunks] or [np.empty(0, np.uint32)])
        stored = np.concatenate([chunk.vector.values for chunk in chunks] or [np.empty(0, np.float32)])
        row = np.repeat(np.arange(len(chunks)), [len(chunk.vector) for chunk in chunks])
        ids, column = np.unique(flat, return_inverse=True)
        df = evidence.statistics.df(ids)
        terms = [evidence.term_of(id_) for id_ in ids.tolist()]
        known = (df > 0) & np.array([term is not None and is_word(term) for term in terms], np.bool_)
        entries = known[column]
        place = np.cumsum(known) - 1
        return cls(
            [term for term, is_known in zip(terms, known, strict=True) if term is not None and is_known],
            ids[known],
            df[known],
            evidence.idf(df[known]),
            np.isin(ids[known], asked.ids[asked.is_word]),
            evidence.statistics.num_chunks,
            len(chunks),
            row[entries],
            place[column[entries]],
            stored[entries].astype(np.float64),
        )

    def may_be_added(self, min_df: int, max_df: float) -> NDArray[np.bool_]:
        """Return whether each word is neither too rare nor too common to be added to a query."""
        return (self.df >= min_df) & (self.df <= max_df * self.num_chunks)

    def per_chunk(self, factors: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum the stored weights of each chunk, each times the factor of its word."""
        return np.bincount(self.row, self.stored * factors[self.column], self.rows).astype(np.float64)

    def per_word(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum the stored weights of each word, each times the share of its chunk."""
        return np.bincount(self.column, self.stored * shares[self.row], len(self.ids)).astype(np.float64)

    def norms(self) -> NDArray[np.float64]:
        """Return the Euclidean length of each chunk's tf-idf vector."""
        squares = (self.stored * self.idf[self.column]) ** 2
        return np.sqrt(np.bincount(self.row, squares, self.rows))

    def select(self, worth: NDArray[np.float64], fb_terms: int) -> NDArray[np.intp]:
        """Select the columns of the query's words and of the best others with a worth above 0, best first."""
        order = np.lexsort((self.ids, -worth))
        new = order[~self.queried[order] & (worth[order] > 0)]
        return np.concatenate((order[self.queried[order]], new[:fb_terms]))

    def add_to(
        self,
        wanted: Sequence[QueryTerm],
        asked: AskedTerms,
        keep: tuple[float, str],
        selected: NDArray[np.intp],
        chunks: Sequence[ChunkShare],
        reason: str,
    ) -> list[QueryTerm]:
        """Add a weighted sum of the chunks, cut to the selected columns, to a query."""
        shares: defaultdict[int, list[tuple[ChunkShare, float]]] = defaultdict(list)
        for entry in np.flatnonzero(np.isin(self.column, selected)).tolist():
            shares[int(self.ids[self.column[entry]])].append((chunks[self.row[entry]], float(self.stored[entry])))
        terms = []
        for term, id_, own in zip(wanted, asked.ids.tolist(), asked.own.tolist(), strict=True):
            factor = FeedbackFactor(*keep, own, tuple(shares.pop(id_, ())))
            terms.append(term._replace(source=replace(term.source, feedback=factor)))
        for at in selected.tolist():
            if added := shares.get(int(self.ids[at])):
                factor = FeedbackFactor(*keep, 0.0, tuple(added))
                terms.append(QueryTerm(self.words[at], 1, TermSource(reason, (), factor)))
        return terms
