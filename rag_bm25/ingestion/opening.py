"""Open files that others may replace while they are read."""

from __future__ import annotations

import errno
import os
import stat
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rag_bm25.errors import InputError

if TYPE_CHECKING:
    from typing import BinaryIO

# Windows has none of these. Linux has O_PATH and macOS O_SEARCH, which enter folders that cannot be listed.
_FILE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_FOLDER = (
    getattr(os, "O_PATH", getattr(os, "O_SEARCH", os.O_RDONLY))
    | getattr(os, "O_DIRECTORY", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_CLOEXEC", 0)
)
_REPLACED = {errno.ELOOP, errno.ENOTDIR, errno.ENXIO}  # by a link, in place of a folder, by a socket


def open_regular(path: Path, real: Path) -> BinaryIO:
    """Open a regular file at the real path that it had when it was found; no link is followed on the way there."""
    return open(path, "rb", opener=partial(_open_regular, real))


def real_path(path: Path) -> Path:
    """Resolve links, also where they lead to themselves or to nothing."""
    return Path(os.path.realpath(path))


def _open_regular(real: Path, path: str, flags: int) -> int:
    try:
        descriptor = _open_without_links(real, flags | _FILE)
    except OSError as error:
        if error.errno in _REPLACED:
            raise InputError(_replaced_message(path)) from None
        raise OSError(error.errno, error.strerror, path) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise InputError(_replaced_message(path))
    return descriptor


def _open_without_links(real: Path, flags: int) -> int:
    """Open a file from folder to folder, so that no link is followed, whenever it was put there."""
    if os.open not in os.supports_dir_fd:
        if os.path.normcase(os.path.realpath(real)) != os.path.normcase(real):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        return os.open(real, flags)
    names = real.parts[1:]
    opened = os.open(real.anchor, _FOLDER)
    for how, name in zip([*[_FOLDER] * (len(names) - 1), flags], names, strict=True):
        above = opened
        try:
            opened = os.open(name, how, dir_fd=above)
        finally:
            os.close(above)
    return opened


def _replaced_message(path: str) -> str:
    return f"{path}: not read: a link, a pipe or the like is in its place, or in that of its folder"
