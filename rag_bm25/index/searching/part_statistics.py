"""The statistics of any part of an index, counted from its stored vectors."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING

from rag_bm25.index.searching.rows import drop_superseded
from rag_bm25.statistics.corpus import Contribution, CorpusStatistics

if TYPE_CHECKING:
    from rag_bm25.events import Events
    from rag_bm25.store.protocol import Store
    from rag_bm25.store.rows import Scope

ROWS_AT_ONCE = 5000  # whose vectors are in memory together


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


def count_part(store: Store, scope: Scope, events: Events) -> CorpusStatistics:
    """Count the chunks of a scope; rows are streamed, and no lock is held meanwhile."""
    with events.measure("count") as counts:
        total = CorpusStatistics()
        rows = drop_superseded(chain.from_iterable(store.scan_chunks(scope, vectors=True)))
        while batch := list(islice(rows, ROWS_AT_ONCE)):
            total.add(Contribution.of((row.vector for row in batch), (row.length for row in batch)))
        counts.update(chunks=total.num_chunks, terms=total.num_terms)
    return total
