"""The digests of ingested files, remembered in the statistics log.

An entry ``source:<batch>:<part>:<parts>`` holds what one ingestion has found; of each source the newest digest counts.
Whoever reads a digest compares it with the file and with the stored chunks, so that a lost or an outdated one costs a
read of its file, and nothing else. Many entries are folded into one.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from rag_bm25.errors import FormatError
from rag_bm25.statistics.log.keys import SOURCE, LogKey, make_rows
from rag_bm25.statistics.log.packing import (
    check_counts,
    check_dict,
    check_texts,
    get_text,
    json_bytes,
    pack_in_pieces,
    unpack_json,
)
from rag_bm25.statistics.log.table import LogTable

if TYPE_CHECKING:
    from rag_bm25.store.protocol import LogStore
    from rag_bm25.store.rows import LogRow

FOLD_ABOVE = 8  # entries


class SourceDigest(NamedTuple):
    """Digests of a file, of all else that shapes its chunks, and of the ids and batches of the chunks."""

    contents: str
    shape: str  # key
    stored: str
    num_chunks: int


GONE = SourceDigest("", "", "", 0)
"""Digest of a source that has none any more."""


@dataclass
class StoredDigests:
    """The digests of the sources of a namespace, as they were read or are to be written."""

    by_source: dict[str, SourceDigest] = field(default_factory=dict)
    shapes: dict[str, str] = field(default_factory=dict)  # by key
    states: set[str] = field(default_factory=set)  # digests of all that a run without anything left over has seen
    keys: list[str] = field(default_factory=list)

    def read(self, row: LogRow) -> None:
        """Read a row, newer than those before it; one that cannot be decoded is damaged, and counts for nothing."""
        packed = check_dict(unpack_json(row.packed), "source")
        state, digests = get_text(row.meta, "state"), dict(map(_decode, packed["sources"]))
        check_texts(list(packed["shapes"].values()), "shapes")
        self.shapes |= packed["shapes"]
        self.by_source |= digests
        self.states |= {state} - {""}


def _decode(values: list[object]) -> tuple[str, SourceDigest]:
    source, contents, shape, stored = check_texts(values[:4], "source")
    [num_chunks] = check_counts(values[4:], "source")
    return source, SourceDigest(contents, shape, stored, num_chunks)


def read_digests(store: LogStore, namespace: str) -> StoredDigests:
    """Read the digests of a namespace."""
    found = StoredDigests(keys=LogTable(store).list_of(SOURCE, namespace))
    for row in sorted(store.get_log(found.keys) if found.keys else [], key=lambda row: row.key):
        with suppress(FormatError):
            LogTable(store).decode(found.read, row)
    found.by_source = {source: digest for source, digest in found.by_source.items() if digest != GONE}
    return found


def write_digests(store: LogStore, namespace: str, known: StoredDigests, new: StoredDigests, batch: str) -> None:
    """Store digests beside those that are known, or in place of them where these are in many entries."""
    folds = len({LogKey.parse(key).name for key in known.keys}) >= FOLD_ABOVE
    whole = {**known.by_source, **new.by_source} if folds else new.by_source
    shapes = {**known.shapes, **new.shapes}

    def encode(items: list[tuple[str, SourceDigest]]) -> bytes:
        used = {digest.shape: shapes.get(digest.shape, "") for _, digest in items}
        return json_bytes({"shapes": used, "sources": [(source, *digest) for source, digest in items]})

    table = LogTable(store)
    meta = {"namespace": namespace, "state": next(iter(new.states), "")}
    table.insert(
        make_rows(SOURCE, batch, [(meta, packed) for _, packed in pack_in_pieces(list(whole.items()), encode)])
    )
    if folds:
        table.delete(known.keys)
