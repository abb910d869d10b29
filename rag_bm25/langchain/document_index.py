"""LangChain's document index: a retriever that can also be written to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.indexing import DeleteResponse, UpsertResponse
from langchain_core.indexing.base import DocumentIndex
from pydantic import model_validator

from rag_bm25.index.coroutines import in_write_thread
from rag_bm25.langchain.documents import add_documents, to_document
from rag_bm25.langchain.hybrid_retriever import MilvusHybridRetriever
from rag_bm25.langchain.searching import as_mode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.documents import Document

    from rag_bm25.index.coroutines import WriteThread


class MilvusBM25DocumentIndex(MilvusHybridRetriever, DocumentIndex):
    """Write, read, delete and find documents, for LangChain's ``index()`` among others.

    The constructor and the search are those of :class:`MilvusHybridRetriever`, but without an embedding model the
    search is lexical. To write to an index with dense vectors a model is needed; it embeds texts that are new or have
    changed. Documents are written to `namespace`, which is a single one; every method takes another one. `get` returns
    the documents that exist, in the order of the ids.

    Examples
    --------
    ::

        store = MilvusBM25DocumentIndex(index=index)
        langchain_core.indexing.index(loader, record_manager, store, cleanup="full", key_encoder="blake2b")
    """

    namespace: str = ""

    @model_validator(mode="before")
    @classmethod
    def _lexical_without_embedding(cls, given: dict[str, Any]) -> dict[str, Any]:
        return {"mode": as_mode(None, given.get("embedding")), **given}

    def upsert(self, items: Sequence[Document], /, **kwargs: Any) -> UpsertResponse:
        """Add documents, or update those whose id already exists.

        Parameters
        ----------
        items : sequence of Document
            Those without an id get a hash of their contents.
        **kwargs
            As for :meth:`MilvusBM25VectorStore.add_texts`.

        Returns
        -------
        UpsertResponse
            All ids, under "succeeded": a document that cannot be written raises an error.
        """
        written = add_documents(self.index, items, **{**self._write_options(), **kwargs})
        return UpsertResponse(succeeded=written, failed=[])

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> DeleteResponse:
        """Delete documents by their ids or by a filter.

        Parameters
        ----------
        ids : list of str, optional
            Unknown ones are ignored.
        **kwargs
            `filter`, instead of `ids`; `namespace`, instead of the own one.

        Returns
        -------
        DeleteResponse
            The number of documents deleted, and their ids if `ids` were given.
        """
        options = {"namespace": self.namespace, **kwargs}
        found = [] if ids is None else [chunk.id for chunk in self.index.get(ids, namespace=options["namespace"])]
        deleted = self.index.delete(ids, **options)
        return DeleteResponse(num_deleted=deleted, succeeded=found, num_failed=0, failed=[])

    aupsert = in_write_thread(upsert)
    adelete = in_write_thread(delete)  # type: ignore[arg-type] # mypy takes the base's parameters

    @property
    def _write_thread(self) -> WriteThread:
        return self.index._write_thread  # noqa: SLF001

    def get(self, ids: Sequence[str], /, **kwargs: Any) -> list[Document]:
        return [to_document(chunk) for chunk in self.index.get(ids, **{"namespace": self.namespace, **kwargs})]
