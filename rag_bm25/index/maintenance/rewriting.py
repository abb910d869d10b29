"""Write stored chunks again, with the vectors of their texts."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from rag_bm25.documents.chunks import MAX_BATCH_BYTES, MAX_BATCH_CHUNKS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rag_bm25.index.live_statistics import LiveStatistics
    from rag_bm25.store.rows import ChunkRow


class StoredChunks:
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


def rewrite(live: LiveStatistics, chunks: StoredChunks) -> int:
    """Encode chunks again; return how many differed and were written."""
    rewritten = 0
    for namespace, digests in chunks.batches():
        with live.writing() as writer:
            rewritten += writer.rewrite(namespace, digests)
    return rewritten
