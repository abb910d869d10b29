"""Load merged files into an empty store, by insertion or by Milvus's bulk import.

The store carries a mark (:mod:`rag_bm25.index.maintenance.pending`) until everything is loaded: a load that was cut
short leaves no index that can be opened, and the same call again completes it.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from rag_bm25.bulk.files import verify_digest
from rag_bm25.bulk.merging import Manifest, ManifestPart, read_manifest
from rag_bm25.bulk.rows import read_groups, rows_of
from rag_bm25.bulk.sums import read_sums
from rag_bm25.errors import StoreError
from rag_bm25.events import report_progress
from rag_bm25.index.maintenance.pending import PendingIndex
from rag_bm25.store.protocol import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rag_bm25.events import Progress
    from rag_bm25.store.rows import ChunkRow, ImportState

JOBS_AT_ONCE = 16
POLL_SECONDS = 2.0


class ImportingStore(Store, Protocol):
    """A store whose engine can import files from its object storage."""

    def require_imports(self) -> None:
        """Raise a ``StoreError`` if the engine has no bulk import."""
        ...

    def start_import(self, path: str) -> int:
        """Start importing a file, all of its rows or none; return the number of the job."""
        ...

    def import_state(self, job: int) -> ImportState:
        """Return the progress of a job."""
        ...

    def imports_under_way(self) -> list[int]:
        """Return all unfinished jobs, those of other processes included."""
        ...

    def after_imports(self) -> None:
        """Make imported rows visible."""
        ...

    def count_batch(self, batch: str) -> int:
        """Return the number of stored rows of a batch."""
        ...


@dataclass(frozen=True)
class LoadReport:
    """Result of a load.

    Parameters
    ----------
    num_chunks, num_terms, loaded : int
        Chunks of the index, their distinct terms, and the chunks that this call wrote: others had been loaded before.
    """

    num_chunks: int
    num_terms: int
    loaded: int


def load(folder: str | Path, target: Store, *, progress: Callable[[Progress], None] | None = None) -> LoadReport:
    """Load merged files into an empty store by insertion, on any engine.

    Opening an unfinished index is a :class:`~rag_bm25.FormatError`. A finished one is an index like any other. Memory
    holds about 1,000 rows, the statistics and the vocabulary.

    Parameters
    ----------
    folder : str or Path
        Folder of the merged files, see :func:`merge`.
    target : Store
        A store, such as a :class:`rag_bm25.store.milvus.MilvusStore`, empty or with an unfinished load of the same
        files. It stays open. Only one process may write to it.
    progress : callable of Progress to None, optional
        Called periodically with ``"chunks loaded"``, those of earlier calls included.

    Returns
    -------
    LoadReport
        Counts of the load.

    Raises
    ------
    FormatError
        A file is missing or damaged; none of its rows is loaded.
    InputError
        The target is not empty; nothing is written.
    ConfigMismatchError
        The target has an unfinished load of other files; nothing is written.
    StoreError
        The target failed. The same call resumes the load.
    """
    loading = _Loading(Path(folder), target)
    resumes = loading.begin()
    for part in loading.manifest.parts:
        verify_digest(loading.folder, part.data, "merge the parts again, or encode the one that is damaged")
        for table in read_groups(loading.folder / part.data.name):
            rows = rows_of(table)
            missing = _missing(target, rows) if resumes else rows
            if missing:
                target.insert_chunks(missing)
            loading.count(len(rows), len(missing), progress)
    return loading.finish()


def load_by_import(
    folder: str | Path,
    target: ImportingStore,
    prefix: str,
    *,
    progress: Callable[[Progress], None] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> LoadReport:
    """Load merged files by the bulk import of a Milvus server, 2.5.8 or later.

    First upload the files that the manifest lists as parts to the server's bucket; this process reads all others.

    Parameters
    ----------
    folder
        As for :func:`load`.
    target : ImportingStore
        As for :func:`load`: a :class:`rag_bm25.store.milvus.MilvusStore` on a server.
    prefix : str
        Path of the files in the server's bucket: ``prefix/part-000000.parquet`` and so on.
    progress
        As for :func:`load`.
    sleep : callable of float to None
        Function that waits for a number of seconds between two polls.

    Returns
    -------
    LoadReport
        Counts of the load.

    Raises
    ------
    FormatError, InputError, ConfigMismatchError
        As for :func:`load`.
    StoreError
        The server has no bulk import, or refused a file; the message has the reason. The same call resumes the load.
    """
    loading = _Loading(Path(folder), target)
    target.require_imports()
    if loading.begin():
        _wait_for_others(target, sleep)
        target.after_imports()  # what they brought is counted below
    waiting = []
    for part in loading.manifest.parts:
        if _is_imported(target, part):
            loading.count(part.data.rows, 0, progress)
        else:
            waiting.append(part)
    for imported in _import_parts(target, prefix.rstrip("/"), waiting, sleep):
        loading.count(imported, imported, progress)
    target.after_imports()
    return loading.finish()


class _Loading:
    """A load in progress."""

    def __init__(self, folder: Path, target: Store) -> None:
        self.folder = folder
        self.manifest: Manifest = read_manifest(folder)
        for data in (self.manifest.sums.vocabulary, self.manifest.sums.counts):
            verify_digest(folder, data, "merge the parts again")
        self._target = target
        self._totals, self._vocabulary = read_sums(folder, self.manifest.sums)
        self._pending = PendingIndex(f"the files in {folder}", self.manifest.config, self.manifest.fingerprint)
        self._there = self._loaded = 0

    def begin(self) -> bool:
        """Mark the target as unfinished; return whether this resumes an earlier load."""
        return self._pending.begin_in(self._target)

    def count(self, there: int, loaded: int, progress: Callable[[Progress], None] | None) -> None:
        """Count stored chunks, and those of them that this call has loaded."""
        self._there += there
        self._loaded += loaded
        report_progress(progress, "chunks loaded", self._there, self.manifest.num_chunks)

    def finish(self) -> LoadReport:
        """Compare the number of rows, and turn the rows into an index."""
        wanted, found = self.manifest.num_chunks, self._target.count_chunks()
        if found != wanted:
            raise StoreError(
                f"{self._target.name} has {found:,} of {wanted:,} chunks after loading. Run the same load again; if "
                "that does not help, drop the index first."
            )
        self._pending.finish_in(self._target, self._totals, self._vocabulary)
        return LoadReport(wanted, len(self._vocabulary), self._loaded)


def _missing(target: Store, rows: Sequence[ChunkRow]) -> list[ChunkRow]:
    """Return the rows that are not stored yet."""
    there = {row.pk for row in target.get_chunks([row.pk for row in rows], contents=False)}
    return [row for row in rows if row.pk not in there]


def _import_parts(
    target: ImportingStore, prefix: str, parts: Sequence[ManifestPart], sleep: Callable[[float], None]
) -> Iterator[int]:
    """Import parts in parallel; yield the number of chunks of each finished part."""
    waiting, running = deque(parts), dict[int, ManifestPart]()
    while waiting or running:
        while waiting and len(running) < JOBS_AT_ONCE:
            part = waiting.popleft()
            running[target.start_import(f"{prefix}/{part.data.name}")] = part
        ended = [job for job, part in running.items() if _has_ended(target, job, part.data.name)]
        yield from (running.pop(job).data.rows for job in ended)
        if running:
            sleep(POLL_SECONDS)


def _is_imported(target: ImportingStore, part: ManifestPart) -> bool:
    """Return whether a part is stored; an import stores all rows of a file or none."""
    found = target.count_batch(part.batch) if part.data.rows else 0
    if found not in (0, part.data.rows):
        raise StoreError(
            f"{target.name} has {found:,} of the {part.data.rows:,} chunks of {part.data.name}. Drop it and load again."
        )
    return found == part.data.rows


def _has_ended(target: ImportingStore, job: int, name: str) -> bool:
    """Return whether a job has finished; raise if it has failed."""
    state = target.import_state(job)
    if state.failure:
        raise StoreError(f"{target.name} could not import {name} (job {job}): {state.failure}")
    return state.finished


def _wait_for_others(target: ImportingStore, sleep: Callable[[float], None]) -> None:
    """Wait for jobs of an interrupted load, whose rows must not be imported twice."""
    while target.imports_under_way():
        sleep(POLL_SECONDS)
