"""Encode stored chunks again: a vector depends on its chunk alone, so that it can be told from a damaged one."""

from __future__ import annotations

from dataclasses import dataclass
from math import isclose, nan
from typing import TYPE_CHECKING

from rag_bm25.documents.chunks import pk_digest
from rag_bm25.vectors.sparse import SparseBatch
from rag_bm25.vectors.terms import TermIds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rag_bm25.documents.encoder import DocumentEncoder
    from rag_bm25.store.rows import ChunkRow
    from rag_bm25.vectors.sparse import SparseVector
    from rag_bm25.vectors.terms import Vocabulary

LAST_BITS = 1e-6  # relative; the logarithms of two machines may differ by less


@dataclass(frozen=True)
class WrongChunk:
    """A stored chunk whose vector or length is not that of its text and metadata."""

    row: ChunkRow
    length: int  # as it should be
    num_wrong: int  # weights that are missing, superfluous, or others


def is_own(row: ChunkRow) -> bool:
    """Return whether a row has the key that this package gives its chunk."""
    return row.pk[:-1] == pk_digest(row.namespace, row.id)


def wrong_chunks(rows: Sequence[ChunkRow], encoder: DocumentEncoder, vocabulary: Vocabulary) -> Iterator[WrongChunk]:
    """Yield the wrong ones of stored chunks, given with texts and vectors; rows of other tools are left alone."""
    own = list(filter(is_own, rows))
    ids, metadatas = TermIds(vocabulary.displaced), [row.metadata for row in own]
    encoded = encoder.encode([row.text for row in own], ids, metadatas)
    stored = SparseBatch.of([row.vector for row in own])
    if stored == encoded.vectors and [row.length for row in own] == encoded.lengths.tolist():
        return  # as nearly always
    for row, vector, length in zip(own, encoded.vectors, encoded.lengths.tolist(), strict=True):
        num_wrong = 0 if row.vector == vector else _num_wrong(row.vector, vector, vocabulary)
        if num_wrong or row.length != length:
            yield WrongChunk(row, length, num_wrong)


def _num_wrong(stored: SparseVector, right: SparseVector, vocabulary: Vocabulary) -> int:
    """Count the terms that one vector lacks, or has with another weight."""
    weights, others = _by_term(stored, vocabulary), _by_term(right, vocabulary)
    return sum(
        not isclose(weights.get(term, nan), others.get(term, nan), rel_tol=LAST_BITS)
        for term in weights.keys() | others.keys()
    )


def _by_term(vector: SparseVector, vocabulary: Vocabulary) -> dict[str | int, float]:
    """Name the weights by terms: two writers may have given one term two ids at once."""
    return {
        vocabulary.term(id_) or id_: weight
        for id_, weight in zip(vector.ids.tolist(), vector.values.tolist(), strict=True)
    }
