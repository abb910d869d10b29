"""Encode one part of a corpus into two files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rag_bm25.analysis import contract_of
from rag_bm25.bulk.files import DataFile, describe_file, write_atomically
from rag_bm25.bulk.parts import PartHead, PartTerms, batch_of, data_path, write_terms
from rag_bm25.bulk.rows import rows_table, rows_writer
from rag_bm25.checks import is_iterable
from rag_bm25.documents.checks import check_chunk, check_namespace
from rag_bm25.documents.chunks import NewChunk, batches, pk_digest
from rag_bm25.errors import InputError
from rag_bm25.index.stored_config import config_to_dict
from rag_bm25.statistics.corpus import Contribution, CorpusStatistics
from rag_bm25.store.embeddings import as_vector
from rag_bm25.store.rows import SLOTS, ChunkRow
from rag_bm25.vectors.terms import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rag_bm25.index.config import IndexConfig
    from rag_bm25.vectors.sparse import SparseBatch

KEYS = frozenset({"text", "id", "metadata", "embedding"})


@dataclass(frozen=True)
class PartReport:
    """Result of encoding a part.

    Parameters
    ----------
    part, num_chunks, num_terms, size : int
        Number of the part, its chunks, their distinct terms, and the size of its rows in bytes.
    """

    part: int
    num_chunks: int
    num_terms: int
    size: int


def encode_part(
    chunks: Iterable[Mapping[str, Any]], config: IndexConfig, folder: str | Path, part: int, *, namespace: str = ""
) -> PartReport:
    """Encode one part of a corpus for bulk loading, and count its terms.

    The files depend on the arguments alone. Parts may be encoded in parallel, by processes on any machines that share
    the folder. Encoding a part again replaces it; a job that is killed leaves no part. Memory holds a batch of about
    1,000 chunks, the terms of the part, and a hundred bytes per chunk.

    Parameters
    ----------
    chunks : iterable of mappings
        Each with ``text``, optional ``id`` and ``metadata``, and ``embedding`` if the index has dense vectors: see
        :meth:`rag_bm25.BM25Index.add`. Read once; may be empty.
    config : IndexConfig
        Parameters of the index; like the folder, the same for all parts.
    folder : str or Path
        Folder of the files.
    part : int
        Number of the part, from 0 without gaps. Parts count as ingested in the order of their numbers.
    namespace : str
        Namespace of the chunks; parts may differ.

    Returns
    -------
    PartReport
        Counts of the part.

    Raises
    ------
    InputError
        A chunk breaks a rule; the message names it. An earlier version of the part stays.
    MissingExtraError
        pyarrow is not installed.
    """
    folder = Path(folder)
    namespace = check_namespace(namespace)
    if not is_iterable(chunks):
        raise InputError(f"chunks must be an iterable of mappings, got {type(chunks).__name__}")
    job = _Job(config, data_path(folder, part), part, namespace)
    folder.mkdir(parents=True, exist_ok=True)
    data = job.write_rows(_check_chunks(chunks, config, part))
    found = job.statistics
    stored = config_to_dict(config, contract_of(job.encoder.analyzer))
    write_terms(folder, PartHead(part, namespace, stored, found.total_length, data), job.terms())
    return PartReport(part, data.rows, len(job.vocabulary), data.size)


class _Job:
    """The encoding of one part, with the vocabulary and the statistics of its chunks so far."""

    def __init__(self, config: IndexConfig, path: Path, part: int, namespace: str) -> None:
        self.encoder = config.document_encoder()
        self.vocabulary = Vocabulary()
        self.statistics = CorpusStatistics()
        self._path = path
        self._dim = config.dense_dim
        self._namespace = namespace
        self._batch = batch_of(part)

    def write_rows(self, chunks: Iterator[NewChunk]) -> DataFile:
        """Encode all chunks, in the same batches as ``add``."""
        with write_atomically(self._path) as path:
            with rows_writer(path, self._dim) as file:
                for batch in batches(chunks, 4 * (self._dim or 0)):
                    file.write_table(self._encode(batch))
            return describe_file(path, self.statistics.num_chunks, self._path.name)

    def terms(self) -> PartTerms:
        """Return the terms of all chunks, in order of first occurrence."""
        ids = np.fromiter(self.vocabulary.ids, np.uint32, len(self.vocabulary))
        return PartTerms(list(self.vocabulary), ids, self.statistics.df(ids))

    def _encode(self, batch: Sequence[NewChunk]) -> Any:
        """Encode and count a batch; return it as columns."""
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


def _check_chunks(rows: Iterable[Mapping[str, Any]], config: IndexConfig, part: int) -> Iterator[NewChunk]:
    """Yield the chunks to store; errors name the part and the row."""
    seen: dict[str, bool] = {}
    for number, row in enumerate(rows):
        try:
            chunk = _new_chunk(row, config)
            is_new = _is_new(chunk, row, seen)
        except InputError as error:
            raise InputError(f"part {part}, row {number}: {error}") from None
        if is_new:
            yield chunk


def _new_chunk(row: Mapping[str, Any], config: IndexConfig) -> NewChunk:
    """Check one row by the rules of ``add``."""
    if not isinstance(row, Mapping) or not row.keys() <= KEYS or "text" not in row:
        given = f"the keys {', '.join(map(repr, row))}" if isinstance(row, Mapping) else type(row).__name__
        raise InputError(f"a chunk must be a mapping with a text, and maybe id, metadata and embedding, got {given}")
    chunk = check_chunk(row["text"], row.get("id"), row.get("metadata"), config.fields)
    return _with_embedding(chunk, row.get("embedding"), config)


def _with_embedding(chunk: NewChunk, embedding: Any, config: IndexConfig) -> NewChunk:
    """Add the dense vector, if the index has them."""
    dense = config.dense_field()
    if (embedding is None) != (dense is None):
        msg = f"an embedding is required if the index has dense vectors, and not allowed otherwise, got {embedding!r}"
        raise InputError(msg)
    if dense is None:
        return chunk
    return replace(chunk, dense=as_vector("embedding", embedding, dense))


def _is_new(chunk: NewChunk, row: Mapping[str, Any], seen: dict[str, bool]) -> bool:
    """Return whether a chunk is new to the part; `seen` maps each id to whether it was given."""
    is_given = row.get("id") is not None  # an id made of the contents stands for equal contents: one chunk
    if chunk.id not in seen:
        seen[chunk.id] = is_given
        return True
    if is_given or seen[chunk.id]:
        made = "" if is_given else ", where none is given: it is the hash of text and metadata"
        raise InputError(f"the id {chunk.id!r} was given before in this part{made}")
    return False
