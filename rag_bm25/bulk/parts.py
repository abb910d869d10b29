"""Name, write and read the files of a part."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rag_bm25.bulk.files import (
    FILE_FORMAT,
    DataFile,
    arrow,
    as_format_error,
    parquet,
    read_columns,
    require_known,
    write_atomically,
)
from rag_bm25.checks import check_int
from rag_bm25.errors import FormatError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

KIND = "rag_bm25 bulk part"
HEAD, DIGEST = b"rag_bm25", b"rag_bm25.digest"  # keys of the Parquet metadata
MAX_PART = 2**31 - 1

_FILE = re.compile(r"part-[0-9]{6,}(\.terms|\.merged)?\.parquet(\.[0-9a-f]{8}\.tmp)?")


@dataclass(frozen=True)
class PartHead:
    """Description of a part."""

    part: int  # parts count as ingested in this order
    namespace: str
    config: dict[str, Any]  # as stored
    length: int  # total, in the index's unit
    data: DataFile  # its rows


@dataclass(frozen=True, eq=False)
class PartTerms:
    """Terms and counts of a part."""

    terms: list[str]  # in order of first occurrence
    ids: NDArray[np.uint32]  # in the part's vectors
    df: NDArray[np.int64]  # within the part


def data_path(folder: Path, part: int) -> Path:
    """Return the path of a part's rows."""
    return folder / f"{_stem(part)}.parquet"


def terms_path(folder: Path, part: int) -> Path:
    """Return the path of a part's terms and counts."""
    return folder / f"{_stem(part)}.terms.parquet"


def part_numbers(folder: Path) -> list[int]:
    """Return the numbers of the complete parts."""
    names = (path.name.split(".")[0].removeprefix("part-") for path in folder.glob("part-*.terms.parquet"))
    return sorted(int(name) for name in names if name.isdecimal())


def part_files(folder: Path) -> list[Path]:
    """Return all files of parts, temporary ones included, and no files of other tools."""
    return [path for path in folder.glob("part-*") if _FILE.fullmatch(path.name)]


def batch_of(part: int) -> str:
    """Return the batch id of a part's rows; it sorts before the ids that writers make."""
    return f"{part:024x}"


def _stem(part: int) -> str:
    return f"part-{check_int('part', part, 0, MAX_PART):06d}"


def write_terms(folder: Path, head: PartHead, terms: PartTerms) -> None:
    """Write terms and counts, which completes the part."""
    pa = arrow()
    facts = json.dumps({"kind": KIND, "format": FILE_FORMAT, **asdict(head)}, ensure_ascii=False)
    columns = {"term": pa.array(terms.terms, pa.string()), "id": terms.ids, "df": terms.df}
    metadata = {HEAD: facts.encode(), DIGEST: _digest(facts.encode(), terms)}
    with write_atomically(terms_path(folder, head.part)) as path:
        table = pa.table(columns).replace_schema_metadata(metadata)
        parquet().write_table(table, path, use_dictionary=False, compression="zstd")


def read_head(folder: Path, part: int) -> PartHead:
    path = terms_path(folder, part)
    with _reading(path):
        facts = dict(json.loads(parquet().read_schema(path).metadata[HEAD]))
        kind, version = facts.pop("kind"), facts.pop("format")
    require_known(path, kind, KIND, version)
    with _reading(path):
        head = PartHead(**{**facts, "data": DataFile(**facts["data"])})
    if head.part != part:
        raise FormatError(f"{path} is part {head.part}: renaming a file does not change the number of its part")
    return head


def read_terms(folder: Path, part: int) -> PartTerms:
    path = terms_path(folder, part)
    with _reading(path):
        table = read_columns(path)
        metadata = table.schema.metadata
        ids, df = (table.column(name).to_numpy() for name in ("id", "df"))
        terms = PartTerms(table.column("term").to_pylist(), ids, df)
        if _digest(metadata[HEAD], terms) != metadata[DIGEST]:
            raise ValueError("its digest does not match its contents")
    return terms


def _digest(facts: bytes, terms: PartTerms) -> bytes:
    digest = hashlib.sha256(facts)
    for content in (json.dumps(terms.terms).encode(), terms.ids.tobytes(), terms.df.tobytes()):
        digest.update(content)
    return digest.hexdigest().encode()


def _reading(path: Path) -> AbstractContextManager[None]:
    return as_format_error(path, "encode its part again", OSError, arrow().ArrowException)
