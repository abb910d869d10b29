"""The statistics alone, without Milvus, at simulated sizes beyond a single machine.

On paper: a term takes 12 bytes in two sorted arrays, and some more while it is new; a batch takes a binary search for
each of its terms, and the mean IDF one logarithm for each df that occurs. The log is folded in levels, so that each
count is written a few times; a writer keeps 8 bytes of a term.
"""

from __future__ import annotations

import time
import tracemalloc
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bench.corpus import DoublePowerLaw
from bench.report import Row
from bench.timing import Spread, timed
from bench.workbench import BATCH
from rag_bm25.statistics.corpus import Contribution, NamespaceStatistics
from rag_bm25.statistics.count_table import Counts
from rag_bm25.statistics.log.log import StatisticsLog, max_waiting
from rag_bm25.statistics.log.packing import COUNTS_PER_ROW, pack_page
from rag_bm25.statistics.log.sums import next_level
from rag_bm25.statistics.log.terms import TermsRow
from rag_bm25.statistics.log.writes import Intent
from rag_bm25.vectors.known_terms import KnownTerms
from rag_bm25.vectors.terms import term_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from bench.workbench import Bench
    from rag_bm25.store.rows import KeyRange, LogRow

TOPIC = "scale"
WORDS = 300  # of a chunk
PIECE = 10_000_000
SCATTER = 2_654_435_761  # odd, so that ids of different ranks are different, and as scattered as hashes
FLAT = 1.5  # times what it is for the small corpus
READER, WRITER = 40, 24  # bytes a term
WRITTEN_AT_MOST = 8.0  # bytes by compaction, for each of the log in the end


class DictLog:
    """A log store in a dictionary."""

    name = "memory"
    exclusive = True

    def __init__(self) -> None:
        self._rows: dict[str, LogRow] = {}

    def insert_log(self, rows: Sequence[LogRow], *, defer: bool = False) -> None:  # noqa: ARG002
        self._rows.update((row.key, row) for row in rows)

    def delete_log(self, keys: Sequence[str]) -> None:
        for key in keys:
            self._rows.pop(key, None)

    def log_keys(self, ranges: Sequence[KeyRange] | None = None) -> list[str]:
        return [key for key in self._rows if ranges is None or any(low < key < high for low, high in ranges)]

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
                at_most=FLAT,
            )
        for when, size in _memory(corpus, deltas).items():
            measure = f"memory of the statistics, {when}, {size / 2**20:,.0f} MiB, {terms:,} terms"
            value = Spread.of([size / terms], "bytes a term")
            yield Row(TOPIC, measure, chunks, value=value, comparison="value", at_most=READER)
        yield from _written(chunks, corpus)
    yield _writer(bench.effort.terms)


UPDATE = f"a batch of {BATCH:,} chunks stored and counted"
MEAN_IDF = f"the mean IDF after a batch of {BATCH:,} chunks"


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
    """Time the writes of batches to a log of which readers have asked for the statistics."""
    log = StatisticsLog(DictLog())
    log.open_write(_intent(log), {}).commit(corpus)
    log.compact(above=0)
    log.statistics.whole.collection_stats  # noqa: B018 - worked out when it is first asked for
    updates, means = [], []
    for delta in deltas:
        intent = _intent(log)
        with timed() as update:
            log.open_write(intent, delta.new_terms).commit(delta.contribution)
        with timed() as mean:
            log.statistics.whole.collection_stats  # noqa: B018
        updates.append(update)
        means.append(mean)
    return {UPDATE: Spread.of_clocks(updates), MEAN_IDF: Spread.of_clocks(means)}


def _intent(log: StatisticsLog) -> Intent:
    return Intent(log.new_batch(), "bench", time.time(), "", [], Contribution())


def _written(chunks: int, corpus: Contribution) -> Iterator[Row]:
    """Follow the compactions of an ingestion by the expected number of terms in each run, packed as a sample is."""
    law, vocabulary = DoublePowerLaw(), len(corpus.ids)
    sample = TermsRow.encode(
        "0" * 24, {f"t{rank}": term_id(f"t{rank}") for rank in range(vocabulary - 10_000, vocabulary)}
    )
    terms = sum(len(row.packed) for row in sample) / 10_000 * vocabulary

    def counts(batches: int) -> float:
        number = min(law.vocabulary(batches * BATCH * WORDS), vocabulary)
        return number * _bytes_a_count(number, corpus)

    written, deltas, folded, runs = 2.0 * terms, 0.0, 0, dict[int, list[int]]()  # each term once more when it is merged
    waiting = 0
    for _ in range(chunks // BATCH):
        waiting += 1
        if waiting <= max_waiting(folded):
            continue
        level = next_level([level for level, some in runs.items() for _ in some])
        size = waiting + sum(sum(runs.pop(below, [])) for below in range(level))
        runs.setdefault(level, []).append(size)
        written += counts(size)
        folded, waiting = folded + waiting, 0
    final = terms + sum(counts(size) for some in runs.values() for size in some) + waiting * counts(1)
    deltas = chunks / BATCH * counts(1)
    for what, value, limit in (
        ("", written, WRITTEN_AT_MOST),
        (", the deltas of the batches included", written + deltas, None),
    ):
        yield Row(
            TOPIC,
            f"bytes of the log written in all{what}, simulated",
            chunks,
            value=Spread.of([value], "bytes"),
            against="the log in the end",
            reference=Spread.of([final], "bytes"),
            comparison="ratio",
            at_most=limit,
        )


def _bytes_a_count(number: int, corpus: Contribution) -> float:
    """Return the size of a count in a run of so many terms."""
    some = np.sort(np.random.default_rng(number).integers(1, 2**32 * min(COUNTS_PER_ROW / number, 1), COUNTS_PER_ROW))
    ids = np.unique(some.astype(np.uint32))
    df = np.random.default_rng(number).choice(corpus.df, len(ids)) * number // len(corpus.ids) + 1
    return len(pack_page(Counts(ids, df, np.zeros(len(ids), np.bool_)))) / len(ids)


def _writer(number: int) -> Row:
    """Measure what a writer keeps of the vocabulary."""
    terms = [f"t{rank}" for rank in range(number)]
    tracemalloc.start()
    known = KnownTerms()
    for start in range(0, number, 10_000):
        known.add({term: term_id(term) for term in terms[start : start + 10_000]})
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    value = Spread.of([kept / len(known)], "bytes a term")
    return Row(TOPIC, f"memory of a writer, {len(known):,} terms", value=value, comparison="value", at_most=WRITER)


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
