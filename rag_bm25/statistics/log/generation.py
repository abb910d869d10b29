"""The rows that end a generation of an index: the log of each one tells whether the next one is in force.

The row ``generation`` is written once, when the next generation has every chunk: from then on this one is superseded.
On a server the writers of other hosts are stopped before. A writer stores the rows of a batch, then reads the log, then
acknowledges. A reindex stores a row ``closing``, then lists the rows for the last time. So one of the two sees the
other: the list has the rows, or the writer waits, and writes the batch to the next generation, too.
"""

from __future__ import annotations

from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING

from rag_bm25.errors import StoreError
from rag_bm25.statistics.log.keys import LogKey, range_after, range_of
from rag_bm25.store.rows import LogRow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rag_bm25.store.protocol import LogStore, Store

CLOSING, SUPERSEDED = "closing", "generation"
KINDS = (CLOSING, SUPERSEDED)
SUPERSEDED_KEY = str(LogKey(SUPERSEDED, "index"))


class SupersededError(StoreError):
    """The next generation of the index is in force; nothing was written to this one, or all of it is written again."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} has been replaced by its next generation: the same call again uses that one")


def is_superseded(store: Store) -> bool:
    """Return whether the next generation is in force."""
    return store.has_log() and bool(store.log_keys([range_of(SUPERSEDED, "index")]))


def supersede(store: LogStore) -> None:
    """Put the next generation into force, which must be complete."""
    store.insert_log([LogRow(SUPERSEDED_KEY, SUPERSEDED)])


@contextmanager
def generations_from(store: Store) -> Iterator[list[Store]]:
    """Yield the stores of a generation and the later ones up to that in force, which are closed afterwards."""
    generations = [store]
    with ExitStack() as opened:
        while is_superseded(generations[-1]):
            generations.append(opened.enter_context(closing(generations[-1].successor())))
        yield generations


@contextmanager
def generation_in_force(store: Store) -> Iterator[Store]:
    """Yield the store of the generation in force, which is closed afterwards unless it is the given one."""
    with generations_from(store) as generations:
        yield generations[-1]


def close_to_writers(store: LogStore, name: str) -> str:
    """Stop all writers at their next batch; return the key of the row that does, whose name is a batch id."""
    key = str(LogKey(CLOSING, name))
    store.insert_log([LogRow(key, CLOSING)])
    return key


def open_to_writers(store: LogStore) -> None:
    """Let writers go on where a process that is dead has stopped them."""
    if keys := store.log_keys([range_after(CLOSING)]):
        store.delete_log(keys)
