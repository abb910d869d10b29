"""``rag-bm25 tune``."""

# Typer reads annotations at run time: no ``from __future__ import annotations`` in modules with commands.

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from rag_bm25 import evaluation
from rag_bm25.cli import ingesting, searching
from rag_bm25.cli import options as opt
from rag_bm25.cli.configurations import AUTO, as_usage, config_of, evaluated, plain_config, settings_of
from rag_bm25.cli.console import count_bars, print_json, print_note, show
from rag_bm25.cli.rendering import tuning_report
from rag_bm25.config import IndexConfig
from rag_bm25.evaluation import BeirDataset
from rag_bm25.evaluation.heat_map import require_drawable
from rag_bm25.evaluation.settings import Value, parse_setting, parse_value
from rag_bm25.evaluation.tuning import GRIDS

Measure = Literal["ndcg@10", "recall@100", "mrr@10"]

AGREEMENT = 1e-3  # of a mean computed on counts and the same mean through Milvus, where ties may fall otherwise


def tune(
    folder: opt.JudgedSet,
    split: Annotated[str, typer.Option(help="The judgements by which the result is judged.")] = "test",
    tune_split: Annotated[
        str | None,
        typer.Option(show_default=False, help="Judgements of other queries to search on, instead of cross-validation."),
    ] = None,
    base: Annotated[
        str,
        typer.Option(
            metavar="NAME=VALUE,...",
            show_default=False,
            help="Where to begin, and what to compare with, if not the defaults.",
        ),
    ] = "",
    search: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[=VALUE,...]",
            show_default=False,
            help="Search this parameter, over these values if any; may be repeated. By default all that have values "
            "of their own: " + ", ".join(GRIDS),
        ),
    ] = None,
    measure: Annotated[Measure, typer.Option(help="What is made as great as possible.")] = "ndcg@10",
    folds: Annotated[int, typer.Option(min=2, help="Folds of the cross-validation.")] = 5,
    seed: Annotated[int, typer.Option(min=0, help="Of the folds and of the significance test.")] = 0,
    plot: Annotated[
        Path | None,
        typer.Option(show_default=False, help="Draw the measure over k1 and b into this .png, .svg or .pdf."),
    ] = None,
    confirm: Annotated[bool, typer.Option(help="Evaluate the winner through Milvus as well.")] = True,
    uri: opt.TemporaryUri = None,
    token: opt.Token = None,
    progress: opt.ShowProgress = None,
    as_json: opt.AsJson = False,
) -> None:
    """Search for the best parameters on a judged set in BEIR form.

    k1 and b are searched over all their combinations, the others one after the other, again and again until nothing
    gains. The corpus is analysed once for each analyzer; no index is needed but for confirming the winner.

    To search whether titles should be a field, and with which weight: --search field=none,title:30,title:30:2.0.

    The winner is shown with what tuning gained on queries that it had not seen, by cross-validation or on --split
    where --tune-split names others to search on; p is that of a paired randomisation test.
    """
    wanted = _wanted(search) if search else None
    settings = {"chunk_size": AUTO, **settings_of(base, "--base")}
    if plot is not None:
        _require_plot(plot, wanted)
    dataset = evaluation.load_beir(folder, split)
    training = None if tune_split is None else evaluation.load_beir(folder, tune_split)
    start = config_of(settings, dataset)
    start = replace(start, chunk_size=max(1, round(start.chunk_size)))
    axes = evaluation.axes_for(start, wanted)
    with count_bars(progress, {"documents": len(dataset.texts), "configurations": None}) as move:
        found = evaluation.tune(
            dataset, start, training=training, axes=axes, measure=measure, folds=folds, seed=seed, progress=move
        )
    if plot is not None and found.heat_map is not None:
        evaluation.draw_heat_map(found.heat_map, plot, f"{folder.resolve().name}: {measure}")
    confirmed = _confirmed(found, dataset, uri, token, progress) if confirm else None
    commands = {"ingest": _flags(found.best, ingesting.ingest), "search": _flags(found.best, searching.search)}
    if as_json:
        print_json(_plain_tuning(found, confirmed, commands))
    else:
        show(tuning_report(folder.resolve().name, found, confirmed, commands))
    if confirmed is not None and abs(confirmed - found.best_mean) > AGREEMENT:
        print_note(f"computed on counts, {measure} was {found.best_mean:.4f}; through Milvus it is {confirmed:.4f}")


def _wanted(search: Sequence[str]) -> dict[str, list[Value]]:
    """Read what is to be searched, and over which values."""
    wanted: dict[str, list[Value]] = {}
    for text in search:
        with as_usage("--search"):
            name, values = parse_setting(text)
        wanted[name] = [parse_value(value) for value in values.split(",") if value.strip()]
    return wanted


def _require_plot(plot: Path, wanted: Mapping[str, object] | None) -> None:
    """Refuse a picture that cannot be drawn, before the search."""
    if wanted is not None and not {"k1", "b"} <= wanted.keys():
        msg = "the picture is of k1 and b: search both"
        raise typer.BadParameter(msg, param_hint="--plot")
    require_drawable(plot)


def _confirmed(
    found: evaluation.Tuning, dataset: BeirDataset, uri: str | None, token: str | None, progress: bool | None
) -> float:
    [result] = evaluated([found.best], dataset, uri, token, progress)
    return result.measures.to_dict()[found.measure]


def _flags(config: IndexConfig, command: Callable[..., None]) -> list[str]:
    """Return the options with which a command uses a config, as far as they are its part: ingesting or searching."""
    settings = {"chunk_size": config.chunk_size, **evaluation.differing(IndexConfig(config.chunk_size), config)}
    known = {name: value for name, value in settings.items() if name in signature(command).parameters}
    return [_flag(name.replace("_", "-"), value) for name, value in known.items()]


def _flag(name: str, value: Value) -> str:
    if isinstance(value, bool):
        return f"--{name}" if value else f"--no-{name}"
    return f"--{name} {shlex.quote(str(value))}"


def _plain_tuning(found: evaluation.Tuning, confirmed: float | None, commands: Mapping[str, list[str]]) -> Any:
    plain = {
        **asdict(found),
        "base": plain_config(found.base),
        "best": plain_config(found.best),
        "settings": found.settings,
    }
    points = [{"settings": settings, "mean": mean} for settings, mean in found.points]
    return {
        **plain,
        "points": points,
        "pays": found.pays,
        "confirmed": confirmed,
        "python": evaluation.config_line(found.best),
        "commands": commands,
    }
