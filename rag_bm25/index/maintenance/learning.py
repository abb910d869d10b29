"""Learn a k1 for each term from the stored weights."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING

import numpy as np

from rag_bm25.checks import parameter_error
from rag_bm25.documents.reweighing import Reweigher
from rag_bm25.events import report_progress
from rag_bm25.index.searching.rows import drop_superseded
from rag_bm25.statistics.k1_counts import K1Counts
from rag_bm25.vectors.terms import term_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from rag_bm25.events import Progress
    from rag_bm25.index.generation import Generation
    from rag_bm25.weighting.term_k1 import TermK1

ROWS_AT_ONCE = 1_000


@dataclass(frozen=True)
class LearnedK1:
    """What :meth:`rag_bm25.BM25Index.learn_k1` has learned from.

    Parameters
    ----------
    num_chunks : int
        N, the chunks that were read.
    num_terms : int
        Terms of two chunks or more.
    adapted : int
        Those of them with a k1 by BM25-adpt; the others have too few chunks with repetitions.
    """

    num_chunks: int
    num_terms: int
    adapted: int

    @classmethod
    def of(cls, table: TermK1) -> LearnedK1:
        """Count what was learned.

        Parameters
        ----------
        table : TermK1
            What was learned.

        Returns
        -------
        LearnedK1
            Its figures.
        """
        return cls(table.num_chunks, len(table.ids), int(np.isfinite(table.values[1]).sum()))


def learn_k1(now: Generation, progress: Callable[[Progress], None] | None = None) -> TermK1:
    """Read all stored chunks once, and learn what their frequencies tell of each term."""
    stored, view = now.encoder.weighting, now.live.current()
    if stored.form != "bm25":
        raise parameter_error("weighting", "'bm25' in an index whose terms get a k1 of their own", stored.form)
    mean, total = view.statistics.whole.mean_length, view.statistics.num_chunks
    of_mean = replace(stored, chunk_size=mean or stored.chunk_size)
    reweigher, counts, done = Reweigher(now.encoder, of_mean, view.ids), K1Counts(), 0
    rows = drop_superseded(chain.from_iterable(now.store.scan_chunks(contents=True, vectors=True)))
    while batch := list(islice(rows, ROWS_AT_ONCE)):
        for ids, c in reweigher.frequencies(batch):
            counts.add(ids, c)
        done += len(batch)
        report_progress(progress, "chunks read", done, total)
    return counts.learn(done, time.time())


def carry_k1(source: Generation, target: Generation) -> None:
    """Keep what was learned with an index of the same texts, but for terms that have another id there."""
    here, there = source.live.view, target.live.view
    table, known = here.term_k1, there.term_k1
    if table is None or target.encoder.weighting.form != "bm25" or (known is not None and known.time >= table.time):
        return
    differing = here.displaced.items() ^ there.displaced.items()
    moved = [id_ for term, displaced in differing for id_ in (displaced, term_id(term))]
    kept = ~np.isin(table.ids, np.array(moved, np.uint32))
    target.live.write_k1(replace(table, ids=table.ids[kept], values=table.values[:, kept]))
