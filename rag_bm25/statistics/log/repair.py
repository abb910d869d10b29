"""Read the remains of a damaged log, and overwrite it with sound statistics."""

from __future__ import annotations

import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from rag_bm25.errors import FormatError, StoreError
from rag_bm25.statistics.log.batches import BatchClock, time_of
from rag_bm25.statistics.log.birth import births_in, is_stray
from rag_bm25.statistics.log.generation import KINDS, SUPERSEDED_KEY, SupersededError
from rag_bm25.statistics.log.head import NEVER_A_BASE, Head, HeadRow
from rag_bm25.statistics.log.keys import SETTINGS, LogKey, complete_entries, keys_of, kind_of, parse_sound_keys
from rag_bm25.statistics.log.life_signs import LEASE_SECONDS, is_of_the_future, last_time
from rag_bm25.statistics.log.log import CLAIM_SECONDS, StatisticsLog
from rag_bm25.statistics.log.models import MODELS
from rag_bm25.statistics.log.open_write import OpenBatches
from rag_bm25.statistics.log.runs import HeldSums, PartTotal, write_run
from rag_bm25.statistics.log.settings import ensure_birth
from rag_bm25.statistics.log.table import Listing, LogTable, RowsMovedError
from rag_bm25.statistics.log.terms import TermsRow
from rag_bm25.statistics.log.writes import IntentRow, LeaseRow
from rag_bm25.vectors.terms import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rag_bm25.events import Events
    from rag_bm25.statistics.corpus import Contribution
    from rag_bm25.statistics.log.writes import Intent
    from rag_bm25.store.protocol import LogStore


CLAIMS = ("compaction", "reindex")


class Remains(NamedTuple):
    """What a log has that can be read."""

    keys: Sequence[str]  # of all rows
    intents: Sequence[Intent]  # unfinished writes
    vocabulary: Vocabulary
    num_known: int  # terms in complete entries, so that they were not lost


def salvage(store: LogStore) -> Remains:
    """Read what can be read of a log that may be damaged."""
    table = LogTable(store)
    vocabulary, known = Vocabulary(), Vocabulary()
    stored = store.log_keys()
    births = births_in(stored)
    sound = Listing([str(key) for key in parse_sound_keys(stored) if not is_stray(str(key), births)])
    whole = {key for parts in sound.entries("terms").values() for key in parts}
    for row in sorted(store.get_log(keys_of(sound.keys, "terms")), key=lambda row: row.key):
        with suppress(FormatError):
            terms = table.decode(TermsRow.decode, row)
            vocabulary.add(terms)
            known.add(terms if row.key in whole else {})
    return Remains(stored, _unfinished(table, sound), vocabulary, len(known))


def _unfinished(table: LogTable, sound: Listing) -> list[Intent]:
    """Read the intents that no delta has ended, each with the time since its writer's last sign."""
    unfinished = OpenBatches()
    unfinished.read(sound)
    signs, intents = defaultdict[str, list[float]](list), []
    leases = [key for key in keys_of(sound.keys, "lease") if LogKey.parse(key).name in unfinished]
    for row in table.store.get_log(leases) if leases else []:
        with suppress(FormatError):
            signs[LogKey.parse(row.key).name].append(table.decode(LeaseRow.decode, row).time)
    for batch, keys in sound.entries("intent").items():
        if batch in unfinished:
            with suppress(FormatError):
                intent = table.decode(IntentRow.decode, table.read(keys, packed=True))
                silence = time.time() - last_time([intent.time, *signs[batch]])
                intents.append(replace(intent, silence=silence))
    return intents


def count_logged(store: LogStore, events: Events) -> int:
    """Return N as the log has it; 0 where it cannot be read, or lacks changes."""
    log = StatisticsLog(store, events)
    with suppress(FormatError, RowsMovedError):
        log.refresh()
        return 0 if log.num_missing else log.statistics.num_chunks
    return 0


