"""Counts of terms by id, each with its channel, and a growing table of them.

The sum of some counts of an id has the channel that one of them has, where the others have none, which reads as that of
words. So it suffices that additions have it: what has a count above 0 was added.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

from rag_bm25.vectors.sparse import group_starts
from rag_bm25.vectors.terms import CHANNEL_BITS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

_Id = TypeVar("_Id", np.uint32, np.int64)

NO_IDS = np.empty(0, np.uint32)
NO_COUNTS = np.empty(0, np.int64)
NO_CHANNELS = np.empty(0, np.uint8)
LARGE = 2**21  # ids of a level, which a processor's cache does not hold
MANY = 1000  # ids to find in it
BLOCK = 64  # ids, a power of 2
_CHANNEL = (1 << CHANNEL_BITS) - 1  # mask of the bits of a channel
END = np.uint32(0xFFFFFFFF)  # above every id, so that a search in a level always ends at a place that it has


class Channels(Protocol):
    """Terms of which each has a channel."""

    def channels(self, ids: NDArray[np.uint32]) -> NDArray[np.uint8]:
        """Return the channel of each id."""
        ...


@dataclass(frozen=True, eq=False)
class Counts:
    """Counts by id."""

    ids: NDArray[np.uint32]
    df: NDArray[np.int64]
    channels: NDArray[np.uint8] | None = None  # of each id; None where they are not known

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, span: slice) -> Counts:
        return Counts(self.ids[span], self.df[span], None if self.channels is None else self.channels[span])

    @classmethod
    def joined(cls, pieces: Iterable[Counts]) -> Counts:
        """Concatenate pieces; a single one is not copied."""
        pieces = [piece for piece in pieces if len(piece)]
        if len(pieces) == 1:
            return pieces[0]
        channels = [piece.channels for piece in pieces if piece.channels is not None]
        return cls(
            np.concatenate([NO_IDS, *(piece.ids for piece in pieces)]),
            np.concatenate([NO_COUNTS, *(piece.df for piece in pieces)]),
            np.concatenate([NO_CHANNELS, *channels]) if len(channels) == len(pieces) else None,
        )

    def summed(self) -> Counts:
        """Sum the counts of equal ids, in any order; return the ids that have some, rising."""
        order, ids, starts = _group(self.ids)
        if not len(starts):
            return self
        df = np.add.reduceat(self.df[order], starts)
        channels = None if self.channels is None else np.bitwise_or.reduceat(self.channels[order], starts)
        kept = df != 0
        return Counts(ids[starts][kept], df[kept], None if channels is None else channels[kept])


def sum_counts(ids: NDArray[_Id], counts: NDArray[np.int64]) -> tuple[NDArray[_Id], NDArray[np.int64]]:
    """Sum the counts of equal ids, in any order; return the ids that have some, rising, and their counts."""
    order, ids, starts = _group(ids)
    sums = np.add.reduceat(counts[order], starts) if len(starts) else NO_COUNTS
    kept = sums != 0
    return ids[starts][kept], sums[kept]


def _group(ids: NDArray[_Id]) -> tuple[NDArray[np.intp], NDArray[_Id], NDArray[np.intp]]:
    """Return the order that sorts ids, the sorted ones, and the start of each group of equal ones."""
    order = np.argsort(ids, kind="stable")  # merges sorted runs, instead of sorting
    ids = ids[order]
    return order, ids, group_starts(ids)


def _with_channels(df: NDArray[np.int64], channels: NDArray[np.uint8] | None) -> NDArray[np.int64]:
    """Write each count and its channel as one number."""
    return df << CHANNEL_BITS if channels is None else df << CHANNEL_BITS | channels


def _without_channels(marked: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Undo :func:`_with_channels`."""
    return marked >> CHANNEL_BITS, (marked & _CHANNEL).astype(np.uint8)


def _sum_marked(some: NDArray[np.int64], others: NDArray[np.int64]) -> NDArray[np.int64]:
    """Add counts with their channels, which do not add up: of each bit, one is in the sum."""
    return some + others - (some & others & _CHANNEL)


