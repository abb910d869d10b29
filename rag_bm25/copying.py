"""Take an index from one store to another, whatever engines they are on, and drop one.

A copy carries a mark in its log until all of it is there and has been compared with the source, so that half a copy
is never taken for an index. Whatever cuts a copy short, the same call again does the rest: rows are compared by key and
batch, and only what is missing is written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rag_bm25.damage import damage_message
from rag_bm25.errors import FormatError, IndexNotFoundError, StoreError
from rag_bm25.filling import Filling, digest_of
from rag_bm25.source_roots import copy_roots
from rag_bm25.statistics import NamespaceStatistics
from rag_bm25.statistics_log import StatisticsLog
from rag_bm25.verification import count_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rag_bm25.store import ChunkRow, Store

__all__ = ["CopyPlan", "CopyReport", "copy_index", "drop_index", "plan_copy"]

PAGE = 500
"""How many whole rows, of up to 64 KB of text each, are in memory at once."""


@dataclass(frozen=True)
class CopyPlan:
    """What a copy would do.

    Parameters
    ----------
    source : str
        Engine, URI and collection.
    num_chunks : int
        Chunks of the source, by its statistics.
    num_terms : int
        Terms of the source with df > 0.
    resumes : bool
        Whether it goes on with a copy that was cut short.
    """

    source: str
    num_chunks: int
    num_terms: int
    resumes: bool


@dataclass(frozen=True)
class CopyReport:
    """What a copy did.

    Parameters
    ----------
    num_chunks : int
        Chunks of the copy, counted.
    num_terms : int
        Terms with df > 0, counted.
    copied : int
        Rows that were written; the others had been copied before.
    removed : int
        Rows of an earlier attempt that the source no longer has.
    """

    num_chunks: int
    num_terms: int
    copied: int
    removed: int


def plan_copy(source: Store, target: Store | None) -> CopyPlan:
    """Check that a copy can be made, and write nothing.

    Parameters
    ----------
    source : Store
        Where the index is.
    target : Store or None
        Where the copy is to be; None for a place that does not exist yet.

    Returns
    -------
    CopyPlan
        What :func:`copy_index` would do.

    Raises
    ------
    IndexNotFoundError
        There is no index in the source.
    InputError
        There is something in the target that is not the beginning of this copy.
    ConfigMismatchError
        There is the beginning of a copy of another index.
    FormatError
        The source is damaged.
    StoreError
        Writes of the source are under way, or were left half done.
    """
    original = _Original.read(source)
    whole = original.log.statistics.whole
    resumes = target is not None and original.filling.is_begun_in(target)
    return CopyPlan(source.name, whole.num_chunks, whole.num_terms, resumes)


def copy_index(source: Store, target: Store, *, progress: Callable[[str, int, int], None] | None = None) -> CopyReport:
    """Copy an index, compare every row of the copy with the source, and count it again.

    Texts, metadata, both kinds of vectors and the statistics are taken as they are: nothing is analysed or embedded
    anew, and scores stay the same. In memory are a page of rows, the statistics and the vocabulary. Until the copy is
    finished, opening it is a :class:`~rag_bm25.FormatError`. One process at a time may write to the target; the source
    is only read, and must not change meanwhile.

    Parameters
    ----------
    source : Store
        Where the index is, such as a :class:`rag_bm25.milvus_store.MilvusStore`. Not closed.
    target : Store
        Another store, empty, or with the beginning of the same copy. Not closed.
    progress : callable of (str, int, int) to None, optional
        Told ``"copied"`` or ``"checked"``, how many rows, and how many there are.

    Returns
    -------
    CopyReport
        What was done.

    Raises
    ------
    IndexNotFoundError, InputError, ConfigMismatchError, FormatError
        As for :func:`plan_copy`; nothing was written.
    StoreError
        As for :func:`plan_copy`; or the source has changed meanwhile, or one of the stores failed: then the same call
        again copies what is missing.

    Examples
    --------
    From a file to a server::

        with closing(MilvusStore("./rag.db", "docs")) as source, closing(MilvusStore(uri, "docs")) as target:
            copy_index(source, target)
    """
    original = _Original.read(source)
    original.filling.begin_in(target)
    total = original.log.statistics.whole.num_chunks

    def tell(what: str, done: int) -> None:
        if progress is not None:
            progress(what, done, max(total, done))

    copied = _copy_rows(source, target, tell)
    counted, removed = _checked_rows(source, target, tell)
    original.require_equal(counted)
    copy_roots(source, target)
    original.finish_in(target, counted)
    return CopyReport(counted.whole.num_chunks, counted.whole.num_terms, copied, removed)


def drop_index(store: Store, *, dry_run: bool = False) -> int:
    """Delete an index with everything in it, also one that is damaged, dropped halfway, or an unfinished copy.

    Parameters
    ----------
    store : Store
        Where it is.
    dry_run : bool
        Count it only.

    Returns
    -------
    int
        How many chunks were in it.

    Raises
    ------
    IndexNotFoundError
        There is no index of that name.
    FormatError
        The collections are something else's; nothing was deleted.
    """
    if not store.has_collections():
        raise _not_found(store)
    count = store.count_chunks() if store.has_chunks() else 0
    if not dry_run:
        store.drop()
    return count


@dataclass(frozen=True, eq=False)
class _Original:
    """The index that is copied."""

    name: str
    config: dict[str, Any]
    log: StatisticsLog

    @classmethod
    def read(cls, source: Store) -> _Original:
        """Read parameters and statistics, which must be settled."""
        log = StatisticsLog(source)
        config = log.read_config() if source.exists() else None
        if config is None and source.has_chunks():
            raise FormatError(damage_message(source.name, ["its statistics are lost"]))
        if config is None:
            raise _not_found(source)
        if intents := log.intents():
            msg = (
                f"{source.name} has writes that are not finished ({len(intents)}): wait for its writers; what dead "
                "ones left is finished by opening the index for writing, as `rag-bm25 verify` does"
            )
            raise StoreError(msg)
        log.refresh()
        log.check_terms()
        if log.damage:  # the copy would count what is lost as what it has
            raise FormatError(damage_message(source.name, log.damage))
        return cls(source.name, config, log)

    @property
    def filling(self) -> Filling:
        """What is to be in the target."""
        return Filling(self.name, self.config, digest_of(self.config))

    def require_equal(self, counted: NamespaceStatistics) -> None:
        """Compare what was counted in the copy with the statistics of now."""
        self.log.refresh()
        stored = self.log.statistics
        for name in {*counted.namespaces, *stored.namespaces}:
            change = stored.of_one(name).contribution() - counted.of_one(name).contribution()
            if change.num_chunks or change.total_length or len(change.ids):
                msg = (
                    f"the copy of {self.name} differs from its statistics in namespace {name!r}: the index has changed "
                    "meanwhile, then run the same copy again; or its statistics are wrong, which verify tells and "
                    "repair mends"
                )
                raise StoreError(msg)

    def finish_in(self, target: Store, counted: NamespaceStatistics) -> None:
        """Store statistics, vocabulary and parameters; from the last call on, the copy is an index."""
        log = self.log
        totals = counted.contributions()
        self.filling.finish_in(
            target,
            totals,
            log.vocabulary(),
            term_k1=log.term_k1,
            later_than=log.new_batch(),
            nameless=log.num_nameless,
        )


def _copy_rows(source: Store, target: Store, tell: Callable[[str, int], None]) -> int:
    """Write the rows that the target does not have, or has from another write; return how many."""
    done = copied = 0
    for rows in _pages(source):
        there = {row.pk: row.batch for row in target.get_chunks([row.pk for row in rows], contents=False)}
        missing = [row.pk for row in rows if there.get(row.pk) != row.batch]
        if superseded := [pk for pk in missing if pk in there]:
            target.delete_chunks(superseded)
        if missing:
            target.insert_chunks(_whole(source, missing))
        done, copied = done + len(rows), copied + len(missing)
        tell("copied", done)
    return copied


def _checked_rows(source: Store, target: Store, tell: Callable[[str, int], None]) -> tuple[NamespaceStatistics, int]:
    """Compare every row of the target with that of the source, and count it; delete those that the source lacks."""
    counted, done, removed = NamespaceStatistics(), 0, 0
    for rows in _pages(target):
        originals = {row.pk: row for row in _whole(source, [row.pk for row in rows])}
        if strays := [row.pk for row in rows if row.pk not in originals]:
            target.delete_chunks(strays)
        copies = _whole(target, list(originals))
        if wrong := [row for row in copies if not _is_same(row, originals[row.pk])]:
            target.delete_chunks([row.pk for row in wrong])
            msg = (
                f"chunk {wrong[0].id!r} in {target.name} is not what {source.name} has: it was deleted; run the same "
                "copy again"
            )
            raise StoreError(msg)
        count_rows(counted, copies)
        done, removed = done + len(copies), removed + len(strays)
        tell("checked", done)
    return counted, removed


def _pages(store: Store) -> Iterator[Sequence[ChunkRow]]:
    """Stream all rows, without contents and vectors."""
    for rows in store.scan_chunks():
        for start in range(0, len(rows), PAGE):
            yield rows[start : start + PAGE]


def _whole(store: Store, pks: Sequence[str]) -> list[ChunkRow]:
    """Read rows with all that they have."""
    return store.get_chunks(pks, contents=True, vectors=True, dense=True) if pks else []


def _is_same(row: ChunkRow, other: ChunkRow) -> bool:
    """Compare rows, with their dense vectors."""
    if row.dense is None or other.dense is None:
        return row == other and row.dense is other.dense
    return row == other and np.array_equal(row.dense, other.dense)


def _not_found(store: Store) -> IndexNotFoundError:
    return IndexNotFoundError(f"there is no index in {store.name}")
