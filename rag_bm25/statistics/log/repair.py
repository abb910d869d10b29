"""Read the remains of a damaged log, and overwrite it with sound statistics."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rag_bm25.errors import FormatError
from rag_bm25.statistics.log.answers import AnswersRow
from rag_bm25.statistics.log.batches import BatchClock
from rag_bm25.statistics.log.head import NEVER_A_BASE, Head, HeadRow
from rag_bm25.statistics.log.keys import SETTINGS, complete_entries, keys_of, kind_of, parse_sound_keys
from rag_bm25.statistics.log.open_write import OpenBatches
from rag_bm25.statistics.log.query_defaults import KIND as DEFAULTS
from rag_bm25.statistics.log.query_defaults import QueryDefaultsRow
from rag_bm25.statistics.log.runs import HeldSums, PartTotal, write_run
from rag_bm25.statistics.log.table import Listing, LogTable
from rag_bm25.statistics.log.terms import TermsRow
from rag_bm25.statistics.log.writes import IntentRow
from rag_bm25.vectors.terms import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rag_bm25.statistics.corpus import Contribution
    from rag_bm25.statistics.log.writes import Intent
    from rag_bm25.store.protocol import LogStore


_NEWEST = {"answers": AnswersRow.decode, DEFAULTS: QueryDefaultsRow.decode}


def salvage(store: LogStore) -> tuple[list[Intent], Vocabulary, int]:
    """Return unfinished writes, the terms of all sound rows, and how many are in complete entries, so were not lost."""
    table = LogTable(store)
    vocabulary, known = Vocabulary(), Vocabulary()
    sound = Listing([str(key) for key in parse_sound_keys(store.log_keys())])
    whole = {key for parts in sound.entries("terms").values() for key in parts}
    for row in sorted(store.get_log(keys_of(sound.keys, "terms")), key=lambda row: row.key):
        with suppress(FormatError):
            terms = table.decode(TermsRow.decode, row)
            vocabulary.add(terms)
            known.add(terms if row.key in whole else {})
    unfinished = OpenBatches()
    unfinished.read(sound)
    intents = []
    for batch, keys in sound.entries("intent").items():
        if batch in unfinished:
            with suppress(FormatError):
                intents.append(table.decode(IntentRow.decode, table.read(keys, packed=True)))
    return intents, vocabulary, len(known)


def overwrite(
    store: LogStore,
    totals: Mapping[str, Contribution],
    vocabulary: Vocabulary,
    *,
    later_than: str = "",
    nameless: int = 0,
) -> None:
    """Replace the statistics in a log, given those of each namespace; logs that were read before are stale then.

    The settings stay, a sound model of answers, and sound defaults of queries. All later batches are greater than
    `later_than`, for rows that came from elsewhere. `nameless` terms in use are in no text, so that the vocabulary
    lacks them.
    """
    # Until the new head is stored, the old rows count, and afterwards its run alone does: a crash in between loses
    # nothing, and another call does the rest.
    table, clock = LogTable(store), BatchClock()
    kept = SETTINGS | {kind for kind, decode in _NEWEST.items() if _is_sound(table, kind, decode)}
    old = [key for key in store.log_keys() if kind_of(key) not in kept]
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
    table.insert(HeadRow.encode(head))
    table.delete(old)


def _is_sound(table: LogTable, kind: str, decode: Callable[[Any], Any]) -> bool:
    """Return whether all entries of a kind can be read."""
    with suppress(FormatError):
        for rows in complete_entries(table.store.log_keys(), kind).values():
            table.decode(decode, table.read(rows, packed=True))
        return True
    return False
