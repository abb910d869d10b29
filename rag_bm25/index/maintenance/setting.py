"""Change what searches go by that do not say otherwise, in the index, for all processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rag_bm25.index.config import in_config, with_query_side
from rag_bm25.index.query_defaults import check_expansion
from rag_bm25.index.stored_config import query_side_to_dict
from rag_bm25.weighting.query import QueryWeighting

if TYPE_CHECKING:
    from rag_bm25.hits.options import QueryDefaults
    from rag_bm25.index.generation import Generation


def change_query_defaults(given: QueryDefaults, now: Generation) -> None:
    """Store other parameters of queries, after checking that searches can follow them."""
    with now.live.writing() as writer:
        before, stored = now.live.view.query_defaults, now.live_config.stored(now.live.view)
        weighting = given.get("weighting") or QueryWeighting()
        values = in_config(weighting)
        if (asked := given.get("expansion")) is not None:
            values["expansion"] = asked.over(stored.expansion)
        if (fusion := given.get("fusion")) is not None:
            values["fusion"] = fusion
        config = with_query_side(stored, values)
        check_expansion(config.expansion, now.encoder.analyzer)
        now.weigher.require_learned(now.live.view, weighting)
        now.live.log.write_query_defaults({**(before or {}), **query_side_to_dict(values)})
        now.live_config.forget(values)
        writer.confirm()
