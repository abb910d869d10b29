"""The files of a bulk load; each is written atomically and verified by its digest.

::

    part-000007.parquet          the rows of a part, in the form that Milvus's bulk import reads
    part-000007.terms.parquet    the part's terms and counts; written last, so it marks a complete part
    part-000007.merged.parquet   the rows, if merging changed ids in their vectors
    vocabulary.parquet           all terms with their final ids
    statistics.parquet           the sum over all parts
    manifest.json                the list of files to load; written last
"""

from __future__ import annotations

import hashlib
import secrets
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag_bm25.checks import require_extra
from rag_bm25.errors import FormatError, short_repr

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE_FORMAT = 1
BLOCK = 1 << 20


@dataclass(frozen=True)
class DataFile:
    """A Parquet file."""

    name: str  # within the folder of the load
    rows: int
    size: int  # bytes
    digest: str  # SHA-256, 64 hex digits


@contextmanager
def write_atomically(path: Path) -> Iterator[Path]:
    """Write a file under a temporary name, and rename it when it is complete."""
    begun = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        yield begun
        begun.replace(path)
    finally:
        begun.unlink(missing_ok=True)


def describe_file(path: Path, rows: int, name: str) -> DataFile:
    """Describe a file that will have a name: size and SHA-256 digest."""
    return DataFile(name, rows, path.stat().st_size, _digest(path))


def require_known(path: Path, kind: object, wanted: str, version: int) -> None:
    """Refuse a file of another kind or a newer format."""
    if kind != wanted:
        raise FormatError(f"{path} is not a file of a {wanted}")
    if type(version) is not int or version > FILE_FORMAT:
        raise FormatError(
            f"{path} has format {short_repr(version)}, this version of rag_bm25 reads up to {FILE_FORMAT}: "
            "upgrade rag_bm25"
        )


@contextmanager
def as_format_error(path: Path, again: str, *others: type[Exception]) -> Iterator[None]:
    """Convert errors of parsing a file, and others, to ``FormatError``; `again` tells how to make it anew."""
    kinds: tuple[type[Exception], ...] = (LookupError, RecursionError, TypeError, ValueError, *others)
    try:
        yield
    except kinds as error:
        raise FormatError(f"{path} is damaged, {again}: {error}") from error


def verify_digest(folder: Path, data: DataFile, again: str) -> None:
    """Verify size and digest of a file; `again` tells how to make it anew."""
    if not isinstance(data.name, str) or Path(data.name).name != data.name:
        raise FormatError(f"a file of {folder} must be in that folder, got {short_repr(data.name)}: {again}")
    path = folder / data.name
    if not path.is_file():
        raise FormatError(f"{path} is missing: {again}")
    if path.stat().st_size != data.size or _digest(path) != data.digest:
        raise FormatError(f"{path} is damaged or of another run: {again}")


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def arrow() -> Any:
    with require_extra('bulk loading needs pyarrow: pip install "rag-bm25[bulk]"'):
        import pyarrow as pa
    return pa


def read_columns(path: Path, *names: str) -> Any:
    """Read some columns of a Parquet file, by default all of them."""
    with parquet().ParquetFile(path) as file:
        return file.read(columns=list(names) or None)


def parquet() -> Any:
    arrow()
    from pyarrow import parquet as pq

    return pq
