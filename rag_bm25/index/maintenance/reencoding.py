"""Re-encode stored chunks with a k1 per term, estimated from all chunks."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rag_bm25.documents.checks import MAX_TEXT_BYTES
from rag_bm25.documents.chunks import MAX_BATCH_BYTES, MAX_BATCH_CHUNKS, pk_digest
from rag_bm25.documents.term_k1 import term_k1_estimator
from rag_bm25.events import report_progress
from rag_bm25.vectors.sparse import EMPTY
from rag_bm25.weighting.formulas import WEIGHTINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rag_bm25.documents.encoder import DocumentEncoder
    from rag_bm25.events import Progress
    from rag_bm25.index.live_statistics import LiveStatistics
    from rag_bm25.store.protocol import Store
    from rag_bm25.store.rows import ChunkRow
    from rag_bm25.vectors.sparse import SparseVector
    from rag_bm25.vectors.terms import TermIds


@dataclass(frozen=True)
class ReencodeReport:
    """Result of re-encoding an index.

    Parameters
    ----------
    num_chunks : int
        Chunks read and encoded with the new table; for a weighting without one, all chunks of the index.
    reencoded : int
        Chunks whose vectors were replaced.
    num_terms : int
        Terms with a k1 of their own; all others have the k1 of the config.
    mean_k1 : float
        Mean k1 of these terms; 0.0 if there are none.
    """

    num_chunks: int
    reencoded: int
    num_terms: int
    mean_k1: float


class StoredChunks:
    """Digests of stored chunks, 20 bytes each, in batches that fit into a message."""

    def __init__(self) -> None:
        self._sizes: dict[str, dict[bytes, int]] = defaultdict(dict)  # namespace -> digest -> bytes of text

    def __len__(self) -> int:
        """Return the number of chunks."""
        return sum(map(len, self._sizes.values()))

    def note(self, rows: Sequence[ChunkRow]) -> None:
        """Add the chunks of rows, except rows with keys of other tools."""
        for row, digest in _own(rows):
            self._sizes[row.namespace][digest] = len(row.text.encode())

    def note_latecomers(self, rows: Iterable[ChunkRow]) -> None:
        """Add the chunks that are missing; their texts, not read, count with the maximum size."""
        for row, digest in _own(rows):
            self._sizes[row.namespace].setdefault(digest, MAX_TEXT_BYTES)

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


def _own(rows: Iterable[ChunkRow]) -> Iterator[tuple[ChunkRow, bytes]]:
    """Yield rows and the digests of their chunks, except rows with keys of other tools."""
    for row in rows:
        digest = pk_digest(row.namespace, row.id)
        if row.pk[:-1] == digest:
            yield row, bytes.fromhex(digest)


def survey(
    store: Store, ids: TermIds, encoder: DocumentEncoder, mean_length: float, progress: Callable[[int], None]
) -> tuple[StoredChunks, SparseVector]:
    """Read all chunks, and estimate the k1 of each term if the weighting has one per term."""
    chunks, estimator = StoredChunks(), term_k1_estimator(encoder.weighting, mean_length)
    read = 0
    for rows in store.scan_chunks(contents=True):
        chunks.note(rows)
        if estimator is not None:
            estimator.add(*encoder.frequencies([row.text for row in rows], ids, [row.metadata for row in rows]))
        read += len(rows)
        progress(read)
    return chunks, EMPTY if estimator is None else estimator.table(read)


def reencode(
    store: Store, live: LiveStatistics, encoder: DocumentEncoder, progress: Callable[[Progress], None] | None
) -> ReencodeReport:
    """Work out the k1 of each term, and encode all chunks with it."""
    live.refresh()
    whole = live.current().statistics.of(None)
    num_chunks = whole.num_chunks
    if not WEIGHTINGS[encoder.weighting.form].k1_per_term:
        return ReencodeReport(num_chunks, 0, 0, 0.0)

    def report(done: int, total: int) -> None:
        report_progress(progress, "chunks read and encoded", done, total)

    def report_read(read: int) -> None:
        report(read, 2 * max(num_chunks, read))

    chunks, term_k1 = survey(store, live.view.ids, encoder, whole.mean_length, report_read)
    with live.writing():
        live.log.write_term_k1(term_k1)
    for rows in store.scan_chunks():  # what was added during the survey has k1 of the last table
        chunks.note_latecomers(rows)
    reencoded = rewrite(live, chunks, lambda done: report(len(chunks) + done, 2 * len(chunks)))
    mean_k1 = float(term_k1.values.mean(dtype=float)) if len(term_k1) else 0.0
    return ReencodeReport(len(chunks), reencoded, len(term_k1), mean_k1)


def rewrite(live: LiveStatistics, chunks: StoredChunks, progress: Callable[[int], object] = lambda _: None) -> int:
    """Encode chunks again; return how many differed and were written."""
    done = reencoded = 0
    for namespace, digests in chunks.batches():
        with live.writing() as writer:
            reencoded += writer.reencode(namespace, digests)
        done += len(digests)
        progress(done)
    return reencoded
