"""Replace an index by its next generation while it is searched and written, and drop the former ones.

The next generation is filled beside the one in force, in collections of its own, and each round carries over what has
changed since the one before. For the last round the writers wait; then one row puts it into force. A call that is cut
short leaves the old one in force, and the same call goes on with the rest.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from sys import intern
from typing import TYPE_CHECKING, Any

from rag_bm25.analysis.contract import contract_of
from rag_bm25.documents.checks import check_given_chunk
from rag_bm25.documents.chunks import pk_digest
from rag_bm25.errors import ConfigMismatchError, FormatError, StoreError
from rag_bm25.events import report_progress
from rag_bm25.index.index import BM25Index
from rag_bm25.index.maintenance.learning import carry_k1
from rag_bm25.index.maintenance.pending import json_digest
from rag_bm25.index.query_defaults import check_expansion
from rag_bm25.index.searching.rows import to_chunk
from rag_bm25.index.stored_config import config_to_dict
from rag_bm25.index.writing.pipeline import WriteOptions
from rag_bm25.statistics.log.changes import changed_since, list_batches
from rag_bm25.statistics.log.generation import (
    Generations,
    all_generations,
    close_to_writers,
    contents_of_log,
    count_rows,
    is_superseded,
    open_to_writers,
    supersede,
)
from rag_bm25.statistics.log.log import CLAIM_SECONDS, StatisticsLog
from rag_bm25.statistics.log.settings import write_config
from rag_bm25.statistics.log.source_roots import copy_roots
from rag_bm25.store.rows import SLOTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from rag_bm25.documents.chunks import NewChunk
    from rag_bm25.events import Progress
    from rag_bm25.index.config import IndexConfig
    from rag_bm25.index.generation import Generation
    from rag_bm25.statistics.log.table import Listing
    from rag_bm25.statistics.view import StatisticsView
    from rag_bm25.store.protocol import Store
    from rag_bm25.store.rows import ChunkRow

# ruff: noqa: SLF001 - these are parts of the index

CLAIM = "reindex"
PAGE = 1_000  # chunks between two signs of life
FEW_CHANGES = 1_000  # chunks that the writers wait for
MAX_ROUNDS = 20

_at_work: set[tuple[int, str]] = set()  # indexes of which a thread makes a generation: write lock and name
_entering = threading.Lock()


def make_next_generation(
    index: BM25Index, config: IndexConfig, progress: Callable[[Progress], None] | None = None
) -> int:
    """Encode all chunks with another config, and put the result into force; return how many were deleted meanwhile."""
    index._require_writable()
    index.refresh()  # another process may have reindexed it
    now, stored = index._current(), config_to_dict(config, contract_of(config.build_analyzer()))
    check_expansion(config.expansion, config.build_analyzer())
    present, view = now.live_config.stored(now.live.view), now.live.view
    log = StatisticsLog(now.store, birth=now.live.log.birth)
    with _reindexing(now.store, log) as claim:
        same = config_to_dict(present, contract_of(present.build_analyzer()))
        if _without_fingerprint(same) == _without_fingerprint(stored):
            open_to_writers(now.store)  # which a call that was killed may have stopped
            return 0
        with _open_successor(now, config) as target:
            copying = _Copying(now.store, target, lambda: log.keep_claim(CLAIM, claim), progress)
            for _ in range(MAX_ROUNDS):
                if copying.catch_up() <= FEW_CHANGES:
                    break
            with _switching(now, claim):
                copying.catch_up()
                copying.keep_claim()  # else the target may be in force, and another's
                copy_roots(now.store, target._store)
                carry_k1(now, target._current())
                write_config(target._store, stored)  # an earlier attempt may have had another query side
                _carry_query_defaults(now, view, target)
        index._options = replace(index._options, config=config, analyzer=None, own={})  # it may have its own analyzer
        index.refresh()
    return copying.removed


def _carry_query_defaults(now: Generation, before: StatisticsView, target: BM25Index) -> None:
    """Have the next generation hold what was set meanwhile; its config has what was set before."""
    now.live.refresh()
    latest = now.live.view.query_defaults
    values = {} if latest == before.query_defaults or latest is None else latest
    if values != (target._live.view.query_defaults or {}):
        target._live.log.write_query_defaults(values)


def drop_former_generations(store: Store) -> int:
    """Drop all generations of an index but that in force: former ones, and one that a reindex has begun and not ended.

    Searches that still use a former one fail: on a server, wait until all processes have refreshed. What leads from
    them to the one in force is kept. The file of milvus-lite 2.5 is then rewritten, for which its disk needs the room
    of a second one.

    Parameters
    ----------
    store : Store
        Store of the index, as for :meth:`rag_bm25.BM25Index.from_store`.

    Returns
    -------
    int
        Number of rows that were dropped.

    Raises
    ------
    StoreError
        A reindex is under way, or was killed less than ten minutes ago.
    """
    with all_generations(store) as generations:
        dropped = sum(map(_drop_former, generations.former))
        if generations.begun:
            dropped += _drop_begun(generations)
        if len(generations.all()) > 1:  # also where all were dropped before: the rewriting may have failed
            store.compact()
    return dropped


def _drop_former(former: Store) -> int:
    """Drop what a former generation holds, but for what leads to the next one; return the number of its rows."""
    rows = count_rows(former)
    former.drop_chunks()
    former.delete_log(contents_of_log(former))
    return rows


def _drop_begun(generations: Generations) -> int:
    """Drop what a reindex that was cut short has left, and let writers go on that it has stopped."""
    now = generations.in_force
    log = StatisticsLog(now)
    log.refresh()  # whose birth id a claim has
    with _reindexing(now, log):
        if is_superseded(now):  # it has come to its end since
            return 0
        rows = sum(map(count_rows, generations.begun))
        for begun in reversed(generations.begun):
            begun.drop()
        open_to_writers(now)
    return rows


def describe_generations(store: Store) -> dict[str, Any]:
    """Return which generation is in force, and the rows of the others; nothing where there is one alone."""
    with all_generations(store) as generations:
        if len(generations.all()) == 1:
            return {}
        return {"generation": generations.in_force.generation, "other_generations": generations.count_others()}


@contextmanager
def _reindexing(store: Store, log: StatisticsLog) -> Iterator[str]:
    """Keep others from making or dropping the next generation; yield the name of the claim in the log."""
    with _alone_in_process(store), log.claim(CLAIM) as claim:
        if not claim:
            raise StoreError(
                f"{store.name} is being reindexed by another process, or by one that was killed less than "
                f"{CLAIM_SECONDS / 60:.0f} minutes ago: run it again later"
            )
        yield claim


def _without_fingerprint(stored: Mapping[str, Any]) -> str:
    """Return a digest of a config as it is stored, wherever its contract was computed."""
    return json_digest({**stored, "fingerprint": None})


@contextmanager
def _alone_in_process(store: Store) -> Iterator[None]:
    """Keep other threads from the same index; on a server, a claim in its log keeps them from it."""
    key = id(store.write_lock), store.name
    with _entering:
        if key in _at_work:
            raise StoreError(f"{store.name} is being reindexed by another thread")
        _at_work.add(key)
    try:
        yield
    finally:
        _at_work.remove(key)


def _open_successor(now: Generation, config: IndexConfig) -> BM25Index:
    """Open or create the next generation; what an attempt with another config has left is dropped."""
    try:
        return BM25Index.from_store(now.store.successor(), config=config)
    except (ConfigMismatchError, FormatError):
        with closing(now.store.successor()) as remains:
            remains.drop()
        return BM25Index.from_store(now.store.successor(), config=config)


@contextmanager
def _switching(now: Generation, name: str) -> Iterator[None]:
    """Keep all writers out, and put the next generation into force unless the body fails."""
    if now.store.exclusive:
        with now.live.writing():
            try:
                yield
                supersede(now.store)
            finally:
                now.live.look_anew()  # also where the call is interrupted: it may be in force
        return
    key = close_to_writers(now.store, name)
    try:
        yield
    except BaseException:
        now.store.delete_log([key])
        raise
    supersede(now.store)  # where this fails it may be in force, so that writers stay out until another call


@dataclass
class _Copying:
    """Chunks on their way to the next generation; each is carried over again after a change."""

    source: Store
    target: BM25Index
    keep_claim: Callable[[], None]
    progress: Callable[[Progress], None] | None
    removed: int = 0
    _carried: dict[bytes, str] = field(init=False)  # the batch of each chunk; "" where it is not known
    _foreign: dict[bytes, str] = field(default_factory=dict)  # keys of rows that other tools have inserted
    _listed: Listing | None = None  # what the log had at the beginning of the last call

    def __post_init__(self) -> None:
        self._carried = dict.fromkeys(_newest_batches(self.target._store, {}), "")

    def catch_up(self) -> int:
        """Carry over what has changed since the last call; return how many chunks that were."""
        before, self._listed = self._listed, list_batches(self.source)
        logged = None if before is None else changed_since(self.source, before, self._listed)
        changed = self._find_changed() if logged is None else list(map(bytes.fromhex, logged))
        for start in range(0, len(changed), PAGE):
            self._carry(changed[start : start + PAGE])
            report_progress(self.progress, "chunks encoded", min(start + PAGE, len(changed)), len(changed))
        return len(changed)

    def _find_changed(self) -> list[bytes]:
        """Compare the keys and batches of all chunks."""
        present = _newest_batches(self.source, self._foreign)
        changed = [digest for digest, batch in present.items() if self._carried.get(digest) != batch]
        return [*changed, *(self._carried.keys() - present)]

    def _carry(self, digests: Sequence[bytes]) -> None:
        """Encode chunks as they are stored now, and delete those that are not."""
        self.keep_claim()
        foreign = [self._foreign[digest] for digest in digests if digest in self._foreign]
        rows = self.source.get_chunks([*_pks(digests), *foreign], dense=True)
        newest = {_digest(row): row for row in sorted(rows, key=lambda row: row.batch)}
        for namespace, some in _by_namespace(newest.values()).items():
            chunks = map(self._to_chunk, some)
            self.target._pipeline.write_stream(chunks, None, WriteOptions(namespace, assume_new=False, workers=0), None)
        self._delete([digest for digest in digests if digest not in newest])
        self._carried.update((digest, intern(row.batch)) for digest, row in newest.items())

    def _to_chunk(self, row: ChunkRow) -> NewChunk:
        return replace(check_given_chunk(to_chunk(row), self.target.config.fields), dense=row.dense)

    def _delete(self, digests: Sequence[bytes]) -> None:
        rows = self.target._store.get_chunks(_pks(digests), contents=False) if digests else []
        for namespace, some in _by_namespace(rows).items():
            self.removed += self.target.delete([row.id for row in some], namespace=namespace)
        for digest in digests:
            self._carried.pop(digest, None)


def _newest_batches(store: Store, foreign: dict[bytes, str]) -> dict[bytes, str]:
    """Return the batch of the newest row of each chunk, by its digest; note the keys of rows of other tools."""
    newest: dict[bytes, str] = {}
    for row in chain.from_iterable(store.scan_chunks()):
        digest = _digest(row)
        newest[digest] = intern(max(newest.get(digest, ""), row.batch))
        if row.pk[:-1] != digest.hex():
            foreign[digest] = row.pk
    return newest


def _digest(row: ChunkRow) -> bytes:
    return bytes.fromhex(pk_digest(row.namespace, row.id))


def _pks(digests: Sequence[bytes]) -> list[str]:
    return [digest.hex() + slot for digest in digests for slot in SLOTS]


def _by_namespace(rows: Iterable[ChunkRow]) -> dict[str, list[ChunkRow]]:
    grouped = defaultdict(list)
    for row in rows:
        grouped[row.namespace].append(row)
    return grouped
