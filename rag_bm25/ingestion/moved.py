"""The dense vectors of texts that only move: a file that is cut anew is embedded only where its texts are new."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from rag_bm25.documents.chunks import MAX_BATCH_CHUNKS
from rag_bm25.documents.contexts import embedded_text
from rag_bm25.index.searching.rows import read_chunks
from rag_bm25.store.embeddings import wrap_embedder

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rag_bm25.index.index import BM25Index
    from rag_bm25.store.embeddings import Embed
    from rag_bm25.store.rows import DenseField

MAX_BYTES = 64 << 20  # of the vectors that are kept in memory


class MovedTexts:
    """An embedder that knows the stored texts of the files that are read again, whatever their ids are now.

    A batch finds the texts that its own ids are stored with. Where many chunks of a file come before, or are gone, its
    texts have moved from batch to batch, and their former rows may be replaced before they are found.
    """

    def __init__(self, index: BM25Index, namespace: str, embed: Embed, dense: DenseField) -> None:
        self._index, self._namespace = index, namespace
        self._embed = wrap_embedder(embed, dense)
        self._most = MAX_BYTES // (4 * dense.dim)
        self._vectors: dict[bytes, NDArray[np.float32]] = {}  # by the digest of a text, those read last at the end

    def keep(self, source: str, num_chunks: int) -> None:
        """Keep the vectors of a file that is about to be read; those of files that were written long ago go."""
        for start in range(0, min(num_chunks, self._most), MAX_BATCH_CHUNKS):
            ids = [f"{source}#{n}" for n in range(start, min(num_chunks, start + MAX_BATCH_CHUNKS))]
            rows = read_chunks(self._index._store, ids, self._namespace, dense=True)  # noqa: SLF001
            for row in rows.values():
                if row.dense is not None:
                    text = embedded_text(row.text, row.metadata, self._index.config.fields)
                    self._vectors[_digest(text)] = row.dense
        for oldest in list(self._vectors)[: max(0, len(self._vectors) - self._most)]:
            del self._vectors[oldest]

    def __call__(self, texts: list[str]) -> NDArray[np.float32]:
        """Return the vectors of texts, and embed those that are not known."""
        known = {text: vector for text in texts if (vector := self._vectors.get(_digest(text))) is not None}
        new = [text for text in texts if text not in known]
        made = dict(zip(new, self._embed(new), strict=True)) if new else {}
        return np.stack([known[text] if text in known else made[text] for text in texts])


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()
