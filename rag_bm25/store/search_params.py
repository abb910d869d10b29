"""Search parameters that users pass on to the engine."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, TypeAlias

from rag_bm25.checks import as_str, check_switch, parameter_error
from rag_bm25.errors import ParameterError

SearchParams: TypeAlias = "Mapping[str, str | bool | int | float]"

# The search itself decides these.
OURS = frozenset({"metric_type", "anns_field", "topk", "limit", "offset", "round_decimal", "group_by_field", "params"})

RESCORE = "rescore"  # which this package follows

# Those of Milvus's index of sparse vectors, up to 3.0, and of every search. It ignores a misspelt one.
OF_SPARSE_SEARCHES = (
    "bulk_query_nnz_threshold",
    "dim_max_score_ratio",
    "drop_ratio_search",
    "hints",
    "ignore_growing",
    "radius",
    "range_filter",
    "refine_factor",
    "search_algo",
)


def check_sparse_search_params(params: object) -> dict[str, Any]:
    """Check the search parameters of sparse vectors, and copy them; empty for None."""
    checked = check_search_params(params)
    check_switch("search_params['rescore']", checked.get(RESCORE, False))
    if unknown := sorted(checked.keys() - {RESCORE, *OF_SPARSE_SEARCHES}):
        raise ParameterError(
            f"search_params must be parameters of searches for sparse vectors, {', '.join(OF_SPARSE_SEARCHES)}, got "
            f"{unknown[0]!r}, which Milvus would ignore"
        )
    return checked


def check_search_params(params: object, name: str = "search_params") -> dict[str, Any]:
    """Check search parameters as Milvus names them, on one level, and copy them; empty for None."""
    if params is None:
        return {}
    if not isinstance(params, Mapping) or not all(isinstance(key, str) for key in params):
        raise parameter_error(name, "a mapping of str to str, bool, int or float", params)
    for key, value in params.items():
        if key in OURS:
            raise ParameterError(f"{name} must not have {key!r}, which the search itself decides")
        finite = isinstance(value, int | float) and abs(value) <= sys.float_info.max
        if not (finite or isinstance(value, str)):
            raise parameter_error(f"{name}[{key!r}]", "a str, bool, int or finite float", value)
    return {as_str(key): as_str(value) if isinstance(value, str) else value for key, value in params.items()}
