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

if TYPE_CHECKING:
    from collections.abc import Iterator


class _OwnedLock(FileLock):  # type: ignore[misc, unused-ignore]  # the class depends on the platform
    """A file lock that a forked child cannot release in its parent's name."""

    owner = 0

    def release(self, force: bool = False) -> None:
        if self.owner == os.getpid():
            super().release(force=force)


def _lock_file(database: Path) -> Path:
    return database.with_name(f"{database.name}.lock")


@contextmanager
def block_opening(database: Path) -> Iterator[None]:
    """Keep other processes of this machine from opening a database that this one can only read."""
    try:
        import fcntl

        file = os.open(_lock_file(database), os.O_RDONLY)
    except (ImportError, OSError):  # no such locks here, or the database was never opened
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
    """The right to open a database file, held by one process at a time.

    The lock is ``<database>.lock`` beside it; ``<database>.owner`` names the holder.
    """

    def __init__(self, database: Path) -> None:
        self._database = database
        self._owner = database.with_name(f"{database.name}.owner")
        self._lock = _OwnedLock(_lock_file(database), timeout=0, thread_local=False)

    def acquire(self) -> None:
        """Take the lock, or raise an error that names its holder."""
        try:
            self._lock.acquire()
        except (Timeout, FileNotFoundError):  # the latter by filelock 3.12
            if not Path(self._lock.lock_file).exists():  # such a folder takes no files, as /proc
                msg = f"cannot lock {self._database}: its folder takes no lock file; check that it is writable"
                raise StoreError(msg) from None
            raise StoreLockedError(self.refusal()) from None
        except OSError as error:
            raise StoreError(
                f"cannot lock {self._database}: {error}; check that its folder is writable, or open it with "
                "read_only=True, which searches a copy of a database that cannot be written to"
            ) from None
        self._lock.owner = os.getpid()
        with suppress(OSError):  # names the holder for others, nothing depends on it
            self._owner.write_text(f"process {os.getpid()} on {socket.gethostname()}", encoding="utf-8")

    def release(self) -> None:
        """Release the lock, unless a parent process holds it."""
        if self._lock.owner == os.getpid():
            with suppress(OSError):
                self._owner.unlink()
            self._lock.release()

    def refusal(self) -> str:
        """Return the message that names the holder."""
        try:
            holder = self._owner.read_text(encoding="utf-8")
        except OSError:
            holder = "another process"
        return (
            f"{self._database} is open in {holder}; an embedded database serves one process at a time: close it "
            "there, or use a Milvus server"
        )
