"""Marks: the places of terms in a text, those that overlap as one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Places: TypeAlias = NDArray[np.intp]
"""Start, end and number of the term of each place, of shape (n_places, 3)."""

_ZERO = np.zeros(1, np.intp)
INT64_END = 2**63  # sets of terms below it are numbers of the processor; Python's own have any number of bits


class Marks(NamedTuple):
    """The start of each mark, its end, and the set of the terms in it: term n has the bit ``1 << n``."""

    starts: list[int]
    ends: list[int]
    terms: list[int]


NO_MARKS = Marks([], [], [])


def as_places(places: Iterable[tuple[int, int, int]]) -> Places:
    return np.array(list(places), np.intp).reshape(-1, 3)


def as_sets(sets: Sequence[int]) -> NDArray[np.int64]:
    """Return sets of terms as an array; numpy alone would take some of them for floats."""
    return np.array(sets, np.int64 if max(sets, default=0) < INT64_END else object)


class MarkArrays(NamedTuple):
    """The same as arrays."""

    starts: NDArray[np.intp]
    ends: NDArray[np.intp]
    terms: NDArray[np.int64]


def merge(starts: NDArray[np.intp], ends: NDArray[np.intp], terms: NDArray[np.int64]) -> MarkArrays:
    """Merge places, or marks, that overlap."""
    order = starts.argsort(kind="stable")
    starts, ends, terms = starts[order], np.maximum.accumulate(ends[order]), terms[order]
    first = np.concatenate([_ZERO, np.flatnonzero(starts[1:] >= ends[:-1]) + 1])
    return MarkArrays(starts[first], np.maximum.reduceat(ends, first), np.bitwise_or.reduceat(terms, first))


def as_marks(marks: MarkArrays) -> Marks:
    return Marks(*[values.tolist() for values in marks])


def split_marks(marks: MarkArrays, starts: Sequence[int]) -> list[Marks]:
    """Return the marks in each text by those in all texts, one after the other, and where each of these starts."""
    borders = marks.starts.searchsorted(starts)
    counts = np.diff(borders, append=len(marks.starts))
    before = np.repeat(starts, counts)
    in_texts = as_marks(MarkArrays(marks.starts - before, marks.ends - before, marks.terms))
    return [
        Marks(*[values[first : first + count] for values in in_texts])
        for first, count in zip(borders.tolist(), counts.tolist(), strict=True)
    ]
