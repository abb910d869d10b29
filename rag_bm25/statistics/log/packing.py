"""Pack JSON values and counts into the fields of log rows, and unpack them.

Whatever is unpacked is checked: a row may be damaged, or another program's. Every ``ValueError`` raised here becomes a
``FormatError`` that names the row (`LogTable.decode`).
"""

from __future__ import annotations

import base64
import json
import math
import zlib
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from rag_bm25.checks import is_number
from rag_bm25.statistics.corpus import MAX_COUNT
from rag_bm25.statistics.count_table import Counts
from rag_bm25.vectors.terms import MAX_ID

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from numpy.typing import NDArray

MAX_PACKED = 65_535  # characters of a row's packed field
MAX_PLAIN = 16 << 20  # bytes that a row may unpack to
COUNTS_PER_ROW = 4_000  # 12 bytes and 2 bits each: fits even where nothing can be compressed
_T = TypeVar("_T")

COMPRESSION = 3  # of zlib: two thirds of the way to the smallest size, at a third of the time


MARKED = "~"  # first character of a page that has the channel of each id, which base64 does not use


def pack_page(counts: Counts) -> str:
    """Pack at most `COUNTS_PER_ROW` counts; ids may begin anew within a page, for the next namespace."""
    # As planes of bytes, of which the upper ones are nearly all zero: zlib takes a third of the time, and makes less.
    gaps = np.diff(counts.ids, prepend=np.uint32(0))  # modulo 2**32, and so are their sums
    plain = _to_planes(gaps.astype("<u4")) + _to_planes(counts.df.astype("<i8"))
    if counts.channels is None:
        return pack(plain)
    return MARKED + pack(plain + np.packbits([counts.channels & 1, counts.channels >> 1]).tobytes())


def pack_pages(counts: Counts) -> Iterator[str]:
    """Cut counts into pages that each fit into a row."""
    return (pack_page(counts[at : at + COUNTS_PER_ROW]) for at in range(0, len(counts), COUNTS_PER_ROW))


def unpack_pages(pages: Iterable[str]) -> Counts:
    """Join the pages of :func:`pack_pages`, whose ids must rise."""
    counts = Counts.joined(map(unpack_page, pages))
    ids = counts.ids
    if (ids[1:] <= ids[:-1]).any() or (len(ids) and not 0 < ids[0] <= ids[-1] <= MAX_ID):
        raise ValueError("its ids do not rise, or are out of range")
    return counts


def unpack_page(packed: str) -> Counts:
    """Undo :func:`pack_page`."""
    if packed.startswith(MARKED):
        plain = unpack(packed[len(MARKED) :])
        entries = 4 * len(plain) // 49  # of 12 bytes and 2 bits
        at = 12 * entries
        if len(plain) != at + -(-entries // 4):
            raise ValueError(f"its counts have {len(plain)} bytes, which are not 12 each and 2 bits")
        low, high = np.unpackbits(np.frombuffer(plain, np.uint8, offset=at), count=2 * entries).reshape(2, entries)
        return _unpack_planes(plain[:at], low + 2 * high)
    return _unpack_planes(unpack(packed))


def _unpack_planes(plain: bytes, channels: NDArray[np.uint8] | None = None) -> Counts:
    entries = _num_entries(plain)
    gaps, df = _from_planes(plain[: 4 * entries], "<u4"), _from_planes(plain[4 * entries :], "<i8")
    if ((df > MAX_COUNT) | (df < -MAX_COUNT)).any():
        raise ValueError("its counts are out of range")
    return Counts(np.cumsum(gaps, dtype=np.uint32), df.astype(np.int64), channels)


def _to_planes(values: NDArray[Any]) -> bytes:
    """Return the first byte of each value, then the second of each, and so on."""
    planes = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), -1).T
    return bytes(planes.tobytes())


def _from_planes(planes: bytes, dtype: str) -> NDArray[Any]:
    size = np.dtype(dtype).itemsize
    return np.ascontiguousarray(np.frombuffer(planes, np.uint8).reshape(size, -1).T).view(dtype).reshape(-1)


def _num_entries(plain: bytes) -> int:
    entries, rest = divmod(len(plain), 12)
    if rest:
        raise ValueError(f"its counts have {len(plain)} bytes, which is not a multiple of 12")
    return entries


def json_bytes(value: object) -> bytes:
    """Encode a value as compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def unpack_json(packed: str) -> Any:
    """Undo :func:`pack` of :func:`json_bytes`."""
    return json.loads(unpack(packed))


def pack_in_pieces(items: list[_T], encode: Callable[[list[_T]], bytes]) -> list[tuple[list[_T], str]]:
    """Halve a list until each piece fits into a row, packed and unpacked."""
    plain = encode(items)
    packed = pack(plain)
    if len(packed) <= MAX_PACKED and len(plain) <= MAX_PLAIN:
        return [(items, packed)]
    half = len(items) // 2
    return pack_in_pieces(items[:half], encode) + pack_in_pieces(items[half:], encode)


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


def check_counts(values: object, name: str) -> list[int]:
    """Return a value that must be a list of whole numbers."""
    if not isinstance(values, list):
        raise ValueError(f"{name!r} must be a list")
    return [get_count({name: value}, name) for value in values]


def get_time(values: Mapping[str, Any]) -> float:
    """Return the value "time", which must be a finite number."""
    value = values["time"]
    if not is_number(value) or not math.isfinite(value):
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
