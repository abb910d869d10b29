"""Encode a part of a corpus: a job that needs nothing but its chunks, and leaves two files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rag_bm25.analysis import contract_of
from rag_bm25.bulk.files import DataFile, described, written_whole
from rag_bm25.bulk.parts import PartHead, PartTerms, batch_of, data_path, write_terms
from rag_bm25.bulk.rows import rows_table, rows_writer
from rag_bm25.chunks import SLOTS, NewChunk, batches, check_namespace, new_chunks, pk_digest
from rag_bm25.config import IndexConfig, config_to_dict
from rag_bm25.document_encoder import DocumentEncoder
from rag_bm25.embeddings import as_vector
from rag_bm25.errors import InputError
from rag_bm25.fields import check_field_values
from rag_bm25.parameters import is_iterable
from rag_bm25.statistics import Contribution, CorpusStatistics
from rag_bm25.store import ChunkRow
from rag_bm25.terms import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rag_bm25.sparse import SparseBatch

__all__ = ["PartReport", "encode_part"]

KEYS = frozenset({"text", "id", "metadata", "embedding"})


@dataclass(frozen=True)
class PartReport:
    """What encoding a part gave.

    Parameters
    ----------
    part : int
        Its number.
    num_chunks : int
        Chunks in it.
    num_terms : int
        Distinct terms in them.
    size : int
        Bytes of its rows.
    """

    part: int
    num_chunks: int
    num_terms: int
    size: int


def encode_part(
    chunks: Iterable[Mapping[str, Any]],
    config: IndexConfig,
    folder: str | Path,
    part: int,
    *,
    namespace: str = "",
) -> PartReport:
    """Encode some of the chunks of an index that is to be loaded, and count their terms.

    A pure job: what it writes depends on its arguments alone, any number of parts may be encoded at the same time by
    processes on any machines that share the folder, and encoding a part again replaces it. A job that is killed leaves
    no part. In memory are a batch of about 1,000 chunks, the terms of the part, and a hundred bytes for each chunk.

    Parameters
    ----------
    chunks : iterable of mappings
        Each with ``text``, and maybe ``id``, ``metadata`` and, where the index has dense vectors, ``embedding``: see
        :meth:`rag_bm25.BM25Index.add`. Read once, one by one; may be empty.
    config : IndexConfig
        Parameters of the index, the same for all parts.
    folder : str or Path
        Where the files go, the same for all parts.
    part : int
        Number of the part, from 0 on without gaps: parts count as ingested in the order of their numbers.
    namespace : str
        Where the chunks belong; parts may differ.

    Returns
    -------
    PartReport
        What was written.

    Raises
    ------
    InputError
        A chunk breaks a rule; the message says which one. The part is not there then, or as it was before.
    MissingExtraError
        pyarrow is not installed.

    Examples
    --------
    ::

        rows = [{"text": "Milvus stores sparse vectors.", "id": "a", "metadata": {"page": 3}}]
        encode_part(rows, IndexConfig(chunk_size=500), "bulk", 0)
    """
    folder = Path(folder)
    namespace = check_namespace(namespace)
    if not is_iterable(chunks):
        msg = f"chunks must be an iterable of mappings, got {type(chunks).__name__}"
        raise InputError(msg)
    job = _Job(config, data_path(folder, part), part, namespace)
    folder.mkdir(parents=True, exist_ok=True)
    data = job.write_rows(_checked(chunks, config, part))
    found = job.statistics
    stored = config_to_dict(config, contract_of(job.encoder.analyzer))
    write_terms(folder, PartHead(part, namespace, stored, found.total_length, data), job.terms())
    return PartReport(part, data.rows, len(job.vocabulary), data.size)


class _Job:
    """The encoding of one part: the vocabulary and the statistics of its chunks, as far as they have come by."""

    def __init__(self, config: IndexConfig, path: Path, part: int, namespace: str) -> None:
        self.encoder = DocumentEncoder(config.build_analyzer(), config.document_weighting(), config.length_unit)
        self.vocabulary = Vocabulary()
        self.statistics = CorpusStatistics()
        self._path = path
        self._dim = config.dense_dim
        self._namespace = namespace
        self._batch = batch_of(part)

    def write_rows(self, chunks: Iterator[NewChunk]) -> DataFile:
        """Encode all chunks, in the batches that a call of ``add`` would make of them."""
        with written_whole(self._path) as path:
            with rows_writer(path, self._dim) as file:
                for batch in batches(chunks, 4 * (self._dim or 0)):
                    file.write_table(self._encoded(batch))
            return described(path, self.statistics.num_chunks, self._path.name)

    def terms(self) -> PartTerms:
        """Return the terms of all chunks, in the order in which they were first seen."""
        ids = np.fromiter(self.vocabulary.ids, np.uint32, len(self.vocabulary))
        return PartTerms(list(self.vocabulary), ids, self.statistics.df(ids))

    def _encoded(self, batch: Sequence[NewChunk]) -> Any:
        """Return a batch as columns, and count it."""
        staged = self.vocabulary.stage()
        texts, metadatas = [chunk.text for chunk in batch], [chunk.metadata for chunk in batch]
        encoded = self.encoder.encode(texts, staged, metadatas)
        self.vocabulary.add(staged.new)
        lengths = encoded.lengths.tolist()
        self.statistics.add(Contribution.of(encoded.vectors, lengths))
        return self._table(batch, encoded.vectors, lengths)

    def _table(self, batch: Sequence[NewChunk], vectors: SparseBatch, lengths: list[int]) -> Any:
        rows = [
            ChunkRow(
                pk=pk_digest(self._namespace, chunk.id) + SLOTS[0],
                id=chunk.id,
                namespace=self._namespace,
                length=length,
                batch=self._batch,
                text=chunk.text,
                metadata=chunk.metadata,
                dense=chunk.dense,
            )
            for chunk, length in zip(batch, lengths, strict=True)
        ]
        return rows_table(rows, vectors, self._dim)


def _checked(rows: Iterable[Mapping[str, Any]], config: IndexConfig, part: int) -> Iterator[NewChunk]:
    """Yield the chunks to be stored; what breaks a rule is named by its place."""
    seen: dict[str, bool] = {}
    for number, row in enumerate(rows):
        try:
            chunk = _new_chunk(row, config)
            is_new = _is_new(chunk, row, seen)
        except InputError as error:
            msg = f"part {part}, row {number}: {error}"
            raise InputError(msg) from None
        if is_new:
            yield chunk


def _new_chunk(row: Mapping[str, Any], config: IndexConfig) -> NewChunk:
    """Check one row, by the rules of ``add``."""
    if not isinstance(row, Mapping) or not row.keys() <= KEYS or "text" not in row:
        given = f"the keys {', '.join(map(repr, row))}" if isinstance(row, Mapping) else type(row).__name__
        msg = f"a chunk must be a mapping with a text, and maybe id, metadata and embedding, got {given}"
        raise InputError(msg)
    (chunk,) = new_chunks([row["text"]], [row.get("id")], [row.get("metadata")])
    check_field_values([chunk.metadata], config.fields)
    return _with_embedding(chunk, row.get("embedding"), config)


def _with_embedding(chunk: NewChunk, embedding: Any, config: IndexConfig) -> NewChunk:
    """Give a chunk its dense vector, where the index has some."""
    dense = config.dense_field()
    if (embedding is None) != (dense is None):
        msg = f"an embedding must be given where the index has dense vectors, and only there, got {embedding!r}"
        raise InputError(msg)
    if dense is None:
        return chunk
    return replace(chunk, dense=as_vector("embedding", embedding, dense))


def _is_new(chunk: NewChunk, row: Mapping[str, Any], seen: dict[str, bool]) -> bool:
    """Tell whether a chunk is met for the first time: the same contents twice are one chunk.

    `seen` has for each id whether it was given: an id made of contents stands for these alone.
    """
    is_given = row.get("id") is not None
    if chunk.id not in seen:
        seen[chunk.id] = is_given
        return True
    if is_given or seen[chunk.id]:
        made = "" if is_given else ", where none is given: it is the hash of text and metadata"
        msg = f"the id {chunk.id!r} was given before in this part{made}"
        raise InputError(msg)
    return False
