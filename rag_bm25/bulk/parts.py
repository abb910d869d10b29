"""A part of a bulk load: its number, its names, and what it adds to vocabulary and statistics."""

from __future__ import annotations

import hashlib
import json
import re
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rag_bm25.bulk.files import FILE_FORMAT, DataFile, arrow, parquet, require_known, written_whole
from rag_bm25.errors import FormatError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "PartHead",
    "PartTerms",
    "batch_of",
    "data_path",
    "part_files",
    "part_numbers",
    "read_head",
    "read_terms",
    "terms_path",
    "write_terms",
]

KIND = "rag_bm25 bulk part"
HEAD, DIGEST = b"rag_bm25", b"rag_bm25.digest"  # keys in the metadata of a file
MAX_PART = 2**31 - 1

_FILE = re.compile(r"part-[0-9]{6,}(\.terms|\.merged)?\.parquet(\.[0-9a-f]{8}\.tmp)?")


@dataclass(frozen=True)
class PartHead:
    """What a part says of itself.

    Parameters
    ----------
    part : int
        Its number: parts count as ingested in the order of their numbers.
    namespace : str
        Where its chunks belong.
    config : dict
        Parameters of the index, as they are stored.
    length : int
        Sum of the chunks' lengths, in the index's unit.
    data : DataFile
        Its rows.
    """

    part: int
    namespace: str
    config: dict[str, Any]
    length: int
    data: DataFile


@dataclass(frozen=True, eq=False)
class PartTerms:
    """What a part adds to vocabulary and statistics.

    Parameters
    ----------
    terms : list of str
        Its terms, in the order in which they were first seen.
    ids : ndarray of uint32, shape (n_terms,)
        Their ids in the part's vectors.
    df : ndarray of int64, shape (n_terms,)
        How many chunks of the part have each.
    """

    terms: list[str]
    ids: NDArray[np.uint32]
    df: NDArray[np.int64]


def data_path(folder: Path, part: int) -> Path:
    """Return where the rows of a part are.

    Parameters
    ----------
    folder : Path
        Folder of the load.
    part : int
        Number of the part.

    Returns
    -------
    Path
        It need not be there.
    """
    return folder / f"{_stem(part)}.parquet"


def terms_path(folder: Path, part: int) -> Path:
    """Return where the partial statistics of a part are.

    Parameters
    ----------
    folder : Path
        Folder of the load.
    part : int
        Number of the part.

    Returns
    -------
    Path
        It need not be there.
    """
    return folder / f"{_stem(part)}.terms.parquet"


def part_numbers(folder: Path) -> list[int]:
    """Return which parts are there.

    Parameters
    ----------
    folder : Path
        Folder of the load.

    Returns
    -------
    list of int
        Rising.
    """
    names = (path.name.split(".")[0].removeprefix("part-") for path in folder.glob("part-*.terms.parquet"))
    return sorted(int(name) for name in names if name.isdecimal())


def part_files(folder: Path) -> list[Path]:
    """Return all files of parts, whole or begun: others, such as those of Spark, may have names that begin alike.

    Parameters
    ----------
    folder : Path
        Folder of the load.

    Returns
    -------
    list of Path
        In no order.
    """
    return [path for path in folder.glob("part-*") if _FILE.fullmatch(path.name)]


def batch_of(part: int) -> str:
    """Return the batch id of the rows of a part: less than every id that a writer makes.

    Parameters
    ----------
    part : int
        Its number.

    Returns
    -------
    str
        24 hex digits.

    Examples
    --------
    >>> batch_of(7)
    '000000000000000000000007'
    """
    return f"{part:024x}"


def _stem(part: int) -> str:
    if isinstance(part, bool) or not isinstance(part, int) or not 0 <= part <= MAX_PART:
        msg = f"part must be an int in 0..{MAX_PART}, got {part!r}"
        raise ParameterError(msg)
    return f"part-{part:06d}"


def write_terms(folder: Path, head: PartHead, terms: PartTerms) -> None:
    """Write the partial statistics of a part: from then on, the part is there.

    Parameters
    ----------
    folder : Path
        Folder of the load.
    head : PartHead
        What the part says of itself.
    terms : PartTerms
        What it adds.
    """
    pa = arrow()
    facts = json.dumps({"kind": KIND, "format": FILE_FORMAT, **asdict(head)}, ensure_ascii=False)
    columns = {"term": pa.array(terms.terms, pa.string()), "id": terms.ids, "df": terms.df}
    metadata = {HEAD: facts.encode(), DIGEST: _digest(facts.encode(), terms)}
    with written_whole(terms_path(folder, head.part)) as path:
        table = pa.table(columns).replace_schema_metadata(metadata)
        parquet().write_table(table, path, use_dictionary=False, compression="zstd")


def read_head(folder: Path, part: int) -> PartHead:
    """Read what a part says of itself.

    Parameters
    ----------
    folder : Path
        Folder of the load.
    part : int
        Number of the part.

    Returns
    -------
    PartHead
        As it was written.

    Raises
    ------
    FormatError
        The file is something else, damaged, or of a newer version.
    """
    path = terms_path(folder, part)
    with _as_format_error(path):
        facts = dict(json.loads(parquet().read_schema(path).metadata[HEAD]))
        kind, version = facts.pop("kind"), facts.pop("format")
    require_known(path, kind, KIND, version)
    with _as_format_error(path):
        head = PartHead(**{**facts, "data": DataFile(**facts["data"])})
    if head.part != part:
        msg = f"{path} is part {head.part}: the number of a part is in it, and cannot be changed by renaming its files"
        raise FormatError(msg)
    return head


def read_terms(folder: Path, part: int) -> PartTerms:
    """Read what a part adds to vocabulary and statistics.

    Parameters
    ----------
    folder : Path
        Folder of the load.
    part : int
        Number of the part.

    Returns
    -------
    PartTerms
        As it was written.

    Raises
    ------
    FormatError
        The file is damaged.
    """
    path = terms_path(folder, part)
    with _as_format_error(path):
        with parquet().ParquetFile(path) as file:
            table = file.read()
        metadata = table.schema.metadata
        ids, df = (table.column(name).to_numpy() for name in ("id", "df"))
        terms = PartTerms(table.column("term").to_pylist(), ids, df)
        if _digest(metadata[HEAD], terms) != metadata[DIGEST]:
            msg = "it holds something else than was written"
            raise ValueError(msg)
    return terms


def _digest(facts: bytes, terms: PartTerms) -> bytes:
    """Return what tells the contents of a file from others."""
    digest = hashlib.sha256(facts)
    for content in (json.dumps(terms.terms).encode(), terms.ids.tobytes(), terms.df.tobytes()):
        digest.update(content)
    return digest.hexdigest().encode()


@contextmanager
def _as_format_error(path: Path) -> Iterator[None]:
    """Say which file cannot be read."""
    pa = arrow()
    try:
        yield
    except (OSError, LookupError, RecursionError, TypeError, ValueError, pa.ArrowException) as error:
        msg = f"{path} is damaged, encode its part again: {error}"
        raise FormatError(msg) from error
