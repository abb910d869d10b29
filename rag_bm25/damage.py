"""Find out whether statistics have lost something, and say so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rag_bm25.statistics import Contribution
    from rag_bm25.terms import Vocabulary

__all__ = ["damage_message", "num_unnamed"]


def num_unnamed(totals: Iterable[Contribution], vocabulary: Vocabulary) -> int:
    """Count the terms with df > 0 that the vocabulary does not have.

    Parameters
    ----------
    totals : iterable of Contribution
        Statistics of each namespace.
    vocabulary : Vocabulary
        All known terms.

    Returns
    -------
    int
        0 where every term has a name.
    """
    used = np.unique(np.concatenate([np.empty(0, np.uint32), *(total.ids for total in totals)]))
    named = np.fromiter(vocabulary.ids, np.uint32, len(vocabulary))
    return int(np.count_nonzero(~np.isin(used, named)))


def damage_message(name: str, clauses: Iterable[str]) -> str:
    """Say what is wrong with an index, and what to do.

    Parameters
    ----------
    name : str
        That of its store.
    clauses : iterable of str
        Each thing that is wrong.

    Returns
    -------
    str
        For a log or an error.
    """
    return f"{name} is damaged: {'; '.join(clauses)}. Run `rag-bm25 repair`, or open it with repair=True"
