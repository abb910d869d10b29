"""What may be asked differently with each query: one set of options, for everything that weighs queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args

from rag_bm25.chunks import check_ids
from rag_bm25.errors import InputError, ParameterError
from rag_bm25.expansion import QueryExpansion
from rag_bm25.feedback import BIM, RM3, Rocchio
from rag_bm25.min_should_match import check_min_should_match
from rag_bm25.search_params import check_search_params

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import UnionType

    from rag_bm25.feedback import Feedback
    from rag_bm25.search_params import SearchParams
    from rag_bm25.similarity import IdfName, QueryWeighting

__all__ = ["QUERY_OPTIONS", "QueryOptions", "StatisticsScope", "check_options", "feedback_of", "weighting_of"]

StatisticsScope = Literal["namespace", "all"]
STATISTICS_SCOPES: tuple[str, ...] = get_args(StatisticsScope)


class QueryOptions(TypedDict, total=False):
    """Options of a search; what is left out is as the index's config says.

    Attributes
    ----------
    statistics : {"namespace", "all"}
        Whether N and df are those of the namespaces that are searched, or of the whole index.
    idf : {"epsilon", "lucene", "zero", "plus", "tfidf", "plain"}
        Which IDF, see :func:`rag_bm25.similarity.idf`.
    epsilon : float
        Factor of the floor of the ``epsilon`` IDF; > 0.
    k3 : float or None
        Saturation of repeated query terms, >= 0; None counts them linearly.
    bigram_weight : float
        Weight of the channel of bigrams beside that of words, >= 0; 0 leaves it out.
    syntax : bool
        Whether ``word^2``, ``"several words"^0.5`` and ``prefix*`` have a meaning in a query, see
        :meth:`rag_bm25.query.Query.parse`. By default they are text like any other.
    expansion : QueryExpansion, optional
        Synonyms and near spellings to look for too, and how prefixes are completed.
    min_should_match : int or str, optional
        How many of the distinct words of the query a chunk has to have: 3, -1, ``"75%"``, ``"3<90%"``, see
        :func:`rag_bm25.min_should_match.required_words`. What is added for a word counts as that word. For
        :meth:`search`, :meth:`search_batch` and :meth:`explain` only: it is no part of a vector.
    feedback : RM3, Rocchio, BIM or None
        How the query learns from relevant chunks, see :mod:`rag_bm25.feedback`. Where none are marked, the best ones
        of a first search are taken for relevant.
    relevant, irrelevant : sequence of str or None
        Ids of chunks that users marked, in the namespaces that are searched. Where some are given, `feedback` is
        :class:`~rag_bm25.feedback.Rocchio` by default, which alone learns from irrelevant ones; where empty ones are
        given, the query is as it is.
    search_params : mapping of str to str, bool, int or float, or None
        What Milvus is told about the search of sparse vectors, such as ``{"drop_ratio_search": 0.1}``; which there are
        depends on the engine, and some make its answer approximate. It has no part in vectors and explanations.
    """

    statistics: StatisticsScope
    idf: IdfName | None
    epsilon: float | None
    k3: float | None
    bigram_weight: float | None
    syntax: bool
    expansion: QueryExpansion | None
    min_should_match: int | str | None
    feedback: Feedback | None
    relevant: Sequence[str] | None
    irrelevant: Sequence[str] | None
    search_params: SearchParams | None


QUERY_OPTIONS = frozenset(QueryOptions.__annotations__)
"""The names of all options."""

WEIGHTING = ("idf", "epsilon", "k3", "bigram_weight")
REQUIRED = frozenset({"idf", "epsilon", "bigram_weight"})  # these have no "off": None leaves them as they are


def check_options(options: Mapping[str, Any]) -> None:
    """Refuse options that there are not, as Python refuses unknown keywords.

    Parameters
    ----------
    options : mapping
        As they were given.

    Raises
    ------
    TypeError
        There is no such option; the message has its name and the names that there are.
    InputError
        `statistics` is neither "namespace" nor "all".
    ParameterError
        `syntax`, `expansion`, `min_should_match` or `search_params` breaks its rule.
    """
    unknown = sorted(set(options) - QUERY_OPTIONS)
    if unknown:
        known = ", ".join(sorted(QUERY_OPTIONS | {"filter", "namespace"}))  # every method with options has these, too
        msg = f"unexpected keyword argument {unknown[0]!r}; the options are {known}"
        raise TypeError(msg)
    scope = options.get("statistics", STATISTICS_SCOPES[0])
    if scope not in STATISTICS_SCOPES:
        msg = f"statistics must be one of {', '.join(STATISTICS_SCOPES)}, got {scope!r}"
        raise InputError(msg)
    _check_type("syntax", options.get("syntax", False), bool, "True or False")
    _check_type("expansion", options.get("expansion"), QueryExpansion | None, "a QueryExpansion or None")
    if options.get("min_should_match") is not None:
        check_min_should_match(options["min_should_match"])
    check_search_params(options.get("search_params"))


def _check_type(name: str, value: object, kind: type | UnionType, rule: str) -> None:
    if not isinstance(value, kind):
        msg = f"{name} must be {rule}, got {value!r}"
        raise ParameterError(msg)


def feedback_of(options: QueryOptions) -> Feedback | None:
    """Return how a query is to learn.

    Parameters
    ----------
    options : QueryOptions
        What was asked for.

    Returns
    -------
    RM3, Rocchio, BIM or None
        None for a query as it is.

    Raises
    ------
    InputError
        `feedback` is something else, an id breaks a rule, or chunks are marked as irrelevant for a method that cannot
        use them, or as both.

    Examples
    --------
    >>> feedback_of({"relevant": ["1"]}) == Rocchio()
    True
    """
    relevant, irrelevant = _marked(options, "relevant"), _marked(options, "irrelevant")
    marked = relevant is not None or irrelevant is not None
    method = options.get("feedback") or (Rocchio() if marked else None)
    if method is not None and not isinstance(method, RM3 | Rocchio | BIM):
        msg = f"feedback must be an RM3, Rocchio or BIM, got {method!r}"
        raise InputError(msg)
    if irrelevant and not isinstance(method, Rocchio):
        msg = f"irrelevant chunks need feedback=Rocchio(), got {method!r}"
        raise InputError(msg)
    if both := sorted(set(relevant or ()) & set(irrelevant or ())):
        msg = f"the chunk {both[0]!r} is given as relevant and as irrelevant"
        raise InputError(msg)
    return method


def _marked(options: QueryOptions, name: Literal["relevant", "irrelevant"]) -> list[str] | None:
    """Return the ids of marked chunks."""
    ids = options.get(name)
    if ids is not None and (isinstance(ids, str) or not isinstance(ids, Sequence)):
        msg = f"{name} must be a sequence of str, got {ids!r}"
        raise InputError(msg)
    return None if ids is None else check_ids(ids, name)


def weighting_of(weighting: QueryWeighting, options: QueryOptions) -> QueryWeighting:
    """Return the query's side as `options` ask for it.

    Parameters
    ----------
    weighting : QueryWeighting
        That of the index.
    options : QueryOptions
        What is to differ.

    Returns
    -------
    QueryWeighting
        Checked.

    Raises
    ------
    ParameterError
        An option is out of its range.

    Examples
    --------
    >>> from rag_bm25.similarity import QueryWeighting
    >>> weighting_of(QueryWeighting(k3=8.0), {"idf": "lucene", "k3": None})
    QueryWeighting(idf='lucene', epsilon=0.25, k3=None, bigram_weight=0.4)
    """
    given: dict[str, Any] = {name: value for name, value in options.items() if name in WEIGHTING}
    if not given:
        return weighting
    return replace(
        weighting, **{name: value for name, value in given.items() if not (value is None and name in REQUIRED)}
    )
