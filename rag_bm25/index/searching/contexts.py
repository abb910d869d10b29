"""Read the neighbours of chunks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from rag_bm25.documents.chunks import Chunk, Hit, Passage
from rag_bm25.filters import Comparison
from rag_bm25.hits.neighbors import SOURCE, Place, join, run_around, window
from rag_bm25.index.arguments import EVERYTHING
from rag_bm25.index.searching.rows import drop_superseded, read_chunks, to_chunk
from rag_bm25.store.rows import Scope

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rag_bm25.store.protocol import Store

H = TypeVar("H", bound=Hit)

FIRST_READ = 32  # chunks of a document whose length is not known
WINDOWS = {"neighbors": (1, 1), "document": (EVERYTHING, EVERYTHING)}
"""Of each value of `expand`: the number of chunks before and after."""


def add_contexts(store: Store, hits: Sequence[H], before: int, after: int) -> list[H]:
    """Give each hit its context."""
    passages = read_passages(store, hits, before, after)
    return [replace(hit, context=passage) for hit, passage in zip(hits, passages, strict=True)]


def read_passages(store: Store, hits: Sequence[Hit | Chunk], before: int, after: int) -> list[Passage]:
    """Read each chunk with as many chunks before and after it; alone if its place in a document is not known."""
    given = [Chunk(hit.id, hit.text, hit.metadata, hit.namespace) for hit in hits]
    places = [Place.of(chunk) for chunk in given]
    spans = [_Span.around(chunk, place, before, after) for chunk, place in zip(given, places, strict=True)]
    texts = _read_by_number(store, [span for span in spans if span is not None])
    sources: dict[tuple[str, str], dict[str, Chunk]] = {}
    passages = []
    for chunk, place, span in zip(given, places, spans, strict=True):
        read: dict[str, Chunk] = {}
        if span is not None:
            read = {one.id: one for one in texts[span.text].values() if Place.of(one).source == place.source}
        elif place.source is not None and place.order is not None:
            where = chunk.namespace, place.source
            if where not in sources:
                sources[where] = _read_by_source(store, *where)
            read = dict(sources[where])
        else:
            read = {id_: to_chunk(row) for id_, row in read_chunks(store, [chunk.id], chunk.namespace).items()}
        own = read.pop(chunk.id, chunk)
        passages.append(join(window(run_around(own, list(read.values())), own, before, after), own))
    return passages


@dataclass
class _Span:
    """Consecutive chunks of a text that are still to be read."""

    text: tuple[str, str]  # namespace and stem of the ids
    first: int
    last: int
    number: int  # of the chunk that is known to be there
    size: int = FIRST_READ

    @classmethod
    def around(cls, chunk: Chunk, place: Place, before: int, after: int) -> _Span | None:
        """Return the chunks around one; None if their ids are not known."""
        if place.stem is None or place.number is None:
            return None
        first, last = max(0, place.number - before), place.number + after
        return cls((chunk.namespace, place.stem), first, last, place.number)

    def next_numbers(self) -> range:
        """Return the next few, and more the next time: the length of a text is not known."""
        numbers = range(self.first, min(self.last + 1, self.first + self.size))
        self.first, self.size = numbers.stop, 2 * self.size
        return numbers


def _read_by_number(store: Store, spans: Sequence[_Span]) -> dict[tuple[str, str], dict[int, Chunk]]:
    """Read chunks by their ids, stem#0, stem#1, ..., those of all texts together, until each text has ended."""
    found: dict[tuple[str, str], dict[int, Chunk]] = {span.text: {} for span in spans}
    left = list(spans)
    while left:
        asked = [(span, span.next_numbers()) for span in left]
        for namespace in {span.text[0] for span in left}:
            numbers = [(span.text[1], each) for span, each in asked if span.text[0] == namespace]
            ids = dict.fromkeys(f"{stem}#{number}" for stem, each in numbers for number in each)
            for row in read_chunks(store, list(ids), namespace).values():
                place = Place.of(chunk := to_chunk(row))
                if place.stem is not None and place.number is not None:
                    found.setdefault((namespace, place.stem), {})[place.number] = chunk
        left = [span for span, each in asked if not _has_ended(span, each, found[span.text])]
    return found


def _has_ended(span: _Span, read: range, found: Mapping[int, Chunk]) -> bool:
    """Return whether nothing is left to be read of a span."""
    return span.first > span.last or (read.stop - 1 > span.number and read.stop - 1 not in found)


def _read_by_source(store: Store, namespace: str, source: str) -> dict[str, Chunk]:
    """Read the chunks of a source that do not belong to a text or a row of their own."""
    rows = store.scan_chunks(Scope(Comparison((SOURCE,), "==", source), (namespace,)), contents=True)
    chunks = map(to_chunk, drop_superseded(chain.from_iterable(rows)))
    return {chunk.id: chunk for chunk in chunks if Place.of(chunk).stem is None}
