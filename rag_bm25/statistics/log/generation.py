"""The rows that end a generation of an index: the log of each one tells whether the next one is in force.

The row ``generation`` is written once, when the next generation has every chunk: from then on this one is superseded.
On a server the writers of other hosts are stopped before. A writer stores the rows of a batch, then reads the log, then
acknowledges. A reindex stores a row ``closing``, then lists the rows for the last time. So one of the two sees the
other: the list has the rows, or the writer waits, and writes the batch to the next generation, too.
"""

from __future__ import annotations

from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, NamedTuple

from rag_bm25.errors import StoreError
from rag_bm25.statistics.log.birth import BIRTH
from rag_bm25.statistics.log.keys import LogKey, kind_of, range_after, range_of
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


class Generations(NamedTuple):
    """The stores of all generations of an index, each oldest first: all that there is of it."""

    former: list[Store]
    in_force: Store
    begun: list[Store]  # by a reindex that is under way, or was cut short

    def all(self) -> list[Store]:
        return [*self.former, self.in_force, *self.begun]

    def count_others(self) -> dict[int, int]:
        """Return the number of rows of each generation but that in force that may still have texts or words."""
        others = [one for one in self.former if contents_of_log(one) or count_rows(one)] + self.begun
        return {one.generation: count_rows(one) for one in others}


@contextmanager
def all_generations(store: Store) -> Iterator[Generations]:
    """Yield all generations of an index, given the store of any of them; the others are closed afterwards."""
    with ExitStack() as opened:
        found = [store if store.generation == 1 else opened.enter_context(closing(store.first()))]
        while is_superseded(found[-1]):
            found.append(opened.enter_context(closing(found[-1].successor())))
        *former, in_force = found
        begun: list[Store] = []
        while (later := opened.enter_context(closing((begun or found)[-1].successor()))).has_collections():
            begun.append(later)
        yield Generations(former, in_force, begun)


@contextmanager
def generation_in_force(store: Store) -> Iterator[Store]:
    """Yield the store of the generation in force, which is closed afterwards unless it is the given one."""
    with ExitStack() as opened:
        while is_superseded(store):
            store = opened.enter_context(closing(store.successor()))
        yield store


def other_generations(store: Store) -> dict[int, int]:
    """Return the number of rows of each generation but that in force, as far as they have any contents."""
    with all_generations(store) as generations:
        return generations.count_others()


def require_no_others(store: Store) -> None:
    """Refuse to say that something is erased which another generation may still have."""
    if others := other_generations(store):
        rows = ", ".join(f"generation {number} ({rows:,} rows)" for number, rows in others.items())
        raise StoreError(
            f"{store.name} has {rows} beside the one in force, with texts and words that were deleted since: run "
            "`rag-bm25 reindex --drop-old` first, or drop_former_generations"
        )


def count_rows(store: Store) -> int:
    """Return the number of rows of chunks, 0 where they were dropped."""
    return store.count_unloaded() if store.has_chunks() else 0


def contents_of_log(former: Store) -> list[str]:
    """Return the keys of a former generation's log, but for those that lead from it to the next one."""
    return [key for key in former.log_keys() if kind_of(key) not in {BIRTH, SUPERSEDED}]


def close_to_writers(store: LogStore, name: str) -> str:
    """Stop all writers at their next batch; return the key of the row that does, whose name is a batch id."""
    key = str(LogKey(CLOSING, name))
    store.insert_log([LogRow(key, CLOSING)])
    return key


def open_to_writers(store: LogStore) -> None:
    """Let writers go on where a process that is dead has stopped them."""
    if keys := store.log_keys([range_after(CLOSING)]):
        store.delete_log(keys)
