"""The hybrid retriever: BM25 and dense vectors as one ranking."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, ClassVar

from langchain_core.embeddings import Embeddings  # noqa: TC002 - pydantic reads the annotations
from langchain_core.runnables.config import run_in_executor
from pydantic import Field, model_validator

from rag_bm25.errors import InputError
from rag_bm25.filters import parse_filter
from rag_bm25.index.searching.hybrid import HybridOptions, words_alone_on_failure
from rag_bm25.langchain.retriever import MilvusBM25Retriever
from rag_bm25.langchain.searching import SearchMode, check_embedding, search

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from langchain_core.documents import Document
    from langchain_core.retrievers import LangSmithRetrieverParams
    from typing_extensions import Self

    from rag_bm25.documents.chunks import Hit
    from rag_bm25.query.query import Query, QueryLike


class MilvusHybridRetriever(MilvusBM25Retriever):
    """Find documents by their words and by their meaning: BM25 and dense vectors of the same chunks, as one ranking.

    The index must have been created with the dimension of the embedding model, ``IndexConfig(dense_dim=...)``.
    Parameters and options may be given as for :class:`MilvusBM25Retriever`.

    The text of a query is embedded by ``embed_query``, and by ``aembed_query`` in asynchronous calls. If the model
    fails on a query, mode "hybrid" warns, and answers by the words alone. The queries of a batch run side by side, at
    most ``max_concurrency`` at a time: LangChain has no call that embeds several queries, and models may embed
    documents differently. In mode "sparse" a batch is one call to Milvus.

    Parameters
    ----------
    index, k, filter, namespace, syntax, score_threshold, score_key, group_score_key, confidence_key, id_key
        As for :class:`MilvusBM25Retriever`.
    search_kwargs : dict
        As for :class:`MilvusBM25Retriever`, and options of
        :class:`~rag_bm25.index.searching.hybrid.FusionOptions`, such as `fusion`. Those of an arm that is not searched
        have no effect; `boosts`, `rerank` and `highlight` need its words, and are refused in mode "dense". There,
        `search_params` are those of the dense search, unless `dense_search_params` are given.
    embedding : Embeddings
        The model; may be left out in mode "sparse".
    mode : {"hybrid", "sparse", "dense"}
        Search both arms, or one of them alone.
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
    sparse_score_key: str | None = None
    dense_score_key: str | None = None

    _options: ClassVar[type] = HybridOptions

    if TYPE_CHECKING:  # type checkers would take the fields alone

        def __init__(self, **given: Any) -> None: ...

    @model_validator(mode="after")
    def _check_arms(self) -> Self:
        check_embedding(self.index, self.embedding)
        for arm in ("sparse", "dense"):
            parse_filter(self.search_kwargs.get(f"{arm}_filter"))
        self._model()
        return self

    def _model(self) -> Embeddings | None:
        """Return the model that embeds queries, None in mode "sparse"."""
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

    def _search(self, queries: Sequence[QueryLike]) -> Sequence[Sequence[Hit]]:
        asked = self._read_queries(queries)
        return self._search_embedded(asked, [self._embed(query) for query in asked])

    async def _asearch(self, queries: Sequence[QueryLike]) -> Sequence[Sequence[Hit]]:
        asked = self._read_queries(queries)
        embeddings = [await self._aembed(query) for query in asked]
        return await run_in_executor(None, self._search_embedded, asked, embeddings)

    def _embed(self, query: Query) -> Sequence[float] | None:
        model = self._model()
        with self._go_on():
            return None if model is None else model.embed_query(str(query))
        return None

    async def _aembed(self, query: Query) -> Sequence[float] | None:
        model = self._model()
        with self._go_on():
            return None if model is None else await model.aembed_query(str(query))
        return None

    def _go_on(self) -> AbstractContextManager[None]:
        """Do without the embedding of a query if the model fails, unless there is nothing but embeddings."""
        return words_alone_on_failure() if self.mode == "hybrid" else nullcontext()

    def _search_embedded(
        self, queries: Sequence[Query], embeddings: Sequence[Sequence[float] | None]
    ) -> list[list[Hit]]:
        return search(self.index, queries, embeddings, self.k, mode=self.mode, options=self._asked())

    def _extra_metadata(self, hit: Hit) -> dict[str, Any]:
        extra = super()._extra_metadata(hit)
        for arm, key in (("sparse", self.sparse_score_key), ("dense", self.dense_score_key)):
            if key is not None:
                extra[key] = hit.score if self.mode == arm else getattr(hit, f"{arm}_score", None)
        return extra
