"""Keep an index in step with files that change."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from rag_bm25.errors import RagBM25Error
from rag_bm25.ingestion.files import os_error_message

if TYPE_CHECKING:
    from rag_bm25.ingestion.files import Found

INTERVAL = 1.0  # seconds between two looks at the files, at least
SHARE = 0.1  # of the time that may be spent on looking: a look at 50,000 files takes seconds
SETTLING = 0.5  # seconds in which nothing may change before files are read
MAX_SETTLING = 20  # looks that are waited for; a file that is always written to is read all the same

Pause: TypeAlias = Callable[[float], bool]
"""Wait for some seconds; return whether to go on."""

Snapshot: TypeAlias = dict[Path, tuple[int, int, int]]
"""By path: what changes when a file does."""


def take_snapshot(found: Found) -> Snapshot:
    """Return the state of the files; those that are gone by now are left out."""
    snapshot: Snapshot = {}
    for file in found.files:
        try:
            state = file.path.stat()
        except OSError:
            continue
        snapshot[file.path] = state.st_mtime_ns, state.st_size, state.st_ino
    return snapshot


def message_of(error: Exception) -> str:
    """Return the message of a failure."""
    return os_error_message(error) if isinstance(error, OSError) else str(error)


def watch(
    find: Callable[[], Found],
    known: Snapshot,
    step: Callable[[Found], object],
    pause: Pause,
    tell: Callable[[str], object],
) -> None:
    """Call `step` with the files that have changed or are gone since `known`, again and again.

    A step that fails is repeated at the next look. A failure is told once.
    """
    told, interval = "", INTERVAL
    while pause(interval):
        start = time.perf_counter()
        try:
            found = find()
            now = take_snapshot(found)
            interval = max(INTERVAL, (time.perf_counter() - start) / SHARE)
            if now != known:
                found, now = _settle(find, found, now, pause)
                step(_difference(found, known, now))
                known = now
            told = ""
        except (RagBM25Error, OSError) as error:
            message = message_of(error)
            if message != told:
                tell(message)
            told = message


def _settle(find: Callable[[], Found], found: Found, now: Snapshot, pause: Pause) -> tuple[Found, Snapshot]:
    """Wait until the files stay as they are: they may be written at this moment."""
    for _ in range(MAX_SETTLING):
        if not pause(SETTLING):
            break
        before, found = now, find()
        now = take_snapshot(found)
        if now == before:
            break
    return found, now


def _difference(found: Found, known: Snapshot, now: Snapshot) -> Found:
    """Return the changed files as if they alone were given, with those that are gone; all of them at the beginning."""
    if not known:
        return found
    changed = [file for file in found.files if now.get(file.path) != known.get(file.path)]
    paths = [*(file.path for file in changed), *(path for path in known if path not in now)]
    return replace(found, files=changed, given=dict.fromkeys(paths, False), root=None, name=None, whole=found)
