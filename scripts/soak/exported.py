"""What an index says of itself: the file of `export_statistics`, read by other code than the package's."""

from __future__ import annotations

import gzip
import hashlib
import json
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray


@dataclass(frozen=True)
class Counts:
    """The df of each term id, in 12 bytes a term.

    Parameters
    ----------
    ids : ndarray of uint32
        Sorted.
    df : ndarray of int64
        The df of each.
    """

    ids: NDArray[np.uint32]
    df: NDArray[np.int64]

    @classmethod
    def of(cls, ids: Iterable[int], df: Iterable[int]) -> Counts:
        """Sort ids with their df."""
        keys, counts = np.fromiter(ids, np.uint32), np.fromiter(df, np.int64)
        order = np.argsort(keys)
        return cls(keys[order], counts[order])

    def get(self, ids: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Return the df of some ids, 0 where there is none."""
        if not len(self.ids):
            return np.zeros(len(ids), np.int64)
        places = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        return np.where(self.ids[places] == ids, self.df[places], 0)

    def differing(self, other: Counts) -> NDArray[np.uint32]:
        """Return the ids whose df is another one there."""
        every = np.union1d(self.ids, other.ids)
        differing: NDArray[np.uint32] = every[self.get(every) != other.get(every)]
        return differing


NO_COUNTS = Counts.of([], [])


def fingerprint(term: str) -> int:
    """Return 64 bits of a term, the same in every process."""
    return int.from_bytes(hashlib.blake2b(term.encode(), digest_size=8).digest(), "big")


@dataclass(frozen=True)
class Terms:
    """A vocabulary, in 12 bytes a term.

    Parameters
    ----------
    prints : ndarray of uint64
        Fingerprints of the terms, sorted.
    ids : ndarray of uint32
        The id of each.
    """

    prints: NDArray[np.uint64]
    ids: NDArray[np.uint32]

    @classmethod
    def of(cls, prints: Iterable[int], ids: Iterable[int]) -> Terms:
        """Sort fingerprints with their ids."""
        keys, found = np.fromiter(prints, np.uint64), np.fromiter(ids, np.uint32)
        order = np.argsort(keys)
        return cls(keys[order], found[order])

    def __len__(self) -> int:
        """Return the number of terms."""
        return len(self.prints)

    def id(self, term: str) -> int | None:
        """Return the id of a term, None where it is not there."""
        wanted = np.uint64(fingerprint(term))
        place = int(np.searchsorted(self.prints, wanted))
        return int(self.ids[place]) if place < len(self) and self.prints[place] == wanted else None

    def losses(self, newer: Terms) -> tuple[set[int], set[int]]:
        """Return the fingerprints that a newer vocabulary lacks, and those that have another id there."""
        places = np.minimum(np.searchsorted(newer.prints, self.prints), max(len(newer) - 1, 0))
        there = newer.prints[places] == self.prints if len(newer) else np.zeros(len(self), bool)
        moved = there.copy()
        moved[there] = newer.ids[places[there]] != self.ids[there]
        return set(self.prints[~there].tolist()), set(self.prints[moved].tolist())


NO_TERMS = Terms.of([], [])


@dataclass(frozen=True)
class Exported:
    """One file of statistics.

    Parameters
    ----------
    sums : dict
        Namespace -> {"chunks": N, "length": sum of the lengths}.
    df : dict
        Namespace -> the df of its terms.
    terms : Terms
        All terms.
    nameless : int
        How many ids have a df and no term.
    """

    sums: dict[str, dict[str, int]]
    df: dict[str, Counts]
    terms: Terms
    nameless: int

    @classmethod
    def read(cls, path: Path) -> Exported:
        """Read a file."""
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
        """Return the df of a namespace, none where it is not there."""
        return self.df.get(namespace, NO_COUNTS)

    def total(self, namespace: str, what: str) -> int:
        """Return N or the length of a namespace, 0 where it is not there."""
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
