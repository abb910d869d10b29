"""The birth id of an index: it tells an index from another one that was made later under the same name.

The row ``birth:<id>`` is written with an index and goes with it, and the name of each batch ends with the id. Every
listing of the log has that row, too, so that an open index learns without another query that it was dropped and made
again, and takes no row of another index for its own. Several processes that create an index at once leave several
births, all of which are valid.
"""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING

from rag_bm25.errors import FormatError, IndexGoneError
from rag_bm25.statistics.log.batches import birth_of
from rag_bm25.statistics.log.keys import LogKey, keys_of, parse_sound_keys
from rag_bm25.store.rows import LogRow

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from rag_bm25.store.protocol import LogStore

BIRTH = "birth"
DIGITS = 12
_BATCH_KEY = re.compile(r"(?!birth:)[a-z0-9]+:([0-9a-f]+):\d+:\d+")


def new_birth() -> str:
    return secrets.token_hex(DIGITS // 2)


def is_birth(text: str) -> bool:
    return re.fullmatch(f"[0-9a-f]{{{DIGITS}}}", text) is not None


def birth_row(birth: str) -> LogRow:
    return LogRow(str(LogKey(BIRTH, birth)), BIRTH)


def births_in(keys: Iterable[str]) -> set[str]:
    """Return the birth ids among the keys of a log."""
    return {key.name for key in parse_sound_keys(keys_of(keys, BIRTH))}


def is_stray(key: str, births: Collection[str]) -> bool:
    """Return whether a row belongs to a dropped index; always False where the log has no birth row."""
    match = _BATCH_KEY.fullmatch(key)
    return bool(births) and match is not None and birth_of(match[1]) not in births


def stray_batches(store: LogStore) -> set[str]:
    """Return the names of batches that a dropped index wrote into the log of its successor."""
    keys = store.log_keys()
    births = births_in(keys)
    return {key.name for key in parse_sound_keys(key for key in keys if is_stray(key, births))}


def require_same(name: str, birth: str, births: Collection[str]) -> None:
    """Refuse a log that is not that of the index with a birth id."""
    if not births:
        raise FormatError(
            f"{name} is damaged, or was dropped while it was open: its birth id is lost. Open it anew; if that fails, "
            "run `rag-bm25 repair`"
        )
    if birth not in births:
        raise IndexGoneError(f"{name} was dropped while it was open, and was made again: open it anew")
