"""LangChain's document index: a retriever that can also be written to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.indexing import DeleteResponse, UpsertResponse
from langchain_core.indexing.base import DocumentIndex
from pydantic import model_validator

from rag_bm25.langchain.documents import add_documents, to_document
from rag_bm25.langchain.hybrid_retriever import MilvusHybridRetriever
from rag_bm25.langchain.searching import as_mode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.documents import Document

__all__ = ["MilvusBM25DocumentIndex"]


class MilvusBM25DocumentIndex(MilvusHybridRetriever, DocumentIndex):
    """Write, read, delete and find documents; a destination of LangChain's ``index()``.

    The constructor and the search are those of :class:`MilvusHybridRetriever`, but without an embedding the search is
    lexical. Where the index has dense vectors, writing needs an embedding, which is asked for the texts that are new or
    changed. `namespace` is a single one, and what is written goes there.

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
        """Add documents, or update those whose id is there.

        Parameters
        ----------
        items : sequence of Document
            Those without an id get a hash of their contents.
        **kwargs
            `namespace`, where it is to be another one; `embeddings`, where the dense vectors are known already;
            ``reembed=True`` to replace those of texts that are stored already, too, by those of another model.

        Returns
        -------
        UpsertResponse
            All ids under "succeeded": what cannot be written is an error, and not a part of the answer.
        """
        written = add_documents(self.index, items, **{**self._adding(), **kwargs})
        return UpsertResponse(succeeded=written, failed=[])

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> DeleteResponse:
        """Delete documents, named by their ids or by a filter.

        Parameters
        ----------
        ids : list of str, optional
            Those that are not there are ignored.
        **kwargs
            `filter`, in place of `ids`; `namespace`, where it is to be another one.

        Returns
        -------
        DeleteResponse
            How many there were, and where ids were given, which.
        """
        options = {"namespace": self.namespace, **kwargs}
        there = [] if ids is None else [chunk.id for chunk in self.index.get(ids, namespace=options["namespace"])]
        deleted = self.index.delete(ids, **options)
        return DeleteResponse(num_deleted=deleted, succeeded=there, num_failed=0, failed=[])

    def get(self, ids: Sequence[str], /, **kwargs: Any) -> list[Document]:
        """Return documents by their ids.

        Parameters
        ----------
        ids : sequence of str
            Any number.
        **kwargs
            `namespace`, where it is to be another one.

        Returns
        -------
        list of Document
            Those that are there, in the order of `ids`.
        """
        return [to_document(chunk) for chunk in self.index.get(ids, **{"namespace": self.namespace, **kwargs})]
