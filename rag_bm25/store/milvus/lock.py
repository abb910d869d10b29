"""Lock a database file for one process.

The engines' own locks fail: a second process that milvus-lite 2.5 refuses removes the lock of the first one, and a
third one then writes beside it.
"""

from __future__ import annotations

import os
import socket
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from rag_bm25.errors import StoreError, StoreLockedError
from rag_bm25.store.milvus.inode_lock import InodeLock, owner_file, read_owner, refusal

if TYPE_CHECKING:
    from collections.abc import Iterator


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
