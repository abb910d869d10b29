"""The chunk's side: text -> weights. Nothing here knows the corpus; that is the idea of the package."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from rag_bm25.fields import field_text
from rag_bm25.sparse import EMPTY, SparseBatch, SparseVector
from rag_bm25.terms import NO_TERMS_ID, TermIds, num_words
from rag_bm25.token_numbers import number_tokens
from rag_bm25.weightings import WEIGHTINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from rag_bm25.analysis import TextAnalyzer
    from rag_bm25.similarity import DocumentWeighting

__all__ = ["CountedChunks", "DocumentEncoder", "EncodedChunks", "FieldCounts", "LengthUnit", "term_frequencies"]

LengthUnit = Literal["characters", "terms"]
_Part = tuple[SparseBatch, "NDArray[np.int64]"]  # tf and length of the chunks' texts, or of one of their fields

TEXT = ""  # the part of a chunk that is no field
_ROW = np.uint64(0xFFFFFFFF << 32)  # where keys have the row


@dataclass(frozen=True)
class EncodedChunks:
    """What encoding a batch of chunks gives.

    Parameters
    ----------
    vectors : SparseBatch
        Document weights, a row per chunk; a chunk without terms is ``{0: 1.0}``.
    lengths : ndarray of int64, shape (n_chunks,)
        Lengths of the texts, without their fields, in the encoder's unit.
    """

    vectors: SparseBatch
    lengths: NDArray[np.int64]


@dataclass(frozen=True)
class FieldCounts:
    """What counting one field of one chunk gives.

    Parameters
    ----------
    tf : Counter of str
        Occurrences of each term.
    length : int
        Length of the field, in the encoder's unit.
    """

    tf: Counter[str]
    length: int


@dataclass(frozen=True, eq=False)
class CountedChunks:
    """What can be known of a batch of chunks without ids: what one process sends to another.

    Parameters
    ----------
    terms : list of str
        The distinct terms, in the order in which they were first seen.
    parts : dict of str to (SparseBatch, ndarray of int64)
        For the text, "", and each field: position in `terms` -> tf, a row per chunk; and the lengths.
    """

    terms: list[str]
    parts: dict[str, _Part]

    def part(self, name: str, ids: Mapping[str, int]) -> _Part:
        """Put ids in the place of positions.

        Parameters
        ----------
        name : str
            "" for the text, or a field.
        ids : mapping of str to int
            Term -> id; asked for the terms that occur, as they were first seen.

        Returns
        -------
        tuple of (SparseBatch, ndarray of int64)
            What :func:`term_frequencies` returns for the tokens, and the lengths.
        """
        tf, lengths = self.parts[name]
        return _with_ids(tf, self.terms, ids), lengths


@dataclass(frozen=True)
class DocumentEncoder:
    """Turn chunks into BM25 term-weight vectors.

    Parameters
    ----------
    analyzer : callable of str to list of str
        Text -> tokens.
    weighting : DocumentWeighting
        Form, k1, b, the chunk size, and the fields that count beside the text.
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

    def encode(
        self,
        texts: Sequence[str],
        ids: Mapping[str, int] | None = None,
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        term_k1: SparseVector = EMPTY,
        counted: CountedChunks | None = None,
    ) -> EncodedChunks:
        """Encode chunks; each result depends on its own chunk alone.

        Parameters
        ----------
        texts : sequence of str
            The chunks.
        ids : mapping of str to int, optional
            Term -> id for every term; by default the hash.
        metadatas : sequence of mappings, optional
            Metadata of each chunk, where the texts of its fields are; without it, fields are empty.
        term_k1 : SparseVector
            Term id -> k1, for a weighting that has one for each term; the weighting's k1 is for all other terms.
        counted : CountedChunks, optional
            What :meth:`count` returns for the chunks: they are not analysed then, and the result is the same bit for
            bit.

        Returns
        -------
        EncodedChunks
            Vectors and lengths, in the order of `texts`.
        """
        ids = TermIds() if ids is None else ids
        part = partial((counted or self.count(texts, metadatas)).part, ids=ids)
        tf, lengths = part(TEXT)
        if self.weighting.fields:
            keys, frequencies = self._combined(tf, lengths, part)
            weights = self.weighting.combined_weights(frequencies, self._k1_of(_ids(keys), term_k1))
            weighed = SparseBatch.from_keys(keys, weights.astype(np.float32), len(texts))
        else:
            weights = self.weighting.weights(tf.values, _per_entry(tf, lengths), self._k1_of(tf.ids, term_k1))
            weighed = SparseBatch(tf.indptr, tf.ids, weights.astype(np.float32))
        return EncodedChunks(_with_placeholders(weighed), lengths)

    def count(self, texts: Sequence[str], metadatas: Sequence[Mapping[str, Any]] | None = None) -> CountedChunks:
        """Do the part of :meth:`encode` that needs no ids, maybe in another process.

        Parameters
        ----------
        texts, metadatas
            As for :meth:`encode`.

        Returns
        -------
        CountedChunks
            To be given to :meth:`encode`.
        """
        given = [{}] * len(texts) if metadatas is None else metadatas
        names = [TEXT, *sorted(self.weighting.fields)]
        lengths: list[int] = []

        def tokens() -> Iterator[list[str]]:
            for name in names:
                for text in texts if name == TEXT else [field_text(metadata, name) for metadata in given]:
                    found = self.analyzer(text)
                    lengths.append(self._length(text, found))
                    yield found

        numbered = number_tokens(tokens())
        tf, all_lengths, size = numbered.frequencies(), np.array(lengths, np.int64), len(texts)
        spans = {name: slice(at * size, (at + 1) * size) for at, name in enumerate(names)}
        return CountedChunks(numbered.terms, {name: (tf.rows(span), all_lengths[span]) for name, span in spans.items()})

    def frequencies(
        self, texts: Sequence[str], ids: Mapping[str, int], metadatas: Sequence[Mapping[str, Any]]
    ) -> tuple[NDArray[np.uint32], NDArray[np.float64]]:
        """Return what weights are made of: weighted and normalised frequencies, added up over text and fields.

        Parameters
        ----------
        texts, ids, metadatas
            As for :meth:`encode`.

        Returns
        -------
        ids : ndarray of uint32, shape (n_entries,)
            An entry for every term of each chunk.
        frequencies : ndarray of float64, shape (n_entries,)
            Of these terms; > 0.
        """
        part = partial(self.count(texts, metadatas).part, ids=ids)
        keys, frequencies = self._combined(*part(TEXT), part)
        return _ids(keys), frequencies

    def terms(self, text: str, metadata: Mapping[str, Any]) -> list[str]:
        """Return the terms of a chunk, those of its fields included.

        Parameters
        ----------
        text : str
            The chunk.
        metadata : mapping
            Its metadata.

        Returns
        -------
        list of str
            Each term once, in the order in which they are met.
        """
        counted = [self._count(text), *self.field_counts(metadata).values()]
        return list(dict.fromkeys(chain.from_iterable(counts.tf for counts in counted)))

    def field_counts(self, metadata: Mapping[str, Any]) -> dict[str, FieldCounts]:
        """Count the terms of each field of a chunk.

        Parameters
        ----------
        metadata : mapping
            Metadata of the chunk.

        Returns
        -------
        dict of str to FieldCounts
            For every field, also where the chunk does not have it.
        """
        return {name: self._count(field_text(metadata, name)) for name in sorted(self.weighting.fields)}

    def _count(self, text: str) -> FieldCounts:
        tokens = self.analyzer(text)
        return FieldCounts(Counter(tokens), self._length(text, tokens))

    def _length(self, text: str, tokens: Sequence[str]) -> int:
        return num_words(tokens) if self.length_unit == "terms" else len(text)

    def _k1_of(self, ids: NDArray[np.uint32], term_k1: SparseVector) -> NDArray[np.float64] | None:
        """Return the k1 of each entry, None where all terms have the same."""
        per_term = WEIGHTINGS[self.weighting.form].k1_per_term
        return term_k1.get_many(ids, self.weighting.k1) if per_term else None

    def _combined(
        self,
        tf: SparseBatch,
        lengths: NDArray[np.int64],
        part: Callable[[str], _Part],
    ) -> tuple[NDArray[np.uint64], NDArray[np.float64]]:
        """Add the frequencies of text and fields up; row and term id of each sum are one integer."""
        keys = [tf.keys]
        frequencies = [self.weighting.frequencies(tf.values, _per_entry(tf, lengths))]
        for name in sorted(self.weighting.fields):  # in one order, since sums of floats depend on it
            counts, field_lengths = part(name)
            keys.append(counts.keys)
            per_entry = _per_entry(counts, field_lengths)
            frequencies.append(self.weighting.frequencies(counts.values, per_entry, name))
        every, entry = np.unique(np.concatenate(keys), return_inverse=True)
        sums: NDArray[np.float64] = np.bincount(entry, np.concatenate(frequencies), len(every))  # type: ignore[assignment]
        return every, sums


