"""Types of chunks and hits, primary keys, and batches."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from rag_bm25.store.rows import ChunkKey


MAX_BATCH_CHUNKS = 1_000
MAX_BATCH_BYTES = 8 << 20  # with its vectors, such a batch stays below 64 MB, the limit of a Milvus message


class Plain:
    """A dataclass that becomes JSON values, the same ones on all surfaces."""

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as plain JSON values by their names, without those that were not asked for."""
        return {name: _to_plain(value) for name, value in vars(self).items() if value is not None}


def _to_plain(value: Any) -> Any:
    if isinstance(value, Plain):
        return value.to_dict()
    if isinstance(value, dict):
        return {name: _to_plain(one) for name, one in value.items()}
    return list(map(_to_plain, value)) if isinstance(value, list | tuple) else value


@dataclass(frozen=True)
class Chunk(Plain):
    """A stored chunk.

    Parameters
    ----------
    id, text : str
        The chunk, and the id that it was added with or got from its contents.
    metadata : dict
        Its metadata, exactly as it was added.
    namespace : str
        Tenant or sub-corpus.
    length : int
        Length of the text, in the index's unit.
    part : int or None
        Place of its index in ``parts`` of the :class:`~rag_bm25.IndexGroup` that it was read from; None without one.
    """

    id: str
    text: str
    metadata: dict[str, Any] = field(default_factory=dict)
    namespace: str = ""
    length: int = 0
    part: int | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class Passage(Plain):
    """A part of a document: a chunk with its neighbours, each character once where chunks overlap.

    Parameters
    ----------
    text : str
        The text. Where ingestion has left out white space between two chunks, there are as many line breaks.
    start, end : int
        Place of the chunk that was asked for: ``text[start:end]``.
    chunks : tuple of Chunk
        The chunks that the text is made of, in the order of the document.
    """

    text: str
    start: int
    end: int
    chunks: tuple[Chunk, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the text and the place as plain JSON values, with the ids of the chunks.

        Returns
        -------
        dict
            With the keys ``text``, ``start``, ``end`` and ``ids``.
        """
        return {"text": self.text, "start": self.start, "end": self.end, "ids": [chunk.id for chunk in self.chunks]}


@dataclass(frozen=True)
class Fragment(Plain):
    """A part of a text that holds terms of a query, see `highlight` in :class:`~rag_bm25.SearchOptions`.

    Parameters
    ----------
    text : str
        The part: a sentence, or a part of a long one.
    start, end : int
        Its place in the whole text, in characters.
    score : float
        Sum of the weights in the query of the distinct terms in it, >= 0: boost times repetition times IDF.
    marks : tuple of (int, int)
        Start and end of the terms in the whole text, in text order. None overlap.
    """

    text: str
    start: int
    end: int
    score: float
    marks: tuple[tuple[int, int], ...]

    def _repr_html_(self) -> str:
        """Return the text with its marks, as notebooks show it."""
        pieces: list[str] = []
        at = self.start
        for start, end in self.marks:
            before, marked = self.text[at - self.start : start - self.start], self.text[start - self.start :]
            pieces += escape(before), f"<mark>{escape(marked[: end - start])}</mark>"
            at = end
        return "".join([*pieces, escape(self.text[at - self.start :])])


@dataclass(frozen=True)
class Hit(Plain):
    """A search hit.

    Parameters
    ----------
    id : str
        Id of the chunk.
    score : float
        BM25 score, > 0, times the factors of `boosts`; or the score of the reranker.
    text, metadata, namespace
        As for :class:`Chunk`.
    score_share : float or None
        BM25 score, before boosts and reranking, as a share of the highest that any chunk could have for the query, in
        0..1; None in hybrid and dense searches, and with a weighting that has no upper bound.
    confidence : float or None
        Probability that the hit answers, in 0..1; None without a model, see
        :meth:`rag_bm25.BM25Index.calibrate_answers`, and where `score_share` is None.
    group_score : float or None
        Score of the group of the hit; None without `group`.
    context : Passage or None
        The hit with its neighbours, or its whole document; None without `context`.
    highlights : tuple of Fragment or None
        The best fragments of the text, best first; empty if no term of the query is in it; None without `highlight`.
    field_highlights : dict of str to tuple of Fragment, or None
        Those of the fields of the index that hold a term, by name; their places are in the text of the field, which has
        a line for each item of a list.
    part : int or None
        As for :class:`Chunk`.
    """

    id: str
    score: float
    text: str
    metadata: dict[str, Any] = field(default_factory=dict)
    namespace: str = ""
    score_share: float | None = field(default=None, kw_only=True, compare=False)
    confidence: float | None = field(default=None, kw_only=True, compare=False)
    group_score: float | None = field(default=None, kw_only=True)
    context: Passage | None = field(default=None, kw_only=True)
    highlights: tuple[Fragment, ...] | None = field(default=None, kw_only=True)
    field_highlights: dict[str, tuple[Fragment, ...]] | None = field(default=None, kw_only=True)
    part: int | None = field(default=None, kw_only=True)

    @property
    def key(self) -> ChunkKey:
        """What tells the chunks of a search apart."""
        return self.namespace, self.id, self.part

    def _repr_html_(self) -> str:
        """Return the hit with its fragments, or else its text, as notebooks show it."""
        fields = [one for some in (self.field_highlights or {}).values() for one in some]
        shown = [one._repr_html_() for one in (*fields, *(self.highlights or ()))] or [escape(self.text)]
        lines = "".join(f"<p>{line}</p>" for line in shown)
        return f"<div><b>{escape(self.id)}</b> {self.score:.4f}{lines}</div>"


@dataclass(frozen=True)
class HybridHit(Hit):
    """A hit of a hybrid search.

    Parameters
    ----------
    id : str
        Id of the chunk.
    score : float
        Fused score; its scale depends on the fusion.
    text, metadata, namespace
        As for :class:`Chunk`.
    sparse_score, dense_score : float or None
        Score in each arm: 0.0 from BM25 if the chunk has no word of the query. None where an arm has none: beyond the
        first candidates, and with `RRF`, if it has not found the chunk.
    score_share, confidence, group_score, context, highlights, field_highlights, part
        As for :class:`Hit`.
    """

    sparse_score: float | None = None
    dense_score: float | None = None


@dataclass(frozen=True)
class NewChunk:
    """A checked chunk, ready to be written."""

    id: str  # as given, by default a hash of the contents
    text: str
    metadata: dict[str, Any]  # JSON values only
    size: int  # bytes of text and metadata
    dense: NDArray[np.float32] | None = field(default=None, compare=False)  # arrays have no truth value


class GivenChunk(Protocol):
    """Protocol of what ``add`` and ``add_stream`` take: :class:`Chunk`, or any class with these attributes."""

    @property
    def id(self) -> str | None:
        """Id of the chunk; None for a hash of text and metadata."""
        ...

    @property
    def text(self) -> str:
        """Text of the chunk."""
        ...

    @property
    def metadata(self) -> Mapping[str, Any] | None:
        """Metadata of the chunk, JSON values only; None for none."""
        ...


class GivenDocument(Protocol):
    """Protocol of what ``add`` and ``add_stream`` take, too: LangChain's ``Document``, one a chunk."""

    @property
    def id(self) -> str | None:
        """Id of the chunk; None for a hash of text and metadata."""
        ...

    @property
    def page_content(self) -> str:
        """Text of the chunk."""
        ...

    @property
    def metadata(self) -> Mapping[str, Any] | None:
        """Metadata of the chunk, JSON values only; None for none."""
        ...


@dataclass(frozen=True)
class AddReport:
    """Counts of added, updated and unchanged chunks.

    Parameters
    ----------
    added : int
        Chunks with new ids; with ``assume_new=True``, all chunks.
    updated : int
        Chunks that differed from the stored ones.
    unchanged : int
        Chunks that equalled the stored ones, and cost no write.

    Examples
    --------
    >>> AddReport(added=2) + AddReport(updated=1, unchanged=7)
    AddReport(added=2, updated=1, unchanged=7)
    """

    added: int = 0
    updated: int = 0
    unchanged: int = 0

    @property
    def total(self) -> int:
        """Number of all chunks."""
        return self.added + self.updated + self.unchanged

    def __add__(self, other: AddReport) -> AddReport:
        """Add two reports."""
        return AddReport(self.added + other.added, self.updated + other.updated, self.unchanged + other.unchanged)


def pk_digest(namespace: str, id_: str) -> str:
    """Hash namespace and id to the primary key without its slot."""
    key = f"{len(namespace)}:{namespace}{id_}".encode()  # with the length, no two pairs are one text
    return hashlib.blake2b(key, digest_size=20).hexdigest()


def batches(chunks: Iterable[NewChunk], dense_bytes: int = 0) -> Iterator[list[NewChunk]]:
    """Group chunks into batches that fit into one message, with distinct ids."""
    batch: list[NewChunk] = []
    ids: set[str] = set()
    size = 0
    for chunk in chunks:
        more = chunk.size + dense_bytes
        if batch and (len(batch) == MAX_BATCH_CHUNKS or size + more > MAX_BATCH_BYTES or chunk.id in ids):
            yield batch
            batch, ids, size = [], set(), 0
        batch.append(chunk)
        ids.add(chunk.id)
        size += more
    if batch:
        yield batch
