"""The statistics alone, without Milvus, at simulated sizes beyond a single machine.

On paper: a term takes 12 bytes in two sorted arrays, and some more while it is new; a batch takes a binary search for
each of its terms, and the mean IDF one logarithm for each df that occurs. The arrays are copied when the terms that
came since the last time are a sixteenth of them, and every 64 batches a writer sums the log up: both take time by the
size of the vocabulary, divided by many batches.
"""

from __future__ import annotations

import time
import tracemalloc
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bench.corpus import DoublePowerLaw
from bench.report import Row
from bench.timing import Clock, Spread, timed
from bench.workbench import BATCH
from rag_bm25.statistics.corpus import Contribution, NamespaceStatistics
from rag_bm25.statistics.log.log import COMPACT_ABOVE, StatisticsLog
from rag_bm25.statistics.log.writes import Intent
from rag_bm25.vectors.terms import term_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from bench.workbench import Bench
    from rag_bm25.store.rows import LogRow

TOPIC = "statistics"
WORDS = 300  # of a chunk
PIECE = 10_000_000
SCATTER = 2_654_435_761  # odd, so that ids of different ranks are different, and as scattered as hashes
FLAT = 1.5  # times what it is for the small corpus
READER = 40  # bytes a term


class DictLog:
    """A log store in a dictionary."""

    name = "memory"

    def __init__(self) -> None:
        self._rows: dict[str, LogRow] = {}

    def insert_log(self, rows: Sequence[LogRow]) -> None:
        self._rows.update((row.key, row) for row in rows)

    def delete_log(self, keys: Sequence[str]) -> None:
        for key in keys:
            self._rows.pop(key, None)

    def log_keys(self) -> list[str]:
        return list(self._rows)

    def get_log(self, keys: Sequence[str], *, packed: bool = True) -> list[LogRow]:  # noqa: ARG002
        return [self._rows[key] for key in keys if key in self._rows]


@dataclass(frozen=True)
class Delta:
    """Contribution and new terms of a batch."""

    contribution: Contribution
    new_terms: dict[str, int]


def rows(bench: Bench) -> Iterator[Row]:
    first: dict[str, Spread] = {}
    for chunks, number in (bench.effort.small, bench.effort.large):
        corpus, deltas = simulated(chunks, number, bench.seed)
        terms = len(corpus.ids)
        for measure, value in _times(corpus, deltas).items():
            first.setdefault(measure, value)
            yield Row(
                TOPIC,
                f"{measure}, {terms:,} terms",
                chunks,
                value=value,
                against=f"at {bench.effort.small[0]:,} chunks",
                reference=first[measure],
                comparison="ratio",
                at_most=None if measure == SUMMING_UP else FLAT,
            )
        for when, size in _memory(corpus, deltas).items():
            measure = f"memory of the statistics, {when}, {size / 2**20:,.0f} MiB, {terms:,} terms"
            value = Spread.of([size / terms], "bytes a term")
            yield Row(TOPIC, measure, chunks, value=value, comparison="value", at_most=READER)


UPDATE = f"a batch of {BATCH:,} chunks stored and counted"
MEAN_IDF = f"the mean IDF after a batch of {BATCH:,} chunks"
SUMMING_UP = f"summing up the log, the share of one batch in {COMPACT_ABOVE}"


def simulated(chunks: int, number: int, seed: int) -> tuple[Contribution, list[Delta]]:
    """Simulate a corpus; return its contribution and the batches after it."""
    law, rng = DoublePowerLaw(), np.random.default_rng((seed, chunks))
    end = 5 * law.vocabulary(chunks * WORDS)  # beyond it, hardly any rank occurs
    pieces = (law.probabilities(start, min(start + PIECE, end)) for start in range(0, end, PIECE))
    # 1 - (1 - p) ** WORDS, the probability that a chunk has the word
    df = np.concatenate([rng.poisson(-chunks * np.expm1(WORDS * np.log1p(-p))) for p in pieces])
    deltas = [_delta(law, rng, df) for _ in range(number)]
    ranks = np.flatnonzero(df)
    ids = _ids(ranks)
    order = np.argsort(ids)
    return Contribution(chunks, chunks * WORDS, ids[order], df[ranks][order]), deltas


def _delta(law: DoublePowerLaw, rng: np.random.Generator, df: NDArray[np.int64]) -> Delta:
    """Draw the words of a batch; words outside of the corpus are new terms."""
    ranks = law.ranks(rng, BATCH * WORDS).reshape(BATCH, WORDS) % 2**31
    entries = np.unique(ranks.astype(np.uint64) | (np.arange(BATCH, dtype=np.uint64)[:, None] << np.uint64(32)))
    words, counts = np.unique(entries & np.uint64(2**32 - 1), return_counts=True)
    inside = words < len(df)
    known = inside & (df[np.where(inside, words, 0)] > 0)
    new = {term: term_id(term) for term in (f"t{rank}" for rank in words[~known].tolist())}
    ids = _ids(words)
    order = np.argsort(ids)
    return Delta(Contribution(BATCH, BATCH * WORDS, ids[order], counts[order]), new)


def _ids(ranks: NDArray[np.integer]) -> NDArray[np.uint32]:
    return ((ranks.astype(np.uint64) + np.uint64(1)) * np.uint64(SCATTER)).astype(np.uint32)


def _times(corpus: Contribution, deltas: Sequence[Delta]) -> dict[str, Spread]:
    """Time the writes of batches to a log."""
    log = StatisticsLog(DictLog())
    log.vocabulary()
    log.statistics.add("", corpus)
    updates, means = [], []
    for delta in deltas:
        intent = Intent(log.new_batch(), "bench", time.time(), "", [], Contribution())
        with timed() as update:
            log.open_write(intent, delta.new_terms).commit(delta.contribution)
        with timed() as mean:
            log.statistics.whole.collection_stats  # noqa: B018 - worked out when it is first asked for
        updates.append(update)
        means.append(mean)
    with timed() as whole:
        log.compact(above=0)
    share = Clock(whole.wall / COMPACT_ABOVE, whole.cpu / COMPACT_ABOVE)
    named = {UPDATE: updates, MEAN_IDF: means, SUMMING_UP: [share]}
    return {measure: Spread.of_clocks(clocks) for measure, clocks in named.items()}


def _memory(corpus: Contribution, deltas: Sequence[Delta]) -> dict[str, int]:
    """Return the bytes that the statistics keep, and their peak during the batches."""
    tracemalloc.start()
    statistics = NamespaceStatistics()
    statistics.add("", corpus)
    tracemalloc.reset_peak()
    for delta in deltas:
        statistics.add("", delta.contribution)
    kept, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return {"kept": kept, "at most": most}
