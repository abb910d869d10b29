"""Write to a statistics log, and read it back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rag_bm25.statistics.corpus import Contribution
from rag_bm25.statistics.log.keys import LogKey
from rag_bm25.statistics.log.log import StatisticsLog
from rag_bm25.statistics.log.writes import Change, Intent
from rag_bm25.vectors.terms import term_id

if TYPE_CHECKING:
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


def shown(log: StatisticsLog, namespace: str | None = None) -> tuple[int, int, dict[int, int]]:
    of = log.statistics.whole if namespace is None else log.statistics.of_one(namespace)
    total = of.contribution()
    return total.num_chunks, total.total_length, dict(zip(total.ids.tolist(), total.df.tolist(), strict=True))


def kinds(store: MemoryStore) -> list[str]:
    return sorted(LogKey.parse(key).kind for key in store.collections.log)


def read_anew(store: MemoryStore) -> StatisticsLog:
    log = StatisticsLog(store.reopen())
    log.refresh()
    return log
