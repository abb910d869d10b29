"""Damage of the statistics: lost terms, and the message about all findings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rag_bm25.statistics.corpus import Contribution
    from rag_bm25.vectors.terms import Vocabulary


def num_unnamed(totals: Iterable[Contribution], vocabulary: Vocabulary) -> int:
    """Count the terms with df > 0 that the vocabulary does not have."""
    used = np.unique(np.concatenate([np.empty(0, np.uint32), *(total.ids[total.df > 0] for total in totals)]))
    named = np.fromiter(vocabulary.ids, np.uint32, len(vocabulary))
    return int(np.count_nonzero(~np.isin(used, named)))


def damage_message(name: str, clauses: Iterable[str]) -> str:
    """Return the message about damage: one clause for each finding, and the remedy."""
    return f"{name} is damaged: {'; '.join(clauses)}. Run `rag-bm25 repair`, or open it with repair=True"
