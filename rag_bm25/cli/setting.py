"""``rag-bm25 set``: what searches go by that do not say otherwise."""

from pathlib import Path
from typing import Annotated

import typer

from rag_bm25.cli import options as opt
from rag_bm25.cli.console import print_result
from rag_bm25.cli.rendering import render_query_side, shown_value
from rag_bm25.hits.options import QueryDefaults
from rag_bm25.index.config import query_side
from rag_bm25.index.query_defaults import flat_query_side
from rag_bm25.index.stored_config import query_side_to_dict
from rag_bm25.query.expansion import QueryExpansion
from rag_bm25.query.synonyms import Synonyms


def set_(
    place: opt.IndexAddress,
    defaults: QueryDefaults,
    synonyms: Annotated[
        Path | None,
        opt.option(
            "Synonyms, in place of those that were set: a file in UTF-8 of lines such as `car, automobile` or "
            "`NBA => National Basketball Association`. --expansion synonyms=none takes them away.",
            metavar="FILE",
        ),
    ] = None,
    as_json: opt.AsJson = False,
) -> None:
    """Set what searches of an index go by that do not say otherwise, and show it.

    The synonyms and weights stay with the index: every program, the server, its page and agents have them at their next
    refresh. What is not given stays as it is; without options, nothing is changed.
    """
    if synonyms is not None:
        expansion = defaults.get("expansion") or QueryExpansion()
        if expansion.rules is not None:
            raise typer.BadParameter("must be given once, as --synonyms or in --expansion", param_hint="--synonyms")
        defaults["expansion"] = QueryExpansion(synonyms=Synonyms.read(synonyms)).over(expansion)
    with place.open_existing(read_only=not defaults) as index:
        if defaults:
            index.set_query_defaults(**defaults)
        config, name = index.config, index.stats().name
    shown = {what: shown_value(value) for what, value in flat_query_side(config).items()}
    print_result(as_json, query_side_to_dict(query_side(config)), render_query_side(name, shown))
