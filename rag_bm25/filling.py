"""Fill an empty store with an index that comes from elsewhere: nobody can open it until all of it is there.

The first row of the log is a mark, and the last thing that happens is that it goes away; in between come rows, in any
order and as often as need be, then statistics, vocabulary and parameters.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rag_bm25.config import dense_field_of
from rag_bm25.errors import ConfigMismatchError, InputError
from rag_bm25.sparse import EMPTY
from rag_bm25.statistics_log import StatisticsLog

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rag_bm25.sparse import SparseVector
    from rag_bm25.statistics import Contribution
    from rag_bm25.store import Store
    from rag_bm25.terms import Vocabulary

__all__ = ["Filling", "digest_of"]


def digest_of(value: Any) -> str:
    """Return what tells JSON values from others.

    Parameters
    ----------
    value : object
        JSON values only.

    Returns
    -------
    str
        64 hex digits; the order of keys does not matter.

    Examples
    --------
    >>> digest_of({"a": 1, "b": 2}) == digest_of({"b": 2, "a": 1})
    True
    """
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Filling:
    """An index on its way into a store.

    Parameters
    ----------
    source : str
        Where it comes from, for messages.
    config : dict
        Its parameters, as they are stored.
    fingerprint : str
        What tells it from others that may be on their way into the same store.
    """

    source: str
    config: dict[str, Any]
    fingerprint: str

    def is_begun_in(self, target: Store) -> bool:
        """Tell whether a store has the beginning of this index.

        Parameters
        ----------
        target : Store
            Any store.

        Returns
        -------
        bool
            False where the store is empty, or not there yet.

        Raises
        ------
        InputError
            There is something else in it.
        ConfigMismatchError
            There is the beginning of another index.
        """
        if not target.exists():
            return False
        begun = StatisticsLog(target).unfinished_copy()
        if begun is None:
            _require_empty(target)
            return False
        if begun[1] != self.fingerprint:
            msg = (
                f"{target.name} is an unfinished copy of {begun[0]}, which has other parameters or contents than "
                f"{self.source}; drop it first, or use another name"
            )
            raise ConfigMismatchError(msg)
        return True

    def begin_in(self, target: Store) -> bool:
        """Make the collections, and mark them before the first row is there; nothing, where that was done before.

        Parameters
        ----------
        target : Store
            Empty, or not there yet, or with the beginning of this index.

        Returns
        -------
        bool
            Whether it has the beginning of this index already.

        Raises
        ------
        InputError, ConfigMismatchError
            As for :meth:`is_begun_in`.
        """
        if self.is_begun_in(target):
            return True
        target.create(dense_field_of(self.config))
        _require_empty(target)
        StatisticsLog(target).begin_copy(self.source, self.fingerprint)
        return False

    def finish_in(
        self,
        target: Store,
        totals: Mapping[str, Contribution],
        vocabulary: Vocabulary,
        *,
        term_k1: SparseVector = EMPTY,
        later_than: str = "",
        nameless: int = 0,
    ) -> None:
        """Store statistics, vocabulary and parameters; from the last call on, it is an index.

        Parameters
        ----------
        target : Store
            With all rows.
        totals : mapping of str to Contribution
            Namespace -> its statistics.
        vocabulary : Vocabulary
            All terms.
        term_k1 : SparseVector
            Term id -> k1, where there is a table of that.
        later_than : str
            A batch id than which all later ones are to be greater: the greatest one of the rows.
        nameless : int
            How many terms no text explains, as a repair found where it comes from.
        """
        log = StatisticsLog(target)
        log.replace(totals, vocabulary, later_than=later_than, nameless=nameless)
        if len(term_k1):
            log.write_term_k1(term_k1)
        log.write_config(self.config)
        log.end_copy()


def _require_empty(target: Store) -> None:
    """Refuse a store with rows that are nobody's copy."""
    if target.log_keys() or target.count_chunks():
        msg = f"{target.name} is there already; drop it first, or use another name"
        raise InputError(msg)
