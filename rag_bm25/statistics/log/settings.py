"""The parameters of an index with its birth id, and the mark of an unfinished copy: rows beside the statistics."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from rag_bm25.errors import REINDEX, FormatError, ParameterError
from rag_bm25.statistics.log.batches import birth_of
from rag_bm25.statistics.log.birth import birth_row, births_in, is_birth, new_birth
from rag_bm25.statistics.log.generation import SUPERSEDED, SupersededError
from rag_bm25.statistics.log.keys import LogKey, keys_of, make_rows, parse_sound_keys
from rag_bm25.statistics.log.packing import MAX_PACKED, check_dict, get_count, get_text, json_bytes, pack, unpack
from rag_bm25.statistics.log.table import LogTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rag_bm25.store.protocol import LogStore, Store
    from rag_bm25.store.rows import LogRow

FORMAT = 5
MAX_CONFIG = 64 << 20  # bytes of JSON, with some 1,000,000 user words


class ConfigRow:
    """Codec of the parameters of an index, which are JSON values."""

    @staticmethod
    def encode(config: dict[str, Any], birth: str) -> list[LogRow]:
        """Encode parameters of at most `MAX_CONFIG` bytes as rows, each with the birth id of the index."""
        plain = json_bytes(config)
        if len(plain) > MAX_CONFIG:
            msg = f"the parameters of an index must have at most {MAX_CONFIG:,} bytes of JSON, got {len(plain):,}"
            raise ParameterError(msg)
        packed = pack(plain)
        pieces = [packed[at : at + MAX_PACKED] for at in range(0, len(packed), MAX_PACKED)]
        return make_rows("config", "index", [({"format": FORMAT, "birth": birth}, piece) for piece in pieces])

    @staticmethod
    def decode(rows: Iterable[LogRow]) -> dict[str, Any]:
        """Decode all rows, in any order."""
        ordered = sorted(rows, key=lambda row: LogKey.parse(row.key).part)
        return check_dict(json.loads(unpack("".join(row.packed for row in ordered), MAX_CONFIG)), "config")

    @staticmethod
    def format(row: LogRow) -> int:
        """Decode the version of the format that the index was written with, from any row."""
        return get_count(row.meta, "format")

    @staticmethod
    def birth(row: LogRow) -> str:
        """Decode the birth id of the index, from any row."""
        return get_text(row.meta, "birth")


class Settings(NamedTuple):
    """The parameters of an index, and its birth id."""

    config: dict[str, Any]
    birth: str


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


class OtherFormatError(FormatError):
    """The index was written by another version, so that it is not damaged."""


def write_config(store: LogStore, config: dict[str, Any]) -> None:
    """Store the parameters of a new index, or of one that has lost them."""
    birth = ensure_birth(store)
    if damaged := keys_of(store.log_keys(), "config"):
        store.delete_log(damaged)
    store.insert_log(ConfigRow.encode(config, birth))


def ensure_birth(store: LogStore) -> str:
    """Return the birth id of an index; a new log gets a new one, and one that has lost it that of its other rows."""
    keys = store.log_keys()
    if births := births_in(keys):
        return min(births)
    rows = store.get_log(keys_of(keys, "config"), packed=False)
    found = [str(row.meta.get("birth", "")) for row in rows] + [birth_of(key.batch) for key in parse_sound_keys(keys)]
    birth = next(filter(is_birth, found), None) or new_birth()
    store.insert_log([birth_row(birth)])
    return birth


def read_settings(store: LogStore, *, salvage: bool = False) -> Settings | None:
    """Return the stored parameters and the birth id, None without parameters; `salvage` takes damaged ones for none."""
    rows = _read_settings(store)
    if keys_of((row.key for row in rows), SUPERSEDED):
        raise SupersededError(store.name)
    if keys_of((row.key for row in rows), "copy"):
        begun = unfinished_copy(store)
        source = begun.source if begun else "an index"  # it may have been finished meanwhile
        msg = f"{store.name} is an unfinished copy of {source}. Run the same copy again, or drop it."
        raise FormatError(msg)
    try:
        config, table = _config_rows(store, rows), LogTable(store)
        return (
            Settings(table.decode(ConfigRow.decode, config), table.decode(ConfigRow.birth, config[0]))
            if config
            else None
        )
    except FormatError as error:
        if salvage and not isinstance(error, OtherFormatError):
            return None
        raise


def _read_settings(store: LogStore) -> list[LogRow]:
    """Read the rows of the parameters and of an unfinished copy; one each, as a rule, which takes one query."""
    usual = [str(LogKey(kind, "index")) for kind in ("config", "copy", SUPERSEDED)]
    return store.get_log(usual) or store.get_log(LogTable(store).list_all("config", "copy").keys)


def _config_rows(store: LogStore, rows: Sequence[LogRow]) -> Sequence[LogRow]:
    """Return the rows of the parameters, none where a row is missing; refuse those of another format."""
    if not rows or len(rows) < LogKey.parse(rows[0].key).parts:
        return []
    version = LogTable(store).decode(ConfigRow.format, rows[0])
    if version > FORMAT:
        msg = f"{store.name} has format {version}, this version of rag_bm25 reads format {FORMAT}: upgrade rag_bm25"
        raise OtherFormatError(msg)
    if version < FORMAT:
        msg = f"{store.name} has format {version}, this version of rag_bm25 reads format {FORMAT}: {REINDEX}"
        raise OtherFormatError(msg)
    return rows


def read_former(store: Store) -> tuple[int, dict[str, Any]]:
    """Return format and parameters of an index of any format; 0 and nothing where they cannot be read."""
    version, config = 0, dict[str, Any]()
    with suppress(FormatError):
        if store.exists() and (rows := store.get_log(keys_of(store.log_keys(), "config"))):
            version = LogTable(store).decode(ConfigRow.format, rows[0])
            config = LogTable(store).decode(ConfigRow.decode, rows)
    return version, config


def begin_copy(store: LogStore, source: str, fingerprint: str) -> None:
    """Mark an empty store as an unfinished copy, which cannot be opened."""
    store.insert_log([*CopyRow(source, fingerprint).encode(), birth_row(new_birth())])


def unfinished_copy(store: LogStore) -> CopyRow | None:
    """Return the mark of an unfinished copy, None where there is none."""
    rows = store.get_log(keys_of(store.log_keys(), "copy"), packed=False)
    return LogTable(store).decode(CopyRow.decode, rows[0]) if rows else None


def end_copy(store: LogStore) -> None:
    """Delete the mark, so that the copy can be opened."""
    store.delete_log(keys_of(store.log_keys(), "copy"))
