"""Read the neighbours of chunks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from rag_bm25.budget import check_budget
from rag_bm25.documents.chunks import Chunk, Hit, Passage
from rag_bm25.errors import FilterError
from rag_bm25.filters import Comparison
from rag_bm25.hits.neighbors import SOURCE, DocumentPosition, Joined, join, run_around, window
from rag_bm25.index.arguments import EVERYTHING
from rag_bm25.index.searching.rows import drop_superseded, read_chunks, to_chunk
from rag_bm25.store.rows import Scope

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rag_bm25.store.protocol import Store

H = TypeVar("H", bound=Hit)

FIRST_READ = 32  # chunks of a document whose length is not known
WINDOWS = {"neighbors": (1, 1), "document": (EVERYTHING, EVERYTHING)}
"""Of each value of `context`: the number of chunks before and after."""


def add_contexts(store: Store, hits: Sequence[H], before: int, after: int) -> list[H]:
    """Give each hit its context."""
    passages = read_passages(store, hits, before, after)
    return [replace(hit, context=passage) for hit, passage in zip(hits, passages, strict=True)]


def read_passages(store: Store, hits: Sequence[Hit | Chunk], before: int, after: int) -> list[Passage]:
    """Read each chunk with as many chunks before and after it; alone if its place in a document is not known."""
    given = [Chunk(hit.id, hit.text, hit.metadata, hit.namespace) for hit in hits]
    places = [DocumentPosition.of(chunk) for chunk in given]
    spans = [_Span.around(chunk, place, before, after) for chunk, place in zip(given, places, strict=True)]
    texts = _read_by_number(store, [span for span in spans if span is not None])
    documents: dict[tuple[str | None, ...], _Document] = {}
    passages = []
    for chunk, place, span in zip(given, places, spans, strict=True):
        check_budget()
        name: tuple[str | None, ...]
        if span is not None:
            name = *span.text, place.source, None
        elif place.source is not None and place.order is not None:
            name = chunk.namespace, None, place.source, None
        else:
            name = chunk.namespace, None, None, chunk.id
        if name not in documents:
            documents[name] = _Document(_read_document(store, chunk, place, None if span is None else texts[span.text]))
        passages.append(documents[name].passage(chunk, before, after))
    return passages


def _read_document(
    store: Store, chunk: Chunk, place: DocumentPosition, of_text: Mapping[int, Chunk] | None
) -> dict[str, Chunk]:
    """Return the chunks of a document by their ids: those of its text, or else of its source, or else one alone."""
    if of_text is not None:
        return {one.id: one for one in of_text.values() if DocumentPosition.of(one).source == place.source}
    if place.source is not None and place.order is not None:
        return _read_by_source(store, chunk.namespace, place.source)
    return {id_: to_chunk(row) for id_, row in read_chunks(store, [chunk.id], chunk.namespace).items()}


class _Document:
    """The chunks of a document, put in order and joined once, however many of them are asked for."""

    def __init__(self, read: Mapping[str, Chunk]) -> None:
        self._read = read
        self._runs: dict[str, list[Chunk]] = {}  # by the id of each chunk
        self._joined: dict[tuple[str, str], Joined] = {}  # by the ids of the first and the last chunk

    def passage(self, chunk: Chunk, before: int, after: int) -> Passage:
        """Return a chunk as it was read with the chunks around it; one that was deleted since is shown among them."""
        own = self._read.get(chunk.id)
        if own is None:
            return join(window(run_around(chunk, list(self._read.values())), chunk, before, after)).passage(chunk)
        if own.id not in self._runs:
            others = [one for one in self._read.values() if one.id != own.id]
            run = run_around(own, others)
            self._runs |= dict.fromkeys([one.id for one in run], run)
        shown = window(self._runs[own.id], own, before, after)
        ends = shown[0].id, shown[-1].id
        if ends not in self._joined:
            self._joined[ends] = join(shown)
        return self._joined[ends].passage(own)


@dataclass
class _Span:
    """Consecutive chunks of a text that are still to be read."""

    text: tuple[str, str]  # namespace and stem of the ids
    first: int
    last: int
    number: int  # of the chunk that is known to be there
    size: int = FIRST_READ

    @classmethod
    def around(cls, chunk: Chunk, place: DocumentPosition, before: int, after: int) -> _Span | None:
        """Return the chunks around one; None if their ids are not known."""
        if place.stem is None or place.number is None:
            return None
        first, last = max(0, place.number - before), place.number + after
        return cls((chunk.namespace, place.stem), first, last, place.number)

    def next_numbers(self) -> range:
        """Return the numbers of the chunks to read next, twice as many each time: the length of a text is not known."""
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
                place = DocumentPosition.of(chunk := to_chunk(row))
                if place.stem is not None and place.number is not None:
                    found.setdefault((namespace, place.stem), {})[place.number] = chunk
        left = [span for span, each in asked if not _has_ended(span, each, found[span.text])]
    return found


def _has_ended(span: _Span, read: range, found: Mapping[int, Chunk]) -> bool:
    """Return whether all chunks of a span have been read."""
    return span.first > span.last or (read.stop - 1 > span.number and read.stop - 1 not in found)


def _read_by_source(store: Store, namespace: str, source: str) -> dict[str, Chunk]:
    """Read the chunks of a source that do not belong to a text or a row of their own."""
    try:
        pages = list(store.scan_chunks(Scope(Comparison((SOURCE,), "==", source), (namespace,)), contents=True))
    except FilterError:  # the engine cannot compare with such a text
        pages = list(store.scan_chunks(Scope(None, (namespace,)), contents=True))
    rows = [row for row in chain.from_iterable(pages) if row.metadata.get(SOURCE) == source]
    chunks = map(to_chunk, drop_superseded(rows))
    return {chunk.id: chunk for chunk in chunks if DocumentPosition.of(chunk).stem is None}
