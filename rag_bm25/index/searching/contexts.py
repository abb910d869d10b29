"""Read the neighbours of chunks."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from rag_bm25.documents.chunks import Chunk, Hit, Passage
from rag_bm25.filters import Comparison
from rag_bm25.hits.neighbors import SOURCE, Place, join, run_around, window
from rag_bm25.index.arguments import EVERYTHING
from rag_bm25.index.searching.rows import drop_superseded, read_chunks, to_chunk
from rag_bm25.store.rows import Scope

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rag_bm25.store.protocol import Store

H = TypeVar("H", bound=Hit)

FIRST_READ = 32  # chunks of a document whose length is not known
WINDOWS = {"neighbors": (1, 1), "document": (EVERYTHING, EVERYTHING)}
"""Of each value of `expand`: the number of chunks before and after."""


def add_contexts(store: Store, hits: Sequence[H], before: int, after: int) -> list[H]:
    """Give each hit its context."""
    return [replace(hit, context=read_passage(store, hit, before, after)) for hit in hits]


def read_passage(store: Store, hit: Hit | Chunk, before: int, after: int) -> Passage:
    """Read a chunk with as many chunks before and after it; alone if its place in a document is not known."""
    given = Chunk(hit.id, hit.text, hit.metadata, hit.namespace)
    place = Place.of(given)
    if place.stem is not None and place.number is not None:
        read = _read_by_number(store, place, place.number, before, after, hit.namespace)
    elif place.source is not None and place.order is not None:
        read = _read_by_source(store, place.source, hit.namespace)
    else:
        read = {}
    own = read.pop(hit.id, given)
    return join(window(run_around(own, list(read.values())), own, before, after), own)


def _read_by_number(
    store: Store, place: Place, number: int, before: int, after: int, namespace: str
) -> dict[str, Chunk]:
    """Read a chunk and its neighbours by their ids, stem#0, stem#1, ..., in growing steps until the text has ended."""
    found: dict[str, Chunk] = {}
    first, last, size = max(0, number - before), number + after, FIRST_READ
    while first <= last:
        end = min(last + 1, first + size)
        ids = [f"{place.stem}#{one}" for one in range(first, end)]
        chunks = map(to_chunk, read_chunks(store, ids, namespace).values())
        found |= {chunk.id: chunk for chunk in chunks if _is_of(chunk, place)}
        if end - 1 > number and ids[-1] not in found:
            break
        first, size = end, 2 * size
    return found


def _is_of(chunk: Chunk, place: Place) -> bool:
    """Return whether a chunk is of the same text."""
    there = Place.of(chunk)
    return (there.stem, there.source) == (place.stem, place.source)


def _read_by_source(store: Store, source: str, namespace: str) -> dict[str, Chunk]:
    """Read the chunks of a source that do not belong to a text or a row of their own."""
    rows = store.scan_chunks(Scope(Comparison((SOURCE,), "==", source), (namespace,)), contents=True)
    chunks = map(to_chunk, drop_superseded(chain.from_iterable(rows)))
    return {chunk.id: chunk for chunk in chunks if Place.of(chunk).stem is None}
