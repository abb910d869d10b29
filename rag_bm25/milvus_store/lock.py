"""One process per database file.

The engines' own locks do not hold: a refused second opener of milvus-lite 2.5 removes the lock of the first, and a
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

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["DatabaseLock", "held_still"]


class _OwnedLock(FileLock):  # type: ignore[misc, unused-ignore]  # the class depends on the platform
    """A file lock that a forked child cannot release in its parent's name."""

    owner = 0

    def release(self, force: bool = False) -> None:
        """Release the lock, in the process that took it."""
        if self.owner == os.getpid():
            super().release(force=force)


def _lock_file(database: Path) -> Path:
    """Return the file beside a database that is locked."""
    return database.with_name(f"{database.name}.lock")


@contextmanager
def held_still(database: Path) -> Iterator[None]:
    """Let no process open a database that cannot be written to from here, but perhaps from elsewhere.

    Raises
    ------
    StoreLockedError
        If a process of this machine has it open.
    """
    try:
        import fcntl

        file = os.open(_lock_file(database), os.O_RDONLY)
    except (ImportError, OSError):  # no such locks, or nobody has ever opened it
        yield
        return
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise StoreLockedError(DatabaseLock(database).refusal()) from None
    finally:
        os.close(file)


class DatabaseLock:
    """The right to open a database file; held by one process at a time.

    Parameters
    ----------
    database : Path
        The database; the lock is ``<database>.lock`` beside it, and ``<database>.owner`` names the holder.
    """

    def __init__(self, database: Path) -> None:
        self._database = database
        self._owner = database.with_name(f"{database.name}.owner")
        self._lock = _OwnedLock(_lock_file(database), timeout=0, thread_local=False)

    def acquire(self) -> None:
        """Take the lock at once.

        Raises
        ------
        StoreLockedError
            If another process has it; the message names the holder.
        StoreError
            If no lock can be made there.
        """
        try:
            self._lock.acquire()
        except Timeout:
            if not Path(self._lock.lock_file).exists():  # such a folder takes no files, as /proc
                msg = f"cannot lock {self._database}: its folder takes no lock file; check that it is writable"
                raise StoreError(msg) from None
            raise StoreLockedError(self.refusal()) from None
        except OSError as error:
            msg = (
                f"cannot lock {self._database}: {error}; check that its folder is writable, or open it with "
                "read_only=True, which searches a copy of what cannot be written to"
            )
            raise StoreError(msg) from None
        self._lock.owner = os.getpid()
        with suppress(OSError):  # names the holder for others, nothing depends on it
            self._owner.write_text(f"process {os.getpid()} on {socket.gethostname()}", encoding="utf-8")

    def release(self) -> None:
        """Give the lock back; in a forked child nothing happens."""
        if self._lock.owner == os.getpid():
            with suppress(OSError):
                self._owner.unlink()
            self._lock.release()

    def refusal(self) -> str:
        """Name the holder."""
        try:
            holder = self._owner.read_text(encoding="utf-8")
        except OSError:
            holder = "another process"
        return (
            f"{self._database} is open in {holder}; an embedded database serves one process at a time: close it "
            "there, or use a Milvus server"
        )
