"""One process per database file.

The engines' own locks do not hold: a refused second opener of milvus-lite 2.5 removes the lock of the first, and a
third one then writes beside it.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from rag_bm25.errors import StoreError, StoreLockedError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["DatabaseLock"]


class _OwnedLock(FileLock):  # type: ignore[misc, unused-ignore]  # the class depends on the platform
    """A file lock that a forked child cannot release in its parent's name."""

    owner = 0

    def release(self, force: bool = False) -> None:
        """Release the lock, in the process that took it."""
        if self.owner == os.getpid():
            super().release(force=force)


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
        self._lock = _OwnedLock(database.with_name(f"{database.name}.lock"), timeout=0, thread_local=False)

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
            raise StoreLockedError(self._refusal()) from None
        except OSError as error:
            msg = f"cannot lock {self._database}: {error}; check that its folder is writable"
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

    def _refusal(self) -> str:
        """Name the holder."""
        try:
            holder = self._owner.read_text(encoding="utf-8")
        except OSError:
            holder = "another process"
        return (
            f"{self._database} is open in {holder}; an embedded database serves one process at a time: close it "
            "there, or use a Milvus server"
        )
