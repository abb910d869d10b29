"""Encode all stored chunks again, with a k1 for each term that is worked out from all of them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rag_bm25.chunks import MAX_BATCH_BYTES, MAX_BATCH_CHUNKS, MAX_TEXT_BYTES, pk_digest
from rag_bm25.sparse import EMPTY
from rag_bm25.term_k1 import term_k1_estimator
from rag_bm25.terms import TermIds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rag_bm25.document_encoder import DocumentEncoder
    from rag_bm25.sparse import SparseVector
    from rag_bm25.statistics_log import StatisticsLog
    from rag_bm25.store import ChunkRow, Store

__all__ = ["ReencodeReport", "StoredChunks", "survey"]


@dataclass(frozen=True)
class ReencodeReport:
    """What encoding all chunks again did.

    Parameters
    ----------
    num_chunks : int
        Chunks that are encoded with the table now: those that were read; where the weighting has no table, those of
        the index, of which none was read.
    reencoded : int
        Those whose vectors were replaced.
    num_terms : int
        Terms that have a k1 of their own now; the others have that of the config.
    mean_k1 : float
        The mean of these; 0.0 where there are none.
    """

    num_chunks: int
    reencoded: int
    num_terms: int
    mean_k1: float

    @classmethod
    def of(cls, num_chunks: int, reencoded: int, term_k1: SparseVector) -> ReencodeReport:
        """Return the report of a table.

        Parameters
        ----------
        num_chunks, reencoded : int
            As in the report.
        term_k1 : SparseVector
            Term id -> k1.

        Returns
        -------
        ReencodeReport
            With the table's figures.
        """
        mean = float(term_k1.values.mean(dtype=float)) if len(term_k1) else 0.0
        return cls(num_chunks, reencoded, len(term_k1), mean)


class StoredChunks:
    """Which chunks there are, by digests of twenty bytes, to be read again in batches that a message can carry."""

    def __init__(self) -> None:
        self._sizes: dict[str, dict[bytes, int]] = defaultdict(dict)  # namespace -> digest -> bytes of text

    def __len__(self) -> int:
        """Return the number of chunks."""
        return sum(map(len, self._sizes.values()))

    def note(self, rows: Sequence[ChunkRow]) -> None:
        """Note the chunks of some rows; rows under keys of other tools are left out.

        Parameters
        ----------
        rows : sequence of ChunkRow
            With their contents.
        """
        for row, digest in _own(rows):
            self._sizes[row.namespace][digest] = len(row.text.encode())

    def note_latecomers(self, rows: Iterable[ChunkRow]) -> None:
        """Note those chunks of some rows that are not noted yet, as if each had a text of the greatest size.

        Parameters
        ----------
        rows : iterable of ChunkRow
            Without their contents.
        """
        for row, digest in _own(rows):
            self._sizes[row.namespace].setdefault(digest, MAX_TEXT_BYTES)

    def batches(self) -> Iterator[tuple[str, list[str]]]:
        """Cut the chunks into batches.

        Yields
        ------
        namespace : str
            Where the chunks are.
        digests : list of str
            Primary keys without the slots, each once, at most 1,000.
        """
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


def _own(rows: Iterable[ChunkRow]) -> Iterator[tuple[ChunkRow, bytes]]:
    """Yield the rows with the digests of their chunks, those under keys of other tools left out."""
    for row in rows:
        digest = pk_digest(row.namespace, row.id)
        if row.pk[:-1] == digest:
            yield row, bytes.fromhex(digest)


def survey(
    store: Store, log: StatisticsLog, encoder: DocumentEncoder, progress: Callable[[int], None]
) -> tuple[StoredChunks, SparseVector]:
    """Pass over all chunks, and work out the k1 of each term where the weighting has one for each.

    Parameters
    ----------
    store : Store
        Where the chunks are.
    log : StatisticsLog
        For the ids of the terms; up to date.
    encoder : DocumentEncoder
        The one that the vectors were made with.
    progress : callable of int to None
        Told how many rows were read.

    Returns
    -------
    chunks : StoredChunks
        All that were there when it began.
    term_k1 : SparseVector
        Term id -> k1; empty where the weighting has one k1 for all terms.
    """
    chunks, estimator, ids = StoredChunks(), term_k1_estimator(encoder.weighting.form), TermIds(log.displaced)
    read = 0
    for rows in store.scan_chunks(contents=True):
        chunks.note(rows)
        if estimator is not None:
            estimator.add(*encoder.frequencies([row.text for row in rows], ids, [row.metadata for row in rows]))
        read += len(rows)
        progress(read)
    return chunks, EMPTY if estimator is None else estimator.table(read)
