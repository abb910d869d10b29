"""The chunk's side: text -> weights. Nothing here knows the corpus; that is the idea of the package."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Literal

import numpy as np

from rag_bm25.sparse import SparseBatch
from rag_bm25.terms import NO_TERMS_ID, TermIds, num_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from rag_bm25.analysis import TextAnalyzer
    from rag_bm25.similarity import DocumentWeighting

__all__ = ["CountedChunks", "DocumentEncoder", "EncodedChunks", "LengthUnit", "term_frequencies"]

LengthUnit = Literal["characters", "terms"]


@dataclass(frozen=True)
class EncodedChunks:
    """What encoding a batch of chunks gives.

    Parameters
    ----------
    vectors : SparseBatch
        Document weights, a row per chunk; a chunk without terms is ``{0: 1.0}``.
    lengths : ndarray of int64, shape (n_chunks,)
        Lengths in the encoder's unit.
    """

    vectors: SparseBatch
    lengths: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class CountedChunks:
    """What can be known of a batch of chunks without ids: what one process sends to another.

    Parameters
    ----------
    terms : list of str
        The distinct terms, in the order in which they were first seen.
    tf : SparseBatch
        A row per chunk: position in `terms` -> tf.
    lengths : ndarray of int64, shape (n_chunks,)
        Lengths in the encoder's unit.
    """

    terms: list[str]
    tf: SparseBatch
    lengths: NDArray[np.int64]

    def rows(self, which: Sequence[int]) -> CountedChunks:
        """Keep some of the chunks.

        Parameters
        ----------
        which : sequence of int
            Their positions, in the order in which they are wanted.

        Returns
        -------
        CountedChunks
            With all terms.
        """
        if len(which) == len(self.lengths) and list(which) == list(range(len(which))):
            return self
        kept = [self.tf[row] for row in which]
        indptr = np.cumsum([0, *map(len, kept)], dtype=np.int64)
        ids = np.concatenate([row.ids for row in kept] or [self.tf.ids[:0]])
        values = np.concatenate([row.values for row in kept] or [self.tf.values[:0]])
        return CountedChunks(self.terms, SparseBatch(indptr, ids, values), self.lengths[list(which)])

    def term_frequencies(self, ids: Mapping[str, int]) -> SparseBatch:
        """Put ids in the place of positions.

        Parameters
        ----------
        ids : mapping of str to int
            Term -> id, a different one for every term; asked for the terms that occur, as they were first seen.

        Returns
        -------
        SparseBatch
            What :func:`term_frequencies` returns for the tokens.
        """
        used = np.unique(self.tf.ids)
        id_of = np.zeros(len(self.terms), np.uint64)
        occurring = map(self.terms.__getitem__, used.tolist())
        id_of[used] = np.fromiter(map(ids.__getitem__, occurring), np.uint64, len(used))
        rows = np.repeat(np.arange(len(self.tf), dtype=np.uint64), np.diff(self.tf.indptr))
        keys = id_of[self.tf.ids] | (rows << np.uint64(32))
        order = np.argsort(keys)
        return SparseBatch(self.tf.indptr, keys[order].astype(np.uint32), self.tf.values[order])


class _Positions(dict[str, int]):
    """Numbers each term when it is first asked for."""

    def __missing__(self, term: str) -> int:
        """Give a new term the next number."""
        position = self[term] = len(self)
        return position


@dataclass(frozen=True)
class DocumentEncoder:
    """Turn chunks into BM25 term-weight vectors.

    Parameters
    ----------
    analyzer : callable of str to list of str
        Text -> tokens.
    weighting : DocumentWeighting
        k1, b and the chunk size.
    length_unit : {"characters", "terms"}
        What lengths, and the chunk size, are counted in; bigrams are not counted as terms.

    Examples
    --------
    >>> from rag_bm25.similarity import DocumentWeighting
    >>> encoder = DocumentEncoder(str.split, DocumentWeighting(chunk_size=3), "terms")
    >>> encoded = encoder.encode(["to be or not to be"])
    >>> [round(weight, 3) for weight in sorted(encoded.vectors[0].to_dict().values())]
    [0.276, 0.276, 0.432, 0.432]
    """

    analyzer: TextAnalyzer
    weighting: DocumentWeighting
    length_unit: LengthUnit = "characters"

    def encode(self, texts: Sequence[str], ids: Mapping[str, int] | None = None) -> EncodedChunks:
        """Encode chunks; each result depends on its own chunk alone.

        Parameters
        ----------
        texts : sequence of str
            The chunks.
        ids : mapping of str to int, optional
            Term -> id for every term; by default the hash.

        Returns
        -------
        EncodedChunks
            Vectors and lengths, in the order of `texts`.
        """
        tokens, lengths = self._analyzed(texts)
        return self._encoded(term_frequencies(tokens, TermIds() if ids is None else ids), lengths)

    def count(self, texts: Sequence[str]) -> CountedChunks:
        """Do the part of :meth:`encode` that needs no ids.

        Parameters
        ----------
        texts : sequence of str
            The chunks.

        Returns
        -------
        CountedChunks
            For :meth:`encode_counted`, maybe in another process.
        """
        tokens, lengths = self._analyzed(texts)
        positions = _Positions()
        tf = term_frequencies(tokens, positions)
        return CountedChunks(list(positions), tf, lengths)

    def encode_counted(self, counted: CountedChunks, ids: Mapping[str, int]) -> EncodedChunks:
        """Do the rest of :meth:`encode`, with the same result.

        Parameters
        ----------
        counted : CountedChunks
            From :meth:`count`.
        ids : mapping of str to int
            Term -> id, a different one for every term.

        Returns
        -------
        EncodedChunks
            Bit for bit what :meth:`encode` gives.
        """
        return self._encoded(counted.term_frequencies(ids), counted.lengths)

    def _analyzed(self, texts: Sequence[str]) -> tuple[list[list[str]], NDArray[np.int64]]:
        """Return tokens and length of each chunk."""
        tokens = [self.analyzer(text) for text in texts]
        counts = map(num_words, tokens) if self.length_unit == "terms" else map(len, texts)
        return tokens, np.fromiter(counts, np.int64, len(texts))

    def _encoded(self, tf: SparseBatch, lengths: NDArray[np.int64]) -> EncodedChunks:
        return EncodedChunks(_with_placeholders(self._weigh(tf, lengths)), lengths)

    def _weigh(self, tf: SparseBatch, lengths: NDArray[np.int64]) -> SparseBatch:
        """Replace each tf by its weight."""
        per_entry = np.repeat(lengths, np.diff(tf.indptr))
        weights = self.weighting.weights(tf.values, per_entry)
        return SparseBatch(tf.indptr, tf.ids, weights.astype(np.float32))


def term_frequencies(tokens: Sequence[Sequence[str]], ids: Mapping[str, int]) -> SparseBatch:
    """Count the terms of each chunk, with one sort for the whole batch.

    Parameters
    ----------
    tokens : sequence of sequences of str
        Tokens of each chunk.
    ids : mapping of str to int
        Term -> id for every term.

    Returns
    -------
    SparseBatch
        A row per chunk: id -> tf. Rows of chunks without tokens are empty.

    Examples
    --------
    >>> term_frequencies([["a", "b", "a"], []], {"a": 5, "b": 3})[0].to_dict()
    {3: 1.0, 5: 2.0}
    """
    per_chunk = np.fromiter(map(len, tokens), np.int64, len(tokens))
    total = int(per_chunk.sum())
    flat = np.fromiter(map(ids.__getitem__, chain.from_iterable(tokens)), np.uint64, total)
    # Chunk and id in one integer: sorting groups the chunks, and the terms within each.
    keys = flat | (np.repeat(np.arange(len(tokens), dtype=np.uint64), per_chunk) << np.uint64(32))
    keys.sort()
    starts = np.flatnonzero(np.diff(keys, prepend=~keys[:1]))
    tf = np.diff(starts, append=total).astype(np.float32)
    rows = (keys[starts] >> np.uint64(32)).astype(np.int64)
    indptr = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=len(tokens)))))
    return SparseBatch(indptr, keys[starts].astype(np.uint32), tf)


def _with_placeholders(batch: SparseBatch) -> SparseBatch:
    """Give rows without terms the reserved dimension, since Milvus refuses empty vectors."""
    empty = np.diff(batch.indptr) == 0
    if not empty.any():
        return batch
    at = batch.indptr[:-1][empty]
    indptr = batch.indptr + np.concatenate(([0], np.cumsum(empty)))
    return SparseBatch(indptr, np.insert(batch.ids, at, NO_TERMS_ID), np.insert(batch.values, at, np.float32(1.0)))
