"""The folders that sources are named by, remembered in the statistics log.

An entry ``root:<batch>:<part>:<parts>`` holds claims: a name, the folder or file that it stands for, and which claim it
replaces. Rows are never changed, so two processes may claim a name at once: a process that sees a claim that was not
there before its own withdraws its own. Many entries are folded into one; the old ones are deleted afterwards.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from rag_bm25.errors import FormatError, StoreError
from rag_bm25.statistics.log.batches import BatchClock
from rag_bm25.statistics.log.keys import complete_entries, keys_of, make_rows, parse_sound_keys
from rag_bm25.statistics.log.settings import ensure_birth
from rag_bm25.statistics.log.table import READ_ATTEMPTS, LogTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rag_bm25.store.protocol import LogStore
    from rag_bm25.store.rows import LogRow

KIND = "root"
FOLD_ABOVE = 8  # entries
PACKED_CHARACTERS = 60_000  # of a row, which may have 65,535


@dataclass(frozen=True)
class SourceRoot:
    """A folder, or a file ingested by itself, and the name that its sources begin with.

    Parameters
    ----------
    name : str
        A source is the name and the path below the folder, as in ``docs/guide.md``; of a file, the name alone.
    path : str
        Absolute, on the machine that ingested it last.
    is_folder : bool
        False for a file by itself.
    version : str
        The write that stored it; "" where it is not stored yet. Storing it with another path replaces this version.
    options : dict
        The options that it was ingested with, other than the defaults.
    """

    name: str
    path: str
    is_folder: bool = True
    version: str = ""
    options: dict[str, Any] = field(default_factory=dict, hash=False)


class _Claim(NamedTuple):
    """A root as it is stored."""

    namespace: str
    name: str
    path: str
    is_folder: bool
    version: str
    replaces: str
    options: dict[str, Any] = {}  # noqa: RUF012

    @property
    def root(self) -> SourceRoot:
        return SourceRoot(self.name, self.path, self.is_folder, self.version, self.options)

    def is_sound(self) -> bool:
        """Return whether the values have the right types."""
        texts = (self.namespace, self.name, self.path, self.version, self.replaces)
        has_types = isinstance(self.is_folder, bool) and isinstance(self.options, dict)
        return has_types and all(isinstance(text, str) for text in texts)


class RootRow:
    """Codec of claims; each row can be decoded alone."""

    @staticmethod
    def encode(batch: str, claims: Sequence[_Claim]) -> list[LogRow]:
        pieces = _pieces([json.dumps(claim) for claim in claims])
        return make_rows(KIND, batch, [({}, f"[{','.join(piece)}]") for piece in pieces])

    @staticmethod
    def decode(row: LogRow) -> list[_Claim]:
        """Decode a row, which has one claim or more."""
        claims = [_Claim(*value) for value in json.loads(row.packed)]
        if not claims or not all(claim.is_sound() for claim in claims):
            raise ValueError("it has no valid claims")
        return claims


def _pieces(texts: Iterable[str]) -> Iterator[list[str]]:
    """Cut texts into lists that fit into a row each."""
    piece: list[str] = []
    size = 0
    for text in texts:
        if piece and size + len(text) >= PACKED_CHARACTERS:
            yield piece
            piece, size = [], 0
        piece.append(text)
        size += len(text) + 1
    if piece:
        yield piece


def read_roots(store: LogStore, namespace: str) -> list[SourceRoot]:
    """Return the roots of a namespace, by name."""
    return [claim.root for claim in _in_force(_read(store)[1]) if claim.namespace == namespace]


def remember_roots(
    store: LogStore, namespace: str, roots: Iterable[SourceRoot], new_batch: Callable[[], str]
) -> list[SourceRoot]:
    """Store roots unless another process has claimed one of the names; return those in force afterwards."""
    batch = new_batch()
    claims = [_claim(namespace, root, batch) for root in roots]
    _, known = _read(store)
    if _are_current(claims, known):
        rows = RootRow.encode(batch, claims)
        store.insert_log(rows)
        keys, stored = _read(store)
        if _have_rivals(claims, known, stored):
            store.delete_log([row.key for row in rows])
        elif len(keys) > FOLD_ABOVE:
            _replace(store, keys, _in_force(stored), new_batch)
    return read_roots(store, namespace)


def _claim(namespace: str, root: SourceRoot, batch: str) -> _Claim:
    return _Claim(namespace, root.name, root.path, root.is_folder, batch, root.version, root.options)


def forget_roots(store: LogStore, namespace: str, new_batch: Callable[[], str]) -> None:
    keys, stored = _read(store)
    others = [claim for claim in _in_force(stored) if claim.namespace != namespace]
    if any(claim.namespace == namespace for claim in stored):
        _replace(store, keys, others, new_batch)


def copy_roots(source: LogStore, target: LogStore) -> None:
    """Give a copy of an index the roots of the original, instead of those that an earlier attempt gave it."""
    if earlier := keys_of(target.log_keys(), KIND):
        target.delete_log(earlier)
    if claims := _in_force(_read(source)[1]):
        clock = BatchClock(ensure_birth(target))
        clock.observe(max(claim.version for claim in claims))
        target.insert_log(RootRow.encode(clock.new_batch(), claims))


def drop_damaged_roots(store: LogStore) -> None:
    """Delete the roots that cannot be read; the next ingestion names their sources again."""
    sound: set[str] = set()
    rows = {row.key: row for row in store.get_log(keys_of(store.log_keys(), KIND))}
    for parts in complete_entries(map(str, parse_sound_keys(rows)), KIND).values():
        with suppress(FormatError):
            _decode(store.name, [rows[key] for key in parts])
            sound.update(parts)
    if damaged := rows.keys() - sound:
        store.delete_log(sorted(damaged))


def _read(store: LogStore) -> tuple[list[str], list[_Claim]]:
    """Return the keys of all entries, and their claims; another process may fold them meanwhile."""
    for _ in range(READ_ATTEMPTS):
        keys = [key for parts in LogTable(store).list_all(KIND).entries(KIND).values() for key in parts]
        rows = store.get_log(keys) if keys else []
        if len(rows) == len(keys):
            return keys, _decode(store.name, rows)
    raise StoreError(f"the source roots of {store.name} changed {READ_ATTEMPTS} times while they were read: try again")


def _replace(store: LogStore, keys: Sequence[str], claims: Sequence[_Claim], new_batch: Callable[[], str]) -> None:
    """Put one entry in the place of others; a crash in between leaves claims twice, which changes nothing."""
    if claims:
        store.insert_log(RootRow.encode(new_batch(), claims))
    store.delete_log(keys)


def _are_current(claims: Iterable[_Claim], known: Iterable[_Claim]) -> bool:
    """Return whether the claims replace those in force."""
    versions = {(claim.namespace, claim.name): claim.version for claim in _in_force(known)}
    return all(versions.get((claim.namespace, claim.name), "") == claim.replaces for claim in claims)


def _have_rivals(claims: Sequence[_Claim], known: Sequence[_Claim], stored: Iterable[_Claim]) -> bool:
    """Return whether others have claimed one of the names meanwhile."""
    names = {(claim.namespace, claim.name) for claim in claims}
    before = {claim.version for claim in (*known, *claims)}
    return any((claim.namespace, claim.name) in names and claim.version not in before for claim in stored)


def _in_force(claims: Iterable[_Claim]) -> list[_Claim]:
    """Return the claim in force for each name: the first one, or the one that replaced it."""
    counting: dict[tuple[str, str], _Claim] = {}
    for claim in sorted(claims, key=lambda claim: claim.version):
        current = counting.setdefault((claim.namespace, claim.name), claim)
        if claim.replaces == current.version:
            counting[claim.namespace, claim.name] = claim
    return sorted(counting.values())


def _decode(store_name: str, rows: Iterable[LogRow]) -> list[_Claim]:
    return [claim for row in rows for claim in _decode_row(store_name, row)]


def _decode_row(store_name: str, row: LogRow) -> list[_Claim]:
    """Decode a row; one that cannot be decoded is damaged."""
    try:
        return RootRow.decode(row)
    except (RecursionError, TypeError, ValueError):
        msg = f"{store_name} is damaged: its log row {row.key!r} holds no source roots. Run repair."
        raise FormatError(msg) from None
