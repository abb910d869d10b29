"""The counts of an encoder as one portable file: gzip of JSON lines, a header and then a line for each term.

::

    {"kind": "rag_bm25 statistics", "format": 1, "config": {...}, "chunks": 2, "length": 57}
    ["milvus", 725768567, 1]
"""

from __future__ import annotations

import gzip
import json
import zlib
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rag_bm25.errors import FormatError
from rag_bm25.statistics.corpus import MAX_COUNT, Contribution
from rag_bm25.vectors.sparse import sorted_items
from rag_bm25.vectors.terms import MAX_ID, Vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import TextIO


KIND = "rag_bm25 statistics"
FILE_FORMAT = 1
MAX_LINE = 64 << 20  # characters; the longest is the header, with the user's dictionary

_NOT_GZIP = (gzip.BadGzipFile, zlib.error)


def write_statistics(path: str | Path, config: Mapping[str, Any], total: Contribution, vocabulary: Vocabulary) -> None:
    """Write config, counts and vocabulary to a file, replacing an existing one only when it is complete."""
    dfs: dict[int, int] = dict(zip(total.ids.tolist(), total.df.tolist(), strict=True))
    sums = {"chunks": total.num_chunks, "length": total.total_length}
    header = {"kind": KIND, "format": FILE_FORMAT, "config": config, **sums}
    known = ((term, vocabulary.id(term)) for term in vocabulary.after(0))
    unnamed = ((None, id_) for id_ in dfs if vocabulary.term(id_) is None)
    with replacing(path) as part, gzip.open(part, "wt", encoding="utf-8") as file:
        file.write(json.dumps(header, ensure_ascii=False) + "\n")
        for terms in (known, unnamed):
            for term, id_ in terms:
                file.write(json.dumps([term, id_, dfs.get(id_ or 0, 0)], ensure_ascii=False) + "\n")


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield the place of a new file, which replaces the one at a path when it is complete."""
    part = Path(f"{path}.part")
    try:
        yield part
        part.replace(path)
    except OSError as error:
        error.filename, error.filename2 = str(path), None  # the user knows nothing of the part
        raise


def read_statistics(path: str | Path) -> tuple[dict[str, Any], Contribution, Vocabulary]:
    """Read config, counts and vocabulary from a file."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            lines = map(json.loads, _lines(file))
            header = _check_header(path, next(lines, None))
            chunks, length = _whole(header["chunks"], "chunks"), _whole(header["length"], "length")
            df, vocabulary = _read_terms(lines)
    except (AttributeError, EOFError, LookupError, RecursionError, TypeError, ValueError, *_NOT_GZIP) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"{path} is not a statistics file, or is damaged: {error}") from error
    return header["config"], Contribution(chunks, length, *sorted_items(df, np.int64)), vocabulary


def _lines(file: TextIO) -> Iterator[str]:
    """Yield the lines; a few bytes may have been made to unpack to one that fills the memory."""
    while line := file.readline(MAX_LINE + 1):
        if len(line) > MAX_LINE:
            raise ValueError(f"a line has more than {MAX_LINE:,} characters")
        yield line


def _check_header(path: str | Path, header: Any) -> dict[str, Any]:
    if not isinstance(header, dict) or header.get("kind") != KIND:
        raise FormatError(f"{path} is not a statistics file")
    if _whole(header["format"], "format") > FILE_FORMAT:
        raise FormatError(f"{path} has format {header['format']}, this version of rag_bm25 reads up to {FILE_FORMAT}")
    if not isinstance(header["config"], dict):
        raise TypeError("its config must be a JSON object")
    return header


def _read_terms(lines: Iterable[tuple[str | None, int, int]]) -> tuple[dict[int, int], Vocabulary]:
    """Return the df > 0 of each id, and the terms."""
    vocabulary = Vocabulary()
    dfs: dict[int, int] = {}
    for term, id_, df in lines:
        checked = _whole(id_, "id", 1, MAX_ID)
        if term is not None:
            term.encode()  # as everything that is stored
            vocabulary.add({term: checked})
        if _whole(df, "df"):
            dfs[checked] = df
    return dfs, vocabulary


def _whole(value: object, name: str, lowest: int = -MAX_COUNT, highest: int = MAX_COUNT) -> int:
    if type(value) is not int or not lowest <= value <= highest:
        raise ValueError(f"{name} must be a whole number in {lowest}..{highest}")
    return value
