"""What an index tells of its statistics, kept in a file from one visit to the next."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from pathlib import Path

from rag_bm25 import BM25Index


@dataclass(frozen=True)
class Told:
    """N, lengths and df of each namespace, the id of each term, k1, and the generation."""

    sums: dict[str, tuple[int, int]] = field(default_factory=dict)  # namespace -> N, sum of lengths
    df: dict[str, dict[int, int]] = field(default_factory=dict)  # namespace -> term id -> df
    ids: dict[str, int | None] = field(default_factory=dict)
    k1: float = 0.0
    generation: int = 1

    @classmethod
    def by(cls, index: BM25Index) -> Told:
        index.refresh()
        live = index._live  # noqa: SLF001
        vocabulary, totals = live.vocabulary(), live.view.statistics.contributions()
        return cls(
            {name: (total.num_chunks, total.total_length) for name, total in totals.items()},
            {name: dict(zip(total.ids.tolist(), total.df.tolist(), strict=True)) for name, total in totals.items()},
            {term: vocabulary.id(term) for term in vocabulary},
            index.config.k1,
            index._store.generation,  # noqa: SLF001
        )

    @classmethod
    def read(cls, path: Path) -> Told:
        """Read the file of the last visit; before the first one nothing was told."""
        return pickle.loads(path.read_bytes()) if path.exists() else cls()

    def write(self, path: Path) -> None:
        path.write_bytes(pickle.dumps(self))

    def lost(self, newer: Told) -> list[str]:
        """Return the terms that a newer vocabulary has not."""
        return [term for term in self.ids if term not in newer.ids]

    def moved(self, newer: Told) -> list[str]:
        """Return the terms that have another id in a newer vocabulary."""
        return [term for term, id_ in self.ids.items() if newer.ids.get(term, id_) != id_]

    def nameless(self) -> set[int]:
        """Return the ids with a df and without a term."""
        return set[int]().union(*self.df.values()).difference(self.ids.values())
