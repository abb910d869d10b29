"""``rag-bm25 evaluate``."""

# Typer reads annotations at run time: no ``from __future__ import annotations`` in modules with commands.

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from rag_bm25 import evaluation
from rag_bm25.analysis.config import Segmentation
from rag_bm25.cli import options as opt
from rag_bm25.cli.configurations import AUTO, chunk_size_of, config_of, evaluated, fields_of, plain_config, settings_of
from rag_bm25.cli.console import print_json, show
from rag_bm25.cli.rendering import comparison_table, evaluation_table
from rag_bm25.config import IndexConfig
from rag_bm25.document_encoder import LengthUnit
from rag_bm25.errors import InputError
from rag_bm25.evaluation import SETTING_NAMES, EvaluationResult, PairedTest
from rag_bm25.evaluation.settings import field_setting
from rag_bm25.similarity import IdfName
from rag_bm25.weightings import WeightingName


def evaluate(
    folder: opt.JudgedSet,
    split: opt.Split = "test",
    uri: opt.TemporaryUri = None,
    token: opt.Token = None,
    chunk_size: Annotated[
        str,
        typer.Option(metavar="NUMBER|auto", help="Constant in place of the mean length; auto: the corpus mean."),
    ] = AUTO,
    length_unit: Annotated[LengthUnit, typer.Option(help="What lengths are counted in.")] = "characters",
    k1: Annotated[float, typer.Option(help="Saturation of repeated terms.")] = 1.5,
    b: Annotated[float, typer.Option(help="Share of the length.")] = 0.75,
    weighting: Annotated[WeightingName, typer.Option(help="What occurrences in a chunk are worth.")] = "bm25",
    delta: opt.Delta = None,
    idf: Annotated[IdfName, typer.Option(help="IDF formula.")] = "epsilon",
    epsilon: Annotated[float, typer.Option(help="Factor of the floor of the epsilon IDF.")] = 0.25,
    k3: Annotated[
        float | None,
        typer.Option(show_default=False, help="Saturation of repeated query terms; by default linear."),
    ] = None,
    field: opt.Fields = None,
    segmentation: Annotated[Segmentation, typer.Option(help="How Chinese in chunks is cut.")] = "search",
    query_segmentation: Annotated[Segmentation, typer.Option(help="How Chinese in queries is cut.")] = "search",
    stem: Annotated[bool, typer.Option(help="Stem English words.")] = True,
    simplify: Annotated[bool, typer.Option(help="Traditional Chinese to simplified.")] = True,
    bigrams: Annotated[bool, typer.Option(help="Chinese bigrams beside words.")] = True,
    bigram_weight: Annotated[float, typer.Option(min=0, help="Weight of Chinese bigrams beside words.")] = 0.4,
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

    The text of a document begins with its title, unless that is a field: --field title:30, or field=title:30 and
    field=none in --compare. There is no other field in BEIR form.

    With --compare, each configuration stands beside the one of the options. p is that of a paired randomisation test
    over the queries; with several, adjusted by Holm's method. Those that differ on the query's side alone, as by
    idf, k3 or bigram_weight, share an index.
    """
    base = {name: value for name, value in locals().items() if name in SETTING_NAMES}
    base["chunk_size"] = chunk_size_of(chunk_size)
    base["field"] = field_setting(fields_of(field))
    changes = [{}, *(settings_of(text, "--compare") for text in compare or ())]
    labels = ["as given", *(compare or ())]
    if run is not None and not run.parent.is_dir():
        msg = f"there is no folder {run.parent} to put {run.name} in"
        raise InputError(msg)
    dataset = evaluation.load_beir(folder, split)
    configs = [config_of({**base, **change}, dataset) for change in changes]
    results = evaluated(configs, dataset, uri, token, progress)
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
    return {**result.to_dict(), "chunk_size": config.chunk_size, "config": plain_config(config)}


def _plain_tests(row: Sequence[PairedTest]) -> dict[str, Any]:
    return {measure: asdict(test) for measure, test in zip(evaluation.MEASURES, row, strict=True)}
