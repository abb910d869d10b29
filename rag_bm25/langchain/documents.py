"""LangChain's documents as chunks, and chunks as documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document

from rag_bm25.documents.checks import check_texts
from rag_bm25.documents.chunks import Hit
from rag_bm25.documents.contexts import embedded_text
from rag_bm25.errors import InputError
from rag_bm25.hits.highlights import highlight_metadata

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from langchain_core.embeddings import Embeddings

    from rag_bm25.documents.chunks import Chunk
    from rag_bm25.index.index import BM25Index


def to_document(found: Chunk | Hit, extra: Mapping[str, Any] | None = None) -> Document:
    """Return a chunk as a document, with the text of its context if it has one; `extra` is added to its metadata."""
    context = found.context if isinstance(found, Hit) else None
    text = found.text if context is None else context.text
    highlights = highlight_metadata(found) if isinstance(found, Hit) else {}
    return Document(id=found.id, page_content=text, metadata={**found.metadata, **highlights, **(extra or {})})


def add_texts(
    index: BM25Index,
    texts: Iterable[str],
    metadatas: Sequence[Mapping[str, Any]] | None = None,
    ids: Sequence[str | None] | None = None,
    *,
    embedding: Embeddings | None = None,
    reembed: bool = False,
    **options: Any,
) -> list[str]:
    """Add texts, which the model embeds if they are new or have changed, or all of them with `reembed`."""
    given = list(texts)
    if embedding is not None:
        embed = embedding.embed_documents
        options = {"embeddings": embed(_embedded(index, given, metadatas)) if reembed else embed, **options}
    return index.add(given, ids=ids, metadatas=metadatas, **options)


def _embedded(index: BM25Index, texts: list[str], metadatas: Sequence[Mapping[str, Any]] | None) -> list[str]:
    """Return the texts after their contexts."""
    plain, given = check_texts(texts, metadatas)
    pairs = zip(plain, given or [{}] * len(plain), strict=True)
    return [embedded_text(text, metadata, index.config.fields) for text, metadata in pairs]


def split_documents(documents: Iterable[Document]) -> tuple[list[str], list[dict[str, Any]], list[str | None]]:
    """Return the texts, the metadata and the ids of documents."""
    given = list(documents)
    for at, document in enumerate(given):
        if not isinstance(document, Document):
            raise InputError(f"documents[{at}] must be a Document, got {type(document).__name__}")
    return (
        [document.page_content for document in given],
        [document.metadata for document in given],
        [document.id for document in given],
    )
