"""Marks: the places of terms in a text, those that overlap as one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Places: TypeAlias = NDArray[np.intp]
"""Start, end and number of the term of each place, of shape (n_places, 3)."""

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


def merge(starts: NDArray[np.intp], ends: NDArray[np.intp], terms: NDArray[np.int64]) -> Marks:
    """Merge places, or marks, that overlap."""
    order = starts.argsort(kind="stable")
    starts, ends, terms = starts[order], np.maximum.accumulate(ends[order]), terms[order]
    first = np.concatenate([[0], np.flatnonzero(starts[1:] >= ends[:-1]) + 1])
    last = np.concatenate([first[1:], [len(starts)]]) - 1
    return Marks(starts[first].tolist(), ends[last].tolist(), np.bitwise_or.reduceat(terms, first).tolist())


def split_marks(marks: Marks, starts: Sequence[int]) -> list[Marks]:
    """Return the marks in each text by those in all texts, one after the other, and where each of these starts."""
    borders = np.searchsorted(marks.starts, starts).tolist()
    found = []
    for start, first, last in zip(starts, borders, [*borders[1:], len(marks.starts)], strict=True):
        found.append(
            Marks(
                [at - start for at in marks.starts[first:last]],
                [at - start for at in marks.ends[first:last]],
                marks.terms[first:last],
            )
        )
    return found
