"""Weigh stored chunks by other parameters than those that they were encoded with.

A weight, the length of the text and the fields tell the term frequency, so that the text itself is not analysed. Where
they do not tell it to the bit, the chunk is encoded anew.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rag_bm25.documents.encoder import TEXT
from rag_bm25.vectors.sparse import SparseBatch
from rag_bm25.vectors.terms import NO_TERMS_ID

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from rag_bm25.documents.encoder import DocumentEncoder
    from rag_bm25.store.rows import ChunkRow
    from rag_bm25.vectors.sparse import SparseVector
    from rag_bm25.weighting.document import DocumentWeighting


@dataclass(frozen=True, eq=False)
class Reweigher:
    """Return the vectors that an encoder with another weighting makes of stored chunks, to the bit."""

    encoder: DocumentEncoder  # of the stored vectors
    weighting: DocumentWeighting  # of the same form and fields
    ids: Mapping[str, int]

    def vectors(self, rows: Sequence[ChunkRow], terms: NDArray[np.uint32] | None = None) -> list[SparseVector]:
        """Weigh rows, which have contents and vectors; of some terms alone, vectors may have others, too."""
        if not rows:
            return []
        tf, of_fields, lengths = self._recover(rows, terms)
        known = np.where(tf.values < 0, 1, tf.values)
        weights = self.weighting.weights(known, lengths, of_fields, tf.ids)
        vectors = list(SparseBatch(tf.indptr, tf.ids, weights.astype(np.float32)))
        unknown = np.unique(tf.per_entry(np.arange(len(tf)))[tf.values < 0]).tolist()
        for at, vector in zip(unknown, self._encode([rows[at] for at in unknown]), strict=True):
            vectors[at] = vector
        return vectors

    def frequencies(self, rows: Sequence[ChunkRow]) -> Iterator[tuple[NDArray[np.uint32], NDArray[np.float64]]]:
        """Yield ids of terms with their normalised frequencies in a row, by the norm of this weighting; all rows."""
        tf, of_fields, lengths = self._recover(rows, None)
        row, told = tf.per_entry(np.arange(len(tf))), np.ones(len(tf), np.bool_)
        told[row[tf.values < 0]] = False
        c = self.weighting.frequencies(tf.values, lengths) + of_fields
        yield tf.ids[told[row]], c[told[row]]
        if not told.all():
            unknown = [rows[at] for at in np.flatnonzero(~told).tolist()]
            counted = self.encoder.count([one.text for one in unknown], [one.metadata for one in unknown])
            tf, of_fields, lengths = self.encoder.summed(counted.with_ids(self.ids))
            yield tf.ids, self.weighting.frequencies(tf.values, tf.per_entry(lengths)) + of_fields

    def _recover(
        self, rows: Sequence[ChunkRow], terms: NDArray[np.uint32] | None
    ) -> tuple[SparseBatch, NDArray[np.float64] | float, NDArray[np.int64]]:
        """Return tf in the texts, -1 where a weight does not tell it, sums over the fields, and lengths of entries."""
        stored = SparseBatch.of([row.vector for row in rows])
        parts = {TEXT: (stored, np.array([row.length for row in rows], np.int64))}
        if self.encoder.weighting.fields:
            parts |= self.encoder.count_fields([row.metadata for row in rows]).with_ids(self.ids)
        if terms is not None:
            parts = {name: (batch.only(terms), lengths) for name, (batch, lengths) in parts.items()}
        weights, of_fields, lengths = self.encoder.summed(parts)
        lengths = weights.per_entry(lengths)
        tf = self.encoder.weighting.term_frequencies(weights.values, lengths, of_fields)
        tf[weights.ids == NO_TERMS_ID] = -1
        return replace(weights, values=tf.astype(np.float32)), of_fields, lengths

    def _encode(self, rows: Sequence[ChunkRow]) -> SparseBatch:
        texts, metadatas = [row.text for row in rows], [row.metadata for row in rows]
        encoder = replace(self.encoder, weighting=self.weighting)
        return encoder.encode(texts, self.ids, metadatas).vectors
