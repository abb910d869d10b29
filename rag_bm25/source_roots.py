"""The folders that sources are named by, remembered in the statistics log.

An entry ``root:<batch>:<part>:<parts>`` holds claims: a name, the folder or file that it stands for, and which claim it
replaces. Rows are never changed, so two processes may claim a name at once: whoever sees a claim that was not there
before its own withdraws its own. Many entries are folded into one; the old ones are deleted afterwards.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from rag_bm25.errors import FormatError, StoreError
from rag_bm25.log_rows import LogKey, complete_entries
from rag_bm25.store import LogRow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rag_bm25.store import LogStore

__all__ = ["SourceRoot", "copy_roots", "drop_damaged_roots", "forget_roots", "read_roots", "remember_roots"]

KIND = "root"
FOLD_ABOVE = 8  # entries
PACKED_CHARACTERS = 60_000  # of a row, which may have 65,535
READ_ATTEMPTS = 10


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
    """

    name: str
    path: str
    is_folder: bool = True
    version: str = ""


class _Claim(NamedTuple):
    """A root as it is stored."""

    namespace: str
    name: str
    path: str
    is_folder: bool
    version: str
    replaces: str

    @property
    def root(self) -> SourceRoot:
        return SourceRoot(self.name, self.path, self.is_folder, self.version)


def read_roots(store: LogStore, namespace: str) -> list[SourceRoot]:
    """Return the roots of a namespace.

    Parameters
    ----------
    store : LogStore
        Where the log is.
    namespace : str
        Whose.

    Returns
    -------
    list of SourceRoot
        By name.

    Raises
    ------
    FormatError
        A row is damaged.
    """
    return [claim.root for claim in _in_force(_read(store)[1]) if claim.namespace == namespace]


def remember_roots(
    store: LogStore, namespace: str, roots: Iterable[SourceRoot], new_batch: Callable[[], str]
) -> list[SourceRoot]:
    """Store roots, and return those of the namespace that count afterwards.

    Parameters
    ----------
    store : LogStore
        Where the log is.
    namespace : str
        Whose.
    roots : iterable of SourceRoot
        Each with the version that it replaces, "" for a new name.
    new_batch : callable of () to str
        Makes versions, each greater than the last.

    Returns
    -------
    list of SourceRoot
        By name. Where another process has claimed one of the names, its root is there, and none of the given ones.
    """
    batch = new_batch()
    claims = [_Claim(namespace, root.name, root.path, root.is_folder, batch, root.version) for root in roots]
    _, known = _read(store)
    if _are_current(claims, known):
        rows = _rows(batch, claims)
        store.insert_log(rows)
        keys, stored = _read(store)
        if _have_rivals(claims, known, stored):
            store.delete_log([row.key for row in rows])
        elif len(keys) > FOLD_ABOVE:
            _replace(store, keys, _in_force(stored), new_batch)
    return read_roots(store, namespace)


def forget_roots(store: LogStore, namespace: str, new_batch: Callable[[], str]) -> None:
    """Delete the roots of a namespace.

    Parameters
    ----------
    store : LogStore
        Where the log is.
    namespace : str
        Whose.
    new_batch : callable of () to str
        As for :func:`remember_roots`.
    """
    keys, stored = _read(store)
    others = [claim for claim in _in_force(stored) if claim.namespace != namespace]
    if any(claim.namespace == namespace for claim in stored):
        _replace(store, keys, others, new_batch)


def copy_roots(source: LogStore, target: LogStore) -> None:
    """Give a copy of an index the roots of the original, instead of those that an earlier attempt gave it.

    Parameters
    ----------
    source, target : LogStore
        Both logs.
    """
    if earlier := _keys(target):
        target.delete_log(earlier)
    if claims := _in_force(_read(source)[1]):
        target.insert_log(_rows(max(claim.version for claim in claims), claims))


