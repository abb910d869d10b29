"""Repeated measurements in turns, and their medians and quartiles."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np


@dataclass
class Clock:
    """Seconds that a block took."""

    wall: float = 0.0
    cpu: float = 0.0


@dataclass(frozen=True)
class Spread:
    """Median and quartiles of repeated measurements."""

    median: float
    p25: float
    p75: float
    count: int = 1
    unit: str = "s"
    cpu: float | None = None  # median seconds of all processes at work, if taken

    @classmethod
    def of(cls, samples: Sequence[float], unit: str = "s") -> Spread:
        p25, median, p75 = (float(value) for value in np.percentile(samples, [25, 50, 75]))
        return cls(median, p25, p75, len(samples), unit)

    @classmethod
    def of_clocks(cls, clocks: Sequence[Clock]) -> Spread:
        walls = cls.of([clock.wall for clock in clocks])
        return cls(walls.median, walls.p25, walls.p75, walls.count, cpu=float(np.median([c.cpu for c in clocks])))


def cpu_seconds() -> float:
    """Return the CPU time of this process and of its ended children."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


@contextmanager
def timed() -> Iterator[Clock]:
    clock = Clock()
    wall, cpu = time.perf_counter(), cpu_seconds()
    yield clock
    clock.wall, clock.cpu = time.perf_counter() - wall, cpu_seconds() - cpu


def seconds_of(call: Callable[[], object]) -> Clock:
    with timed() as clock:
        call()
    return clock


def in_turns(ways: Mapping[str, Callable[[], Clock]], repeats: int) -> dict[str, Spread]:
    """Measure all ways in turns, so that other load on the machine affects each of them."""
    taken: dict[str, list[Clock]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            taken[name].append(way())
    return {name: Spread.of_clocks(clocks) for name, clocks in taken.items()}


def each_in_turn(ways: Mapping[str, Callable[[int], object]], which: Sequence[int]) -> dict[str, list[float]]:
    """Time each query in each way, in alternating order: the second one finds warm caches."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for at in which:
        for name in list(ways)[:: -1 if at % 2 else 1]:
            start = time.perf_counter()
            ways[name](at)
            taken[name].append(time.perf_counter() - start)
    return taken


@dataclass(frozen=True)
class Latency:
    """Percentiles over rounds of queries, in milliseconds."""

    p50: Spread
    p95: Spread


def latencies(ways: Mapping[str, Callable[[int], object]], number: int, rounds: int) -> dict[str, Latency]:
    """Run each query once in each way, in rounds, after a tenth of them as warm-up."""
    warm = number // 10
    each_in_turn(ways, range(warm))
    taken = [each_in_turn(ways, which.tolist()) for which in np.array_split(np.arange(warm, number), rounds)]
    return {
        name: Latency(*(Spread.of([1000 * float(np.percentile(t[name], q)) for t in taken], "ms") for q in (50, 95)))
        for name in ways
    }
