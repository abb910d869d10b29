"""Recognise the databases of both embedded engines, before one reads or changes what lies at a path."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from rag_bm25.errors import StoreError

if TYPE_CHECKING:
    from pathlib import Path

SQLITE_HEADER = b"SQLite format 3\0"  # of milvus-lite 2.5; https://www.sqlite.org/fileformat.html
LITE3_NAMES = frozenset({"LOCK", "collections", "databases"})  # in every folder of milvus-lite 3


def require_database(path: Path) -> None:
    """Refuse a file or folder that has other contents; what is missing, empty or unreadable is for the engine."""
    with suppress(PermissionError):
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
