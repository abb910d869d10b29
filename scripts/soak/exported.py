"""What an index says of itself: the file of `export_statistics`, read by other code than the package's."""

from __future__ import annotations

import gzip
import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

Counts = dict[int, int]  # term id -> df


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
    def of(cls, pairs: Iterable[tuple[int, int]]) -> Terms:
        """Sort fingerprints with their ids."""
        found = np.array(list(pairs), np.uint64).reshape(-1, 2)
        found = found[np.argsort(found[:, 0])]
        return cls(found[:, 0], found[:, 1].astype(np.uint32))

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


NO_TERMS = Terms.of([])


@dataclass(frozen=True)
class Exported:
    """One file of statistics.

    Parameters
    ----------
    sums : dict
        Namespace -> {"chunks": N, "length": sum of the lengths}.
    df : dict
        Namespace -> the df of each term id.
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
            df: dict[str, Counts] = {name: {} for name in sums}
            pairs, nameless = [], 0
            for term, id_, counts in map(json.loads, lines):
                for name, count in counts.items():
                    df[name][id_] = count
                if term is None:
                    nameless += 1
                else:
                    pairs.append((fingerprint(term), id_))
        return cls(sums, df, Terms.of(pairs), nameless)

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
