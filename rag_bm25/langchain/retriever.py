"""The lexical retriever."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias, TypeVar

from langchain_core.documents import Document  # noqa: TC002 - pydantic reads the annotations
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables.config import get_config_list, run_in_executor
from pydantic import BeforeValidator, Field, FiniteFloat, PrivateAttr, ValidationError, field_validator

from rag_bm25.analysis.contract import contract_of
from rag_bm25.checks import check_callable, parameter_error
from rag_bm25.documents.checks import check_chunks, check_distinct
from rag_bm25.documents.lengths import chunk_length
from rag_bm25.errors import IndexNotFoundError, InputError, ParameterError, RagBM25Error
from rag_bm25.filters import parse_filter
from rag_bm25.hits.options import SearchOptions, read_given
from rag_bm25.index.async_index import AsyncBM25Index
from rag_bm25.index.config import IndexConfig
from rag_bm25.index.index import BM25Index  # noqa: TC001 - pydantic reads the annotations
from rag_bm25.index.opening import closed_on_failure
from rag_bm25.index.owning import IndexOwner
from rag_bm25.langchain.documents import add_texts, split_documents, to_document
from rag_bm25.langchain.searching import as_query, warn_of_missing_fields
from rag_bm25.store.rows import MAX_K

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
    from langchain_core.retrievers import LangSmithRetrieverParams
    from langchain_core.runnables import RunnableConfig
    from typing_extensions import Self

    from rag_bm25.analysis import TextAnalyzer
    from rag_bm25.documents.chunks import Hit
    from rag_bm25.query.query import Query, QueryLike

    Configs: TypeAlias = RunnableConfig | list[RunnableConfig] | None


def _check_filter(given: Any) -> Any:
    parse_filter(given)
    return given


Owner = TypeVar("Owner", bound=IndexOwner)
MetadataFilter: TypeAlias = Annotated[Mapping[Any, Any] | None, BeforeValidator(_check_filter)]


class MilvusBM25Retriever(IndexOwner, BaseRetriever):
    """Find documents by their BM25 score.

    Every parameter may be given to the constructor, and to ``invoke``, ``ainvoke``, ``batch`` and ``abatch`` for one
    call, and so may the options in `search_kwargs`, by their own names. A query is a text, a mapping of texts to their
    boosts, or a :class:`~rag_bm25.Query`. A batch is one call to Milvus.

    Parameters
    ----------
    index : BM25Index
        Where to search; opened and closed by the caller, or by :meth:`from_texts`, :meth:`from_uri` and :meth:`close`.
    k, filter, namespace
        As for :meth:`rag_bm25.BM25Index.search`, but `k` is 4 by default, and several namespaces are a list.
    search_kwargs : dict
        Options of the search, see :class:`~rag_bm25.hits.options.SearchOptions`: as values, or as JSON has them,
        ``{"group": {"key": "source"}}``. With `context`, the text of a document is that of the hit's context; its id
        and its metadata are those of the hit. With `highlight`, the metadata have the fragments under
        ``"highlights"``: a list of dicts with the fields of :class:`rag_bm25.Fragment`, whose places are in the text of
        the document; those of fields by their names under ``"field_highlights"``.
    syntax : bool
        Whether to read a text by :meth:`rag_bm25.Query.parse`.
    score_threshold : float, optional
        The option `min_score`, as LangChain names it; of both, the higher one counts. Scores of BM25 have no common
        upper bound and depend on the query; for a threshold in 0..1 use :meth:`MilvusBM25VectorStore.as_retriever` with
        ``similarity_score_threshold``.
    score_key : str, optional
        Put the score, boosted or reranked, into the metadata under this key; by default the metadata are exactly as
        ingested.
    group_score_key : str, optional
        Put the score of the hit's group into the metadata under this key: None without `group`.
    confidence_key : str, optional
        Put the confidence that the hit answers into the metadata under this key: None without a model.
    id_key : str, optional
        Put the id into the metadata under this key, for programs that look for it there, such as ``EnsembleRetriever``.

    Raises
    ------
    TypeError
        There is no such parameter or option.
    ValidationError
        A value breaks a rule.

    Examples
    --------
    ::

        retriever = MilvusBM25Retriever.from_documents(documents, k=5, group=Grouping("source"))  # in memory
        retriever.invoke("sparse vectors", filter={"source": "guide.md"}, score_key="score")

    An existing index::

        with MilvusBM25Retriever.from_uri("./rag.db", "docs", k=5) as retriever:
            retriever.invoke("sparse vectors")
    """

    index: BM25Index = Field(repr=False, exclude=True)
    k: int = Field(default=4, ge=1, le=MAX_K)
    filter: MetadataFilter = None
    namespace: str | list[str] | None = ""
    search_kwargs: dict[str, Any] = Field(default_factory=dict)
    syntax: bool = False
    score_threshold: FiniteFloat | None = None
    score_key: str | None = None
    group_score_key: str | None = None
    confidence_key: str | None = None
    id_key: str | None = None

    _options: ClassVar[type] = SearchOptions
    _owns_index: bool = PrivateAttr(default=False)
    _outcome: list[Document] | RagBM25Error | None = PrivateAttr(default=None)  # of the query, known from its batch

    def __init__(self, **given: Any) -> None:
        options = {name: given.pop(name) for name in given.keys() - type(self).model_fields.keys()}
        if isinstance(own := given.get("search_kwargs", {}), Mapping) and options:
            given["search_kwargs"] = {**own, **options}
        super().__init__(**given)

    @field_validator("search_kwargs")
    @classmethod
    def _read_options(cls, given: dict[str, Any]) -> dict[str, Any]:
        read = read_given(cls._options, given, cls.model_fields.keys())
        if fields := sorted(read.keys() & cls.model_fields.keys()):
            raise ParameterError(f"{fields[0]} is a parameter of its own, not an option in search_kwargs")
        return read

    @classmethod
    def from_documents(cls, documents: Iterable[Document], **options: Any) -> Self:
        """Add documents to an index, by default a new one in memory, and return a retriever over it.

        Parameters
        ----------
        documents : iterable of Document
            Added, or updated if their id already exists; the same document twice, without an id, is one document.
        **options
            As for :meth:`from_texts`.
        """
        texts, metadatas, ids = split_documents(documents)
        return cls.from_texts(texts, metadatas, ids=ids, **options)

    @classmethod
    def from_texts(
        cls,
        texts: Iterable[str],
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        index: BM25Index | None = None,
        uri: str | Path = ":memory:",
        collection: str = "docs",
        config: IndexConfig | None = None,
        bm25_params: Mapping[str, Any] | None = None,
        preprocess_func: TextAnalyzer | None = None,
        **options: Any,
    ) -> Self:
        """Add texts to an index, by default a new one in memory, and return a retriever over it.

        Parameters
        ----------
        texts, metadatas, ids
            As for :meth:`MilvusBM25VectorStore.add_texts`; the texts are written to `namespace`.
        index : BM25Index, optional
            Of the caller, who closes it. Without one, the retriever opens one, or creates it, and owns it: use it in a
            ``with`` statement, or call :meth:`close`; one in memory needs neither.
        uri, collection
            As for :meth:`rag_bm25.BM25Index.open`: a path keeps the index.
        config : IndexConfig, optional
            By default that of the index at `uri`. A new index gets the mean length of `texts` in place of a chunk size:
            in characters, or in tokens, where `preprocess_func` makes them.
        bm25_params : mapping, optional
            Parameters of :class:`rag_bm25.IndexConfig` that differ from this config: ``{"k1": 1.2, "b": 0.5}``.
        preprocess_func : callable of str to list of str, optional
            The analyzer, in place of that of the config. An index that was made with one needs it each time.
        **options
            As for the constructor, and without `index` for :meth:`rag_bm25.BM25Index.open`, too.

        Raises
        ------
        ParameterError
            There is an `index`, and parameters for another one.
        InputError
            There is no word to measure, or the texts, metadata and ids cannot be added.
        ConfigMismatchError
            The index at `uri` has other parameters, or was made with a `preprocess_func` that is not given.
        """
        given, own = list(texts), OwnIndex(uri, collection, config, bm25_params, preprocess_func)
        if index is None:
            check_distinct(check_chunks(given, ids, metadatas))  # before an index is created for them
            retriever = own.opened(cls.from_uri, given, options)
        elif own == OwnIndex():
            retriever = cls(index=index, **options)
        else:
            msg = "uri, collection, config, bm25_params and preprocess_func must be left out beside an index, which has"
            raise ParameterError(f"{msg} its own")
        with closed_on_failure(retriever):
            add_texts(retriever.index, given, metadatas, ids, **retriever._write_options())
        return retriever

    def batch(
        self, inputs: list[str], config: Configs = None, *, return_exceptions: bool = False, **kwargs: Any
    ) -> list[list[Document]]:
        found = self._answer_together(inputs, kwargs)
        if isinstance(found, MilvusBM25Retriever):
            one_by_one = super(MilvusBM25Retriever, found).batch
            return one_by_one(inputs, config, return_exceptions=return_exceptions, **kwargs)
        configs = get_config_list(config, len(inputs))
        return [
            self._with_outcome(answer).invoke(query, config)
            for query, config, answer in zip(inputs, configs, found, strict=True)
        ]

    async def abatch(
        self, inputs: list[str], config: Configs = None, *, return_exceptions: bool = False, **kwargs: Any
    ) -> list[list[Document]]:
        found = await run_in_executor(None, self._answer_together, inputs, kwargs)
        if isinstance(found, MilvusBM25Retriever):
            one_by_one = super(MilvusBM25Retriever, found).abatch
            return await one_by_one(inputs, config, return_exceptions=return_exceptions, **kwargs)
        configs = get_config_list(config, len(inputs))
        return [
            await self._with_outcome(answer).ainvoke(query, config)
            for query, config, answer in zip(inputs, configs, found, strict=True)
        ]

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,  # noqa: ARG002 - LangChain passes it by name
        **options: Any,
    ) -> list[Document]:
        if self._outcome is not None:
            return self._known_answer(self._outcome)
        return self._with_options(options)._answer([query])[0]  # noqa: SLF001 - one of its kind

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,  # noqa: ARG002
        **options: Any,
    ) -> list[Document]:
        if self._outcome is not None:
            return self._known_answer(self._outcome)
        retriever = self._with_options(options)
        found = await retriever._asearch([query])  # noqa: SLF001
        (documents,) = await run_in_executor(None, retriever._to_answers, [query], found)  # noqa: SLF001
        return documents

    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        return {**super()._get_ls_params(**kwargs), "ls_vector_store_provider": "Milvus"}

    def _write_options(self) -> dict[str, Any]:
        return {"namespace": self.namespace}  # BM25Index.add refuses several

    def _with_options(self, options: Mapping[str, Any]) -> Self:
        """Return a retriever with `options` beside the given ones."""
        return type(self)(**{**dict(self), **options}) if options else self

    def _answer_together(self, queries: Sequence[str], options: Mapping[str, Any]) -> list[list[Document]] | Self:
        """Answer a batch in one call, or return the retriever that answers one by one: each error is a query's own."""
        try:
            return self._with_options(options)._answer(queries)  # noqa: SLF001
        except (InputError, ParameterError, ValidationError):
            return self
        except RagBM25Error as error:  # tried again, each query would wait for it as long
            return self._with_outcome(error)

    def _with_outcome(self, outcome: list[Document] | RagBM25Error) -> Self:
        """Return a retriever that knows its next answer: each query of a batch is still traced by itself."""
        copy = self.model_copy()
        copy._outcome = outcome  # noqa: SLF001
        return copy

    @staticmethod
    def _known_answer(outcome: list[Document] | RagBM25Error) -> list[Document]:
        if isinstance(outcome, RagBM25Error):
            raise outcome
        return outcome

    def _answer(self, queries: Sequence[str]) -> list[list[Document]]:
        return self._to_answers(queries, self._search(queries))

    def _to_answers(self, queries: Sequence[str], found: Sequence[Sequence[Hit]]) -> list[list[Document]]:
        if not any(found):
            for query in self._read_queries(queries[:1]):
                asked = self._asked()
                warn_of_missing_fields(self.index, query, asked)
        return [self._documents(hits) for hits in found]

    def _search(self, queries: Sequence[QueryLike]) -> Sequence[Sequence[Hit]]:
        return self.index.search_batch(self._read_queries(queries), self.k, **self._asked())

    async def _asearch(self, queries: Sequence[QueryLike]) -> Sequence[Sequence[Hit]]:
        return await AsyncBM25Index(self.index).search_batch(self._read_queries(queries), self.k, **self._asked())

    def _read_queries(self, queries: Sequence[QueryLike]) -> list[Query]:
        return [as_query(query, syntax=self.syntax) for query in queries]

    def _asked(self) -> dict[str, Any]:
        """Return the keywords of the search."""
        minimums = [self.score_threshold, self.search_kwargs.get("min_score")]
        least = max((score for score in minimums if score is not None), default=None)
        return {**self.search_kwargs, "min_score": least, "filter": self.filter, "namespace": self.namespace}

    def _documents(self, hits: Sequence[Hit]) -> list[Document]:
        return [to_document(hit, self._extra_metadata(hit)) for hit in hits]

    def _extra_metadata(self, hit: Hit) -> dict[str, Any]:
        keyed = {
            self.score_key: hit.score,
            self.group_score_key: hit.group_score,
            self.confidence_key: hit.confidence,
            self.id_key: hit.id,
        }
        return {key: value for key, value in keyed.items() if key is not None}


