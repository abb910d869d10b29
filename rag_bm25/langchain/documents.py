"""LangChain's documents as chunks, and chunks as documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document

from rag_bm25.documents.chunks import Hit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from langchain_core.embeddings import Embeddings

    from rag_bm25.documents.chunks import Chunk
    from rag_bm25.index.index import BM25Index


def to_document(found: Chunk | Hit, extra: Mapping[str, Any] | None = None) -> Document:
    """Return a chunk as a document, with the text of its context if it has one; `extra` is added to its metadata."""
    context = found.context if isinstance(found, Hit) else None
    text = found.text if context is None else context.text
    return Document(id=found.id, page_content=text, metadata={**found.metadata, **(extra or {})})


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
        options = {"embeddings": embed(given) if reembed else embed, **options}
    return index.add(given, ids=ids, metadatas=metadatas, **options)


def add_documents(index: BM25Index, documents: Sequence[Document], **options: Any) -> list[str]:
    """Add documents with the options of :func:`add_texts`."""
    return add_texts(
        index,
        [document.page_content for document in documents],
        [document.metadata for document in documents],
        [document.id for document in documents],
        **options,
    )
