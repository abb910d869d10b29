"""Search by words and by meaning at once: each finds what the other one misses.

::

    python scripts/examples/hybrid_search.py

A toy stands in for the embedding model, so that this runs offline and at once; any `Embeddings` of LangChain can take
its place.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

from rag_bm25 import BM25Index, IndexConfig, RagBM25Error, Weighted
from rag_bm25.langchain import MilvusHybridRetriever

HELP_DESK = {
    "power": "The laptop does not start: hold the power button for ten seconds, then charge it for an hour.",
    "e4711": "Error E-4711 is shown where the licence has run out; a new one comes from the portal.",
    "e4712": "Error E-4712 is shown where the server cannot be reached; check the cable first.",
    "travel": "The fare is paid back within thirty days of the journey, against the ticket.",
}
QUESTIONS = ("E-4711", "My notebook won't turn on", "What does error E-4712 say about the network?")
ARMS = {"sparse_score_key": "bm25", "dense_score_key": "cosine"}


class ToyModel(Embeddings):
    """Knows four subjects by a few of their words, which is all the meaning that this example needs."""

    SUBJECTS = (
        ("laptop", "notebook", "power", "charge", "start", "turn on"),
        ("licence", "portal", "expired"),
        ("server", "network", "cable"),
        ("fare", "ticket", "journey", "train"),
    )

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Count the words of each subject; the little more gives every text a direction."""
        return [[0.1 + sum(word in text.lower() for word in words) for words in self.SUBJECTS] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Do the same for a question."""
        return self.embed_documents([text])[0]


def show(documents: list[Document]) -> str:
    """Write ids and scores on one line."""
    return "  ".join(
        f"{document.id} ({', '.join(shown(name, document.metadata[name]) for name in ARMS.values())})"
        for document in documents
    )


def shown(name: str, score: float | None) -> str:
    """Write a score; an arm that did not find the document has none."""
    return f"{name} {'-' if score is None else f'{score:.2f}'}"


def main() -> None:
    model = ToyModel()
    documents = [Document(text, id=id_) for id_, text in HELP_DESK.items()]
    config = IndexConfig(chunk_size=100, dense_dim=len(model.embed_query("")))
    with (
        tempfile.TemporaryDirectory() as folder,
        BM25Index.open(Path(folder, "rag.db"), "help_desk", config=config) as index,
    ):
        retriever = MilvusHybridRetriever.from_documents(documents, index=index, embedding=model, k=2, **ARMS)
        for question in QUESTIONS:
            print(question)
            for mode in ("sparse", "dense", "hybrid"):
                print(f"  {mode:7}", show(retriever.invoke(question, mode=mode)))
            print("  weights", show(retriever.invoke(question, fusion=Weighted(sparse=0.3, dense=0.7))))
        # Only what is new or has changed is embedded; words, vectors and statistics change together.
        MilvusHybridRetriever.from_documents(
            [*documents, Document("Printers are in room 7.")], index=index, embedding=model
        )
        index.delete(["travel"])
        print("the statistics are", "exact" if index.verify().ok else "wrong")


if __name__ == "__main__":
    try:
        main()
    except RagBM25Error as error:
        sys.exit(str(error))
