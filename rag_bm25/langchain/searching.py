"""Search an index by words, by dense vectors, or by both: shared by the retrievers and the vector store."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import numpy as np

from rag_bm25.checks import check_choice
from rag_bm25.definitions import options_of
from rag_bm25.errors import InputError, ParameterError
from rag_bm25.filters import conjoin, parse_filter
from rag_bm25.hits.boosts import largest_factor
from rag_bm25.hits.options import Effect, options_that
from rag_bm25.index.config import require_dense_field
from rag_bm25.index.searching.diagnosing import find_missing_fields
from rag_bm25.index.searching.hybrid import CANDIDATES, FusionOptions
from rag_bm25.query.query import Query

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from langchain_core.embeddings import Embeddings
    from numpy.typing import NDArray

    from rag_bm25.documents.chunks import Hit
    from rag_bm25.index.index import BM25Index

SearchMode = Literal["hybrid", "sparse", "dense"]
MODES: tuple[str, ...] = get_args(SearchMode)
SMALLEST = float(np.finfo(np.float32).tiny)  # divisor in place of 0, the maximum score of a query without a known term

ONLY_HYBRID = options_of(FusionOptions).keys()


def as_mode(mode: str | None, embedding: Embeddings | None) -> SearchMode:
    """Check a mode; by default it is hybrid with an embedding model, and sparse without."""
    if mode is None:
        return "sparse" if embedding is None else "hybrid"
    return cast("SearchMode", check_choice("mode", mode, MODES))


def check_embedding(index: BM25Index, embedding: Embeddings | None) -> None:
    """Refuse an embedding model for an index without dense vectors."""
    if embedding is not None:
        require_dense_field(index.config, "embedding given", "the index")


def as_query(query: Any, *, syntax: bool = False) -> Query:
    """Make a query of any of its forms; refuse the input of a chain, which LangChain's users pass by mistake."""
    if isinstance(query, Mapping):
        for key, value in query.items():
            if not isinstance(value, int | float):
                msg = f"a query must be a str, got a mapping with {key!r}: if this is the input of a chain, take the "
                msg += f"text out of it first, as in itemgetter({key!r}) | retriever"
                raise InputError(msg)
    return Query.of(query, syntax=syntax)


def search(
    index: BM25Index,
    queries: Sequence[Query],
    embeddings: Sequence[Sequence[float] | None],
    k: int,
    *,
    mode: SearchMode,
    options: Mapping[str, Any],
) -> list[list[Hit]]:
    """Return the hits of each query; options of an arm that the mode leaves out have no effect.

    Lexical queries are one call to Milvus.
    """
    if mode == "sparse":
        return index.search_batch(queries, k, **_sparse_options(options))
    if mode == "dense":
        dense = _dense_options(options)
        return [index.search_dense(vector, k, **dense) for vector in embeddings if vector is not None]
    return [
        list(index.search_hybrid(query, vector, k, **options))
        for query, vector in zip(queries, embeddings, strict=True)
    ]


def warn_of_missing_fields(index: BM25Index, query: Query, options: Mapping[str, Any]) -> None:
    """Warn once of a filter on fields that no chunk has, where a search finds nothing: LangChain shows no reasons."""
    scope = options.get("filter"), options.get("namespace", "")
    for message in find_missing_fields(index, query, *scope, to="langchain"):
        warnings.warn(message, stacklevel=2)


def relevance_scores(
    index: BM25Index, query: Query, hits: Sequence[Hit], *, mode: SearchMode, options: Mapping[str, Any]
) -> NDArray[np.float64]:
    """Scale the scores of hits to 0..1, as the documentation of MilvusBM25VectorStore says."""
    if options.get("rerank") is not None:
        raise ParameterError("relevance scores need the scores of the search, and rerank replaces them")
    scores = np.array([hit.score for hit in hits], np.float64)
    scores /= largest_factor(options.get("boosts", ())) or 1
    if mode == "sparse":
        (upper_bound,) = index.max_scores([query], **_sparse_options(options))
        shares = scores / max(upper_bound, SMALLEST)
    elif mode == "dense":
        shares = (1 + scores) / 2
    else:
        candidates = sum(options.get(name) or CANDIDATES for name in ("sparse_k", "dense_k"))
        shares = scores / (options.get("fusion") or index.config.fusion).upper_bound(candidates)
    return np.asarray(np.clip(shares, 0, 1))  # float32 rounds, and another writer may come in between


def _sparse_options(options: Mapping[str, Any]) -> dict[str, Any]:
    return _options_of("sparse", options, ONLY_HYBRID)


def _dense_options(options: Mapping[str, Any]) -> dict[str, Any]:
    params = {"search_params": options.get("dense_search_params", options.get("search_params"))}
    return {**_options_of("dense", options, {*ONLY_HYBRID, *options_that(Effect.WEIGHS | Effect.REWORDS)}), **params}


def _options_of(arm: SearchMode, options: Mapping[str, Any], without: Collection[str]) -> dict[str, Any]:
    """Return the options of a search in one arm alone."""
    own = {name: value for name, value in options.items() if name not in without}
    return {**own, "filter": conjoin(parse_filter(options.get("filter")), parse_filter(options.get(f"{arm}_filter")))}
