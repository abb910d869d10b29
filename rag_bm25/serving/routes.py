"""The table of the API: each operation, its path, its request and its answer."""

from __future__ import annotations

from dataclasses import dataclass

from rag_bm25.serving import requests
from rag_bm25.serving.operations import Call, Operations

API = "/api/v1"


@dataclass(frozen=True)
class Operation:
    """An operation and how HTTP asks for it: path, request and methods."""

    call: Call
    path: str
    model: type[requests.Request]
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
    Operation(Call(Operations.suggest), "/suggest", requests.Suggest, "The corrected text, or null."),
    Operation(Call(Operations.statistics), "/statistics", requests.Statistics, "Figures of the index."),
    Operation(
        Call(Operations.term_statistics), "/statistics/terms", requests.TermStatistics, "N, df and IDF of each word."
    ),
    Operation(Call(Operations.top_terms), "/statistics/top-terms", requests.TopTerms, "Terms by falling df."),
    Operation(
        Call(Operations.lengths), "/statistics/lengths", requests.Lengths, "A histogram, percentiles and the drift."
    ),
    Operation(Call(Operations.progress), "/progress", requests.Request, "The jobs that write, the newest first."),
    Operation(
        Call(Operations.documents), "/documents", requests.Documents, "Chunks in the order of the source.", ("GET",)
    ),
    Operation(Call(Operations.document), "/documents/{id:path}", requests.Document, "The chunk.", ("GET",)),
    Operation(Call(Operations.add, writes=True), "/documents", requests.Add, "The ids.", ("POST",)),
    Operation(
        Call(Operations.delete, writes=True), "/documents", requests.Delete, "How many were deleted.", ("DELETE",)
    ),
    Operation(
        Call(Operations.delete, writes=True),
        "/documents/{id:path}",
        requests.Delete,
        "How many were deleted.",
        ("DELETE",),
    ),
)
