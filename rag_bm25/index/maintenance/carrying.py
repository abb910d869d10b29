"""Carry stored chunks over to an index or a generation with other parameters.

Where analyzer, unit of lengths and fields are the same, the stored weights tell how often a chunk has a term, and no
text is analysed, unless a weight of its batch is that of several frequencies, or two of its new terms want one id,
which the first in the texts gets.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from rag_bm25.analysis.contract import differences, require_analyzer
from rag_bm25.documents.checks import check_given_chunk
from rag_bm25.documents.chunks import batches
from rag_bm25.documents.reweighing import Recounter
from rag_bm25.index.searching.rows import to_chunk
from rag_bm25.index.stored_config import contract_in
from rag_bm25.index.writing.pipeline import WriteOptions

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rag_bm25.documents.encoder import CountedChunks
    from rag_bm25.index.config import IndexConfig
    from rag_bm25.index.generation import Generation
    from rag_bm25.store.rows import ChunkRow


@dataclass(frozen=True, eq=False)
class Carrier:
    """Write chunks as they are stored; those that the target has already cost no write."""

    source: Generation | None  # None if all texts are analysed
    target: Generation

    @classmethod
    def between(cls, source: Generation | None, target: Generation) -> Carrier:
        """Take the counts from the source, unless it is of an earlier format, if those of the target are the same."""
        can_count = source is not None and _have_same_counts(source.config, target.config)
        return cls(source if can_count else None, target)

    @property
    def reads_vectors(self) -> bool:
        """Whether the rows to write must have their vectors."""
        return self.source is not None

    def write(self, namespace: str, rows: Iterable[ChunkRow]) -> None:
        """Write rows with their contents, dense vectors, and the others if those are read."""
        config, options = self.target.config, WriteOptions(namespace, assume_new=False, workers=0)
        stored = {row.id: row for row in rows}
        chunks = (replace(check_given_chunk(to_chunk(row), config.fields), dense=row.dense) for row in stored.values())
        if self.source is None:
            self.target.pipeline.write_stream(chunks, None, options, None)
            return
        require_analyzer(analyzer := self.target.encoder.analyzer)
        encoder = replace(self.source.encoder, analyzer=analyzer)  # which the source may have been opened without
        recounter = Recounter(encoder, self.source.live.view.ids, self.source.live.vocabulary())
        for batch in batches(chunks, 4 * (config.dense_dim or 0)):
            count = partial(self._count, recounter, [stored[chunk.id] for chunk in batch])
            self.target.pipeline.add_batch(batch, options, None, count)

    def _count(self, recounter: Recounter, rows: Sequence[ChunkRow], places: Sequence[int]) -> CountedChunks:
        """Count the terms of those rows that have changed."""
        changed = [rows[place] for place in places]
        texts, metadatas = [row.text for row in changed], [row.metadata for row in changed]
        return recounter.count(changed) or self.target.encoder.count(texts, metadatas)


def _have_same_counts(source: IndexConfig, target: IndexConfig) -> bool:
    """Return whether chunks have the same terms and lengths in two indexes."""
    return (
        source.length_unit == target.length_unit
        and set(source.fields) == set(target.fields)
        and not differences(contract_in(source), contract_in(target))
    )
