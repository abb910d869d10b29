"""Changes between two positions of a log; a count of rows made meanwhile may include any of them."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from rag_bm25.statistics.corpus import Contribution, add_up
from rag_bm25.statistics.log.table import LogTable, RowsMovedError
from rag_bm25.statistics.log.writes import DeltaRow, IntentRow
from rag_bm25.store.rows import SLOTS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from rag_bm25.statistics.log.writes import Intent
    from rag_bm25.store.protocol import Store


class Moment(NamedTuple):
    """A position in the log."""

    epoch: str  # of the vocabulary; a repair begins another one
    num_deltas: int
    counted: frozenset[str]  # deltas in the statistics; those whose rows are deleted may be missing


@dataclass(frozen=True)
class Written:
    """The chunks that batches changed, and the statistics of these chunks before and after, by namespace."""

    before: Mapping[str, Contribution] = field(default_factory=dict)
    after: Mapping[str, Contribution] = field(default_factory=dict)
    digests: frozenset[str] = frozenset()

    @property
    def num_inserted(self) -> int:
        """Number of rows that may have come, at most."""
        return sum(counts.num_chunks for counts in self.after.values())


def read_written(store: Store, batches: Collection[str]) -> Written | None:
    """Read what batches have changed; None where a compaction has deleted one of them."""
    if not batches:
        return Written()
    table = LogTable(store)
    listing = table.list_all("delta", "intent")
    intents, deltas = listing.entries("intent"), listing.entries("delta")
    before, after = defaultdict[str, list[Contribution]](list), defaultdict[str, list[Contribution]](list)
    digests = set[str]()
    with suppress(RowsMovedError, KeyError):
        for batch in batches:
            intent = table.decode(IntentRow.decode, table.read(intents[batch], packed=True))
            before[intent.namespace].append(intent.before)
            digests.update(change.digest for change in intent.changes)
            if batch in deltas:
                delta = table.decode(DeltaRow.decode, table.read(deltas[batch], packed=True))
                after[intent.namespace].append(intent.before + delta.change)
            else:
                after[intent.namespace].append(_inserted(store, intent))
        return Written(_sums(before), _sums(after), frozenset(digests))
    return None


def _inserted(store: Store, intent: Intent) -> Contribution:
    """Count the rows that an unfinished batch has stored so far."""
    pks = [change.digest + slot for change in intent.changes for slot in SLOTS]
    rows = store.get_chunks(pks, contents=False, vectors=True)
    return Contribution.of_rows([row for row in rows if row.batch == intent.batch])


def _sums(parts: Mapping[str, list[Contribution]]) -> dict[str, Contribution]:
    return {namespace: add_up(some) for namespace, some in parts.items()}
