"""``rag-bm25 evaluate`` and ``tune``."""

# Typer reads annotations at run time: no ``from __future__ import annotations`` in modules with commands.

import secrets
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from rag_bm25 import evaluation
from rag_bm25.analysis import AnalyzerConfig
from rag_bm25.cli import ingesting, searching
from rag_bm25.cli import options as opt
from rag_bm25.cli.console import count_bars, print_json, print_note, show
from rag_bm25.cli.rendering import comparison_table, evaluation_table, tuning_report
from rag_bm25.config import IndexConfig
from rag_bm25.document_encoder import LengthUnit
from rag_bm25.errors import InputError, ParameterError
from rag_bm25.evaluation import BeirDataset, EvaluationResult, PairedTest
from rag_bm25.evaluation.heat_map import require_drawable
from rag_bm25.evaluation.settings import Value, parse_setting, parse_value
from rag_bm25.evaluation.tuning import GRIDS
from rag_bm25.index import BM25Index
from rag_bm25.similarity import IdfName

Segmentation = Literal["search", "exact"]
Measure = Literal["ndcg@10", "recall@100", "mrr@10"]

AUTO = "auto"
AGREEMENT = 1e-3  # of a mean computed on counts and the same mean through Milvus, where ties may fall otherwise

Folder = Annotated[
    Path, typer.Argument(metavar="DIR", show_default=False, help="A set in BEIR form: corpus, queries, qrels.")
]
Split = Annotated[str, typer.Option(help="Which judgements: qrels/SPLIT.tsv.")]
TemporaryUri = Annotated[
    str | None,
    typer.Option(show_default=False, help="Where to put the temporary index; by default a temporary folder."),
]


def _chunk_size(text: str) -> float | str:
    """Read a number, or ``auto``."""
    if text == AUTO:
        return text
    try:
        return float(text)
    except ValueError:
        msg = f"must be a number or 'auto', got {text!r}"
        raise typer.BadParameter(msg) from None


def evaluate(
    folder: Folder,
    split: Split = "test",
    uri: TemporaryUri = None,
    token: opt.Token = None,
    chunk_size: Annotated[
        str,
        typer.Option(metavar="NUMBER|auto", help="Constant in place of the mean length; auto: the corpus mean."),
    ] = AUTO,
    length_unit: Annotated[LengthUnit, typer.Option(help="What lengths are counted in.")] = "characters",
    k1: Annotated[float, typer.Option(help="Saturation of repeated terms.")] = 1.5,
    b: Annotated[float, typer.Option(help="Share of the length.")] = 0.75,
    idf: Annotated[IdfName, typer.Option(help="IDF formula.")] = "epsilon",
    epsilon: Annotated[float, typer.Option(help="Factor of the floor of the epsilon IDF.")] = 0.25,
    k3: Annotated[
        float | None,
        typer.Option(show_default=False, help="Saturation of repeated query terms; by default linear."),
    ] = None,
    segmentation: Annotated[Segmentation, typer.Option(help="How Chinese in chunks is cut.")] = "search",
    query_segmentation: Annotated[Segmentation, typer.Option(help="How Chinese in queries is cut.")] = "search",
    stem: Annotated[bool, typer.Option(help="Stem English words.")] = True,
    simplify: Annotated[bool, typer.Option(help="Traditional Chinese to simplified.")] = True,
    compare: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE,...",
            show_default=False,
            help="Compare with another configuration, given by what differs, as in k1=0.9,b=0.4; may be repeated.",
        ),
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option(show_default=False, help="Write the rankings as a TREC run; of several, as FILE-1, FILE-2, ..."),
    ] = None,
    progress: opt.ShowProgress = None,
    as_json: opt.AsJson = False,
) -> None:
    """Measure retrieval on a judged set in BEIR form, and compare configurations.

    Prints nDCG@10, Recall@100, MRR@10 and the speed. The documents, each as one chunk, go to a temporary index, which
    is dropped at the end. MILVUS_URI is not used here: a server is only written to where --uri names it.

    With --compare, each configuration stands beside the one of the options. p is that of a paired randomisation test
    over the queries; with several, adjusted by Holm's method. Those that differ by idf, epsilon or k3 alone need no
    index of their own.
    """
    base: dict[str, Value] = {
        "chunk_size": _chunk_size(chunk_size),
        "length_unit": length_unit,
        "k1": k1,
        "b": b,
        "idf": idf,
        "epsilon": epsilon,
        "k3": k3,
        "segmentation": segmentation,
        "query_segmentation": query_segmentation,
        "stem": stem,
        "simplify": simplify,
    }
    changes = [{}, *(_settings(text, "--compare") for text in compare or ())]
    labels = ["as given", *(compare or ())]
    if run is not None and not run.parent.is_dir():
        msg = f"there is no folder {run.parent} to put {run.name} in"
        raise InputError(msg)
    dataset = evaluation.load_beir(folder, split)
    configs = [_config({**base, **change}, dataset) for change in changes]
    results = _evaluated(configs, dataset, uri, token, progress)
    if run is not None:
        _write_runs(run, labels, results)
    tests = [_tests(results, measure) for measure in evaluation.MEASURES]
    if as_json:
        compared = [
            {"compare": label, **_plain_result(result, config), "tests": _plain_tests(row)}
            for label, result, config, row in zip(
                labels[1:], results[1:], configs[1:], zip(*tests, strict=True), strict=True
            )
        ]
        print_json({**_plain_result(results[0], configs[0]), **({"compared": compared} if compared else {})})
        return
    show(evaluation_table(folder.resolve().name, results[0], configs[0]))
    if len(results) > 1:
        show("", comparison_table(labels, results, tests[0]))