def refuse_other_writers(store: LogStore, remains: Remains, writer: str) -> None:
    """Refuse to go on while others than the given writer may be at work; on an embedded engine all others are dead."""
    if SUPERSEDED_KEY in remains.keys:
        raise SupersededError(store.name)
    if store.exclusive:
        return
    for intent in remains.intents:
        if intent.writer != writer and intent.silence <= LEASE_SECONDS:
            if is_of_the_future(intent.time):
                StatisticsLog(store).note_sign(intent)
            raise StoreError(_at_work(store, f"batch {intent.batch}"))
    for key in parse_sound_keys(keys_of(remains.keys, *CLAIMS)):
        if time.time() - max(time_of(key.name), key.part * 60.0) <= CLAIM_SECONDS:
            raise StoreError(_at_work(store, key.kind))


def _at_work(store: LogStore, what: str) -> str:
    return (
        f"another process writes to {store.name} ({what}), or was killed less than {LEASE_SECONDS / 60:.0f} minutes "
        "ago: stop all other writers, then repair it"
    )


def require_unwritten(store: LogStore, remains: Remains) -> None:
    """Refuse to go on where others have written since: a recount may have seen a part of it."""
    watched = keys_of(store.log_keys(), "delta", "head", "intent", "lease", *CLAIMS, *KINDS)
    new = sorted(set(watched) - set(remains.keys))
    if SUPERSEDED_KEY in new:
        raise SupersededError(store.name)
    if new:
        raise StoreError(_at_work(store, new[0]))


def overwrite(
    store: LogStore,
    totals: Mapping[str, Contribution],
    vocabulary: Vocabulary,
    *,
    keys: Sequence[str] | None = None,
    check: Callable[[], None] = lambda: None,
    later_than: str = "",
    nameless: int = 0,
    erase: bool = False,
) -> None:
    """Replace the statistics in a log, given those of each namespace; logs that were read before are stale then.

    The settings stay, sound models, and sound defaults of queries, but for the k1 of terms where terms are erased. What
    is replaced has one of `keys`, by default all rows. `check` is called last, and may raise. All later batches are
    greater than `later_than`, for rows that came from elsewhere. `nameless` terms in use are in no text, so that the
    vocabulary lacks them.
    """
    # Until the new head is stored, the old rows count, and afterwards its run alone does: a crash in between loses
    # nothing, and another call does the rest.
    table, clock = LogTable(store), BatchClock(ensure_birth(store))
    kept = SETTINGS | {kind for kind in MODELS if _is_sound(table, kind)} - ({"k1"} if erase else set())
    old = [key for key in (store.log_keys() if keys is None else keys) if kind_of(key) not in kept]
    sound = parse_sound_keys(old)
    counted = tuple(sorted({key.name for key in sound if key.kind in {"delta", "intent"}}))
    clock.observe(max((later_than, *(key.batch for key in sound))))
    name = clock.new_batch()
    table.insert(TermsRow.encode(name, vocabulary.to_dict()))
    run = write_run(table, name, 0, [HeldSums.of({part: total.marked(vocabulary) for part, total in totals.items()})])
    whole = next(iter(run.totals.values()), PartTotal())
    head = Head(
        name=name,
        base=NEVER_A_BASE,
        runs=(run.info,),
        covers=counted,
        num_deltas=len(counted),
        nameless=nameless,
        num_terms=max(len(vocabulary), whole.num_counts - nameless),  # those without a name are missing
        epoch=name,
    )
    check()
    table.insert(HeadRow.encode(head))
    table.delete(old)


def _is_sound(table: LogTable, kind: str) -> bool:
    """Return whether all models of a kind can be read."""
    with suppress(FormatError):
        for rows in complete_entries(table.store.log_keys(), kind).values():
            table.decode(MODELS[kind].decode, table.read(rows, packed=True))
        return True
    return False
