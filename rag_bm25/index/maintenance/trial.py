"""Try changes of an index without writing to it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rag_bm25.index.index import BM25Index


@contextmanager
def dry_run(index: BM25Index) -> Iterator[BM25Index]:
    """Yield an index with the same chunks, of which all writes are forgotten at the end.

    Nothing is written to the engine, not even by a write that finishes one of a killed process. Searches of the yielded
    index give what those of the real one would give after the same writes: the same chunks, and scores that may differ
    by the rounding of the engine. What is written is held in memory.

    Parameters
    ----------
    index : BM25Index
        It may be read-only. It must not be written to meanwhile.

    Yields
    ------
    BM25Index
        An index for any use.

    Examples
    --------
    >>> from rag_bm25 import BM25Index, IndexConfig
    >>> with BM25Index.open(":memory:", "docs", config=IndexConfig(chunk_size=500)) as index:
    ...     with dry_run(index) as trial:
    ...         ids = trial.add(["Milvus stores sparse vectors."])
    ...         print(len(trial.search("vector")), len(index.search("vector")))
    1 0
    """
    from rag_bm25.store.overlay import overlay

    index.refresh()  # it may have been reindexed
    store = overlay(index._store, index.config.dense_field())  # noqa: SLF001
    with type(index).from_store(store, config=index.config) as trial:
        yield trial
