"""The files of a bulk load: each is whole or not there at all, and known by its bytes.

::

    part-000007.parquet          the rows of a part, in the form that Milvus's bulk import reads
    part-000007.terms.parquet    what the part adds to the statistics; a part is there when this file is
    part-000007.merged.parquet   the rows, where merging had to change ids in their vectors
    vocabulary.parquet           all terms, with the ids that they have in the whole
    statistics.parquet           the sum over all parts
    manifest.json                which files to load; they can be loaded when this one is there
"""

from __future__ import annotations

import hashlib
import secrets
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag_bm25.errors import FormatError, MissingExtraError, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "FILE_FORMAT",
    "DataFile",
    "arrow",
    "described",
    "parquet",
    "require_known",
    "require_sound",
    "written_whole",
]

FILE_FORMAT = 1
BLOCK = 1 << 20


@dataclass(frozen=True)
class DataFile:
    """A Parquet file.

    Parameters
    ----------
    name : str
        Its name, in the folder of the load.
    rows : int
        How many rows there are.
    size : int
        In bytes.
    digest : str
        SHA-256 of its bytes, 64 hex digits.
    """

    name: str
    rows: int
    size: int
    digest: str


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Let a file be written under another name, and give it its own when all of it is there.

    Parameters
    ----------
    path : Path
        The file; replaced where it is there.

    Yields
    ------
    Path
        What to write; nobody else writes to it, and it goes away where writing fails.
    """
    begun = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        yield begun
        begun.replace(path)
    finally:
        begun.unlink(missing_ok=True)


def described(path: Path, rows: int, name: str | None = None) -> DataFile:
    """Read a file once, and tell what tells it from others.

    Parameters
    ----------
    path : Path
        The file.
    rows : int
        How many rows are in it.
    name : str, optional
        What it is to be called; by default as it is.

    Returns
    -------
    DataFile
        With size and digest.
    """
    return DataFile(name or path.name, rows, path.stat().st_size, _digest(path))


def require_known(path: Path, kind: object, wanted: str, version: int) -> None:
    """Refuse a file that is something else, or of a newer version.

    Parameters
    ----------
    path : Path
        The file.
    kind : object
        What it says it is.
    wanted : str
        What it must be.
    version : int
        The version of its format.

    Raises
    ------
    FormatError
        It cannot be read.
    """
    if kind != wanted:
        msg = f"{path} is not a file of a {wanted}"
        raise FormatError(msg)
    if type(version) is not int or version > FILE_FORMAT:
        msg = (
            f"{path} has format {shown(version)}, this version of rag_bm25 reads up to {FILE_FORMAT}: upgrade rag_bm25"
        )
        raise FormatError(msg)


def require_sound(folder: Path, data: DataFile, again: str) -> None:
    """Compare a file with what was written down of it.

    Parameters
    ----------
    folder : Path
        Where it is.
    data : DataFile
        What was written down.
    again : str
        What makes it anew, for the message.

    Raises
    ------
    FormatError
        It is missing, or other bytes than were written.
    """
    if not isinstance(data.name, str) or Path(data.name).name != data.name:
        msg = f"a file of {folder} must lie in it, got {shown(data.name)}: {again}"
        raise FormatError(msg)
    path = folder / data.name
    if not path.is_file():
        msg = f"{path} is missing: {again}"
        raise FormatError(msg)
    if path.stat().st_size != data.size or _digest(path) != data.digest:
        msg = f"{path} is damaged, or of another run than what belongs to it: {again}"
        raise FormatError(msg)


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def arrow() -> Any:
    """Import pyarrow.

    Returns
    -------
    module
        ``pyarrow``.

    Raises
    ------
    MissingExtraError
        It is not installed.
    """
    try:
        import pyarrow as pa
    except ImportError as error:
        msg = f'bulk loading needs pyarrow: pip install "rag-bm25[bulk]" ({error})'
        raise MissingExtraError(msg) from error
    return pa


def parquet() -> Any:
    """Import the part of pyarrow that reads and writes files.

    Returns
    -------
    module
        ``pyarrow.parquet``.

    Raises
    ------
    MissingExtraError
        It is not installed.
    """
    arrow()
    from pyarrow import parquet as pq

    return pq
