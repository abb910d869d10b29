"""Find the stored chunks that do not have the vectors of their texts, and write them again.

A vector depends on its chunk alone, so that it can be told from a damaged one.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from math import isclose, nan
from typing import TYPE_CHECKING

from rag_bm25.documents.chunks import MAX_BATCH_BYTES, MAX_BATCH_CHUNKS, pk_digest
from rag_bm25.vectors.sparse import SparseBatch
from rag_bm25.vectors.terms import TermIds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rag_bm25.documents.encoder import DocumentEncoder
    from rag_bm25.index.writing.pipeline import Target
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


class RewriteBatches:
    """Digests of stored chunks, 20 bytes each, in batches that fit into a message."""

    def __init__(self) -> None:
        self._sizes: dict[str, dict[bytes, int]] = defaultdict(dict)  # namespace -> digest -> bytes of text

    def __len__(self) -> int:
        """Return the number of chunks."""
        return sum(map(len, self._sizes.values()))

    def note(self, rows: Sequence[ChunkRow]) -> None:
        """Add the chunks of rows, whose keys are those of this package."""
        for row in rows:
            self._sizes[row.namespace][bytes.fromhex(row.pk[:-1])] = len(row.text.encode())

    def batches(self) -> Iterator[tuple[str, list[str]]]:
        """Yield namespace and digests of each batch."""
        for namespace, sizes in self._sizes.items():
            batch: list[str] = []
            size = 0
            for digest, more in sizes.items():
                if batch and (len(batch) == MAX_BATCH_CHUNKS or size + more > MAX_BATCH_BYTES):
                    yield namespace, batch
                    batch, size = [], 0
                batch.append(digest.hex())
                size += more
            yield namespace, batch


def rewrite(generation: Target, chunks: RewriteBatches) -> int:
    """Encode chunks again; return how many differed and were written."""
    return sum(generation.in_force(partial(_rewrite, *batch)) for batch in chunks.batches())


def _rewrite(namespace: str, digests: Sequence[str], now: Target) -> int:
    with now.live.writing() as writer:
        return writer.rewrite(namespace, digests)