def _per_entry(batch: SparseBatch, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Repeat the length of each row for each of its entries."""
    return np.repeat(lengths, np.diff(batch.indptr))


def _ids(keys: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """Return the ids in keys that have row and id in one integer."""
    return keys.astype(np.uint32)


def term_frequencies(tokens: Sequence[Sequence[str]], ids: Mapping[str, int]) -> SparseBatch:
    """Count the terms of each chunk.

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
    numbered = number_tokens(tokens)
    return _with_ids(numbered.frequencies(), numbered.terms, ids)


def _with_ids(tf: SparseBatch, terms: Sequence[str], ids: Mapping[str, int]) -> SparseBatch:
    """Put ids in the place of positions in `terms`; the tf of terms with the same id are added up."""
    used = np.flatnonzero(np.bincount(tf.ids, minlength=len(terms)))
    occurring = terms if len(used) == len(terms) else map(terms.__getitem__, used.tolist())
    id_of = np.zeros(len(terms), np.uint64)
    id_of[used] = np.fromiter(map(ids.__getitem__, occurring), np.uint64, len(used))
    keys = id_of[tf.ids] | (tf.keys & _ROW)
    order = np.argsort(keys)
    keys, values = keys[order], tf.values[order]
    starts = np.flatnonzero(np.diff(keys, prepend=~keys[:1]))
    if len(starts) < len(keys):
        keys, values = keys[starts], np.add.reduceat(values, starts)
    return SparseBatch.from_keys(keys, values, len(tf))


def _with_placeholders(batch: SparseBatch) -> SparseBatch:
    """Give rows without terms the reserved dimension, since Milvus refuses empty vectors."""
    empty = np.diff(batch.indptr) == 0
    if not empty.any():
        return batch
    at = batch.indptr[:-1][empty]
    indptr = batch.indptr + np.concatenate(([0], np.cumsum(empty)))
    return SparseBatch(indptr, np.insert(batch.ids, at, NO_TERMS_ID), np.insert(batch.values, at, np.float32(1.0)))
