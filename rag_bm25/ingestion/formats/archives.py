"""Check archives before they are unpacked."""

from __future__ import annotations

import zipfile
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rag_bm25.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

MAX_UNPACKED = 512 << 20  # bytes
MAX_MEMBERS = 20_000
COMPOUND = bytes.fromhex("d0cf11e0a1b11ae1")  # begins the files of former Office, and those with a password


@contextmanager
def open_archive(file: BinaryIO) -> Iterator[zipfile.ZipFile]:
    """Open an archive of a bounded size; zipfile never yields more than the declared size of a member."""
    if file.read(len(COMPOUND)) == COMPOUND:
        raise InputError(
            "it needs a password, or is a file of Office before 2007 (.doc, .xls, .ppt) under another name"
        )
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            size = sum(member.file_size for member in members)
            if size > MAX_UNPACKED or len(members) > MAX_MEMBERS:
                raise InputError(
                    f"it unpacks to {size:,} bytes in {len(members):,} files; at most {MAX_UNPACKED:,} bytes in "
                    f"{MAX_MEMBERS:,} files are read"
                )
            yield archive
    except zipfile.BadZipFile as error:
        raise InputError(f"damaged, or of another format: {error}") from None
