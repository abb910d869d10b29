"""The statistics of any part of an index, counted from its stored vectors."""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING

from rag_bm25.index.searching.rows import drop_superseded
from rag_bm25.statistics.corpus import Contribution, CorpusCounts

if TYPE_CHECKING:
    from rag_bm25.events import Events
    from rag_bm25.statistics.count_table import Channels
    from rag_bm25.store.protocol import Store
    from rag_bm25.store.rows import Scope

ROWS_AT_ONCE = 5000  # whose vectors are in memory together


def count_part(store: Store, scope: Scope, channels: Channels, events: Events) -> CorpusCounts:
    """Count the chunks of a scope; rows are streamed, and no lock is held meanwhile."""
    with events.measure("count") as counts:
        total = CorpusCounts()
        rows = drop_superseded(chain.from_iterable(store.scan_chunks(scope, vectors=True)))
        while batch := list(islice(rows, ROWS_AT_ONCE)):
            total.add(Contribution.of_rows(batch).marked(channels))
        counts.update(chunks=total.num_chunks, terms=total.num_terms)
    return total
