"""Which chunks have changed, as the intents in a log tell until a compaction deletes them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from rag_bm25.statistics.log.table import Listing, LogTable, RowsMovedError
from rag_bm25.statistics.log.writes import IntentRow

if TYPE_CHECKING:
    from rag_bm25.store.protocol import LogStore


def list_batches(store: LogStore) -> Listing:
    """List what :func:`changed_since` compares."""
    return LogTable(store).list_all("delta", "head", "intent")


def changed_since(store: LogStore, before: Listing, after: Listing) -> set[str] | None:
    """Return the keys, without slots, of chunks that may have changed; None where a compaction came in between.

    They are those of the batches that had not ended before: they may have stored rows since.
    """
    if before.entries("head").keys() != after.entries("head").keys():
        return None
    table, begun, ended = LogTable(store), after.entries("intent"), before.entries("delta")
    with suppress(RowsMovedError):
        intents = [
            table.decode(IntentRow.decode, table.read(keys, packed=True))
            for batch, keys in begun.items()
            if batch not in ended
        ]
        return {change.digest for intent in intents for change in intent.changes}
    return None
