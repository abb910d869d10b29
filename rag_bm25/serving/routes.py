"""The table of the API: each operation, its path, its request and its answer."""

from __future__ import annotations

from dataclasses import dataclass

from rag_bm25.serving import requests
from rag_bm25.serving.fields import Request
from rag_bm25.serving.operations import Call, Operations

API = "/api/v1"


@dataclass(frozen=True)
class Operation:
    """An operation and how HTTP asks for it: path, request and methods."""

    call: Call
    path: str
    model: type[Request]
    answer: str
    methods: tuple[str, ...] = ("GET", "POST")

    @property
    def name(self) -> str:
        """The name of the operation."""
        return self.call.method.__name__


OPERATIONS = (
    Operation(Call(Operations.search), "/search", requests.Search, "The hits, best first."),
    Operation(Call(Operations.explain), "/explain", requests.Explain, "A tree of numbers with their formulas."),
    Operation(Call(Operations.why), "/why", requests.Why, "The reason, and the explanation of the chunk."),
    Operation(
        Call(Operations.highlight),
        "/highlight",
        requests.Highlight,
        "The best parts of the text, with places of words.",
    ),
    Operation(Call(Operations.suggest), "/suggest", requests.Suggest, "The corrected query, or null."),
    Operation(Call(Operations.statistics), "/statistics", requests.Statistics, "Figures of the index."),
    Operation(
        Call(Operations.term_statistics),
        "/statistics/terms",
        requests.TermStatisticsRequest,
        "N, df and IDF of each word.",
    ),
    Operation(Call(Operations.top_terms), "/statistics/top-terms", requests.TopTerms, "Terms by falling df."),
    Operation(Call(Operations.progress), "/progress", Request, "The jobs that write, the newest first."),
    Operation(Call(Operations.sources), "/sources", requests.ListSources, "The sources in the order of their names."),
    Operation(Call(Operations.chunks), "/chunks", requests.ReadChunks, "Chunks in the order of the source.", ("GET",)),
    Operation(Call(Operations.chunk), "/chunks/{id:path}", requests.ReadChunk, "The chunk.", ("GET",)),
    Operation(Call(Operations.add, writes=True), "/chunks", requests.Add, "The ids.", ("POST",)),
    Operation(Call(Operations.delete, writes=True), "/chunks", requests.Delete, "How many were deleted.", ("DELETE",)),
    Operation(
        Call(Operations.delete, writes=True),
        "/chunks/{id:path}",
        requests.Delete,
        "How many were deleted.",
        ("DELETE",),
    ),
)
