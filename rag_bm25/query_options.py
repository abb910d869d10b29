"""What may be asked differently with each query: one set of options, for everything that weighs queries."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args

from rag_bm25.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rag_bm25.similarity import IdfName, QueryWeighting

__all__ = ["QUERY_OPTIONS", "QueryOptions", "StatisticsScope", "check_options", "weighting_of"]

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
    """

    statistics: StatisticsScope
    idf: IdfName | None
    epsilon: float | None
    k3: float | None
    bigram_weight: float | None


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
    """
    unknown = sorted(set(options) - QUERY_OPTIONS)
    if unknown:
        msg = f"unexpected keyword argument {unknown[0]!r}; the options are {', '.join(sorted(QUERY_OPTIONS))}"
        raise TypeError(msg)
    scope = options.get("statistics", STATISTICS_SCOPES[0])
    if scope not in STATISTICS_SCOPES:
        msg = f"statistics must be one of {', '.join(STATISTICS_SCOPES)}, got {scope!r}"
        raise InputError(msg)


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
    return replace(
        weighting, **{name: value for name, value in given.items() if not (value is None and name in REQUIRED)}
    )
