"""A retriever of LlamaIndex over an index."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rag_bm25.checks import require_extra
from rag_bm25.errors import install_extra
from rag_bm25.hits.highlights import highlight_metadata
from rag_bm25.hits.options import SearchOptions, read_given
from rag_bm25.index.arguments import check_k, check_namespaces
from rag_bm25.index.async_index import AsyncBM25Index
from rag_bm25.index.config import require_dense_field
from rag_bm25.index.owning import IndexOwner
from rag_bm25.index.searching.hybrid import HybridOptions, words_alone_on_failure
from rag_bm25.llama_index.filters import to_filter
from rag_bm25.query.query import Query

with require_extra(f"this needs llama-index-core: {install_extra('llama-index')}"):
    from llama_index.core.constants import DEFAULT_SIMILARITY_TOP_K
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import MetadataMode, NodeWithScore, TextNode

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from llama_index.core.base.embeddings.base import BaseEmbedding
    from llama_index.core.callbacks import CallbackManager
    from llama_index.core.schema import BaseNode, QueryBundle
    from llama_index.core.vector_stores.types import MetadataFilters
    from typing_extensions import Self

    from rag_bm25.documents.chunks import Hit
    from rag_bm25.filters import Filter
    from rag_bm25.index.arguments import FilterLike, Namespaces
    from rag_bm25.index.index import BM25Index


class MilvusBM25Retriever(IndexOwner, BaseRetriever):  # type: ignore[misc, unused-ignore]
    """Find nodes by their BM25 score, or by words and meaning together.

    A node has the id, the text and the metadata of its chunk; with `context`, the text of the hit's context. Its place
    in the document is set if the metadata has it, as ingestion stores it. With `highlight`, the metadata has the
    fragments as LangChain's documents have them, and models are not shown these. `aretrieve` does not block the event
    loop.

    Parameters
    ----------
    index : BM25Index
        Where to search; opened and closed by the caller, or by :meth:`from_uri` and :meth:`close`.
    similarity_top_k : int
        Maximum number of nodes, in 1..16384.
    filters : MetadataFilters or mapping, optional
        LlamaIndex's filters, or those of :meth:`rag_bm25.BM25Index.search`.
    namespace : str, sequence of str or None
        Namespaces to search; None for all. LlamaIndex drops all nodes of one id but the first, so ids should differ.
    embed_model : BaseEmbedding, optional
        Search the dense vectors, too: the index must have been created with the dimension of the model. If the model
        fails on a query, a warning says so, and the words alone are searched.
    syntax : bool
        Whether to read the text of a query by :meth:`rag_bm25.Query.parse`; the model embeds it without its operators.
    callback_manager, verbose
        As for LlamaIndex's ``BaseRetriever``.
    **options
        Those of :class:`~rag_bm25.hits.options.SearchOptions`; with `embed_model`, those of
        :class:`~rag_bm25.index.searching.hybrid.FusionOptions`, too. As values, or as JSON has them.

    Raises
    ------
    FilterError, ParameterError
        If `filters` or `similarity_top_k` are not valid.
    InputError
        If `embed_model` is given, and the index has no dense vectors.
    TypeError
        If there is no such option.

    Examples
    --------
    ::

        with MilvusBM25Retriever.from_uri("./rag.db", "docs", similarity_top_k=5) as retriever:
            RetrieverQueryEngine.from_args(retriever, llm=llm).query("What are sparse vectors?")
    """

    _owns_index = False

    def __init__(
        self,
        index: BM25Index,
        *,
        similarity_top_k: int = DEFAULT_SIMILARITY_TOP_K,
        filters: MetadataFilters | FilterLike | Filter = None,
        namespace: Namespaces = "",
        embed_model: BaseEmbedding | None = None,
        syntax: bool = False,
        callback_manager: CallbackManager | None = None,
        verbose: bool = False,
        **options: Any,
    ) -> None:
        if embed_model is not None:
            require_dense_field(index.config, "embed_model given", "the index")
        check_k(similarity_top_k, "similarity_top_k")
        check_namespaces(namespace)
        to_filter(filters)
        own = SearchOptions if embed_model is None else HybridOptions
        read = read_given(own, options)
        super().__init__(callback_manager=callback_manager, verbose=verbose)
        self.index = index
        self.similarity_top_k = similarity_top_k
        self.filters = filters
        self.namespace = namespace
        self.embed_model = embed_model
        self.syntax = syntax
        self.options = read

    @classmethod
    def from_nodes(cls, nodes: Iterable[BaseNode], *, index: BM25Index, **options: Any) -> Self:
        """Add nodes to an index, and return a retriever over it.

        Parameters
        ----------
        nodes : iterable of BaseNode
            Added under their ids, or updated if these exist already. With `embed_model`, texts that are new or have
            changed are embedded.
        index, **options
            As for the constructor; the nodes are written to `namespace`.
        """
        retriever, given = cls(index=index, **options), list(nodes)
        model = retriever.embed_model
        index.add(
            [node.get_content(MetadataMode.NONE) for node in given],
            ids=[node.node_id for node in given],
            metadatas=[node.metadata for node in given],
            embeddings=None if model is None else model.get_text_embedding_batch,
            namespace=options.get("namespace", ""),
        )
        return retriever

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        query, asked = self._read_query(query_bundle), self._asked()
        if self.embed_model is None:
            return _to_nodes(self.index.search(query, **asked))
        vector = query_bundle.embedding
        if vector is None:
            with words_alone_on_failure():
                vector = self.embed_model.get_agg_embedding_from_queries(_texts_to_embed(query_bundle, query))
        return _to_nodes(self.index.search_hybrid(query, vector, **asked))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        query, asked = self._read_query(query_bundle), self._asked()
        if self.embed_model is None:
            return _to_nodes(await AsyncBM25Index(self.index).search(query, **asked))
        vector = query_bundle.embedding
        if vector is None:
            with words_alone_on_failure():
                vector = await self.embed_model.aget_agg_embedding_from_queries(_texts_to_embed(query_bundle, query))
        return _to_nodes(await AsyncBM25Index(self.index).search_hybrid(query, vector, **asked))

    def _read_query(self, query_bundle: QueryBundle) -> Query:
        return Query.of(query_bundle.query_str, syntax=self.syntax)

    def _asked(self) -> dict[str, Any]:
        asked = {"k": self.similarity_top_k, "filter": to_filter(self.filters), "namespace": self.namespace}
        return {**self.options, **asked}


def _texts_to_embed(query_bundle: QueryBundle, query: Query) -> list[str]:
    texts: list[str] = replace(query_bundle, query_str=str(query)).embedding_strs
    return texts


def _to_nodes(hits: Sequence[Hit]) -> list[NodeWithScore]:
    return [NodeWithScore(node=_to_node(hit), score=hit.score) for hit in hits]


def _to_node(hit: Hit) -> TextNode:
    """Return a hit as a node, with its place in the document if that is known."""
    marked, context = highlight_metadata(hit), hit.context
    metadata = {**hit.metadata, **marked}
    hidden = {keys: [*marked] for keys in ("excluded_llm_metadata_keys", "excluded_embed_metadata_keys")}
    if context is not None:
        return TextNode(id_=hit.id, text=context.text, metadata=metadata, **hidden)
    places = {"start_char_idx": metadata.get("start_index"), "end_char_idx": metadata.get("end_index")}
    known = {name: place for name, place in places.items() if type(place) is int}
    return TextNode(id_=hit.id, text=hit.text, metadata=metadata, **known, **hidden)