@dataclass(frozen=True, eq=False)
class _Level:
    """Counts with their channels by rising id, and one of 0 at the end."""

    ids: NDArray[np.uint32]
    marked: NDArray[np.int64]

    @classmethod
    def of(cls, ids: NDArray[np.uint32], marked: NDArray[np.int64]) -> _Level:
        kept = marked >> CHANNEL_BITS != 0
        return cls(np.append(ids[kept], END), np.append(marked[kept], np.int64(0)))

    def get(self, ids: NDArray[np.uint32]) -> NDArray[np.int64]:
        at = self._places(ids)
        marked: NDArray[np.int64] = self.marked[at] * (self.ids[at] == ids)
        return marked

    def _places(self, ids: NDArray[np.uint32]) -> NDArray[np.intp]:
        """Return the place of each id, or else of the next higher one."""
        if len(self.ids) < LARGE or len(ids) < MANY:
            return np.searchsorted(self.ids, ids)
        # Each step of a search through all of it would wait for the memory; a block is read at once.
        at = np.searchsorted(self._ends_of_blocks, ids) * BLOCK
        step = BLOCK // 2
        while step:
            at += step * (self.ids.take(at + (step - 1), mode="clip") < ids)
            step //= 2
        return at

    @cached_property
    def _ends_of_blocks(self) -> NDArray[np.uint32]:
        return self.ids[BLOCK - 1 :: BLOCK].copy()

    @property
    def counts(self) -> Counts:
        """The counts, without the one at the end."""
        return Counts(self.ids[:-1], *_without_channels(self.marked[:-1]))

    def merged_with(self, smaller: _Level) -> _Level:
        """Return the sum of two levels; sorting both together would take three times the memory."""
        added, changes = smaller.ids[:-1], smaller.marked[:-1]
        at = self._places(added)
        known = self.ids[at] == added
        marked = self.marked.copy()
        marked[at[known]] = _sum_marked(marked[at[known]], changes[known])
        ids = np.insert(self.ids, at[~known], added[~known])
        marked = np.insert(marked, at[~known], changes[~known])
        if (marked[:-1] >> CHANNEL_BITS).all():
            return _Level(ids, marked)
        return _Level.of(ids[:-1], marked[:-1])


class CountTable:
    """Counts by id with their channels, at 12 bytes an id: levels of sorted arrays, whose sum counts."""

    # A change becomes a small level of its own, and is merged into the one below as it grows: each count is copied a
    # logarithmic number of times, whatever the size of the table. No level is ever changed, so that copies share them.

    FACTOR = 8  # by which each level is larger than the next, at least

    def __init__(self) -> None:
        self._levels: tuple[_Level, ...] = ()

    def copy(self) -> CountTable:
        """Return a table with the same counts, which changes of this one do not reach."""
        table = CountTable()
        table._levels = self._levels
        return table

    def get(self, ids: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Return the counts of `ids`, 0 where an id is unknown."""
        return self._get(ids) >> CHANNEL_BITS

    def get_marked(self, ids: NDArray[np.uint32]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """Return the counts of `ids`, and the channel of each."""
        return _without_channels(self._get(ids))

    def _get(self, ids: NDArray[np.uint32]) -> NDArray[np.int64]:
        levels = self._levels
        if not levels:
            return np.zeros(len(ids), np.int64)
        marked = levels[0].get(ids)
        for level in levels[1:]:
            marked = _sum_marked(marked, level.get(ids))
        return marked

    def add(self, changes: Counts) -> None:
        """Add changes of counts, whose ids rise strictly; those of unknown channels are words."""
        *levels, last = *self._levels, _Level.of(changes.ids, _with_channels(changes.df, changes.channels))
        while levels and len(levels[-1].ids) < self.FACTOR * len(last.ids):
            last = levels.pop().merged_with(last)
        self._levels = (*levels, last)

    def nonzero(self) -> Counts:
        """Return all counts other than 0, by rising id."""
        if not self._levels:
            return Counts(NO_IDS, NO_COUNTS, NO_CHANNELS)
        first, *others = self._levels
        for level in others:
            first = first.merged_with(level)
        self._levels = (first,)
        return first.counts

    def since(self, former: CountTable) -> Counts:
        """Return the changes since another table; levels that both have are not looked at, so that few cost little."""
        new, old = (
            [level.counts for level in some._levels if level not in others._levels]  # noqa: SLF001 - one of its kind
            for some, others in ((self, former), (former, self))
        )
        return Counts.joined([*new, *(Counts(counts.ids, -counts.df, counts.channels) for counts in old)]).summed()
