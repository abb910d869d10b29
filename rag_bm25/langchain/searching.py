"""One way to ask an index, for retrievers and vector stores: by words, by meaning, or by both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import numpy as np

from rag_bm25.errors import InputError, ParameterError
from rag_bm25.filters import both, parse_filter
from rag_bm25.fusion import RRF, Weighted
from rag_bm25.query_options import QUERY_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.embeddings import Embeddings
    from numpy.typing import NDArray

    from rag_bm25.chunks import Hit
    from rag_bm25.fusion import Fusion
    from rag_bm25.index import BM25Index

__all__ = [
    "SEARCH_OPTIONS",
    "SearchMode",
    "as_fusion",
    "as_mode",
    "check_embedding",
    "check_query",
    "relevance",
    "search",
    "where_of",
]

SearchMode = Literal["hybrid", "sparse", "dense"]
MODES: tuple[str, ...] = get_args(SearchMode)
FUSIONS: Mapping[str, type[Fusion]] = {"rrf": RRF, "weighted": Weighted}

SMALLEST = float(np.finfo(np.float32).tiny)
"""Divisor in place of 0, the greatest score of a query without a known term."""

HYBRID_OPTIONS = frozenset(
    {"fusion", "sparse_k", "dense_k", "sparse_filter", "dense_filter", "arm_scores", "dense_search_params"}
)
"""Options that :meth:`rag_bm25.BM25Index.search_hybrid` has beyond those of a lexical search."""

SEARCH_OPTIONS = frozenset({"filter", "namespace"}) | HYBRID_OPTIONS | QUERY_OPTIONS
"""All options of a search, in every mode."""


def as_mode(mode: str | None, embedding: Embeddings | None) -> SearchMode:
    """Return the mode of a search.

    Parameters
    ----------
    mode : str or None
        As it was given, if it was.
    embedding : Embeddings or None
        What there is to embed queries with.

    Returns
    -------
    {"hybrid", "sparse", "dense"}
        By default hybrid where there is an embedding model, and sparse without.

    Raises
    ------
    ParameterError
        There is no such mode.

    Examples
    --------
    >>> as_mode(None, embedding=None)
    'sparse'
    """
    if mode is None:
        return "sparse" if embedding is None else "hybrid"
    if mode not in MODES:
        msg = f"mode must be one of {', '.join(MODES)}, got {mode!r}"
        raise ParameterError(msg)
    return cast("SearchMode", mode)


def as_fusion(fusion: Fusion | str | None) -> Fusion:
    """Return a fusion, which may be named where its defaults will do.

    Parameters
    ----------
    fusion : RRF, Weighted, "rrf", "weighted" or None
        As it was given, if it was.

    Returns
    -------
    RRF or Weighted
        By default RRF.

    Raises
    ------
    ParameterError
        There is no such fusion.

    Examples
    --------
    >>> as_fusion("weighted")
    Weighted(sparse=0.5, dense=0.5, normalization='min-max')
    """
    if fusion is None:
        return RRF()
    if isinstance(fusion, RRF | Weighted):
        return fusion
    if not isinstance(fusion, str) or fusion not in FUSIONS:
        msg = f"fusion must be RRF(...), Weighted(...), or one of {', '.join(FUSIONS)}, got {fusion!r}"
        raise ParameterError(msg)
    return FUSIONS[fusion]()


def check_embedding(index: BM25Index, embedding: Embeddings | None) -> None:
    """Refuse an embedding model where the index has no place for what it makes.

    Parameters
    ----------
    index : BM25Index
        The index.
    embedding : Embeddings or None
        What is to be used with it.

    Raises
    ------
    InputError
        The index has no dense vectors.
    """
    if embedding is not None and index.config.dense_dim is None:
        msg = "embedding given, but the index has no dense vectors: it was created without dense_dim"
        raise InputError(msg)


def check_query(query: object, *, embedded: bool) -> None:
    """Refuse a query that LangChain's users give by mistake, or that a model cannot embed.

    Parameters
    ----------
    query : str, mapping of str to float, or Query
        What is to be searched for; other types are refused by the index.
    embedded : bool
        Whether it is to be embedded.

    Raises
    ------
    InputError
        It is a mapping of something else than boosts, or is no text where it is to be embedded.

    Examples
    --------
    >>> check_query({"question": "Where?"}, embedded=False)
    Traceback (most recent call last):
    rag_bm25.errors.InputError: a query must be a str, got a mapping with 'question': if this is the input of a chain, \
    take the text out of it first, as in itemgetter('question') | retriever
    """
    if isinstance(query, Mapping):
        for key, value in query.items():
            if not isinstance(value, int | float):
                msg = f"a query must be a str, got a mapping with {key!r}: if this is the input of a chain, take the "
                msg += f"text out of it first, as in itemgetter({key!r}) | retriever"
                raise InputError(msg)
    if embedded and not isinstance(query, str):
        msg = f"a query must be a str to be embedded, got {type(query).__name__}"
        raise InputError(msg)


def search(
    index: BM25Index,
    queries: Sequence[str],
    embeddings: Sequence[Sequence[float] | None],
    k: int,
    *,
    mode: SearchMode,
    options: Mapping[str, Any],
) -> list[list[Hit]]:
    """Ask an index; lexical queries all in one call to Milvus.

    Parameters
    ----------
    index : BM25Index
        Where to search.
    queries : sequence of str
        Any number of texts.
    embeddings : sequence of (sequence of float or None)
        Their dense vectors; not used in mode "sparse".
    k : int
        How many hits at most, for each query.
    mode : {"hybrid", "sparse", "dense"}
        By what.
    options : mapping
        Those of :meth:`rag_bm25.BM25Index.search_hybrid`. Of the two arms' own, only those of an arm that is asked
        have an effect. In mode "dense", `search_params` are for the dense search where there are no
        `dense_search_params`.

    Returns
    -------
    list of list of Hit
        One for each query, in their order.

    Raises
    ------
    InputError
        The mode needs dense vectors, and there are none.
    TypeError
        There is no such option.
    """
    _check_names(options)
    if mode == "sparse":
        return index.search_batch(queries, k, **_lexical(options))
    vectors = [_required(mode, embedding) for embedding in embeddings]
    if mode == "dense":
        dense = _dense(options)
        return [index.search_dense(vector, k, **dense) for vector in vectors]
    hybrid = {**options, "fusion": as_fusion(options.get("fusion"))}
    return [
        list(index.search_hybrid(query, vector, k, **hybrid)) for query, vector in zip(queries, vectors, strict=True)
    ]


def where_of(mode: SearchMode, options: Mapping[str, Any]) -> Any:
    """Return the filter of a search of one arm: that of all searches, and the arm's own.

    Parameters
    ----------
    mode : {"sparse", "dense"}
        Which arm.
    options : mapping
        As for :func:`search`.

    Returns
    -------
    Filter or None
        Both.
    """
    return both(parse_filter(options.get("filter")), parse_filter(options.get(f"{mode}_filter")))


def relevance(
    index: BM25Index, query: str, hits: Sequence[Hit], *, mode: SearchMode, options: Mapping[str, Any]
) -> NDArray[np.float64]:
    """Bring scores to 0..1, in the same order.

    A BM25 score is divided by the greatest that any chunk could have for the query, see
    :meth:`rag_bm25.BM25Index.greatest_scores`. A fused score is divided by that of a chunk that is best in both arms.
    For a cosine, 0..1 is (1 + cosine) / 2; an inner product is taken for the cosine of vectors of length 1. What is
    outside all the same is cut off.

    Parameters
    ----------
    index : BM25Index
        Where was searched.
    query : str
        What for.
    hits : sequence of Hit
        As found.
    mode : {"hybrid", "sparse", "dense"}
        By what.
    options : mapping
        As for :func:`search`.

    Returns
    -------
    ndarray of float64, shape (n_hits,)
        In 0..1.

    Raises
    ------
    ParameterError
        The mode is "sparse", and the index's weighting has no upper bound.
    """
    scores = np.array([hit.score for hit in hits], np.float64)
    if mode == "sparse":
        (greatest,) = index.greatest_scores([query], **_lexical(options))
        shares = scores / max(greatest, SMALLEST)
    elif mode == "dense":
        shares = (1 + scores) / 2
    else:
        shares = scores / as_fusion(options.get("fusion")).greatest
    return np.asarray(np.clip(shares, 0, 1))  # float32 rounds, and another writer may come in between


def _lexical(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a lexical search alone."""
    lexical = {name: value for name, value in options.items() if name not in HYBRID_OPTIONS}
    return {**lexical, "filter": where_of("sparse", options)}


def _dense(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a dense search alone."""
    params = options.get("dense_search_params")
    dense = {name: options[name] for name in ("namespace",) if name in options}
    dense["search_params"] = options.get("search_params") if params is None else params
    return {**dense, "filter": where_of("dense", options)}


def _check_names(options: Mapping[str, Any]) -> None:
    """Refuse options that there are not, as Python refuses unknown keywords."""
    unknown = sorted(set(options) - SEARCH_OPTIONS)
    if unknown:
        msg = f"unexpected keyword argument {unknown[0]!r}; the options are {', '.join(sorted(SEARCH_OPTIONS))}"
        raise TypeError(msg)


def _required(mode: SearchMode, embedding: Sequence[float] | None) -> Sequence[float]:
    if embedding is None:
        msg = f"mode {mode!r} needs an embedding model, and none was given"
        raise InputError(msg)
    return embedding
