"""Search while others work in the same process, against the engine's own search while it works as much."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pymilvus

from bench.ingestion import encoded_rows
from bench.report import Row, ratio
from bench.searching import raw_search
from bench.timing import Spread
from bench.workbench import BATCH, NAME, Bench, K, Opened, batches
from rag_bm25.store.milvus.schema import SPARSE, chunk_entity

Act: TypeAlias = Callable[[], object]

TOPIC = "serving"
RAW = "raw"  # batch of rows that are no chunks of the index


def rows(bench: Bench) -> Iterator[Row]:
    for size in bench.sizes:
        with Opened(bench.index(size)) as opened:
            server = Server(bench, size, opened)
            yield from _threads(server)
            yield from _while_writing(server)


class Server:
    """An index that is searched, with text by us and with the same vectors by the plain client."""

    def __init__(self, bench: Bench, size: int, opened: Opened) -> None:
        self.size, self.opened, self.index, self.effort = size, opened, opened.index, bench.effort
        self._texts = bench.queries(size, bench.effort.queries)
        self._vectors = [vector.to_dict() for vector in self.index.encode_queries(self._texts)]
        self._next = itertools.cycle(range(len(self._texts)))
        self.new_texts = bench.more_texts(4 * BATCH, part=7)

    def ours(self) -> object:
        # Another query each time, or it would be remembered: with a word that no chunk has, so that the engine gets the
        # vectors that `raw` sends.
        return self.index.search(f"{self._texts[next(self._next)]} {_unknown_word()}", k=K)

    def raw(self) -> object:
        return raw_search(self.opened.client, [self._vectors[next(self._next)]])


_numbers = itertools.count()
_DIGITS_AS_LETTERS = str.maketrans("0123456789", "bcdfghjklm")


def _unknown_word() -> str:
    return f"xq{next(_numbers)}".translate(_DIGITS_AS_LETTERS)


def _while_writing(server: Server) -> Iterator[Row]:
    """Search while a thread adds; the engine alone, while a thread inserts the same rows at full speed."""
    texts = itertools.cycle(batches(server.new_texts))
    entities = [{**chunk_entity(row), SPARSE: row.vector.to_dict()} for row in encoded_rows(server.new_texts)]
    inserted = itertools.cycle(batches(entities))
    number = itertools.count()

    def add() -> None:
        prefix = next(number)
        batch = next(texts)
        server.index.add(batch, ids=[f"serving-{prefix}-{at}" for at in range(len(batch))])

    def insert() -> None:
        prefix = next(number)
        rows = [{**row, "pk": f"{prefix:08d}{at:056d}", "batch": RAW} for at, row in enumerate(next(inserted))]
        pymilvus.MilvusClient.insert(server.opened.client, NAME, rows)

    yield from _compared(server, "while a thread adds", (server.ours, add), (server.raw, insert), "inserts")
    pymilvus.MilvusClient.delete(server.opened.client, NAME, filter=f'batch == "{RAW}"')


def _compared(
    server: Server, measure: str, ours: tuple[Act, Act], raw: tuple[Act, Act], raw_does: str
) -> Iterator[Row]:
    """Search beside a job, in turns."""
    taken: dict[str, list[Searches]] = {"ours": [], "raw": []}
    for _ in range(server.effort.repeats):
        for name, (search, job) in {"ours": ours, "raw": raw}.items():
            with _repeated(job):
                taken[name].append(_search(search, server.effort.seconds))
    against = f"MilvusClient.search, while a thread {raw_does}"
    for quantile, at_most in ((50, None), (95, 2)):
        yield ratio(
            TOPIC,
            f"search {measure}, p{quantile}",
            server.size,
            _latency(taken["ours"], quantile),
            against,
            _latency(taken["raw"], quantile),
            at_most=at_most,
        )
    yield _rates(server, f"searches {measure}", taken["ours"], against, taken["raw"], at_least=0.6)


def _threads(server: Server) -> Iterator[Row]:
    """Search in many threads."""
    ways: dict[str, tuple[Act, int]] = {
        "16 threads": (server.ours, 16),
        "4 threads": (server.ours, 4),
        "MilvusClient.search in 16 threads": (server.raw, 16),
    }
    taken: dict[str, list[Searches]] = {name: [] for name in ways}
    for _ in range(server.effort.repeats):
        for name, (search, threads) in ways.items():
            taken[name].append(_search(search, server.effort.seconds, threads))
    ours = taken.pop("16 threads")
    for (name, reference), at_least in zip(taken.items(), (1.0, 0.9), strict=True):
        yield _rates(server, "searches in 16 threads", ours, name, reference, at_least)


def _rates(
    server: Server,
    measure: str,
    value: Sequence[Searches],
    against: str,
    reference: Sequence[Searches],
    at_least: float,
) -> Row:
    return ratio(
        TOPIC,
        measure,
        server.size,
        Spread.of([searches.rate for searches in value], "/s"),
        against,
        Spread.of([searches.rate for searches in reference], "/s"),
        at_least=at_least,
    )


@dataclass
class Searches:
    """Latencies of searches, and how many there were in a second."""

    seconds: list[float]
    rate: float


def _latency(rounds: Sequence[Searches], quantile: int) -> Spread:
    return Spread.of([1000 * float(np.percentile(searches.seconds, quantile)) for searches in rounds], "ms")


def _search(search: Act, seconds: float, threads: int = 1) -> Searches:
    """Search again and again, in some threads."""
    taken: list[float] = []
    begin = time.perf_counter()

    def work() -> None:
        while (start := time.perf_counter()) < begin + seconds:
            search()
            taken.append(time.perf_counter() - start)

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return Searches(taken, len(taken) / (time.perf_counter() - begin))


@contextmanager
def _repeated(job: Act) -> Iterator[None]:
    """Do a job again and again in a thread."""
    stopped, failures = threading.Event(), list[Any]()

    def work() -> None:
        try:
            while not stopped.is_set():
                job()
        except BaseException as error:  # noqa: BLE001 - raised below
            failures.append(error)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        yield
    finally:
        stopped.set()
        worker.join()
    if failures:
        raise failures[0]
