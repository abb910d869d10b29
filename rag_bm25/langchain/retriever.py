"""The lexical retriever."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from langchain_core.documents import Document  # noqa: TC002 - pydantic reads the annotations
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables.config import get_config_list, run_in_executor
from pydantic import AfterValidator, ConfigDict, Field, InstanceOf, PrivateAttr, ValidationError, model_validator

from rag_bm25.errors import InputError, ParameterError, RagBM25Error
from rag_bm25.expansion import QueryExpansion  # noqa: TC001 - pydantic reads the annotations
from rag_bm25.feedback import Feedback  # noqa: TC001 - pydantic reads the annotations
from rag_bm25.filters import parse_filter
from rag_bm25.index import BM25Index
from rag_bm25.langchain.documents import add_documents, add_texts, to_document
from rag_bm25.langchain.searching import check_query
from rag_bm25.min_should_match import check_min_should_match
from rag_bm25.query_options import QUERY_OPTIONS, StatisticsScope
from rag_bm25.ranking import MAX_K
from rag_bm25.similarity import IdfName  # noqa: TC001 - pydantic reads the annotations

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path
    from types import TracebackType

    from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
    from langchain_core.retrievers import LangSmithRetrieverParams
    from langchain_core.runnables import RunnableConfig
    from typing_extensions import Self

    from rag_bm25.chunks import Hit

__all__ = ["MetadataFilter", "MilvusBM25Retriever"]


def _readable(filter: Mapping[Any, Any] | str | None) -> Mapping[Any, Any] | str | None:
    """Refuse a filter that cannot be read."""
    parse_filter(filter)
    return filter


def _countable(value: int | str | None) -> int | str | None:
    """Refuse a number of words that cannot be read."""
    if value is not None:
        check_min_should_match(value)
    return value


MetadataFilter: TypeAlias = Annotated[Mapping[Any, Any] | str | None, AfterValidator(_readable)]
"""Conditions on the metadata as users write them, checked when they are given."""


class MilvusBM25Retriever(BaseRetriever):
    """Find documents by their BM25 score.

    Every option may be given to the constructor, and to ``invoke``, ``ainvoke``, ``batch`` and ``abatch`` for one call.
    A batch is one call to Milvus.

    Parameters
    ----------
    index : BM25Index
        Where to search; opened and closed by the caller, or by :meth:`from_uri` and :meth:`close`.
    k : int
        How many documents at most, in 1..16384.
    filter : mapping or str, optional
        Conditions on the metadata, see :mod:`rag_bm25.filters`, or a Milvus expression.
    namespace : str, list of str or None
        Whose documents; None for all.
    statistics : {"namespace", "all"}
        Whether N and df are those of `namespace`, or of the whole index.
    idf : str, optional
        Which IDF; by default the index's own. The next three likewise, see :class:`rag_bm25.IndexConfig`.
    epsilon, k3, bigram_weight : float, optional
        See `idf`.
    syntax : bool
        Whether ``word^2``, ``"several words"^0.5`` and ``prefix*`` have a meaning in queries.
    expansion : QueryExpansion, optional
        Synonyms and near spellings to look for too, see :class:`rag_bm25.QueryExpansion`.
    min_should_match : int or str, optional
        How many words of a query a document has to have: 3, -1, ``"75%"``, ``"3<90%"``.
    feedback : RM3, Rocchio or BIM, optional
        How a query learns from relevant documents, see :mod:`rag_bm25.feedback`.
    relevant, irrelevant : list of str, optional
        Ids of documents that users marked; without them, the best ones of a first search are taken for relevant.
    search_params : dict, optional
        What Milvus is told about the search, such as ``{"drop_ratio_search": 0.1}``.
    score_threshold : float, optional
        Leave out documents whose BM25 score is lower. Scores have no upper bound and depend on the query; for a
        threshold in 0..1 use :meth:`MilvusBM25VectorStore.as_retriever` with ``similarity_score_threshold``.
    score_key : str, optional
        Put the score into the metadata under this key; by default the metadata are exactly as ingested.
    id_key : str, optional
        Put the id into the metadata under this key, for those who look for it there, such as ``EnsembleRetriever``.

    Examples
    --------
    ::

        with BM25Index.open("./rag.db", "docs", config=IndexConfig(chunk_size=500)) as index:
            retriever = MilvusBM25Retriever.from_documents(documents, index=index, k=5)
            retriever.invoke("sparse vectors", filter={"source": "guide.md"}, score_key="score")

    An index that is there already::

        with MilvusBM25Retriever.from_uri("./rag.db", "docs", k=5) as retriever:
            retriever.invoke("sparse vectors")
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    index: BM25Index = Field(repr=False, exclude=True)
    k: int = Field(default=4, ge=1, le=MAX_K)
    filter: MetadataFilter = None
    namespace: str | list[str] | None = ""
    statistics: StatisticsScope = "namespace"
    idf: IdfName | None = None
    epsilon: float | None = None
    k3: float | None = None
    bigram_weight: float | None = None
    syntax: bool = False
    expansion: InstanceOf[QueryExpansion] | None = None
    min_should_match: Annotated[int | str | None, AfterValidator(_countable)] = None
    feedback: Feedback | None = None
    relevant: list[str] | None = None
    irrelevant: list[str] | None = None
    search_params: dict[str, str | bool | int | float] | None = None
    score_threshold: float | None = None
    score_key: str | None = None
    id_key: str | None = None

    _owns_index: bool = PrivateAttr(default=False)
    _outcome: list[Document] | RagBM25Error | None = PrivateAttr(default=None)  # what a batch has found for the query

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_options(cls, given: Any) -> Any:
        unknown = sorted(set(given) - set(cls.model_fields)) if isinstance(given, Mapping) else []
        if unknown:
            options = ", ".join(sorted(set(cls.model_fields) - {"index"}))
            msg = f"there is no option {unknown[0]!r}; the options are {options}"
            raise ParameterError(msg)
        return given

    @classmethod
    def from_uri(cls, uri: str | Path, collection: str, **options: Any) -> Self:
        """Open an index, and return a retriever that closes it: use it in a ``with`` statement, or call :meth:`close`.

        Parameters
        ----------
        uri, collection
            As for :meth:`rag_bm25.BM25Index.open`.
        **options
            Those of :meth:`rag_bm25.BM25Index.open`, and those of the constructor.

        Returns
        -------
        MilvusBM25Retriever
            A retriever.
        """
        opening = options.keys() & signature(BM25Index.open).parameters.keys()
        index = BM25Index.open(uri, collection, **{name: options.pop(name) for name in opening})
        try:
            retriever = cls(index=index, **options)
        except BaseException:
            index.close()
            raise
        retriever._owns_index = True
        return retriever

    def close(self) -> None:
        """Close the index, if :meth:`from_uri` has opened it. Closing twice is allowed."""
        if self._owns_index:
            self.index.close()

    def __enter__(self) -> Self:
        """Return the retriever itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the index, if the retriever has opened it."""
        self.close()

    @classmethod
    def from_index(cls, index: BM25Index, **options: Any) -> Self:
        """Return a retriever over an index as it is.

        Parameters
        ----------
        index : BM25Index
            Where to search.
        **options
            Those of the constructor.

        Returns
        -------
        MilvusBM25Retriever
            A retriever.
        """
        return cls(index=index, **options)

    @classmethod
    def from_documents(cls, documents: Sequence[Document], *, index: BM25Index, **options: Any) -> Self:
        """Add documents to an index, and return a retriever over it.

        Parameters
        ----------
        documents : sequence of Document
            Added, or updated where their id is known; without ids, the same document twice is one document.
        index : BM25Index
            Where to.
        **options
            Those of the constructor; the documents go into `namespace`.

        Returns
        -------
        MilvusBM25Retriever
            A retriever.
        """
        retriever = cls(index=index, **options)
        add_documents(index, documents, **retriever._adding())
        return retriever

    @classmethod
    def from_texts(
        cls,
        texts: Iterable[str],
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        *,
        index: BM25Index,
        ids: Sequence[str | None] | None = None,
        **options: Any,
    ) -> Self:
        """Add texts to an index, and return a retriever over it.

        Parameters
        ----------
        texts : iterable of str
            The texts.
        metadatas : sequence of mappings, optional
            One for each text.
        index : BM25Index
            Where to.
        ids : sequence of str, optional
            One for each text.
        **options
            Those of the constructor; the texts go into `namespace`.

        Returns
        -------
        MilvusBM25Retriever
            A retriever.
        """
        retriever = cls(index=index, **options)
        add_texts(index, texts, metadatas, ids, **retriever._adding())
        return retriever

    def batch(
        self,
        inputs: list[str],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[list[Document]]:
        """Answer several queries in one call to Milvus.

        Parameters
        ----------
        inputs : list of str
            The queries.
        config : RunnableConfig or list of RunnableConfig, optional
            For all, or one for each.
        return_exceptions : bool
            Return the errors in place of the answers, instead of raising the first one.
        **kwargs
            Options for this call.

        Returns
        -------
        list of list of Document
            In the order of `inputs`.
        """
        found = self._together(inputs, kwargs)
        if isinstance(found, MilvusBM25Retriever):
            one_by_one = super(MilvusBM25Retriever, found).batch
            return one_by_one(inputs, config, return_exceptions=return_exceptions, **kwargs)
        configs = get_config_list(config, len(inputs))
        return [
            self._knowing(answer).invoke(query, config)
            for query, config, answer in zip(inputs, configs, found, strict=True)
        ]

    async def abatch(
        self,
        inputs: list[str],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[list[Document]]:
        """Answer several queries in one call to Milvus, without blocking the event loop.

        Parameters
        ----------
        inputs, config, return_exceptions, **kwargs
            As for :meth:`batch`.

        Returns
        -------
        list of list of Document
            In the order of `inputs`.
        """
        found = await run_in_executor(None, self._together, inputs, kwargs)
        if isinstance(found, MilvusBM25Retriever):
            one_by_one = super(MilvusBM25Retriever, found).abatch
            return await one_by_one(inputs, config, return_exceptions=return_exceptions, **kwargs)
        configs = get_config_list(config, len(inputs))
        return [
            await self._knowing(answer).ainvoke(query, config)
            for query, config, answer in zip(inputs, configs, found, strict=True)
        ]

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,  # noqa: ARG002 - LangChain passes it by name
        **options: Any,
    ) -> list[Document]:
        """Answer a query, unless a batch has done so."""
        return self._answers([query], options)[0] if self._outcome is None else self._known()

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,  # noqa: ARG002
        **options: Any,
    ) -> list[Document]:
        """Answer a query without blocking the event loop, unless a batch has done so."""
        if self._outcome is not None:
            return self._known()
        (documents,) = await self._asked(options)._afind([query])  # noqa: SLF001 - one of its kind
        return documents

    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        """Describe the retriever to tracers."""
        return {**super()._get_ls_params(**kwargs), "ls_vector_store_provider": "Milvus"}

    def _adding(self) -> dict[str, Any]:
        """Return how documents are added; the namespace must be a single one."""
        return {"namespace": self.namespace}

    def _asked(self, options: Mapping[str, Any]) -> Self:
        """Return this retriever as it would be if it had been made with `options` too."""
        return type(self)(**{**self._given(), **options}) if options else self

    def _answers(self, queries: Sequence[str], options: Mapping[str, Any]) -> list[list[Document]]:
        return self._asked(options)._find(queries)  # noqa: SLF001 - one of its kind

    def _together(self, queries: Sequence[str], options: Mapping[str, Any]) -> list[list[Document]] | Self:
        """Answer a batch in one call, or return the retriever to ask one by one: each error is that of a query."""
        try:
            return self._answers(queries, options)
        except (InputError, ParameterError, ValidationError):
            return self
        except RagBM25Error as error:  # asked again, each query would wait for it as long
            return self._knowing(error)

    def _knowing(self, outcome: list[Document] | RagBM25Error) -> Self:
        """Return this retriever with its next answer known, so that each query of a batch still has its own trace."""
        copy = self.model_copy()
        copy._outcome = outcome  # noqa: SLF001 - one of its kind
        return copy

    def _known(self) -> list[Document]:
        if isinstance(self._outcome, RagBM25Error):
            raise self._outcome
        return self._outcome or []

    def _find(self, queries: Sequence[str]) -> list[list[Document]]:
        return [self._documents(hits) for hits in self._search(queries)]

    async def _afind(self, queries: Sequence[str]) -> list[list[Document]]:
        return [self._documents(hits) for hits in await self._asearch(queries)]

    def _search(self, queries: Sequence[str]) -> Sequence[Sequence[Hit]]:
        for query in queries:
            check_query(query, embedded=False)
        return self.index.search_batch(
            queries,
            self.k,
            filter=self.filter,
            namespace=self.namespace,
            **{name: value for name, value in self._given().items() if name in QUERY_OPTIONS},
        )

    async def _asearch(self, queries: Sequence[str]) -> Sequence[Sequence[Hit]]:
        return await run_in_executor(None, self._search, queries)

    def _given(self) -> dict[str, Any]:
        """Return the options that were given; the others are as the index's config says."""
        return {name: getattr(self, name) for name in self.model_fields_set}

    def _documents(self, hits: Sequence[Hit]) -> list[Document]:
        lowest = self.score_threshold
        return [to_document(hit, self._extra(hit)) for hit in hits if lowest is None or hit.score >= lowest]

    def _extra(self, hit: Hit) -> dict[str, Any]:
        """Return what the metadata are to have in addition."""
        extra: dict[str, Any] = {}
        if self.score_key is not None:
            extra[self.score_key] = hit.score
        if self.id_key is not None:
            extra[self.id_key] = hit.id
        return extra
