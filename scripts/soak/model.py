"""The expected content of an index, in four bytes a chunk, and the next writes."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

NAMESPACES = ("", "", "", "law")  # of a chunk, by its number
PARTS = 101  # of the metadata, for deletions by a filter
MOST_AT_ONCE = 2_000  # updates and deletions of one step

Numbers = NDArray[np.int64]
Kind = Literal["add", "stream", "delete", "delete part"]


@dataclass(frozen=True)
class Write:
    """One call of the index."""

    kind: Kind
    namespace: str
    numbers: Numbers
    versions: NDArray[np.int32]  # of the texts afterwards, 0 for none
    part: int = -1  # in the filter of a deletion
    writer: int = 0  # of those that write at once

    def __str__(self) -> str:
        return f"{self.kind} {len(self.numbers):,} in {self.namespace!r}"


def chunk_id(number: int) -> str:
    return f"chunk-{number}"


def number_of(id_: str) -> int:
    """Return the number of a chunk, -1 for a foreign id."""
    tail = id_.removeprefix("chunk-")
    return int(tail) if tail.isdecimal() and chunk_id(int(tail)) == id_ else -1


def namespace_of(number: int) -> str:
    return NAMESPACES[number % len(NAMESPACES)]


class Model:
    """Stored version of each chunk: 0 if there never was one, the negative last one if deleted."""

    def __init__(self, capacity: int) -> None:
        self.versions = np.zeros(capacity, np.int32)
        self.used = 0  # all numbers that ever had a text are below

    def stored(self, namespace: str | None = None) -> Numbers:
        found = np.flatnonzero(self.versions > 0)
        return found if namespace is None else found[_namespaces(found) == namespace]

    def apply(self, writes: list[Write]) -> list[Write]:
        """Apply writes to the model, and return them."""
        for write in writes:
            gone = -np.abs(self.versions[write.numbers])
            self.versions[write.numbers] = np.where(write.versions > 0, write.versions, gone)
            self.used = max(self.used, int(write.numbers.max(initial=-1)) + 1)
        return writes

    # What comes next

    def everyday(self, rng: random.Random, below: int) -> list[Write]:
        """Draw and apply the writes of a small daily run: new, changed and deleted documents."""
        kind = rng.choices(["change", "again", "nothing"], [85, 10, 5])[0]
        size = rng.choice([1, rng.randint(2, 10), rng.randint(11, 40)])
        writes: list[Write] = []
        if kind == "change":
            writes += self.apply(self._puts(np.array(rng.sample(range(below), min(size, below)))))
        elif kind == "again":
            writes += self.apply(self._puts(self._some_stored(rng, size), newer=0))
        if rng.random() < 0.5:
            writes += self.apply(self._deletions(self._some_stored(rng, rng.randint(1, 5))))
        if rng.random() < 0.03:
            writes += self.apply([self._deletion_of_a_part(rng)])
        return writes

    def growth(self, rng: random.Random, target: int) -> list[Write]:
        """Draw and apply updates, deletions and returns of stored chunks, and the missing number of new ones."""
        there = len(self.stored())
        writes = self.apply(self._puts(self._some_stored(rng, min(there // 20, MOST_AT_ONCE))))
        deleted = self._some_stored(rng, min(there // 20, MOST_AT_ONCE))
        writes += self.apply(self._deletions(deleted))
        writes += self.apply([self._deletion_of_a_part(rng)] if there else [])
        writes += self.apply(self._puts(deleted[::2]))
        missing = max(0, target - len(self.stored()))
        return writes + self.apply(self._puts(np.arange(self.used, self.used + missing), kind="stream"))

    def day(self, rng: random.Random, size: int, writers: int) -> list[Write]:
        """Draw and apply a day of several writers: a tenth is changed, some are deleted, as many are new."""
        there, free = self._some_stored(rng, size), np.flatnonzero(self.versions <= 0)
        changed, deleted = np.split(there[: 3 * len(there) // 20], [len(there) // 10])
        new = free[rng.sample(range(len(free)), min(len(free), size - len(there) + len(deleted)))]
        return [
            replace(write, writer=writer)
            for writer in range(writers)
            for writes in (
                self._puts(np.concatenate([changed, new])[writer::writers]),
                self._deletions(deleted[writer::writers]),
            )
            for write in self.apply(writes)
        ]

    def everything(self) -> list[Write]:
        """Write all that is stored once more."""
        return self._puts(self.stored(), newer=0)

    def _puts(self, numbers: Numbers, *, newer: int = 1, kind: Kind = "add") -> list[Write]:
        """Write the next version of chunks, or with `newer=0` the stored one."""
        return [
            Write(kind, namespace, some, np.abs(self.versions[some]) + newer) for namespace, some in _parted(numbers)
        ]

    def _deletions(self, numbers: Numbers) -> list[Write]:
        return [Write("delete", namespace, some, np.zeros(len(some), int)) for namespace, some in _parted(numbers)]

    def _deletion_of_a_part(self, rng: random.Random) -> Write:
        namespace, part = rng.choice(NAMESPACES), rng.randrange(PARTS)
        there = self.stored(namespace)
        hit = there[there % PARTS == part]
        return Write("delete part", namespace, hit, np.zeros(len(hit), int), part)

    def _some_stored(self, rng: random.Random, size: int) -> Numbers:
        there = self.stored()
        return there[rng.sample(range(len(there)), min(size, len(there)))]


def _namespaces(numbers: Numbers) -> NDArray[np.str_]:
    return np.array(NAMESPACES)[numbers % len(NAMESPACES)]


def _parted(numbers: Numbers) -> list[tuple[str, Numbers]]:
    """Group numbers by their namespace."""
    of = _namespaces(numbers)
    return [(name, numbers[of == name]) for name in dict.fromkeys(NAMESPACES) if (of == name).any()]
