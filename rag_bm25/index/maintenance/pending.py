"""Fill an empty store with an index made elsewhere; until it is complete, opening it is refused.

A mark is the first row of the log and the last one to be deleted. Between the two come rows, in any order and more than
once where a load is resumed, then statistics, vocabulary and config.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rag_bm25.errors import ConfigMismatchError, InputError
from rag_bm25.index.stored_config import dense_field_of
from rag_bm25.statistics.log.log import StatisticsLog
from rag_bm25.statistics.log.repair import overwrite
from rag_bm25.statistics.log.settings import begin_copy, end_copy, unfinished_copy, write_config

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rag_bm25.statistics.corpus import Contribution
    from rag_bm25.statistics.view import StatisticsView
    from rag_bm25.store.protocol import Store
    from rag_bm25.vectors.terms import Vocabulary


def json_digest(value: Any) -> str:
    """Return the SHA-256 digest of a JSON value, independent of the order of keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class PendingIndex:
    """An index that is being written to a store."""

    source: str  # named in messages
    config: dict[str, Any]  # as stored
    fingerprint: str  # differs for another index in the same place

    def is_begun_in(self, target: Store) -> bool:
        """Return whether a store holds an unfinished copy of this index."""
        if not target.exists():
            return False
        begun = unfinished_copy(target)
        if begun is None:
            _require_empty(target)
            return False
        if begun.fingerprint != self.fingerprint:
            raise ConfigMismatchError(
                f"{target.name} is an unfinished copy of {begun.source}, which differs from {self.source} in its "
                "parameters or contents. Drop it first or choose another name."
            )
        return True

    def begin_in(self, target: Store) -> bool:
        """Create the collections and mark them as unfinished; return whether an earlier call did."""
        if self.is_begun_in(target):
            return True
        target.create(dense_field_of(self.config))
        _require_empty(target)
        begin_copy(target, self.source, self.fingerprint)
        return False

    def finish_in(
        self,
        target: Store,
        totals: Mapping[str, Contribution],
        vocabulary: Vocabulary,
        *,
        models: StatisticsView | None = None,
        later_than: str = "",
        nameless: int = 0,
    ) -> None:
        """Store statistics, vocabulary, models and config, then delete the mark."""
        overwrite(target, totals, vocabulary, later_than=later_than, nameless=nameless)
        if models is not None:
            StatisticsLog(target).write_models(models)
        write_config(target, self.config)
        end_copy(target)


def _require_empty(target: Store) -> None:
    """Refuse a store that has rows."""
    if target.log_keys() or target.count_chunks():
        raise InputError(f"{target.name} already exists. Drop it first or choose another name.")
