"""Load merged files into an empty store: row by row through its own insertion, or by Milvus's bulk import.

The store carries the mark of :mod:`rag_bm25.filling` until all is there: whatever cuts a load short, nobody can open
half of it, and the same call again does the rest.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from rag_bm25.bulk.files import require_sound
from rag_bm25.bulk.merging import Manifest, ManifestPart, read_manifest
from rag_bm25.bulk.rows import read_groups, rows_of
from rag_bm25.bulk.sums import read_sums
from rag_bm25.errors import StoreError
from rag_bm25.filling import Filling
from rag_bm25.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rag_bm25.store import ChunkRow, ImportState

__all__ = ["ImportingStore", "LoadReport", "load", "load_by_import"]

JOBS_AT_ONCE = 16
POLL_SECONDS = 2.0


class ImportingStore(Store, Protocol):
    """A store whose engine reads files by itself, from its own object storage."""

    def require_imports(self) -> None:
        """Raise a ``StoreError`` where the engine cannot do that."""
        ...

    def start_import(self, path: str) -> int:
        """Have a file read, and return the number of the job that does it; all of its rows come, or none."""
        ...

    def import_state(self, job: int) -> ImportState:
        """Return how far a job has come."""
        ...

    def imports_under_way(self) -> list[int]:
        """Return the jobs that are not finished yet, whoever started them."""
        ...

    def after_imports(self) -> None:
        """Make what was imported visible."""
        ...

    def count_batch(self, batch: str) -> int:
        """Return how many rows a batch has put there."""
        ...


@dataclass(frozen=True)
class LoadReport:
    """What a load did.

    Parameters
    ----------
    num_chunks : int
        Chunks that the index has.
    num_terms : int
        Distinct terms in them.
    loaded : int
        Chunks that were written by this call; the others had been loaded before.
    """

    num_chunks: int
    num_terms: int
    loaded: int


def load(
    folder: str | Path,
    target: Store,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> LoadReport:
    """Load merged files into an empty store, through its own insertion: for every engine.

    Until all is there, opening the index is a :class:`~rag_bm25.FormatError`. Afterwards it is an index like any other:
    add to it, update, delete. In memory are about 1,000 rows, the statistics and the vocabulary.

    Parameters
    ----------
    folder : str or Path
        Where :func:`merge` has written.
    target : Store
        An empty store, such as a :class:`rag_bm25.milvus_store.MilvusStore`, or one with the beginning of the same
        load. Not closed. One process at a time may write to it.
    progress : callable of (int, int) to None, optional
        Told how many chunks are there, and how many there will be.

    Returns
    -------
    LoadReport
        What was done.

    Raises
    ------
    FormatError
        A file is missing or damaged; nothing of it was loaded.
    InputError
        There is something else in the target; nothing was written.
    ConfigMismatchError
        There is the beginning of another load in the target; nothing was written.
    StoreError
        The target failed; the same call again loads what is missing.

    Examples
    --------
    ::

        with closing(MilvusStore("./rag.db", "docs")) as target:
            load("bulk", target)
    """
    loading = _Loading(Path(folder), target)
    resumes = loading.begin()
    for part in loading.manifest.parts:
        require_sound(loading.folder, part.data, "merge the parts again, or encode the one that is damaged")
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
    progress: Callable[[int, int], None] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> LoadReport:
    """Load merged files by the bulk import of a Milvus server, 2.5.8 or later, which reads them from its own storage.

    Before, upload the rows, the files that the manifest lists as parts, to the bucket of the server; everything else is
    read here.

    Parameters
    ----------
    folder : str or Path
        Where :func:`merge` has written.
    target : ImportingStore
        A :class:`rag_bm25.milvus_store.MilvusStore` on a server; empty, or with the beginning of the same load.
    prefix : str
        Where the files are in the server's bucket: ``prefix/part-000000.parquet`` and so on.
    progress : callable of (int, int) to None, optional
        As for :func:`load`.
    sleep : callable of float to None
        Waits so many seconds before looking again.

    Returns
    -------
    LoadReport
        What was done.

    Raises
    ------
    FormatError, InputError, ConfigMismatchError
        As for :func:`load`.
    StoreError
        The server has no bulk import, or refused a file: the message has its reason. The same call again imports what
        is missing.
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
    for imported in _imported(target, prefix.rstrip("/"), waiting, sleep):
        loading.count(imported, imported, progress)
    target.after_imports()
    return loading.finish()


class _Loading:
    """A load, as far as it has come."""

    def __init__(self, folder: Path, target: Store) -> None:
        self.folder = folder
        self.manifest: Manifest = read_manifest(folder)
        for data in (self.manifest.sums.vocabulary, self.manifest.sums.counts):
            require_sound(folder, data, "merge the parts again")
        self._target = target
        self._totals, self._vocabulary = read_sums(folder, self.manifest.sums)
        self._filling = Filling(f"the files in {folder}", self.manifest.config, self.manifest.fingerprint)
        self._there = self._loaded = 0

    def begin(self) -> bool:
        """Mark the target, and tell whether this goes on with an earlier load."""
        return self._filling.begin_in(self._target)

    def count(self, there: int, loaded: int, progress: Callable[[int, int], None] | None) -> None:
        """Note that more chunks are there, and how many of them were written now."""
        self._there += there
        self._loaded += loaded
        if progress is not None:
            progress(self._there, self.manifest.num_chunks)

    def finish(self) -> LoadReport:
        """Count the rows, and let the index be opened."""
        wanted, found = self.manifest.num_chunks, self._target.count_chunks()
        if found != wanted:
            msg = (
                f"{self._target.name} has {found:,} chunks of {wanted:,} after loading: run the same load again, and "
                "drop it where that does not help"
            )
            raise StoreError(msg)
        self._filling.finish_in(self._target, self._totals, self._vocabulary)
        return LoadReport(wanted, len(self._vocabulary), self._loaded)


def _missing(target: Store, rows: Sequence[ChunkRow]) -> list[ChunkRow]:
    """Return the rows that an earlier call has not written."""
    there = {row.pk for row in target.get_chunks([row.pk for row in rows], contents=False)}
    return [row for row in rows if row.pk not in there]


def _imported(
    target: ImportingStore, prefix: str, parts: Sequence[ManifestPart], sleep: Callable[[float], None]
) -> Iterator[int]:
    """Import parts, some of them at once; yield how many chunks each has as it is done."""
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
    """Tell whether the rows of a part are there; an import brings all of them or none."""
    found = target.count_batch(part.batch) if part.data.rows else 0
    if found not in (0, part.data.rows):
        msg = f"{target.name} has {found:,} of the {part.data.rows:,} chunks of {part.data.name}: drop it, load again"
        raise StoreError(msg)
    return found == part.data.rows


def _has_ended(target: ImportingStore, job: int, name: str) -> bool:
    """Tell whether a job has done its work; raise where it has failed."""
    state = target.import_state(job)
    if state.failure:
        msg = f"{target.name} could not import {name} (job {job}): {state.failure}"
        raise StoreError(msg)
    return state.finished


def _wait_for_others(target: ImportingStore, sleep: Callable[[float], None]) -> None:
    """Wait for jobs of a load that was cut short: what they bring must not be imported again."""
    while target.imports_under_way():
        sleep(POLL_SECONDS)
