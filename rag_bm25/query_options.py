"""What may be asked differently with each query: one set of options, for everything that weighs queries."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args

from rag_bm25.chunks import check_ids
from rag_bm25.errors import InputError, ParameterError, shown
from rag_bm25.expansion import QueryExpansion
from rag_bm25.feedback import BIM, RM3, Rocchio
from rag_bm25.min_should_match import check_min_should_match
from rag_bm25.parameters import check_choice, check_switch
from rag_bm25.search_params import check_search_params

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rag_bm25.feedback import Feedback
    from rag_bm25.search_params import SearchParams
    from rag_bm25.similarity import IdfName, QueryWeighting

__all__ = [
    "QUERY_OPTIONS",
    "QueryOptions",
    "StatisticsScope",
    "check_options",
    "feedback_of",
    "marked_ids",
    "weighting_of",
]

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
    """Refuse options that there are not, as Python refuses unknown keywords, and those that break their rules.

    Parameters
    ----------
    options : mapping
        As they were given; those that weigh terms are checked by :func:`weighting_of`, marked chunks by
        :func:`feedback_of`.

    Raises
    ------
    TypeError
        There is no such option; the message has its name and the names that there are.
    ParameterError
        `statistics`, `syntax`, `expansion`, `min_should_match` or `search_params` breaks its rule.
    """
    unknown = sorted(set(options) - QUERY_OPTIONS)
    if unknown:
        known = ", ".join(sorted(QUERY_OPTIONS | {"filter", "namespace"}))  # every method with options has these, too
        msg = f"unexpected keyword argument {unknown[0]!r}; the options are {known}"
        raise TypeError(msg)
    check_choice("statistics", options.get("statistics", STATISTICS_SCOPES[0]), STATISTICS_SCOPES)
    check_switch("syntax", options.get("syntax", False))
    expansion = options.get("expansion")
    if not isinstance(expansion, QueryExpansion | None):
        msg = f"expansion must be a QueryExpansion or None, got {shown(expansion)}"
        raise ParameterError(msg)
    if options.get("min_should_match") is not None:
        check_min_should_match(options["min_should_match"])
    check_search_params(options.get("search_params"))


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
    ParameterError
        `feedback` is something else, or a method that cannot use irrelevant chunks, and some are marked.
    InputError
        An id breaks a rule, or a chunk is marked as relevant and as irrelevant.

    Examples
    --------
    >>> feedback_of({"relevant": ["1"]}) == Rocchio()
    True
    """
    relevant, irrelevant = marked_ids(options, "relevant"), marked_ids(options, "irrelevant")
    marked = relevant is not None or irrelevant is not None
    method = options.get("feedback")
    if method is None and marked:
        method = Rocchio()
    if not isinstance(method, RM3 | Rocchio | BIM | None):
        msg = f"feedback must be an RM3, Rocchio or BIM, got {shown(method)}"
        raise ParameterError(msg)
    if irrelevant and not isinstance(method, Rocchio):
        msg = f"irrelevant chunks need feedback=Rocchio(), got {method!r}"
        raise ParameterError(msg)
    if both := sorted(set(relevant or ()) & set(irrelevant or ())):
        msg = f"the chunk {both[0]!r} is given as relevant and as irrelevant"
        raise InputError(msg)
    return method


def marked_ids(options: QueryOptions, name: Literal["relevant", "irrelevant"]) -> list[str] | None:
    """Return the ids of marked chunks.

    Parameters
    ----------
    options : QueryOptions
        What was asked for.
    name : {"relevant", "irrelevant"}
        Which.

    Returns
    -------
    list of str or None
        As they were given; None where none were.

    Raises
    ------
    InputError
        They are no ids.
    """
    ids = options.get(name)
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
