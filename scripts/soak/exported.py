"""The statistics of an index in a file, read without the package."""

from __future__ import annotations

import gzip
import hashlib
import json
from array import array
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from rag_bm25 import BM25Index


@dataclass(frozen=True)
class Counts:
    """df by term id, in 12 bytes a term."""

    ids: NDArray[np.uint32]  # sorted
    df: NDArray[np.int64]

    @classmethod
    def of(cls, ids: Iterable[int], df: Iterable[int]) -> Counts:
        keys, counts = np.fromiter(ids, np.uint32), np.fromiter(df, np.int64)
        order = np.argsort(keys)
        return cls(keys[order], counts[order])

    def get(self, ids: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Return the df of ids, 0 for unknown ones."""
        if not len(self.ids):
            return np.zeros(len(ids), np.int64)
        places = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        return np.where(self.ids[places] == ids, self.df[places], 0)

    def differing(self, other: Counts) -> NDArray[np.uint32]:
        """Return the ids whose df differs."""
        every = np.union1d(self.ids, other.ids)
        differing: NDArray[np.uint32] = every[self.get(every) != other.get(every)]
        return differing


NO_COUNTS = Counts.of([], [])


def fingerprint(term: str) -> int:
    """Hash a term to 64 bits, the same in every process."""
    return int.from_bytes(hashlib.blake2b(term.encode(), digest_size=8).digest(), "big")


@dataclass(frozen=True)
class Terms:
    """A vocabulary, in 12 bytes a term."""

    prints: NDArray[np.uint64]  # fingerprints of the terms, sorted
    ids: NDArray[np.uint32]

    @classmethod
    def of(cls, prints: Iterable[int], ids: Iterable[int]) -> Terms:
        keys, found = np.fromiter(prints, np.uint64), np.fromiter(ids, np.uint32)
        order = np.argsort(keys)
        return cls(keys[order], found[order])

    def __len__(self) -> int:
        return len(self.prints)

    def id(self, term: str) -> int | None:
        wanted = np.uint64(fingerprint(term))
        place = int(np.searchsorted(self.prints, wanted))
        return int(self.ids[place]) if place < len(self) and self.prints[place] == wanted else None

    def losses(self, newer: Terms) -> tuple[set[int], set[int]]:
        """Return the fingerprints that are missing from a newer vocabulary, and those whose id changed."""
        places = np.minimum(np.searchsorted(newer.prints, self.prints), max(len(newer) - 1, 0))
        there = newer.prints[places] == self.prints if len(newer) else np.zeros(len(self), bool)
        moved = there.copy()
        moved[there] = newer.ids[places[there]] != self.ids[there]
        return set(self.prints[~there].tolist()), set(self.prints[moved].tolist())


NO_TERMS = Terms.of([], [])


def export(index: BM25Index, path: Path) -> None:
    """Write the sums and the df of each namespace, and the vocabulary: gzip of JSON lines."""
    index.refresh()
    live = index._live  # noqa: SLF001
    vocabulary, totals = live.vocabulary(), live.view.statistics.contributions()
    df: dict[int, dict[str, int]] = defaultdict(dict)
    for name, total in totals.items():
        for id_, count in zip(total.ids.tolist(), total.df.tolist(), strict=True):
            df[id_][name] = count
    terms = {vocabulary.id(term): term for term in vocabulary}
    with gzip.open(path, "wt", encoding="utf-8") as file:
        sums = {name: {"chunks": total.num_chunks, "length": total.total_length} for name, total in totals.items()}
        file.write(json.dumps({"namespaces": sums}) + "\n")
        for id_ in terms.keys() | df.keys():
            file.write(json.dumps([terms.get(id_), id_, df.get(id_, {})]) + "\n")


@dataclass(frozen=True)
class Exported:
    """One file of statistics."""

    sums: dict[str, dict[str, int]]  # namespace -> {"chunks": N, "length": sum of lengths}
    df: dict[str, Counts]  # by namespace
    terms: Terms
    nameless: int  # number of ids with a df and without a term

    @classmethod
    def read(cls, path: Path) -> Exported:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            sums = json.loads(next(lines))["namespaces"]
            df = {name: (array("Q"), array("q")) for name in sums}
            prints, ids, nameless = array("Q"), array("Q"), 0
            for term, id_, counts in map(json.loads, lines):
                for name, count in counts.items():
                    df[name][0].append(id_)
                    df[name][1].append(count)
                nameless += term is None
                if term is not None:
                    prints.append(fingerprint(term))
                    ids.append(id_)
        return cls(sums, {name: Counts.of(*both) for name, both in df.items()}, Terms.of(prints, ids), nameless)

    def counts(self, namespace: str) -> Counts:
        return self.df.get(namespace, NO_COUNTS)

    def total(self, namespace: str, what: str) -> int:
        """Return N or the length of a namespace, 0 for an unknown one."""
        return self.sums.get(namespace, {}).get(what, 0)


def named(path: Path, prints: set[int], most: int) -> list[str]:
    """Look up the terms of some fingerprints in an older file."""

    def terms() -> Iterator[str]:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            next(lines)
            yield from (row[0] for row in map(json.loads, lines) if _has(row, prints))

    return [term for term, _ in zip(terms(), range(most), strict=False)] if prints else []


def _has(row: list[Any], prints: set[int]) -> bool:
    return row[0] is not None and fingerprint(row[0]) in prints
