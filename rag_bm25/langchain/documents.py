"""LangChain's documents as chunks, and chunks as documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from langchain_core.embeddings import Embeddings

    from rag_bm25.chunks import Chunk, Hit
    from rag_bm25.index import BM25Index

__all__ = ["add_documents", "add_texts", "to_document"]


def to_document(found: Chunk | Hit, extra: Mapping[str, Any] | None = None) -> Document:
    """Return a chunk as a document.

    Parameters
    ----------
    found : Chunk or Hit
        The chunk.
    extra : mapping, optional
        What to add to its metadata.

    Returns
    -------
    Document
        With its id, and its metadata as they were ingested.
    """
    return Document(id=found.id, page_content=found.text, metadata={**found.metadata, **(extra or {})})


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
    """Add texts under their ids, or under hashes of their contents where they have none.

    Parameters
    ----------
    index : BM25Index
        Where to.
    texts : iterable of str
        Any number.
    metadatas : sequence of mappings, optional
        One for each text.
    ids : sequence of str or None, optional
        One for each text.
    embedding : Embeddings, optional
        The model, where the index has dense vectors.
    reembed : bool
        Ask the model for all texts, and not only for those that are new or changed.
    **options
        As for :meth:`rag_bm25.BM25Index.add`.

    Returns
    -------
    list of str
        Their ids, in their order.
    """
    given = list(texts)
    if embedding is not None:
        embed = embedding.embed_documents
        options = {"embeddings": embed(given) if reembed else embed, **options}
    return index.add(given, ids=ids, metadatas=metadatas, **options)


def add_documents(index: BM25Index, documents: Sequence[Document], **options: Any) -> list[str]:
    """Add documents under their ids, or under hashes of their contents where they have none.

    Parameters
    ----------
    index : BM25Index
        Where to.
    documents : sequence of Document
        Any number.
    **options
        As for :func:`add_texts`.

    Returns
    -------
    list of str
        Their ids, in their order.
    """
    return add_texts(
        index,
        [document.page_content for document in documents],
        [document.metadata for document in documents],
        [document.id for document in documents],
        **options,
    )
