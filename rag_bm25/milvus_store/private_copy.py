"""A database on a medium that cannot be written to, searched as a copy: both engines write when they only read."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rag_bm25.errors import StoreError
from rag_bm25.milvus_store.lock import held_still

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["PrivateCopy", "can_be_written"]

SPARE_BYTES = 16 * 2**20  # the engine's log, and what it tidies up when it opens a database


def can_be_written(database: Path) -> bool:
    """Tell whether an engine could open a database where it is: it needs a lock beside it, and writes into it."""
    return os.access(database, os.W_OK) and os.access(database.parent, os.W_OK)


class PrivateCopy:
    """A copy of a database in a temporary folder, until it is removed.

    Parameters
    ----------
    database : Path
        A file or a folder that no process has open for writing.
    """

    def __init__(self, database: Path) -> None:
        self._owner = os.getpid()
        with _telling(database), held_still(database):
            self._folder = Path(tempfile.mkdtemp(prefix="rag-bm25-"))
            self.path = self._folder / database.name
            try:
                _require_room(database, self._folder)
                _copy(database, self.path)
            except BaseException:
                self.remove()
                raise

    def remove(self) -> None:
        """Delete the copy, in the process that made it."""
        if self._owner == os.getpid():
            shutil.rmtree(self._folder, ignore_errors=True)


@contextmanager
def _telling(database: Path) -> Iterator[None]:
    """Say what could not be done where the system refuses."""
    try:
        yield
    except (OSError, shutil.Error) as error:
        if isinstance(error, StoreError):
            raise
        full = ": it has no room" if getattr(error, "errno", None) == errno.ENOSPC else ""
        msg = f"cannot copy {database}, which cannot be written to, to {tempfile.gettempdir()}{full}: {error}"
        raise StoreError(msg) from error


def _require_room(database: Path, folder: Path) -> None:
    """Refuse to begin a copy that will not fit."""
    needed = SPARE_BYTES + sum(file.stat().st_size for file in [database, *database.rglob("*")])
    free = shutil.disk_usage(folder).free
    if free < needed:
        msg = (
            f"{database} cannot be written to, and a copy for searching needs {needed / 2**20:,.0f} MiB, of which "
            f"{folder.parent} has {free / 2**20:,.0f}: set TMPDIR to a folder with more room"
        )
        raise StoreError(msg)


def _copy(database: Path, target: Path) -> None:
    """Copy contents, and not the permissions, which may be those of a medium that is only read."""
    if database.is_dir():
        shutil.copytree(database, target, copy_function=shutil.copyfile)
        for folder in (target, *(path for path in target.rglob("*") if path.is_dir())):
            folder.chmod(0o700)
    else:
        for file in database.parent.glob(f"{database.name}*"):
            if file.name.removeprefix(database.name) in JOURNALS:
                shutil.copyfile(file, target.with_name(file.name))


JOURNALS = ("", "-journal", "-wal", "-shm")  # of SQLite: what a process that was killed has left to be rolled back
