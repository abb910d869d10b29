"""The database file of milvus-lite 2.5, read and mended without its engine."""

from __future__ import annotations

import re
import sqlite3
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from rag_bm25.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HEADER_BYTES = 28
ROLLBACK_JOURNAL = b"\x01\x01"  # in place of the versions that mean a write-ahead log
LOGICAL_BITS = 18  # of a stamp, below its milliseconds
STAMP_BYTES = 9  # of a stamp of the years 1978 to 2248, seven bits in each
# Each row ends with its stamp, as protobuf: the engine puts this field last.
STAMP = re.compile(rb"Timestamp\x1a\r\x1a\x0b\n\t(.{9})\(\x01\x10\x01\Z", re.DOTALL)
BYTES_AFTER = 4
END_BYTES = 64


def count_transactions(path: Path) -> int:
    """Return SQLite's change counter, which rises by one with each transaction that is stored."""
    try:
        with path.open("rb", buffering=0) as file:
            header = file.read(HEADER_BYTES)
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error}") from error
    if header[18:20] != ROLLBACK_JOURNAL:
        raise StoreError(
            f"{path} has another journal than the one that milvus-lite 2.5 makes, and whether a write is stored cannot "
            'be told: close the index, run `sqlite3 FILE "pragma journal_mode=delete"`, and open it again'
        )
    return int.from_bytes(header[24:28], "big")


def is_stored_after(transactions: int, path: Path) -> bool:
    """Return whether a transaction was stored since they were counted; a journal that is left will take it back."""
    return count_transactions(path) != transactions and not path.with_name(f"{path.name}-journal").exists()


def newest_stamp(path: Path, collection: str) -> float:
    """Return the latest time of the rows of a collection, in seconds since 1970."""
    with _opened(path) as database:
        return max((seconds for _, seconds in _stamps(database, collection)), default=0.0)


def has_stamps_after(path: Path, seconds: float) -> bool:
    """Return whether a row of any collection has a later time."""
    with _opened(path) as database:
        return any(stamp > seconds for table in _tables(database) for _, stamp in _stamps(database, table))


def stamp_anew(path: Path) -> None:
    """Give the rows of the future the present time. No engine may have the file open."""
    now = time.time()
    with _opened(path) as database, database:
        for table in _tables(database):
            for key, seconds in _stamps(database, table):
                if seconds > now:
                    _write_stamp(database, table, key, now)


def vacuum(path: Path) -> None:
    """Rewrite the file without its free pages. No engine may have it open."""
    with _opened(path) as database:
        database.execute("VACUUM")


def _stamps(database: sqlite3.Connection, table: str) -> Iterator[tuple[int, float]]:
    """Yield key and time of each row."""
    rows = database.execute(f"select id, substr(cast(data as blob), -{END_BYTES}) from {_quote(table)}")  # noqa: S608
    return ((key, _decode(found[1])) for key, end in rows if (found := STAMP.search(end)))


def _write_stamp(database: sqlite3.Connection, table: str, key: int, seconds: float) -> None:
    table = _quote(table)
    (data,) = database.execute(f"select cast(data as blob) from {table} where id = ?", (key,)).fetchone()  # noqa: S608
    end = len(data) - BYTES_AFTER
    data = data[: end - STAMP_BYTES] + _encode(seconds) + data[end:]
    database.execute(f"update {table} set data = cast(? as text) where id = ?", (data, key))  # noqa: S608


def _tables(database: sqlite3.Connection) -> list[str]:
    """Return the names of the collections."""
    names = database.execute("select distinct collection_name from collection_meta").fetchall()
    return [name for (name,) in names]


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True)) as database:
            yield database
    except sqlite3.Error as error:
        raise StoreError(f"cannot read or write {path}: {error}") from error


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _decode(stamp: bytes) -> float:
    number = sum((byte & 127) << (7 * place) for place, byte in enumerate(stamp))
    return (number >> LOGICAL_BITS) / 1000


def _encode(seconds: float) -> bytes:
    number = int(seconds * 1000) << LOGICAL_BITS
    *others, last = ((number >> (7 * place)) & 127 for place in range(STAMP_BYTES))
    return bytes([*(byte | 128 for byte in others), last])
