"""The chunks whose N and df weigh the terms of a query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from rag_bm25.filters import parse_filter

if TYPE_CHECKING:
    from rag_bm25.filters import Filter

StatisticsPart: TypeAlias = Literal["namespace", "all"] | Mapping[str, Any]
"""The chunks that N and df are counted over: a scope, or a filter."""


def statistics_filter(part: StatisticsPart | None) -> Filter | None:
    """Return the filter of the chunks that N and df are counted over; None for a scope."""
    return parse_filter(part) if isinstance(part, Mapping) else None
