"""Weigh stored chunks by other parameters than those that they were encoded with, or count their terms for these.

A weight, the length of the text and the fields tell the term frequency, so that the text itself is not analysed. Where
they do not tell it to the bit, the chunk is encoded anew.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rag_bm25.documents.encoder import TEXT, CountedChunks
from rag_bm25.vectors.sparse import SparseBatch, SparseVector
from rag_bm25.vectors.terms import NO_TERMS_ID
from rag_bm25.weighting.formulas import WEIGHTINGS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from rag_bm25.documents.encoder import DocumentEncoder, Part
    from rag_bm25.store.rows import ChunkRow
    from rag_bm25.vectors.terms import Vocabulary
    from rag_bm25.weighting.document import DocumentWeighting


@dataclass(frozen=True, eq=False)
class Reweigher:
    """Return the vectors that an encoder with another weighting makes of stored chunks, to the bit."""

    encoder: DocumentEncoder  # of the stored vectors
    weighting: DocumentWeighting  # of the same form and fields
    ids: Mapping[str, int]
    term_k1: SparseVector

    def vectors(self, rows: Sequence[ChunkRow], terms: NDArray[np.uint32] | None = None) -> list[SparseVector]:
        """Weigh rows, which have contents and vectors; of some terms alone, vectors may have others, too."""
        if not rows:
            return []
        fields = self.encoder.count_fields([row.metadata for row in rows])
        tf, of_fields, lengths = _recover(self.encoder, rows, fields.with_ids(self.ids), terms)
        known = np.where(tf.values < 0, 1, tf.values)
        weights = self.weighting.weights(known, lengths, of_fields=of_fields)
        vectors = list(SparseBatch(tf.indptr, tf.ids, weights.astype(np.float32)))
        unknown = np.unique(tf.per_entry(np.arange(len(tf)))[tf.values < 0]).tolist()
        for at, vector in zip(unknown, self._encode([rows[at] for at in unknown]), strict=True):
            vectors[at] = vector
        return vectors

    def _encode(self, rows: Sequence[ChunkRow]) -> SparseBatch:
        texts, metadatas = [row.text for row in rows], [row.metadata for row in rows]
        encoder = replace(self.encoder, weighting=self.weighting)
        return encoder.encode(texts, self.ids, metadatas, self.term_k1).vectors


@dataclass(frozen=True, eq=False)
class Recounter:
    """Count the terms of stored chunks, as analysing their texts does but for the order of the terms."""

    encoder: DocumentEncoder  # of the stored vectors
    ids: Mapping[str, int]
    vocabulary: Vocabulary

    def count(self, rows: Sequence[ChunkRow]) -> CountedChunks | None:
        """Count rows, which have contents and vectors; None where they do not tell each term and its frequency."""
        fields = self.encoder.count_fields([row.metadata for row in rows])
        entries, _, _ = _recover(self.encoder, rows, fields.with_ids(self.ids))
        is_term = entries.ids != NO_TERMS_ID
        tf = SparseBatch.from_keys(entries.keys[is_term], entries.values[is_term], len(rows))
        ids, places = np.unique(tf.ids, return_inverse=True)
        terms = [term for id_ in ids.tolist() if (term := self.vocabulary.term(id_)) is not None]
        if self.vocabulary.collisions or len(terms) < len(ids) or (tf.values < 0).any():
            return None
        lengths = np.array([row.length for row in rows], np.int64)
        parts = {TEXT: (replace(tf, ids=places.astype(np.uint32)), lengths)}
        return CountedChunks(terms, parts, in_order=False).beside(fields)


def _recover(
    encoder: DocumentEncoder,
    rows: Sequence[ChunkRow],
    fields: Mapping[str, Part],
    only: NDArray[np.uint32] | None = None,
) -> tuple[SparseBatch, NDArray[np.float64] | float, NDArray[np.int64]]:
    """Return tf in the texts, -1 where a weight does not tell it, sums over the fields, and lengths of entries."""
    stored = SparseBatch.of([row.vector for row in rows])
    parts = {TEXT: (stored, np.array([row.length for row in rows], np.int64)), **fields}
    if only is not None:
        parts = {name: (batch.only(only), lengths) for name, (batch, lengths) in parts.items()}
    weights, of_fields, lengths = encoder.summed(parts)
    lengths = weights.per_entry(lengths)
    tf = encoder.weighting.term_frequencies(weights.values, lengths, of_fields)
    tf[weights.ids == NO_TERMS_ID] = -1
    if WEIGHTINGS[encoder.weighting.form].k1_per_term:  # that of the time when the chunk was encoded is not known
        tf[:] = -1
    return replace(weights, values=tf.astype(np.float32)), of_fields, lengths
