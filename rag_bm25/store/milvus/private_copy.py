"""Copy a database that cannot be written to, to search it: both engines write even when they read."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rag_bm25.errors import StoreError
from rag_bm25.store.milvus.lock import block_opening

if TYPE_CHECKING:
    from collections.abc import Iterator

SPARE_BYTES = 16 * 2**20  # for the engine's log and its repairs when it opens a database
JOURNALS = ("", "-journal", "-wal", "-shm")  # of SQLite, which a killed process leaves to be rolled back


def can_be_written(database: Path) -> bool:
    """Return whether an engine can open a database in place: it writes into it, and needs a lock beside it."""
    return os.access(database, os.W_OK) and os.access(database.parent, os.W_OK)


class PrivateCopy:
    """A copy, in a temporary folder, of a database that no process has open for writing."""

    def __init__(self, database: Path) -> None:
        self._owner = os.getpid()
        with _translate_errors(database), block_opening(database):
            self._folder = Path(tempfile.mkdtemp(prefix="rag-bm25-"))
            self.path = self._folder / database.name
            try:
                _require_room(database, self._folder)
                _copy(database, self.path)
            except BaseException:
                self.remove()
                raise

    def remove(self) -> None:
        if self._owner == os.getpid():
            shutil.rmtree(self._folder, ignore_errors=True)


@contextmanager
def _translate_errors(database: Path) -> Iterator[None]:
    """Translate errors of the system."""
    try:
        yield
    except (OSError, shutil.Error) as error:
        if isinstance(error, StoreError):
            raise
        full = ": its disk is full" if getattr(error, "errno", None) == errno.ENOSPC else ""
        msg = f"cannot copy {database}, which cannot be written to, to {tempfile.gettempdir()}{full}: {error}"
        raise StoreError(msg) from error


def _require_room(database: Path, folder: Path) -> None:
    """Refuse a copy that will not fit."""
    needed = SPARE_BYTES + sum(file.stat().st_size for file in [database, *database.rglob("*")])
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise StoreError(
            f"{database} cannot be written to, and a copy for searching needs {needed / 2**20:,.0f} MiB, but "
            f"{folder.parent} has {free / 2**20:,.0f} MiB free: set TMPDIR to a folder with more room"
        )


def _copy(database: Path, target: Path) -> None:
    """Copy contents without permissions, which may be read-only."""
    if database.is_dir():
        shutil.copytree(database, target, copy_function=shutil.copyfile)
        for folder in (target, *(path for path in target.rglob("*") if path.is_dir())):
            folder.chmod(0o700)
    else:
        for file in database.parent.glob(f"{database.name}*"):
            if file.name.removeprefix(database.name) in JOURNALS:
                shutil.copyfile(file, target.with_name(file.name))
