"""Options of a search: one definition for all methods that search, and for all surfaces."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Flag, auto
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias, TypedDict

from rag_bm25.definitions import FINITE, Between, check_given, check_names, options_of
from rag_bm25.documents.chunks import Hit
from rag_bm25.errors import ParameterError
from rag_bm25.hits.boosts import Decay, FunctionBoost, ValueBoost, at_this_moment
from rag_bm25.hits.diversity import MMR, NearDuplicates
from rag_bm25.hits.fusion import RRF, Weighted
from rag_bm25.hits.groups import Grouping
from rag_bm25.hits.highlights import Highlighting
from rag_bm25.query.expansion import QueryExpansion
from rag_bm25.query.feedback import RSJ
from rag_bm25.query.min_should_match import check_min_should_match
from rag_bm25.query.options import StatisticsPart
from rag_bm25.store.rows import MAX_K
from rag_bm25.store.search_params import check_search_params, check_sparse_search_params
from rag_bm25.weighting.query import QueryWeighting

Context = Literal["neighbors", "document"]
Rerank: TypeAlias = Callable[[str, Sequence[Hit]], Sequence[float]]
"""A function of the query and hits that returns a score for each of them."""

DEFAULT_CANDIDATES = 100
MAX_OFFSET = 1_000
NAMES_OF_K = ("top_k", "limit", "n", "size", "num_results", "topk", "top_n")
"""Names of `k` in other libraries."""
NEEDS_LEXICAL_SCORE = ("min_confidence",)
ONLY_LEXICAL = "a confidence is of the BM25 scores of a question. Use search"
OF_EVERY_SEARCH = ("filter", "namespace")
"""Parameters that every method with options has, too."""


class Effect(Flag):
    """Effects of options, by which a part of the program knows the options that concern it."""

    WEIGHS = auto()  # the terms of the query: a vector holds it
    REWORDS = auto()  # the query has other words, or needs them
    DROPS = auto()  # a chunk with words of the query may not be found, however many hits are asked for
    PLACES = auto()  # the hits are not simply the chunks with the best scores
    SHOWS = auto()  # more of the hits


class QueryDefaults(TypedDict, total=False):
    """Options of a search that an index keeps, for all searches that do not give them.

    Attributes
    ----------
    weighting : QueryWeighting
        Weights of the terms of a query, and another k1 and b for the chunks. What it does not give stays as it is.
    expansion : QueryExpansion
        Synonyms and near spellings to search for, too. What it does not give stays as it is.
    fusion : Weighted or RRF
        How a hybrid search makes one score of two.
    """

    weighting: QueryWeighting | None
    expansion: QueryExpansion | None
    fusion: Weighted | RRF | None


class SearchOptions(TypedDict, total=False):
    """Options of a search. Without them the values of the index hold, and its hits are those with the best scores.

    Attributes
    ----------
    weighting : QueryWeighting
        Weights of the terms of the query, and another k1 and b for the chunks. What it does not give is as in the
        index.
    expansion : QueryExpansion
        Synonyms and near spellings to search for, too. What it does not give is as in the index.
    feedback : RSJ
        Search with the terms of chunks that are marked as relevant, and weigh all terms by them. See
        :mod:`rag_bm25.query.feedback`.
    min_should_match : int or str
        Minimum number of distinct words of the query that a hit must have: 3, -1, ``"75%"``, ``"3<90%"``. An addition
        for a word counts as that word. See :func:`rag_bm25.query.min_should_match.required_words`.
    statistics : {"namespace", "all"} or mapping
        N and df of the searched namespaces (the default), of the whole index, or of the chunks in the searched
        namespaces that fit a filter, as if these were an index of their own. They are counted when a search first asks
        for them, and kept until something is written, for the last 8 filters; see docs/conditions.md.
    min_score : float
        Minimum score of a hit: the score that is returned, boosted, fused or reranked.
    min_confidence : float
        Minimum confidence that a hit answers, in 0..1, by its BM25 score before boosts and reranking. Needs a model,
        see :meth:`rag_bm25.BM25Index.calibrate_answers`, and the weighting that this was fitted with.
    boosts : sequence of Decay, ValueBoost and FunctionBoost
        Factors of the score that depend on the metadata. More candidates are looked at until no other chunk can be
        among the best, even with the largest factors.
    rerank : callable of (str, sequence of Hit) to sequence of float
        Score the `candidates` best hits again, in place of their scores, such as with a cross-encoder or
        :class:`~rag_bm25.Proximity`; higher is better.
    candidates : int
        Number of hits for `rerank`, `MMR` and ``Grouping(score="sum")``, in 1..16384; by default 100, or k if that is
        more.
    offset : int
        Number of best hits to leave out, in 0..1000, for the next page of the same search; with `group`, of groups. The
        pages of `rerank` are those of one ranking while they end within its `candidates`.
    group : Grouping
        Count groups of hits with the same metadata under a key: `k` is the number of groups. More candidates are looked
        at until there are so many.
    diversity : MMR or NearDuplicates
        Choose hits that differ from each other, or leave out those that resemble a better one.
    context : {"neighbors", "document"}
        Give each hit the chunks before and after it, or its whole document. See
        :meth:`rag_bm25.BM25Index.neighbors`.
    highlight : bool or Highlighting
        Give each hit its highlights: the best sentences of its text, and the places of the query's terms in them. Those
        of expansion, feedback, `must` and `phrases` are included.
    search_params : mapping of str to str, bool, int or float
        Parameters of Milvus for the search of sparse vectors, such as ``{"drop_ratio_search": 0.1}``. They depend on
        the engine, and some make the results approximate; an unknown one is refused. ``{"rescore": True}`` computes the
        scores again, exactly, from the stored vectors of the best chunks: only a server that stores its index in fp16
        makes a difference to them, of at most 0.1 %, see :class:`rag_bm25.StorageOptions`. It takes about half as long
        again.
    """

    weighting: Annotated[QueryWeighting, Effect.WEIGHS] | None
    expansion: Annotated[QueryExpansion, Effect.WEIGHS | Effect.REWORDS] | None
    feedback: Annotated[RSJ, Effect.WEIGHS | Effect.REWORDS] | None
    min_should_match: Annotated[int | str, check_min_should_match, Effect.REWORDS | Effect.DROPS] | None
    statistics: Annotated[StatisticsPart, Effect.WEIGHS | Effect.DROPS] | None
    min_score: Annotated[float, FINITE, Effect.DROPS] | None
    min_confidence: Annotated[float, Between(0, 1), Effect.DROPS] | None
    boosts: Annotated[Sequence[Decay | ValueBoost | FunctionBoost], Effect.DROPS] | None
    rerank: Annotated[Rerank, Effect.PLACES] | None
    candidates: Annotated[int, Between(1, MAX_K)] | None
    offset: Annotated[int, Between(0, MAX_OFFSET)] | None
    group: Annotated[Grouping, Effect.PLACES] | None
    diversity: Annotated[MMR | NearDuplicates, Effect.PLACES] | None
    context: Annotated[Context, Effect.SHOWS] | None
    highlight: Annotated[bool | Highlighting, Effect.SHOWS] | None
    search_params: Annotated[Mapping[str, str | bool | int | float], Effect.DROPS] | None


@cache
def options_that(effect: Effect) -> tuple[str, ...]:
    """Return the names of the options with an effect, or one of several."""
    return tuple(
        option.name
        for option in options_of(SearchOptions).values()
        if any(isinstance(mark, Effect) and mark & effect for mark in option.marks)
    )


def check_options(options: Mapping[str, Any]) -> SearchOptions:
    """Check the options of a search by the terms of a query; None is one that is not given."""
    given = _check(options)
    if "search_params" in given:
        check_sparse_search_params(given["search_params"])
    return given


def check_dense_options(options: Mapping[str, Any]) -> SearchOptions:
    """Check the options of a search by a dense vector alone."""
    given = _check(options)
    refuse(given, options_that(Effect.WEIGHS | Effect.REWORDS), "a dense search has no terms")
    refuse(given, NEEDS_LEXICAL_SCORE, ONLY_LEXICAL)
    refuse(given, ("boosts",), "a similarity may be negative, and a factor would raise it")
    refuse(given, ("rerank", "highlight"), "a dense search has no query text. Use search_hybrid")
    given["search_params"] = check_search_params(given.get("search_params"))
    return given


def _check(options: Mapping[str, Any]) -> SearchOptions:
    """Check the rules of all options, and make one form of the values that have several."""
    given: Any = check_given(SearchOptions, options, hint_at_k(options), OF_EVERY_SEARCH)
    if boosts := given.get("boosts"):
        given["boosts"] = at_this_moment(boosts)
    if "highlight" in given and isinstance(given["highlight"], bool):
        given["highlight"] = Highlighting() if given["highlight"] else None
    return given  # type: ignore[no-any-return]


def read_given(cls: type, given: Mapping[str, Any], others: Collection[str] = ()) -> dict[str, Any]:
    """Read and check options of a framework as JSON may have them, beside keywords of its own (`others`)."""
    own = options_of(cls)
    check_names(given, {*own, *others}, hint_at_k(given))
    return {
        name: value if name in others else own[name].read(value)
        for name, value in given.items()
        if value is not None or name in others
    }


def hint_at_k(options: Mapping[str, Any]) -> str:
    """Return what the message about an unknown option says if it is `k` by another name."""
    return "; k is the number of hits" if any(name in NAMES_OF_K for name in options) else ""


def refuse(options: SearchOptions, names: Iterable[str], reason: str) -> None:
    """Refuse options that cannot be followed."""
    for name in names:
        if options.get(name):
            raise ParameterError(f"{name} is not supported here: {reason}")


def check_options_of_answers(options: Mapping[str, Any]) -> SearchOptions:
    """Check the options by which a model of confidence is fitted: those that choose and show hits change none."""
    given = check_options(options)
    followed = {*options_that(Effect.WEIGHS | Effect.REWORDS), "search_params"}
    refuse(given, given.keys() - followed, "the confidence is of BM25 scores, before hits are chosen. Leave it out")
    return given


def is_by_score(options: SearchOptions) -> bool:
    """Return whether the hits are the chunks with the best scores."""
    return not any(options.get(name) for name in options_that(Effect.PLACES))


def reranks_all(options: SearchOptions) -> bool:
    """Return whether a given number of the best hits is reranked, added up or chosen from."""
    grouping = options.get("group")
    sums = grouping is not None and grouping.score == "sum"
    return sums or options.get("rerank") is not None or isinstance(options.get("diversity"), MMR)


def depth_of(options: SearchOptions, k: int) -> int:
    """Return how many hits, or groups of them, a search finds: those that it leaves out before the first k, too."""
    return k + (options.get("offset") or 0)


def num_candidates(options: SearchOptions, k: int) -> int:
    """Return how many of the best hits are reranked, added up or chosen from."""
    return max(k, options.get("candidates") or DEFAULT_CANDIDATES)