@dataclass(frozen=True)
class OwnIndex:
    """The index of a retriever that is made of texts alone: where it is, and its parameters."""

    uri: str | Path = ":memory:"
    collection: str = "docs"
    config: IndexConfig | None = None
    bm25_params: Mapping[str, Any] | None = None
    preprocess_func: TextAnalyzer | None = None

    def __post_init__(self) -> None:
        check_callable("preprocess_func", self.preprocess_func)
        given = self.bm25_params
        if given is not None and not (isinstance(given, Mapping) and all(isinstance(name, str) for name in given)):
            raise parameter_error("bm25_params", "a mapping of the names of settings of IndexConfig to values", given)

    def opened(self, from_uri: Callable[..., Owner], texts: Sequence[str], options: Mapping[str, Any]) -> Owner:
        """Return the owner of the index that is there, or of a new one for some texts."""
        make = partial(from_uri, self.uri, self.collection, **options)
        if self.config is not None:
            return make(config=self._changed(self.config))
        try:
            kept = make(analyzer=self.preprocess_func)
        except IndexNotFoundError:
            return make(config=self._config_for(texts))
        if not self.bm25_params:
            return kept
        with kept:  # opened again, lest other parameters than the stored ones pass unnoticed
            config = kept.index.config
        return make(config=self._changed(config))

    def _config_for(self, texts: Sequence[str]) -> IndexConfig:
        """Return a config whose chunk size is the mean length of the texts."""
        # A function's tokens may be anything, so they are counted, and all is as in rank_bm25; those of the built-in
        # analyzer need no second run.
        own: dict[str, Any] = {} if self.preprocess_func is None else {"length_unit": "terms", "k3": None}
        config = self._changed(IndexConfig(1, **own))
        lengths = _term_counts(texts, config.build_analyzer()) if config.length_unit == "terms" else map(len, texts)
        return replace(config, chunk_size=_mean(list(lengths)))

    def _changed(self, config: IndexConfig) -> IndexConfig:
        changes: dict[str, Any] = {} if self.preprocess_func is None else {"analyzer": self.preprocess_func}
        changes |= self.bm25_params or {}
        return replace(config, **changes) if changes else config


def _term_counts(texts: Sequence[str], analyzer: TextAnalyzer) -> list[int]:
    contract_of(analyzer)  # refuses one that returns no list of str
    return [chunk_length(text, analyzer(text), "terms") for text in texts]


def _mean(lengths: Sequence[int]) -> float:
    if not any(lengths):
        msg = "texts must have a word, since their mean length becomes the chunk size"
        raise InputError(f"{msg}; without texts, pass config=IndexConfig(chunk_size=...)")
    return fmean(lengths)
