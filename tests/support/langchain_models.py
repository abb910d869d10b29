"""Embedding models for tests: no downloads, and vectors that can be worked out by hand."""

from __future__ import annotations

from langchain_core.embeddings import Embeddings

LETTERS = "abcdefgh"
DIM = len(LETTERS)


class Letters(Embeddings):
    """Counts letters, and notes what it was asked for, and how."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.asked += [("documents", text) for text in texts]
        return [vector_of(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        self.asked.append(("query", text))
        return vector_of(text)

    async def aembed_query(self, text: str) -> list[float]:
        self.asked.append(("aquery", text))
        return vector_of(text)


def vector_of(text: str) -> list[float]:
    """How often each letter is in a text, and a little more, so that no vector is zero."""
    return [text.count(letter) + 0.01 for letter in LETTERS]
