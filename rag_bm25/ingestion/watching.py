"""Keep an index in step with files that change."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from rag_bm25.errors import RagBM25Error
from rag_bm25.ingestion.files import os_error_message
from rag_bm25.ingestion.rows import ROW_SUFFIXES
from rag_bm25.ingestion.source_names import SourceNames

if TYPE_CHECKING:
    from rag_bm25.ingestion.files import FileSelection, SourceFile
    from rag_bm25.ingestion.source_roots import SourceRoot

INTERVAL = 1.0  # seconds between two looks at the files, at least
SHARE = 0.1  # of the time that may be spent on looking: a look at 50,000 files takes seconds
SETTLING = 0.5  # seconds in which nothing may change before files are read
MAX_SETTLING = 20  # looks that are waited for; a file that is always written to is read all the same
RETRY = 60.0  # seconds until what has failed is tried again although it looks the same; then twice as long each time
MAX_RETRY = 3_600.0

Pause: TypeAlias = Callable[[float], bool]
"""Wait for some seconds; return whether to go on."""

Snapshot: TypeAlias = dict[Path, tuple[int, ...]]
"""By path: what changes when a file, or the permission to read it, does."""


def message_of(error: Exception) -> str:
    """Return the message of a failure."""
    return os_error_message(error) if isinstance(error, OSError) else str(error)


class Watcher:
    """Files, and what an index has read of them: what has failed, or could not be looked at, is still to be done.

    `find` finds the files with the folders that the index remembers, and `tell` tells a failure.
    """

    def __init__(self, find: Callable[[Sequence[SourceRoot]], FileSelection], tell: Callable[[str], object]) -> None:
        self._find, self._tell = find, tell
        self._roots: Sequence[SourceRoot] = ()
        self._known: Snapshot = {}  # as the index has read them
        self._now: Snapshot = {}
        self._unreadable: Collection[Path] = ()
        self._unreadable_now: Collection[Path] = ()
        self._failed: Collection[str] = ()  # sources
        self._rejected: set[str] = set()  # sources that had wrong rows: ids that others have, and may lose
        self._gone: set[Path] = set()  # since the index has read them
        self._wait, self._due = RETRY, 0.0

    def take(self, roots: Sequence[SourceRoot]) -> FileSelection:
        """Return the files that differ from what the index has, given the folders that it remembers by now.

        They are found as if they alone were given, with those that are gone; at the beginning, and where the index has
        forgotten them, all files are.
        """
        if self._known and not _are_named(self._known, roots):
            self._tell("the index no longer has the files, as if it was dropped: all of them are ingested again")
            self._known, self._gone, self._failed, self._rejected = {}, set(), (), set()
        self._roots = roots
        found = self._look()
        self._gone = (self._gone | self._known.keys()) - self._now.keys()
        if not self._known:
            return found
        names = SourceNames(roots, lambda _name, _is_folder: False)
        differing = {*self._gone, *(file.path for file in found.files if self._is_changed(file))}
        again = {*self._failed, *(self._rejected if any(map(_has_rows, differing)) else ())}
        changed = [file for file in found.files if file.path in differing or names.source_of(file.path) in again]
        paths = [*(file.path for file in changed), *sorted(self._gone)]
        return replace(found, files=changed, given=dict.fromkeys(paths, False), root=None, name=None, whole=found)

    def catch_up(self, roots: Sequence[SourceRoot], ingest: Callable[[FileSelection], object]) -> None:
        """Take the files that differ, and call `ingest`, which notes them, unless there is nothing to do or to tell."""
        found = self.take(roots)
        if found.whole is None or found.given or found.unreadable:
            ingest(found)
        else:
            self.note()

    def note(self, failed: Collection[str] = (), rejected: Collection[str] = ()) -> None:
        """Note that the files that were taken have been ingested, but for those of the sources that failed.

        Those with rejected rows are taken again when other rows have changed: an id may have become free.
        """
        self._known, self._unreadable, self._failed = self._now, self._unreadable_now, failed
        self._rejected.update(rejected)
        if not failed:
            self._gone, self._wait = set(), RETRY
        self._due = time.monotonic() + self._wait
        self._wait = min(2 * self._wait, MAX_RETRY)

    def watch(self, step: Callable[[], object], pause: Pause) -> None:
        """Call `step`, which takes the files that differ, ingests and notes them, whenever some do, again and again.

        A step that fails is repeated at the next look. A failure is told once.
        """
        told, interval = "", INTERVAL
        while pause(interval):
            start = time.perf_counter()
            try:
                is_due = self._is_due()
                interval = max(INTERVAL, (time.perf_counter() - start) / SHARE)
                if is_due:
                    self._settle(pause)
                    step()
                told = ""
            except (RagBM25Error, OSError) as error:
                message = message_of(error)
                if message != told:
                    self._tell(message)
                told = message

    def _is_due(self) -> bool:
        """Look at the files, and return whether there is something to do."""
        self._look()
        is_same = self._now == self._known and {*self._unreadable_now} == {*self._unreadable}
        return not is_same or (bool(self._failed) and time.monotonic() >= self._due)

    def _look(self) -> FileSelection:
        found = self._find(self._roots)
        self._now, self._unreadable_now = _take_snapshot(found.files), found.unreadable.keys()
        if found.unreadable:  # what lies below may be as it was
            hidden = {path for path in self._known if not found.unreadable.keys().isdisjoint((path, *path.parents))}
            self._now |= {path: self._known[path] for path in hidden - self._now.keys()}
        return found

    def _settle(self, pause: Pause) -> None:
        """Wait until the files stay as they are: they may be written at this moment."""
        for _ in range(MAX_SETTLING):
            before = self._now
            if not pause(SETTLING):
                break
            self._look()
            if self._now == before:
                break

    def _is_changed(self, file: SourceFile) -> bool:
        return self._now.get(file.path) != self._known.get(file.path)


def _has_rows(path: Path) -> bool:
    return path.suffix.lower() in ROW_SUFFIXES


def _take_snapshot(files: Sequence[SourceFile]) -> Snapshot:
    """Return the state of files; those that are gone by now are left out."""
    snapshot: Snapshot = {}
    for file in files:
        try:
            state = file.path.stat()
        except OSError:
            continue
        snapshot[file.path] = state.st_mtime_ns, state.st_ctime_ns, state.st_size, state.st_ino
    return snapshot


def _are_named(paths: Collection[Path], roots: Sequence[SourceRoot]) -> bool:
    """Return whether each path lies in a folder that an index remembers, or is such a file."""
    names = SourceNames(roots, lambda _name, _is_folder: False)
    return all(names.root_of(path) is not None for path in paths)
