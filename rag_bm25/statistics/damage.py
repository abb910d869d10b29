"""Damage of the statistics: lost terms, and the message about all findings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from numpy.typing import NDArray

    from rag_bm25.statistics.corpus import Contribution


REPAIR = "Run `rag-bm25 repair`, or open it with repair=True"
FIND_ROWS = "If a server is still loading them, ask again later; if they are lost, a backup has them"


def num_unnamed(totals: Iterable[Contribution], named: Collection[int] | NDArray[np.uint32]) -> int:
    """Count the terms with df > 0 whose ids the vocabulary does not have."""
    used = np.unique(np.concatenate([np.empty(0, np.uint32), *(total.ids[total.df > 0] for total in totals)]))
    return int(np.count_nonzero(~np.isin(used, np.fromiter(named, np.uint32, len(named)))))


def damage_message(name: str, clauses: Iterable[str], remedy: str = REPAIR) -> str:
    """Return the message about damage: one clause for each finding, and the remedy."""
    return f"{name} is damaged: {'; '.join(clauses)}. {remedy}"


def missing_rows(given: int, expected: int) -> str:
    """Say that fewer rows can be read than there must be."""
    return f"the engine gives {given:,} of {expected:,} chunks: is it still loading?"