def _evaluated(
    configs: Sequence[IndexConfig], dataset: BeirDataset, uri: str | None, token: str | None, progress: bool | None
) -> list[EvaluationResult]:
    totals = {
        "chunks": len(dataset.corpus) * evaluation.num_indexes(configs),
        "queries": len(dataset.queries) * len(configs),
    }
    with count_bars(progress, totals) as move:
        return evaluation.evaluate_each(configs, dataset, partial(_temporary_index, uri, token), move)


def _tests(results: Sequence[EvaluationResult], measure: evaluation.MeasureName) -> list[PairedTest]:
    """Compare each result with the first one, the p-values adjusted for their number."""
    first, *others = (result.per_query.values[measure] for result in results)
    tests = [evaluation.paired_test(first, other) for other in others]
    adjusted = evaluation.holm([test.p_value for test in tests])
    return [replace(test, p_value=p_value) for test, p_value in zip(tests, adjusted, strict=True)]


def _write_runs(path: Path, labels: Sequence[str], results: Sequence[EvaluationResult]) -> None:
    for place, (label, result) in enumerate(zip(labels, results, strict=True), 1):
        file = path if len(results) == 1 else path.with_name(f"{path.stem}-{place}{path.suffix}")
        evaluation.write_run(file, result.run, "rag_bm25" if place == 1 else "".join(label.split()))


def _plain_result(result: EvaluationResult, config: IndexConfig) -> dict[str, Any]:
    return {**result.to_dict(), "chunk_size": config.chunk_size, "config": _plain(config)}


def _plain_tests(row: Sequence[PairedTest]) -> dict[str, Any]:
    return {measure: asdict(test) for measure, test in zip(evaluation.MEASURES, row, strict=True)}


