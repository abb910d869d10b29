"""LangChain's vector store, over lexical vectors, and dense ones where the index has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from langchain_core.runnables.config import run_in_executor
from langchain_core.vectorstores import VectorStore

from rag_bm25.checks import check_parameter, comparable
from rag_bm25.errors import InputError
from rag_bm25.hits.diversity import SparseCosines, cosine_similarity, diversify
from rag_bm25.hits.options import read_given
from rag_bm25.index.owning import IndexOwner
from rag_bm25.index.searching.hybrid import HybridOptions
from rag_bm25.langchain.documents import add_texts, to_document
from rag_bm25.langchain.searching import (
    as_mode,
    as_query,
    check_embedding,
    relevance_scores,
    search,
    warn_of_missing_fields,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from numpy.typing import NDArray
    from typing_extensions import Self

    from rag_bm25.documents.chunks import Hit
    from rag_bm25.index.index import BM25Index
    from rag_bm25.langchain.searching import SearchMode
    from rag_bm25.query.query import Query, QueryLike

_OWN = ("mode", "query_embedding", "filter", "namespace")


@dataclass(frozen=True)
class _Request:
    """A query, and how to search for it."""

    query: Query
    embedding: Sequence[float] | None  # not used in mode "sparse"
    mode: SearchMode
    options: dict[str, Any]  # of BM25Index.search_hybrid


class MilvusBM25VectorStore(IndexOwner, VectorStore):
    """Find documents by BM25, by dense vectors or by both, wherever LangChain asks for a vector store.

    Besides its own keywords, every search takes

    - `mode`: "sparse", "dense" or "hybrid", for this search;
    - `query_embedding`: the dense vector of the query, if it is known already;
    - `filter`, `namespace`, and the options of :class:`~rag_bm25.hits.options.SearchOptions` and
      :class:`~rag_bm25.index.searching.hybrid.FusionOptions`, as values or as JSON has them. Their effect on
      documents is that on those of :class:`MilvusBM25Retriever` and :class:`MilvusHybridRetriever`.

    A query may also be a mapping or a :class:`~rag_bm25.Query`; the model embeds its text. LangChain describes the
    methods that are not described here. Documents come by falling score; those of `get_by_ids`, in the order of the
    ids. A search by a vector has the mode "dense". Asynchronous methods do not block the event loop.

    *Scores* are those of the search: BM25, cosine or inner product, or fused. *Relevance scores* are in 0..1, as
    LangChain asks, and in the same order:

    ======== =================================================================================================
    sparse   the score divided by the upper bound of the query's scores: the sum of the query's weights, times
             the upper bound of the index's weighting. They can be compared across queries. A chunk of the mean
             length that has every known term of the query once is at 0.4 with the default weighting and k1.
             Weightings without an upper bound, such as ``tf``, have no relevance scores: a ParameterError
    dense    (1 + cosine) / 2; an inner product is taken for the cosine of vectors of length 1
    hybrid   the score divided by that of a chunk that is first in both arms
    ======== =================================================================================================

    Values outside 0..1, as inner products of longer vectors give, are clipped. Boosted scores are also divided by the
    largest possible factor. There are no relevance scores with `rerank`.

    Parameters
    ----------
    index : BM25Index
        Where the documents are; opened and closed by the caller, or by :meth:`from_uri` and :meth:`close`.
    embedding : Embeddings, optional
        The model. It is needed to write to an index with dense vectors and to search them, and allowed only there.
        Only texts that are new or have changed are embedded.
    mode : {"hybrid", "sparse", "dense"}, optional
        How to search by default; if not given, "hybrid" with an embedding model and "sparse" without.
    namespace : str
        Where documents are written, and searched by default.

    Raises
    ------
    InputError
        An embedding model is given, and the index has no dense vectors.
    ParameterError
        There is no such mode.

    Examples
    --------
    ::

        store = MilvusBM25VectorStore(index)
        store.add_documents(documents)
        store.as_retriever(search_type="similarity_score_threshold", search_kwargs={"score_threshold": 0.3})
    """

    _owns_index = False

    def __init__(
        self,
        index: BM25Index,
        *,
        embedding: Embeddings | None = None,
        mode: SearchMode | None = None,
        namespace: str = "",
    ) -> None:
        check_embedding(index, embedding)
        self.index = index
        self.embedding = embedding
        self.mode = as_mode(mode, embedding)
        self.namespace = namespace

    @property
    def embeddings(self) -> Embeddings | None:
        return self.embedding

    @classmethod
    def from_texts(
        cls,
        texts: Iterable[str],
        embedding: Embeddings | None = None,
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Add texts to an index, and return a store over it.

        Parameters
        ----------
        texts, embedding, metadatas, ids, **kwargs
            As for :meth:`add_texts` and the constructor; `index` is needed.
        """
        store = cls(embedding=embedding, **kwargs)
        store.add_texts(texts, metadatas, ids=ids)
        return store

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """Add texts, or update those whose id already exists.

        Parameters
        ----------
        texts, metadatas, ids
            As for :meth:`rag_bm25.BM25Index.add`.
        **kwargs
            `namespace`, instead of the store's; `embeddings`, if the dense vectors are known already; ``reembed=True``
            to embed unchanged texts again, with another model. LangChain's `batch_size` has no effect.

        Returns
        -------
        list of str
            The ids, in the order of `texts`.
        """
        kwargs.pop("batch_size", None)
        options = {"namespace": self.namespace, "embedding": self.embedding, **kwargs}
        return add_texts(self.index, texts, metadatas, ids, **options)

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> bool:
        """Delete documents by their ids or by a filter; without either, the whole namespace.

        Parameters
        ----------
        ids : list of str, optional
            Unknown ones are ignored.
        **kwargs
            `filter`, instead of `ids`; `namespace`, instead of the store's.

        Returns
        -------
        bool
            True.
        """
        options = {"namespace": self.namespace, **kwargs}
        if ids is None and "filter" not in options:
            self.index.drop_namespace(**options)
        else:
            self.index.delete(ids, **options)
        return True

    async def aadd_texts(
        self, texts: Iterable[str], metadatas: Sequence[Mapping[str, Any]] | None = None, **kwargs: Any
    ) -> list[str]:
        return await self.index._write_thread.submit(self.add_texts, texts, metadatas, **kwargs)  # noqa: SLF001

    async def adelete(self, ids: list[str] | None = None, **kwargs: Any) -> bool:
        return await self.index._write_thread.submit(self.delete, ids, **kwargs)  # noqa: SLF001

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        return [to_document(chunk) for chunk in self.index.get(ids, namespace=self.namespace)]

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        return [to_document(hit) for hit in self._search(self._request(query, kwargs), k)]

    async def asimilarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        return await super().asimilarity_search(query, k, **await self._aembed(query, kwargs))

    def similarity_search_with_score(self, query: str, k: int = 4, **kwargs: Any) -> list[tuple[Document, float]]:
        return [(to_document(hit), hit.score) for hit in self._search(self._request(query, kwargs), k)]

    async def asimilarity_search_with_score(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        return await super().asimilarity_search_with_score(query, k, **await self._aembed(query, kwargs))

    def similarity_search_by_vector(self, embedding: list[float], k: int = 4, **kwargs: Any) -> list[Document]:
        return self.similarity_search("", k, **_by_vector(embedding, kwargs))

    def similarity_search_with_score_by_vector(
        self, embedding: list[float], k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """Return the documents with the most similar dense vectors, with their cosine or inner product.

        Parameters
        ----------
        embedding : list of float
            The dense vector of a query.
        k : int
            Maximum number of documents.
        **kwargs
            See :class:`MilvusBM25VectorStore`.

        Returns
        -------
        list of (Document, float)
            By falling score.
        """
        return self.similarity_search_with_score("", k, **_by_vector(embedding, kwargs))

    def max_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """Return documents that match the query and differ from each other.

        Documents are chosen one by one, each by the maximum of ``lambda_mult * relevance - (1 - lambda_mult) *
        similarity``: its relevance score, and its similarity to the most similar document chosen before. That is the
        cosine of lexical vectors in mode "sparse"; otherwise the cosine of dense ones, scaled to 0..1 as relevance
        scores are. In mode "dense" the choice is that of LangChain's ``maximal_marginal_relevance``.

        Parameters
        ----------
        query : str
            Any text.
        k, fetch_k : int
            Maximum number of documents, and the number of hits to choose from.
        lambda_mult : float
            In [0, 1]; 1 ranks by the score alone.
        **kwargs
            See :class:`MilvusBM25VectorStore`.

        Returns
        -------
        list of Document
            In the order of choice.

        Raises
        ------
        ParameterError
            `lambda_mult` is out of range, or there are no relevance scores, see :class:`MilvusBM25VectorStore`.
        """
        check_parameter("lambda_mult", lambda_mult, "a number in [0, 1]", 0 <= comparable(lambda_mult) <= 1)
        request = self._request(query, kwargs)
        hits, similarity = _compare(self.index, request.mode, self._search(request, max(k, fetch_k)))
        return [to_document(hits[at]) for at in diversify(self._relevance(request, hits), similarity, lambda_mult, k)]

    async def amax_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        options = await self._aembed(query, kwargs)
        return await super().amax_marginal_relevance_search(query, k, fetch_k, lambda_mult, **options)

    def max_marginal_relevance_search_by_vector(
        self, embedding: list[float], k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        return self.max_marginal_relevance_search("", k, fetch_k, lambda_mult, **_by_vector(embedding, kwargs))

    def _similarity_search_with_relevance_scores(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        # LangChain would scale each score by itself, but the upper bound of BM25 depends on the query.
        request = self._request(query, kwargs)
        hits = self._search(request, k)
        return list(zip(map(to_document, hits), self._relevance(request, hits).tolist(), strict=True))

    async def _asimilarity_search_with_relevance_scores(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        options = await self._aembed(query, kwargs)
        return await run_in_executor(None, self._similarity_search_with_relevance_scores, query, k, **options)

    def _request(self, query: QueryLike, options: Mapping[str, Any]) -> _Request:
        """Embed the query if its vector is needed and not known yet."""
        given = {"mode": self.mode, "query_embedding": None, "namespace": self.namespace, **options}
        read = read_given(HybridOptions, given, _OWN)
        mode, embedding = as_mode(read.pop("mode"), self.embedding), read.pop("query_embedding")
        asked = as_query(query)
        if mode != "sparse" and embedding is None:
            if self.embedding is None:
                raise InputError(f"mode {mode!r} needs an embedding model, and none was given")
            embedding = self.embedding.embed_query(str(asked))
        return _Request(asked, embedding, mode, read)

    async def _aembed(self, query: QueryLike, options: Mapping[str, Any]) -> dict[str, Any]:
        """Add the query's vector to the options if it is needed, by the model's own coroutine."""
        needed = options.get("mode", self.mode) != "sparse" and options.get("query_embedding") is None
        if not needed or self.embedding is None:
            return dict(options)
        return {**options, "query_embedding": await self.embedding.aembed_query(str(as_query(query)))}

    def _search(self, request: _Request, k: int) -> list[Hit]:
        options = request.options
        (hits,) = search(self.index, [request.query], [request.embedding], k, mode=request.mode, options=options)
        if not hits:
            warn_of_missing_fields(self.index, request.query, options)
        return hits

    def _relevance(self, request: _Request, hits: Sequence[Hit]) -> NDArray[np.float64]:
        return relevance_scores(self.index, request.query, hits, mode=request.mode, options=request.options)


def _by_vector(embedding: list[float], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a search for a vector, whose query has no text."""
    return {**options, "mode": "dense", "query_embedding": embedding}


def _compare(
    index: BM25Index, mode: SearchMode, hits: Sequence[Hit]
) -> tuple[list[Hit], NDArray[np.float64] | SparseCosines]:
    """Return the hits whose vectors can be had, and the similarity of each with each other, in 0..1."""
    if mode == "sparse" and hits:
        lexical = index.encode_documents([hit.text for hit in hits], [hit.metadata for hit in hits])
        return list(hits), SparseCosines(lexical)
    vectors = {}
    for namespace in {hit.namespace for hit in hits}:
        ids = [hit.id for hit in hits if hit.namespace == namespace]
        found = index.get_embeddings(ids, namespace=namespace)
        vectors.update({(namespace, id_): vector for id_, vector in found.items()})
    stored = [hit for hit in hits if (hit.namespace, hit.id) in vectors]  # the others were deleted meanwhile
    if not stored:
        return [], np.empty((0, 0))
    return stored, (1 + cosine_similarity(np.array([vectors[hit.namespace, hit.id] for hit in stored]))) / 2
