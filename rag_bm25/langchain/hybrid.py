"""The retriever that asks for words and for meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from langchain_core.embeddings import Embeddings
from pydantic import Field

from rag_bm25.index import HybridHit
from rag_bm25.langchain.retriever import MilvusBM25Retriever, MetadataFilter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.retrievers import LangSmithRetrieverParams

    from rag_bm25.chunks import Hit

__all__ = ["MilvusHybridRetriever"]


class MilvusHybridRetriever(MilvusBM25Retriever):
    """Find documents by their words and by their embeddings, in one ranking.

    For an index that was created with ``IndexConfig(dense_dim=...)``. Every option may be given to the constructor, and
    to ``invoke``, ``ainvoke``, ``batch`` and ``abatch`` for one call. Those of :class:`MilvusBM25Retriever` are there
    too; what weighs the query weighs the lexical search.

    Parameters
    ----------
    embedding : Embeddings
        Embeds queries and, in :meth:`from_documents` and :meth:`from_texts`, documents.
    mode : {"hybrid", "sparse", "dense"}
        Both searches, or one of them alone.
    rrf_k : int
        How little the first ranks stand out in reciprocal rank fusion.
    weights : tuple of float, optional
        Weights of the lexical and of the dense search: fuse by scores in place of ranks. Both scales are brought to
        0..1 for each query, see :meth:`rag_bm25.BM25Index.search_hybrid`.
    sparse_limit, dense_limit : int, optional
        How many documents each search contributes; by default 100, or k where that is more.
    sparse_filter, dense_filter : mapping or str, optional
        Conditions on what one of the searches finds, besides `filter`.
    score_threshold : float, optional
        About the score of the ranking: fused in mode "hybrid", BM25 in "sparse", similarity in "dense".
    sparse_score_key, dense_score_key : str, optional
        Put the score of each search into the metadata under this key; None where that search did not find the document.

    Examples
    --------
    ::

        config = IndexConfig(chunk_size=500, dense_dim=384)
        with BM25Index.open("./rag.db", "docs", config=config) as index:
            retriever = MilvusHybridRetriever.from_documents(documents, index=index, embedding=embeddings, k=5)
            retriever.invoke("how are vectors stored?", weights=(0.3, 0.7))
    """

    embedding: Embeddings = Field(repr=False, exclude=True)
    mode: Literal["hybrid", "sparse", "dense"] = "hybrid"
    rrf_k: int = 60
    weights: tuple[float, float] | None = None
    sparse_limit: int | None = None
    dense_limit: int | None = None
    sparse_filter: MetadataFilter = None
    dense_filter: MetadataFilter = None
    sparse_score_key: str | None = None
    dense_score_key: str | None = None

    def _search(self, queries: Sequence[str]) -> Sequence[Sequence[Hit]]:
        if self.mode == "sparse":
            return super()._search(queries)
        vectors = [self.embedding.embed_query(query) for query in queries]
        if self.mode == "dense":
            return [
                self.index.search_dense(vector, self.k, filter=self.filter, namespace=self.namespace)
                for vector in vectors
            ]
        return [self._search_both(query, vector) for query, vector in zip(queries, vectors, strict=True)]

    def _search_both(self, query: str, vector: list[float]) -> Sequence[Hit]:
        return self.index.search_hybrid(
            query,
            vector,
            self.k,
            rrf_k=self.rrf_k,
            weights=self.weights,
            sparse_limit=self.sparse_limit,
            dense_limit=self.dense_limit,
            filter=self.filter,
            sparse_filter=self.sparse_filter,
            dense_filter=self.dense_filter,
            namespace=self.namespace,
            statistics=self.statistics,
            idf=self.idf,
            epsilon=self.epsilon,
            k3=self.k3,
            scores=bool(self.sparse_score_key or self.dense_score_key),
        )

    def _extra(self, hit: Hit) -> dict[str, Any]:
        extra = super()._extra(hit)
        if self.sparse_score_key is not None:
            extra[self.sparse_score_key] = self._score(hit, "sparse")
        if self.dense_score_key is not None:
            extra[self.dense_score_key] = self._score(hit, "dense")
        return extra

    def _score(self, hit: Hit, arm: Literal["sparse", "dense"]) -> float | None:
        """Return the score of one of the searches."""
        if isinstance(hit, HybridHit):
            return hit.sparse_score if arm == "sparse" else hit.dense_score
        return hit.score if self.mode == arm else None

    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        """Name the embeddings too."""
        return {**super()._get_ls_params(**kwargs), "ls_embedding_provider": type(self.embedding).__name__}