def tune(
    folder: Folder,
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
    uri: TemporaryUri = None,
    token: opt.Token = None,
    progress: opt.ShowProgress = None,
    as_json: opt.AsJson = False,
) -> None:
    """Search for the best parameters on a judged set in BEIR form.

    k1 and b are searched over all their combinations, the others one after the other, again and again until nothing
    gains. The corpus is analysed once for each analyzer; no index is needed but for confirming the winner.

    The winner is shown with what tuning gained on queries that it had not seen, by cross-validation or on --split
    where --tune-split names others to search on; p is that of a paired randomisation test.
    """
    wanted = _wanted(search) if search else None
    if plot is not None:
        _require_plot(plot, wanted)
    dataset = evaluation.load_beir(folder, split)
    training = None if tune_split is None else evaluation.load_beir(folder, tune_split)
    start = _config({"chunk_size": AUTO, **_settings(base, "--base")}, dataset)
    start = replace(start, chunk_size=max(1, round(start.chunk_size)))
    axes = evaluation.axes_for(start, wanted)
    with count_bars(progress, {"documents": len(dataset.corpus), "configurations": None}) as move:
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
        with _as_usage("--search"):
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
    [result] = _evaluated([found.best], dataset, uri, token, progress)
    return result.measures.to_dict()[found.measure]


def _flags(config: IndexConfig, command: Callable[..., None]) -> list[str]:
    """Return the options with which a command uses a config, as far as it has them."""
    settings = {"chunk_size": config.chunk_size, **evaluation.differing(IndexConfig(config.chunk_size), config)}
    known = {name: value for name, value in settings.items() if name in signature(command).parameters}
    return [_flag(name.replace("_", "-"), value) for name, value in known.items()]


def _flag(name: str, value: Value) -> str:
    if isinstance(value, bool):
        return f"--{name}" if value else f"--no-{name}"
    return f"--{name} {value:g}" if isinstance(value, float | int) else f"--{name} {value}"


def _plain_tuning(found: evaluation.Tuning, confirmed: float | None, commands: Mapping[str, list[str]]) -> Any:
    plain = {**asdict(found), "base": _plain(found.base), "best": _plain(found.best), "settings": found.settings}
    points = [{"settings": settings, "mean": mean} for settings, mean in found.points]
    return {
        **plain,
        "points": points,
        "pays": found.pays,
        "confirmed": confirmed,
        "python": evaluation.config_line(found.best),
        "commands": commands,
    }


# Configurations


def _settings(text: str, option: str) -> dict[str, Value]:
    """Read ``name=value,name=value``."""
    settings: dict[str, Value] = {}
    for part in filter(None, text.split(",")):
        with _as_usage(option):
            name, value = parse_setting(part)
        if not value:
            msg = f"must be NAME=VALUE,..., got {text!r}"
            raise typer.BadParameter(msg, param_hint=option)
        settings[name] = parse_value(value)
    return settings


@contextmanager
def _as_usage(option: str) -> Iterator[None]:
    """Report an unknown name as wrong usage."""
    try:
        yield
    except ParameterError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def _config(settings: Mapping[str, Value], dataset: BeirDataset) -> IndexConfig:
    """Return the config with these settings; the chunk size may be the mean of the corpus."""
    given = {name: value for name, value in settings.items() if (name, value) != ("chunk_size", AUTO)}
    config = evaluation.with_settings(IndexConfig(1), given)
    if "chunk_size" in given:
        return config
    mean = evaluation.mean_length(dataset.corpus.values(), config.length_unit, config.build_analyzer())
    return replace(config, chunk_size=mean)


@contextmanager
def _temporary_index(uri: str | None, token: str | None, config: IndexConfig) -> Iterator[BM25Index]:
    """Create an index, and leave nothing of it."""
    from rag_bm25.milvus_store import MilvusStore

    with tempfile.TemporaryDirectory(prefix="rag-bm25-") as folder:
        place = Path(folder, "evaluate.db") if uri is None else uri
        store = MilvusStore(place, f"evaluate_{secrets.token_hex(6)}", token=token)
        with BM25Index.from_store(store, config=config) as index:
            try:
                yield index
            finally:
                store.drop()


def _plain(config: IndexConfig) -> dict[str, Any]:
    analyzer = config.analyzer
    return {**asdict(config), "analyzer": analyzer.to_dict() if isinstance(analyzer, AnalyzerConfig) else None}