def drop_damaged_roots(store: LogStore) -> None:
    """Delete the roots that cannot be read; the next ingestion names their sources again.

    Parameters
    ----------
    store : LogStore
        Where the log is.
    """
    sound: set[str] = set()
    rows = {row.key: row for row in store.get_log(_keys(store))}
    with suppress(FormatError):
        for parts in complete_entries(filter(_is_key, rows), KIND).values():
            with suppress(FormatError):
                _claims(store.name, [rows[key] for key in parts])
                sound.update(parts)
    if damaged := rows.keys() - sound:
        store.delete_log(sorted(damaged))


def _is_key(text: str) -> bool:
    with suppress(FormatError):
        return bool(LogKey.parse(text))
    return False


def _keys(store: LogStore) -> list[str]:
    return [key for key in store.log_keys() if key.startswith(f"{KIND}:")]


def _read(store: LogStore) -> tuple[list[str], list[_Claim]]:
    """Return the keys of all entries, and their claims; another process may fold them meanwhile."""
    for _ in range(READ_ATTEMPTS):
        keys = [key for parts in complete_entries(_keys(store), KIND).values() for key in parts]
        rows = store.get_log(keys) if keys else []
        if len(rows) == len(keys):
            return keys, _claims(store.name, rows)
    msg = f"the source roots of {store.name} changed {READ_ATTEMPTS} times while they were read: try again"
    raise StoreError(msg)


def _replace(store: LogStore, keys: Sequence[str], claims: Sequence[_Claim], new_batch: Callable[[], str]) -> None:
    """Put one entry in the place of others; a crash in between leaves claims twice, which changes nothing."""
    if claims:
        store.insert_log(_rows(new_batch(), claims))
    store.delete_log(keys)


def _are_current(claims: Iterable[_Claim], known: Iterable[_Claim]) -> bool:
    """Tell whether the claims replace those that count now."""
    versions = {(claim.namespace, claim.name): claim.version for claim in _in_force(known)}
    return all(versions.get((claim.namespace, claim.name), "") == claim.replaces for claim in claims)


def _have_rivals(claims: Sequence[_Claim], known: Sequence[_Claim], stored: Iterable[_Claim]) -> bool:
    """Tell whether others have claimed one of the names meanwhile."""
    names = {(claim.namespace, claim.name) for claim in claims}
    before = {claim.version for claim in (*known, *claims)}
    return any((claim.namespace, claim.name) in names and claim.version not in before for claim in stored)


def _in_force(claims: Iterable[_Claim]) -> list[_Claim]:
    """Return for each name the claim that counts: the first, or whichever was made in its place."""
    counting: dict[tuple[str, str], _Claim] = {}
    for claim in sorted(claims, key=lambda claim: claim.version):
        current = counting.setdefault((claim.namespace, claim.name), claim)
        if claim.replaces == current.version:
            counting[claim.namespace, claim.name] = claim
    return sorted(counting.values())


def _rows(batch: str, claims: Sequence[_Claim]) -> list[LogRow]:
    pieces = list(_pieces([json.dumps(claim) for claim in claims]))
    return [
        LogRow(str(LogKey(KIND, batch, part, len(pieces))), KIND, {}, f"[{','.join(piece)}]")
        for part, piece in enumerate(pieces)
    ]


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


def _claims(name: str, rows: Iterable[LogRow]) -> list[_Claim]:
    return [claim for row in rows for claim in _claims_of(name, row)]


def _claims_of(name: str, row: LogRow) -> list[_Claim]:
    """Read a row back: it may be damaged, or another program's."""
    try:
        values = json.loads(row.packed)
        claims = [_Claim(*value) for value in values]
    except (RecursionError, TypeError, ValueError):
        claims = []
    if not claims or not all(_is_sound(claim) for claim in claims):
        msg = f"{name} is damaged: its log row {row.key!r} holds no source roots; run repair"
        raise FormatError(msg)
    return claims


def _is_sound(claim: _Claim) -> bool:
    texts = (claim.namespace, claim.name, claim.path, claim.version, claim.replaces)
    return isinstance(claim.is_folder, bool) and all(isinstance(text, str) for text in texts)
