"""A long life: an index that two writers use day by day, as long as a year.

Each day, another process opens it and compares it with the model. Then a tenth of the chunks is changed, some are
deleted and as many are new, by two writers at once, and it is verified beside them. Each week ends with a reindex and
``--drop-old``. On one day somebody else drops the index and makes it again while a program has it open.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace

from rag_bm25 import BM25Index
from rag_bm25.errors import IndexGoneError
from rag_bm25.index import drop_former_generations, drop_index
from rag_bm25.ingestion import reindex
from soak.model import Write
from soak.places import Place
from soak.soak import Soak
from soak.visits import SHOWN, Seen, Visitor

WEEK, MONTH = 7, 30  # days
MADE_AGAIN = 60  # the day
WRITERS = 2
K1S = (1.5, 1.2)  # in turn, since a reindex with the same parameters has nothing to do
VERIFIED = 2  # times a day, beside the writers


@dataclass(frozen=True)
class DayVisitor(Visitor):
    """Has several writers write at once; each has the index open for itself."""

    keeps_words: bool = False

    def write_all(self, index: BM25Index, writes: list[Write], seen: Seen) -> None:
        if not writes:
            return
        with ThreadPoolExecutor(WRITERS) as pool:
            working = [pool.submit(self._work, [one for one in writes if one.writer == n]) for n in range(WRITERS)]
            for _ in range(VERIFIED):
                self._verify(index, seen)
            for writer in working:
                writer.result()

    def _work(self, writes: list[Write]) -> None:
        with self.place.open() as index:
            for write in writes:
                self.write(index, write)

    def _verify(self, index: BM25Index, seen: Seen) -> None:
        report = index.verify()
        seen.figures["verified"] = seen.figures.get("verified", 0) + 1
        seen.figures["inconclusive"] = seen.figures.get("inconclusive", 0) + bool(report.inconclusive)
        if report.differences:
            seen.faults.append(f"verify beside writers: {[str(one) for one in report.differences[:SHOWN]]}")

    def reindex(self) -> Seen:
        """Put the next generation into force, and drop the former one."""
        seen = Seen()
        with seen.timed("reindex"):
            with self.place.open() as index:
                reindex(index, replace(index.config, k1=K1S[index.config.k1 == K1S[0]]))
            with closing(self.place.store()) as store:
                drop_former_generations(store)
        return seen

    def make_again(self, writes: list[Write]) -> None:
        """Have somebody else drop the index and make it again while it is open here, which must be told here."""
        with _somebody_else(self.place) as other:
            other.submit(int).result()  # a process is forked before the index is open here
            with self.place.open() as held:
                other.submit(self._make_again, writes).result()
                for call in (held.refresh, lambda: held.search("index"), lambda: held.add(["text"])):
                    _require_told(call)

    def _make_again(self, writes: list[Write]) -> None:
        with closing(self.place.store()) as store:
            drop_index(store)
        self._work(writes)


def _somebody_else(place: Place) -> Executor:
    """Return another process on a server, which an embedded engine refuses: there another thread."""
    return ProcessPoolExecutor(1, multiprocessing.get_context("fork")) if place.shared else ThreadPoolExecutor(1)


def _require_told(call: Callable[[], object]) -> None:
    try:
        call()
    except IndexGoneError:
        return
    raise AssertionError("an index that was made again is used as if it were the one that was opened")


@dataclass
class Year(Soak):
    """One index, used for many days."""

    visitor: DayVisitor
    columns: tuple[str, ...] = (
        "day", "chunks", "log rows", "generation", "open s", "first search s", "verify s", "write s", "reindex s",
        "client MB", "engine MB", "disk kB",
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        self._lately: dict[str, float] = {}  # figures of the last day, and of the last reindex
        self.totals = dict.fromkeys(["verified", "inconclusive", "reindexed", "made again"], 0)

    def live(self, days: int, chunks: int) -> None:
        """Use the index for so many days; after the first, the last, and once a month all rows are compared."""
        for day in range(1, days + 1):
            self._live_one(day, chunks)
            if day in {1, days} or not day % MONTH:
                self.look()
                self.rows[-1] |= {**self._lately, "day": day}

    def _live_one(self, day: int, chunks: int) -> None:
        if day == MADE_AGAIN:
            self._call(self.visitor.make_again, self.model.everything())
            self.totals["made again"] += 1
        seen = self._visit(lambda: self.model.day(self._rng, chunks, WRITERS))
        self._lately["write s"] = seen.figures["write s"]
        for name in ("verified", "inconclusive"):
            self.totals[name] += int(seen.figures[name])
        if not day % WEEK:
            self._lately |= self._call(self.visitor.reindex).figures
            self.totals["reindexed"] += 1

    def table(self) -> str:
        return f"{super().table()}\n{self.totals}"
