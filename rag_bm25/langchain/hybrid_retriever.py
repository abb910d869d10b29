"""The hybrid retriever: BM25 and dense vectors as one ranking."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from langchain_core.embeddings import Embeddings  # noqa: TC002 - pydantic reads the annotations
from langchain_core.runnables.config import run_in_executor
from pydantic import BeforeValidator, Field, InstanceOf, model_validator

from rag_bm25.errors import InputError
from rag_bm25.hits.options import MAX_K
from rag_bm25.index.searching.fusion import DEFAULT_FUSION, RRF, Weighted
from rag_bm25.langchain.retriever import MetadataFilter, MilvusBM25Retriever
from rag_bm25.langchain.searching import SEARCH_OPTIONS, SearchMode, as_fusion, check_embedding, check_query, search

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_core.documents import Document
    from langchain_core.retrievers import LangSmithRetrieverParams
    from typing_extensions import Self

    from rag_bm25.documents.chunks import Hit

AnyFusion: TypeAlias = Annotated[InstanceOf[RRF] | InstanceOf[Weighted], BeforeValidator(as_fusion)]


class MilvusHybridRetriever(MilvusBM25Retriever):
    """Find documents by their words and by their meaning: BM25 and dense vectors of the same chunks, as one ranking.

    The index must have been created with the dimension of the embedding model, ``IndexConfig(dense_dim=...)``. Every
    option may be given to the constructor, and to ``invoke``, ``ainvoke``, ``batch`` and ``abatch`` for one call.

    A query is embedded by ``embed_query``, and by ``aembed_query`` in asynchronous calls. The queries of a batch run
    side by side, at most ``max_concurrency`` at a time: LangChain has no call that embeds several queries, and models
    may embed documents differently. In mode "sparse" a batch is one call to Milvus.

    Parameters
    ----------
    index, k, filter, namespace, statistics, idf, epsilon, k3, bigram_weight, word_bigram_weight, latin_weight
        As for :class:`MilvusBM25Retriever`.
    score_key, id_key
        As for :class:`MilvusBM25Retriever`.
    syntax, must, must_not, phrases, slop, expansion, min_should_match
        As for :class:`MilvusBM25Retriever`.
    feedback, relevant, irrelevant, search_params, rescore
        As for :class:`MilvusBM25Retriever`.
    boosts, rerank, near_duplicates, group_by, group_size, group_score, mmr, candidates, expand, group_score_key
        As for :class:`MilvusBM25Retriever`; in mode "dense", without `boosts` and `rerank`.
    highlight
        As for :class:`MilvusBM25Retriever`; not in mode "dense".
    embedding : Embeddings
        The model; may be left out in mode "sparse".
    mode : {"hybrid", "sparse", "dense"}
        Search both arms, or one of them alone. Options of an arm that is not searched have no effect.
    fusion, sparse_k, dense_k, sparse_filter, dense_filter
        As for :meth:`rag_bm25.BM25Index.search_hybrid`; "rrf" and "weighted" are a `fusion` with its defaults.
    dense_search_params : dict, optional
        Milvus's parameters of the dense search, such as ``{"ef": 200}``. `search_params` are those of the lexical
        search; in mode "dense", those of the dense search unless `dense_search_params` are given.
    score_threshold : float, optional
        Leave out documents with a lower score: the fused one, or that of the only arm.
    sparse_score_key, dense_score_key : str, optional
        Put the BM25 score, the dense score, into the metadata under this key: None if that arm did not find the
        document. The ranking stays the same.

    Examples
    --------
    ::

        config = IndexConfig(chunk_size=500, dense_dim=384)
        with BM25Index.open("./rag.db", "docs", config=config) as index:
            retriever = MilvusHybridRetriever.from_documents(documents, index=index, embedding=model, k=5)
            retriever.invoke("how do I cut costs?", fusion=Weighted(sparse=0.3, dense=0.7))
    """

    embedding: Embeddings | None = Field(default=None, repr=False, exclude=True)
    mode: SearchMode = "hybrid"
    fusion: AnyFusion = DEFAULT_FUSION
    sparse_k: int | None = Field(default=None, ge=1, le=MAX_K)
    dense_k: int | None = Field(default=None, ge=1, le=MAX_K)
    sparse_filter: MetadataFilter = None
    dense_filter: MetadataFilter = None
    dense_search_params: dict[str, str | bool | int | float] | None = None
    sparse_score_key: str | None = None
    dense_score_key: str | None = None

    @model_validator(mode="after")
    def _embedding_fits(self) -> Self:
        check_embedding(self.index, self.embedding)
        self._model()
        return self

    def _model(self, queries: Sequence[str] = ()) -> Embeddings | None:
        """Check the queries, and return the model that embeds them, None in mode "sparse"."""
        for query in queries:
            check_query(query, embedded=self.mode != "sparse")
        if self.mode == "sparse":
            return None
        if self.embedding is None:
            raise InputError(f"mode {self.mode!r} needs an embedding")
        return self.embedding

    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        params = super()._get_ls_params(**kwargs)
        model = self.embedding
        return params if model is None else {**params, "ls_embedding_provider": type(model).__name__}

    def _write_options(self) -> dict[str, Any]:
        return {**super()._write_options(), "embedding": self.embedding}

    def _answer_together(self, queries: Sequence[str], options: Mapping[str, Any]) -> list[list[Document]] | Self:
        # Only lexical queries are one call to Milvus.
        return super()._answer_together(queries, options) if options.get("mode", self.mode) == "sparse" else self

    def _search(self, queries: Sequence[str]) -> Sequence[Sequence[Hit]]:
        model = self._model(queries)
        return self._search_embedded(
            queries, [None if model is None else model.embed_query(query) for query in queries]
        )

    async def _asearch(self, queries: Sequence[str]) -> Sequence[Sequence[Hit]]:
        model = self._model(queries)
        embeddings = [None if model is None else await model.aembed_query(query) for query in queries]
        return await run_in_executor(None, self._search_embedded, queries, embeddings)

    def _search_embedded(self, queries: Sequence[str], embeddings: Sequence[Sequence[float] | None]) -> list[list[Hit]]:
        options = {name: value for name, value in self._given_options().items() if name in SEARCH_OPTIONS}
        options["arm_scores"] = bool(self.sparse_score_key or self.dense_score_key)
        return search(self.index, queries, embeddings, self.k, mode=self.mode, options=options)

    def _extra_metadata(self, hit: Hit) -> dict[str, Any]:
        extra = super()._extra_metadata(hit)
        for arm, key in (("sparse", self.sparse_score_key), ("dense", self.dense_score_key)):
            if key is not None:
                extra[key] = hit.score if self.mode == arm else getattr(hit, f"{arm}_score", None)
        return extra
