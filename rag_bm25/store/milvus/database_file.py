"""A database file before its engine opens it: what is in it, which process has it, and a copy if it is read-only.

The engines' own locks fail: a second process that milvus-lite 2.5 refuses removes the lock of the first one, and a
third one then writes beside it.
"""

from __future__ import annotations

import errno
import os
import shutil
import socket
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from rag_bm25.errors import StoreError, StoreLockedError
from rag_bm25.store.milvus.inode_lock import InodeLock, owner_file, read_owner, refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

SQLITE_HEADER = b"SQLite format 3\0"  # of milvus-lite 2.5; https://www.sqlite.org/fileformat.html
LITE3_NAMES = frozenset({"LOCK", "collections", "databases"})  # in every folder of milvus-lite 3
SPARE_BYTES = 16 * 2**20  # for the engine's log and its repairs when it opens a database
JOURNALS = ("", "-journal", "-wal", "-shm")  # of SQLite, which a killed process leaves to be rolled back


def require_database(path: Path) -> None:
    """Refuse all but a file or folder of an engine; what is missing, empty or unreadable is for the engine."""
    with suppress(PermissionError):
        if path.exists() and not path.is_file() and not path.is_dir():
            raise StoreError(f"{path} is no database: it is a pipe, a socket or a device; give the path of a file")
        if path.is_file() and not _begins_as_database(path):
            raise StoreError(
                f"{path} is no database: it does not begin as the files of milvus-lite do. Nothing was changed; give "
                "the path of a database, or one where there is no file yet"
            )
        if path.is_dir() and not _has_database(path):
            raise StoreError(
                f"{path} is no database: the folder has other files, and none of milvus-lite. Nothing was changed; "
                "give the path of a database, or one where there is nothing yet"
            )


def _begins_as_database(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(SQLITE_HEADER)) in (SQLITE_HEADER, b"")


def _has_database(path: Path) -> bool:
    names = {entry.name for entry in path.iterdir()}
    return not names or not names.isdisjoint(LITE3_NAMES)


class _OwnedLock(FileLock):  # type: ignore[misc, unused-ignore]  # the class depends on the platform
    """A file lock that a forked child cannot release in its parent's name."""

    owner = 0

    def release(self, force: bool = False) -> None:
        if self.owner == os.getpid():
            super().release(force=force)


@contextmanager
def block_opening(database: Path) -> Iterator[None]:
    """Keep other processes from opening a database that this one can only read."""
    lock = InodeLock(database)
    lock.acquire(shared=True)
    try:
        yield
    finally:
        lock.release()


class DatabaseLock:
    """The right to open a database file, held by one process at a time.

    The lock is ``<database>.lock`` beside it, and one on the database itself; ``<database>.owner`` names the holder.
    """

    def __init__(self, database: Path) -> None:
        self._database = database
        self._owner = owner_file(database)
        self._lock = _OwnedLock(database.with_name(f"{database.name}.lock"), timeout=0, thread_local=False)
        self.inode = InodeLock(database)

    def acquire(self) -> None:
        """Take the lock, or raise an error that names its holder."""
        try:
            self._lock.acquire()
        except (Timeout, FileNotFoundError):  # the latter by filelock 3
            if not Path(self._lock.lock_file).exists():  # such a folder takes no files, as /proc
                msg = f"cannot lock {self._database}: its folder takes no lock file; check that it is writable"
                raise StoreError(msg) from None
            raise StoreLockedError(refusal(self._database, read_owner(self._database))) from None
        except (OSError, NotImplementedError) as error:  # the latter by filelock 3, without flock
            raise StoreError(
                f"cannot lock {self._database}: {error}; check that its folder is writable, or open it with "
                "read_only=True, which searches a copy of a database that cannot be written to"
            ) from None
        self._lock.owner = os.getpid()
        try:
            self.inode.acquire()
        except StoreLockedError:
            self._lock.release()
            raise
        with suppress(OSError):  # names the holder for others, nothing depends on it
            self._write_owner()

    def _write_owner(self) -> None:
        self._owner.unlink(missing_ok=True)
        with self._owner.open("x", encoding="utf-8") as file:  # never through a link
            file.write(f"process {os.getpid()} on {socket.gethostname()}")

    def release(self) -> None:
        """Release the lock, unless a parent process holds it."""
        if self._lock.owner == os.getpid():
            with suppress(OSError):
                self._owner.unlink()
            self.inode.release()
            self._lock.release()


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
