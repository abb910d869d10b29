"""The two collections of an index, of which somebody has renamed one: alone, each looks like a damaged index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rag_bm25.errors import StoreError
from rag_bm25.store.milvus.collection import Collection
from rag_bm25.store.milvus.schema import CHUNK_FIELDS, LOG_FACTS, field_types

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rag_bm25.store.milvus.handle import EngineHandle

BIRTHS = ("birth:", "birth;")
"""Range of the keys of a log that have its birth ids, with which the name of each batch ends."""


def has_fields(collection: Collection, fields: Iterable[str]) -> bool:
    """Return whether a collection has some fields, as one of an index has."""
    return field_types(collection.describe_fields()).keys() >= set(fields)


def refuse_half(handle: EngineHandle, own: Collection, *, is_log: bool) -> None:
    """Refuse one collection of an index whose other one is there under another name."""
    names = set(handle.engine.read("list_collections"))
    for name in sorted(name for name in names if name.endswith("_bm25") is not is_log):
        partner = f"{name}_bm25" if is_log else name.removesuffix("_bm25")
        other = Collection(handle, name)
        chunks, log = (other, own) if is_log else (own, other)
        if partner not in names and _belong_together(chunks, log):
            raise StoreError(
                f"{chunks.name} and {log.name} at {own.engine.place} are the two collections of an index, one of which "
                "was renamed: rename it again, so that the name of the second is that of the first with _bm25"
            )


def _belong_together(chunks: Collection, log: Collection) -> bool:
    """Return whether a chunk was written to the index that has the log."""
    if not (has_fields(chunks, CHUNK_FIELDS) and has_fields(log, LOG_FACTS)):
        return False
    rows = chunks.query('pk > ""', ["pk", "batch"], limit=1)
    births = [key.split(":")[1] for key in log.keys(log.engine.dialect.in_ranges("key", [BIRTHS]), "key")]
    return any(row["batch"].endswith(birth) for row in rows for birth in births)
