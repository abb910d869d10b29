"""``rag-bm25 tune``."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from rag_bm25 import evaluation
from rag_bm25.cli import options as opt
from rag_bm25.cli.console import print_note, print_result, progress_bars
from rag_bm25.cli.evaluating import config_to_plain, evaluate_configs, make_config
from rag_bm25.cli.rendering import render_tuning
from rag_bm25.cli.settings import AUTO, QUERY_NAMES, IndexOptions, as_usage, format_options, read_value
from rag_bm25.evaluation.heat_map import require_drawable
from rag_bm25.evaluation.tuning import GRIDS
from rag_bm25.index.config import IndexConfig
from rag_bm25.index.settings import Value, parse_setting

AGREEMENT = 1e-3  # of a mean computed on counts and the same mean through Milvus, where ties may fall otherwise


def tune(
    folder: opt.JudgedSet,
    settings: IndexOptions,
    search: Annotated[
        list[str] | None,
        opt.option(
            "Search this setting, over these values if any; may be repeated. By default all that have values "
            "of their own: " + ", ".join(GRIDS),
            metavar="NAME[=VALUE,...]",
        ),
    ] = None,
    split: Annotated[str, typer.Option(help="The judgements by which the result is judged.")] = "test",
    tune_split: Annotated[
        str | None, opt.option("Judgements of other queries to search on, instead of cross-validation.")
    ] = None,
    measure: Annotated[evaluation.MeasureName, typer.Option(help="The measure to maximise.")] = "ndcg@10",
    folds: Annotated[int, typer.Option(min=2, help="Folds of the cross-validation.")] = 5,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the folds and of the significance test.")] = 0,
    plot: Annotated[Path | None, opt.option("Draw the measure over k1 and b into this .png, .svg or .pdf.")] = None,
    confirm: Annotated[bool, typer.Option(help="Evaluate the winner through Milvus as well.")] = True,
    uri: opt.TemporaryUri = None,
    token: opt.Token = None,
    progress: opt.ShowProgress = None,
    as_json: opt.AsJson = False,
) -> None:
    """Search for the best settings on a judged set.

    The search begins with the settings that are given, or the defaults, and its result is compared with them. k1 and b
    are searched over all their combinations, the others one after the other, again and again until nothing gains. The
    corpus is analysed once for each analyzer; no index is needed but for confirming the winner.

    To search whether titles should be a field, and with which weight: --search field=none,title:30,title:30:2.0.

    The winner is shown with the gain of tuning on queries that it had not seen, by cross-validation or on --split
    if --tune-split names others to search on; p is that of a paired randomisation test.
    """
    given = {"chunk_size": AUTO, **settings.given(auto=True)}
    searched = _parse_searched(search) if search else None
    if plot is not None:
        _require_plot(plot, searched)
    dataset = evaluation.load_beir(folder, split)
    training = None if tune_split is None else evaluation.load_beir(folder, tune_split)
    start = make_config(given, dataset)
    start = replace(start, chunk_size=max(1, round(start.chunk_size)))
    axes = evaluation.axes_for(start, searched)
    with progress_bars(progress) as update:
        found = evaluation.tune(
            dataset, start, training=training, axes=axes, measure=measure, folds=folds, seed=seed, progress=update
        )
    if plot is not None and found.heat_map is not None:
        evaluation.draw_heat_map(found.heat_map, plot, f"{folder.resolve().name}: {measure}")
    confirmed = None
    if confirm:
        [result] = evaluate_configs([found.best], dataset, uri, token, progress)
        confirmed = result.measures.to_dict()[measure]
    commands = _build_commands(found.best)
    report = render_tuning(folder.resolve().name, found, confirmed, commands)
    print_result(as_json, _to_plain(found, confirmed, commands), report)
    if confirmed is not None and abs(confirmed - found.best_mean) > AGREEMENT:
        print_note(f"computed on counts, {measure} was {found.best_mean:.4f}; through Milvus it is {confirmed:.4f}")


def _parse_searched(search: Sequence[str]) -> dict[str, list[Value]]:
    """Read the settings to be searched, with their values."""
    searched: dict[str, list[Value]] = {}
    for text in search:
        with as_usage("--search"):
            name, values = parse_setting(text)
        searched[name] = [read_value(name, value, "--search") for value in values.split(",") if value.strip()]
    return searched


def _require_plot(plot: Path, searched: Mapping[str, object] | None) -> None:
    """Refuse a picture that cannot be drawn, before the search."""
    if searched is not None and not {"k1", "b"} <= searched.keys():
        msg = "the picture is of k1 and b: search both"
        raise typer.BadParameter(msg, param_hint="--plot")
    require_drawable(plot)


def _build_commands(config: IndexConfig) -> dict[str, list[str]]:
    """Return the options with which an index is made with a config, and searched where it was made without."""
    settings = {"chunk_size": config.chunk_size, **evaluation.differing(IndexConfig(config.chunk_size), config)}
    of_query = {name: value for name, value in settings.items() if name in QUERY_NAMES}
    return {"ingest": format_options(settings), "search": format_options(of_query)}


def _to_plain(found: evaluation.Tuning, confirmed: float | None, commands: Mapping[str, list[str]]) -> dict[str, Any]:
    return {
        **asdict(found),
        "base": config_to_plain(found.base),
        "best": config_to_plain(found.best),
        "settings": found.settings,
        "points": [{"settings": settings, "mean": mean} for settings, mean in found.points],
        "pays": found.pays,
        "confirmed": confirmed,
        "python": evaluation.config_line(found.best),
        "commands": commands,
    }
