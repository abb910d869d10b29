"""Keys of log rows: kind, name, part and number of parts; the parts of one name are an entry."""

from __future__ import annotations

import re
from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from rag_bm25.errors import FormatError
from rag_bm25.store.rows import LogRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rag_bm25.store.rows import KeyRange

SETTINGS = frozenset({"birth", "closing", "config", "copy", "generation", "root"})
"""Kinds without statistics, not named after a batch of chunks."""

SOURCE = "source"
"""Kind of what ingestion keeps of a namespace; nothing else reads it."""

_BATCH = r"[0-9a-f]{1,40}"
_NAMES = {"birth": "[0-9a-f]{12}", "config": "index", "copy": "index", "generation": "index"}
_AFTER_COLON = ";"  # sorts after every key that continues with a colon
_KEY = re.compile(r"([a-z0-9]+):([0-9a-z]+):(0|[1-9][0-9]{0,8}):([1-9][0-9]{0,8})")


class LogKey(NamedTuple):
    """Key of a log row; ``str()`` of it is stored."""

    kind: str
    name: str  # a batch id; "index" for config, copy and generation; a birth id
    part: int = 0
    parts: int = 1

    @classmethod
    def parse(cls, text: str) -> LogKey:
        match = _KEY.fullmatch(text)
        if match is None or not re.fullmatch(_NAMES.get(match[1], _BATCH), match[2]):
            raise FormatError(f"the log is damaged: it has a row with the invalid key {text!r}. Run repair.")
        return cls(match[1], match[2], int(match[3]), int(match[4]))

    @classmethod
    def row(cls, kind: str, name: str, part: int) -> LogKey:
        """Return the key of a row of an entry whose length another row tells."""
        return cls(kind, name, part, part + 1)

    @property
    def batch(self) -> str:
        """The batch id in the name, "" where there is none."""
        return "" if self.kind in SETTINGS else self.name

    def __str__(self) -> str:
        return ":".join(map(str, self))


def make_rows(kind: str, name: str, pieces: Sequence[tuple[dict[str, Any], str]]) -> list[LogRow]:
    """Make the rows of one entry, given the meta and packed field of each."""
    return [
        LogRow(str(LogKey(kind, name, part, len(pieces))), kind, meta, packed)
        for part, (meta, packed) in enumerate(pieces)
    ]


def range_after(kind: str, name: str = "") -> KeyRange:
    """Return the range of the keys of a kind whose names are greater; all of them by default."""
    return (f"{kind}:{name}{_AFTER_COLON}" if name else f"{kind}:", f"{kind}{_AFTER_COLON}")


def range_of(kind: str, name: str) -> KeyRange:
    """Return the range of the keys of one entry."""
    return f"{kind}:{name}:", f"{kind}:{name}{_AFTER_COLON}"


def kind_of(key: str) -> str:
    """Return the kind of a key that may be damaged."""
    return key.split(":", maxsplit=1)[0]


def keys_of(keys: Iterable[str], *kinds: str) -> list[str]:
    """Return the keys of some kinds, damaged ones included."""
    return [key for key in keys if kind_of(key) in kinds]


def parse_sound_keys(keys: Iterable[str]) -> list[LogKey]:
    """Parse keys, leaving out damaged ones."""
    found = []
    for key in keys:
        with suppress(FormatError):
            found.append(LogKey.parse(key))
    return found


def complete_entries(keys: Iterable[str], kind: str) -> dict[str, list[str]]:
    """Map the name of each entry that has all its parts to their keys, oldest name first."""
    entries: dict[tuple[str, int], list[LogKey]] = defaultdict(list)
    for key in map(LogKey.parse, keys_of(keys, kind)):
        entries[key.name, key.parts].append(key)  # a write that was cut short may be done again with more or less rows
    return {
        name: [str(key) for key in sorted(some)]
        for (name, parts), some in sorted(entries.items())
        if len(some) == parts
    }
