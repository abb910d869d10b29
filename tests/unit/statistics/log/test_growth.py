"""Long histories of small batches: at every moment the log has the sums of all, in few rows, written a few times."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import cycle

import pytest
from support.log_writing import asked_of, kinds, read_anew, rows, write_words
from support.memory_store import MemoryStore

from rag_bm25.statistics.log import log as statistics_log
from rag_bm25.statistics.log import runs, sums
from rag_bm25.statistics.log.head import read_head
from rag_bm25.statistics.log.log import StatisticsLog
from rag_bm25.statistics.log.table import LogTable
from rag_bm25.vectors.terms import term_id

FAN = 3
ABOVE = 4


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics_log, "COMPACT_ABOVE", ABOVE)
    monkeypatch.setattr(statistics_log, "MAX_WAITING", 1)
    monkeypatch.setattr(sums, "FAN", FAN)
    monkeypatch.setattr("rag_bm25.statistics.log.packing.COUNTS_PER_ROW", 16)
    monkeypatch.setattr(runs, "COUNTS_AT_ONCE", 32)
    monkeypatch.setattr(runs, "NAMESPACES_PER_ROW", 2)
    monkeypatch.setattr("rag_bm25.statistics.log.terms.FEW_TERMS", 50)


class History:
    """Batches of one chunk each, by several writers in turn, and a count of them by loops."""

    def __init__(self, *, exclusive: bool = True, writers: int = 1, namespaces: str = "wxyz") -> None:
        self.store = MemoryStore(exclusive=exclusive)
        self.store.create()
        self.writers = [StatisticsLog(self.store.reopen()) for _ in range(writers)]
        self.namespaces = namespaces
        self.chunks: Counter[str | None] = Counter()
        self.df: dict[str | None, Counter[int]] = defaultdict(Counter)

    def run(self, batches: int) -> Iterator[int]:
        """Write batches as an index does: read, compact, write."""
        for number, log in zip(range(batches), cycle(self.writers), strict=False):
            log.refresh()
            log.require_terms()
            log.compact()
            namespace = self.namespaces[number * 7 % 11 % len(self.namespaces)]
            words = ["all", f"w{number % 97}", f"n{number}"]
            write_words(log, words, namespace)
            for part in (None, namespace):
                self.chunks[part] += 1
                self.df[part].update(map(term_id, words))
            yield number

    def assert_counted(self, log: StatisticsLog) -> None:
        assert log.problems == []
        statistics = log.statistics
        assert statistics.namespaces == sorted(part for part in self.chunks if part is not None)
        for part in self.chunks:
            found = (statistics.whole if part is None else statistics.of_one(part)).contribution()
            assert (found.num_chunks, found.total_length) == (self.chunks[part], 3 * self.chunks[part])
            assert dict(zip(found.ids.tolist(), found.df.tolist(), strict=True)) == self.df[part]

    @property
    def num_runs(self) -> int:
        return len(read_head(LogTable(self.store)).runs)


@pytest.mark.slow
@pytest.mark.parametrize(("exclusive", "writers"), [(True, 1), (True, 2), (False, 1), (False, 2), (False, 3)])
def test_log_has_the_sums_of_all_batches_at_every_step(exclusive: bool, writers: int) -> None:
    history = History(exclusive=exclusive, writers=writers)
    follower = StatisticsLog(history.store.reopen())
    for number in history.run(400):
        history.assert_counted(read_anew(history.store))
        if number % 7 == 0:
            follower.refresh()
            history.assert_counted(follower)
    for log in history.writers:
        log.refresh()
        history.assert_counted(log)


@pytest.mark.slow
@pytest.mark.parametrize("writers", [1, 2])
def test_rows_and_runs_stay_few(writers: int) -> None:
    history = History(exclusive=False, writers=writers)
    for number in history.run(2_000):
        if number % 3:  # every phase of a compaction is seen
            continue
        compactions = number // (ABOVE + 1) + 1
        levels = math.ceil(math.log(compactions, FAN)) + 1
        assert history.num_runs <= (FAN - 1) * levels + 1
        found = Counter(kinds(history.store))
        assert max(found["delta"], found["intent"]) <= 2 * (ABOVE + 1) + writers
        assert found["head"] <= 1
        assert found["compaction"] + found["lease"] == 0
        assert len({row.key.split(":")[1] for row in rows(history.store, "terms")}) <= 2 * (ABOVE + 1) + 2_000 / 50 + 2
        # Pages of this history and of one compaction before; the totals of each run take three rows.
        assert found["run"] <= 2 * 2 * sum(map(len, history.df.values())) / 16 + 8 * (history.num_runs + FAN)
    history.assert_counted(read_anew(history.store))


@pytest.mark.slow
def test_counts_are_written_again_a_logarithmic_number_of_times() -> None:
    history = History(namespaces="w")
    written = 0
    insert = history.writers[0]._store.insert_log

    def counting(inserted: list[object], **_: bool) -> None:
        nonlocal written
        written += sum(row.kind == "run" for row in inserted)  # type: ignore[attr-defined]
        insert(inserted)  # type: ignore[arg-type]

    history.writers[0]._store.insert_log = counting  # type: ignore[method-assign,assignment]
    seen = []
    for number in history.run(3_200):
        if number + 1 in (800, 1_600, 3_200):
            seen.append(written)
    pages = 3_200 * 3 / 16
    assert written <= pages * (math.log(3_200 / ABOVE, FAN) + 3)
    assert seen[2] < 2.6 * seen[1] < 2.6 * 2.6 * seen[0]  # twice the history: not four times the rows


def test_opening_reads_few_rows_however_long_the_history_was() -> None:
    history = History(namespaces="wxyz")
    read = []
    for number in history.run(1_500):
        if number % 500 == 499:
            store = history.store.reopen()
            asked = asked_of(store, StatisticsLog(store).refresh)
            read.append(Counter(key.split(":")[0] for key in asked))
    for some in read:
        assert some["delta"] <= ABOVE + 1
        assert (some["head"], some["intent"]) == (1, 0)
        assert some["run"] <= 3 * ((FAN - 1) * 6 + 1)  # totals alone, of five parts in three rows
