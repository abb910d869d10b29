"""The options for what a search makes of its hits."""

import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal, cast

import typer

from rag_bm25.cli import options as opt
from rag_bm25.cli.reranking import Reranker, RerankOption
from rag_bm25.cli.settings import as_usage, parse_parameters
from rag_bm25.hits.boosts import Boost, Decay, Shape, ValueBoost
from rag_bm25.hits.options import HIT_OPTIONS, MAX_K, split_options
from rag_bm25.index.settings import parse_value

BOOST = "KEY=VALUE:FACTOR"
DECAY = "KEY:SCALE[:SHAPE][,NAME=VALUE,...]"

DECAY_FLAG = "--recency / --decay"  # as Typer names an option of two names
DECAY_PARAMETERS = ("origin", "offset", "decay", "floor", "missing")


@dataclass(frozen=True)
class Boosts:
    """The options that change scores, which an explanation must have, too."""

    recency: Annotated[
        list[str] | None,
        opt.option(
            "Lower scores with the distance of a date or a number in the metadata from an origin, by default now, such "
            "as date:30 or price:100,origin=500: its key, the distance at which the factor is 0.5 (days for dates), "
            f"and exp, gauss or linear; then any of {', '.join(DECAY_PARAMETERS)}; may be repeated.",
            "--recency",
            "--decay",
            metavar=DECAY,
        ),
    ] = None
    boost: Annotated[
        list[str] | None,
        opt.option(
            "Multiply scores where the metadata have a value, such as kind=law:2; may be repeated.", metavar=BOOST
        ),
    ] = None

    def options(self) -> dict[str, Any]:
        """Return the boosts, as a search takes them."""
        boosts: list[Boost] = [_parse_decay(text) for text in self.recency or ()]
        factors: dict[str, dict[Any, float]] = {}
        for text in self.boost or ():
            key, value, factor = _parse_boost(text)
            spelt = parse_value(value)
            # The rows of a CSV file have texts only: 2023 is both.
            values = (value, spelt) if isinstance(spelt, int | float) else (spelt,)
            factors.setdefault(key, {}).update(dict.fromkeys(values, factor))
        with as_usage("--boost"):
            boosts += [ValueBoost(key, values) for key, values in factors.items()]
        return {"boosts": boosts} if boosts else {}


@dataclass(frozen=True)
class Selection:
    """The options that choose and complete hits."""

    group_by: Annotated[
        str | None,
        opt.option("Count groups of hits with the same metadata under a key, such as source.", metavar="KEY"),
    ] = None
    group_size: Annotated[int | None, opt.option("Maximum number of hits of a group; by default 1.", min=1)] = None
    group_score: Annotated[
        Literal["max", "sum"] | None, opt.option("Rank groups by their best hit (max, the default), or by the sum.")
    ] = None
    near_duplicates: Annotated[
        float | None,
        opt.option("Leave out hits that resemble a better one at least so much, such as 0.9.", metavar="COSINE"),
    ] = None
    mmr: Annotated[
        float | None,
        opt.option("Choose hits that differ: lambda of maximal marginal relevance, in 0..1.", metavar="LAMBDA"),
    ] = None
    rerank: RerankOption = None
    candidates: Annotated[
        int | None, opt.option("Number of hits to rerank, choose from or add up; by default 100.", min=1, max=MAX_K)
    ] = None
    expand: Annotated[
        Literal["neighbors", "document"] | None,
        opt.option("Show the chunks before and after each hit, or its whole document."),
    ] = None

    def options(self) -> dict[str, Any]:
        """Return the options for hits, as a search takes them."""
        given = {name: getattr(self, name) for name in HIT_OPTIONS if getattr(self, name, None) is not None}
        for name in ("near_duplicates", "mmr"):
            with as_usage(f"--{name.replace('_', '-')}"):
                split_options({name: given.get(name)})
        if self.rerank is not None:
            given["rerank"] = Reranker(self.rerank)
        with as_usage("--group-by"):
            split_options(given)
        return given


def _parse_decay(text: str) -> Decay:
    """Read KEY:SCALE[:SHAPE][,NAME=VALUE,...]."""
    match = re.fullmatch(r"(.+?):([0-9.]+)(?::(\w+))?(?:,(.*))?", text)
    if match is None:
        raise typer.BadParameter(f"must be {DECAY}, got {text!r}", param_hint=DECAY_FLAG)
    others: dict[str, Any] = parse_parameters([match[4] or ""], DECAY_FLAG, "a parameter", DECAY_PARAMETERS)
    with as_usage(DECAY_FLAG):
        return Decay(match[1], _number(match[2], DECAY_FLAG), shape=cast("Shape", match[3] or "exp"), **others)


def _parse_boost(text: str) -> tuple[str, str, float]:
    """Read KEY=VALUE:FACTOR."""
    match = re.fullmatch(r"([^=]+)=(.+):([0-9.]+)", text)
    if match is None:
        raise typer.BadParameter(f"must be {BOOST}, got {text!r}", param_hint="--boost")
    return match[1], match[2], _number(match[3], "--boost")


def _number(text: str, option: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a number", param_hint=option) from None
