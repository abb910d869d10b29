"""The parameters of an index, and the mark of an unfinished copy: rows beside the statistics."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from rag_bm25.errors import FormatError, ParameterError
from rag_bm25.statistics.log.keys import LogKey, keys_of, make_rows, range_after
from rag_bm25.statistics.log.packing import MAX_PACKED, check_dict, get_count, get_text, json_bytes, pack, unpack
from rag_bm25.statistics.log.table import LogTable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from rag_bm25.store.protocol import LogStore
    from rag_bm25.store.rows import LogRow

FORMAT = 2
MAX_CONFIG = 64 << 20  # bytes of JSON, with some 1,000,000 user words


class ConfigRow:
    """Codec of the parameters of an index, which are JSON values."""

    @staticmethod
    def encode(config: dict[str, Any], *, other_than: Collection[int] = ()) -> list[LogRow]:
        """Encode parameters of at most `MAX_CONFIG` bytes as rows, whose number differs from those of other ones."""
        plain = json_bytes(config)
        if len(plain) > MAX_CONFIG:
            msg = f"the parameters of an index must have at most {MAX_CONFIG:,} bytes of JSON, got {len(plain):,}"
            raise ParameterError(msg)
        packed = pack(plain)
        pieces = [packed[at : at + MAX_PACKED] for at in range(0, len(packed), MAX_PACKED)]
        while len(pieces) in other_than:
            pieces.append("")
        return make_rows("config", "index", [({"format": FORMAT}, piece) for piece in pieces])

    @staticmethod
    def decode(rows: Iterable[LogRow]) -> dict[str, Any]:
        """Decode all rows, in any order."""
        ordered = sorted(rows, key=lambda row: LogKey.parse(row.key).part)
        return check_dict(json.loads(unpack("".join(row.packed for row in ordered), MAX_CONFIG)), "config")

    @staticmethod
    def format(row: LogRow) -> int:
        """Decode the version of the format that the index was written with, from any row."""
        return get_count(row.meta, "format")


class CopyRow(NamedTuple):
    """Mark of an unfinished copy, and its codec."""

    source: str  # name of the store that is copied
    fingerprint: str  # digest of its parameters

    def encode(self) -> list[LogRow]:
        """Encode the mark as its only row."""
        return make_rows("copy", "index", [(self._asdict(), "")])

    @classmethod
    def decode(cls, row: LogRow) -> CopyRow:
        return cls(get_text(row.meta, "source"), get_text(row.meta, "fingerprint"))


class _NewerFormatError(FormatError):
    """The index was written by a newer version, so that it is not damaged."""


def write_config(store: LogStore, config: dict[str, Any]) -> None:
    """Store the parameters of a new index, or of one that has lost them."""
    if damaged := keys_of(store.log_keys(), "config"):
        store.delete_log(damaged)
    store.insert_log(ConfigRow.encode(config))


def read_config(store: LogStore, *, salvage: bool = False) -> dict[str, Any] | None:
    """Return the stored parameters, None where there are none; `salvage` takes damaged ones for none."""
    keys = store.log_keys()
    if keys_of(keys, "copy"):
        begun = unfinished_copy(store)
        source = begun.source if begun else "an index"  # it may have been finished meanwhile
        msg = f"{store.name} is an unfinished copy of {source}. Run the same copy or load again, or drop it."
        raise FormatError(msg)
    try:
        return _read_config(store, keys)
    except FormatError as error:
        if salvage and not isinstance(error, _NewerFormatError):
            return None
        raise


def _read_config(store: LogStore, keys: Sequence[str]) -> dict[str, Any] | None:
    rows, version = _config_in_force(store, keys)
    if not rows and keys_of(keys, "config"):  # another process may have upgraded it since they were listed
        rows, version = _config_in_force(store, store.log_keys())
    if not rows:
        return None
    if version > FORMAT:
        msg = f"{store.name} has format {version}, this version of rag_bm25 reads up to {FORMAT}: upgrade rag_bm25"
        raise _NewerFormatError(msg)
    return LogTable(store).decode(ConfigRow.decode, rows)


def _config_in_force(store: LogStore, keys: Iterable[str]) -> tuple[list[LogRow], int]:
    """Return the rows of the parameters, and their format: of two complete entries, those of the newer one."""
    by_number = defaultdict(list)
    for key in map(LogKey.parse, keys_of(keys, "config")):
        by_number[key.parts].append(str(key))
    found: tuple[list[LogRow], int] = [], 0
    for parts, some in by_number.items():
        rows = store.get_log(some)
        version = LogTable(store).decode(ConfigRow.format, rows[0]) if len(rows) == parts else 0
        if version > found[1]:
            found = rows, version
    return found


def upgrade_format(store: LogStore) -> None:
    """Give the parameters of an index of an older format the present one, so that older versions refuse it."""
    # The new rows are under other keys, since there are more or less of them: a crash in between leaves both.
    keys = keys_of(store.log_keys([range_after("config")]), "config")
    rows, version = _config_in_force(store, keys)
    if rows and version < FORMAT:
        numbers = {LogKey.parse(key).parts for key in keys}  # also of an attempt that was cut short
        store.insert_log(ConfigRow.encode(LogTable(store).decode(ConfigRow.decode, rows), other_than=numbers))
        store.delete_log(keys)
    elif rows and len(keys) > len(rows):
        store.delete_log(sorted(set(keys) - {row.key for row in rows}))


def begin_copy(store: LogStore, source: str, fingerprint: str) -> None:
    """Mark an empty store as an unfinished copy, which cannot be opened."""
    store.insert_log(CopyRow(source, fingerprint).encode())


def unfinished_copy(store: LogStore) -> CopyRow | None:
    """Return the mark of an unfinished copy, None where there is none."""
    rows = store.get_log(keys_of(store.log_keys(), "copy"), packed=False)
    return LogTable(store).decode(CopyRow.decode, rows[0]) if rows else None


def end_copy(store: LogStore) -> None:
    """Delete the mark, so that the copy can be opened."""
    store.delete_log(keys_of(store.log_keys(), "copy"))
