"""The statistics of several indexes as those of one: terms by their strings, and sums that follow each change.

The id of a term is its hash, but where two terms have the same one; which of them had it first may differ from index to
index, and two indexes may each have one of both. So all terms are compared, once, and those alone that are new later.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from rag_bm25.statistics.corpus import MAX_CACHED_SUMS, CorpusCounts, add_up
from rag_bm25.vectors.sparse import SparseVector
from rag_bm25.vectors.terms import Vocabulary, term_ids

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from rag_bm25.statistics.corpus import Contribution, CountsReader


@dataclass(frozen=True)
class Renumbering:
    """Ids of terms in one index -> in all of them, where the two differ."""

    moved: Mapping[int, int] = field(default_factory=dict)

    def ids(self, ids: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Return the ids in all indexes, in the same order."""
        moved = self.moved
        return np.array([moved.get(id_, id_) for id_ in ids.tolist()], np.uint32) if moved else ids

    def vector(self, vector: SparseVector) -> SparseVector:
        """Return a vector with the ids in all indexes."""
        if not self.moved:
            return vector
        ids = self.ids(vector.ids)
        order = np.argsort(ids)
        return SparseVector(ids[order], vector.values[order])

    def undo(self, vector: SparseVector) -> SparseVector:
        """Return a vector with the ids in this index, without the terms whose id another term has here."""
        if not self.moved:
            return vector
        here, weights = {there: here for here, there in self.moved.items()}, vector.to_dict()
        known = {id_: weight for id_, weight in weights.items() if id_ in here or id_ not in self.moved}
        return SparseVector.from_dict({here.get(id_, id_): weight for id_, weight in known.items()})


class MergedTerms:
    """The terms of several vocabularies as one, in which an id never changes."""

    def __init__(self, number: int) -> None:
        self.vocabulary = Vocabulary()
        self.renumberings = (Renumbering(),) * number  # from each vocabulary to this one
        self._read: list[tuple[Vocabulary, int]] = [(self.vocabulary, 0)] * number  # and the number of terms read

    def read(self, vocabularies: Sequence[Vocabulary]) -> None:
        """Read the terms that are new."""
        self.renumberings = tuple(self._renumber(*each) for each in enumerate(vocabularies))

    def _renumber(self, at: int, vocabulary: Vocabulary) -> Renumbering:
        former, number = self._read[at]
        is_same = vocabulary is former  # another one after erasing, where ids may have got other terms
        known = self.renumberings[at] if is_same else Renumbering()
        terms = vocabulary.after(number if is_same else 0)
        self._read[at] = vocabulary, len(terms) + (number if is_same else 0)
        merged = self.vocabulary.stage()
        merged.look_up(terms)
        self.vocabulary.add(merged.new)
        ids = vocabulary.lookup(terms, term_ids(terms).tolist())
        moved = {id_: merged[term] for term, id_ in ids.items() if merged[term] != id_}
        return Renumbering({**known.moved, **moved}) if moved else known


class MergedSums:
    """The sums that were asked for last; where some indexes have changed, their changes alone are added."""

    def __init__(self) -> None:
        self._kept: dict[frozenset[str] | None, tuple[list[CorpusCounts], CorpusCounts]] = {}
        self._lock = threading.RLock()

    def sum(
        self, names: frozenset[str] | None, parts: list[CorpusCounts], renumberings: Sequence[Renumbering]
    ) -> CorpusCounts:
        """Return the sum of the statistics of some namespaces in each index."""
        with self._lock:
            former, total = self._kept.pop(names, ([CorpusCounts()] * len(parts), CorpusCounts()))
            changes = [
                replace(change := new.since(old), ids=renumbering.ids(change.ids))
                for new, old, renumbering in zip(parts, former, renumberings, strict=True)
                if new is not old
            ]
            total = total.plus(add_up(changes)) if changes else total
            self._kept = dict([*list(self._kept.items())[1 - MAX_CACHED_SUMS :], (names, (parts, total))])
        return total


@dataclass(frozen=True, eq=False)
class MergedCounts:
    """The statistics of several indexes at one moment of each; satisfies `CountsReader`."""

    parts: Sequence[CountsReader]
    renumberings: Sequence[Renumbering]
    sums: MergedSums

    @property
    def namespaces(self) -> list[str]:
        return sorted(set(chain.from_iterable(part.namespaces for part in self.parts)))

    @property
    def filled(self) -> list[str]:
        return sorted(set(chain.from_iterable(part.filled for part in self.parts)))

    @property
    def num_chunks(self) -> int:
        return sum(part.num_chunks for part in self.parts)

    @property
    def whole(self) -> CorpusCounts:
        return self.of()

    def of(self, namespaces: Sequence[str] | None = None) -> CorpusCounts:
        names = None if namespaces is None or self.are_all(namespaces) else frozenset(namespaces)
        asked = None if names is None else sorted(names)
        return self.sums.sum(names, [part.of(asked) for part in self.parts], self.renumberings)

    def of_one(self, namespace: str) -> CorpusCounts:
        return self.of([namespace])

    def are_all(self, namespaces: Sequence[str]) -> bool:
        return all(part.are_all(namespaces) for part in self.parts)

    def contributions(self) -> dict[str, Contribution]:
        return {name: self.of_one(name).contribution() for name in self.namespaces}
