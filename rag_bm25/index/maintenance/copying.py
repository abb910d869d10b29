"""Copy an index to another store, on any engine, and drop an index.

A copy is marked as unfinished until every row has been compared with the source, so that half a copy is never opened as
an index. After an interruption the same call resumes the copy: it compares keys and batches, and writes missing rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rag_bm25.errors import FormatError, IndexNotFoundError, StoreError
from rag_bm25.events import report_progress
from rag_bm25.index.arguments import name_namespace
from rag_bm25.index.maintenance.pending import PendingIndex, json_digest
from rag_bm25.index.maintenance.verification import count_rows
from rag_bm25.index.writing.chunk_writer import count_unfinished
from rag_bm25.statistics.corpus import Contribution, CountsByNamespace
from rag_bm25.statistics.damage import damage_message
from rag_bm25.statistics.log.generation import all_generations, generation_in_force
from rag_bm25.statistics.log.log import StatisticsLog
from rag_bm25.statistics.log.settings import read_settings
from rag_bm25.statistics.log.source_roots import copy_roots

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rag_bm25.events import Progress
    from rag_bm25.store.protocol import Store
    from rag_bm25.store.rows import ChunkRow

PAGE = 500  # rows in memory, each with up to 64 KB of text


@dataclass(frozen=True)
class CopyPlan:
    """Plan of a copy.

    Parameters
    ----------
    source : str
        Engine, URI and collection.
    num_chunks, num_terms : int
        Chunks of the source and their distinct terms, by its statistics.
    resumes : bool
        Whether it resumes an unfinished copy.
    """

    source: str
    num_chunks: int
    num_terms: int
    resumes: bool


@dataclass(frozen=True)
class CopyReport:
    """Result of a copy.

    Parameters
    ----------
    num_chunks, num_terms : int
        Chunks of the copy and their distinct terms, counted.
    copied : int
        Rows written by this call; the others had been copied before.
    removed : int
        Rows of an earlier call that the source no longer has.
    """

    num_chunks: int
    num_terms: int
    copied: int
    removed: int


def plan_copy(source: Store, target: Store | None) -> CopyPlan:
    """Check that a copy is possible, without writing.

    Parameters
    ----------
    source, target : Store
        As for :func:`copy_index`; `target` may be None if it does not exist yet.

    Returns
    -------
    CopyPlan
        Plan of :func:`copy_index`.

    Raises
    ------
    IndexNotFoundError, FormatError
        The source has no index, or a damaged one.
    InputError
        The target is not empty, and not an unfinished copy of the source.
    ConfigMismatchError
        The target is an unfinished copy of another index.
    StoreError
        The source has unfinished writes.
    """
    with generation_in_force(source) as newest:
        original = _Original.read(newest)
        whole = original.log.statistics.whole
        resumes = target is not None and original.pending.is_begun_in(target)
        return CopyPlan(newest.name, whole.num_chunks, whole.num_terms, resumes)


def copy_index(source: Store, target: Store, *, progress: Callable[[Progress], None] | None = None) -> CopyReport:
    """Copy an index, compare every row with the source, and recount the copy.

    Texts, metadata, sparse and dense vectors and the statistics are copied as they are; scores stay the same. A page of
    rows, the statistics and the vocabulary are held in memory. Opening an unfinished copy is a
    :class:`~rag_bm25.FormatError`. Only one process may write to the target. The source is read only, and must not
    change during the copy.

    Parameters
    ----------
    source, target : Store
        Store of the index, such as a :class:`rag_bm25.store.milvus.MilvusStore`, and another one, empty or with an
        unfinished copy of the same index. Both stay open.
    progress : callable of Progress to None, optional
        Called periodically with ``"rows copied"``, then with ``"rows checked"``.

    Returns
    -------
    CopyReport
        Counts of the copy.

    Raises
    ------
    IndexNotFoundError, InputError, ConfigMismatchError, FormatError
        As for :func:`plan_copy`, before anything is written.
    StoreError
        As for :func:`plan_copy`; or the source changed during the copy, or one of the stores failed. The same call
        resumes the copy.
    """
    with generation_in_force(source) as newest:
        return _copy(newest, target, progress)


def _copy(source: Store, target: Store, progress: Callable[[Progress], None] | None) -> CopyReport:
    original = _Original.read(source)
    original.pending.begin_in(target)
    total = original.log.statistics.num_chunks

    def tell(what: str, done: int) -> None:
        report_progress(progress, f"rows {what}", done, total)

    copied = _copy_rows(source, target, tell)
    counted, removed = _check_rows(source, target, tell)
    original.require_equal(counted)
    copy_roots(source, target)
    original.finish_in(target, counted)
    return CopyReport(counted.whole.num_chunks, counted.whole.num_terms, copied, removed)


def drop_index(store: Store, *, dry_run: bool = False) -> int:
    """Delete an index with its chunks, even if it is damaged, partly dropped or an unfinished copy.

    All its generations are dropped. The file of milvus-lite 2.5 is then rewritten without what they have left in it,
    for which its disk needs the room of a second one.

    Parameters
    ----------
    store : Store
        Store of the index.
    dry_run : bool
        Count the chunks without deleting them.

    Returns
    -------
    int
        Number of its chunks.

    Raises
    ------
    IndexNotFoundError
        The index was not found.
    FormatError
        The collections are not those of an index. Nothing is deleted.
    """
    if not store.has_collections():
        raise _index_not_found(store)
    with all_generations(store) as generations:
        in_force = generations.in_force
        count = in_force.count_chunks() if in_force.has_chunks() else 0
        if not dry_run:
            for one in reversed(generations.all()):
                one.drop()
            in_force.compact()
    return count


@dataclass(frozen=True, eq=False)
class _Original:
    """The index to copy."""

    name: str
    config: dict[str, Any]
    log: StatisticsLog

    @classmethod
    def read(cls, source: Store) -> _Original:
        """Read config and statistics; refuse an index with unfinished writes or damage."""
        settings = read_settings(source) if source.exists() else None
        if settings is None and source.has_chunks():
            raise FormatError(damage_message(source.name, ["its statistics are lost"]))
        if settings is None:
            raise _index_not_found(source)
        log = StatisticsLog(source, birth=settings.birth)
        log.refresh()
        if num_unfinished := _count_unfinished(source, log):
            raise StoreError(
                f"{source.name} has unfinished writes ({num_unfinished}). Wait for its writers. If they are dead, open "
                "the index for writing to finish them, for instance with `rag-bm25 verify`."
            )
        log.check_terms()
        if log.problems:  # a copy would turn losses into facts
            raise FormatError(damage_message(source.name, log.problems))
        return cls(source.name, settings.config, log)

    @property
    def pending(self) -> PendingIndex:
        """The copy, as the target will have it."""
        return PendingIndex(self.name, self.config, json_digest(self.config))

    def require_equal(self, counted: CountsByNamespace) -> None:
        """Compare the recount of the copy with the current statistics."""
        self.log.refresh()
        stored, recount = self.log.statistics.contributions(), counted.contributions()
        for name in {*recount, *stored}:
            change = stored.get(name, Contribution()) - recount.get(name, Contribution())
            if change.num_chunks or change.total_length or len(change.ids):
                raise StoreError(
                    f"the copy of {self.name} does not match its statistics in {name_namespace(name)}. If the index "
                    "changed during the copy, run it again. Otherwise run `verify`, then `repair`."
                )

    def finish_in(self, target: Store, counted: CountsByNamespace) -> None:
        """Store statistics, vocabulary and config; the last call turns the copy into an index."""
        log = self.log
        totals = counted.contributions()
        self.pending.finish_in(
            target,
            totals,
            log.vocabulary(),
            models=log.view,
            later_than=log.new_batch(),
            nameless=log.num_nameless,
        )


def _count_unfinished(source: Store, log: StatisticsLog) -> int:
    """Return how many writes are unfinished, after counting those of a killed process that lack nothing but a delta."""
    intents = log.intents()
    if not (intents and source.exclusive):
        return len(intents)
    with source.write_lock:  # else they may be under way
        log.refresh()
        return len(intents) if count_unfinished(source, log) else 0


def _copy_rows(source: Store, target: Store, tell: Callable[[str, int], None]) -> int:
    """Copy rows that the target lacks or has from another batch; return their number."""
    done = copied = 0
    for rows in _pages(source):
        there = {row.pk: row.batch for row in target.get_chunks([row.pk for row in rows], contents=False)}
        missing = [row.pk for row in rows if there.get(row.pk) != row.batch]
        if superseded := [pk for pk in missing if pk in there]:
            target.delete_chunks(superseded)
        if missing:
            target.insert_chunks(_read_rows(source, missing))
        done, copied = done + len(rows), copied + len(missing)
        tell("copied", done)
    return copied


def _check_rows(source: Store, target: Store, tell: Callable[[str, int], None]) -> tuple[CountsByNamespace, int]:
    """Compare and count the rows of the target; delete those that the source lacks."""
    counted, done, removed = CountsByNamespace(), 0, 0
    for rows in _pages(target):
        originals = {row.pk: row for row in _read_rows(source, [row.pk for row in rows])}
        if strays := [row.pk for row in rows if row.pk not in originals]:
            target.delete_chunks(strays)
        copies = _read_rows(target, list(originals))
        if wrong := [row for row in copies if not _is_same(row, originals[row.pk])]:
            target.delete_chunks([row.pk for row in wrong])
            raise StoreError(
                f"chunk {wrong[0].id!r} in {target.name} differs from {source.name}, and was deleted. Run the copy "
                "again to complete it."
            )
        count_rows(counted, copies)
        done, removed = done + len(copies), removed + len(strays)
        tell("checked", done)
    return counted, removed


def _pages(store: Store) -> Iterator[Sequence[ChunkRow]]:
    """Yield pages of all rows, without contents and vectors."""
    for rows in store.scan_chunks():
        for start in range(0, len(rows), PAGE):
            yield rows[start : start + PAGE]


def _read_rows(store: Store, pks: Sequence[str]) -> list[ChunkRow]:
    """Read rows with contents and vectors."""
    return store.get_chunks(pks, contents=True, vectors=True, dense=True) if pks else []


def _is_same(row: ChunkRow, other: ChunkRow) -> bool:
    """Compare two rows, dense vectors included."""
    if row.dense is None or other.dense is None:
        return row == other and row.dense is other.dense
    return row == other and np.array_equal(row.dense, other.dense)


def _index_not_found(store: Store) -> IndexNotFoundError:
    return IndexNotFoundError(f"index not found in {store.name}")
