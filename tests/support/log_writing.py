"""Write to a statistics log, and read it back."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from rag_bm25.statistics.corpus import Contribution
from rag_bm25.statistics.log.keys import LogKey
from rag_bm25.statistics.log.log import StatisticsLog
from rag_bm25.statistics.log.settings import read_settings
from rag_bm25.statistics.log.writes import Change, Intent
from rag_bm25.store.protocol import LogStore
from rag_bm25.store.rows import LogRow
from rag_bm25.vectors.terms import term_id
from support.memory_store import MemoryStore


def counted(num_chunks: int = 1, total_length: int = 0, /, **df: int) -> Contribution:
    by_id = sorted((term_id(term), count) for term, count in df.items())
    ids, counts = zip(*by_id, strict=True) if by_id else ((), ())
    return Contribution(num_chunks, total_length, np.array(ids, np.uint32), np.array(counts, np.int64))


def intent(log: StatisticsLog, before: Contribution | None = None, namespace: str = "") -> Intent:
    change = Change("0" * 40, "a", "")
    return Intent(log.new_batch(), "writer", 7.5, namespace, [change], before or Contribution())


def write(log: StatisticsLog, after: Contribution, before: Contribution | None = None, namespace: str = "") -> None:
    log.open_write(intent(log, before, namespace), {}).commit(after)


def write_words(log: StatisticsLog, words: Collection[str], namespace: str = "") -> None:
    """Write a chunk of words, of which new ones become known terms."""
    staged = log.known_terms().stage()
    staged.look_up(list(words))
    total = Contribution(
        1, len(words), np.array(sorted(set(staged.values())), np.uint32), np.ones(len(staged), np.int64)
    )
    log.open_write(intent(log, namespace=namespace), staged.new).commit(total)


def shown(log: StatisticsLog, namespace: str | None = None) -> tuple[int, int, dict[int, int]]:
    of = log.statistics.whole if namespace is None else log.statistics.of_one(namespace)
    total = of.contribution()
    return total.num_chunks, total.total_length, dict(zip(total.ids.tolist(), total.df.tolist(), strict=True))


def kinds(store: MemoryStore) -> list[str]:
    return sorted(LogKey.parse(key).kind for key in store.collections.log)


def rows(store: MemoryStore, kind: str) -> list[LogRow]:
    """Return the rows of a kind, in the order of their keys."""
    found = [row for key, row in store.collections.log.items() if LogKey.parse(key).kind == kind]
    return sorted(found, key=lambda row: LogKey.parse(row.key))


def taken(store: MemoryStore, *keys: str) -> dict[str, LogRow]:
    """Take rows out of the log, as if they had not arrived yet; return them."""
    return {key: store.collections.log.pop(key) for key in keys}


def read_anew(store: MemoryStore) -> StatisticsLog:
    log = StatisticsLog(store.reopen())
    log.refresh()
    return log


def asked_of(store: MemoryStore, call: Callable[[], object]) -> list[str]:
    """Return the keys of the log rows that a call reads."""
    asked: list[str] = []
    get_log = store.get_log
    store.get_log = lambda keys, **options: (asked.extend(keys), get_log(keys, **options))[1]  # type: ignore[method-assign]
    try:
        call()
    finally:
        store.get_log = get_log  # type: ignore[method-assign]
    return asked


def store_of(log: StatisticsLog) -> MemoryStore:
    return log._store  # type: ignore[return-value]


def read_config(store: LogStore) -> dict[str, Any]:
    """The stored parameters, none where some are missing."""
    settings = read_settings(store)
    return {} if settings is None else settings.config
