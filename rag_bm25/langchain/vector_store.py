"""LangChain's vector store, over lexical vectors, and dense ones where the index has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from langchain_core.runnables.config import run_in_executor
from langchain_core.vectorstores import VectorStore

from rag_bm25.chunks import Hit
from rag_bm25.errors import ParameterError
from rag_bm25.langchain.diversity import as_rows, cosines, diverse
from rag_bm25.langchain.documents import add_texts, to_document
from rag_bm25.langchain.searching import as_mode, check_embedding, check_query, relevance, search, where_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from numpy.typing import NDArray
    from typing_extensions import Self

    from rag_bm25.index import BM25Index
    from rag_bm25.langchain.searching import SearchMode

__all__ = ["MilvusBM25VectorStore"]


@dataclass(frozen=True)
class Request:
    """A query as it is to be asked.

    Parameters
    ----------
    query : str
        Any text.
    embedding : sequence of float or None
        Its dense vector.
    mode : {"hybrid", "sparse", "dense"}
        By what to search.
    options : dict
        Those of :meth:`rag_bm25.BM25Index.search_hybrid`.
    """

    query: str
    embedding: Sequence[float] | None
    mode: SearchMode
    options: dict[str, Any]


class MilvusBM25VectorStore(VectorStore):
    """Documents found by their BM25 score, or by dense vectors, or by both, wherever LangChain asks for a vector store.

    Every search takes, besides its own keywords,

    - `mode`: "sparse", "dense" or "hybrid", for this search;
    - `query_embedding`: the query's dense vector, where it is known already;
    - `filter`, `namespace`, `statistics`, `idf`, `epsilon`, `k3` and `bigram_weight`, as
      :meth:`rag_bm25.BM25Index.search` does;
    - `fusion`, `sparse_k`, `dense_k`, `sparse_filter`, `dense_filter`, `search_params` and `dense_search_params`, as
      :meth:`rag_bm25.BM25Index.search_hybrid` does; `fusion` also by name, "rrf" or "weighted". In mode "dense",
      `search_params` are for the dense search where there are no `dense_search_params`.

    *Scores* are those of the search: BM25; cosine or inner product; or fused. *Relevance scores*, which LangChain wants
    in 0..1, rank as scores do:

    ======== =================================================================================================
    sparse   the score divided by the greatest one that any chunk could have for the query: the sum of the
             query's weights, times the upper bound of the index's weighting. They compare across queries. A chunk
             of the mean length that has every known term of the query once is at 0.4 with the default weighting
             and k1. Weightings without an upper bound, such as ``tf``, have none: a ParameterError
    dense    (1 + cosine) / 2; an inner product is taken for the cosine of vectors of length 1
    hybrid   the score divided by that of a chunk that is best in both arms
    ======== =================================================================================================

    What is outside 0..1 all the same, as inner products of longer vectors are, is cut off.

    Parameters
    ----------
    index : BM25Index
        Where the documents are; opened and closed by the caller.
    embedding : Embeddings, optional
        The model; needed to write to an index with dense vectors, and to search them, and allowed only there. It is
        asked only for texts that are new or changed.
    mode : {"hybrid", "sparse", "dense"}, optional
        How to search unless a search says otherwise; by default "hybrid" with an embedding, and "sparse" without.
    namespace : str
        Where documents are written, and are looked for unless a search names another.
    pad_results : bool
        Fill up the results of a sparse search to k with documents that share no term with the query, at score 0, in no
        particular order. A store of dense vectors always returns k documents, and some programs rely on that.

    Raises
    ------
    InputError
        An embedding is given, and the index has no dense vectors.
    ParameterError
        There is no such mode.

    Examples
    --------
    ::

        store = MilvusBM25VectorStore(index)
        store.add_documents(documents)
        store.as_retriever(search_type="similarity_score_threshold", search_kwargs={"score_threshold": 0.3})
    """

    def __init__(
        self,
        index: BM25Index,
        *,
        embedding: Embeddings | None = None,
        mode: SearchMode | None = None,
        namespace: str = "",
        pad_results: bool = False,
    ) -> None:
        check_embedding(index, embedding)
        self.index = index
        self.embedding = embedding
        self.mode = as_mode(mode, embedding)
        self.namespace = namespace
        self.pad_results = pad_results

    @property
    def embeddings(self) -> Embeddings | None:
        """The embedding model, where there is one."""
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
        texts : iterable of str
            The texts.
        embedding : Embeddings, optional
            The model, where the index has dense vectors.
        metadatas : sequence of mappings, optional
            One for each text.
        ids : sequence of str, optional
            One for each text.
        **kwargs
            Those of the constructor, `index` among them.

        Returns
        -------
        MilvusBM25VectorStore
            A store.
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
        """Add texts, or update those whose id is there.

        Parameters
        ----------
        texts : iterable of str
            The texts.
        metadatas : sequence of mappings, optional
            One for each text.
        ids : sequence of str, optional
            One for each text; by default, and for None, a hash of the contents.
        **kwargs
            `namespace`, where it is to be another one; `embeddings`, where the dense vectors are known already;
            ``reembed=True`` to replace those of texts that are stored already, too, by those of another model.
            LangChain's `batch_size` has no effect.

        Returns
        -------
        list of str
            The ids, in the order of `texts`.
        """
        kwargs.pop("batch_size", None)
        options = {"namespace": self.namespace, "embedding": self.embedding, **kwargs}
        return add_texts(self.index, texts, metadatas, ids, **options)

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> bool:
        """Delete documents, named by their ids or by a filter; without either, all of the namespace.

        Parameters
        ----------
        ids : list of str, optional
            Those that are not there are ignored.
        **kwargs
            `filter`, in place of `ids`; `namespace`, where it is to be another one.

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

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return documents by their ids.

        Parameters
        ----------
        ids : sequence of str
            Any number.

        Returns
        -------
        list of Document
            Those that are there, in the order of `ids`.
        """
        return [to_document(chunk) for chunk in self.index.get(ids, namespace=self.namespace)]

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """Return the documents with the greatest scores.

        Parameters
        ----------
        query : str
            Any text.
        k : int
            How many at most.
        **kwargs
            See :class:`MilvusBM25VectorStore`.

        Returns
        -------
        list of Document
            By falling score.
        """
        return [to_document(hit) for hit in self._hits(self._request(query, kwargs), k)]

    async def asimilarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """Return the documents with the greatest scores, without blocking the event loop.

        Parameters
        ----------
        query, k, **kwargs
            As for :meth:`similarity_search`.

        Returns
        -------
        list of Document
            By falling score.
        """
        return await run_in_executor(None, self.similarity_search, query, k, **await self._aembedded(query, kwargs))

    def similarity_search_with_score(self, query: str, k: int = 4, **kwargs: Any) -> list[tuple[Document, float]]:
        """Return the documents with the greatest scores, and the scores.

        Parameters
        ----------
        query, k, **kwargs
            As for :meth:`similarity_search`.

        Returns
        -------
        list of (Document, float)
            By falling score.
        """
        return [(to_document(hit), hit.score) for hit in self._hits(self._request(query, kwargs), k)]

    async def asimilarity_search_with_score(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """Return the documents with the greatest scores, and the scores, without blocking the event loop.

        Parameters
        ----------
        query, k, **kwargs
            As for :meth:`similarity_search`.

        Returns
        -------
        list of (Document, float)
            By falling score.
        """
        options = await self._aembedded(query, kwargs)
        return await run_in_executor(None, self.similarity_search_with_score, query, k, **options)

    def similarity_search_by_vector(self, embedding: list[float], k: int = 4, **kwargs: Any) -> list[Document]:
        """Return the documents whose dense vectors are most similar.

        Parameters
        ----------
        embedding : list of float
            A dense vector.
        k, **kwargs
            As for :meth:`similarity_search`.

        Returns
        -------
        list of Document
            By falling score.
        """
        return self.similarity_search("", k, **{**kwargs, "mode": "dense", "query_embedding": embedding})

    def max_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """Return documents that match the query and differ from each other.

        One after the other, the document is taken whose ``lambda_mult * relevance - (1 - lambda_mult) * similarity`` is
        greatest: its relevance score, and its similarity to the most similar document taken before. That is the
        cosine of lexical vectors in mode "sparse", and otherwise of dense ones, brought to 0..1 as relevance scores
        are; so in mode "dense" the choice is that of LangChain's ``maximal_marginal_relevance``.

        Parameters
        ----------
        query : str
            Any text.
        k : int
            How many at most.
        fetch_k : int
            Among how many of the greatest scores to choose.
        lambda_mult : float
            In [0, 1]; 1 ranks by the score alone.
        **kwargs
            As for :meth:`similarity_search`.

        Returns
        -------
        list of Document
            In the order in which they were taken.

        Raises
        ------
        ParameterError
            `lambda_mult` is out of its range, or there are no relevance scores, see :class:`MilvusBM25VectorStore`.
        """
        if not 0 <= lambda_mult <= 1:
            msg = f"lambda_mult must be in [0, 1], got {lambda_mult!r}"
            raise ParameterError(msg)
        request = self._request(query, kwargs)
        hits, similarity = self._compared(request.mode, self._hits(request, max(k, fetch_k)))
        return [to_document(hits[at]) for at in diverse(self._relevance(request, hits), similarity, lambda_mult, k)]

    async def amax_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """Return documents that match the query and differ from each other, without blocking the event loop.

        Parameters
        ----------
        query, k, fetch_k, lambda_mult, **kwargs
            As for :meth:`max_marginal_relevance_search`.

        Returns
        -------
        list of Document
            In the order in which they were taken.
        """
        options = await self._aembedded(query, kwargs)
        return await run_in_executor(
            None, self.max_marginal_relevance_search, query, k, fetch_k, lambda_mult, **options
        )

    def max_marginal_relevance_search_by_vector(
        self, embedding: list[float], k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """Return documents whose dense vectors are similar to one, and differ from each other.

        Parameters
        ----------
        embedding : list of float
            A dense vector.
        k, fetch_k, lambda_mult, **kwargs
            As for :meth:`max_marginal_relevance_search`.

        Returns
        -------
        list of Document
            In the order in which they were taken.
        """
        options = {**kwargs, "mode": "dense", "query_embedding": embedding}
        return self.max_marginal_relevance_search("", k, fetch_k, lambda_mult, **options)

    async def amax_marginal_relevance_search_by_vector(
        self, embedding: list[float], k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """Return documents whose dense vectors are similar to one, and differ from each other, without blocking.

        Parameters
        ----------
        embedding : list of float
            A dense vector.
        k, fetch_k, lambda_mult, **kwargs
            As for :meth:`max_marginal_relevance_search`.

        Returns
        -------
        list of Document
            In the order in which they were taken.
        """
        search_by_vector = self.max_marginal_relevance_search_by_vector
        return await run_in_executor(None, search_by_vector, embedding, k, fetch_k, lambda_mult, **kwargs)

    def _similarity_search_with_relevance_scores(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """Bring each score to 0..1; the greatest possible BM25 score differs from query to query."""
        request = self._request(query, kwargs)
        hits = self._hits(request, k)
        return list(zip(map(to_document, hits), self._relevance(request, hits).tolist(), strict=True))

    async def _asimilarity_search_with_relevance_scores(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """Do so without blocking the event loop."""
        options = await self._aembedded(query, kwargs)
        return await run_in_executor(None, self._similarity_search_with_relevance_scores, query, k, **options)

    def _request(self, query: str, options: Mapping[str, Any]) -> Request:
        """Embed the query where that is needed and not done yet."""
        options = {"namespace": self.namespace, **options}
        mode = as_mode(options.pop("mode", self.mode), self.embedding)
        embedding = options.pop("query_embedding", None)
        check_query(query, embedded=mode != "sparse" and embedding is None)
        if mode != "sparse" and embedding is None and self.embedding is not None:
            embedding = self.embedding.embed_query(query)
        return Request(query, embedding, mode, options)

    async def _aembedded(self, query: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options with the query's vector, where one is needed, from the model's own coroutine."""
        needed = options.get("mode", self.mode) != "sparse" and options.get("query_embedding") is None
        if not needed or self.embedding is None:
            return dict(options)
        check_query(query, embedded=True)
        return {**options, "query_embedding": await self.embedding.aembed_query(query)}

    def _hits(self, request: Request, k: int) -> list[Hit]:
        mode, options = request.mode, request.options
        (hits,) = search(self.index, [request.query], [request.embedding], k, mode=mode, options=options)
        if self.pad_results and mode == "sparse":
            hits += self._others(hits, k - len(hits), options)
        return hits

    def _others(self, hits: Sequence[Hit], wanted: int, options: Mapping[str, Any]) -> Iterator[Hit]:
        """Yield chunks that a lexical search did not find."""
        found = {(hit.namespace, hit.id) for hit in hits}
        chunks = self.index.chunks(filter=where_of("sparse", options), namespace=options["namespace"])
        others = (chunk for chunk in chunks if (chunk.namespace, chunk.id) not in found)
        for _, chunk in zip(range(wanted), others, strict=False):
            yield Hit(chunk.id, 0.0, chunk.text, chunk.metadata, chunk.namespace)

    def _relevance(self, request: Request, hits: Sequence[Hit]) -> NDArray[np.float64]:
        return relevance(self.index, request.query, hits, mode=request.mode, options=request.options)

    def _compared(self, mode: SearchMode, hits: Sequence[Hit]) -> tuple[list[Hit], NDArray[np.float64]]:
        """Return hits, and the similarity of each to each, in 0..1."""
        if not hits:
            return [], np.empty((0, 0))
        if mode == "sparse":
            lexical = self.index.encode_documents([hit.text for hit in hits], [hit.metadata for hit in hits])
            return list(hits), cosines(as_rows(lexical))
        vectors = self._dense_vectors(hits)
        left = [hit for hit in hits if (hit.namespace, hit.id) in vectors]  # the others were deleted meanwhile
        return left, (1 + cosines(np.array([vectors[hit.namespace, hit.id] for hit in left]))) / 2

    def _dense_vectors(self, hits: Sequence[Hit]) -> dict[tuple[str, str], NDArray[np.float32]]:
        vectors = {}
        for namespace in {hit.namespace for hit in hits}:
            ids = [hit.id for hit in hits if hit.namespace == namespace]
            found = self.index.get_embeddings(ids, namespace=namespace)
            vectors.update({(namespace, id_): vector for id_, vector in found.items()})
        return vectors
