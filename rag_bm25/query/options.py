"""Options of a search: one set for all methods that weigh queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, get_args

from rag_bm25.checks import check_switch
from rag_bm25.documents.checks import check_ids
from rag_bm25.errors import InputError, ParameterError, short_repr
from rag_bm25.filters import And, Comparison, Expression, Not, Or, parse_filter
from rag_bm25.query.expansion import QueryExpansion
from rag_bm25.query.feedback import BIM, FEEDBACK_METHODS, Rocchio
from rag_bm25.query.min_should_match import check_min_should_match
from rag_bm25.query.query import Query
from rag_bm25.store.search_params import check_sparse_search_params
from rag_bm25.weighting.query import QueryWeighting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rag_bm25.filters import Filter
    from rag_bm25.query.feedback import Feedback
    from rag_bm25.query.query import QueryLike
    from rag_bm25.store.search_params import SearchParams
    from rag_bm25.weighting.idf import IdfName

StatisticsScope = Literal["namespace", "all"]
STATISTICS_SCOPES: tuple[str, ...] = get_args(StatisticsScope)

StatisticsPart: TypeAlias = "StatisticsScope | Mapping[Any, Any] | Filter"
"""The chunks that N and df are counted over: a scope, or a filter."""


class QueryOptions(TypedDict, total=False):
    """Options of a search. The default of each is that of the index.

    Attributes
    ----------
    statistics : {"namespace", "all"}, mapping or Filter
        Whether to use N and df of the searched namespaces, or of the whole index; or a filter, for those of the chunks
        in the searched namespaces that fit it, as if these were an index of their own. They are counted when a search
        first asks for them, and kept until something is written, for the last 8 filters; see docs/conditions.md.
    idf, epsilon, k3, bigram_weight, word_bigram_weight, latin_weight
        Weights of the query's terms, see :class:`rag_bm25.IndexConfig`.
    syntax : bool
        Whether to parse boosts, prefixes and conditions in a query, see :meth:`rag_bm25.query.query.Query.parse`. By
        default they are text.
    must, must_not, phrases, slop
        Conditions of every query beside its own, see :class:`rag_bm25.query.query.Query`. For searches and
        :meth:`explain` only: a vector cannot express them.
    expansion : QueryExpansion, optional
        Synonyms and near spellings to search for, too, and how prefixes are completed.
    min_should_match : int or str, optional
        Minimum number of distinct words of the query that a chunk must have: 3, -1, ``"75%"``, ``"3<90%"``, see
        :func:`rag_bm25.query.min_should_match.required_words`. An addition for a word counts as that word. For
        :meth:`search`, :meth:`search_batch` and :meth:`explain` only: a vector cannot express it.
    feedback : RM3, Rocchio, BIM or None
        Method of relevance feedback, see :mod:`rag_bm25.query.feedback`. Without marked chunks, RM3 and Rocchio assume
        that the best ones of a first search are relevant; BIM needs `relevant`.
    relevant, irrelevant : sequence of str or None
        Ids of chunks that users marked, in the searched namespaces. With any, `feedback` is
        :class:`~rag_bm25.query.feedback.Rocchio` by default, the only method that uses irrelevant ones. With empty
        sequences, the query is searched for without feedback.
    search_params : mapping of str to str, bool, int or float, or None
        Parameters of Milvus for the search of sparse vectors, such as ``{"drop_ratio_search": 0.1}``. They depend on
        the engine, and some make the results approximate; an unknown one is refused. Vectors and explanations do not
        depend on them.
    rescore : bool
        Whether to compute the scores again, exactly, from the stored vectors of the best chunks, and to sort by these.
        Only a server that stores its index in fp16 makes a difference to them, of at most 0.1 %; see
        :class:`rag_bm25.StorageOptions`. It takes about half as long again.
    """

    statistics: StatisticsPart
    idf: IdfName | None
    epsilon: float | None
    k3: float | None
    bigram_weight: float | None
    word_bigram_weight: float | None
    latin_weight: float | None
    syntax: bool
    must: Sequence[str] | None
    must_not: Sequence[str] | None
    phrases: Sequence[str] | None
    slop: int | None
    expansion: QueryExpansion | None
    min_should_match: int | str | None
    feedback: Feedback | None
    relevant: Sequence[str] | None
    irrelevant: Sequence[str] | None
    search_params: SearchParams | None
    rescore: bool


QUERY_OPTIONS = frozenset(QueryOptions.__annotations__)
"""The names of all options."""

_WEIGHTING_DEFAULTS = {parameter.name: parameter.default for parameter in fields(QueryWeighting)}


def check_options(options: Mapping[str, Any]) -> None:
    """Refuse unknown options as Python refuses unknown keywords, and those that break their rules.

    Options that weigh terms are checked by `weighting_of`, feedback and marked chunks by `feedback_of`.
    """
    unknown = sorted(set(options) - QUERY_OPTIONS)
    if unknown:
        known = ", ".join(sorted(QUERY_OPTIONS | {"filter", "namespace"}))  # every method with options has these, too
        raise TypeError(f"unexpected keyword argument {unknown[0]!r}; the options are {known}")
    check_statistics(options.get("statistics", STATISTICS_SCOPES[0]))
    check_switch("syntax", options.get("syntax", False))
    check_switch("rescore", options.get("rescore", False))
    expansion = options.get("expansion")
    if not isinstance(expansion, QueryExpansion | None):
        raise ParameterError(f"expansion must be a QueryExpansion or None, got {short_repr(expansion)}")
    if options.get("min_should_match") is not None:
        check_min_should_match(options["min_should_match"])
    check_sparse_search_params(options.get("search_params"))


def check_statistics(part: object) -> Filter | None:
    """Check which chunks the statistics are of; return the filter, None for a scope."""
    if isinstance(part, str) and part in STATISTICS_SCOPES:
        return None
    if isinstance(part, Mapping | Comparison | And | Or | Not | Expression):
        return parse_filter(part)
    raise ParameterError(f"statistics must be 'namespace', 'all' or a filter, got {short_repr(part)}")


def query_of(query: QueryLike, options: QueryOptions) -> Query:
    """Read a query with the syntax and the conditions that the options ask for."""
    parsed = Query.of(query, syntax=options.get("syntax", False))
    given: dict[str, Any] = {name: options.get(name) for name in ("must", "must_not", "phrases", "slop")}
    changes = {name: value for name, value in given.items() if value is not None}
    return parsed.with_conditions(**changes) if changes else parsed


def feedback_of(options: QueryOptions) -> Feedback | None:
    """Return the method of feedback, by default Rocchio's if chunks are marked."""
    relevant, irrelevant = marked_ids(options, "relevant"), marked_ids(options, "irrelevant")
    marked = relevant is not None or irrelevant is not None
    method = options.get("feedback")
    if method is None and marked:
        method = Rocchio()
    if not isinstance(method, (*FEEDBACK_METHODS, type(None))):
        names = ", ".join(kind.__name__ for kind in FEEDBACK_METHODS)
        raise ParameterError(f"feedback must be one of {names}, got {short_repr(method)}")
    if isinstance(method, BIM) and not marked:
        raise ParameterError("feedback=BIM() needs chunks that are marked: give their ids as relevant")
    if irrelevant and not isinstance(method, Rocchio):
        raise ParameterError(f"irrelevant chunks need feedback=Rocchio(), got {method!r}")
    if both := sorted(set(relevant or ()) & set(irrelevant or ())):
        raise InputError(f"the chunk {both[0]!r} is given as relevant and as irrelevant")
    return method


def marked_ids(options: QueryOptions, name: Literal["relevant", "irrelevant"]) -> list[str] | None:
    """Return the ids of marked chunks as they were given, None if none were."""
    ids = options.get(name)
    return None if ids is None else check_ids(ids, name)


def weighting_of(weighting: QueryWeighting, options: Mapping[str, Any]) -> QueryWeighting:
    """Return the weighting of the index with the changes that `options` ask for."""
    given = {name: options[name] for name in _WEIGHTING_DEFAULTS if name in options}
    # None switches a parameter off if that is its default; any other parameter it leaves as it is.
    changes = {name: value for name, value in given.items() if value is not None or _WEIGHTING_DEFAULTS[name] is None}
    return replace(weighting, **changes) if changes else weighting
