"""What an engine may be told about one search, beside what this library says itself."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, TypeAlias

from rag_bm25.errors import ParameterError, shown
from rag_bm25.parameters import as_str

__all__ = ["SearchParams", "check_search_params"]

SearchParams: TypeAlias = "Mapping[str, str | bool | int | float]"

OURS = frozenset({"metric_type", "anns_field", "topk", "limit", "offset", "round_decimal", "group_by_field", "params"})


def check_search_params(params: object, name: str = "search_params") -> dict[str, Any]:
    """Check what an engine is to be told.

    Parameters
    ----------
    params : mapping of str to str, bool, int or float, or None
        As Milvus names them, on one level.
    name : str
        Stands in the message.

    Returns
    -------
    dict
        A copy; empty for None.

    Raises
    ------
    ParameterError
        It is something else, or holds a name whose value is this library's matter.

    Examples
    --------
    >>> check_search_params({"drop_ratio_search": 0.1})
    {'drop_ratio_search': 0.1}
    """
    if params is None:
        return {}
    if not isinstance(params, Mapping) or not all(isinstance(key, str) for key in params):
        msg = f"{name} must be a mapping of str to str, bool, int or float, got {shown(params)}"
        raise ParameterError(msg)
    for key, value in params.items():
        if key in OURS:
            msg = f"{name} must not have {key!r}, which the search itself decides"
            raise ParameterError(msg)
        finite = isinstance(value, int | float) and abs(value) <= sys.float_info.max
        if not (finite or isinstance(value, str)):
            msg = f"{name}[{key!r}] must be a str, bool, int or finite float, got {shown(value)}"
            raise ParameterError(msg)
    return {as_str(key): as_str(value) if isinstance(value, str) else value for key, value in params.items()}
