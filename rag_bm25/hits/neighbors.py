"""Join the chunks of a document to a passage.

Ingestion stores the source of a chunk under ``source``, its number under ``chunk``, and its first character in the
document under ``start_index``, the key of LangChain's splitters. The n-th chunk of a text, or of a row, has the id
``text#n``, so that the neighbours of an ingested chunk are read by their ids. Others are found by their source.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from rag_bm25.checks import is_int
from rag_bm25.documents.chunks import Passage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rag_bm25.documents.chunks import Chunk

SOURCE, NUMBER, START, END = "source", "chunk", "start_index", "end_index"
"""The metadata keys of a chunk's place."""

MAX_GAP = 64  # characters of white space that a splitter may leave out between two chunks
MIN_OVERLAP, MAX_OVERLAP = 10, 2_000  # characters that two chunks may share, where their places are not stored


@dataclass(frozen=True)
class DocumentPosition:
    """Position of a chunk in its document, read from its id and metadata."""

    stem: str | None  # id of the text that was cut, if the ids of its chunks are known: stem#0, stem#1, ...
    source: str | None
    number: int | None  # of the chunk, from 0
    start: int | None  # in the document, in characters

    @classmethod
    def of(cls, chunk: Chunk) -> DocumentPosition:
        """Read the position of a chunk."""
        number, start = _count(chunk.metadata.get(NUMBER)), _count(chunk.metadata.get(START))
        stem = chunk.id.removesuffix(f"#{number}")
        known = number is not None and stem != chunk.id
        return cls(stem if known else None, source_of(chunk), number, start)

    @property
    def order(self) -> int | None:
        """Position among the chunks of the source."""
        return self.start if self.number is None else self.number


def source_of(chunk: Chunk) -> str | None:
    """Return the source of a chunk; one that is no text is none."""
    source = chunk.metadata.get(SOURCE)
    return source if isinstance(source, str) else None


def order_in_source(chunk: Chunk) -> float:
    """Return a sort key of the chunks of a source; those whose place is not stored come last."""
    order = DocumentPosition.of(chunk).order
    return math.inf if order is None else order


def _count(value: Any) -> int | None:
    """Return an int >= 0, None for anything else."""
    return value if is_int(value) and value >= 0 else None


def run_around(own: Chunk, others: Sequence[Chunk]) -> list[Chunk]:
    """Return the chunks of the same document without a gap around one of them, in their order.

    If two chunks of the source have one position, as rows of one file have, they are no document: the chunk is alone.
    """
    placed = {DocumentPosition.of(chunk).order: chunk for chunk in (*others, own)}
    if len(placed) < len({chunk.id for chunk in (*others, own)}) or None in placed:
        return [own]
    chunks = [placed[order] for order in sorted(placed)]  # type: ignore[type-var]  # None is not among them
    at = chunks.index(own)
    first = last = at
    while first > 0 and _follows(chunks[first - 1], chunks[first]):
        first -= 1
    while last + 1 < len(chunks) and _follows(chunks[last], chunks[last + 1]):
        last += 1
    return chunks[first : last + 1]


def _follows(chunk: Chunk, following: Chunk) -> bool:
    """Return whether no chunk is missing between two."""
    before, after = DocumentPosition.of(chunk), DocumentPosition.of(following)
    if before.number is not None and after.number is not None:
        return after.number == before.number + 1
    if before.start is None or after.start is None:
        return False
    return after.start <= before.start + len(chunk.text) + MAX_GAP


def window(chunks: Sequence[Chunk], own: Chunk, before: int, after: int) -> list[Chunk]:
    """Return a chunk with as many chunks before and after it as are there."""
    at = chunks.index(own)
    return list(chunks[max(0, at - before) : at + after + 1])


@dataclass(frozen=True)
class Joined:
    """Consecutive chunks as one text, which all passages of the same chunks share."""

    text: str
    starts: dict[str, int]  # of each chunk in the text, by its id
    chunks: tuple[Chunk, ...]

    def passage(self, own: Chunk) -> Passage:
        """Return the text as the passage of one of the chunks, which begins with the header of its table."""
        start = self.starts[own.id]
        header = own.text[: _header_size(own)] if start else ""
        text = f"{self.text[:start]}{header}{self.text[start:]}" if header else self.text
        return Passage(text, start, start + len(own.text), self.chunks)


def join(chunks: Sequence[Chunk]) -> Joined:
    """Join consecutive chunks; what two of them share is there once."""
    text, starts, at = chunks[0].text, {chunks[0].id: 0}, _header_size(chunks[0])
    settled: list[str] = []  # the text before `text`, which no later chunk changes
    length = 0
    for previous, chunk in pairwise(chunks):
        own = chunk.text[_header_size(chunk) :]
        at = _place_after(text, at, previous, chunk, own)
        text = text.ljust(at, "\n")[:at] + own + text[at + len(own) :]
        starts[chunk.id] = length + at
        if own:
            settled.append(text[:at])
            text, length, at = text[at:], length + at, 0
    return Joined("".join(settled) + text, starts, tuple(chunks))


def _header_size(chunk: Chunk) -> int:
    """Return how many characters of a chunk repeat the header of its table: its text is longer than its place."""
    start, end = _count(chunk.metadata.get(START)), _count(chunk.metadata.get(END))
    size = 0 if start is None or end is None or end <= start else max(0, len(chunk.text) - (end - start))
    return size if chunk.text[:size].endswith("\n") else 0


def _place_after(text: str, at: int, previous: Chunk, chunk: Chunk, own: str) -> int:
    """Return where a chunk begins in the text that ends with the previous one, which begins at `at`."""
    before, after = DocumentPosition.of(previous).start, DocumentPosition.of(chunk).start
    if before is not None and after is not None and 0 <= after - before <= len(previous.text) + MAX_GAP:
        begin = at + after - before
        if own.startswith(text[begin : begin + len(own)]):
            return begin
    shared = _shared(text, own, min(len(previous.text), len(own), MAX_OVERLAP))
    return len(text) - shared if shared or text[-1:].isspace() else len(text) + 1


def _shared(text: str, following: str, longest: int) -> int:
    """Return how many characters at the end of a text are those that the following one begins with."""
    begin = following[:MIN_OVERLAP]
    at = text.find(begin, len(text) - longest) if longest >= MIN_OVERLAP else -1
    while at >= 0 and not following.startswith(text[at:]):
        at = text.find(begin, at + 1)
    return len(text) - at if at >= 0 else 0
