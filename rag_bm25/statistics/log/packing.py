"""Pack JSON values and counts into the fields of log rows, and unpack them.

Whatever is unpacked is checked: a row may be damaged, or another program's. Every ``ValueError`` raised here becomes a
``FormatError`` that names the row (`LogTable.decode`).
"""

from __future__ import annotations

import base64
import json
import math
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from rag_bm25.statistics.corpus import MAX_COUNT
from rag_bm25.vectors.terms import MAX_ID

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

MAX_PACKED = 65_535  # characters of a row's packed field
MAX_PLAIN = 16 << 20  # bytes that a row may unpack to
COUNTS_PER_ROW = 4_000  # 12 bytes each: fits even where nothing can be compressed
COMPRESSION = 3  # of zlib: two thirds of the way to the smallest size, at a third of the time


def pack_counts(ids: NDArray[np.uint32], df: NDArray[np.int64]) -> Iterator[str]:
    """Cut counts into pieces that each fit into a row."""
    # Not as sparse vectors: clients decode those entry by entry, which for a million terms takes three times as long
    # as everything else together.
    for start in range(0, len(ids), COUNTS_PER_ROW):
        span = slice(start, start + COUNTS_PER_ROW)
        gaps = np.diff(ids[span], prepend=np.uint32(0))
        yield pack(gaps.astype("<u4").tobytes() + df[span].astype("<i8").tobytes())


def unpack_counts(pieces: Iterable[str]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Join the pieces of :func:`pack_counts`, whose ids must rise."""
    unpacked = [_unpack_piece(piece) for piece in pieces]
    ids = np.concatenate([np.empty(0, np.int64), *(ids for ids, _ in unpacked)])
    df = np.concatenate([np.empty(0, np.int64), *(df for _, df in unpacked)])
    if (np.diff(ids, prepend=0) <= 0).any() or (len(ids) and ids[-1] > MAX_ID) or (np.abs(df) > MAX_COUNT).any():
        raise ValueError("its ids do not rise, or its counts are out of range")
    return ids.astype(np.uint32), df


def _unpack_piece(packed: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    plain = unpack(packed)
    entries, rest = divmod(len(plain), 12)
    if rest:
        raise ValueError(f"its counts have {len(plain)} bytes, which is not a multiple of 12")
    gaps = np.frombuffer(plain, "<u4", entries)
    df = np.frombuffer(plain, "<i8", entries, offset=4 * entries)
    return np.cumsum(gaps, dtype=np.int64), df.astype(np.int64)


def json_bytes(value: object) -> bytes:
    """Encode a value as compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def unpack_json(packed: str) -> Any:
    """Undo :func:`pack` of :func:`json_bytes`."""
    return json.loads(unpack(packed))


def pack(plain: bytes) -> str:
    """Compress bytes to ASCII."""
    return base64.b64encode(zlib.compress(plain, COMPRESSION)).decode()


def unpack(packed: str, limit: int = MAX_PLAIN) -> bytes:
    """Undo :func:`pack`, up to a limit: a few bytes may have been made to fill the memory."""
    unpacker = zlib.decompressobj()
    plain = unpacker.decompress(base64.b64decode(packed, validate=True), limit + 1)
    if len(plain) > limit or not unpacker.eof or unpacker.unused_data:
        raise ValueError(f"its packed data is truncated, has trailing data, or unpacks to more than {limit:,} bytes")
    return plain


def get_count(values: Mapping[str, Any], name: str) -> int:
    """Return a value that must be a whole number."""
    value = values[name]
    if type(value) is not int or abs(value) > MAX_COUNT:
        raise ValueError(f"{name!r} must be a whole number below 2**53")
    return value


def get_time(values: Mapping[str, Any]) -> float:
    """Return the value "time", which must be a finite number."""
    value = values["time"]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError("'time' must be a finite number")
    return value


def get_text(values: Mapping[str, Any], name: str) -> str:
    """Return a value that must be a string."""
    return check_texts([values[name]], name)[0]


def check_texts(values: object, name: str) -> list[str]:
    """Return a value that must be a list of strings."""
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ValueError(f"{name!r} must hold strings only")
    return values


def check_dict(value: object, name: str) -> dict[str, Any]:
    """Return a value that must be a JSON object."""
    if not isinstance(value, dict):
        raise ValueError(f"{name!r} must be a JSON object")
    return value
