"""Lock a database itself: under another name, as a hard link or a mount, it has another ``.lock`` beside it."""

from __future__ import annotations

import os
import re
import socket
import struct
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from rag_bm25.errors import StoreLockedError

if sys.platform != "win32":
    import fcntl
else:
    fcntl: Any = None

FAR = 2**62  # SQLite locks bytes at 2**30: the two never meet, as a lock of the whole file would on NFS
NOT_OPEN = -1
_HOLDER = re.compile(r"process (\d+)(?: on (\S+))?")
_SERVING = re.compile(rb"\0serve\0(?:.*\0)?--http[=\0]([^\0]+)", re.DOTALL)
STRUCT_FLOCK = "hhqqi0q"  # type, whence, start, length and process, of <fcntl.h>, padded


def refusal(database: Path, holder: str) -> str:
    """Return the message that names the holder of a database."""
    served = _address_of_server(holder)
    advice = f"ask `rag-bm25 serve` at {served}, which has it" if served else "close it there"
    return (
        f"{database} is open in {holder}; an embedded database serves one process at a time: {advice}, or use a Milvus "
        "server"
    )


def _address_of_server(holder: str) -> str:
    """Return the address of `rag-bm25 serve`, if that is the holder; "" if it is not known, as off Linux."""
    process = _HOLDER.match(holder)
    if process is None or process[2] not in (None, socket.gethostname()):
        return ""
    with suppress(OSError):
        address = _SERVING.search(Path("/proc", process[1], "cmdline").read_bytes())
        if address and not address[1].endswith(b":0"):  # which stands for a free port, that only the server knows
            return os.fsdecode(address[1])
    return ""


def owner_file(database: Path) -> Path:
    return database.with_name(f"{database.name}.owner")


def read_owner(database: Path) -> str:
    """Return the process that has a database open under this name."""
    try:
        return owner_file(database).read_text(encoding="utf-8")
    except OSError:
        return "another process"


class InodeLock:
    """The right to open a database, under whatever name; on Linux alone.

    Of the file of milvus-lite 2.5, as many bytes are locked as the number of the process says, which tells others the
    holder. The folder of milvus-lite 3 is locked as a whole.
    """

    def __init__(self, database: Path) -> None:
        self._database = database
        self._is_folder = False
        self._file = NOT_OPEN

    def acquire(self, *, shared: bool = False) -> None:
        """Take the lock, or raise an error that names the holder.

        Nothing is locked where there is no database yet, or where the file system has no such locks.
        """
        if self._file != NOT_OPEN or sys.platform != "linux":
            return
        self._is_folder = self._database.is_dir()
        try:
            self._file = os.open(self._database, os.O_RDONLY if shared or self._is_folder else os.O_RDWR)
        except OSError:  # the engine makes it, or tells what is wrong with it
            return
        try:
            self._set(fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        except (BlockingIOError, PermissionError):  # the latter on some file systems
            holder = self._holder()
            self.release()
            raise StoreLockedError(refusal(self._database, f"{holder}, maybe under another name")) from None
        except OSError:
            self.release()

    def release(self) -> None:
        """Unlock, then close: a forked child has the file open, too."""
        if self._file != NOT_OPEN:
            with suppress(OSError):
                self._set(fcntl.LOCK_UN)
            os.close(self._file)
            self._file = NOT_OPEN

    def _set(self, lock: int) -> None:
        if self._is_folder:
            fcntl.flock(self._file, lock | fcntl.LOCK_NB)
        else:
            kinds = {fcntl.LOCK_SH: fcntl.F_RDLCK, fcntl.LOCK_EX: fcntl.F_WRLCK, fcntl.LOCK_UN: fcntl.F_UNLCK}
            self._control(fcntl.F_OFD_SETLK, kinds[lock])

    def _holder(self) -> str:
        if self._is_folder:
            return read_owner(self._database)
        return f"process {struct.unpack(STRUCT_FLOCK, self._control(fcntl.F_OFD_GETLK, fcntl.F_WRLCK))[3]}"

    def _control(self, command: int, kind: int) -> bytes:
        wanted = struct.pack(STRUCT_FLOCK, kind, os.SEEK_SET, FAR, os.getpid(), 0)
        found: bytes = fcntl.fcntl(self._file, command, wanted)
        return found
