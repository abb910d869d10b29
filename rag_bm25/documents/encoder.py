"""Encode chunks as sparse vectors, from the chunk alone: no statistics of the corpus are used."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from rag_bm25.analysis.analyzer import Analyzer
from rag_bm25.documents.channel_numbers import number_channels
from rag_bm25.documents.lengths import LengthUnit, batch_lengths, chunk_length
from rag_bm25.documents.token_numbers import NumberedTokens, number_tokens
from rag_bm25.vectors.sparse import SparseBatch, sum_in_rows
from rag_bm25.vectors.terms import NO_TERMS_ID, StagedTerms, TermIds
from rag_bm25.weighting.fields import field_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from rag_bm25.analysis import TextAnalyzer
    from rag_bm25.weighting.document import DocumentWeighting

_Part = tuple[SparseBatch, "NDArray[np.int64]"]  # tf and length of the chunks' texts, or of one of their fields

TEXT = ""  # name of the text among the parts of a chunk; the others are fields


@dataclass(frozen=True)
class EncodedChunks:
    """Vectors and lengths of a batch of chunks."""

    vectors: SparseBatch  # document weights, a row per chunk; a chunk without terms is {0: 1.0}
    lengths: NDArray[np.int64]  # lengths of the texts, without their fields, in the encoder's unit


@dataclass(frozen=True)
class FieldCounts:
    """Term frequencies and length of a field of a chunk."""

    tf: Counter[str]
    length: int  # length of the field, in the encoder's unit


@dataclass(frozen=True, eq=False)
class CountedChunks:
    """Term frequencies of a batch of chunks before ids are assigned; worker processes return them."""

    terms: list[str]  # distinct, in the order of their first occurrence
    parts: dict[str, _Part]  # of the text, "", and each field, sorted; dimensions are positions in `terms`

    def with_ids(self, ids: Mapping[str, int]) -> dict[str, _Part]:
        """Return the parts with ids instead of positions."""
        if isinstance(ids, StagedTerms):
            ids.look_up(self.terms)
        elif isinstance(ids, TermIds):
            ids = ids.of(self.terms)
        return {name: (_with_ids(tf, self.terms, ids), lengths) for name, (tf, lengths) in self.parts.items()}


@dataclass(frozen=True)
class DocumentEncoder:
    """Encode chunks as sparse vectors of document weights."""

    analyzer: TextAnalyzer
    weighting: DocumentWeighting
    length_unit: LengthUnit = "estimated_characters"

    def encode(
        self,
        texts: Sequence[str],
        ids: Mapping[str, int] | None = None,
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        counted: CountedChunks | None = None,
    ) -> EncodedChunks:
        """Encode chunks; each result depends on its own chunk alone."""
        counted = counted or self.count(texts, metadatas)
        tf, of_fields, lengths = self.summed(counted.with_ids(TermIds() if ids is None else ids))
        weights = self.weighting.weights(tf.values, tf.per_entry(lengths), of_fields, tf.ids)
        weighed = SparseBatch(tf.indptr, tf.ids, weights.astype(np.float32))
        return EncodedChunks(_with_placeholders(weighed), lengths)

    def count(self, texts: Sequence[str], metadatas: Sequence[Mapping[str, Any]] | None = None) -> CountedChunks:
        """Count terms and lengths: the part of `encode` that needs no ids, and can run in another process."""
        given = [{}] * len(texts) if metadatas is None else metadatas
        return self._count({TEXT: texts, **self._field_texts(given)}, self.analyzer)

    def count_fields(self, metadatas: Sequence[Mapping[str, Any]]) -> CountedChunks:
        """Count terms and lengths of the fields alone; chunks of a document share most of them."""
        return self._count(self._field_texts(metadatas), cache(self.analyzer))

    def _field_texts(self, metadatas: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
        names = sorted(self.weighting.fields)
        return {name: [field_text(metadata, name) for metadata in metadatas] for name in names}

    def _count(self, contents: Mapping[str, Sequence[str]], analyze: TextAnalyzer) -> CountedChunks:
        texts, names = list(chain.from_iterable(contents.values())), list(contents)
        numbered = _number(texts, analyze)
        size = len(contents[names[0]])
        tf, unit = numbered.frequencies(), self.length_unit
        in_characters = unit == "characters"
        all_lengths = (
            np.array(list(map(len, texts)), np.int64) if in_characters else batch_lengths(tf, numbered.terms, unit)
        )
        spans = {name: slice(at * size, (at + 1) * size) for at, name in enumerate(names)}
        return CountedChunks(numbered.terms, {name: (tf.rows(span), all_lengths[span]) for name, span in spans.items()})

    def terms(self, text: str, metadata: Mapping[str, Any]) -> list[str]:
        """Return the terms of a chunk and its fields."""
        counted = [self.count_text(text), *self.field_counts(metadata).values()]
        return list(dict.fromkeys(chain.from_iterable(counts.tf for counts in counted)))

    def field_counts(self, metadata: Mapping[str, Any]) -> dict[str, FieldCounts]:
        """Count the terms of each field of a chunk."""
        return {name: self.count_text(field_text(metadata, name)) for name in sorted(self.weighting.fields)}

    def count_text(self, text: str) -> FieldCounts:
        """Count the terms of a text."""
        tokens = self.analyzer(text)
        return FieldCounts(Counter(tokens), chunk_length(text, tokens, self.length_unit))

    def summed(self, parts: Mapping[str, _Part]) -> tuple[SparseBatch, NDArray[np.float64] | float, NDArray[np.int64]]:
        """Return the tf in the texts, 0 for a term of fields alone, the sums over the fields, and the lengths."""
        tf, lengths = parts[TEXT]
        fields = {name: of for name, (of, _) in parts.items() if name != TEXT and len(of.ids)}
        if not fields:
            return tf, 0.0, lengths
        every, entry = np.unique(np.concatenate([of.keys for of in (tf, *fields.values())]), return_inverse=True)
        in_text, in_fields = np.split(entry, [len(tf.ids)])
        frequencies = [  # in the fixed order of the parts, since sums of floats depend on it
            self.weighting.frequencies(of.values, of.per_entry(parts[name][1]), name) for name, of in fields.items()
        ]
        of_text = np.zeros(len(every), tf.values.dtype)
        of_text[in_text] = tf.values
        of_fields: NDArray[np.float64] = np.bincount(in_fields, np.concatenate(frequencies), len(every))  # type: ignore[assignment]
        return SparseBatch.from_keys(every, of_text, len(tf)), of_fields, lengths


def _number(texts: Iterable[str], analyze: TextAnalyzer) -> NumberedTokens:
    """Assign numbers to the tokens of texts, by channel where the analyzer can tell them apart."""
    if isinstance(analyze, Analyzer) and analyze.has_channels:
        return number_channels(*analyze.channels(texts), analyze.config)
    return number_tokens(map(analyze, texts))


def _with_ids(tf: SparseBatch, terms: Sequence[str], ids: Mapping[str, int]) -> SparseBatch:
    """Replace positions in `terms` by ids; sum the tf of terms with equal ids."""
    used = np.flatnonzero(np.bincount(tf.ids, minlength=len(terms)))
    occurring = terms if len(used) == len(terms) else map(terms.__getitem__, used.tolist())
    id_of = np.zeros(len(terms), np.uint32)
    id_of[used] = np.fromiter(map(ids.__getitem__, occurring), np.uint32, len(used))
    return sum_in_rows(id_of[tf.ids], tf.values, tf.indptr)


def _with_placeholders(batch: SparseBatch) -> SparseBatch:
    """Add the reserved dimension to rows without terms: Milvus refuses empty vectors."""
    empty = np.diff(batch.indptr) == 0
    if not empty.any():
        return batch
    at = batch.indptr[:-1][empty]
    indptr = batch.indptr + np.concatenate(([0], np.cumsum(empty)))
    return SparseBatch(indptr, np.insert(batch.ids, at, NO_TERMS_ID), np.insert(batch.values, at, np.float32(1.0)))
